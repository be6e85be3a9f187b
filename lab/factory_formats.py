"""Disk formats around a lab disk, as the Image Factory serves them: raw, a fixed VHD, a qcow2."""

import hashlib
import math
import struct
from collections.abc import Callable, Iterator

from .factory_disk import SECTOR, Disk

FOOTER_SIZE = 512
_CLUSTER_BITS = 13
"""8 KiB clusters, as Talos makes its alibabacloud image (siderolabs/talos pkg/imager/profile/default.go)."""


def raw(disk: Disk) -> Iterator[bytes]:
    """Yield the disk from its first byte to its last."""
    return disk.blocks()


def vhd(disk: Disk) -> Iterator[bytes]:
    """Yield a fixed VHD: the disk, then a footer of 512 bytes."""
    yield from disk.blocks()
    yield vhd_footer(disk.size, hashlib.sha256(f"vhd {disk.seed}".encode()).digest()[:16])


def vhd_footer(size: int, unique_id: bytes) -> bytes:
    """Return the footer of a fixed VHD (Virtual Hard Disk Image Format Specification, Microsoft)."""
    cylinders, heads, sectors = _geometry(size // SECTOR)
    footer = struct.pack(
        ">8sIIQI4sI4sQQHBBII16sB427x",
        b"conectix",
        2,  # features: the bit that is always set
        0x00010000,  # format version 1.0
        0xFFFFFFFFFFFFFFFF,  # a fixed disk has no dynamic header
        0,  # seconds since 2000: kept out, so that equal images are equal bytes
        b"qem2",  # as qemu-img with force_size, which Talos uses: readers then trust the size, not the geometry
        0x00050003,
        b"Wi2k",
        size,
        size,
        cylinders,
        heads,
        sectors,
        2,  # fixed
        0,
        unique_id,
        0,
    )
    checksum = ~sum(footer) & 0xFFFFFFFF
    return footer[:64] + struct.pack(">I", checksum) + footer[68:]


def _geometry(sectors: int) -> tuple[int, int, int]:
    """Return cylinders, heads and sectors per track (the specification's appendix)."""
    sectors = min(sectors, 65535 * 16 * 255)
    if sectors >= 65535 * 16 * 63:
        per_track, heads, tracks = 255, 16, sectors // 255
    else:
        per_track = 17
        tracks = sectors // per_track
        heads = max((tracks + 1023) // 1024, 4)
        if tracks >= heads * 1024 or heads > 16:
            per_track, heads, tracks = 31, 16, sectors // 31
        if tracks >= heads * 1024:
            per_track, heads, tracks = 63, 16, sectors // 63
    return tracks // heads, heads, per_track


def qcow2(disk: Disk) -> Iterator[bytes]:
    """Yield a qcow2 of version 3 without compression (QEMU docs/interop/qcow2.txt)."""
    size = 1 << _CLUSTER_BITS
    per_table = size // 8
    data = disk.used(size)
    tables = sorted({number // per_table for number in data})
    l1_entries = math.ceil(disk.size / size / per_table)
    l1_clusters = -(-l1_entries * 8 // size)
    blocks = 1
    while True:
        # header, refcount table, refcount blocks, L1, L2 tables, data: all in whole clusters.
        total = 1 + 1 + blocks + l1_clusters + len(tables) + len(data)
        needed = -(-total // (size // 2))
        if needed <= blocks:
            break
        blocks = needed
    l1_at = 2 + blocks
    l2_at = l1_at + l1_clusters
    data_at = l2_at + len(tables)

    header = struct.pack(
        ">4sIQIIQIIQQIIQQQQII",
        *(b"QFI\xfb", 3, 0, 0, _CLUSTER_BITS, disk.size, 0),
        *(l1_entries, l1_at * size, size, 1, 0, 0),
        *(0, 0, 0, 4, 104),
    )
    yield header.ljust(size, b"\0")
    yield b"".join(struct.pack(">Q", (2 + block) * size) for block in range(blocks)).ljust(size, b"\0")
    yield (struct.pack(">H", 1) * total).ljust(blocks * size, b"\0")
    # The top bit says that a cluster is used exactly once.
    used = 1 << 63
    l1 = dict(zip(tables, range(l2_at, data_at), strict=True))
    entries = [used | l1[table] * size if table in l1 else 0 for table in range(l1_entries)]
    yield struct.pack(f">{l1_entries}Q", *entries).ljust(l1_clusters * size, b"\0")
    places = {number: data_at + index for index, number in enumerate(data)}
    for table in tables:
        numbers = range(table * per_table, (table + 1) * per_table)
        yield struct.pack(f">{per_table}Q", *(used | places[n] * size if n in places else 0 for n in numbers))
    for number in data:
        yield disk.read(number * size, size)


FORMATS: dict[str, Callable[[Disk], Iterator[bytes]]] = {"raw": raw, "vhd": vhd, "qcow2": qcow2}
"""Disk formats by the ending of an asset's name."""
