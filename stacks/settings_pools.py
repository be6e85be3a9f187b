"""What the pools of both clouds have in common in the settings."""

import re
from ipaddress import IPv4Network
from typing import Annotated, NamedTuple

from pydantic import Field

from .settings_base import Section

POOL_NAME = r"[a-z]([a-z0-9-]*[a-z0-9])?"
"""Form of a pool's name."""
POOL_NAME_WORDS = (
    "start with a lower-case letter, hold only lower-case letters, digits and hyphens, and not end with a hyphen"
)
"""The same in words, after `must`."""


MinSize = Annotated[int, Field(ge=0)]
"""Fewest machines of a pool."""
MaxSize = Annotated[int, Field(ge=1)]
"""Most machines of a pool."""


class Spot(Section):
    """Machines that the cloud may take back."""

    max_price: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Most to pay for a machine and hour, in the currency of the account; left out for the price on demand."""


class Rolling(Section):
    """How machines of an older image or configuration give way to new ones; present to have them listed at every up."""

    on_up: bool = False
    """Replace them at every `pulumi up`; without, only `python -m stacks.roll` does."""
    max_surge: int = Field(default=1, ge=0, le=100)
    """Machines that may be there beyond the pool's size meanwhile, up to maxSize."""
    max_unavailable: int = Field(default=0, ge=0, le=100)
    """Machines that may be missing from the pool's size meanwhile; 1 or more where maxSurge is 0."""
    drain_minutes: int = Field(default=15, ge=1, le=1440)
    """How long the pods of a machine may take to leave, budgets honoured; then the roll stops."""
    join_minutes: int = Field(default=20, ge=1, le=240)
    """How long a new machine may take until its node is ready; then the roll stops."""


class CloudNetwork(NamedTuple):
    """A network in a cloud: all pools of one region that name the same range share it."""

    name: str
    """Name of its location in the mesh; with the range in it when it is not the section's own network."""
    region: str
    """Region of the cloud."""
    cidr: IPv4Network
    """Range of the network."""
    pools: tuple[str, ...]
    """Names of its pools, in the order of the file."""


def networks_of(
    cloud: str, usual: tuple[str, IPv4Network], pairs: list[tuple[str, IPv4Network, str]]
) -> tuple[CloudNetwork, ...]:
    """Return the networks of triples of region, range and pool, in their order."""
    pools: dict[tuple[str, IPv4Network], list[str]] = {}
    for region, cidr, pool in pairs:
        pools.setdefault((region, cidr), []).append(pool)
    networks = []
    for (region, cidr), names in pools.items():
        suffix = "" if (region, cidr) == usual else "-" + re.sub("[./]", "-", str(cidr))
        networks.append(CloudNetwork(f"{cloud}-{region}{suffix}", region, cidr, tuple(names)))
    return tuple(networks)
