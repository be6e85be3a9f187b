"""Rules about the mesh. Whether locations reach each other is asked of the library's own plan of the mesh."""

from collections.abc import Iterable, Iterator, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv4Network

from hybrid_talos.allotment import allotted, collisions
from hybrid_talos.cni import Cni
from hybrid_talos.mesh_plan import (
    KUBESPAN_PORT,
    PAIRS,
    WIREGUARD_OVERHEAD,
    Granularity,
    MeshKind,
    MeshPlan,
    Place,
    parse_endpoint,
)
from hybrid_talos.peer_checks import peer_problems

from .settings_base import UnparsedError, part
from .settings_cluster import MeshSettings
from .settings_errors import Problem
from .settings_mesh import Peers
from .settings_reach import Pool, by_leaders, callable_from_outside
from .settings_tree import Tree

AZURE_MTU = 1400
"""What Talos sets on the first interface of a machine on Azure (siderolabs/talos `platform/azure/azure.go`)."""

USUAL_MTU = 1500
"""What other machines' interfaces carry."""

_VXLAN_PORTS = {4789, 8472}
_WHY = {
    Cni.FLANNEL: "Kilo's Flannel mode carries pods only between machines that have tunnels to each other",
    Cni.CILIUM: "Kilo's Cilium mode is made for one leader in each location",
}
_NOT_FOR_KUBESPAN = {
    "exposed_cidrs": "KubeSpan joins machines alone and routes no other ranges",
    "peers": "KubeSpan joins members of the cluster alone",
    "monitoring": "it watches Kilo's agents, and KubeSpan has none",
    "cni": "KubeSpan runs with Talos's own pod network",
    "granularity": "KubeSpan always joins every machine with every other",
    "cidr": "KubeSpan makes its own IPv6 range from the cluster's id",
    "persistent_keepalive": "KubeSpan keeps its tunnels alive by itself",
}
_KEYS = {"persistent_keepalive": "persistentKeepalive", "exposed_cidrs": "exposedCidrs"}


def rules(tree: Tree) -> Iterator[Iterable[Problem]]:
    """Return the rules, each to be asked on its own."""
    yield _kind(tree)
    yield _pair(tree)
    yield _port(tree)
    yield _mtu(tree)
    yield _names(tree)
    yield _endpoints(tree)
    yield _reach(tree)
    yield from _peers(tree)
    yield _gateways(tree)
    yield _exposed(tree)


def _mesh(tree: Tree, kind: MeshKind) -> MeshSettings | None:
    return tree.mesh if tree.mesh is not None and tree.mesh.kind is kind else None


def _kind(tree: Tree) -> Iterator[Problem]:
    mesh = _mesh(tree, MeshKind.KUBESPAN)
    if mesh is None:
        return
    for field, reason in _NOT_FOR_KUBESPAN.items():
        if field in mesh.model_fields_set:
            yield Problem(f"mesh.{_KEYS.get(field, field)}", f"is not for kind kubespan: {reason}; remove it")
    if mesh.port != KUBESPAN_PORT:
        yield Problem("mesh.port", f"KubeSpan uses {KUBESPAN_PORT} and no other: remove it")


def _pair(tree: Tree) -> Iterator[Problem]:
    mesh = _mesh(tree, MeshKind.KILO)
    if mesh is not None and mesh.granularity is not PAIRS[mesh.cni]:
        yield Problem(
            "mesh.granularity",
            f"{mesh.granularity} does not work with {mesh.cni}: {_WHY[mesh.cni]}; use {PAIRS[mesh.cni]}",
        )


def _port(tree: Tree) -> Iterator[Problem]:
    if tree.mesh is not None and tree.mesh.port in _VXLAN_PORTS:
        yield Problem("mesh.port", f"{tree.mesh.port} is the port of VXLAN, which the pod network uses: choose another")


def _mtu(tree: Tree) -> Iterator[Problem]:
    mtu = tree.mesh.mtu if tree.mesh is not None else None
    path = AZURE_MTU if tree.azure is not None else USUAL_MTU
    if mtu is None or mtu <= path - WIREGUARD_OVERHEAD:
        return
    if tree.azure is None and tree.aliyun is None:
        return
    whose = "a machine on Azure" if tree.azure is not None else "a machine in a cloud"
    yield Problem(
        "mesh.mtu",
        f"{mtu} is more than the path of {whose} carries: at most {path - WIREGUARD_OVERHEAD} ({path} less "
        f"{WIREGUARD_OVERHEAD} of WireGuard); leave it out, or write auto",
    )


def _networks(tree: Tree) -> list[str]:
    names = [network.name for network in tree.azure.networks()] if tree.azure is not None else []
    return names + ([network.name for network in tree.aliyun.networks()] if tree.aliyun is not None else [])


def _names(tree: Tree) -> Iterator[Problem]:
    taken = _networks(tree)
    location = tree.cluster.location
    others = tree.mesh.locations if tree.mesh is not None else {}
    if location is not None and location.name in {*taken, *others}:
        yield Problem("cluster.location.name", f"{location.name} is the name of two locations: choose another")
    for name in others:
        if name in taken:
            yield Problem(f"mesh.locations.{name}", f"{name} is the name of two locations: choose another")


def _endpoints(tree: Tree) -> Iterator[Problem]:
    if tree.mesh is None:
        return
    location = tree.cluster.location
    found = [("cluster.location.publicEndpoint", location.public_endpoint)] if location is not None else []
    found += [
        (f"mesh.locations.{name}.publicEndpoint", other.public_endpoint) for name, other in tree.mesh.locations.items()
    ]
    for path, endpoint in found:
        if endpoint is None:
            continue
        try:
            parse_endpoint(endpoint, tree.mesh.port)
        except ValueError as error:
            yield Problem(path, str(error))
        if tree.mesh.kind is MeshKind.KUBESPAN:
            try:
                IPv4Address(endpoint.partition(":")[0])
            except AddressValueError:
                yield Problem(path, "KubeSpan announces addresses: write an IPv4 address, not a name")


def _plan(tree: Tree, mesh: MeshSettings) -> tuple[MeshPlan, dict[str, str]]:
    """Return the mesh that these settings ask for, and where each of its locations was written down."""
    places: list[Place] = []
    paths: dict[str, str] = {}
    own = tree.cluster.location
    written = {} if own is None else {own.name: ("cluster.location", own.cidrs, own.public_endpoint)}
    written |= {
        name: (f"mesh.locations.{name}", other.cidrs, other.public_endpoint) for name, other in mesh.locations.items()
    }
    for name, (path, cidrs, text) in written.items():
        paths[name] = path
        try:
            endpoint = parse_endpoint(text, mesh.port) if text else None
        except ValueError:
            # Named by _endpoints already; nothing about reach can be said of a place that is not known.
            raise UnparsedError("public_endpoint") from None
        places.append(Place(name, cidrs, endpoint, behind_nat=endpoint is None))
    for cloud, section in (("azure", tree.azure), ("aliyun", tree.aliyun)):
        if section is None:
            continue
        for network in section.networks():
            paths[network.name] = f"{cloud}.pools"
            reachable = callable_from_outside(mesh, section, network)
            places.append(Place(network.name, (network.cidr,), behind_nat=not reachable))
    granularity = mesh.granularity if mesh.kind is MeshKind.KILO else Granularity.FULL
    plan = MeshPlan(
        mesh.kind, mesh.cni, granularity, mesh.cidr, mesh.port, mesh.persistent_keepalive, mesh.mtu,
        tree.cluster.pod_cidr, tree.cluster.service_cidr, tuple(places),
    )  # fmt: skip
    return plan, paths


def _reach(tree: Tree) -> Iterator[Problem]:
    mesh = tree.mesh
    planned = part(mesh, lambda m: _plan(tree, m)) if mesh is not None else None
    if mesh is None or planned is None or tree.cluster.location is None:
        return
    plan, paths = planned
    unreachable = [place.name for place in plan.places if not plan.every_peer_reachable(place)]
    if len(unreachable) > 1:
        yield Problem(
            paths[unreachable[-1]],
            f"the locations {', '.join(unreachable)} have machines behind NAT that nobody outside can reach, so these "
            "never meet: give all but one of them publicIps, or the rack a publicEndpoint"
            + (", or a cloud a pool with gateway: true" if plan.granularity is Granularity.LOCATION else "")
            + ("" if plan.granularity is Granularity.LOCATION else "; with tunnels to each machine, one publicEndpoint")
            + (
                ""
                if plan.granularity is Granularity.LOCATION
                else " in front of several private machines is not enough"
            ),
        )
    elif plan.kilo and len(plan.places) > 1 and not any(plan.dialled(place) for place in plan.places):
        yield Problem(
            "cluster.location.publicEndpoint",
            "is required: no location has an endpoint that the others know beforehand, since Kilo does not see the "
            "public addresses that a cloud translates",
        )
    quiet = [place.name for place in plan.places if plan.keeps_alive(place)]
    if plan.kilo and quiet and mesh.persistent_keepalive == 0:
        yield Problem(
            "mesh.persistentKeepalive",
            f"must be 1 or more seconds: {', '.join(quiet)} can be reached only through an address translation (NAT) "
            "that forgets silent peers",
        )


def _peers(tree: Tree) -> Iterator[Iterable[Problem]]:
    peers = part(tree, lambda t: t.mesh.peers if t.mesh is not None else None)
    if peers is None:
        return
    yield _peers_apart(peers)
    yield _peers_allotted(peers)
    yield _peers_served(tree, peers)


def _peers_apart(peers: Peers) -> Iterator[Problem]:
    """What peers claim, judged as the library does it."""
    written = {
        name: (peer.address or allotted(peers.cidr, 32, name).network_address, peer.public_key, peer.routed_cidrs)
        for name, peer in peers.machines.items()
    }
    for where, text in peer_problems(peers.cidr, written):
        name, _, key = where.removeprefix("peers.").partition(".")
        # Two addresses that follow from names, or one of them: _peers_allotted says what to do.
        if key == "address" and peers.machines[name].address is None:
            continue
        camel = {"public_key": "publicKey", "routed_cidrs": "routedCidrs"}.get(key, key)
        yield Problem(f"mesh.peers.machines.{name}.{camel}", text)


def _peers_allotted(peers: Peers) -> Iterator[Problem]:
    derived = [name for name, peer in peers.machines.items() if peer.address is None]
    taken = {name: IPv4Network(peer.address) for name, peer in peers.machines.items() if peer.address is not None}
    for collision in collisions(peers.cidr, 32, derived, taken):
        yield Problem(
            f"mesh.peers.machines.{collision.second}.address",
            f"{collision.first} and {collision.second} both come to {collision.range.network_address}: "
            + (
                f"write down a free address for the one that is new, {collision.free.network_address}"
                if collision.free is not None
                else "nothing is free, use a larger mesh.peers.cidr"
            ),
        )


def _peers_served(tree: Tree, peers: Peers) -> Iterator[Problem]:
    services = tree.cluster.service_cidr
    for index, server in enumerate(peers.dns):
        if server in services and not peers.services:
            yield Problem(
                f"mesh.peers.dns[{index}]", f"{server} is a service of the cluster: set mesh.peers.services too"
            )


def _gateways(tree: Tree) -> Iterator[Problem]:
    """Gateways lead, so there must be leaders; nobody scales them; and one alone takes its location down with it."""
    for cloud, section in (("azure", tree.azure), ("aliyun", tree.aliyun)):
        pools: Sequence[Pool] = part(section, lambda s: s.pools) or () if section is not None else ()
        for index, pool in enumerate(pools):
            if not part(pool, lambda p: p.gateway):
                continue
            path = f"{cloud}.pools[{index}]"
            if tree.mesh is None or not by_leaders(tree.mesh):
                yield Problem(
                    f"{path}.gateway",
                    "needs a mesh with leaders, kind kilo with granularity location (cni: cilium): in this one each "
                    "machine is a peer of its own, and none stands for others; remove it",
                )
            if pool.min_size != pool.max_size:
                yield Problem(
                    f"{path}.minSize",
                    f"is {pool.min_size} and maxSize is {pool.max_size}, but gateways do not come and go with load: "
                    "write one number for both, best 2 or more",
                )
            if pool.public_ips is False:
                yield Problem(
                    f"{path}.publicIps",
                    "is false, but gateways are what other locations call: remove it, or gateway",
                )
            if pool.spot is not None:
                yield Problem(
                    f"{path}.spot", "does not go with gateway: a leader that is taken back takes its location down"
                )


def _exposed(tree: Tree) -> Iterator[Problem]:
    """Ranges behind a location: of one that there is, and through a leader."""
    mesh = tree.mesh
    exposed = part(mesh, lambda m: m.exposed_cidrs) if mesh is not None else None
    if mesh is None or not exposed:
        return
    own = tree.cluster.location
    names = {*_networks(tree), *mesh.locations, *([own.name] if own is not None else [])}
    for name in exposed:
        if name not in names:
            yield Problem(
                f"mesh.exposedCidrs.{name}", f"is no location of the mesh: expected one of {', '.join(sorted(names))}"
            )
    if mesh.kind is MeshKind.KILO and not by_leaders(mesh):
        yield Problem(
            "mesh.exposedCidrs",
            "needs a mesh with leaders, granularity location (cni: cilium): else each machine claims the same, and "
            "Kilo drops all claims but one",
        )
