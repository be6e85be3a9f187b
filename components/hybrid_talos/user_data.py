"""Machine configuration as the user data of a cloud machine: bytes that fit."""

import base64
import struct
import zlib
from typing import NamedTuple

from ._contract import BadInputs
from .machine_config import V1ALPHA1, identity
from .talos_yaml import Document, dump


class Limit(NamedTuple):
    """How many bytes of user data a cloud takes, before base64."""

    most: int
    """More is refused."""
    comfortable: int
    """More is compressed first, and worth a warning when it does not help enough."""


AZURE = Limit(most=65_535, comfortable=65_535)
"""Custom data of a scale set (learn.microsoft.com, REST API of virtual machine scale sets, `osProfile.customData`)."""

ALIBABA = Limit(most=32 * 1024, comfortable=16 * 1024)
"""User data of ECS: 32 KB in current pages of alibabacloud.com, 16 KB in older ones and in those of Auto Scaling."""


class Fitted(NamedTuple):
    """User data that fits."""

    encoded: str
    """Base64 of the configuration, or of its gzip form; Talos unpacks gzip by itself."""
    size: int
    """Bytes before base64."""
    tight: bool
    """Whether it is above what every edition of the cloud's documentation allows."""


def gzipped(content: bytes) -> bytes:
    """Return ``content`` in gzip form, without a time or a file name, so that the same content gives the same bytes."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(content) + packer.flush()
    header = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
    return header + body + struct.pack("<II", zlib.crc32(content), len(content) & 0xFFFFFFFF)


def fit(owner: str, documents: list[Document], limit: Limit) -> Fitted:
    """Return the user data for a configuration, compressed only where its size asks for that.

    Talos detects gzip on every platform (siderolabs/talos `internal/app/machined/pkg/controllers/config/acquire.go`).
    Raises BadInputs with the size, the limit and the biggest parts when it does not fit.
    """
    plain = dump(documents).encode()
    content = plain
    if len(plain) > limit.comfortable:
        content = min(plain, gzipped(plain), key=len)
    if len(content) > limit.most:
        biggest = ", ".join(f"{part} ({size:,} bytes)" for part, size in parts(documents)[:3])
        raise BadInputs(
            f"{owner}: the machine configuration has {len(plain):,} bytes, {len(content):,} when compressed, and the "
            f"cloud takes {limit.most:,}; its biggest parts are {biggest}"
        )
    return Fitted(base64.b64encode(content).decode("ascii"), len(content), len(content) > limit.comfortable)


def parts(documents: list[Document]) -> list[tuple[str, int]]:
    """Return the parts of a configuration with their sizes in bytes, biggest first; names only, no values."""
    found: list[tuple[str, int]] = []
    for document in documents:
        if identity(document) != V1ALPHA1:
            found.append((identity(document), _size(document)))
            continue
        for section, value in document.items():
            if isinstance(value, dict):
                found += [(f"{section}.{key}", _size({key: nested})) for key, nested in value.items()]
            else:
                found.append((section, _size({section: value})))
    return sorted(found, key=lambda part: (-part[1], part[0]))


def _size(value: Document) -> int:
    return len(dump([value]).encode())
