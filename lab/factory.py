"""A small Image Factory on loopback, with the HTTP API of the real one (siderolabs/image-factory docs/api.md).

It answers as the community server does: unknown fields of a schematic are refused, checksums cost (402), a version or
schematic that it does not know is not found. Of the assets it makes disk images only; any other is answered with 501.
Images are made on the first request, and kept.
"""

import hashlib
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import trustme

from . import factory_images as images
from . import factory_schematic as schematics
from .factory_extensions import OFFICIAL, available

VERSIONS = (
    *(f"v1.12.{patch}" for patch in range(8)),
    *(f"v1.13.{patch}" for patch in range(10)),
    "v1.14.0",
)
"""The Talos versions that the lab's factory offers."""

PLATFORMS = {
    "akamai": (1, 7),
    "alibabacloud": (1, 14),
    "aws": (1, 0),
    "azure": (1, 0),
    "digital-ocean": (1, 0),
    "gcp": (1, 0),
    "hcloud": (1, 0),
    "metal": (1, 0),
    "nocloud": (1, 0),
    "openstack": (1, 0),
    "oracle": (1, 0),
    "vmware": (1, 0),
}
"""Platforms, each with the first minor version that has it (siderolabs/talos pkg/machinery/platforms/platforms.go)."""

_SEMVER = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
_ID = re.compile(r"[0-9a-f]{64}")
_ASSET = re.compile(
    r"(?P<platform>[a-z]+(?:-ocean)?)-(?P<arch>[a-z0-9_]+)(?P<secure>-secureboot)?"
    r"\.(?P<format>raw|qcow2|vhd|ova)(?:\.(?P<compression>xz|gz|zst|tar\.gz))?"
)
_OTHER_ASSET = re.compile(
    r"(?:kernel|initramfs|installer|cmdline|[a-z-]+-installer)-.+|.+\.iso|.+-uki\.efi|.+\.tar(?:\.gz)?|.+\.ova.*"
)
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_BLOCK = 1 << 20
_BODY_LIMIT = 1 << 20

_TYPES = {
    ".xz": "application/x-xz",
    ".gz": "application/gzip",
    ".zst": "application/zstd",
    ".qcow2": "application/x-qemu-disk",
}


class Refusal(Exception):
    """An answer other than the one asked for."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Asset:
    """A disk image asked for."""

    schematic: str
    version: str
    name: str
    disk_format: str
    compression: str | None
    seed: str
    """What the content follows from: not the name, so that every format of one image holds the same disk."""


@dataclass
class Factory:
    """What the factory knows and makes, apart from HTTP."""

    folder: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _busy: dict[str, threading.Lock] = field(default_factory=dict)

    def create(self, body: bytes) -> tuple[str, str]:
        """Keep a schematic; return its id and canonical text."""
        try:
            text = schematics.canonical(body)
        except schematics.InvalidSchematic as error:
            raise Refusal(HTTPStatus.BAD_REQUEST, str(error)) from error
        id = schematics.schematic_id(text)
        path = self._schematic_path(id)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f".{path.name}.{threading.get_ident()}")
            draft.write_text(text)
            draft.replace(path)
        return id, text

    def schematic(self, id: str) -> str:
        """Return a kept schematic's canonical text."""
        if id == schematics.schematic_id(_EMPTY):  # always known, as on the public server
            return _EMPTY
        try:
            if not _ID.fullmatch(id):
                raise FileNotFoundError
            return self._schematic_path(id).read_text()
        except FileNotFoundError:
            raise Refusal(HTTPStatus.NOT_FOUND, "schematic not found") from None

    def signing_certificate(self) -> bytes:
        """Return the certificate that images for Secure Boot are said to be signed with; the same in every run."""
        path = self.folder / "secureboot-signing-cert.pem"
        with self._lock:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(trustme.CA(organization_name="Image Factory (lab)").cert_pem.bytes())
            return path.read_bytes()

    def _schematic_path(self, id: str) -> Path:
        return self.folder / "schematics" / f"{id}.yaml"

    def asset(self, schematic: str, version: str, name: str) -> Asset:
        """Return what a path asks for, or refuse as the real factory does."""
        if name.endswith((".sha256", ".sha512")):
            raise Refusal(HTTPStatus.PAYMENT_REQUIRED, "enterprise not enabled: checksum endpoint is not available")
        if name.endswith(".sigstore.json"):
            raise Refusal(HTTPStatus.PAYMENT_REQUIRED, "enterprise signing is not enabled")
        text = self.schematic(schematic)
        tag = known_version(version)
        found = _ASSET.fullmatch(name)
        if found is None or found["format"] == "ova" or found["compression"] == "tar.gz":
            if found or _OTHER_ASSET.fullmatch(name):
                raise Refusal(HTTPStatus.NOT_IMPLEMENTED, f"the lab's factory does not make {name}")
            raise Refusal(HTTPStatus.BAD_REQUEST, f"error parsing profile from path: invalid profile path: {name!r}")
        if found["arch"] not in ("amd64", "arm64"):
            raise Refusal(
                HTTPStatus.BAD_REQUEST, f"error parsing profile from path: invalid architecture: {found['arch']!r}"
            )
        _check_platform(found["platform"], tag)
        for extension in schematics.extensions(text):
            if not available(extension):
                raise Refusal(
                    HTTPStatus.BAD_REQUEST,
                    "error enhancing profile from schematic: "
                    f'official extension "{extension}" is not available for Talos version {tag}',
                )
        seed = f"{schematic} {tag} {found['platform']} {found['arch']} {found['secure'] or ''}"
        return Asset(schematic, tag, name, found["format"], found["compression"], seed)

    def file(self, asset: Asset) -> Path:
        """Return the file of an image, making it when it is not there."""
        path = self.folder / "images" / asset.schematic / asset.version / asset.name
        with self._lock:
            busy = self._busy.setdefault(str(path), threading.Lock())
        with busy:
            if not path.exists():
                images.write(path, asset.seed, asset.disk_format, asset.compression)
        return path


_EMPTY = "customization: {}\n"


def known_version(version: str) -> str:
    """Return a version as a tag. One that does not parse is a 500, as on the real server; an unknown one a 404."""
    if not _SEMVER.fullmatch(version):
        raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, f"error parsing version: {version!r}")
    tag = version if version.startswith("v") else f"v{version}"
    if tag not in VERSIONS:
        raise Refusal(HTTPStatus.NOT_FOUND, f"version {tag} is not available")
    return tag


def _check_platform(platform: str, tag: str) -> None:
    first = PLATFORMS.get(platform)
    major, minor = tag.removeprefix("v").split(".")[:2]
    if first is None or (int(major), int(minor)) < first:
        raise Refusal(HTTPStatus.BAD_REQUEST, f"unsupported platform {platform!r} for Talos version {tag}")


def extension_list(tag: str) -> list[dict[str, str]]:
    """Return the official extensions of a version, as the factory lists them."""
    release = tag.removeprefix("v")
    return [
        {
            "name": name,
            "ref": f"ghcr.io/{name}:{release}",
            "digest": f"sha256:{hashlib.sha256(f'{name}:{release}'.encode()).hexdigest()}",
            "author": "Sidero Labs",
            "description": f"{name.partition('/')[2]}, as the lab lists it",
        }
        for name in OFFICIAL
    ]


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
                known_version(version)
                self._send_json([])
            case ["secureboot", "signing-cert.pem"]:
                self._send(HTTPStatus.OK, self.factory.signing_certificate(), "application/x-pem-file")
            case ["image", schematic, version, name]:
                asset = self.factory.asset(schematic, version, name)
                if self.redirect and self.command == "GET":  # HEAD is always served directly
                    self.send_response(HTTPStatus.FOUND)
                    self.send_header("Location", f"/cdn/{schematic}/{asset.version}/{name}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                else:
                    self._send_file(self.factory.file(asset), name)
            case ["cdn", schematic, version, name] if self.redirect:
                self._send_file(self.factory.file(self.factory.asset(schematic, version, name)), name)
            case _:
                raise Refusal(HTTPStatus.NOT_FOUND, "404 page not found")

    def _send_json(self, value: Any, status: HTTPStatus = HTTPStatus.OK) -> None:
        self._send(status, json.dumps(value).encode() + b"\n", "application/json")

    def _send(self, status: HTTPStatus, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _send_file(self, path: Path, name: str) -> None:
        size = path.stat().st_size
        start, end = 0, size
        wanted = self.headers.get("Range")
        if wanted is not None and (span := _span(wanted, size)) is not None:
            start, end = span
            if start >= end:
                self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
                self.send_header("Content-Range", f"bytes */{size}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self.send_response(HTTPStatus.PARTIAL_CONTENT)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        else:
            self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", _TYPES.get(path.suffix, "application/octet-stream"))
        self.send_header("Content-Length", str(end - start))
        self.send_header("Content-Disposition", f'attachment; filename="{name}"')
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if self.command == "HEAD":
            return
        with path.open("rb") as file:
            file.seek(start)
            left = end - start
            while left and (block := file.read(min(_BLOCK, left))):
                self.wfile.write(block)
                left -= len(block)


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


def serve(folder: Path, port: int = 0, *, redirect: bool = False) -> tuple[str, Callable[[], None]]:
    """Serve a factory that keeps its files in ``folder`` on a loopback port (0: any free one).

    With ``redirect`` an image is answered with a redirect to where it lies, as a server with a CDN does.
    Returns the base URL and how to stop.

    Raises:
        OSError: the port is taken.
    """
    handler = type("Handler", (_Handler,), {"factory": Factory(folder), "redirect": redirect})
    server = _Server(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="factory", daemon=True)
    thread.start()

    def stop() -> None:
        server.shutdown()
        thread.join()
        server.server_close()

    return f"http://127.0.0.1:{server.server_address[1]}", stop
