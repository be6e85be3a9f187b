"""Rules about address ranges: every range against every other, and room enough in each."""

from collections.abc import Iterable, Iterator
from ipaddress import AddressValueError, IPv4Address

from hybrid_talos.address_plan import conflicts, node_room, outside
from hybrid_talos.mesh_plan import Granularity, MeshKind

from .settings_base import part
from .settings_claims import claims
from .settings_errors import Problem
from .settings_tree import Settings, Tree


def rules(tree: Tree) -> Iterator[Iterable[Problem]]:
    """Return the rules, each to be asked on its own."""
    yield _overlaps(tree)
    yield _host(tree)
    yield _sizes(tree)
    yield _pod_room(tree)
    yield _mesh_room(tree)


def _overlaps(tree: Tree) -> Iterator[Problem]:
    found = claims(tree)
    for conflict in conflicts(found):
        yield Problem(conflict.second.setting, str(conflict))
    for claim, parent in outside(found):
        yield Problem(
            claim.setting,
            f"{claim.network} ({claim.owner}) is not inside {parent.network} ({parent.owner}, {parent.setting})",
        )


def _host(tree: Tree) -> Iterator[Problem]:
    """The API must not be looked for inside the pods, the services, the mesh or a cloud's network."""
    try:
        address = IPv4Address(tree.cluster.endpoint.host or "")
    except AddressValueError:
        return
    for claim in claims(tree):
        if claim.within is None and not claim.owner.startswith(("location", "machine")) and address in claim.network:
            yield Problem(
                "cluster.endpoint.host", f"{address} lies in {claim.network} ({claim.owner}): choose another address"
            )


def _sizes(tree: Tree) -> Iterator[Problem]:
    pods = part(tree, lambda t: t.cluster.pod_cidr)
    services = part(tree, lambda t: t.cluster.service_cidr)
    # kube-controller-manager: at most 16 bits between the range and a node's /24, and one /24 at least.
    if pods is not None and not 8 <= pods.prefixlen <= 24:
        yield Problem("cluster.podCidr", f"{pods} must have a prefix from /8 to /24: each node takes a /24 of it")
    # kube-apiserver takes no more than 20 bits; Talos gives the 10th address to the cluster's name server.
    if services is not None and not 12 <= services.prefixlen <= 28:
        yield Problem("cluster.serviceCidr", f"{services} must have a prefix from /12 to /28")
    mesh = tree.mesh
    if mesh is not None and mesh.kind is MeshKind.KILO and mesh.cidr.prefixlen > 24:
        yield Problem("mesh.cidr", f"{mesh.cidr} must be a /24 or larger: every peer needs an address")


def most_nodes(tree: Tree | Settings) -> int:
    """Return how many nodes there are with every pool at its largest."""
    machines = len(tree.cluster.control_planes) + len(tree.cluster.workers)
    pools = [pool.max_size for pool in tree.azure.pools] if tree.azure is not None else []
    pools += [pool.max_size for pool in tree.aliyun.pools] if tree.aliyun is not None else []
    return machines + sum(pools)


def _pod_room(tree: Tree) -> Iterator[Problem]:
    pods = tree.cluster.pod_cidr
    nodes = most_nodes(tree)
    if 8 <= pods.prefixlen <= 24 and nodes > node_room(pods):
        yield Problem(
            "cluster.podCidr",
            f"{pods} has room for {node_room(pods)} nodes, each with a /24, but all machines and the pools at maxSize "
            f"are {nodes}: use a larger range or smaller pools",
        )


def _mesh_room(tree: Tree) -> Iterator[Problem]:
    mesh = tree.mesh
    if mesh is None or mesh.kind is not MeshKind.KILO or mesh.granularity is not Granularity.FULL:
        return
    nodes = most_nodes(tree)
    # The first and the last address are no machine's.
    room = mesh.cidr.num_addresses - 2
    if mesh.cidr.prefixlen <= 24 and nodes > room:
        yield Problem(
            "mesh.cidr",
            f"{mesh.cidr} has {room} addresses, but all machines and the pools at maxSize are {nodes}, and each is a "
            "peer: use a larger range",
        )
