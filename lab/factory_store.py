"""What the lab's factory knows and makes, apart from HTTP: releases, platforms, schematics, images."""

import hashlib
import re
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import trustme

from . import factory_images as images
from . import factory_schematic as schematics
from .factory_disk import DATA_BYTES, DISK_SIZE
from .factory_extensions import OFFICIAL, OVERLAYS, available

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

# qemu-img gets the options of the platform's own format for whatever format is asked for, and refuses those that the
# other one does not have (image-factory internal/profile/profile.go; talos pkg/imager/profile/default.go).
_OTHER_FORMAT_FAILS = {"azure": "qcow2", "alibabacloud": "vhd", "oracle": "vhd"}

_SEMVER = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
_ID = re.compile(r"[0-9a-f]{64}")
_PLATFORM_ARCH = re.compile(r"(?P<platform>[a-z]+(?:-ocean)?)-(?P<arch>[a-z0-9_]+)(?P<secure>-secureboot)?")
_ASSET = re.compile(
    _PLATFORM_ARCH.pattern + r"\.(?P<format>raw|qcow2|vhd|ova)(?:\.(?P<compression>xz|gz|zst|tar\.gz))?"
)
_OTHER_ASSET = re.compile(
    r"(?:kernel|initramfs|installer|cmdline|[a-z-]+-installer)-.+|.+\.iso|.+-uki\.efi|.+\.tar(?:\.gz)?|.+\.ova.*"
)
_EMPTY = "customization: {}\n"


class Refusal(Exception):
    """An answer other than the one asked for."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Size:
    """How large images are made."""

    disk: int = DISK_SIZE
    data: int = DATA_BYTES


SMALL = Size()
REAL_AZURE, REAL = Size(images.REAL_SIZE, images.REAL_DATA), Size(4247 << 20, images.REAL_DATA)
"""As large as real ones are, about."""


@dataclass(frozen=True)
class Asset:
    """A disk image asked for."""

    schematic: str
    version: str
    name: str
    platform: str
    disk_format: str
    compression: str | None
    seed: str
    """What the content follows from: not the name, so that every format of one image holds the same disk."""


@dataclass
class Factory:
    """A factory that keeps its files in a folder."""

    folder: Path
    secure_boot: bool = True
    """Whether it has the keys that images for Secure Boot are signed with."""
    real_size: bool = False
    """Whether its images are as large as real ones."""
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
        self._needs_keys()
        path = self.folder / "secureboot-signing-cert.pem"
        with self._lock:
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(trustme.CA(organization_name="Image Factory (lab)").cert_pem.bytes())
            return path.read_bytes()

    def _needs_keys(self) -> None:
        if not self.secure_boot:
            raise Refusal(
                HTTPStatus.BAD_REQUEST, "error enhancing profile from schematic: secure boot support is disabled"
            )

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
        self._check(found, tag, text)
        platform = found["platform"]
        if _OTHER_FORMAT_FAILS.get(platform) == found["format"]:
            raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal server error")
        seed = f"{schematic} {tag} {platform} {found['arch']} {found['secure'] or ''}"
        return Asset(schematic, tag, name, platform, found["format"], found["compression"], seed)

    def _check(self, found: re.Match[str], tag: str, text: str) -> None:
        """Refuse what cannot be made of a schematic for a platform, architecture and release."""
        if found["arch"] not in ("amd64", "arm64"):
            raise Refusal(
                HTTPStatus.BAD_REQUEST, f"error parsing profile from path: invalid architecture: {found['arch']!r}"
            )
        _check_platform(found["platform"], tag)
        if found["secure"]:
            self._needs_keys()
        for extension in schematics.extensions(text):
            if not available(extension):
                raise Refusal(
                    HTTPStatus.BAD_REQUEST,
                    "error enhancing profile from schematic: "
                    f'official extension "{extension}" is not available for Talos version {tag}',
                )
        overlay = schematics.overlay(text)
        if overlay is not None and overlay not in OVERLAYS:
            raise Refusal(
                HTTPStatus.BAD_REQUEST,
                "error enhancing profile from schematic: "
                f'official overlay "{overlay}" is not available for Talos version {tag}',
            )

    def ipxe(self, base: str, schematic: str, version: str, name: str) -> str:
        """Return the script that boots a machine over the network (image-factory internal/frontend/http/*.ipxe)."""
        text, tag = self.schematic(schematic), known_version(version)
        found = _PLATFORM_ARCH.fullmatch(name)
        if found is None:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"error parsing profile from path: invalid platform-arch: {name!r}")
        self._check(found, tag, text)
        image, cmdline = f"{base}/image/{schematic}/{tag}", f"talos.platform={found['platform']}"
        if found["secure"]:
            return f"#!ipxe\n\nimgfree\nkernel {image}/{name}-uki.efi {cmdline}\nboot\n"
        kernel, initramfs = f"{image}/kernel-{found['arch']}", f"{image}/initramfs-{found['arch']}.xz"
        return f"#!ipxe\n\nimgfree\nkernel {kernel} {cmdline}\ninitrd {initramfs}\nboot\n"

    def file(self, asset: Asset) -> Path:
        """Return the file of an image, making it when it is not there."""
        size = (REAL_AZURE if asset.platform == "azure" else REAL) if self.real_size else SMALL
        folder = self.folder / ("images" if size == SMALL else f"images-{size.disk >> 20}-mib")
        path = folder / asset.schematic / asset.version / asset.name
        with self._lock:
            busy = self._busy.setdefault(str(path), threading.Lock())
        with busy:
            if not path.exists():
                images.write(
                    path,
                    asset.seed,
                    asset.disk_format,
                    asset.compression,
                    disk_size=size.disk,
                    data_bytes=size.data,
                )
        return path


def known_version(version: str) -> str:
    """Return a version as a tag. One that does not parse is a 500, as on the real server; an unknown one a 404."""
    if not _SEMVER.fullmatch(version):
        raise Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "internal server error")
    tag = version if version.startswith("v") else f"v{version}"
    if tag not in VERSIONS:
        raise Refusal(HTTPStatus.NOT_FOUND, f"version {tag.removeprefix('v')} is not available")
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
            "digest": _digest(f"{name}:{release}"),
            "author": "Sidero Labs",
            "description": f"{name.partition('/')[2]}, as the lab lists it",
        }
        for name in OFFICIAL
    ]


def overlay_list(tag: str) -> list[dict[str, str]]:
    """Return the official overlays of a version, as the factory lists them."""
    return [
        {"name": name, "image": image, "ref": f"ghcr.io/{image}:{tag}", "digest": _digest(f"{image}:{tag}")}
        for name, image in OVERLAYS.items()
    ]


def _digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
