"""How large a packed image is when it is unpacked, found in a few of its bytes.

An upload disk of Azure is made with its exact size, before the first byte of the image is unpacked. An xz file tells
it in its index at the end (tukaani.org, The .xz File Format, 2.1.2 and 4), a zstd frame in its header (RFC 8878,
3.1.1.1.4) when the packer knew it. What is found here is a promise by whoever packed the image: the stream decides.
"""

import struct
import sys
import zlib
from collections.abc import Callable

from .image_assets import Compression

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

ReadRange = Callable[[int, int], bytes | None]
"""Returns that many bytes from an offset on, or None where the server serves no parts."""

# One request of this size has the whole index of an image of 11 GiB, however small its blocks.
_TAIL = 256 * 1024
_HEADER, _FOOTER = 12, 12
_ZSTD_HEADER = 18
_LARGEST = 1 << 62


class _NotTold(Exception):
    """The bytes do not tell a size."""


def unpacked_size(compression: Compression, total: int | None, read: ReadRange) -> int | None:
    """Return the bytes of the unpacked image, or None when only unpacking it would tell."""
    try:
        if compression is Compression.NONE:
            return total
        if compression is Compression.ZSTD:
            return _zstd_size(read)
        if compression is Compression.XZ and total is not None:
            return _xz_size(total, read)
    except _NotTold:
        pass
    # gzip counts modulo 4 GiB, which is less than an image has.
    return None


def _zstd_size(read: ReadRange) -> int:
    header = read(0, _ZSTD_HEADER)
    try:
        size = zstd.get_frame_info(header or b"").decompressed_size
    except zstd.ZstdError:
        raise _NotTold from None
    if not size:
        raise _NotTold
    return size


def _xz_size(total: int, read: ReadRange) -> int:
    """Go through the streams of the file from the last to the first, each by its footer and index."""
    tail = _Tail(total, read)
    size, end = 0, total
    while end > 0:
        if tail.part(end - 4, 4) == bytes(4):  # padding between streams
            end -= 4
            continue
        unpacked, packed = _stream(tail, end)
        size, end = size + unpacked, end - packed
    return size


def _stream(tail: "_Tail", end: int) -> tuple[int, int]:
    """Return the unpacked and the packed size of the stream that ends there."""
    footer = tail.part(end - _FOOTER, _FOOTER)
    checksum, backward = struct.unpack_from("<II", footer)
    if footer[10:] != b"YZ" or zlib.crc32(footer[4:10]) != checksum:
        raise _NotTold
    length = (backward + 1) * 4
    index = tail.part(end - _FOOTER - length, length)
    if index[:1] != b"\0" or zlib.crc32(index[:-4]) != struct.unpack("<I", index[-4:])[0]:
        raise _NotTold
    count, at = _number(index, 1)
    blocks = unpacked = 0
    for _ in range(count):
        padded, at = _number(index, at)
        size, at = _number(index, at)
        blocks += -(-padded // 4) * 4
        unpacked += size
    packed = _HEADER + blocks + length + _FOOTER
    if packed > end or unpacked > _LARGEST:
        raise _NotTold
    return unpacked, packed


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return a multibyte integer of the xz format and where the next one starts."""
    value = 0
    for shift in range(0, 63, 7):
        if at >= len(data):
            break
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
    raise _NotTold


class _Tail:
    """The end of a file, read in few requests."""

    def __init__(self, total: int, read: ReadRange) -> None:
        self._read = read
        self._start = max(total - _TAIL, 0)
        self._data = self._get(self._start, total - self._start)

    def part(self, offset: int, length: int) -> bytes:
        if offset < 0 or length <= 0:
            raise _NotTold
        if offset < self._start:
            start = max(offset + length - _TAIL, 0) if length < _TAIL else offset
            self._data, self._start = self._get(start, offset + length - start), start
        return self._data[offset - self._start :][:length]

    def _get(self, offset: int, length: int) -> bytes:
        data = self._read(offset, length)
        if data is None or len(data) != length:
            raise _NotTold
        return data
