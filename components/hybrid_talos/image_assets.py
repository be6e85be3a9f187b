"""What the Image Factory serves, by name: disk images in several forms, ISO, PXE script, installer. Pure functions."""

from collections.abc import Sequence
from enum import StrEnum
from urllib.parse import unquote, urlsplit

VERSION_PATTERN = r"^v?(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(?:alpha|beta|rc)\.\d+)?$"


class Compression(StrEnum):
    """How an image is packed."""

    XZ = "xz"
    ZSTD = "zst"
    GZIP = "gz"
    NONE = ""


class DiskFormat(StrEnum):
    """How a disk stands in an image."""

    RAW = "raw"
    VHD = "vhd"
    QCOW2 = "qcow2"


# The forms that a platform's image may come in, the fastest to take in first. The factory makes any format in any
# compression (image-factory internal/profile/profile.go, ParseFromPath) but the format's options come from the
# platform: it cannot make a qcow2 for azure, since qemu-img refuses the options of a VHD there.
#   azure        zstd unpacks many times faster than the rest; a VHD tells by its footer that it is whole. xz comes in
#                blocks, which unpack side by side, gzip does not. Without compression it would be 8 GiB to download.
#   alibabacloud what is in the image is packed already, so that unpacked is hardly larger, and needs no work.
_FORMS = {
    "azure": ("vhd.zst", "raw.zst", "vhd.xz", "raw.xz", "vhd.gz", "raw.gz"),
    "alibabacloud": ("qcow2", "qcow2.zst", "qcow2.xz", "qcow2.gz"),
}

FILE_FORMATS = {
    "azure": (DiskFormat.VHD, DiskFormat.RAW, DiskFormat.QCOW2),
    "alibabacloud": (DiskFormat.QCOW2,),
}
"""The formats that an image file of one's own may have, for each platform that images are uploaded for."""


def disk_assets(platform: str, arch: str, *, secure_boot: bool = False) -> tuple[str, ...]:
    """Return the file names that a platform's disk image may have, most wanted first; none for metal."""
    return tuple(f"{platform}-{arch}{_secure(secure_boot)}.{form}" for form in _FORMS.get(platform, ()))


def metal_assets(arch: str) -> tuple[str, ...]:
    """Return the file names of the metal image that stands in for Alibaba Cloud's own, most wanted first."""
    return tuple(f"metal-{arch}.{form}" for form in _FORMS["alibabacloud"])


def form_of(name: str) -> tuple[DiskFormat, Compression] | None:
    """Return what a file's name, path or URL says of its form; None when it says nothing."""
    endings = unquote(urlsplit(name).path).lower().rsplit("/", 1)[-1].split(".")[1:]
    compression = Compression.NONE
    if endings and endings[-1] in ("xz", "zst", "gz"):
        compression = Compression(endings.pop())
    found = next((kind for kind in DiskFormat if endings and endings[-1] == kind.value), None)
    return None if found is None else (found, compression)


def content_name(platform: str, arch: str, version: str, content: str, *, secure_boot: bool = False) -> str:
    """Return the one name of an image's content: other content is another name.

    ``content`` is the id of the schematic, or the digest of an image file.
    """
    return f"talos-{version.removeprefix('v')}-{platform}-{arch}{_secure(secure_boot)}-{content}"


def image_url(factory_url: str, schematic: str, version: str, asset: str) -> str:
    """Return where the factory serves an asset of one schematic and Talos version."""
    return f"{factory_url.rstrip('/')}/image/{schematic}/{tag(version)}/{asset}"


def iso_url(factory_url: str, schematic: str, version: str, arch: str, *, secure_boot: bool = False) -> str:
    """Return the ISO that boots a machine of the rack which has no Talos yet."""
    return image_url(factory_url, schematic, version, f"metal-{arch}{_secure(secure_boot)}.iso")


def pxe_url(factory_url: str, schematic: str, version: str, arch: str, *, secure_boot: bool = False) -> str:
    """Return the iPXE script that boots a machine of the rack over the network.

    The public factory serves it from a host of its own; any other one from its own host unless its operator
    says otherwise (image-factory docs/api.md, PXE Frontend API).
    """
    base = factory_url.rstrip("/")
    if urlsplit(base).hostname == "factory.talos.dev":
        base = "https://pxe.factory.talos.dev"
    return f"{base}/pxe/{schematic}/{tag(version)}/metal-{arch}{_secure(secure_boot)}"


def installer_ref(factory_url: str, platform: str, schematic: str, version: str, *, secure_boot: bool = False) -> str:
    """Return the installer image that installs or upgrades machines of a platform."""
    host = urlsplit(factory_url).netloc
    return f"{host}/{platform}-installer{_secure(secure_boot)}/{schematic}:{tag(version)}"


def tag(version: str) -> str:
    """Return a version as the factory writes it."""
    return f"v{version.removeprefix('v')}"


def platform_problem(
    platform: str, arch: str, version: str, *, secure_boot: bool = False, on_metal: bool = False
) -> str | None:
    """Return why a platform cannot boot this architecture, Talos version or kind of image; None when it can.

    ``on_metal``: the image is that of the metal platform, which any Talos has.
    """
    if platform != "alibabacloud":
        return None
    if secure_boot:
        return (
            "secure_boot: Alibaba Cloud has no secure-boot image of Talos; leave it out for this platform "
            "(siderolabs/talos pkg/machinery/platforms/platforms.go)"
        )
    if arch != "amd64":
        return (
            f"arch: {arch} images cannot be imported into Alibaba Cloud: ImageImport takes x86_64 and i386 "
            "only; use amd64 instance types there"
        )
    if on_metal:
        return None
    number, _, stage = version.removeprefix("v").partition("-")
    major, minor, patch = (int(part) for part in number.split("."))
    early = stage.startswith("alpha.") or stage in ("beta.0", "beta.1")
    if (major, minor) < (1, 14) or ((major, minor, patch) == (1, 14, 0) and early):
        return (
            f"talos_version: {version} has no alibabacloud platform; the first with it is 1.14.0 "
            "(siderolabs/talos platform/alibabacloud); aliyun.experimental_metal is a way around it"
        )
    return None


def file_problem(platform: str, location: str) -> str | None:
    """Return why a platform cannot take an image file of that name; None when it can."""
    wanted = FILE_FORMATS.get(platform, ())
    form = form_of(location)
    if form is not None and form[0] in wanted:
        return None
    endings = " or ".join(f".{kind.value}" for kind in wanted)
    return (
        f"the name must tell what it is: {endings}, and .xz, .zst or .gz behind it when it is packed "
        f"(`qemu-img convert` makes one of the others)"
    )


def pinned(assets: Sequence[str], pins: Sequence[str]) -> tuple[str, ...]:
    """Return the assets to ask for: those that are pinned, or all of them when none is."""
    return tuple(asset for asset in assets if asset in pins) or tuple(assets)


def _secure(secure_boot: bool) -> str:
    return "-secureboot" if secure_boot else ""
