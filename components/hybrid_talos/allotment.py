"""Ranges that the program itself allots out of one supernet: each from its name alone. Pure.

A range is derived, not remembered, so that a preview knows it, nothing is lost with a state, and another name never
moves one that is there: docs/adr/0003-allotted-ranges.md.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from ipaddress import IPv4Network
from typing import NamedTuple


class Collision(NamedTuple):
    """Two names that come to one range."""

    first: str
    second: str
    range: IPv4Network
    free: IPv4Network | None
    """A range that nobody has, to be written down for one of the two; None when there is none left."""

    def __str__(self) -> str:
        """Say who collides and what to write."""
        if self.free is None:
            return (
                f"{self.first} and {self.second} both come to {self.range}, and nothing is free: use a larger supernet"
            )
        return (
            f"{self.first} and {self.second} both come to {self.range}: for the one that is not made yet write down a "
            f"free range, {self.free}"
        )


def slots(supernet: IPv4Network, prefix: int) -> int:
    """Return how many ranges of a prefix length a supernet has; 0 when it is smaller than one."""
    return 1 << (prefix - supernet.prefixlen) if supernet.prefixlen <= prefix <= 32 else 0


def allotted(supernet: IPv4Network, prefix: int, name: str) -> IPv4Network:
    """Return the range of a name: the same for ever, whatever other names there are.

    Raises ValueError when the supernet is smaller than one range.
    """
    count = slots(supernet, prefix)
    if not count:
        raise ValueError(f"{supernet} has no room for a /{prefix}")
    digest = hashlib.sha256(name.encode()).digest()
    return _nth(supernet, prefix, int.from_bytes(digest[:8], "big") % count)


def _nth(supernet: IPv4Network, prefix: int, number: int) -> IPv4Network:
    return IPv4Network((int(supernet.network_address) + (number << (32 - prefix)), prefix))


def collisions(
    supernet: IPv4Network, prefix: int, names: Collection[str], taken: Mapping[str, IPv4Network] | None = None
) -> list[Collision]:
    """Return each name that comes to a range which a name before it has, or which was written down in ``taken``."""
    written = dict(taken or {})
    found: list[Collision] = []
    owners: dict[IPv4Network, str] = {}
    given = {name: allotted(supernet, prefix, name) for name in sorted(names)}
    free = _free(supernet, prefix, [*written.values(), *given.values()])
    for name, network in given.items():
        clash = next((owner for owner, other in written.items() if other.overlaps(network)), owners.get(network))
        if clash is not None:
            found.append(Collision(clash, name, network, next(free, None)))
        owners.setdefault(network, name)
    return found


def _free(supernet: IPv4Network, prefix: int, used: Collection[IPv4Network]) -> Iterator[IPv4Network]:
    """Yield the ranges that nobody has, in order."""
    for number in range(slots(supernet, prefix)):
        network = _nth(supernet, prefix, number)
        if not any(network.overlaps(other) for other in used):
            yield network
