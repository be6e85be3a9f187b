"""Packs images as the Image Factory does, block by block, so that equal blocks (zeros, mostly) are packed once.

The factory runs `xz -0 -T 0`, `zstd -T0 -18` and `pigz -6` (siderolabs/talos pkg/imager/post.go): an xz of many blocks
that tell their sizes, one zstd frame with its size and checksum and a window of 8 MiB, one gzip member of independent
blocks. Only the level of zstd differs here, since 18 takes minutes and is unpacked alike.
"""

import functools
import lzma
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

import zstandard

BLOCK = 1 << 20
"""What `xz -0` takes for a block: the larger of 1 MiB and three times its dictionary of 256 KiB."""
_XZ_MAGIC, _XZ_END = b"\xfd7zXZ\x00", b"YZ"
_CRC64 = b"\x00\x04"
_STREAM_HEADER = 12
_BLOCK_HEADER = 16
_SIZES_GIVEN = 0xC0
# LZMA2 with a dictionary of 256 KiB.
_FILTER = b"\x21\x01\x0c"
_WORKERS = 4

T = TypeVar("T")


def pack(blocks: Iterable[bytes], compression: str | None, size: int, xz_block: int | None = BLOCK) -> Iterator[bytes]:
    """Yield an image of ``size`` bytes packed: by xz, gz, zst, or not at all.

    ``xz_block`` is the size of a block in an xz, and None makes one block without sizes, as `xz` on one thread does.
    """
    match compression:
        case None:
            return iter(blocks)
        case "xz":
            return _plain_xz(blocks) if xz_block is None else _xz(_cut(blocks, xz_block))
        case "gz":
            return _gz(_cut(blocks, BLOCK))
        case "zst":
            return _zst(blocks, size)
    raise ValueError(f"no such compression: {compression}")


def _cut(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    pending = bytearray()
    for block in blocks:
        if len(block) == size and not pending:
            yield block
            continue
        pending += block
        while len(pending) >= size:
            yield bytes(memoryview(pending)[:size])
            del pending[:size]
    if pending:
        yield bytes(pending)


def _in_order(work: Callable[[bytes], T], blocks: Iterable[bytes]) -> Iterator[tuple[bytes, T]]:
    """Work on several blocks at once; what was done for a block of zeros is kept."""

    @functools.lru_cache(maxsize=2)
    def zeros(size: int) -> T:
        return work(bytes(size))

    def one(block: bytes) -> T:
        return zeros(len(block)) if not any(memoryview(block)[:64]) and not block.strip(b"\0") else work(block)

    source = iter(blocks)
    with ThreadPoolExecutor(_WORKERS) as pool:
        waiting: list[tuple[bytes, Future[T]]] = [(block, pool.submit(one, block)) for block in islice(source, 8)]
        while waiting:
            block, future = waiting.pop(0)
            yield block, future.result()
            waiting += [(block, pool.submit(one, block)) for block in islice(source, 1)]


def _plain_xz(blocks: Iterable[bytes]) -> Iterator[bytes]:
    packer = lzma.LZMACompressor(lzma.FORMAT_XZ, lzma.CHECK_CRC64, preset=0)
    for block in blocks:
        yield packer.compress(block)
    yield packer.flush()


def _xz(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Put blocks into one stream (tukaani.org, The .xz File Format)."""
    yield _XZ_MAGIC + _CRC64 + _crc32(_CRC64)
    records = []
    for block, (unpadded, body) in _in_order(_xz_block, blocks):
        records.append(_number(unpadded) + _number(len(block)))
        yield body
    index = _padded(b"\0" + _number(len(records)) + b"".join(records))
    index += _crc32(index)
    yield index
    footer = struct.pack("<I", len(index) // 4 - 1) + _CRC64
    yield _crc32(footer) + footer + _XZ_END


def _xz_block(block: bytes) -> tuple[int, bytes]:
    """Return a block's size without padding, and the block: as lzma makes it, but with its sizes in its header."""
    stream = lzma.compress(block, lzma.FORMAT_XZ, lzma.CHECK_CRC64, preset=0)
    header = (stream[_STREAM_HEADER] + 1) * 4
    index_at = len(stream) - _STREAM_HEADER - (struct.unpack_from("<I", stream, len(stream) - 8)[0] + 1) * 4
    # The index of one block: a zero, the count of one, and the size that is wanted here.
    unpadded, _ = _read_number(stream, index_at + 2)
    packed = unpadded - header - 8
    head = bytes([_BLOCK_HEADER // 4 - 1, _SIZES_GIVEN]) + _number(packed) + _number(len(block)) + _FILTER
    head = head.ljust(_BLOCK_HEADER - 4, b"\0")
    body = head + _crc32(head) + stream[_STREAM_HEADER + header : index_at]
    return _BLOCK_HEADER + packed + 8, body


def _number(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def _crc32(data: bytes) -> bytes:
    return struct.pack("<I", zlib.crc32(data))


def _gz(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Put blocks that do not look back into one gzip member (RFC 1952)."""
    yield b"\x1f\x8b\x08\x00\0\0\0\0\x00\x03"
    check = size = 0
    for block, packed in _in_order(_deflated, blocks):
        check, size = zlib.crc32(block, check), size + len(block)
        yield packed
    yield b"\x03\x00" + struct.pack("<II", check, size & 0xFFFFFFFF)


def _deflated(block: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)


def _zst(blocks: Iterable[bytes], size: int) -> Iterator[bytes]:
    settings = zstandard.ZstdCompressionParameters.from_level(
        3, window_log=23, write_content_size=True, write_checksum=True
    )
    packer = zstandard.ZstdCompressor(compression_params=settings).compressobj(size=size)
    for block in blocks:
        yield packer.compress(block)
    yield packer.flush()
