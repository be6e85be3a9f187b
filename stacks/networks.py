"""Which networks and mesh locations the settings ask for: one network for each pair of region and range.

Pure functions. Names come from the region and the range, never from a position in a list, so that a pool that is added
or removed renames nothing.
"""

from collections import defaultdict
from dataclasses import dataclass

from hybrid_talos.network_mesh import MeshLocationArgs

from .settings import AliyunPool, AzurePool, Settings


@dataclass(frozen=True)
class AzureNetwork:
    """A virtual network and the pools inside it."""

    name: str
    location: str
    cidr: str
    pools: tuple[AzurePool, ...]


@dataclass(frozen=True)
class AliyunNetwork:
    """A VPC and the pools inside it."""

    name: str
    region: str
    cidr: str
    pools: tuple[AliyunPool, ...]


def _name(cloud: str, region: str, cidr: str, usual: tuple[str, str]) -> str:
    if (region, cidr) == usual:
        return f"{cloud}-{region}"
    return f"{cloud}-{region}-{cidr.replace('.', '-').replace('/', '-')}"


def azure_networks(settings: Settings) -> tuple[AzureNetwork, ...]:
    """Return the virtual networks of the settings' Azure pools, by name."""
    azure = settings.azure
    if azure is None:
        return ()
    usual = (azure.location, str(azure.vnet_cidr))
    members: dict[tuple[str, str], list[AzurePool]] = defaultdict(list)
    for pool in azure.pools:
        members[pool.location or azure.location, str(pool.vnet_cidr or azure.vnet_cidr)].append(pool)
    networks = (
        AzureNetwork(_name("azure", region, cidr, usual), region, cidr, tuple(sorted(pools, key=lambda p: p.name)))
        for (region, cidr), pools in members.items()
    )
    return tuple(sorted(networks, key=lambda network: network.name))


def aliyun_networks(settings: Settings) -> tuple[AliyunNetwork, ...]:
    """Return the VPCs of the settings' Alibaba pools, by name."""
    aliyun = settings.aliyun
    if aliyun is None:
        return ()
    usual = (aliyun.region, str(aliyun.vpc_cidr))
    members: dict[tuple[str, str], list[AliyunPool]] = defaultdict(list)
    for pool in aliyun.pools:
        members[pool.region or aliyun.region, str(pool.vpc_cidr or aliyun.vpc_cidr)].append(pool)
    networks = (
        AliyunNetwork(_name("aliyun", region, cidr, usual), region, cidr, tuple(sorted(pools, key=lambda p: p.name)))
        for (region, cidr), pools in members.items()
    )
    return tuple(sorted(networks, key=lambda network: network.name))


def mesh_locations(settings: Settings) -> dict[str, MeshLocationArgs]:
    """Return every location of the mesh: the cluster's own and one for each cloud network."""
    locations: dict[str, MeshLocationArgs] = {}
    own = settings.cluster.location
    if own is not None:
        locations[own.name] = {"cidrs": [str(cidr) for cidr in own.cidrs], "behind_nat": own.public_endpoint is None}
        if own.public_endpoint is not None:
            locations[own.name]["public_endpoint"] = own.public_endpoint
    for network in (*azure_networks(settings), *aliyun_networks(settings)):
        # Machines with addresses of their own can be called; all others only call.
        reachable = any(pool.public_ips for pool in network.pools)
        locations[network.name] = {"cidrs": [network.cidr], "behind_nat": not reachable}
    return locations
