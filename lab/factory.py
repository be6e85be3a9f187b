"""A small Image Factory on loopback, with the HTTP API of the real one (siderolabs/image-factory docs/api.md).

It answers as the community server does: unknown fields of a schematic are refused, checksums cost (402), a version or
schematic that it does not know is not found, and an image is sent whole: it takes parts of one only behind a redirect,
where the real one has an object store. Of the assets it makes disk images and iPXE scripts only; any other is answered
with 501. Images are made on the first request, and kept.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from . import factory_faults as faults
from .factory_store import VERSIONS, Factory, Refusal, extension_list, known_version, overlay_list

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_BLOCK = 1 << 20
_BODY_LIMIT = 1 << 20
_CORRUPTED = 64
_PAUSE = 4.0

_TYPES = {
    ".xz": "application/x-xz",
    ".gz": "application/gzip",
    ".zst": "application/zstd",
    ".qcow2": "application/x-qemu-disk",
}
_PAGE = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body>Sign in to go on</body></html>\n"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "Image Factory (lab)"
    sys_version = ""
    factory: ClassVar[Factory]
    redirect: ClassVar[bool] = False

    def do_GET(self) -> None:  # noqa: N802 - the base class names it
        self._answer(self._get)

    def do_HEAD(self) -> None:  # noqa: N802
        self._answer(self._get)

    def do_POST(self) -> None:  # noqa: N802
        self._answer(self._post)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the lab's terminal belongs to the engine."""

    def _answer(self, work: Callable[[list[str]], None]) -> None:
        try:
            work(urlsplit(self.path).path.strip("/").split("/"))
        except Refusal as refusal:
            if self.command == "POST":
                self.close_connection = True  # the body may not have been read
            self._send(refusal.status, f"{refusal}\n".encode(), "text/plain; charset=utf-8")
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _post(self, parts: list[str]) -> None:
        if parts != ["schematics"]:
            raise Refusal(HTTPStatus.NOT_FOUND, "404 page not found")
        length = self.headers.get("Content-Length", "")
        if not length.isdigit():
            raise Refusal(HTTPStatus.LENGTH_REQUIRED, "the lab's factory needs a Content-Length")
        if int(length) > _BODY_LIMIT:
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "schematic too large")
        id, text = self.factory.create(self.rfile.read(int(length)))
        self._send_json({"id": id, "schematic": text}, HTTPStatus.CREATED)

    def _get(self, parts: list[str]) -> None:
        match parts:
            case ["schematics", id]:
                self._send(HTTPStatus.OK, self.factory.schematic(id).encode(), "application/yaml")
            case ["versions"]:
                broken = parse_qs(urlsplit(self.path).query).get("broken") == ["true"]
                self._send_json([] if broken else list(VERSIONS))
            case ["version", version, "extensions", "official"]:
                self._send_json(extension_list(known_version(version)))
            case ["version", version, "overlays", "official"]:
                self._send_json(overlay_list(known_version(version)))
            case ["secureboot", "signing-cert.pem"]:
                self._send(HTTPStatus.OK, self.factory.signing_certificate(), "application/x-pem-file")
            case ["pxe", schematic, version, name]:
                script = self.factory.ipxe(f"http://{self.headers.get('Host')}", schematic, version, name)
                self._send(HTTPStatus.OK, script.encode(), "text/plain; charset=utf-8")
            case ["image", schematic, version, name]:
                self._image(schematic, version, name)
            case ["cdn", schematic, version, name] if self.redirect:
                self._send_image(self.factory.file(self.factory.asset(schematic, version, name)), name, parts=True)
            case _:
                raise Refusal(HTTPStatus.NOT_FOUND, "404 page not found")

    def _image(self, schematic: str, version: str, name: str) -> None:
        asset = self.factory.asset(schematic, version, name)
        if self.redirect and self.command == "GET":  # HEAD is always served directly
            self.send_response(HTTPStatus.FOUND)
            self.send_header("Location", f"/cdn/{schematic}/{asset.version}/{name}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._send_image(self.factory.file(asset), name, parts=False)

    def _send_json(self, value: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(status, json.dumps(value).encode() + b"\n", "application/json")

    def _send(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_image(self, path: Path, name: str, *, parts: bool) -> None:
        fault = faults.take(self.factory.folder, name) if self.command == "GET" else None
        match fault.action if fault else "":
            case "html":
                self._send(HTTPStatus.OK, _PAGE, "text/html; charset=utf-8")
                return
            case "busy":
                raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "service temporarily unavailable")
            case "missing":
                raise Refusal(HTTPStatus.NOT_FOUND, "404 page not found")
        info = path.stat()
        size = fault.after if fault and fault.action == "truncate" else info.st_size
        marks = {}
        if parts:
            marks = {"ETag": f'"{info.st_size:x}-{info.st_mtime_ns:x}"', "Last-Modified": _date(info.st_mtime)}
        span = self._wanted(marks, size) if parts else None
        if span is not None and span[0] >= span[1]:
            self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            self.send_header("Content-Range", f"bytes */{size}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start, end = span or (0, size)
        self.send_response(HTTPStatus.OK if span is None else HTTPStatus.PARTIAL_CONTENT)
        if span is not None:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.send_header("Content-Type", _TYPES.get(path.suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(end - start))
        self.send_header("Content-Disposition", f'attachment; filename="{name}"')
        for key, value in marks.items():
            self.send_header(key, value)
        if parts:
            self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault is not None and fault.action == "break":
            end = min(start + fault.after, end)
            self.close_connection = True
        spoilt = fault.after if fault is not None and fault.action == "corrupt" else None
        pause = start + fault.after if fault is not None and fault.action == "pause" else None
        for block in _with_pause(path, start, end, spoilt, pause):
            self.wfile.write(block)

    def _wanted(self, marks: dict[str, str], size: int) -> tuple[int, int] | None:
        """Return the part asked for; None for the whole, as when the content is another one (RFC 9110, 13.1.5)."""
        header, condition = self.headers.get("Range"), self.headers.get("If-Range")
        if header is None or (condition is not None and condition not in marks.values()):
            return None
        return _span(header, size)


def _with_pause(path: Path, start: int, end: int, spoilt: int | None, pause: int | None) -> Iterator[bytes]:
    if pause is not None and pause < end:
        yield from _blocks(path, start, pause, spoilt)
        time.sleep(_PAUSE)
        start = pause
    yield from _blocks(path, start, end, spoilt)


def _blocks(path: Path, start: int, end: int, spoilt: int | None) -> Iterator[bytes]:
    with path.open("rb") as file:
        file.seek(start)
        while start < end and (block := file.read(min(_BLOCK, end - start))):
            if spoilt is not None and start < spoilt + _CORRUPTED and spoilt < start + len(block):
                changed = bytearray(block)
                for at in range(max(spoilt - start, 0), min(spoilt + _CORRUPTED - start, len(block))):
                    changed[at] ^= 0xFF
                block = bytes(changed)
            yield block
            start += len(block)


def _date(seconds: float) -> str:
    return formatdate(seconds, usegmt=True)


def _span(header: str, size: int) -> tuple[int, int] | None:
    """Return the one range that a header asks for, as start and end; None when it is to be ignored (RFC 9110, 14.2)."""
    found = _RANGE.fullmatch(header.strip())
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        return max(size - int(last), 0), size
    if last and int(last) < int(first):
        return None
    return int(first), min(int(last) + 1, size) if last else size


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True


def serve(
    folder: Path, port: int = 0, *, redirect: bool = False, secure_boot: bool = True, real_size: bool = False
) -> tuple[str, Callable[[], None]]:
    """Serve a factory that keeps its files in ``folder`` on a loopback port (0: any free one).

    With ``redirect`` an image is answered with a redirect to where it lies, as a server with a CDN does.
    ``secure_boot`` says whether it has keys to sign with, ``real_size`` whether its images are as large as real ones.
    What is planned in ``folder`` (factory_faults) goes wrong. Returns the base URL and how to stop.

    Raises:
        OSError: the port is taken.
    """
    factory = Factory(folder, secure_boot=secure_boot, real_size=real_size)
    handler = type("Handler", (_Handler,), {"factory": factory, "redirect": redirect})
    server = _Server(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="factory", daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        thread.join()
        server.server_close()

    return f"http://127.0.0.1:{server.server_address[1]}", stop
