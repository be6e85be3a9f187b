"""What a Talos worker needs of the network around it, read from its machine configuration and from the lab's cluster.

Sources: siderolabs/talos website "Ingress Firewall" (ports), squat/kilo docs/annotations.md (endpoint and keepalive).
Machines of the control plane are the records of package ``talos``, kind ``machine``.
"""

import gzip
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

import yaml

from .world import World

APID, KUBELET, API_SERVER, WIREGUARD = 50000, 10250, 6443, 51820
ON_THE_INTERNET = "203.0.113.77"
"""Stands for any public address: RFC 5737 keeps this range out of use."""
KILO = "kilo.squat.ai/"
OVERLAYS = (4789, 6081, 8472)
"""UDP ports of the networks' own tunnels (VXLAN, Geneve), which a rule for the mesh is not about."""
SERVICES = (
    (APID, "the Talos API", "the machine gets no provider ID"),
    (KUBELET, "the kubelet", "logs, exec and metrics do not work"),
)
"""What control planes reach on a worker: port, name, and what is missing otherwise."""


@dataclass(frozen=True)
class Needs:
    """What a worker's machine configuration says of its traffic."""

    mesh: str
    """``kilo``, ``kubespan`` or nothing."""
    mesh_port: int | None
    """UDP port of the mesh, or None when the configuration does not name it."""
    keepalive: bool
    pod_ranges: tuple[str, ...]
    cluster_id: str
    """Which cluster it belongs to, or nothing when the configuration does not say."""
    api_host: str
    api_port: int

    @property
    def target(self) -> str:
        """What the machine must reach before all else, in words."""
        return f"the Kubernetes API at {self.api_host or 'its endpoint'}:{self.api_port}"


def _dig(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def read_machine_config(data: bytes | None) -> Needs | None:
    """Return what a Talos worker needs, or None when the bytes are no Talos configuration."""
    if not data:
        return None
    try:
        text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        documents = [doc for doc in yaml.safe_load_all(text) if isinstance(doc, dict)]
    except (OSError, EOFError, zlib.error, ValueError, yaml.YAMLError):
        return None
    main = next((doc for doc in documents if isinstance(doc.get("machine"), dict) and "kind" not in doc), None)
    if main is None:
        return None
    annotations = {str(k): str(v) for k, v in (_dig(main, "machine.nodeAnnotations") or {}).items()}
    for doc in documents:
        if doc.get("kind") == "KubeNodeConfig":
            annotations |= {str(k): str(v) for k, v in (doc.get("annotations") or {}).items()}
    kilo = {key.removeprefix(KILO): value for key, value in annotations.items() if key.startswith(KILO)}
    kubespan = _dig(main, "machine.network.kubespan.enabled") is True or any(
        doc.get("kind") == "KubeSpanConfig" and doc.get("enabled") is True for doc in documents
    )
    endpoint = urlsplit(str(_dig(main, "cluster.controlPlane.endpoint") or ""))
    return Needs(
        mesh="kubespan" if kubespan else "kilo" if kilo else "",
        mesh_port=WIREGUARD if kubespan else _port(kilo.get("force-endpoint", "")),
        keepalive=kubespan or kilo.get("persistent-keepalive", "0").strip() not in ("", "0"),
        pod_ranges=tuple(map(str, _dig(main, "cluster.network.podSubnets") or ())),
        cluster_id=str(_dig(main, "cluster.id") or ""),
        api_host=endpoint.hostname or "",
        api_port=endpoint.port or API_SERVER,
    )


def _port(endpoint: str) -> int | None:
    tail = endpoint.rpartition(":")[2]
    return int(tail) if tail.isdigit() else None


def kilo_arguments(world: World, needs: Needs) -> Iterator[str]:
    """Yield the arguments of the DaemonSets of a worker's cluster, of which Kilo is one."""
    cluster = world.get("talos", "cluster", needs.cluster_id) if needs.cluster_id else None
    for record in world.find("kubernetes"):
        if needs.cluster_id and (cluster is None or not record.id.startswith(f"{cluster['key']}/")):
            continue
        if "DaemonSet" in record.kind or record.doc.get("kind") == "DaemonSet":
            for container in _dig(record.doc, "spec.template.spec.containers") or ():
                yield from (str(argument) for argument in container.get("args") or ())


def mesh_port(world: World, needs: Needs) -> int | None:
    """Return the UDP port that the mesh listens on, or None when nothing says it."""
    if needs.mesh_port:
        return needs.mesh_port
    return next((int(a.partition("=")[2]) for a in kilo_arguments(world, needs) if a.startswith("--port=")), None)


def is_address(text: str) -> bool:
    """Say whether a text is an IPv4 address."""
    try:
        return ip_address(text).version == 4
    except ValueError:
        return False


def first_address(text: str) -> str | None:
    """Return an address of an IPv4 range, or None when the text is none."""
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        return None
    return str(network[0] if network.num_addresses == 1 else network[1]) if network.version == 4 else None


def inside_sources(world: World, needs: Needs) -> dict[str, str]:
    """Return addresses that must reach a worker's services, each with what it is; none without a control plane."""
    # The lab may hold several clusters; a configuration without an id counts for all of them.
    own = {"cluster_id": needs.cluster_id} if needs.cluster_id else {}
    machines = [record.doc for record in world.find("talos", "machine", **own)]
    planes = [
        str(m["address"]) for m in machines if m.get("role") == "controlplane" and is_address(str(m.get("address")))
    ]
    if not planes:
        return {}
    sources = {address: "a control plane" for address in planes}
    ranges = [(text, "the pod range") for text in needs.pod_ranges]
    ranges += [
        (a.partition("=")[2], "the mesh range") for a in kilo_arguments(world, needs) if a.startswith("--subnet=")
    ]
    for text, what in ranges:
        if first := first_address(text):
            sources.setdefault(first, f"{what} {text}")
    return sources
