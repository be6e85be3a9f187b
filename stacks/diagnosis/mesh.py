"""Findings about the mesh, by what Kilo's agents write on Nodes (squat/kilo `pkg/k8s/backend.go`)."""

from collections.abc import Mapping, Sequence

from .facts import Cluster, Object, name_of
from .finding import Finding, Level, few

PREFIX = "kilo.squat.ai/"
STALE_SECONDS = 300
"""Agents check in every 30 seconds, and are no peers to others after 60 (squat/kilo `pkg/mesh/mesh.go`)."""

_WRITTEN = ("endpoint", "internal-ip", "key", "wireguard-ip")


def runs_kilo(cluster: Cluster) -> bool:
    """Return whether the cluster has Kilo's agents."""
    return any(
        "/kilo:" in str(container.get("image"))
        for one in cluster.daemon_sets
        for container in one["spec"]["template"]["spec"].get("containers") or ()
    )


def mesh_findings(cluster: Cluster) -> list[Finding]:
    """Return nodes and whole locations that the mesh has lost."""
    if not runs_kilo(cluster):
        return []
    found: list[Finding] = []
    bare = sorted(
        name_of(node) for node in cluster.nodes if any(PREFIX + key not in _said(node) for key in _WRITTEN[2:])
    )
    if bare:
        found.append(
            Finding(
                Level.STOPS,
                "mesh",
                f"Kilo's agent has written nothing on {few(bare)}",
                "no other location reaches these nodes, and Talos' cloud controller writes them no provider id",
                "read the log of Kilo's pod there",
            )
        )
    old = [node for node in cluster.nodes if name_of(node) not in bare and not _fresh(node, cluster.now)]
    locations: dict[str, list[Object]] = {}
    for node in cluster.nodes:
        if name_of(node) not in bare:
            locations.setdefault(_location(node), []).append(node)
    lost = sorted(name for name, nodes in locations.items() if all(node in old for node in nodes))
    for name in lost:
        found.append(
            Finding(
                Level.STOPS,
                "mesh",
                f"the location {name} is cut off: none of its {len(locations[name])} nodes checked in for 5 minutes",
                "its machines become unready, and new ones there do not join",
                "see that its UDP port of the mesh is reached from the other locations (docs/mesh.md)",
            )
        )
    single = sorted(name_of(node) for node in old if _location(node) not in lost)
    if single:
        found.append(
            Finding(
                Level.HINDERS,
                "mesh",
                f"Kilo's agents did not check in for 5 minutes: {few(single)}",
                "the others drop their tunnels to them",
                "read the log of Kilo's pod there",
            )
        )
    found += _without_endpoint(locations)
    if not found:
        names = sorted(locations)
        found.append(Finding(Level.FINE, "mesh", f"all nodes check in, in {len(names)} locations: {few(names, 5)}"))
    return found


def _without_endpoint(locations: Mapping[str, Sequence[Object]]) -> list[Finding]:
    if len(locations) < 2:
        return []
    deaf = sorted(name for name, nodes in locations.items() if not any(_endpoint(node) for node in nodes))
    if not deaf:
        return []
    return [
        Finding(
            Level.STOPS,
            "mesh",
            f"no node of {few(deaf)} has an address that the mesh can be reached at",
            "no tunnel leads there from another location",
            "give the location a publicEndpoint, or its machines public addresses",
        )
    ]


def _said(node: Object) -> Mapping[str, str]:
    return node["metadata"].get("annotations") or {}


def _location(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    return str(_said(node).get(f"{PREFIX}location") or labels.get("topology.kubernetes.io/region") or "without a name")


def _endpoint(node: Object) -> str:
    return str(_said(node).get(f"{PREFIX}force-endpoint") or _said(node).get(f"{PREFIX}endpoint") or "")


def _fresh(node: Object, now: float) -> bool:
    try:
        return now - int(_said(node)[f"{PREFIX}last-seen"]) <= STALE_SECONDS
    except (KeyError, ValueError):
        return False
