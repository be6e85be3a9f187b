"""The disk that a machine that exists installs Talos on: by path, or by what it is."""

import re
from enum import StrEnum
from typing import Annotated, Any, NotRequired, TypedDict

from pydantic import AfterValidator, Field, model_validator

from ._contract import Shape

DEFAULT_INSTALL_DISK = "/dev/sda"
"""Disk that Talos's own generator installs to; always written out, so that a plugin update cannot move it."""


class DiskType(StrEnum):
    """What kind of disk it is."""

    SSD = "ssd"
    """Any disk that does not rotate, NVMe included."""
    HDD = "hdd"
    """A disk that rotates."""
    NVME = "nvme"
    """A disk on NVMe."""
    SD = "sd"
    """An SD card or eMMC."""


class DiskSelectorArgs(TypedDict):
    """What the disk is like; all that is given must fit, and the first disk that fits is taken."""

    size: NotRequired[str]
    """Size, or a comparison with one, such as `>= 100GB` or `480GB`."""
    type: NotRequired[DiskType]
    """`ssd`, `hdd`, `nvme` or `sd`."""
    model: NotRequired[str]
    """Model; `*` stands for anything."""
    serial: NotRequired[str]
    """Serial number; `*` stands for anything."""
    wwid: NotRequired[str]
    """World-wide id; `*` stands for anything."""
    uuid: NotRequired[str]
    """UUID; `*` stands for anything."""
    modalias: NotRequired[str]
    """Alias of its kernel module; `*` stands for anything."""
    bus_path: NotRequired[str]
    """Place on the bus, such as `/pci0000:00/*`; `*` stands for anything."""


# A rule of siderolabs/talos v1alpha1_types.go (InstallDiskSizeMatcher); its units are those of dustin/go-humanize.
_SIZE = re.compile(r"(>=|<=|>|<|==)?\s*[0-9]+(\.[0-9]+)?\s*([kKmMgGtTpP]?i?[bB]|[kKmMgGtTpP]i?)?", re.ASCII)


def disk_size(value: str) -> str:
    """Return a condition on the size of a disk; ValueError when it is none."""
    if not _SIZE.fullmatch(value.strip()):
        raise ValueError("must be a size, or a comparison with one: 480GB, >= 100GB, < 2TB")
    return value.strip()


def disk_path(value: str) -> str:
    """Return the path of a disk; ValueError when it is none."""
    if not re.fullmatch(r"/dev/\S+", value):
        raise ValueError(f"must be the path of a disk, such as {DEFAULT_INSTALL_DISK}")
    return value


class DiskSelectorShape(Shape):
    """The checked form of DiskSelectorArgs."""

    size: Annotated[str, AfterValidator(disk_size)] | None = None
    type: DiskType | None = None
    model: str | None = Field(default=None, min_length=1)
    serial: str | None = Field(default=None, min_length=1)
    wwid: str | None = Field(default=None, min_length=1)
    uuid: str | None = Field(default=None, min_length=1)
    modalias: str | None = Field(default=None, min_length=1)
    bus_path: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _says_something(self) -> "DiskSelectorShape":
        if not self.document():
            raise ValueError("says nothing: give size, type, model, serial, wwid, uuid, modalias or bus_path")
        return self

    def document(self) -> dict[str, Any]:
        """Return the selector as Talos takes it."""
        given = self.model_dump(exclude_none=True)
        return {("busPath" if key == "bus_path" else key): str(value) for key, value in sorted(given.items())}


def install_section(disk: str | None, selector: DiskSelectorShape | None) -> dict[str, Any]:
    """Return the part of `machine.install` that names the disk."""
    if selector is None:
        return {"disk": disk or DEFAULT_INSTALL_DISK}
    # The generated configuration names a disk by path, which must not stand beside the selector.
    return {"disk": {"$patch": "delete"}, "diskSelector": selector.document()}
