"""A disk whose content follows from a seed: mostly zeros, as in a real image, and empty of any system.

Every part of it can be made alone and again, so that a disk of any size needs no room.
"""

import bisect
import functools
import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

MIB = 1 << 20
SECTOR = 512
BLOCK = MIB
DISK_SIZE = 64 * MIB
"""The virtual size where none is asked for. Azure wants whole MiB (learn.microsoft.com: prepare a VHD for upload)."""
DATA_BYTES = 2 * MIB
"""How much of it is data, about."""

_PIECE = 64 << 10
_ZEROS = bytes(BLOCK)
# A large file of a real image is in one piece; small ones and what a file system notes lie between.
_LARGEST_RUN = 16 * MIB
_FEWEST_RUNS = 24


@dataclass(frozen=True)
class Disk:
    """A disk of whole MiB, with its first and last sector used and runs of data at odd places between."""

    seed: str
    size: int = DISK_SIZE
    data_bytes: int = DATA_BYTES
    noise: float = 0.75
    """Share of the data that cannot be packed, as kernels and initramfs are packed already; the rest packs to half."""
    _runs: list[tuple[int, int]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Lay the runs out."""
        if self.size % MIB or self.size < 4 * MIB or not 0 < self.data_bytes <= self.size // 2:
            raise ValueError("a lab disk has whole MiB, four or more, and at most half of it is data")
        source = _source(self.seed)
        count = max(_FEWEST_RUNS, self.data_bytes // _LARGEST_RUN)
        room = (self.size - 2 * MIB) // count
        runs = [(0, SECTOR)]
        for index in range(count):
            length = min(source.randrange(1, max(2, 2 * self.data_bytes // count)), room - 1)
            start = MIB + index * room + source.randrange(room - length)
            runs.append((start, start + length))
        runs.append((self.size - SECTOR, self.size))
        object.__setattr__(self, "_runs", runs)

    def blocks(self) -> Iterator[bytes]:
        """Yield the disk in order, in pieces of 1 MiB; one without data is always the same object."""
        for start in range(0, self.size, BLOCK):
            yield self.read(start, BLOCK)

    def read(self, start: int, length: int) -> bytes:
        """Return a part of the disk."""
        end = start + length
        found = [(max(first, start), min(last, end)) for first, last in self._touching(start, end)]
        if not found:
            return _ZEROS if length == BLOCK else bytes(length)
        part = bytearray(length)
        for first, last in found:
            for at in range(first - first % _PIECE, last, _PIECE):
                left, right = max(first, at), min(last, at + _PIECE)
                part[left - start : right - start] = memoryview(self._piece(at))[left - at : right - at]
        return bytes(part)

    def used(self, size: int) -> list[int]:
        """Return the numbers of the clusters of ``size`` bytes that hold data, in order."""
        found: dict[int, None] = {}
        for first, last in self._runs:
            found.update(dict.fromkeys(range(first // size, -(-last // size))))
        return list(found)

    def _touching(self, start: int, end: int) -> list[tuple[int, int]]:
        at = bisect.bisect_right(self._runs, (start, self.size + 1))
        first = at - 1 if at and self._runs[at - 1][1] > start else at
        return self._runs[first : bisect.bisect_left(self._runs, (end, 0))]

    def _piece(self, at: int) -> bytes:
        return _filler(self.seed, at, self.noise)


def _source(text: str) -> random.Random:
    return random.Random(hashlib.sha256(text.encode()).digest())  # noqa: S311 - filler, not a secret


@functools.lru_cache(maxsize=64)
def _filler(seed: str, at: int, noise: float) -> bytes:
    source = _source(f"{seed} {at}")
    if source.random() < noise:
        return source.randbytes(_PIECE)
    words = [source.randbytes(8) for _ in range(256)]
    return b"".join(source.choices(words, k=_PIECE // 8))
