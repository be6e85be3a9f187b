"""The Nodes of a simulated pool's machines, which appear when their machines do, for rolls on the simulated clouds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hybrid_talos.pool_roll import PoolCloud, PoolNode, Progress, Roll, Rule

POOL, OLD, NEW = "azure-workers", "0" * 16, "1" * 16

Machines = Callable[[], list[tuple[str, str]]]
"""Returns the name and the provider ID of every machine that there is."""


class Nodes:
    """Nodes that register when they are first looked at; those of now are stale, later ones are new."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._stamps = {provider: OLD for _, provider in machines()}
        self.stale = set(self._stamps)
        self._gone: set[str] = set()
        self.held: set[str] = set()
        self.cordoned: set[str] = set()
        self.drained: list[str] = []
        self.ghosts: set[str] = set()

    def nodes(self) -> list[PoolNode]:
        found = []
        for name, provider in self._machines():
            stamp = self._stamps.setdefault(provider, NEW)
            self.ghosts.add(name)
            found.append(PoolNode(name, provider, POOL, stamp, schedulable=name not in self.cordoned))
        return found

    def hold(self, name: str) -> None:
        self.held.add(name)

    def let_go(self) -> list[str]:
        held = sorted(self.held)
        self.held.clear()
        self.cordoned.clear()
        return held

    def cordon(self, name: str) -> None:
        self.cordoned.add(name)

    def drain(self, name: str, seconds: float, *, bare: bool, say: Any) -> None:
        assert name in self.cordoned
        self.drained.append(name)

    def delete(self, name: str) -> None:
        self.ghosts.discard(name)
        self.cordoned.discard(name)


class Journal:
    """Notes that outlive a run."""

    def __init__(self) -> None:
        self.progress = Progress()

    @contextmanager
    def held(self) -> Iterator[Progress]:
        yield self.progress

    def write(self, progress: Progress) -> None:
        self.progress = progress

    def alive(self) -> None:
        pass


def roll(cloud: PoolCloud, nodes: Nodes, journal: Journal, **rule: Any) -> list[str]:
    """Roll the pool, without waiting between two looks."""
    wanted = Rule(**{"pool": POOL, "stamp": NEW, "most": 5, **rule})
    return Roll(wanted, cloud, nodes, journal, lambda line: None, sleep=lambda seconds: None).run()
