"""What the doctor has to say, one line each."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

CLUSTER = "cluster"
"""Stands in the place of a pool where a finding is about all of them."""


class Level(StrEnum):
    """What a finding means for scaling."""

    STOPS = "stops"
    """A pool does not grow, or what it grows by does not become a node."""
    HINDERS = "hinders"
    """It scales, but not as it should, or not for long."""
    UNKNOWN = "unknown"
    """It could not be looked at."""
    FINE = "fine"
    """Nothing is in the way."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    topic: str
    """What was looked at, such as `provider-id`; the same in every version, for programs."""
    what: str
    why: str = ""
    """Why it matters for scaling."""
    do: str = ""
    """What to do about it."""
    pool: str = CLUSTER

    @property
    def line(self) -> str:
        """The finding in one line."""
        parts = (self.what, self.why, f"Next: {self.do}" if self.do else "")
        first, *rest = [part.rstrip(".") for part in parts if part]
        return ". ".join([first, *(part[0].upper() + part[1:] for part in rest)])

    def as_dict(self) -> dict[str, str]:
        """Return the finding for programs."""
        return {**asdict(self), "level": self.level.value}


_ORDER = list(Level)


def ordered(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings by pool, the whole cluster first, and the worst first."""
    return sorted(
        dict.fromkeys(findings),
        key=lambda one: (one.pool != CLUSTER, one.pool, _ORDER.index(one.level), one.topic, one.what),
    )


def status(findings: Sequence[Finding]) -> int:
    """Return the exit status: 1 when something stops scaling, 2 when something could not be looked at, else 0."""
    levels = {one.level for one in findings}
    return 1 if Level.STOPS in levels else 2 if Level.UNKNOWN in levels else 0


def few(names: Sequence[str], most: int = 3) -> str:
    """Return names in a line, the first ones alone where there are many."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
