"""Findings about the mesh, by what Kilo's agents write on Nodes (squat/kilo `pkg/k8s/backend.go`)."""

from collections.abc import Mapping, Sequence

from hybrid_talos.node_template import POOL_LABEL

from .facts import Cluster, Object, labels_of, name_of
from .finding import CLUSTER, Finding, Level, few

PREFIX = "kilo.squat.ai/"
STALE_SECONDS = 300
"""Agents check in every 30 seconds, and are no peers to others after 60 (squat/kilo `pkg/mesh/mesh.go`)."""


def runs_kilo(cluster: Cluster) -> bool:
    """Return whether the cluster has Kilo's agents."""
    return any(
        "/kilo:" in str(container.get("image"))
        for one in cluster.daemon_sets
        for container in one["spec"]["template"]["spec"].get("containers") or ()
    )


def mesh_findings(cluster: Cluster, pools: Mapping[str, str]) -> list[Finding]:
    """Return nodes and whole locations that the mesh has lost; ``pools`` are names of pools by their label's value."""
    if not runs_kilo(cluster):
        return []
    found: list[Finding] = []

    def say(level: Level, nodes: Sequence[Object], what: str, why: str, do: str) -> None:
        found.extend(Finding(level, "mesh", what, why, do, pool) for pool in _owners(nodes, pools))

    bare = [node for node in cluster.nodes if not _said(node).get(f"{PREFIX}key")]
    if bare:
        say(
            Level.STOPS,
            bare,
            f"Kilo's agent has written nothing on {_names(bare)}",
            "no other location reaches these nodes, and Talos' cloud controller writes them no provider id",
            "read the log of Kilo's pod there",
        )
    locations: dict[str, list[Object]] = {}
    for node in cluster.nodes:
        if node not in bare:
            locations.setdefault(_location(node), []).append(node)
    for name, nodes in sorted(locations.items()):
        old = [node for node in nodes if not _fresh(node, cluster.now)]
        if len(old) == len(nodes):
            say(
                Level.STOPS,
                nodes,
                f"the location {name} is cut off: none of its {len(nodes)} nodes checked in for 5 minutes",
                "its machines become unready, and new ones there do not join",
                "see that its UDP port of the mesh is reached from the other locations (docs/mesh.md)",
            )
        elif old:
            say(
                Level.HINDERS,
                old,
                f"Kilo's agents did not check in for 5 minutes: {_names(old)}",
                "the others drop their tunnels to them",
                "read the log of Kilo's pod there",
            )
        if len(locations) > 1 and not any(_endpoint(node) for node in nodes):
            say(
                Level.STOPS,
                nodes,
                f"no node of {name} has an address that the mesh can be reached at",
                "no tunnel leads there from another location",
                "give the location a publicEndpoint, or its machines public addresses",
            )
    if not found:
        names = sorted(locations)
        found.append(Finding(Level.FINE, "mesh", f"all nodes check in, in {len(names)} locations: {few(names, 5)}"))
    return found


def _owners(nodes: Sequence[Object], pools: Mapping[str, str]) -> list[str]:
    """Return the pools that lack what these nodes lack: the whole cluster when one of them is of no pool at all."""
    labels = {labels_of(node).get(POOL_LABEL) for node in nodes}
    if None in labels:
        return [CLUSTER]
    return sorted(pools[label] for label in labels if label is not None and label in pools)


def _names(nodes: Sequence[Object]) -> str:
    return few(sorted(name_of(node) for node in nodes))


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
