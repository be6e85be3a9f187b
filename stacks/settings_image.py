"""The settings of the images: what they are made of, and where they come from."""

from collections.abc import Mapping
from typing import Annotated

from hybrid_talos.arch import Arch
from hybrid_talos.certificates import certificate
from hybrid_talos.image_inputs import EnrollKeys, checked_location
from hybrid_talos.registries import image_reference
from hybrid_talos.schematic import MetaValue, schematic_yaml
from hybrid_talos.schematic import Overlay as SchematicOverlay
from pydantic import AfterValidator, Field, model_validator

from .settings_base import Section, TrustedUrl, form, trimmed

_LOGIN = "leave this key out and set HTTPS_PROXY, which can hold them, where pulumi runs"


def _proxy(value: str) -> str:
    checked = checked_location(trimmed(value), _LOGIN) if "://" in value else ""
    if not checked:
        raise ValueError("must be an address that starts with http:// or https://")
    return checked


def _location(value: str) -> str:
    return checked_location(trimmed(value))


def _argument(value: str) -> str:
    schematic_yaml((), (value,))
    return value


def _meta(value: str) -> str:
    schematic_yaml(meta=[MetaValue(0, value)])
    return value


_Sha256 = Annotated[str, form(r"[0-9a-fA-F]{64}", "be a SHA-256: 64 hexadecimal digits")]
_ASSET = form(
    r"(azure|alibabacloud)-(amd64|arm64)(-secureboot)?\.(vhd|raw|qcow2)(\.(xz|zst|gz))?",
    "be the file name of an asset, such as azure-amd64.vhd.zst",
)
_PLATFORM = form(
    r"(azure|alibabacloud)-(amd64|arm64)",
    "be platform and architecture: azure-amd64, azure-arm64 or alibabacloud-amd64",
)


class Meta(Section):
    """One initial value of Talos' META partition."""

    key: int = Field(ge=0, le=255)
    """Number of the key; 10 is the metal platform's network configuration."""
    value: Annotated[str, AfterValidator(_meta)]
    """Value: printable ASCII, in one line or several. No secret: whoever knows the schematic's id can read it."""


class SecureBoot(Section):
    """Secure Boot of the images."""

    enabled: bool
    """Take the images, ISO, PXE script and installer that are signed for Secure Boot; not on Alibaba Cloud."""
    enroll_keys: EnrollKeys | None = None
    """When the keys go into the firmware: off, manual, if-safe (by itself in virtual machines alone) or force."""
    well_known_certificates: bool = False
    """Enroll the well-known UEFI certificates too, which option ROMs may need."""


class Overlay(Section):
    """The overlay of single-board computers, for machines that exist alone."""

    name: Annotated[str, form(r"[a-z0-9][a-z0-9_-]*", "be the name of an overlay, such as rpi_generic")]
    """Name of the overlay."""
    image: Annotated[str, form(r"[a-z0-9][a-z0-9./_-]*", "be an image, such as siderolabs/sbc-raspberrypi")]
    """Image that holds it."""
    options: Mapping[str, str] = {}
    """Options of the overlay by name, such as configTxtAppend."""

    @model_validator(mode="after")
    def _canonical(self) -> "Overlay":
        schematic_yaml(overlay=SchematicOverlay(self.name, self.image, tuple(self.options.items())))
        return self


class ImageFile(Section):
    """An image that is there already; the factory is not asked for it."""

    location: Annotated[str, AfterValidator(_location)]
    """Absolute path on the machine that runs Pulumi, or an http or https address. Its name ends in .vhd, .raw or .qcow2
    (Alibaba Cloud: .qcow2), and in .xz, .zst or .gz behind that when it is packed. Opened when it is uploaded."""
    sha256: _Sha256
    """SHA-256 of the file as it is; another one is another image."""


class ImageSettings(Section):
    """What the images of the machines are made of, and where they come from."""

    factory_url: TrustedUrl = "https://factory.talos.dev"
    """Address of the Image Factory."""
    factory_ca: Annotated[str, AfterValidator(certificate)] | None = None
    """Certificate (PEM) of the authority that signed a factory of your own."""
    proxy: Annotated[str, AfterValidator(_proxy)] | None = None
    """HTTP proxy on the way to the factory, without credentials: those belong into HTTPS_PROXY, in place of this."""
    extensions: tuple[
        Annotated[
            str,
            form(
                r"[a-z0-9][a-z0-9-]*/[a-z0-9][a-z0-9._-]*",
                "be vendor/name, such as siderolabs/drbd, without a version",
            ),
        ],
        ...,
    ] = ()
    """System extensions, as vendor/name; their order does not count. One that was renamed is asked for by its name of
    today, with a notice."""
    extra_kernel_args: tuple[
        Annotated[str, form(r"\S+", "be one kernel argument without white space"), AfterValidator(_argument)], ...
    ] = ()
    """Further arguments of the kernel; their order counts."""
    meta: tuple[Meta, ...] = ()
    """Initial values of Talos' META partition; their order counts."""
    secure_boot: SecureBoot | None = None
    """Secure Boot of the images; off when left out."""
    overlay: Overlay | None = None
    """Overlay of single-board computers, for the machines that exist."""
    arch: Arch = Arch.AMD64
    """Architecture of the pools' machines, unless a pool says otherwise."""
    installer_image: Annotated[str, AfterValidator(image_reference)] | None = None
    """Image that machines which exist install Talos from, such as that of another distribution; no schematic then."""
    retain: int = Field(default=1, ge=0)
    """Older images of each cloud that are kept, newest first, beside those that a machine or a pool still uses."""
    compressed_sha256: Mapping[Annotated[str, _ASSET], _Sha256] = {}
    """SHA-256 that a download must have, packed as it comes, by the asset's file name. Of an image with a pin, no asset
    without one is taken."""
    files: Mapping[Annotated[str, _PLATFORM], ImageFile] = {}
    """Images that are there already, by platform and architecture, such as azure-amd64."""

    @property
    def is_secure_boot(self) -> bool:
        """Whether the images are those for Secure Boot."""
        return self.secure_boot is not None and self.secure_boot.enabled
