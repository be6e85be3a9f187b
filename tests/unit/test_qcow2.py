"""A qcow2 read as a stream: the disk that is in it, and the files that cannot be read so."""

import random
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from hybrid_talos.disk_image import BLOCK, MIB, SECTOR, FixedVhd
from hybrid_talos.image_stream import ImageError
from hybrid_talos.qcow2 import Qcow2, disk_of

from lab.factory_disk import Disk
from lab.factory_formats import qcow2 as lab_qcow2

BITS = 13
CLUSTER = 1 << BITS
PER_TABLE = CLUSTER // 8
USED = 1 << 63


def header(size: int, l1_entries: int = 8, l1_at: int = CLUSTER, **more: Any) -> bytes:
    values = {"magic": b"QFI\xfb", "version": 3, "backing": 0, "bits": BITS, "crypt": 0, "features": 0, **more}
    return struct.pack(
        ">4sIQIIQIIQQIIQQQQII",
        *(values["magic"], values["version"], values["backing"], 0, values["bits"], size, values["crypt"]),
        *(l1_entries, l1_at, 0, 0, 0, 0),
        *(values["features"], 0, 0, 4, 104),
    ).ljust(CLUSTER, b"\0")


def as_qemu(disk: bytes, order: Callable[[list[int]], list[int]] = sorted) -> bytes:
    """Write a disk as qemu-img does: each table just before the clusters that it maps."""
    used = [n for n in range(len(disk) // CLUSTER) if disk[n * CLUSTER : (n + 1) * CLUSTER].strip(b"\0")]
    tables: dict[int, int] = {}
    places: dict[int, int] = {}
    layout: list[tuple[str, int]] = []
    for number in order(used):
        table = number // PER_TABLE
        if table not in tables:
            tables[table] = (2 + len(layout)) * CLUSTER
            layout.append(("table", table))
        places[number] = (2 + len(layout)) * CLUSTER
        layout.append(("data", number))
    l1 = b"".join(struct.pack(">Q", USED | tables[n] if n in tables else 0) for n in range(8))
    parts = [header(len(disk)), l1.ljust(CLUSTER, b"\0")]
    for kind, number in layout:
        if kind == "data":
            parts.append(disk[number * CLUSTER : (number + 1) * CLUSTER])
        else:
            numbers = range(number * PER_TABLE, (number + 1) * PER_TABLE)
            parts.append(b"".join(struct.pack(">Q", USED | places[n] if n in places else 0) for n in numbers))
    return b"".join(parts)


def some_disk(seed: int = 1, size: int = 40 * MIB) -> bytes:
    source = random.Random(seed)
    disk = bytearray(size)
    for _ in range(40):
        at, length = source.randrange(0, size - 600_000), source.randrange(1, 500_000)
        disk[at : at + length] = source.randbytes(length)
    return bytes(disk)


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def read(chunks: Iterable[bytes]) -> bytes:
    return b"".join(disk_of(chunks))


@pytest.mark.parametrize("size", [511, 65536, 50 * MIB])
def test_the_disk_is_the_one_that_was_put_in(size: int) -> None:
    disk = some_disk()
    assert read(pieces(as_qemu(disk), size)) == disk


def test_the_pages_and_the_footer_are_those_of_the_raw_disk() -> None:
    disk = some_disk(size=40 * MIB - CLUSTER)
    vhd, raw = FixedVhd(disk_of([as_qemu(disk)]), has_footer=False), FixedVhd([disk], has_footer=False)
    assert list(vhd.pages()) == list(raw.pages())
    assert (vhd.disk_size, vhd.footer, vhd.file_size) == (raw.disk_size, raw.footer, raw.file_size)
    assert vhd.disk_size == 40 * MIB


def test_tables_may_stand_at_the_front() -> None:
    disk = Disk("a")
    assert read(lab_qcow2(disk)) == b"".join(disk.blocks())


def test_what_the_last_cluster_has_beyond_the_disk_is_no_part_of_it() -> None:
    size = 24 * MIB + SECTOR
    image = bytearray(as_qemu(b"x" * CLUSTER + bytes(24 * MIB - CLUSTER) + b"y" * CLUSTER))
    image[24:32] = struct.pack(">Q", size)
    disk = read([bytes(image)])
    assert (len(disk), disk[-SECTOR - 1 :]) == (size, b"\0" + b"y" * SECTOR)


def test_zero_clusters_are_zeros_even_where_they_have_a_place() -> None:
    disk = b"x" * CLUSTER + bytes(24 * MIB - CLUSTER)
    image = bytearray(as_qemu(disk))
    assert read([bytes(image)]) == disk
    entry = 2 * CLUSTER
    image[entry : entry + 8] = struct.pack(">Q", int.from_bytes(image[entry : entry + 8], "big") | 1)
    assert read([bytes(image)]) == bytes(24 * MIB)


def test_everything_is_read_for_the_digest_covers_the_whole() -> None:
    left = iter([as_qemu(some_disk()), b"what stands behind", b"and more"])
    read(left)
    assert list(left) == []


def test_pieces_are_bounded() -> None:
    disk = random.Random(2).randbytes(30 * MIB) + bytes(30 * MIB)
    assert max(map(len, disk_of([as_qemu(disk)]))) == BLOCK


def compressed(image: bytes) -> bytes:
    entry = 2 * CLUSTER
    return image[:entry] + struct.pack(">Q", 1 << 62 | 0x5000) + image[entry + 8 :]


def table_behind(image: bytes) -> bytes:
    """Put the first table to the end, behind its clusters."""
    entry, end = CLUSTER, len(image)
    return image[:entry] + struct.pack(">Q", USED | end) + image[entry + 8 :] + image[2 * CLUSTER : 3 * CLUSTER]


GOOD = as_qemu(some_disk())


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        (b"QFI", "ends too early"),
        (header(MIB, magic=b"QFI\0"), "not a qcow2"),
        (header(MIB, version=4), "not a qcow2"),
        (header(MIB, backing=1), "backing"),
        (header(MIB, crypt=1), "encrypted"),
        (header(0), "empty"),
        (header(MIB, features=2), "damaged"),
        (header(MIB, features=1 << 4), "damaged"),
        (header(MIB, bits=40), "damaged"),
        (header(MIB, l1_entries=1 << 30), "damaged"),
        (GOOD[:-1], "ends too early"),
        (GOOD[: len(GOOD) // 2], "ends too early"),
        (GOOD[: CLUSTER + 7], "ends too early"),
        (compressed(GOOD), "compressed clusters"),
        (table_behind(GOOD), "stand behind what they map"),
        (as_qemu(some_disk(), order=lambda used: sorted(used, reverse=True)), "not in the order"),
    ],
    ids=range(16),
)
def test_what_cannot_be_read_as_a_stream_is_said_clearly(image: bytes, problem: str) -> None:
    with pytest.raises(ImageError, match=problem):
        read(pieces(image, 100_000))


# -- passed through --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [7, 104, 4096])
def test_a_qcow2_passes_as_it_is(size: int) -> None:
    image = header(4247 * MIB) + b"clusters"
    reader = Qcow2(pieces(image, size))
    assert b"".join(reader.chunks()) == image
    assert reader.virtual_size == 4247 * MIB
    assert reader.disk_gib == 5


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        (b"QFI", "shorter"),
        (header(MIB, magic=b"QFI\0"), "not a qcow2"),
        (header(MIB, backing=1), "backing"),
        (header(MIB, crypt=1), "encrypted"),
        (header(0), "empty"),
    ],
)
def test_what_alibaba_cannot_import_is_refused(image: bytes, problem: str) -> None:
    with pytest.raises(ImageError, match=problem):
        list(Qcow2([image]).chunks())
