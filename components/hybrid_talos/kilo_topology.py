"""From a cluster's Nodes to the tunnels that a client of Kilo's mesh needs. Pure.

The same as `kgctl showconf peer` makes of them: squat/kilo 0.7.0 `pkg/k8s/backend.go` (translateNode),
`pkg/mesh/topology.go` (NewTopology, findLeader, PeerConf), `pkg/mesh/backend.go` (Ready). Two things differ. A machine
that did not check in within the last minute still counts, since a file is read for longer than that; and its address in
the mesh is read, not computed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from .mesh_plan import ANNOTATION, Granularity
from .wireguard import Remote, checked_key

TOPOLOGY_LABEL = "topology.kubernetes.io/region"
"""The label that names a location where no annotation does (squat/kilo `docs/kg.md`, --topology-label)."""

_PRIVATE = [IPv4Network(cidr) for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]


@dataclass(frozen=True)
class KiloNode:
    """One machine, as Kilo's agent on it has described it."""

    name: str
    location: str
    key: str
    endpoint: str
    leader: bool
    keepalive: int
    pods: str
    internal: str | None
    wireguard: str | None
    further: tuple[str, ...]
    discovered: Mapping[str, str]

    @property
    def public(self) -> bool:
        """Whether its endpoint is a public address (squat/kilo `pkg/mesh/ip.go`, isPublic)."""
        try:
            address = IPv4Address(self.endpoint.rpartition(":")[0])
        except ValueError:
            return False
        return not any(address in private for private in _PRIVATE)


def kilo_node(node: Mapping[str, Any]) -> KiloNode | None:
    """Return a Node as the mesh sees it, or None when Kilo's agent has not described it yet."""
    metadata = node.get("metadata") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}

    def said(name: str) -> str:
        return str(annotations.get(f"{ANNOTATION}/{name}") or "")

    pods = str((node.get("spec") or {}).get("podCIDR") or "")
    endpoint = said("force-endpoint") or said("endpoint")
    try:
        key = checked_key(said("key"))
    except ValueError:
        return None
    if not pods or not endpoint:
        return None
    location = annotations.get(f"{ANNOTATION}/location")
    # Forced to nothing, a machine has no private address; the agent then writes none either.
    none_wanted = annotations.get(f"{ANNOTATION}/force-internal-ip") in ("", "-")
    internal = None if none_wanted else said("force-internal-ip") or said("internal-ip")
    keepalive = said("persistent-keepalive")
    return KiloNode(
        name=str(metadata.get("name")),
        location=str((metadata.get("labels") or {}).get(TOPOLOGY_LABEL) or "") if location is None else location,
        key=key,
        endpoint=endpoint,
        leader=f"{ANNOTATION}/leader" in annotations,
        keepalive=int(keepalive) if keepalive.isdecimal() else 0,
        pods=pods,
        internal=_host(internal) if internal else None,
        wireguard=_host(said("wireguard-ip")) if said("wireguard-ip") else None,
        further=tuple(sorted(cidr for cidr in said("allowed-location-ips").split(",") if cidr)),
        discovered=_discovered(said("discovered-endpoints")),
    )


def _host(cidr: str) -> str:
    return f"{cidr.partition('/')[0]}/32"


def _discovered(text: str) -> dict[str, str]:
    """Return where machines behind NAT were really met, by their keys."""
    try:
        found = json.loads(text) if text else {}
        return {str(key): f"{where['IP']}:{where['Port']}" for key, where in found.items()}
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def _leader(nodes: Sequence[KiloNode]) -> KiloNode:
    """Return who stands for machines that are sorted by name."""
    leaders = [node for node in nodes if node.leader]
    public = [node for node in nodes if node.public]
    both = [node for node in leaders if node.public]
    return next(iter([*both, *leaders, *public, *nodes]))


def remotes(nodes: Sequence[Mapping[str, Any]], granularity: Granularity) -> list[Remote]:
    """Return the tunnels that a client needs: one for each location, or for each machine; sorted by name."""
    known = [found for node in nodes if (found := kilo_node(node)) is not None]
    segments: dict[str, list[KiloNode]] = {}
    for node in sorted(known, key=lambda one: one.name):
        # A machine without a private address is a location of its own.
        alone = granularity is Granularity.FULL or node.internal is None
        segments.setdefault(f"node:{node.name}" if alone else f"location:{node.location}", []).append(node)
    discovered: dict[str, str] = {}
    for node in sorted(known, key=lambda one: one.name):
        discovered = {**node.discovered, **discovered}
    tunnels: list[Remote] = []
    for name, members in sorted(segments.items()):
        leader = _leader(members)
        allowed = [node.pods for node in members]
        allowed += [node.internal for node in members if node.internal is not None]
        allowed += [leader.wireguard] if leader.wireguard is not None else []
        allowed += [cidr for node in members for cidr in node.further]
        # Only for machines that keep their translation open is the endpoint that was met better than the one announced.
        endpoint = discovered.get(leader.key, leader.endpoint) if leader.keepalive else leader.endpoint
        tunnels.append(Remote(name.partition(":")[2], leader.key, tuple(dict.fromkeys(allowed)), endpoint))
    return tunnels
