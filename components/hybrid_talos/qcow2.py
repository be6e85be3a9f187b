"""A qcow2 read as a stream (QEMU docs/interop/qcow2.txt): its disk in order, where the order of the file allows it.

`qemu-img convert` writes each table before the clusters that it maps, and these in the order of the disk; so does the
Image Factory, which runs it. Other files can be brought into that order by running it again.
"""

import heapq
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from .disk_image import BLOCK, GIB, MIB, Page
from .image_stream import ImageError
from .unpacked import Zeros

_HEADER = struct.Struct(">4sIQIIQIIQQ")
_FEATURES_AT, _HEADER_BYTES = 72, 104
_OFFSET = 0x00FF_FFFF_FFFF_FE00
_COMPRESSED, _ZERO = 1 << 62, 1
# Reference counts that may be off (bit 0) do not matter to a reader; damage, an external file, other compression and
# other table entries do.
_HARMLESS = 1
_L1_LIMIT = 32 * MIB
_RUN_LIMIT = 1 << 20
_BLOCK_OF_ZEROS = Zeros(BLOCK)


class Header(NamedTuple):
    """What the first bytes of a qcow2 say."""

    version: int
    cluster_bits: int
    size: int
    """Bytes of the disk inside."""
    l1_entries: int
    l1_at: int
    features: int
    """Those that a reader must know (incompatible ones)."""

    @property
    def cluster(self) -> int:
        """Bytes of a cluster."""
        return 1 << self.cluster_bits


def read_header(data: bytes) -> Header:
    """Read the first 104 bytes; raises ImageError when they are not of a qcow2 that stands alone."""
    if len(data) < _HEADER_BYTES:
        raise ImageError("the image is shorter than the header of a qcow2")
    magic, version, backing, _, bits, size, encryption, l1_entries, l1_at, _ = _HEADER.unpack_from(data)
    if magic != b"QFI\xfb" or version not in (2, 3):
        raise ImageError("the image is not a qcow2 of version 2 or 3")
    if backing:
        raise ImageError("the qcow2 needs a backing file; an image must stand alone")
    if encryption:
        raise ImageError("the qcow2 is encrypted")
    if not size:
        raise ImageError("the qcow2 holds an empty disk")
    features = int.from_bytes(data[_FEATURES_AT : _FEATURES_AT + 8], "big") if version == 3 else 0
    return Header(version, bits, size, l1_entries, l1_at, features)


class _Source:
    """Bytes in order, taken by number."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._held = memoryview(b"")
        self.position = 0

    def take(self, count: int) -> bytes:
        parts, left = [], count
        while left:
            if not self._held:
                self._held = memoryview(next(self._chunks, b""))
                if not self._held:
                    raise ImageError(f"the qcow2 ends too early, after {self.position + count - left} bytes")
            part, self._held = self._held[:left], self._held[left:]
            parts.append(part)
            left -= len(part)
        self.position += count
        return b"".join(parts)

    def skip_to(self, offset: int) -> None:
        while self.position < offset:
            self.take(min(offset - self.position, BLOCK))

    def drain(self) -> None:
        self._held = memoryview(b"")
        for _ in self._chunks:
            pass


_L1, _L2, _DATA = range(3)


_TOO_MANY = "the qcow2 is in too many pieces; write it anew with `qemu-img convert -O qcow2`"


def _parts(header: Header, source: _Source) -> Iterator[Page]:
    """Yield the parts of the disk that the file holds, in order, each at most 4 MiB; the rest is zeros."""
    # What is known to come, by where it stands in the file: a table and what it covers, or a run of the disk.
    waiting: list[tuple[int, int, int, int]] = [(header.l1_at, _L1, 0, header.l1_entries * 8)]
    reach = 0
    while waiting:
        offset, kind, guest, length = heapq.heappop(waiting)
        if offset < source.position:
            raise ImageError(
                "the tables of the qcow2 stand behind what they map, so that it cannot be read as a stream; write it "
                "anew with `qemu-img convert -O qcow2`"
            )
        source.skip_to(offset)
        if kind == _L1:
            table = source.take(length)
            span = header.cluster // 8 * header.cluster
            for index, (entry,) in enumerate(struct.iter_unpack(">Q", table)):
                if entry & _OFFSET:
                    heapq.heappush(waiting, (entry & _OFFSET, _L2, index * span, header.cluster))
                if len(waiting) > _RUN_LIMIT:
                    raise ImageError(_TOO_MANY)
        elif kind == _L2:
            for run in _runs(header, source.take(length), guest):
                heapq.heappush(waiting, run)
            if len(waiting) > _RUN_LIMIT:
                raise ImageError(_TOO_MANY)
        else:
            if guest < reach:
                raise ImageError(
                    "the clusters of the qcow2 are not in the order of the disk, so that it cannot be read as a "
                    "stream; write it anew with `qemu-img convert -O qcow2`"
                )
            reach = guest + length
            for at in range(0, length, BLOCK):
                data = source.take(min(BLOCK, length - at))
                # The last cluster may reach beyond the disk.
                yield guest + at, data[: max(header.size - guest - at, 0)]
    source.drain()


def _runs(header: Header, table: bytes, guest: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the runs of clusters that one table maps side by side, in the file as on the disk."""
    start = first = length = 0
    for (entry,) in struct.iter_unpack(">Q", table):
        if entry & _COMPRESSED:
            raise ImageError(
                "the qcow2 has compressed clusters, which do not stand in order; write it anew with "
                "`qemu-img convert -O qcow2`, without -c, and pack it with zstd"
            )
        where = 0 if header.version == 3 and entry & _ZERO else entry & _OFFSET
        if where and where == start + length and length:
            length += header.cluster
        else:
            if length:
                yield start, _DATA, first, length
            start, first, length = where, guest, header.cluster if where else 0
        guest += header.cluster
    if length:
        yield start, _DATA, first, length


def disk_of(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the disk inside of a qcow2; raises ImageError when it is none that can be read in order."""
    source = _Source(chunks)
    header = read_header(source.take(_HEADER_BYTES))
    if header.features & ~_HARMLESS or not 9 <= header.cluster_bits <= 21 or header.l1_entries * 8 > _L1_LIMIT:
        raise ImageError("the qcow2 is damaged, or has what a stream cannot be read with; `qemu-img convert` may help")
    position = 0
    for offset, data in _parts(header, source):
        if offset >= header.size:
            # A cluster beyond the end, as a disk that was made smaller may keep, is no part of the disk.
            continue
        yield from _zeros(offset - position)
        yield data
        position = offset + len(data)
    yield from _zeros(header.size - position)


def _zeros(count: int) -> Iterator[bytes]:
    for _ in range(count // BLOCK):
        yield _BLOCK_OF_ZEROS
    yield Zeros(count % BLOCK)


class Qcow2:
    """A qcow2 image, passed through as it is; its header is checked on the way, and that its last cluster is there."""

    def __init__(self, chunks: Iterable[bytes], check_size: Callable[[int], None] = lambda _: None) -> None:
        """Read ``chunks``; ``check_size`` gets the bytes of the disk inside, and may raise."""
        self._chunks = chunks
        self._check_size = check_size
        self.virtual_size = 0
        """Bytes of the disk inside, known from the first chunk on."""

    @property
    def disk_gib(self) -> int:
        """The smallest whole number of GiB that holds the disk."""
        return -(-self.virtual_size // GIB)

    def chunks(self) -> Iterator[bytes]:
        """Yield the image; raises ImageError when it does not begin like a qcow2 that stands alone."""
        header = b""
        for chunk in self._chunks:
            if self.virtual_size:
                yield chunk
                continue
            header += chunk
            if len(header) >= _HEADER_BYTES:
                self.virtual_size = read_header(header).size
                self._check_size(self.virtual_size)
                yield header
        if not self.virtual_size:
            read_header(header)
