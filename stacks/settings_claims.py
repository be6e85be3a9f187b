"""Which address ranges the settings claim, for whom, and under which key each was written down.

What did not parse claims nothing; the rest is still compared.
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import NamedTuple

from hybrid_talos.address_plan import Claim, reserved
from hybrid_talos.mesh_plan import MeshKind

from .settings_aliyun import AliyunSettings
from .settings_azure import AzureSettings
from .settings_base import part
from .settings_cluster import ClusterSettings
from .settings_tree import Tree

_SUPERNET = "supernet of the clouds' networks"

_Pair = tuple[str, IPv4Network]


class _Pool(NamedTuple):
    """What a pool of either cloud claims."""

    name: str
    pair: _Pair
    """Region and range of its network."""
    network_path: str
    subnets: tuple[tuple[str, str, IPv4Network], ...]
    """Owner, path and range of each subnet."""


def claims(tree: Tree) -> list[Claim]:
    """Return every range that parses, those that nobody may use among them."""
    clouds = [cloud for cloud, section in (("azure", tree.azure), ("aliyun", tree.aliyun)) if section is not None]
    found = reserved(clouds)
    cluster = part(tree, lambda t: t.cluster)
    if cluster is not None:
        found += _of_cluster(cluster)
        found += _of_location(cluster) if part(cluster, lambda c: c.location) else _of_machines(cluster)
    supernet = part(tree, lambda t: t.addresses.supernet if t.addresses is not None else None)
    found += _of_mesh(tree, supernet)
    if supernet is not None:
        found.append(Claim(_SUPERNET, supernet, setting="addresses.supernet"))
    if tree.azure is not None:
        found += _of_networks("Azure", list(_azure(tree.azure)), supernet)
    if tree.aliyun is not None:
        found += _of_networks("Alibaba Cloud", list(_aliyun(tree.aliyun)), supernet)
    return found


def _of_cluster(cluster: ClusterSettings) -> Iterator[Claim]:
    if (pods := part(cluster, lambda c: c.pod_cidr)) is not None:
        yield Claim("pods", pods, setting="cluster.podCidr")
    if (services := part(cluster, lambda c: c.service_cidr)) is not None:
        yield Claim("services", services, setting="cluster.serviceCidr")


def _of_location(cluster: ClusterSettings) -> Iterator[Claim]:
    name = part(cluster, lambda c: c.location.name if c.location else None) or "of the cluster"
    cidrs = part(cluster, lambda c: c.location.cidrs if c.location else None) or ()
    for index, cidr in enumerate(cidrs):
        yield Claim(f"location {name}", cidr, setting=f"cluster.location.cidrs[{index}]")


def _of_machines(cluster: ClusterSettings) -> Iterator[Claim]:
    seen: set[IPv4Address] = set()
    for key, machines in (
        ("controlPlanes", part(cluster, lambda c: c.control_planes)),
        ("workers", part(cluster, lambda c: c.workers)),
    ):
        for index, machine in enumerate(machines or ()):
            address = part(machine, lambda m: m.address)
            # Two machines with one address are the business of another rule.
            if address is not None and address not in seen:
                seen.add(address)
                name = part(machine, lambda m: m.name) or f"{key}[{index}]"
                yield Claim(f"machine {name}", IPv4Network(address), setting=f"cluster.{key}[{index}].address")


def _of_mesh(tree: Tree, supernet: IPv4Network | None) -> Iterator[Claim]:
    mesh = tree.mesh
    if mesh is None:
        return
    cidr = part(mesh, lambda m: m.cidr if m.kind is MeshKind.KILO else None)
    if cidr is not None:
        yield Claim("mesh", cidr, setting="mesh.cidr")
    if (peers := part(mesh, lambda m: m.peers.cidr if m.peers is not None else None)) is not None:
        yield Claim("peers of the mesh", peers, setting="mesh.peers.cidr")
    for name, cidrs in (part(mesh, lambda m: m.exposed_cidrs) or {}).items():
        for index, exposed in enumerate(cidrs):
            # A part of the location's own ranges is its own to give away.
            if not any(exposed.subnet_of(inner) for inner in _ranges_of(tree, name)):
                yield Claim(f"behind {name}", exposed, setting=f"mesh.exposedCidrs.{name}[{index}]")
    for name, peer in (part(mesh, lambda m: m.peers.machines if m.peers is not None else None) or {}).items():
        for index, routed in enumerate(part(peer, lambda p: p.routed_cidrs) or ()):
            yield Claim(
                f"what is behind peer {name}", routed, setting=f"mesh.peers.machines.{name}.routedCidrs[{index}]"
            )
    for name, other in (part(mesh, lambda m: m.locations) or {}).items():
        for index, own in enumerate(part(other, lambda o: o.cidrs) or ()):
            # Networks of clouds that another stack allots out of the same supernet.
            within = _SUPERNET if supernet is not None and own.subnet_of(supernet) else None
            yield Claim(f"location {name}", own, within=within, setting=f"mesh.locations.{name}.cidrs[{index}]")


def _azure(section: AzureSettings) -> Iterator[_Pool]:
    for index, pool in enumerate(part(section, lambda s: s.pools) or ()):
        path = f"azure.pools[{index}]"
        pair = part(pool, lambda p: (section.location_of(p), section.vnet_cidr_of(p)))
        if pair is None:
            continue
        name = part(pool, lambda p: p.name) or f"number {index}"
        subnet = part(pool, lambda p: p.subnet_cidr)
        subnets = () if subnet is None else ((f"subnet of pool {name}", f"{path}.subnetCidr", subnet),)
        yield _Pool(name, pair, f"{path}.vnetCidr" if pool.vnet_cidr else "azure.vnetCidr", subnets)


def _aliyun(section: AliyunSettings) -> Iterator[_Pool]:
    for index, pool in enumerate(part(section, lambda s: s.pools) or ()):
        path = f"aliyun.pools[{index}]"
        pair = part(pool, lambda p: (section.region_of(p), section.vpc_cidr_of(p)))
        if pair is None:
            continue
        name = part(pool, lambda p: p.name) or f"number {index}"
        subnets = tuple(
            (f"vSwitch of pool {name} in {zone}", f"{path}.zones.{zone}", cidr)
            for zone, cidr in (part(pool, lambda p: p.zones) or {}).items()
        )
        yield _Pool(name, pair, f"{path}.vpcCidr" if pool.vpc_cidr else "aliyun.vpcCidr", subnets)


def _of_networks(cloud: str, pools: list[_Pool], supernet: IPv4Network | None) -> Iterator[Claim]:
    networks: dict[_Pair, list[_Pool]] = {}
    for pool in pools:
        networks.setdefault(pool.pair, []).append(pool)
    for (region, cidr), members in networks.items():
        owner = f"network of {cloud} in {region} for {', '.join(pool.name for pool in members)}"
        within = _SUPERNET if supernet is not None and cidr.subnet_of(supernet) else None
        yield Claim(owner, cidr, within=within, setting=members[0].network_path)
        for pool in members:
            for subnet_owner, path, subnet in pool.subnets:
                yield Claim(subnet_owner, subnet, within=owner, setting=path)


def _ranges_of(tree: Tree, name: str) -> list[IPv4Network]:
    """Return the own ranges of a location of the mesh, as far as they parse."""
    found: list[IPv4Network] = []
    own = part(tree, lambda t: t.cluster.location)
    if own is not None and part(own, lambda o: o.name) == name:
        found += part(own, lambda o: o.cidrs) or ()
    others = part(tree, lambda t: t.mesh.locations if t.mesh is not None else {}) or {}
    if name in others:
        found += part(others[name], lambda o: o.cidrs) or ()
    for section in (tree.azure, tree.aliyun):
        networks = part(section, lambda s: s.networks()) if section is not None else None
        found += [network.cidr for network in networks or () if network.name == name]
    return found
