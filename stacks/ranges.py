"""The ranges of the clouds' networks as a stack's output, for whoever has to know what was allotted."""

from collections.abc import Iterator
from dataclasses import replace

from .outputs import Outputs
from .settings import Settings


def ranges(settings: Settings) -> dict[str, str]:
    """Return each network's and each subnet's range, by what it is for."""
    return dict(sorted(_ranges(settings)))


def _ranges(settings: Settings) -> Iterator[tuple[str, str]]:
    for section in (settings.azure, settings.aliyun):
        for network in section.networks() if section is not None else ():
            yield network.name, str(network.cidr)
    for pool in settings.azure.pools if settings.azure is not None else ():
        yield f"azure/{pool.name}", str(pool.subnet_cidr)
    for group in settings.aliyun.pools if settings.aliyun is not None else ():
        for zone, cidr in group.zones.items():
            yield f"aliyun/{group.name}/{zone}", str(cidr)


def with_ranges(settings: Settings, outputs: Outputs) -> Outputs:
    """Return a stack's outputs with the ranges: what was left out in the settings stands nowhere else."""
    return replace(outputs, ranges=ranges(settings))
