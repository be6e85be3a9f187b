"""From the places of a cluster to what the mesh asks of each. Pure: nothing is deployed here.

What Kilo makes of the annotations: squat/kilo `docs/annotations.md`, `docs/topology.md`, `pkg/k8s/backend.go`,
`pkg/mesh/topology.go`. What KubeSpan makes of its documents: siderolabs/talos `pkg/machinery/config/types/network/`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import AddressValueError, IPv4Address, IPv4Network
from typing import Any

import yaml

from .cni import Cni
from .mesh_location import MeshLocation

ANNOTATION = "kilo.squat.ai"
"""Prefix of Kilo's node annotations."""

KUBEPRISM_PORT = 7445
"""Where every Talos machine finds the API servers on its loopback address."""

KUBESPAN_PORT = 51820
"""The one port that KubeSpan uses (siderolabs/talos `pkg/machinery/constants/constants.go`)."""

WIREGUARD_OVERHEAD = 80
"""Bytes that WireGuard adds to a packet, over IPv6 at worst."""

ANYWHERE = IPv4Network("0.0.0.0/0")

# Kilo reads a name only in the lower-case form of RFC 1123 and drops any other without a word
# (squat/kilo pkg/wireguard/conf.go, ParseEndpoint).
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*")


class MeshKind(StrEnum):
    """What joins the locations."""

    KILO = "kilo"
    """WireGuard tunnels that Kilo's agent builds, in the cluster."""
    KUBESPAN = "kubespan"
    """WireGuard tunnels that Talos itself builds, between all machines."""


class Granularity(StrEnum):
    """Between what Kilo builds its tunnels."""

    FULL = "full"
    """Between all machines."""
    LOCATION = "location"
    """Between locations, through one machine of each."""


PAIRS: Mapping[Cni, Granularity] = {Cni.FLANNEL: Granularity.FULL, Cni.CILIUM: Granularity.LOCATION}
"""The granularity that works with each pod network (squat/kilo#485, and its `manifests/kilo-kubeadm-*.yaml`)."""


@dataclass(frozen=True)
class Endpoint:
    """Where the others reach a location."""

    host: str
    port: int

    @property
    def address(self) -> IPv4Address | None:
        """The host as an address; None when it is a name."""
        try:
            return IPv4Address(self.host)
        except AddressValueError:
            return None

    def __str__(self) -> str:
        """Write it as Kilo and KubeSpan read it."""
        return f"{self.host}:{self.port}"


def parse_endpoint(text: str, port: int) -> Endpoint:
    """Return the endpoint that ``text`` names, on ``port`` unless it says another; ValueError when it is none."""
    host, colon, written = text.lower().partition(":")
    number = int(written) if written.isdecimal() and len(written) <= 5 else 0
    dotted = host.replace(".", "").isdecimal()
    try:
        usable = not (address := IPv4Address(host)).is_loopback and not address.is_unspecified
    except AddressValueError:
        usable = not dotted and _HOST.fullmatch(host) is not None
    if not usable or (colon and not 1 <= number <= 65535):
        raise ValueError("must be a host or host:port that the other locations reach, such as wg.example.com:51820")
    return Endpoint(host, number or port)


@dataclass(frozen=True)
class Place:
    """One location, as the mesh sees it."""

    name: str
    cidrs: tuple[IPv4Network, ...]
    endpoint: Endpoint | None = None
    behind_nat: bool = False
    exposed: tuple[IPv4Network, ...] = ()
    path_mtu: int = 1500

    @property
    def single(self) -> bool:
        """Whether only one machine fits into it."""
        return len(self.cidrs) == 1 and self.cidrs[0].prefixlen == 32

    @property
    def public(self) -> bool:
        """Whether Kilo takes its machines' own addresses for public ones: `isPublic` in squat/kilo `pkg/mesh/ip.go`.

        Kilo looks at the machine's own interfaces. A cloud's public address is translated in front of
        them, so machines of Azure and Alibaba Cloud are not public in this sense even when they have one.
        """
        private = [IPv4Network(cidr) for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
        return not any(mine.overlaps(other) for mine in self.cidrs for other in private)


@dataclass(frozen=True)
class MeshPlan:
    """The whole mesh."""

    kind: MeshKind
    cni: Cni
    granularity: Granularity
    cidr: IPv4Network
    port: int
    keepalive: int
    mtu: int | None
    pod_cidr: IPv4Network
    service_cidr: IPv4Network
    places: tuple[Place, ...]
    peers: IPv4Network | None = None
    """Range of the peers that are no nodes."""

    @property
    def kilo(self) -> bool:
        """Whether Kilo is the mesh."""
        return self.kind is MeshKind.KILO

    def shares_endpoint(self, place: Place) -> bool:
        """Whether one endpoint stands in front of several machines that are peers each."""
        return self.granularity is Granularity.FULL and not place.single

    def forced_endpoint(self, place: Place) -> Endpoint | None:
        """Return the endpoint that the machines of ``place`` announce in place of the one that Kilo detects.

        - Peers are locations: whichever machine leads is announced under the location's endpoint. UDP
          must be forwarded to that leader: the ready machine whose name sorts first.
        - Peers are machines with addresses of their own that others reach: those are right, one shared endpoint
          would hide all but one of them. The same holds with leaders, since Kilo makes each machine without a
          private address a location of its own.
        - Peers are machines behind one shared endpoint: every machine announces it and keeps its tunnels
          alive. The one that the port is forwarded to answers; it learns where the others are reached and
          tells all through its discovered endpoints, which then go before the announced one.
        """
        if place.endpoint is None or (place.public and not place.behind_nat and not place.single):
            return None
        return place.endpoint

    def keeps_alive(self, place: Place) -> bool:
        """Whether machines of ``place`` must send regularly, so that others can send to them.

        So it is behind NAT, and wherever Kilo cannot see the address that others use: only for peers with a
        keepalive does it replace the announced endpoint by the one that packets really come from.
        """
        if place.behind_nat:
            return True
        if place.public:
            return False
        return place.endpoint is None or self.shares_endpoint(place)

    def dialled(self, place: Place) -> bool:
        """Whether the others know an endpoint of ``place`` beforehand."""
        return place.endpoint is not None or (place.public and not place.behind_nat)

    def every_peer_reachable(self, place: Place) -> bool:
        """Whether each peer of ``place`` can be sent to by a stranger whose own address changes."""
        if place.endpoint is not None and not self.shares_endpoint(place):
            return True
        return not place.behind_nat and (place.public or place.endpoint is None)

    def port_of(self, place: Place) -> int:
        """Return the UDP port on which machines of ``place`` listen: Kilo takes it from a forced endpoint."""
        forced = self.forced_endpoint(place) if self.kilo else None
        return forced.port if forced else self.port


def outermost(networks: Sequence[IPv4Network]) -> list[IPv4Network]:
    """Drop networks that lie within another: a subnet within its own network is no conflict."""
    distinct = sorted(set(networks))
    return [one for one in distinct if not any(one != other and one.subnet_of(other) for other in distinct)]


def _text(networks: Sequence[IPv4Network]) -> list[str]:
    return [str(network) for network in outermost(networks)]


def _firewall_sources(plan: MeshPlan, place: Place) -> list[str]:
    """Return who may send to the mesh's port in ``place``."""
    # With full granularity machines of one location are peers of each other too.
    sources: list[IPv4Network] = list(place.cidrs) if plan.granularity is Granularity.FULL or not plan.kilo else []
    for other in plan.places:
        if other is place:
            continue
        address = other.endpoint.address if other.endpoint else None
        if other.public and not other.behind_nat:
            sources += other.cidrs
        if address is not None:
            sources.append(IPv4Network(address))
        elif other.endpoint is not None or not other.public or other.behind_nat:
            # A name, or an address that the cloud hands out when a machine comes: not known beforehand.
            return [str(ANYWHERE)]
    return _text(sources)


def _annotations(plan: MeshPlan, place: Place) -> dict[str, str]:
    found = {f"{ANNOTATION}/location": place.name}
    if plan.keeps_alive(place):
        # Whole seconds as text: Kilo reads "20s" as 0 without an error.
        found[f"{ANNOTATION}/persistent-keepalive"] = str(plan.keepalive)
    if forced := plan.forced_endpoint(place):
        found[f"{ANNOTATION}/force-endpoint"] = str(forced)
    if place.exposed:
        # No blank after the comma: Kilo drops an entry that has one.
        found[f"{ANNOTATION}/allowed-location-ips"] = ",".join(_text(place.exposed))
    return found


def _kilo_patch(annotations: Mapping[str, str]) -> list[dict[str, Any]]:
    # Kilo reaches the API through KubePrism, since the service address works only once the mesh does.
    prism = {"kubePrism": {"enabled": True, "port": KUBEPRISM_PORT}}
    return [{"machine": {"features": prism, "nodeAnnotations": dict(annotations)}}]


def _kubespan_patch(plan: MeshPlan, place: Place) -> list[dict[str, Any]]:
    # One value for all machines: the smallest path decides, or large packets vanish on the way there.
    smallest = min(other.path_mtu for other in plan.places) - WIREGUARD_OVERHEAD
    documents: list[dict[str, Any]] = [
        {
            "apiVersion": "v1alpha1",
            "kind": "KubeSpanConfig",
            "enabled": True,
            "mtu": plan.mtu or smallest,
            # Peers try every address that a machine announces, one after the other. Those of bridges and services lead
            # nowhere, and the firewalls here know IPv4 alone.
            "filters": {"endpoints": [str(ANYWHERE), f"!{plan.pod_cidr}", f"!{plan.service_cidr}"]},
        }
    ]
    if place.endpoint is not None:
        documents.append(
            {
                "apiVersion": "v1alpha1",
                "kind": "KubeSpanEndpointsConfig",
                "extraAnnouncedEndpoints": [str(place.endpoint)],
            }
        )
    return documents


def locations(plan: MeshPlan) -> dict[str, MeshLocation]:
    """Return what the mesh asks of each location, by its name."""
    result: dict[str, MeshLocation] = {}
    for place in plan.places:
        annotations = _annotations(plan, place) if plan.kilo else {}
        patch = _kilo_patch(annotations) if plan.kilo else _kubespan_patch(plan, place)
        inside = [network for other in plan.places if other is not place for network in other.cidrs]
        inside += [plan.pod_cidr, *([plan.cidr] if plan.kilo else [])]
        # A peer keeps its own address through the leader that forwards its packets.
        inside += [plan.peers] if plan.peers is not None else []
        result[place.name] = MeshLocation(
            config_patch=yaml.safe_dump_all(patch, default_flow_style=False, sort_keys=True, width=1000),
            annotations=annotations,
            firewall_port=plan.port_of(place),
            firewall_sources=_firewall_sources(plan, place),
            internal_cidrs=_text(inside),
        )
    return result
