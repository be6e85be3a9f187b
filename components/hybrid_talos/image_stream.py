"""A compressed disk image as a stream: downloaded, unpacked and checked, in bounded memory and no file.

Runs at deployment, inside a custom resource, never while a program is evaluated or previewed.
"""

import hashlib
import lzma
import ssl
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import requests
import urllib3
import zstandard
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

CHUNK = 1024 * 1024
"""Bytes that are read from the network at a time."""
UNPACKED = 4 * 1024 * 1024
"""Most bytes that one step of xz or gzip unpacks."""
# The factory builds an image on its first request, and answers when it is built.
_TIMEOUT_SECONDS = (30, 900)
# An xz stream at preset 9 needs 65 MiB; one that asks for more was not made by the factory.
_XZ_MEMORY_LIMIT = 256 * 1024 * 1024
# A block of zeros is 4 bytes in zstd and unpacks to 128 KiB, so that a slice of 512 bytes gives at most 16 MiB.
_ZSTD_SLICE = 512
_ZSTD_WINDOW = 128 * 1024 * 1024


class ImageError(Exception):
    """An image that cannot be had or is not what it should be. The message holds no secret."""


class Compression(StrEnum):
    """How an image is packed."""

    XZ = "xz"
    ZSTD = "zst"
    GZIP = "gz"
    NONE = ""


_MAGIC = {
    Compression.XZ: b"\xfd7zXZ\x00",
    Compression.ZSTD: b"\x28\xb5\x2f\xfd",
    Compression.GZIP: b"\x1f\x8b",
    Compression.NONE: b"",
}


def compression_of(asset: str) -> Compression:
    """Return how the asset of that file name is packed."""
    suffix = asset.rpartition(".")[2]
    return next((kind for kind in Compression if kind and kind.value == suffix), Compression.NONE)


class _TrustingAdapter(HTTPAdapter):
    """Trusts one more certificate authority, given as PEM text."""

    def __init__(self, ca_pem: str, max_retries: Retry) -> None:
        self._context = ssl.create_default_context(cadata=ca_pem)
        super().__init__(max_retries=max_retries)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> Any:
        return super().init_poolmanager(*args, ssl_context=self._context, **kwargs)


def http_session(ca_pem: str | None = None, *, backoff_seconds: float = 1.0) -> requests.Session:
    """Return a session that retries what may pass: broken connections, 429, 502, 503 and 504, five times.

    Proxies and certificate authorities come from the usual variables (HTTPS_PROXY, REQUESTS_CA_BUNDLE);
    ``ca_pem`` adds one authority. Raises ImageError when that is not a certificate.
    """
    retry = Retry(
        total=5,
        backoff_factor=backoff_seconds,
        status_forcelist=(429, 502, 503, 504),
        allowed_methods=None,
        raise_on_status=False,
    )
    try:
        adapter = _TrustingAdapter(ca_pem, retry) if ca_pem else HTTPAdapter(max_retries=retry)
    except ssl.SSLError:
        raise ImageError("factory_ca is not a certificate in PEM form") from None
    session = requests.Session()
    session.mount("https://", adapter)
    session.mount("http://", HTTPAdapter(max_retries=retry))
    return session


class Download:
    """One download: its bytes as they came, counted and hashed."""

    def __init__(self, response: requests.Response, url: str, on_bytes: Callable[[int], None]) -> None:
        self.url = url
        length = response.headers.get("Content-Length", "")
        self.total = int(length) if length.isdecimal() else None
        """Bytes that the server announced; None when it did not."""
        self.received = 0
        """Bytes that came so far."""
        self._response = response
        self._hash = hashlib.sha256()
        self._on_bytes = on_bytes

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes as they came (packed), hexadecimal."""
        return self._hash.hexdigest()

    def packed(self) -> Iterator[bytes]:
        """Yield the bytes as they come; raises ImageError when there are fewer than announced."""
        try:
            for chunk in self._response.raw.stream(CHUNK, decode_content=False):
                self._hash.update(chunk)
                self.received += len(chunk)
                self._on_bytes(len(chunk))
                yield chunk
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ImageError(
                f"{self.url}: the connection broke after {self.received} bytes ({type(error).__name__}); "
                "run `pulumi up` again"
            ) from None
        if self.total is not None and self.received != self.total:
            raise ImageError(f"{self.url}: {self.received} bytes came, {self.total} were announced")

    def unpacked(self, compression: Compression) -> Iterator[bytes]:
        """Yield the image itself, in pieces of bounded size; raises ImageError when it is not whole."""
        source = self.packed()
        first = next(source, b"")
        # A server may send any number of bytes first; the longest mark has six.
        while len(first) < 6 and (more := next(source, b"")):
            first += more
        self._refuse_other(first, compression)
        unpack = _UNPACKERS[compression]
        try:
            yield from unpack(_chain(first, source))
        except (lzma.LZMAError, zlib.error, zstandard.ZstdError):
            raise ImageError(f"{self.url}: the {compression.value} stream is damaged") from None
        except EOFError:
            raise ImageError(f"{self.url}: the {compression.value} stream ends too early") from None

    def verify(self, sha256: str | None) -> None:
        """Raise ImageError when the download is not the pinned one. Call it after the last byte."""
        if sha256 is not None and sha256.lower() != self.sha256:
            raise ImageError(
                f"{self.url}: its SHA-256 is {self.sha256}, but {sha256.lower()} is pinned "
                "(compressed_sha256); nothing was kept"
            )

    def _refuse_other(self, first: bytes, compression: Compression) -> None:
        if first.lstrip().startswith(b"<"):
            raise ImageError(f"{self.url}: an HTML or XML page came instead of an image")
        if not first.startswith(_MAGIC[compression]):
            raise ImageError(f"{self.url}: what came is not a {compression.value} stream")


@contextmanager
def download(
    session: requests.Session, url: str, on_bytes: Callable[[int], None] = lambda _: None
) -> Iterator[Download]:
    """Open a download, following redirects. Raises ImageError for every status but 200."""
    try:
        response = session.get(url, stream=True, timeout=_TIMEOUT_SECONDS, headers={"Accept-Encoding": "identity"})
    except requests.RequestException as error:
        raise ImageError(f"{url}: cannot be reached ({type(error).__name__})") from None
    with response:
        if response.status_code != requests.codes.ok:
            raise ImageError(f"{url}: status {response.status_code}{plain_reason(response)}")
        if response.headers.get("Content-Type", "").startswith("text/html"):
            raise ImageError(f"{url}: an HTML page came instead of an image")
        yield Download(response, url, on_bytes)


def plain_reason(response: requests.Response) -> str:
    """Return the first line of a plain-text error, as the factory writes them; empty for anything else."""
    if not response.headers.get("Content-Type", "").startswith("text/plain"):
        return ""
    body = next(response.iter_content(400), b"")
    text = body.decode(errors="replace").strip().splitlines()
    return f": {text[0][:300]}" if text else ""


def _chain(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _unxz(packed: Iterator[bytes]) -> Iterator[bytes]:
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_LIMIT)
    for chunk in packed:
        data = chunk
        while True:
            if decoder.eof:
                # Streams may follow each other, with zeros between them.
                data = data.lstrip(b"\0")
                if not data:
                    break
                decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_LIMIT)
            if piece := decoder.decompress(data, UNPACKED):
                yield piece
            data = decoder.unused_data if decoder.eof else b""
            if not decoder.eof and decoder.needs_input:
                break
    if not decoder.eof:
        raise EOFError


def _gunzip(packed: Iterator[bytes]) -> Iterator[bytes]:
    decoder = zlib.decompressobj(wbits=31)
    for chunk in packed:
        data = chunk
        while data:
            if decoder.eof:
                decoder = zlib.decompressobj(wbits=31)
            if piece := decoder.decompress(data, UNPACKED):
                yield piece
            data = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
    if not decoder.eof:
        raise EOFError


def _unzstd(packed: Iterator[bytes]) -> Iterator[bytes]:
    context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW)
    decoder = context.decompressobj()
    for chunk in packed:
        view = memoryview(chunk)
        for start in range(0, len(view), _ZSTD_SLICE):
            data = bytes(view[start : start + _ZSTD_SLICE])
            while data:
                if decoder.eof:
                    decoder = context.decompressobj()
                if piece := decoder.decompress(data):
                    yield piece
                data = decoder.unused_data if decoder.eof else b""
    if not decoder.eof:
        raise EOFError


def _as_is(packed: Iterator[bytes]) -> Iterator[bytes]:
    yield from packed


_UNPACKERS: dict[Compression, Callable[[Iterator[bytes]], Iterator[bytes]]] = {
    Compression.XZ: _unxz,
    Compression.GZIP: _gunzip,
    Compression.ZSTD: _unzstd,
    Compression.NONE: _as_is,
}
