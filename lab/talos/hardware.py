"""What a machine of the lab is made of: at least the disk that its settings want Talos on."""

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ByteSize, TypeAdapter

DEFAULT = {"path": "/dev/sda", "size": 64 << 30, "model": "FAKE DISK", "serial": "fake-sda", "transport": "sata"}

_BYTES = TypeAdapter(ByteSize)
_KINDS: Mapping[str, Mapping[str, Any]] = {
    "ssd": {"transport": "sata", "rotational": False},
    "hdd": {"transport": "sata", "rotational": True},
    "nvme": {"transport": "nvme", "rotational": False},
    "sd": {"transport": "mmc", "rotational": False},
}
_TEXTS = ("model", "serial", "wwid", "uuid", "modalias", "busPath")


def disk_for(machine: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a disk that a machine's settings fit, or None when the one that every machine of the lab has will do.

    What is asked for is there: whether a rack's machines have it is for `python -m stacks.discover` to say.
    """
    if (path := machine.get("installDisk")) is not None:
        return {**DEFAULT, "path": str(path)}
    selector = machine.get("installDiskSelector")
    if not selector:
        return None
    disk = {**DEFAULT, **_KINDS.get(str(selector.get("type", "ssd")), {})}
    disk |= {key: str(selector[key]).replace("*", "1") for key in _TEXTS if key in selector}
    if "size" in selector:
        disk["size"] = _size(str(selector["size"]))
    return disk


def _size(condition: str) -> int:
    comparison, number = re.fullmatch(r"(>=|<=|>|<|==)?\s*(.+)", condition.strip()).groups()  # type: ignore[union-attr]
    size = int(_BYTES.validate_python(number))
    return size + {">": 1, "<": -1}.get(comparison, 0)
