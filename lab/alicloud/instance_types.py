"""A few ECS instance types: processors, memory in GiB and architecture.

Source: alibabacloud.com "Overview of instance families". Other types of these families' form are told by their names.
"""

import re
from typing import NamedTuple

_SIZES = {"large": 2, "xlarge": 4}
_FORM = re.compile(r"ecs\.([a-z]+[0-9]*[a-z0-9-]*)\.([a-z0-9]+)", re.ASCII)
_RATIOS = {"c": 2.0, "g": 4.0, "r": 8.0}


class InstanceType(NamedTuple):
    """What an instance type offers."""

    cores: int
    memory: float
    arch: str


_KNOWN = {
    "ecs.t6-c1m1.large": InstanceType(2, 2, "x86_64"),
    "ecs.t6-c1m2.large": InstanceType(2, 4, "x86_64"),
    "ecs.e-c1m1.large": InstanceType(2, 2, "x86_64"),
    "ecs.e-c1m2.large": InstanceType(2, 4, "x86_64"),
    "ecs.e-c1m2.xlarge": InstanceType(4, 8, "x86_64"),
    "ecs.e-c1m4.large": InstanceType(2, 8, "x86_64"),
    "ecs.u1-c1m2.large": InstanceType(2, 4, "x86_64"),
    "ecs.u1-c1m4.large": InstanceType(2, 8, "x86_64"),
}
_FAMILIES = {
    **{f"{kind}{generation}": "x86_64" for kind in "cgr" for generation in ("5", "6", "7", "8i", "8a", "9i")},
    **{f"{kind}{generation}": "x86_64" for kind in "cgr" for generation in ("6e", "6a", "7a", "7se", "7t", "8ise")},
    **{f"{kind}{generation}": "arm64" for kind in "cgr" for generation in ("6r", "8y")},
}


def instance_type(name: str) -> InstanceType | None:
    """Return what a type offers, or None when the lab knows no such type."""
    if name in _KNOWN:
        return _KNOWN[name]
    match = _FORM.fullmatch(name)
    if match is None or match[1] not in _FAMILIES:
        return None
    size = re.fullmatch(r"(\d*)(x?large)", match[2])
    if size is None or (size[1] and size[2] != "xlarge"):
        return None
    cores = int(size[1]) * 4 if size[1] else _SIZES[size[2]]
    return InstanceType(cores, cores * _RATIOS[match[1][0]], _FAMILIES[match[1]])
