"""The decoders: what is packed by the usual tools comes out again, in bounded pieces; all else is an error."""

import gzip
import lzma
import random
import shutil
import struct
import subprocess
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator

import pytest
import zstandard
from hybrid_talos.decompress import unpack
from hybrid_talos.unpacked import UNPACKED, DamagedStream, Zeros
from hybrid_talos.xz_blocks import _WHOLE
from hypothesis import given, settings
from hypothesis import strategies as st

from lab import factory_packing

MIB = 1024 * 1024


def blocks(data: bytes, size: int = MIB) -> Iterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


def xz_as_the_factory(data: bytes, block: int | None = MIB) -> bytes:
    return b"".join(factory_packing.pack(blocks(data), "xz", len(data), block))


def xz_by_filters(data: bytes) -> bytes:
    chain = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_DELTA, "dist": 4}, {"id": lzma.FILTER_LZMA2, "preset": 1}]
    return lzma.compress(data, lzma.FORMAT_XZ, lzma.CHECK_SHA256, filters=chain)


PACK: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "xz": ("xz", lambda data: lzma.compress(data, preset=0)),
    "xz in blocks": ("xz", xz_as_the_factory),
    "xz in tiny blocks": ("xz", lambda data: xz_as_the_factory(data, 5000)),
    "xz without checksums": ("xz", lambda data: lzma.compress(data, lzma.FORMAT_XZ, lzma.CHECK_NONE)),
    "xz with CRC32": ("xz", lambda data: lzma.compress(data, lzma.FORMAT_XZ, lzma.CHECK_CRC32)),
    "xz with more filters": ("xz", xz_by_filters),
    "zst": ("zst", lambda data: b"".join(factory_packing.pack(blocks(data), "zst", len(data)))),
    "zst without sizes": ("zst", lambda data: zstandard.ZstdCompressor(write_content_size=False).compress(data)),
    "gz": ("gz", gzip.compress),
    "none": ("", lambda data: data),
}
PACKED = [name for name in PACK if name != "none"]
CHECKED = [name for name in PACKED if name not in ("xz without checksums", "zst without sizes")]

RNG = random.Random(1)
# Of every kind that a disk has: noise, zeros over several blocks, text, and an odd end.
DATA = RNG.randbytes(600_000) + bytes(3 * MIB) + b"text and more text. " * 20_000 + bytes(MIB) + b"end"


def out(packed: bytes, kind: str, size: int = 65_536, workers: int = 3) -> bytes:
    """Unpack all, and check on the way that no piece is larger than it may be."""
    result = bytearray()
    for piece in unpack(blocks(packed, size), kind, workers=workers):
        assert kind == "" or len(piece) <= UNPACKED
        assert not isinstance(piece, Zeros) or not piece.strip(b"\0")
        result += piece
    return bytes(result)


@pytest.mark.parametrize("name", PACK)
@pytest.mark.parametrize("size", [1009, 65_536, MIB, 1 << 26])
def test_what_was_packed_comes_out(name: str, size: int) -> None:
    kind, pack = PACK[name]
    assert out(pack(DATA), kind, size) == DATA


@pytest.mark.parametrize("name", PACK)
def test_single_bytes_may_come(name: str) -> None:
    kind, pack = PACK[name]
    data = DATA[-5000:] + DATA[:3000] + bytes(9000)
    assert out(pack(data), kind, 1) == data


@pytest.mark.parametrize("name", PACKED)
def test_nothing_packed_is_nothing(name: str) -> None:
    kind, pack = PACK[name]
    assert out(pack(b""), kind) == b""


# A busy machine is no error.
@settings(deadline=None)
@given(
    parts=st.lists(
        st.one_of(
            st.binary(max_size=300),
            st.integers(0, 40_000).map(bytes),
            st.builds(lambda seed, size: random.Random(seed).randbytes(size), st.integers(), st.integers(0, 9000)),
        ),
        max_size=8,
    ),
    size=st.integers(1, 20_000),
    block=st.sampled_from([None, 4096, 10_000, MIB]),
    workers=st.integers(1, 4),
)
def test_any_data_in_any_cut_comes_out_of_xz(parts: list[bytes], size: int, block: int | None, workers: int) -> None:
    data = b"".join(parts)
    assert out(xz_as_the_factory(data, block), "xz", size, workers) == data


@settings(deadline=None)
@given(data=st.binary(max_size=3000), zeros=st.integers(0, 300_000), size=st.integers(1, 5000))
def test_any_data_in_any_cut_comes_out_of_the_others(data: bytes, zeros: int, size: int) -> None:
    whole = data + bytes(zeros) + data
    assert out(gzip.compress(whole), "gz", size) == whole
    assert out(zstandard.compress(whole), "zst", size) == whole


@pytest.mark.parametrize("name", PACKED)
def test_streams_may_follow_each_other(name: str) -> None:
    kind, pack = PACK[name]
    assert out(pack(DATA) + pack(b"more"), kind, 999_983) == DATA + b"more"


@pytest.mark.parametrize("name", [name for name in PACKED if PACK[name][0] != "zst"])
def test_zeros_may_stand_at_the_end(name: str) -> None:
    kind, pack = PACK[name]
    assert out(pack(b"data") + bytes(512), kind, 100) == b"data"


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("size", [1, 65_536])
def test_a_stream_that_is_cut_off_anywhere_is_an_error(name: str, size: int) -> None:
    kind, pack = PACK[name]
    packed = pack(b"some data " * 400 + bytes(30_000) + RNG.randbytes(500))
    for end in sorted({*range(0, len(packed), max(1, len(packed) // 40)), *range(len(packed) - 30, len(packed))}):
        with pytest.raises((EOFError, DamagedStream)):
            out(packed[:end], kind, size)


@pytest.mark.parametrize("name", CHECKED)
def test_a_changed_bit_is_an_error_or_harmless(name: str) -> None:
    kind, pack = PACK[name]
    data = b"some data " * 400 + bytes(30_000) + RNG.randbytes(500)
    packed = pack(data)
    refused = 0
    places = range(0, len(packed), 2)
    for at in places:
        broken = bytearray(packed)
        broken[at] ^= 1 << (at // 2 % 8)
        try:
            # gzip keeps a time, a system and flags that do not matter.
            assert out(bytes(broken), kind, 4096) == data
        except (EOFError, DamagedStream):
            refused += 1
    assert refused >= len(places) - 10


@pytest.mark.parametrize("name", ["xz", "xz in blocks", "xz in tiny blocks"])
def test_liblzma_agrees_on_changed_bits(name: str) -> None:
    data = b"some data " * 40 + bytes(20_000)
    packed = PACK[name][1](data)
    for at in range(len(packed)):
        for bit in (0, 3, 7):
            broken = bytearray(packed)
            broken[at] ^= 1 << bit
            try:
                # A few bits of LZMA mean nothing.
                assert lzma.decompress(broken) == data
            except lzma.LZMAError:
                with pytest.raises((EOFError, DamagedStream)):
                    out(bytes(broken), "xz", 4096)
            else:
                assert out(bytes(broken), "xz", 4096) == data


@pytest.mark.parametrize("name", PACKED)
def test_rubbish_behind_the_end_is_an_error(name: str) -> None:
    kind, pack = PACK[name]
    with pytest.raises((EOFError, DamagedStream)):
        out(pack(DATA[-9000:]) + b"rubbish behind it", kind)


def test_blocks_that_are_missing_are_noticed() -> None:
    # Each block is right in itself; only the index tells.
    packed = xz_as_the_factory(bytes(9 * MIB))
    block = packed[12 : 12 + (len(packed) - 12) // 10 * 10]
    size = next(n for n in range(4, 4096, 4) if block.startswith(block[:n] * 3))
    assert out(packed, "xz") == bytes(9 * MIB)
    with pytest.raises(DamagedStream, match="index"):
        out(packed[:12] + packed[12 + size :], "xz")
    with pytest.raises(DamagedStream, match="index"):
        out(packed[: 12 + size] + packed[12:], "xz")


def test_blocks_of_zeros_are_unpacked_once() -> None:
    packed = xz_as_the_factory(bytes(400 * MIB))
    pieces = list(unpack(blocks(packed), "xz", workers=2))
    # The first few are under way at once.
    assert len({id(piece) for piece in pieces}) <= 8
    assert all(isinstance(piece, Zeros) for piece in pieces)


@pytest.mark.skipif(shutil.which("xz") is None, reason="needs xz")
@pytest.mark.parametrize(
    "options",
    [
        ["-0", "-T4"],
        ["-6", "-T2"],
        ["-0", "-T1"],
        ["-9e"],
        ["-0", "--block-size=100000"],
        ["-T1", "--block-list=7000,1,0"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("check", ["none", "crc32", "crc64", "sha256"])
def test_what_the_real_xz_packs_comes_out(options: list[str], check: str) -> None:
    done = subprocess.run(["xz", "-c", f"--check={check}", *options], input=DATA, capture_output=True, check=True)
    assert out(done.stdout, "xz") == DATA


@pytest.mark.skipif(shutil.which("zstd") is None, reason="needs zstd")
@pytest.mark.parametrize(
    "options", [["-3", "-T0"], ["-18", "-T2"], ["-1", "--no-check"], ["-19", "--long=27"]], ids=" ".join
)
def test_what_the_real_zstd_packs_comes_out(options: list[str]) -> None:
    done = subprocess.run(["zstd", "-c", *options], input=DATA, capture_output=True, check=True)
    assert out(done.stdout, "zst") == DATA


def test_skippable_zstd_frames_are_skipped() -> None:
    skipped = struct.pack("<II", 0x184D2A50, 4) + b"meta"
    assert out(skipped + zstandard.compress(b"data") + skipped, "zst", 3) == b"data"


# -- bombs ----------------------------------------------------------------------------------------------------


def peak_of(packed: bytes, kind: str, size: int) -> int:
    """Unpack ``size`` bytes and return the most memory that Python had meanwhile."""
    tracemalloc.start()
    try:
        assert sum(len(piece) for piece in unpack(iter([packed]), kind, workers=2)) == size
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["xz", "xz in blocks", "zst", "gz"])
def test_a_bomb_takes_no_memory(name: str) -> None:
    kind, pack = PACK[name]
    assert peak_of(pack(bytes(200 * MIB)), kind, 200 * MIB) < 60 * MIB


def test_large_blocks_are_unpacked_a_few_at_once() -> None:
    block = b"".join(bytes([n]) * MIB for n in range(1, 25))
    assert len(block) == _WHOLE
    packed = xz_as_the_factory(block * 6, _WHOLE)
    assert peak_of(packed, "xz", 6 * _WHOLE) < 110 * MIB


def test_a_block_above_that_size_is_unpacked_in_steps() -> None:
    block = b"x" * (4 * _WHOLE)
    assert peak_of(xz_as_the_factory(block, len(block)), "xz", len(block)) < 40 * MIB


def test_an_xz_that_asks_for_too_much_memory_is_refused() -> None:
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 * MIB}]
    packed = bytearray(lzma.compress(b"data", lzma.FORMAT_XZ, filters=filters))
    with pytest.raises(DamagedStream, match=r"[Mm]emory"):
        out(bytes(packed), "xz")


def test_a_zstd_that_asks_for_too_much_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=28)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(DamagedStream):
        out(packer.compress(b"data") + packer.flush(), "zst")


def test_sizes_from_a_damaged_header_cost_no_memory() -> None:
    # A block that says it has 2^56 bytes, with a checksum that fits.
    number = b"\xff" * 8 + b"\x00"
    fields = bytes([6, 0xC0]) + number + number + b"\x21\x01\x0c"
    header = fields.ljust(24, b"\0")
    start = lzma.compress(b"")[:12]
    packed = start + header + struct.pack("<I", zlib.crc32(header)) + bytes(3 * MIB)
    tracemalloc.start()
    with pytest.raises((EOFError, DamagedStream)):
        out(packed, "xz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 * MIB


# -- threads --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PACK)
def test_an_error_of_the_source_comes_through(name: str) -> None:
    kind, pack = PACK[name]

    def source() -> Iterator[bytes]:
        yield pack(DATA)[:10_000]
        raise ConnectionError("broken")

    with pytest.raises(ConnectionError, match="broken"):
        list(unpack(source(), kind))


@pytest.mark.parametrize("name", PACK)
def test_the_source_is_read_to_its_end(name: str) -> None:
    kind, pack = PACK[name]
    ended = threading.Event()

    def source() -> Iterator[bytes]:
        yield from blocks(pack(DATA), 100_000)
        ended.set()

    assert b"".join(unpack(source(), kind)) == DATA
    assert ended.is_set()


@pytest.mark.parametrize("name", PACK)
def test_who_stops_early_stops_the_source(name: str) -> None:
    kind, pack = PACK[name]
    closed = threading.Event()
    packed = pack(RNG.randbytes(MIB) + bytes(MIB))

    def source() -> Iterator[bytes]:
        try:
            while True:
                yield packed
        finally:
            closed.set()

    pieces = unpack(source(), kind)
    next(pieces)
    pieces.close()
    assert closed.wait(30)
