"""The pages that are written: all that is not zero, little else, and the same however the image comes."""

import random
from collections.abc import Iterator

from hybrid_talos.disk_image import BLOCK, MIB, SECTOR, FixedVhd, sparse_pages, vhd_footer
from hybrid_talos.unpacked import Zeros
from hypothesis import given, settings
from hypothesis import strategies as st

PARTS = st.lists(
    st.one_of(
        st.integers(0, 200_000).map(bytes),
        st.integers(1, 300_000).map(Zeros),
        st.builds(lambda seed, size: random.Random(seed).randbytes(size), st.integers(), st.integers(0, 70_000)),
        st.builds(lambda at, after: bytes(at) + b"x" + bytes(after), st.integers(0, 9000), st.integers(0, 9000)),
    ),
    max_size=12,
)


def pieces(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    at = index = 0
    while at < len(data):
        size = sizes[index % len(sizes)]
        yield data[at : at + size]
        at, index = at + size, index + 1


@settings(deadline=None)
@given(parts=PARTS, sizes=st.lists(st.integers(1, 150_000), min_size=1, max_size=4))
def test_the_cut_of_the_image_does_not_matter(parts: list[bytes], sizes: list[int]) -> None:
    disk = b"".join(parts)
    pages = list(sparse_pages([disk]))
    assert list(sparse_pages(parts)) == pages
    if len(disk) // min(sizes) < 5000:
        assert list(sparse_pages(pieces(disk, sizes))) == pages

    rebuilt = bytearray(len(disk) + -len(disk) % SECTOR)
    end = 0
    for offset, data in pages:
        assert offset % SECTOR == len(data) % SECTOR == 0
        assert end <= offset
        assert 0 < len(data) <= BLOCK
        assert data[:SECTOR].strip(b"\0")
        assert data[-SECTOR:].strip(b"\0")
        end = offset + len(data)
        rebuilt[offset:end] = data
    assert rebuilt == disk.ljust(len(rebuilt), b"\0")


def test_a_short_gap_is_sent_along_when_there_is_data_enough() -> None:
    data = random.Random(1).randbytes(3 * MIB)
    gap = 64 * 1024
    assert [(at, len(run)) for at, run in sparse_pages([data + bytes(gap) + b"x" * 4096])] == [
        (0, 3 * MIB + gap + 4096),
    ]
    assert [(at, len(run)) for at, run in sparse_pages([data + bytes(gap + 4096) + b"x" * 4096])] == [
        (0, 3 * MIB),
        (3 * MIB + gap + 4096, 4096),
    ]
    assert len(list(sparse_pages([data[:MIB] + bytes(gap) + b"x" * 4096]))) == 2


def test_gaps_make_little_of_what_is_sent() -> None:
    rng = random.Random(2)
    disk = b"".join(rng.randbytes(rng.randrange(1, 9) * 4096) + bytes(rng.randrange(1, 20) * 4096) for _ in range(900))
    used = sum(disk[at : at + SECTOR] != bytes(SECTOR) for at in range(0, len(disk), SECTOR)) * SECTOR
    pages = list(sparse_pages([disk]))
    assert used < sum(len(data) for _, data in pages) <= 1.05 * used
    assert len(pages) < 900


@settings(deadline=None, max_examples=25)
@given(
    sizes=st.lists(st.integers(1, 70_000), min_size=1, max_size=4),
    tail=st.integers(0, 3),
)
def test_the_footer_is_found_however_the_vhd_comes(sizes: list[int], tail: int) -> None:
    disk = b"boot".ljust(20 * MIB - tail * SECTOR, b"\0") + b"\x55" * (tail * SECTOR)
    sizes = [max(size, 1000) for size in sizes[:-1]] + sizes[-1:] if len(sizes) > 1 else [max(sizes[0], 300)]
    vhd = FixedVhd(pieces(disk + vhd_footer(len(disk)), sizes), has_footer=True)
    assert list(vhd.pages()) == list(sparse_pages([disk]))
    assert (vhd.disk_size, vhd.footer) == (len(disk), vhd_footer(len(disk)))


def test_a_vhd_whose_zeros_are_known_keeps_its_last_piece() -> None:
    chunks = [b"boot".ljust(4096, b"\0"), *[Zeros(MIB)] * 20, Zeros(MIB - 4096), vhd_footer(21 * MIB)]
    vhd = FixedVhd(chunks, has_footer=True)
    assert list(vhd.pages()) == [(0, b"boot".ljust(SECTOR, b"\0"))]
    assert vhd.disk_size == 21 * MIB
