"""Virtual machine sizes: what their names say.

Sources: learn.microsoft.com "Azure VM sizes naming conventions" (virtual-machines/vm-naming-conventions: ``p`` is
Arm64, ``s`` takes Premium disks) and "Support for generation 2 VMs on Azure" (virtual-machines/generation-2).
"""

import re
from dataclasses import dataclass

_NAME = re.compile(
    r"Standard_(?P<family>[A-Z]+)(?P<cores>\d+)(?:-\d+)?(?P<features>[a-z]*)(?:_(?P<accelerator>[A-Z]+\d+))?"
    r"(?:_v(?P<version>\d+))?"
)
_FAMILIES = frozenset(
    (
        "A",
        "B",
        "D",
        "DC",
        "DS",
        "E",
        "EC",
        "F",
        "FS",
        "FX",
        "GS",
        "H",
        "HB",
        "HC",
        "HX",
        "L",
        "LS",
        "M",
        "NC",
        "ND",
        "NG",
        "NP",
        "NV",
    )
)
_MOST_CORES = 1832
_BASIC_ONLY_V1 = frozenset({"A", "D", "E", "F"})


@dataclass(frozen=True)
class Size:
    """What a size can do."""

    name: str
    family: str
    cores: int
    arm64: bool
    premium: bool
    generations: frozenset[str]
    """Hypervisor generations that it boots: V1, V2 or both."""
    ephemeral: frozenset[str]
    """Places for an ephemeral OS disk ("Ephemeral OS disks": cache of premium sizes, local disk, NVMe of version 6)."""
    accelerated: bool
    """Whether its series page says "Accelerated Networking: Supported" (not Av2, small Bv1, one processor)."""


def parse_size(name: str) -> Size | None:
    """Return what a size's name says, or None when Azure has no such size."""
    match = _NAME.fullmatch(name)
    if match is None or match["family"] not in _FAMILIES or not 1 <= int(match["cores"]) <= _MOST_CORES:
        return None
    family, features = match["family"], match["features"]
    version = int(match["version"] or 1)
    arm64 = "p" in features
    # Families such as DS and GS are older spellings of the `s` that follows the number of cores nowadays.
    premium = "s" in features or family in ("DS", "FS", "GS", "LS", "M")
    only_v2 = arm64 or version >= 6 or family in ("DC", "EC", "FX") or match["accelerator"] in ("A100", "H100")
    only_v1 = not only_v2 and not premium and family in _BASIC_ONLY_V1 and version <= 3
    generations = {"V2"} if only_v2 else {"V1"} if only_v1 else {"V1", "V2"}
    local = version < 4 or "d" in features
    places = {"NvmeDisk"} if version >= 6 else {"ResourceDisk", *(["CacheDisk"] if premium else [])}
    cores = int(match["cores"])
    accelerated = family != "A" and cores >= 2 and not (family == "B" and version == 1 and cores < 12)
    return Size(
        *(name, family, cores, arm64, premium, frozenset(generations)),
        *(frozenset(places if local else ()), accelerated),
    )
