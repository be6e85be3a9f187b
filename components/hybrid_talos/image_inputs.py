"""What an image is made of beyond its extensions, and a file to take it from: the typed inputs and their checks."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NotRequired, TypedDict
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from ._contract import Shape
from .schematic import MetaValue, Overlay, schematic_yaml

SHA256_PATTERN = r"^[0-9a-fA-F]{64}$"
SERVER_PATTERN = r"^https?://[^/@\s?#]+(/[^\s?#]*)?$"
"""An address without credentials and without a query, for both would stand in the state."""


class EnrollKeys(StrEnum):
    """When systemd-boot puts the keys of Secure Boot into a machine's firmware."""

    OFF = "off"
    """Never."""
    MANUAL = "manual"
    """When someone chooses it in the boot menu."""
    IF_SAFE = "if-safe"
    """By itself in virtual machines alone; the factory's default."""
    FORCE = "force"
    """By itself on every machine whose firmware is in setup mode."""


class MetaValueArgs(TypedDict):
    """One initial value of Talos' META partition."""

    key: int
    """Number of the key, 0 to 255; 10 is the metal platform's network configuration."""
    value: str
    """Value: printable ASCII, in one line or several. No secrets: whoever knows the schematic's id can read it."""


class SecureBootArgs(TypedDict):
    """Secure Boot of the image."""

    enabled: bool
    """Take the image, the ISO, the PXE script and the installer that are signed for Secure Boot."""
    enroll_keys: NotRequired[EnrollKeys]
    """When the keys are put into the firmware. Default: the factory's, which is in virtual machines alone."""
    well_known_certificates: NotRequired[bool]
    """Enroll the well-known UEFI certificates too, which option ROMs may need. Default: false."""


class OverlayArgs(TypedDict):
    """The overlay of a single-board computer."""

    name: str
    """Name of the overlay, such as `rpi_generic`."""
    image: str
    """Image that holds it, such as `siderolabs/sbc-raspberrypi`."""
    options: NotRequired[Mapping[str, str]]
    """Options of the overlay, such as `configTxtAppend`. Default: none."""


class ImageFileArgs(TypedDict):
    """An image that is there already, for places where no factory can be reached."""

    location: str
    """Absolute path on the machine that runs Pulumi, or an http or https address; its name tells what it is by its
    ending: `.vhd`, `.raw` or `.qcow2`, and `.xz`, `.zst` or `.gz` behind it when it is packed. Opened at deployment."""
    sha256: str
    """SHA-256 of the file as it is. It names the content: another digest is another image."""


class MetaShape(Shape):
    """Plain half of MetaValueArgs."""

    key: int = Field(ge=0, le=255)
    value: str

    @field_validator("value")
    @classmethod
    def _canonical(cls, value: str) -> str:
        schematic_yaml(meta=[MetaValue(0, value)])
        return value


class SecureBootShape(Shape):
    """Plain half of SecureBootArgs."""

    enabled: bool
    enroll_keys: EnrollKeys | None = None
    well_known_certificates: bool = False


class OverlayShape(Shape):
    """Plain half of OverlayArgs."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    image: str = Field(pattern=r"^[a-z0-9][a-z0-9./_-]*$")
    options: Mapping[str, str] = Field(default={})

    @field_validator("options")
    @classmethod
    def _canonical(cls, options: Mapping[str, str]) -> Mapping[str, str]:
        schematic_yaml(overlay=Overlay("name", "image", tuple(options.items())))
        return options

    def overlay(self) -> Overlay:
        """Return it as a schematic holds it."""
        return Overlay(self.name, self.image, tuple(sorted(self.options.items())))


class ImageFileShape(Shape):
    """Plain half of ImageFileArgs."""

    location: str
    sha256: str = Field(pattern=SHA256_PATTERN)

    @field_validator("location")
    @classmethod
    def _path_or_address(cls, location: str) -> str:
        return checked_location(location)


def checked_location(location: str, otherwise: str = ".netrc can hold them") -> str:
    """Return where an image file is; ValueError when it is no absolute path and no address that may be in a state."""
    if location.startswith("/"):
        return location
    try:
        has_credentials = "@" in urlsplit(location).netloc or "?" in location
    except ValueError:
        has_credentials = False
    if has_credentials:
        raise ValueError(f"must not hold credentials or a query, which would stand in the state; {otherwise}")
    if not re.match(SERVER_PATTERN, location):
        raise ValueError("must be an absolute path, or an address that starts with https:// or http://")
    return location


def image_schematic(
    extensions: Sequence[str],
    extra_kernel_args: Sequence[str],
    meta: Sequence[MetaShape],
    secure_boot: SecureBootShape,
    overlay: OverlayShape | None,
) -> str:
    """Return the canonical YAML of what was asked for."""
    return schematic_yaml(
        extensions,
        extra_kernel_args,
        meta=[MetaValue(item.key, item.value) for item in meta],
        overlay=overlay.overlay() if overlay else None,
        enroll_keys=secure_boot.enroll_keys.value if secure_boot.enroll_keys else "",
        well_known_certificates=secure_boot.well_known_certificates,
    )
