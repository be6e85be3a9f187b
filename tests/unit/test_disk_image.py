"""Disks as they are written: their pages that are not zero, and the footer of a fixed VHD."""

import random
import struct
from collections.abc import Callable, Iterable, Iterator

import pytest
from hybrid_talos.disk_image import (
    BLOCK,
    MIB,
    SECTOR,
    FixedVhd,
    Page,
    check_vhd,
    sparse_pages,
    vhd_footer,
)
from hybrid_talos.image_stream import ImageError

# -- pages --------------------------------------------------------------------------------------------------


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def rebuilt(pages: Iterable[Page], size: int) -> bytes:
    disk = bytearray(size)
    for offset, data in pages:
        assert offset % SECTOR == 0
        assert len(data) % SECTOR == 0
        assert 0 < len(data) <= BLOCK
        disk[offset : offset + len(data)] = data
    return bytes(disk)


@pytest.mark.parametrize("size", [1, 511, 4096, 1_000_003, BLOCK, 3 * BLOCK])
def test_pages_rebuild_the_disk_and_leave_zeros_out(size: int) -> None:
    rng = random.Random(size)
    disk = bytearray(9 * MIB)
    for _ in range(20):
        at = rng.randrange(0, len(disk) - 70_000)
        disk[at : at + rng.randrange(1, 70_000)] = rng.randbytes(70_000)
    disk = disk[: 9 * MIB]
    pages = list(sparse_pages(pieces(bytes(disk), size) if size > 500 else [bytes(disk)]))
    assert rebuilt(pages, len(disk)) == disk
    assert all(data[:SECTOR].strip(b"\0") and data[-SECTOR:].strip(b"\0") for _, data in pages)


def test_one_byte_is_one_sector() -> None:
    disk = bytes(5 * MIB) + b"x" + bytes(MIB)
    assert list(sparse_pages([disk])) == [(5 * MIB, b"x" + bytes(511))]


def test_long_data_comes_in_blocks_of_four_mib() -> None:
    assert [(at, len(data)) for at, data in sparse_pages([b"x" * (9 * MIB)])] == [
        (0, BLOCK),
        (BLOCK, BLOCK),
        (2 * BLOCK, MIB),
    ]


def test_an_empty_disk_has_no_pages() -> None:
    assert list(sparse_pages([bytes(64 * MIB)])) == []


# -- VHD ----------------------------------------------------------------------------------------------------


def patched(footer: bytes, at: int, value: bytes) -> bytes:
    """Return the footer with other bytes and the checksum that belongs to them."""
    changed = bytearray(footer)
    changed[at : at + len(value)] = value
    changed[64:68] = bytes(4)
    changed[64:68] = struct.pack(">I", ~sum(changed) & 0xFFFFFFFF)
    return bytes(changed)


def test_a_raw_disk_gets_whole_mib_and_a_footer() -> None:
    # microsoft/AzureStorageExplorer#3033: 1536 MiB and a sector more.
    size = 1536 * MIB + SECTOR
    head = b"\xeb" * SECTOR

    def disk() -> Iterator[bytes]:
        yield head
        for _ in range(1536):
            yield bytes(MIB)

    vhd = FixedVhd(disk(), has_footer=False)
    assert list(vhd.pages()) == [(0, head)]
    assert size < vhd.disk_size == 1537 * MIB
    assert vhd.file_size == 1_611_661_824
    assert vhd.footer[:8] == b"conectix"
    assert struct.unpack_from(">QQ", vhd.footer, 40) == (1537 * MIB, 1537 * MIB)
    assert struct.unpack_from(">I", vhd.footer, 60) == (2,)
    check_vhd(vhd.footer, vhd.disk_size)


def test_a_footer_is_the_same_for_the_same_size() -> None:
    assert vhd_footer(64 * MIB) == vhd_footer(64 * MIB)
    assert len(vhd_footer(64 * MIB)) == SECTOR


@pytest.mark.parametrize("gib", [0.0625, 1, 4, 31, 127, 128, 2000])
def test_the_geometry_is_never_larger_than_the_disk(gib: float) -> None:
    size = int(gib * 1024) * MIB
    cylinders, heads, sectors = struct.unpack_from(">HBB", vhd_footer(size), 56)
    assert 0 < cylinders * heads * sectors <= size // SECTOR


@pytest.mark.parametrize("size", [1000, 65536, 20 * MIB])
def test_raw_and_vhd_give_the_same_pages_and_footer(size: int) -> None:
    disk = random.Random(4).randbytes(3 * MIB) + bytes(17 * MIB) + b"end".ljust(MIB, b"\0")
    raw = FixedVhd(pieces(disk, size), has_footer=False)
    vhd = FixedVhd(pieces(disk + vhd_footer(len(disk)), size), has_footer=True)
    assert list(raw.pages()) == list(vhd.pages())
    assert (raw.footer, raw.file_size) == (vhd.footer, vhd.file_size)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda disk, footer: disk + b"x" * SECTOR, "no VHD footer"),
        (lambda disk, footer: disk, "no VHD footer"),
        (lambda disk, footer: disk + patched(footer, 60, struct.pack(">I", 3)), "type 3"),
        (lambda disk, footer: disk + footer[:100] + b"x" + footer[101:], "checksum"),
        (lambda disk, footer: disk[:-MIB] + footer, "footer says"),
        (lambda disk, footer: footer + disk + footer, "dynamic"),
        (lambda disk, footer: disk + bytes(512) + vhd_footer(len(disk) + 512), "whole number of MiB"),
        (lambda disk, footer: disk[: 19 * MIB] + vhd_footer(19 * MIB), "Azure takes 20972032 and more"),
        (lambda disk, footer: b"", "no VHD footer"),
        (lambda disk, footer: b"QFI\xfb" + disk, "qcow2"),
    ],
    ids=["raw", "no footer", "type", "checksum", "size", "dynamic", "odd", "small", "empty", "qcow2"],
)
def test_a_vhd_that_azure_would_refuse_is_refused(change: Callable[[bytes, bytes], bytes], problem: str) -> None:
    disk = b"\xeb" + bytes(21 * MIB - 1)
    data = change(disk, vhd_footer(len(disk)))
    with pytest.raises(ImageError, match=problem):
        list(FixedVhd(pieces(data, 65536), has_footer=True).pages())
