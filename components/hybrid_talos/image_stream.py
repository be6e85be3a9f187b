"""A compressed disk image as a stream: unpacked and checked, in bounded memory and no file.

Runs at deployment, inside a custom resource, never while a program is evaluated or previewed.
"""

from collections.abc import Iterable, Iterator

from .decompress import unpack
from .image_assets import Compression
from .unpacked import DamagedStream


class ImageError(Exception):
    """An image that cannot be had or is not what it should be. The message holds no secret."""


class Interrupted(ImageError):
    """An image that stopped coming: what came of it is good, and another run may go on from there."""


_MAGIC = {
    Compression.XZ: b"\xfd7zXZ\x00",
    Compression.ZSTD: b"\x28\xb5\x2f\xfd",
    Compression.GZIP: b"\x1f\x8b",
    Compression.NONE: b"",
}


def unpacked(label: str, packed: Iterator[bytes], compression: Compression) -> Iterator[bytes]:
    """Yield the image itself, in pieces of bounded size; raises ImageError when it is not whole.

    ``label`` says in errors what is unpacked.
    """
    first = next(packed, b"")
    # A server may send any number of bytes first; the longest mark has six.
    while len(first) < 6 and (more := next(packed, b"")):
        first += more
    if first.lstrip().startswith(b"<"):
        raise ImageError(f"{label}: an HTML or XML page came instead of an image")
    if not first.startswith(_MAGIC[compression]):
        raise ImageError(f"{label}: what came is not a {compression.value} stream")
    try:
        yield from unpack(_chain(first, packed), compression)
    except DamagedStream as error:
        raise ImageError(f"{label}: the {compression.value} stream is damaged ({error})") from None
    except EOFError:
        raise ImageError(f"{label}: the {compression.value} stream ends too early") from None


def _chain(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest
