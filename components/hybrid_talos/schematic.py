"""Names of what the Image Factory makes: schematics, their ids, and where each asset lies.

Pure functions. The id of a schematic is the SHA-256 of its canonical YAML, so it is known before the
factory is ever asked (siderolabs/image-factory pkg/schematic/schematic.go).
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

EXTENSION_PATTERN = r"^[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*$"
VERSION_PATTERN = r"^v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(?:alpha|beta|rc)\.\d+)?$"

# siderolabs/image-factory internal/profile/profile.go, ExtensionNameAlias. The factory still serves the old
# names, but the id is a hash of the name as written.
RENAMED_EXTENSIONS = {
    "siderolabs/amdgpu-firmware": "siderolabs/amdgpu",
    "siderolabs/gasket": "siderolabs/gasket-driver",
    "siderolabs/i915-ucode": "siderolabs/i915",
    "siderolabs/nonfree-kmod-nvidia": "siderolabs/nonfree-kmod-nvidia-lts",
    "siderolabs/nvidia-container-toolkit": "siderolabs/nvidia-container-toolkit-lts",
    "siderolabs/nvidia-fabricmanager": "siderolabs/nvidia-fabric-manager-lts",
    "siderolabs/nvidia-open-gpu-kernel-modules": "siderolabs/nvidia-open-gpu-kernel-modules-lts",
    "siderolabs/talos-vmtoolsd": "siderolabs/vmtoolsd-guest-agent",
    "siderolabs/usb-modem": "siderolabs/usb-modem-drivers",
    "siderolabs/v4l-uvc": "siderolabs/v4l-uvc-drivers",
    "siderolabs/xe-guest-utilities": "siderolabs/xen-guest-agent",
}

# siderolabs/talos pkg/machinery/platforms/platforms.go: the disk image that each platform is served as.
_DISK_IMAGES = {"metal": "raw.zst", "azure": "vhd.xz", "alibabacloud": "qcow2"}

# Words and numbers that go-yaml (resolve.go, encode.go isOldBool and isBase60Float) would read back as
# something else than a string, and therefore writes between double quotes.
_RESOLVED = re.compile(
    r"""^(
        | ~ | null | Null | NULL
        | true | True | TRUE | false | False | FALSE
        | y | Y | yes | Yes | YES | on | On | ON
        | n | N | no | No | NO | off | Off | OFF
        | [-+]?0b[01_]+ | [-+]?0o[0-7_]+ | [-+]?0x[0-9a-fA-F_]{1,16}
        | ([-+]_*)?(\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9][0-9_]*)?
        | [-+]?\.(inf|Inf|INF) | \.(nan|NaN|NAN)
        | [-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?
        | \d{4}-\d{1,2}-\d{1,2}([Tt\ ]\d.*)?
    )$""",
    re.VERBOSE,
)
# libyaml's emitter (yaml_emitter_analyze_scalar): what cannot stand without quotes in block context.
_NEEDS_QUOTES = re.compile(r"""^[\#,\[\]{}&*!|>'"%@`]|^[-?](\s|$)|^---|^\.\.\.|:(\s|$)|\s\#|^\s|\s$""")


class MetaValue(NamedTuple):
    """One initial value of Talos' META partition."""

    key: int
    """Number of the key, 0 to 255; 10 is the metal platform's network configuration."""
    value: str
    """Value, one line of printable ASCII."""


class Overlay(NamedTuple):
    """The overlay of a single-board computer."""

    name: str
    """Name of the overlay, such as `rpi_generic`."""
    image: str
    """Image that holds it, such as `siderolabs/sbc-raspberrypi`."""


def current_extensions(names: Iterable[str]) -> tuple[str, ...]:
    """Return the extensions under today's names, sorted, each once.

    The factory hashes the list as it is written: without one order and one spelling the id would change
    with the order of the input.
    """
    return tuple(sorted({RENAMED_EXTENSIONS.get(name, name) for name in names}))


def schematic_yaml(
    extensions: Iterable[str] = (),
    extra_kernel_args: Sequence[str] = (),
    *,
    meta: Sequence[MetaValue] = (),
    overlay: Overlay | None = None,
    well_known_certificates: bool = False,
    sector_size: int | None = None,
) -> str:
    """Return the canonical YAML of a schematic, byte for byte as the factory writes it.

    Lists keep their order: give extensions through current_extensions(). Raises ValueError for text that is
    not one line of printable ASCII, since its canonical form is not certain.
    """
    lines: list[str] = []
    if overlay is not None:
        lines += ["overlay:", f"    image: {_scalar(overlay.image)}", f"    name: {_scalar(overlay.name)}"]
    body: list[str] = []
    if extra_kernel_args:
        body += ["    extraKernelArgs:", *(f"        - {_scalar(arg)}" for arg in extra_kernel_args)]
    if meta:
        body.append("    meta:")
        for key, value in meta:
            body += [f"        - key: {key}", f"          value: {_scalar(value)}"]
    names = list(extensions)
    if names:
        body += ["    systemExtensions:", "        officialExtensions:"]
        body += [f"            - {_scalar(name)}" for name in names]
    if well_known_certificates:
        body += ["    secureboot:", "        includeWellKnownCertificates: true"]
    if sector_size is not None:
        body += ["    diskImage:", f"        sectorSize: {sector_size}"]
    lines += ["customization:", *body] if body else ["customization: {}"]
    return "\n".join(lines) + "\n"


def schematic_id(canonical_yaml: str) -> str:
    """Return the id that the factory gives to a schematic: 64 hexadecimal digits."""
    return hashlib.sha256(canonical_yaml.encode()).hexdigest()


def asset_name(platform: str, arch: str) -> str:
    """Return the file name of a platform's disk image, such as `azure-amd64.vhd.xz`."""
    return f"{platform}-{arch}.{_DISK_IMAGES[platform]}"


def image_url(factory_url: str, schematic: str, version: str, asset: str) -> str:
    """Return where the factory serves an asset of one schematic and Talos version."""
    return f"{factory_url.rstrip('/')}/image/{schematic}/{_tag(version)}/{asset}"


def iso_url(factory_url: str, schematic: str, version: str, arch: str) -> str:
    """Return the ISO that boots a machine of the rack which has no Talos yet."""
    return image_url(factory_url, schematic, version, f"metal-{arch}.iso")


def pxe_url(factory_url: str, schematic: str, version: str, arch: str) -> str:
    """Return the iPXE script that boots a machine of the rack over the network.

    The public factory serves it from a host of its own; any other one from its own host unless its operator
    says otherwise (image-factory docs/api.md, PXE Frontend API).
    """
    base = factory_url.rstrip("/")
    if urlsplit(base).hostname == "factory.talos.dev":
        base = "https://pxe.factory.talos.dev"
    return f"{base}/pxe/{schematic}/{_tag(version)}/metal-{arch}"


def installer_ref(factory_url: str, platform: str, schematic: str, version: str) -> str:
    """Return the installer image that installs or upgrades machines of a platform."""
    return f"{urlsplit(factory_url).netloc}/{platform}-installer/{schematic}:{_tag(version)}"


def platform_problem(platform: str, arch: str, version: str) -> str | None:
    """Return why a platform cannot boot this architecture or Talos version; None when it can."""
    if platform != "alibabacloud":
        return None
    if arch != "amd64":
        return (
            f"arch: {arch} images cannot be imported into Alibaba Cloud: ImageImport takes x86_64 and i386 "
            "only; use amd64 instance types there"
        )
    number, _, stage = version.removeprefix("v").partition("-")
    major, minor, patch = (int(part) for part in number.split("."))
    early = stage.startswith("alpha.") or stage in ("beta.0", "beta.1")
    if (major, minor) < (1, 14) or ((major, minor, patch) == (1, 14, 0) and early):
        return (
            f"talos_version: {version} has no alibabacloud platform; the first with it is 1.14.0 "
            "(siderolabs/talos platform/alibabacloud)"
        )
    return None


def _tag(version: str) -> str:
    return f"v{version.removeprefix('v')}"


def _scalar(text: str) -> str:
    if not (text.isascii() and (text.isprintable() or not text)):
        raise ValueError("text of a schematic must be one line of printable ASCII")
    if _RESOLVED.match(text):
        return f'"{text}"'
    if _NEEDS_QUOTES.search(text):
        return "'" + text.replace("'", "''") + "'"
    return text
