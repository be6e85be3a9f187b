"""What the pools come to at their most, said in the preview: what to compare with the clouds' quotas."""

from collections.abc import Iterator

import pulumi
from hybrid_talos.address_plan import NODE_PREFIX, node_room
from hybrid_talos.aliyun_instance_types import cpus_of
from hybrid_talos.azure_sizes import azure_sizes, size_name

from .settings import Settings
from .settings_rules_ranges import most_nodes

_NODE_ADDRESSES = 2 ** (32 - NODE_PREFIX)


def say_ceilings(settings: Settings) -> None:
    """Print the ceilings, in a preview alone."""
    lines = ceilings(settings)
    if lines and pulumi.runtime.is_dry_run():
        pulumi.log.info("\n".join(("with every pool at its maxSize:", *(f"  {line}" for line in lines))))


def ceilings(settings: Settings) -> list[str]:
    """Return what the quotas have to allow, one line for each, sorted; nothing without pools."""
    clouds = [*sorted(_azure(settings)), *sorted(_aliyun(settings))]
    return [*clouds, _pods(settings)] if clouds else []


def _azure(settings: Settings) -> Iterator[str]:
    azure = settings.azure
    if azure is None:
        return
    regions = {pool: network.region for network in azure.networks() for pool in network.pools}
    machines: dict[tuple[str, str], int] = {}
    cores: dict[tuple[str, str], int | None] = {}
    for pool in azure.pools:
        size, parts = azure_sizes().get(pool.vm_size), size_name(pool.vm_size)
        each = size.cpus if size is not None else parts.cpus if parts is not None else None
        family = size.family if size is not None else f"the family of {pool.vm_size}"
        # Azure counts spot machines of every family together, and apart from all others.
        _add(machines, cores, (regions[pool.name], family if pool.spot is None else "spot"), each, pool.max_size)
    yield from _lines("azure", machines, cores)


def _aliyun(settings: Settings) -> Iterator[str]:
    aliyun = settings.aliyun
    if aliyun is None:
        return
    regions = {pool: network.region for network in aliyun.networks() for pool in network.pools}
    machines: dict[tuple[str, str], int] = {}
    cores: dict[tuple[str, str], int | None] = {}
    for pool in aliyun.pools:
        # Of several types each may have to serve the whole pool; all have the same processors.
        types = " or ".join(sorted(pool.instance_types)) + ("" if pool.spot is None else ", spot")
        each = cpus_of(pool.instance_types[0])
        _add(machines, cores, (regions[pool.name], types), each, pool.max_size)
    yield from _lines("aliyun", machines, cores)


_Key = tuple[str, str]


def _add(machines: dict[_Key, int], cores: dict[_Key, int | None], key: _Key, each: int | None, most: int) -> None:
    before = cores.get(key, 0)
    machines[key] = machines.get(key, 0) + most
    cores[key] = None if each is None or before is None else before + each * most


def _lines(cloud: str, machines: dict[_Key, int], cores: dict[_Key, int | None]) -> Iterator[str]:
    for (region, kind), most in machines.items():
        found = cores[region, kind]
        count = f"{found} cores" if found is not None else "cores unknown"
        yield f"{cloud}, {region}, {kind}: {count}, {_machines(most)}"


def _machines(number: int) -> str:
    return f"{number} machine" if number == 1 else f"{number} machines"


def _pods(settings: Settings) -> str:
    pods, nodes = settings.cluster.pod_cidr, most_nodes(settings)
    # A burst stack does not know the machines of the cluster that it joins.
    whose = "" if settings.cluster.control_planes else ", without the machines of the cluster itself"
    return (
        f"pods, {pods}: {nodes} of {node_room(pods)} ranges of nodes, {nodes * _NODE_ADDRESSES} of "
        f"{pods.num_addresses} addresses{whose}"
    )
