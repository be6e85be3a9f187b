"""Where encrypted snapshots of etcd are kept: what every such place can do, their names, and which ones are old."""

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

_NAME = re.compile(r"(?P<cluster>.+)-(?P<time>\d{8}T\d{6}Z)\.db\.age")


@dataclass(frozen=True)
class Kept:
    """A snapshot that is kept."""

    name: str
    size: int
    """Bytes."""

    @property
    def cluster(self) -> str:
        """Return the cluster that it is of."""
        return _parts(self.name)["cluster"]

    @property
    def time(self) -> str:
        """Return when it was taken, in a form that sorts by time."""
        return _parts(self.name)["time"]


class Store(Protocol):
    """A place for snapshots. Every method raises WorkError that says what is wrong and what to do."""

    @property
    def where(self) -> str:
        """Return what a person calls the place."""

    def put(self, name: str, content: Iterator[bytes]) -> None:
        """Keep a snapshot: whole or not at all, and never in the place of one that is there."""

    def get(self, name: str) -> Generator[bytes, None, None]:
        """Return what is kept under a name, piece by piece."""

    def names(self) -> list[Kept]:
        """Return all snapshots, and nothing else that lies there."""

    def remove(self, name: str) -> None:
        """Delete a snapshot; one that is gone already is no error."""


def _parts(name: str) -> re.Match[str]:
    found = _NAME.fullmatch(name)
    if found is None:
        raise ValueError(name)
    return found


def is_snapshot(name: str) -> bool:
    """Return whether a file or object is called as snapshots are."""
    return _NAME.fullmatch(name) is not None


def name_of(cluster: str, now: datetime | None = None) -> str:
    """Return the name of a snapshot that is taken now; names of one cluster sort by time."""
    return f"{cluster}-{now or datetime.now(UTC):%Y%m%dT%H%M%SZ}.db.age"


def of_cluster(kept: Sequence[Kept], cluster: str) -> list[Kept]:
    """Return the snapshots of one cluster, the newest first."""
    return sorted((one for one in kept if one.cluster == cluster), key=lambda one: one.time, reverse=True)


def prune(store: Store, cluster: str, keep: int) -> list[str]:
    """Delete all snapshots of a cluster but the ``keep`` newest; return the names of the deleted."""
    if keep < 1:
        raise ValueError(keep)
    old = [one.name for one in of_cluster(store.names(), cluster)[keep:]]
    for name in old:
        store.remove(name)
    return old
