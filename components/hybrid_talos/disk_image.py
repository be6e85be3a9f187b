"""What a disk image is made of: its pages that are not zero, the footer of a VHD, the header of a qcow2.

Pure functions and small readers over chunks of bytes; no network.
"""

import struct
import uuid
from collections.abc import Callable, Iterable, Iterator

from .image_stream import ImageError
from .unpacked import Zeros, is_zero

SECTOR = 512
"""Page blobs are written in pages of this many bytes."""
BLOCK = 4 * 1024 * 1024
"""Most bytes that one Put Page takes (learn.microsoft.com, REST API, Put Page)."""
MIB = 1024 * 1024
GIB = 1024 * MIB
SMALLEST_VHD = 20 * MIB + SECTOR
"""Smallest VHD that Azure takes as a disk (learn.microsoft.com, disks, uploadSizeBytes)."""
# Zeros shorter than this inside of data are sent along: file systems and partitions are aligned to it.
_STEP = 4096
# What is looked at in one go before it is looked at in steps.
_STRIDE = 64 * 1024
# Longer zeros too, up to as many as one call more would cost, and a 32nd of the data in all.
_GAP = 64 * 1024
_GAP_SHARE = 32

# The footer of a VHD: cookie, features, format version, data offset, time, creator, its version and host,
# original and current size, cylinders, heads, sectors, disk type, checksum, id, saved state
# (Virtual Hard Disk Image Format Specification 1.0). Numbers are big-endian.
_FOOTER = struct.Struct(">8sIIQI4sI4sQQHBBII16sB")
_FIXED = 2
_CHECKSUM_AT = 64

Page = tuple[int, bytes]
"""Where a run of bytes lies in the image, and the bytes; both in whole sectors."""


def sparse_pages(chunks: Iterable[bytes]) -> Iterator[Page]:
    """Yield the runs of an image that are not zero, in order, each at most 4 MiB and of whole sectors.

    The same image gives the same runs, however it is cut into chunks. One that does not end at a sector is filled up
    with zeros.
    """
    run = _Run()
    offset = 0
    rest = b""
    for chunk in chunks:
        view = memoryview(chunk)
        if rest:
            missing = _STEP - len(rest)
            rest, view = rest + view[:missing], view[missing:]
            if len(rest) < _STEP:
                continue
            if not is_zero(rest):
                yield from run.add(offset, rest)
            offset += _STEP
        whole = len(view) - len(view) % _STEP
        if not isinstance(chunk, Zeros):
            for start, end in _spans(view[:whole]):
                yield from run.add(offset + start, bytes(view[start:end]))
        offset += whole
        rest = bytes(view[whole:])
    if not is_zero(rest):
        yield from run.add(offset, rest + bytes(-len(rest) % SECTOR))
    yield from run.close()


def _spans(view: memoryview) -> Iterator[tuple[int, int]]:
    """Yield where steps are that are not zero, neighbours together."""
    size = len(view)
    if size <= BLOCK and is_zero(view):
        return
    start = None
    for stride in range(0, size, _STRIDE):
        if is_zero(view[stride : stride + _STRIDE]):
            if start is not None:
                yield start, stride
                start = None
            continue
        for step in range(stride, min(stride + _STRIDE, size), _STEP):
            if not is_zero(view[step : step + _STEP]):
                start = step if start is None else start
            elif start is not None:
                yield start, step
                start = None
    if start is not None:
        yield start, size


class _Run:
    """The run that is being put together, of what lies side by side or nearly so."""

    def __init__(self) -> None:
        self._offset = self._size = 0
        self._parts: list[bytes] = []
        self._data = self._gaps = 0

    def add(self, offset: int, data: bytes) -> Iterator[Page]:
        """Take the next bytes, and yield the pages that are complete by then."""
        gap = offset - self._offset - self._size
        if self._parts and 0 < gap <= _GAP and self._gaps + gap <= self._data // _GAP_SHARE:
            self._parts.append(bytes(gap))
            self._size += gap
            self._gaps += gap
        elif self._parts and gap:
            yield from self.close()
        if not self._parts:
            self._offset = offset
        self._parts.append(data)
        self._size += len(data)
        self._data += len(data)
        if self._size >= BLOCK:
            yield from self._pages(self._size - self._size % BLOCK)

    def close(self) -> Iterator[Page]:
        """Yield what is left."""
        yield from self._pages(self._size)

    def _pages(self, size: int) -> Iterator[Page]:
        run = b"".join(self._parts)
        for at in range(0, size, BLOCK):
            yield from _trimmed(self._offset + at, run[at : min(at + BLOCK, size)])
        self._parts = [run[size:]] if size < len(run) else []
        self._offset += size
        self._size -= size


def _trimmed(offset: int, run: bytes) -> Iterator[Page]:
    """Yield the run without the zero sectors around it; nothing when there is nothing else."""
    view = memoryview(run)
    first, last = 0, len(run)
    while first < last and is_zero(view[first : first + SECTOR]):
        first += SECTOR
    while first < last and is_zero(view[last - SECTOR : last]):
        last -= SECTOR
    if first < last:
        yield offset + first, run[first:last]


def vhd_footer(size: int) -> bytes:
    """Return the footer of a fixed VHD whose disk has ``size`` bytes; the same bytes for the same size."""
    cylinders, heads, sectors = _geometry(size)
    identity = uuid.uuid5(uuid.NAMESPACE_OID, f"hybrid-talos fixed vhd {size}").bytes
    fields = (b"conectix", 2, 0x00010000, 2**64 - 1, 0, b"htls", 0x00010000, b"Wi2k", size, size)
    packed = _FOOTER.pack(*fields, cylinders, heads, sectors, _FIXED, 0, identity, 0).ljust(SECTOR, b"\0")
    return packed[:_CHECKSUM_AT] + struct.pack(">I", _checksum(packed)) + packed[_CHECKSUM_AT + 4 :]


def check_vhd(footer: bytes, disk_size: int) -> None:
    """Raise ImageError unless ``footer`` closes a fixed VHD of ``disk_size`` bytes that Azure takes."""
    if len(footer) < SECTOR or not footer.startswith(b"conectix"):
        raise ImageError("the image has no VHD footer; it is a raw disk, or cut off")
    fields = _FOOTER.unpack_from(footer)
    current, kind, checksum = fields[9], fields[13], fields[14]
    if kind != _FIXED:
        raise ImageError(f"the VHD is of type {kind}; Azure takes fixed disks (2) only")
    if checksum != _checksum(footer):
        raise ImageError("the checksum of the VHD footer is wrong; the image is damaged")
    if current != disk_size:
        raise ImageError(f"the VHD footer says {current} bytes, the disk has {disk_size}")
    if disk_size % MIB:
        raise ImageError(f"the disk has {disk_size} bytes, which is no whole number of MiB, as Azure asks")
    if disk_size + SECTOR < SMALLEST_VHD:
        raise ImageError(f"the VHD has {disk_size + SECTOR} bytes; Azure takes {SMALLEST_VHD} and more")


def _checksum(footer: bytes) -> int:
    return ~(sum(footer) - sum(footer[_CHECKSUM_AT : _CHECKSUM_AT + 4])) & 0xFFFFFFFF


def _geometry(size: int) -> tuple[int, int, int]:
    """Return cylinders, heads and sectors as the appendix of the VHD specification counts them."""
    total = min(size // SECTOR, 65535 * 16 * 255)
    if total >= 65535 * 16 * 63:
        sectors, heads = 255, 16
        per_head = total // sectors
    else:
        sectors = 17
        per_head = total // sectors
        heads = max((per_head + 1023) // 1024, 4)
        if per_head >= heads * 1024 or heads > 16:
            sectors, heads = 31, 16
            per_head = total // sectors
        if per_head >= heads * 1024:
            sectors, heads = 63, 16
            per_head = total // sectors
    return per_head // heads, heads, sectors


class FixedVhd:
    """A VHD or a raw disk, read once, as the pages of a fixed VHD.

    The footer is not among the pages: it is there, with the size, when they are through, so that it can be
    written last.
    """

    def __init__(
        self, chunks: Iterable[bytes], *, has_footer: bool, check_size: Callable[[int], None] = lambda _: None
    ) -> None:
        """Read ``chunks``; ``check_size`` gets the bytes of the disk so far, and may raise."""
        self._chunks = chunks
        self._check_size = check_size
        self._has_footer = has_footer
        self.disk_size = 0
        """Bytes of the disk, without the footer; whole MiB."""
        self.footer = b""
        """The 512 bytes that close the VHD."""

    @property
    def file_size(self) -> int:
        """Bytes of the whole VHD, footer included."""
        return self.disk_size + SECTOR

    def pages(self) -> Iterator[Page]:
        """Yield the pages; raises ImageError at the end when the image is no disk that Azure takes."""
        yield from sparse_pages(self._disk())
        if not self._has_footer:
            self.disk_size = -(-self.disk_size // MIB) * MIB
            self.footer = vhd_footer(self.disk_size)
        check_vhd(self.footer, self.disk_size)

    def _disk(self) -> Iterator[bytes]:
        for piece in self._pieces():
            self.disk_size += len(piece)
            self._check_size(self.disk_size)
            yield piece

    def _pieces(self) -> Iterator[bytes]:
        held = b""
        first = True
        for chunk in self._chunks:
            if first and self._has_footer and chunk.startswith(b"conectix"):
                raise ImageError("the VHD is a dynamic one; Azure takes fixed disks only")
            if first and chunk.startswith(b"QFI\xfb"):
                raise ImageError("the image is a qcow2, not a raw disk or a VHD")
            first = False
            if not self._has_footer:
                yield chunk
                continue
            # The last sector is held back; a piece as it came is passed on whole, which copies nothing.
            if len(chunk) >= SECTOR:
                ready, held = held, chunk
            else:
                held += chunk
                ready, held = held[:-SECTOR], held[-SECTOR:]
            yield ready
        if len(held) > SECTOR:
            ready, held = held[:-SECTOR], held[-SECTOR:]
            yield ready
        self.footer = held
