"""Which machines of the clouds the other locations can call, and through which."""

from collections.abc import Sequence

from hybrid_talos.address_plan import public_address
from hybrid_talos.mesh_plan import Granularity, MeshKind

from .settings_aliyun import AliyunPool, AliyunSettings
from .settings_azure import AzurePool, AzureSettings
from .settings_cluster import MeshSettings
from .settings_pools import CloudNetwork

Cloud = AzureSettings | AliyunSettings
Pool = AzurePool | AliyunPool


def by_leaders(mesh: MeshSettings) -> bool:
    """Return whether one machine of each location stands for all of it."""
    return mesh.kind is MeshKind.KILO and mesh.granularity is Granularity.LOCATION


def network_of(section: Cloud, name: str) -> CloudNetwork:
    """Return the network of a pool."""
    return next(network for network in section.networks() if name in network.pools)


def _named(section: Cloud, names: Sequence[str]) -> list[Pool]:
    pools: Sequence[Pool] = section.pools
    return [pool for pool in pools if pool.name in names]


def public_ips(mesh: MeshSettings | None, section: Cloud, pool: Pool) -> bool:
    """Return whether each machine of a pool has a public address: what its key says, else the address plan's rule."""
    mates = _named(section, network_of(section, pool.name).pools)
    served = any(mate.gateway for mate in mates)
    return public_address(pool.public_ips, mesh=mesh is not None, gateway=pool.gateway, served=served)


def callable_from_outside(mesh: MeshSettings, section: Cloud, network: CloudNetwork) -> bool:
    """Return whether the other locations can call a network: its leaders, or where each is a peer all its machines."""
    pools = _named(section, network.pools)
    gateways = [pool for pool in pools if pool.gateway]
    if by_leaders(mesh) and not gateways:
        # Whoever leads is called, and that may be any machine.
        return all(public_ips(mesh, section, pool) for pool in pools)
    return all(public_ips(mesh, section, pool) for pool in gateways or pools)
