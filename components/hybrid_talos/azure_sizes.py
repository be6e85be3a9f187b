"""The sizes of machines that the Azure autoscaler knows, and what a size can do.

The autoscaler plans a pool that has no machine yet with a list of sizes that is compiled into it: a size that is not on
it cannot grow from zero. The figures are those of kubernetes/autoscaler 1.36.1, cloudprovider/azure
azure_instance_types.go; Azure's own list is longer and differs by region and subscription.
"""

import difflib
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from .arch import Arch
from .azure_size_table import SIZES


class AzureSize(NamedTuple):
    """What a size has."""

    name: str
    """Its name, such as `Standard_D2s_v3`."""
    family: str
    """The family that Azure's quota of cores counts it in, such as `standardDSv3Family`."""
    cpus: int
    """Virtual processors."""
    memory_gib: int
    """Memory in GiB."""
    gpus: int
    """Graphics processors."""
    arch: Arch
    """Architecture of the processors."""


@cache
def azure_sizes() -> dict[str, AzureSize]:
    """Return the sizes that the autoscaler knows, by name."""
    found: dict[str, AzureSize] = {}
    for line in SIZES.replace("\n  ", " ").strip().splitlines():
        head, *sizes = line.split()
        family, _, arch = head.replace("~", " ").partition("/")
        for text in sizes:
            short, cpus, memory, *gpus = text.split(":")
            name = f"Standard_{short}"
            found[name] = AzureSize(name, family, int(cpus), int(memory), int(*gpus), Arch(arch))
    return found


def closest_sizes(name: str) -> list[str]:
    """Return up to three sizes that the autoscaler knows and whose names are near this one."""
    return difflib.get_close_matches(name, azure_sizes(), n=3, cutoff=0.8)


class SizeName(NamedTuple):
    """The parts of a size's name (learn.microsoft.com, "Azure virtual machine sizes naming conventions")."""

    family: str
    """Capital letters, such as `D`."""
    cpus: int
    features: str
    """Small letters: `d` for a local disk, `p` for Arm, `s` for premium disks, among others."""
    version: int


def size_name(name: str) -> SizeName | None:
    """Return the parts of a size's name, or None when it has another form."""
    found = re.fullmatch(r"[A-Za-z]+_([A-Z]+)(\d+)(?:-\d+)?([a-z]*)(?:_(?!v\d)\w+?)*(?:_v(\d+))?", name, re.ASCII)
    return SizeName(found[1], int(found[2]), found[3], int(found[4] or 1)) if found else None


# Some families are older than the letter `s` at the end.
_PREMIUM_FAMILIES = frozenset({"DS", "FS", "GS", "LS", "M"})


def takes_premium_disks(name: str) -> bool:
    """Return whether a size takes premium disks."""
    parts = size_name(name)
    return parts is not None and ("s" in parts.features or parts.family in _PREMIUM_FAMILIES)


def has_local_disk(name: str) -> bool:
    """Return whether a size has a local disk, which all had before version 4 and those with a `d` have since."""
    parts = size_name(name)
    return parts is not None and (parts.version < 4 or "d" in parts.features)


def accelerates_network(name: str) -> bool:
    """Return False for sizes that are documented to lack accelerated networking.

    learn.microsoft.com: "Av2-series", "Bv1-series" (12 processors and more have it), and "Accelerated Networking
    overview" for sizes with one processor.
    """
    parts = size_name(name)
    if parts is None or name.startswith("Basic_"):
        return False
    if parts.family == "A" or parts.cpus < 2:
        return False
    return not (parts.family == "B" and parts.version == 1 and parts.cpus < 12)


def is_arm_size(vm_size: str) -> bool:
    """Return whether a machine size has Arm processors: `p` among its feature letters.

    Source: learn.microsoft.com, "Azure virtual machine sizes naming conventions".
    """
    found = re.match(r"[A-Za-z]+_[A-Z]+\d+(?:-\d+)?([a-z]*)", vm_size)
    return found is not None and "p" in found[1]


def size_problems(vm_size: str, min_size: int) -> list[str]:
    """Return why the autoscaler could not grow a pool of this size; nothing when it can."""
    if min_size > 0 or vm_size in azure_sizes():
        return []
    close = closest_sizes(vm_size)
    return [
        f"vm_size {vm_size} is none that the autoscaler can grow from zero"
        + (f"; did you mean {' or '.join(close)}?" if close else ".")
        + " With min_size 1 or more it learns the size from a machine that is there"
    ]


class AzureDiskType(StrEnum):
    """Kinds of managed disks that a system disk can be."""

    STANDARD_HDD = "Standard_LRS"
    """Spinning disks; cheap and slow."""
    STANDARD_SSD = "StandardSSD_LRS"
    """Every size takes them."""
    PREMIUM_SSD = "Premium_LRS"
    """For sizes with an `s` in their name."""
    STANDARD_SSD_ZONE_REDUNDANT = "StandardSSD_ZRS"
    """Kept in three zones."""
    PREMIUM_SSD_ZONE_REDUNDANT = "Premium_ZRS"
    """Kept in three zones, for sizes with an `s` in their name."""


class EphemeralDisk(StrEnum):
    """Where a machine's own host keeps its system disk."""

    CACHE = "CacheDisk"
    """The host's cache, which sizes with premium disks have."""
    RESOURCE = "ResourceDisk"
    """The local disk."""
    NVME = "NvmeDisk"
    """The local NVMe disk of version 6 and later."""


@dataclass(frozen=True)
class SystemDisk:
    """The system disk of a pool's machines."""

    size_gb: int
    kind: AzureDiskType = AzureDiskType.STANDARD_SSD
    ephemeral: EphemeralDisk | None = None


def machine_problems(vm_size: str, disk: SystemDisk, accelerated_networking: bool) -> list[str]:
    """Return what a size cannot do of what is asked for, by its name.

    Sources: learn.microsoft.com "Ephemeral OS disks for Azure VMs", "Azure virtual machine sizes naming conventions",
    "Accelerated Networking overview".
    """
    problems: list[str] = []
    premium, local = takes_premium_disks(vm_size), has_local_disk(vm_size)
    if disk.ephemeral is None and disk.kind.value.startswith("Premium") and not premium:
        problems.append(
            f"os_disk_type {disk.kind.value} needs a size with premium disks, and {vm_size} has none: sizes with "
            "an `s` behind the number do, or take StandardSSD_LRS"
        )
    if disk.ephemeral is not None:
        parts = size_name(vm_size)
        nvme = parts is not None and parts.version >= 6
        if not local or (disk.ephemeral is EphemeralDisk.CACHE and not premium):
            problems.append(
                f"ephemeral_os_disk {disk.ephemeral.value} needs a size with that disk, and {vm_size} has none: sizes "
                "of version 4 and later have a local disk with a `d` in their name, and a cache takes an `s` as well"
            )
        elif nvme != (disk.ephemeral is EphemeralDisk.NVME):
            problems.append(
                f"ephemeral_os_disk: the local disks of {vm_size} are {'' if nvme else 'not '}NVMe, so that it is "
                f"{'NvmeDisk' if nvme else 'CacheDisk or ResourceDisk'}"
            )
    if accelerated_networking and not accelerates_network(vm_size):
        problems.append(
            f"accelerated_networking: {vm_size} does not have it; sizes with two processors and more of the series "
            "D, E and F do"
        )
    return problems
