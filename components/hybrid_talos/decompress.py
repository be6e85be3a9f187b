"""Packed images unpacked as a stream: in bounded memory, whatever comes, and on all cores where the format allows it.

Three stages run at once: reading, unpacking, and whoever takes the pieces. The decoders leave Python's lock while
they work, as do sockets and digests.
"""

import os
import sys
import zlib
from collections.abc import Callable, Iterator

from .parallel import ReadAhead
from .unpacked import UNPACKED, DamagedStream
from .xz_blocks import unxz

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_READ_AHEAD = 4
"""Pieces that are read, and pieces that are unpacked, ahead of their use; each has a MiB or so."""
# What `zstd -d` takes unasked; the factory's `zstd -18` needs 8 MiB (siderolabs/talos pkg/imager/post.go).
_ZSTD_WINDOW_LOG = 27
# A decoder hands back what it did not take, so that a large piece would be copied again and again.
_INPUT = 64 * 1024


def unpack(packed: Iterator[bytes], compression: str, *, workers: int | None = None) -> Iterator[bytes]:
    """Yield the image in ``packed``, in pieces of bounded size.

    ``compression`` is xz, zst, gz or nothing. ``packed`` is read to its end, on another thread. ``workers`` unpack
    at once where the stream allows it; as many as there are cores when left out. Raises DamagedStream when the
    stream breaks its format or a checksum, EOFError when it ends too early, and whatever ``packed`` raises.
    """
    unpacker = _UNPACKERS[compression]
    with ReadAhead(packed, pieces=_READ_AHEAD) as source:
        if unpacker is None:
            yield from source
            return
        with ReadAhead(unpacker(source, workers or os.cpu_count() or 1), pieces=_READ_AHEAD) as unpacked:
            yield from unpacked


def _unzstd(packed: Iterator[bytes], _workers: int) -> Iterator[bytes]:
    def new() -> zstd.ZstdDecompressor:
        return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG})

    decoder = new()
    try:
        for chunk in _slices(packed):
            data = chunk
            while True:
                if decoder.eof:
                    # Frames may follow each other.
                    if not data:
                        break
                    decoder = new()
                if piece := decoder.decompress(data, UNPACKED):
                    yield piece
                data = decoder.unused_data if decoder.eof else b""
                if not decoder.eof and decoder.needs_input:
                    break
    except zstd.ZstdError as error:
        raise DamagedStream(str(error)) from None
    if not decoder.eof:
        raise EOFError


def _gunzip(packed: Iterator[bytes], _workers: int) -> Iterator[bytes]:
    decoder = zlib.decompressobj(wbits=31)
    try:
        for part in _slices(packed):
            data = part
            while data:
                if decoder.eof:
                    # Members may follow each other, and zeros the last one.
                    data = data.lstrip(b"\0")
                    if not data:
                        break
                    decoder = zlib.decompressobj(wbits=31)
                if piece := decoder.decompress(data, UNPACKED):
                    yield piece
                data = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
    except zlib.error as error:
        raise DamagedStream(str(error)) from None
    if not decoder.eof:
        raise EOFError


def _slices(chunks: Iterator[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), _INPUT):
            yield chunk[start : start + _INPUT]


_UNPACKERS: dict[str, Callable[[Iterator[bytes], int], Iterator[bytes]] | None] = {
    "xz": unxz,
    "zst": _unzstd,
    "gz": _gunzip,
    "": None,
}
