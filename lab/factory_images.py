"""Makes disk images as the Image Factory would serve them: right in form, of any size, empty of any system.

What is in them is pseudo-random and follows from a seed alone, so that the same request gives the same bytes in every
lab. They are made and packed as a stream: an image of 11 GiB takes no more room than what it packs to.
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

from .factory_disk import DATA_BYTES, DISK_SIZE, Disk
from .factory_formats import FOOTER_SIZE, FORMATS
from .factory_packing import BLOCK, pack

COMPRESSIONS = ("xz", "gz", "zst")

REAL_SIZE = 11 << 30
"""The virtual size of a real Azure image, about."""
REAL_DATA = 300 << 20
"""What of it is not zero, about."""


def stream(
    seed: str,
    disk_format: str,
    compression: str | None,
    *,
    disk_size: int = DISK_SIZE,
    data_bytes: int = DATA_BYTES,
    noise: float = 0.75,
    xz_block: int | None = BLOCK,
) -> Iterator[bytes]:
    """Yield an image: ``disk_format`` is raw, vhd or qcow2, ``compression`` xz, gz, zst or None.

    ``noise`` is the share of the data that cannot be packed. ``xz_block`` is the size of the blocks of an xz, which
    tell their sizes and can be unpacked side by side; None makes one block.
    """
    disk = Disk(seed, disk_size, data_bytes, noise)
    parts = FORMATS[disk_format](disk)
    size = disk.size + (FOOTER_SIZE if disk_format == "vhd" else 0)
    if disk_format == "qcow2" and compression == "zst":
        # Its size follows from its layout; making it twice is the price of one frame that tells it.
        size = sum(map(len, FORMATS[disk_format](disk)))
    return pack(parts, compression, size, xz_block)


def write(
    path: Path,
    seed: str,
    disk_format: str,
    compression: str | None,
    *,
    disk_size: int = DISK_SIZE,
    data_bytes: int = DATA_BYTES,
    noise: float = 0.75,
    xz_block: int | None = BLOCK,
) -> None:
    """Write an image into a new file, in one step. An image that is not packed becomes a sparse file."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    draft.parent.mkdir(parents=True, exist_ok=True)
    parts = stream(
        seed,
        disk_format,
        compression,
        disk_size=disk_size,
        data_bytes=data_bytes,
        noise=noise,
        xz_block=xz_block,
    )
    zeros = bytes(BLOCK)
    with draft.open("wb") as file:
        for part in parts:
            if part == zeros:
                file.seek(BLOCK, os.SEEK_CUR)
            else:
                file.write(part)
        file.truncate()
    draft.replace(path)
