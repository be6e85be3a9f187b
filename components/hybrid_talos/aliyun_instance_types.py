"""What the names of ECS instance types say about processors and memory.

Pure functions. Source: alibabacloud.com, "Classification and naming of instance types".
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

_FORM = re.compile(r"ecs\.(?P<family>[a-z]+[0-9]*[a-z0-9]*(?:-[a-z0-9]+)*)\.(?P<size>[a-z0-9]+)", re.ASCII)
_CLASSIC = re.compile(r"(?:hf)?(?P<kind>[cgr])[0-9]+(?P<suffix>[a-z]*)", re.ASCII)
_RATIO = re.compile(r"[a-z0-9-]+-c1m(?P<memory>[0-9]+)", re.ASCII)
_GIB_PER_CPU = {"c": "2", "g": "4", "r": "8"}
_ARM_SUFFIXES = frozenset({"r", "y"})
"""Families such as g6r (Ampere) and g8y (Yitian) have Arm processors."""


_SIZE = re.compile(r"(?:(?P<times>[1-9][0-9]*)?x)?large", re.ASCII)
_OLD_FAMILIES = frozenset({"c1", "c2", "e3", "e4", "m1", "m2", "n1", "n2", "s1", "s2", "s3", "sn1", "sn2", "t1"})
"""Families from before the sizes meant what they mean today."""


def cpus_of(name: str) -> int | None:
    """Return how many virtual processors an instance type has, None where its name does not say."""
    found = _FORM.fullmatch(name)
    size = _SIZE.fullmatch(found["size"]) if found is not None else None
    if found is None or size is None or found["family"] in _OLD_FAMILIES:
        return None
    return 2 if size[0] == "large" else 4 * int(size["times"] or 1)


class _TypeShape(NamedTuple):
    size: str
    memory: str
    """GiB for each CPU, or the family where its name does not say."""


def instance_type_problems(types: Sequence[str]) -> list[str]:
    """Return why a pool cannot have these instance types, or nothing.

    The autoscaler plans with one type, so all must have the same CPUs and memory; and images for Arm cannot be imported
    (aliyun/terraform-provider-alicloud `image_import`: `architecture` is x86_64 or i386).
    """
    problems: list[str] = []
    shapes: dict[str, _TypeShape] = {}
    for name in types:
        found = _FORM.fullmatch(name)
        if found is None:
            problems.append("every one must be the name of an ECS instance type, such as ecs.g7.large")
            continue
        family = found["family"]
        classic = _CLASSIC.fullmatch(family)
        if classic is not None and classic["suffix"] in _ARM_SUFFIXES:
            problems.append(f"{name} has Arm processors, for which no image can be imported")
        ratio = _RATIO.fullmatch(family)
        memory = _GIB_PER_CPU[classic["kind"]] if classic else ratio["memory"] if ratio else family
        shapes[name] = _TypeShape(found["size"], memory)
    if len(set(types)) < len(types):
        problems.append("the same type stands twice")
    if len(set(shapes.values())) > 1:
        first = next(iter(shapes))
        others = [name for name, shape in shapes.items() if shape != shapes[first]]
        problems.append(
            f"{', '.join(others)} cannot be seen to have the CPUs and memory of {first}, with which the autoscaler "
            "plans for the whole pool: use one pool for each size"
        )
    return list(dict.fromkeys(problems))
