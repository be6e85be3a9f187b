"""The packed bytes of an image, from a server or a file: counted, hashed, and gone on with when a connection breaks.

A server that can resume (RFC 9110, Range with If-Range) sends the rest. One that cannot, as the factory itself when
it has no storage behind it, is asked for the same bytes again: they are compared with those that came, and passed
over. So in either case what was unpacked and uploaded so far stays good, and one digest goes over the whole.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import requests
import urllib3
from urllib3.exceptions import MaxRetryError, ProtocolError
from urllib3.util import Retry

from .engine_log import note
from .http_session import retries
from .image_assets import Compression, DiskFormat, form_of
from .image_stream import ImageError, Interrupted, unpacked

CHUNK = 256 * 1024
"""Bytes that are read at a time. What came of one when a connection breaks is lost."""
# The factory makes an image on its first request, and answers when it is made.
_TIMEOUT_SECONDS = (30, 900)
# Once bytes come, a connection that is silent for so long is broken.
_SILENCE_SECONDS = 60
_MIB = 1024 * 1024
GIB = 1024 * _MIB
# A connection that brought so much has earned the next one all of its tries.
_EARNED = _MIB
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")

OnBytes = Callable[[int], None]


_ANOTHER = (
    "{url}: the connection broke after {done} bytes, and the server serves another image now; run `pulumi up` again"
)


class Image:
    """One packed image: its bytes as they come, their number and their digest."""

    def __init__(self, name: str, label: str, on_bytes: OnBytes) -> None:
        form = form_of(name)
        if form is None:
            raise ImageError(f"{label}: its name does not tell what it is; expected .vhd, .raw or .qcow2")
        # It goes into tags and metadata, which take little more than these.
        self.name = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[-128:]
        """File name of the asset or file."""
        self.label = label
        """What errors call it."""
        self.disk_format: DiskFormat = form[0]
        """How the disk stands in it."""
        self.compression: Compression = form[1]
        """How it is packed."""
        self.pin: str | None = None
        """SHA-256 that the bytes must have; any when None."""
        self.largest: int | None = None
        """Most bytes that the disk in it may have; any number when None."""
        self.total: int | None = None
        """Bytes that were announced; None when they were not."""
        self.endless = False
        """True when not even the end of the transfer would tell that it is whole."""
        self.received = 0
        """Bytes that came so far."""
        self.source: Iterator[bytes] = iter(())
        """The bytes as they come, neither counted nor hashed yet."""
        self.read_range: Callable[[int, int], bytes | None] = lambda _offset, _length: None
        """Returns that many bytes from an offset on, beside the stream; None where no parts are served."""
        self._hash = hashlib.sha256()
        self._on_bytes = on_bytes

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes as they came (packed), hexadecimal."""
        return self._hash.hexdigest()

    def packed(self) -> Iterator[bytes]:
        """Yield the bytes as they come; raises ImageError when there are fewer than announced."""
        for chunk in self.source:
            self._hash.update(chunk)
            self.received += len(chunk)
            self._on_bytes(len(chunk))
            yield chunk
        if self.total is not None and self.received != self.total:
            raise ImageError(f"{self.label}: {self.received} bytes came, {self.total} were announced")

    def unpacked(self) -> Iterator[bytes]:
        """Yield the image itself, in pieces of bounded size; raises ImageError when it is not whole."""
        tells_its_end = self.compression is not Compression.NONE or self.disk_format is DiskFormat.VHD
        if self.endless and not tells_its_end and self.pin is None:
            raise ImageError(
                f"{self.label}: the server does not say how long the image is, and neither does the image; pin its "
                "SHA-256 (compressed_sha256), or take one that is packed"
            )
        return unpacked(self.label, self.packed(), self.compression)

    def check_size(self, disk: int) -> None:
        """Raise ImageError when the disk is larger than those that are to boot it; ``disk`` is in bytes, so far."""
        if self.largest is not None and disk > self.largest:
            raise ImageError(f"{self.label}: {too_large(self.largest)}")

    def verify(self) -> None:
        """Raise ImageError when the image is not the pinned one. Call it after the last byte."""
        if self.pin is not None and self.pin.lower() != self.sha256:
            raise ImageError(
                f"{self.label}: its SHA-256 is {self.sha256}, but {self.pin.lower()} is pinned; nothing was kept"
            )


def too_large(largest: int) -> str:
    """Return what is wrong with an image whose disk has more bytes than the machines' own."""
    return (
        f"the disk in the image has more than {largest / GIB:g} GiB, which is the smallest system disk that it is for; "
        "give the pools larger ones (osDiskSizeGb on Azure, systemDiskSizeGb on Alibaba Cloud), or take a smaller image"
    )


class NotServed(ImageError):
    """A server that answers, but not with the image. The message is the reason alone."""


@contextmanager
def download(
    session: requests.Session,
    urls: Sequence[str],
    on_bytes: OnBytes = lambda _: None,
    *,
    rule: Retry | None = None,
) -> Iterator[Image]:
    """Open the first of some URLs that is served, following redirects; the image is called as its file there.

    Raises ImageError that names each reason when none is. ``rule`` says how often a broken connection is replaced.
    """
    body: _Body | None = None
    refusals: dict[str, list[str]] = {}
    for url in urls:
        try:
            body = _Body(session, url, rule or retries(1.0))
            break
        except NotServed as refusal:
            refusals.setdefault(str(refusal), []).append(url)
    if body is None:
        raise ImageError("; ".join(f"{', '.join(found)}: {reason}" for reason, found in refusals.items()))
    with body:
        image = Image(urlsplit(body.url).path.rpartition("/")[2], body.url, on_bytes)
        image.total, image.endless, image.source = body.total, body.endless, body.chunks(image)
        image.read_range = body.read_range
        yield image


@contextmanager
def open_file(path: str, on_bytes: OnBytes = lambda _: None) -> Iterator[Image]:
    """Open an image file of this machine."""
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - closed below; only the opening is to fail here
    except OSError as error:
        raise ImageError(f"{path}: the image file cannot be opened ({error.strerror})") from None
    with file:
        image = Image(Path(path).name, path, on_bytes)
        image.total, image.source = Path(path).stat().st_size, iter(lambda: file.read(CHUNK), b"")
        image.read_range = lambda offset, length: os.pread(file.fileno(), length, offset)
        yield image


class _Body:
    """What one URL answers with, over as many connections as it takes."""

    def __init__(self, session: requests.Session, url: str, rule: Retry) -> None:
        self.url = url
        self._session = session
        self._rule = rule
        self._response = self._open({})
        self.total = _length(self._response)
        self.endless = self.total is None and not getattr(self._response.raw, "chunked", False)
        self._validator = _validator(self._response)

    def __enter__(self) -> "_Body":
        return self

    def __exit__(self, *_: object) -> None:
        self._response.close()

    def chunks(self, image: Image) -> Iterator[bytes]:
        """Yield the bytes, which ``image`` counts and hashes.

        Raises ImageError when the connection breaks again and again.
        """
        rule, since, broken = self._rule, 0, False
        while True:
            try:
                if broken:
                    self._resume(image)
                    broken = False
                yield from self._response.raw.stream(CHUNK, decode_content=False)
                if self.total is None or image.received >= self.total:
                    return
                reason = "ProtocolError"
            except (urllib3.exceptions.HTTPError, OSError) as error:
                reason = type(error).__name__
            self._response.close()
            broken = True
            if image.received - since >= _EARNED:
                rule, since = self._rule, image.received
            try:
                rule = rule.increment("GET", self.url, error=ProtocolError(reason))
            except MaxRetryError:
                raise Interrupted(
                    f"{self.url}: the connection broke after {image.received} bytes ({reason}), again and again; "
                    "run `pulumi up` again"
                ) from None
            rule.sleep()

    def read_range(self, offset: int, length: int) -> bytes | None:
        """Return a part of the image from a connection of its own; None when the server serves no parts."""
        asked = {"Range": f"bytes={offset}-{offset + length - 1}"}
        if self._validator:
            asked["If-Range"] = self._validator
        try:
            with self._open(asked) as response:
                if response.status_code != requests.codes.partial_content:
                    return None
                data: bytes = response.raw.read(length, decode_content=False)
                return data
        except (ImageError, urllib3.exceptions.HTTPError, OSError):
            return None

    def _open(self, headers: dict[str, str]) -> requests.Response:
        try:
            response = self._session.get(
                self.url, stream=True, timeout=_TIMEOUT_SECONDS, headers={"Accept-Encoding": "identity", **headers}
            )
        except requests.RequestException as error:
            raise Interrupted(f"{self.url}: cannot be reached ({type(error).__name__})") from None
        try:
            _refuse(self.url, response)
        except ImageError:
            response.close()
            raise
        sock = getattr(getattr(response.raw, "connection", None), "sock", None)
        if sock is not None:
            sock.settimeout(_SILENCE_SECONDS)
        return response

    def _resume(self, image: Image) -> None:
        """Open the URL again and stand where the last connection broke."""
        done = image.received
        asked = {"Range": f"bytes={done}-", "If-Range": self._validator} if self._validator and done else {}
        try:
            self._response = self._open(asked)
        except NotServed as refusal:
            raise Interrupted(
                f"{self.url}: the connection broke after {done} bytes, and now the server answers: {refusal}"
            ) from None
        at = f"{image.name}: the connection broke at {done / _MIB:.0f} MiB"
        if self._response.status_code == requests.codes.partial_content:
            # A server that does not heed If-Range would send the rest of another image.
            if self._is_another():
                raise ImageError(_ANOTHER.format(url=self.url, done=done))
            note(f"{at} and goes on from there")
            return
        note(f"{at}, from where the server cannot go on: up to there it is read and compared again")
        if _length(self._response) != self.total or not self._pass_over(done, image.sha256):
            raise ImageError(_ANOTHER.format(url=self.url, done=done))

    def _is_another(self) -> bool:
        """Tell whether a part that was sent is known to be one of another content than the parts before it."""
        now = _validator(self._response)
        size = self._response.headers.get("Content-Range", "").rpartition("/")[2]
        return (now is not None and now != self._validator) or (size.isdecimal() and int(size) != self.total)

    def _pass_over(self, done: int, sha256: str) -> bool:
        """Read what came before once more, and tell whether it is the same."""
        seen = hashlib.sha256()
        while done and (chunk := self._response.raw.read(min(CHUNK, done), decode_content=False)):
            seen.update(chunk)
            done -= len(chunk)
        return not done and seen.hexdigest() == sha256


def _refuse(url: str, response: requests.Response) -> None:
    """Raise for all that is not an image, or the part of one that was asked for."""
    asked = response.request.headers.get("Range")
    if response.status_code == requests.codes.partial_content and asked:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if found is None or found[1] != asked.removeprefix("bytes=").partition("-")[0]:
            raise ImageError(f"{url}: the server sent another part than the one that was asked for")
    elif response.status_code != requests.codes.ok:
        raise NotServed(f"status {response.status_code}{plain_reason(response)}")
    if response.headers.get("Content-Type", "").startswith("text/html"):
        raise NotServed("an HTML page came instead of an image")
    hops = [*(hop.url for hop in response.history), response.url]
    if url.startswith("https:") and any(urlsplit(hop or url).scheme != "https" for hop in hops):
        raise ImageError(f"{url}: it redirects to an address without https, where anyone could change the image")


def _length(response: requests.Response) -> int | None:
    length = response.headers.get("Content-Length", "")
    return int(length) if length.isdecimal() else None


def _validator(response: requests.Response) -> str | None:
    """Return what tells this content from any other in an If-Range, which takes no weak tags (RFC 9110, 13.1.5)."""
    tag = response.headers.get("ETag", "")
    if tag and not tag.startswith("W/"):
        return tag
    return response.headers.get("Last-Modified")


def plain_reason(response: requests.Response) -> str:
    """Return the first line of a plain-text error, as the factory writes them; empty for anything else."""
    if not response.headers.get("Content-Type", "").startswith("text/plain"):
        return ""
    body = next(response.iter_content(400), b"")
    text = body.decode(errors="replace").strip().splitlines()
    return f": {text[0][:300]}" if text else ""
