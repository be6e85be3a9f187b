"""An xz stream unpacked block by block: on all cores, and a block that was met before not at all.

`xz` on several threads, as the Image Factory runs it (`xz -0 -T 0`, siderolabs/talos pkg/imager/post.go), makes
blocks of 1 MiB that stand alone and tell their sizes. They are found here as they come, which no library does from
a stream: python-xz must seek to the index at the end, and liblzma's own decoder for many threads is not in
Python's lzma. Each block is given to liblzma as a stream of its own, so that every checksum is checked by it; the
index is compared with the blocks that were met. Format: tukaani.org/xz/xz-file-format.txt.

Most of a disk is zeros, and all its blocks of zeros are packed to the same few bytes: the first one is unpacked and
checked, the others are known by those bytes.
"""

import hashlib
import lzma
import struct
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from .unpacked import UNPACKED, DamagedStream, Zeros, is_zero

# A stream at preset 9 needs 65 MiB; one that asks for more was not made by the factory.
_MEMORY_LIMIT = 96 * 1024 * 1024
# Blocks up to this size are unpacked whole; `xz -6 -T 0` makes blocks of 24 MiB.
_WHOLE = 24 * 1024 * 1024
# Most bytes of unpacked blocks at once, unless one alone has more.
_IN_FLIGHT = 48 * 1024 * 1024
# Blocks of zeros are packed to some 250 bytes for each MiB.
_SMALL = 4096
_MAGIC = b"\xfd7zXZ\x00"
_END = b"YZ"
_STREAM_HEADER = 12
# Bytes of a checksum by its number; Python's lzma knows none, CRC32, CRC64 and SHA-256.
_CHECK_SIZES = (0, 4, 4, 4, 8, 8, 8, 16, 16, 16, 32, 32, 32, 64, 64, 64)
_HAS_PACKED, _HAS_UNPACKED = 0x40, 0x80
_WRONG_INDEX = "the index does not fit the blocks"
# Longest number in the format.
_NUMBER = 9


def unxz(packed: Iterator[bytes], workers: int) -> Iterator[bytes]:
    """Yield what is in one xz stream, or in several after each other, with ``workers`` blocks at once.

    Raises DamagedStream or EOFError when it is not whole; what was yielded by then is right.
    """
    source = _Source(packed)
    with ThreadPoolExecutor(workers, thread_name_prefix="unxz") as pool:
        yield from _Stream(source, pool, workers).pieces()
        while True:
            # Zeros in whole fours may stand between streams, and after the last.
            while source.startswith(bytes(4)):
                pass
            if not source.peek(1):
                return
            yield from _Stream(source, pool, workers).pieces()


class _Source:
    """Bytes that come in chunks, taken in the sizes that the format says."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._chunk = b""
        self._at = 0

    def startswith(self, start: bytes) -> bool:
        """Say whether ``start`` comes next, and take it if so."""
        if not self._fill(len(start)) or not self._chunk.startswith(start, self._at):
            return False
        self._at += len(start)
        return True

    def peek(self, size: int) -> bytes:
        """Return the next bytes without taking them; fewer at the end."""
        self._fill(size)
        return self._chunk[self._at : self._at + size]

    def take(self, size: int) -> bytes:
        """Return the next bytes; raises EOFError when there are not as many."""
        if not self._fill(size):
            raise EOFError
        self._at += size
        return self._chunk[self._at - size : self._at]

    def parts(self, size: int) -> Iterator[bytes]:
        """Yield the next bytes in parts, so that a large size costs no memory."""
        while size:
            part = self.take(min(size, UNPACKED))
            size -= len(part)
            yield part

    def _fill(self, size: int) -> bool:
        """Have that many bytes at hand, and say whether there are as many."""
        have = len(self._chunk) - self._at
        if have >= size:
            return True
        chunks = [self._chunk[self._at :]]
        while have < size and (chunk := next(self._chunks, None)) is not None:
            chunks.append(chunk)
            have += len(chunk)
        self._chunk, self._at = b"".join(chunks), 0
        return have >= size


@dataclass(frozen=True)
class _Header:
    """The header of a block, and what it says of its size before and after; it need not."""

    raw: bytes
    packed: int | None
    unpacked: int | None

    @property
    def is_whole(self) -> bool:
        """Whether the block can be unpacked in one go."""
        return self.packed is not None and self.unpacked is not None and max(self.packed, self.unpacked) <= _WHOLE


class _Stream:
    """One stream: its header, blocks, index and footer."""

    def __init__(self, source: _Source, pool: ThreadPoolExecutor, workers: int) -> None:
        self._source = source
        self._pool = pool
        self._most = 2 * workers
        self._header = source.take(_STREAM_HEADER)
        self._flags = self._header[6:8]
        if self._header != _MAGIC + self._flags + _crc32(self._flags) or self._flags[0] or self._flags[1] > 15:
            raise DamagedStream("no stream header")
        self._check_size = _CHECK_SIZES[self._flags[1]]
        # What the index will say of the blocks; a stream may have any number.
        self._records = hashlib.sha256()
        self._record_bytes = self._blocks = 0
        # A block of nothing but zeros as it came, what the index says of it, and what is in it.
        self._zeros: tuple[bytes, bytes, list[bytes]] | None = None

    def pieces(self) -> Iterator[bytes]:
        """Yield what is in the blocks, then check the index."""
        waiting: deque[tuple[int, Future[list[bytes]]]] = deque()
        while self._source.peek(1) != b"\0":
            if self._zeros is not None and self._source.startswith(self._zeros[0]):
                _, record, zeros = self._zeros
                self._count(record)
                yield from _drained(waiting)
                yield from zeros
                continue
            header = self._block_header()
            if not header.is_whole:
                yield from _drained(waiting)
                yield from self._long_block(header)
                continue
            size = header.unpacked or 0
            while waiting and (len(waiting) >= self._most or size + sum(held for held, _ in waiting) > _IN_FLIGHT):
                yield from waiting.popleft()[1].result()
            waiting.append((size, self._whole_block(header)))
        yield from _drained(waiting)
        self._check_index()

    def _block_header(self) -> _Header:
        # Zero is no size but the mark of the index.
        size = (self._source.peek(1) or self._source.take(1))[0] * 4
        raw = self._source.take(size + 4)
        if raw[-4:] != _crc32(raw[:-4]):
            raise DamagedStream("no block header")
        flags, at = raw[1], 2
        packed = unpacked = None
        if flags & _HAS_PACKED:
            packed, at = _read_number(raw, at)
        if flags & _HAS_UNPACKED:
            unpacked, at = _read_number(raw, at)
        return _Header(raw, packed, unpacked)

    def _whole_block(self, header: _Header) -> "Future[list[bytes]]":
        packed, unpacked = header.packed or 0, header.unpacked or 0
        block = header.raw + self._source.take(packed + -packed % 4 + self._check_size)
        record = self._record(header, packed, unpacked)
        self._count(record)
        return self._pool.submit(self._unpack_whole, block, record)

    def _unpack_whole(self, block: bytes, record: bytes) -> list[bytes]:
        decoder = _decoder()
        pieces = [*_feed(decoder, self._header + block + self._end(record))]
        if not decoder.eof or decoder.unused_data:
            raise DamagedStream("a block has another size than it says")
        if len(block) <= _SMALL and all(map(is_zero, pieces)):
            pieces = [Zeros(piece) for piece in pieces]
            self._zeros = block, record, pieces
        return pieces

    def _long_block(self, header: _Header) -> Iterator[bytes]:
        decoder = _decoder()
        yield from _feed(decoder, self._header + header.raw)
        packed = unpacked = 0
        for part in self._lzma2_chunks() if header.packed is None else self._source.parts(header.packed):
            packed += len(part)
            for piece in _feed(decoder, part):
                unpacked += len(piece)
                yield piece
        record = self._record(header, packed, unpacked)
        self._count(record)
        rest = self._source.take(-packed % 4 + self._check_size)
        yield from _feed(decoder, rest + self._end(record))
        if not decoder.eof or decoder.unused_data:
            raise DamagedStream("a block has another size than it says")

    def _lzma2_chunks(self) -> Iterator[bytes]:
        """Yield a block that does not tell its size. The last filter is always LZMA2, whose chunks tell theirs."""
        while (control := self._source.peek(1)) != b"\0":
            kind = (control or self._source.take(1))[0]
            # Packed: a byte of control, two sizes of two bytes, and the properties when they are new.
            head = 3 if kind < 0x80 else 6 if kind >= 0xC0 else 5
            if 2 < kind < 0x80:
                raise DamagedStream("no LZMA2 chunk")
            start = self._source.peek(head).ljust(head, b"\0")
            yield self._source.take(head + int.from_bytes(start[1:3] if kind < 0x80 else start[3:5], "big") + 1)
        yield self._source.take(1)

    def _record(self, header: _Header, packed: int, unpacked: int) -> bytes:
        return _number(len(header.raw) + packed + self._check_size) + _number(unpacked)

    def _count(self, record: bytes) -> None:
        self._records.update(record)
        self._record_bytes += len(record)
        self._blocks += 1

    def _end(self, record: bytes) -> bytes:
        """Return the index and footer of a stream of one block."""
        index = b"\0\1" + record
        index += bytes(-len(index) % 4)
        index += _crc32(index)
        return index + self._footer(len(index))

    def _footer(self, index_size: int) -> bytes:
        fields = struct.pack("<I", index_size // 4 - 1) + self._flags
        return _crc32(fields) + fields + _END

    def _check_index(self) -> None:
        """Compare index and footer with the blocks that were met."""
        head = b"\0" + _number(self._blocks)
        padding = bytes(-(len(head) + self._record_bytes) % 4)
        if self._source.take(len(head)) != head:
            raise DamagedStream(_WRONG_INDEX)
        checksum, records = zlib.crc32(head), hashlib.sha256()
        for part in self._source.parts(self._record_bytes):
            checksum = zlib.crc32(part, checksum)
            records.update(part)
        if records.digest() != self._records.digest():
            raise DamagedStream(_WRONG_INDEX)
        checksum = zlib.crc32(padding, checksum)
        size = len(head) + self._record_bytes + len(padding) + 4
        end = padding + struct.pack("<I", checksum) + self._footer(size)
        if self._source.take(len(end)) != end:
            raise DamagedStream(_WRONG_INDEX)


def _decoder() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_LIMIT)


def _feed(decoder: lzma.LZMADecompressor, data: bytes) -> Iterator[bytes]:
    """Yield what ``data`` unpacks to, a bounded step at a time."""
    try:
        while True:
            if piece := decoder.decompress(data, UNPACKED):
                yield piece
            data = b""
            if decoder.eof or decoder.needs_input:
                return
    except (lzma.LZMAError, EOFError) as error:
        raise DamagedStream(str(error)) from None


def _drained(waiting: "deque[tuple[int, Future[list[bytes]]]]") -> Iterator[bytes]:
    while waiting:
        yield from waiting.popleft()[1].result()


def _crc32(data: bytes) -> bytes:
    return struct.pack("<I", zlib.crc32(data))


def _number(value: int) -> bytes:
    """Return a number as the format writes it: seven bits a byte, the lowest first."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at that place, and the place after it."""
    value = 0
    for index, byte in enumerate(data[at : at + _NUMBER]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise DamagedStream("no block header")
