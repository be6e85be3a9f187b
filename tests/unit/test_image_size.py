"""The size of a packed image, from a few of its bytes."""

import gzip
import lzma
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hybrid_talos.image_assets import Compression
from hybrid_talos.image_size import unpacked_size

DATA = random.Random(3).randbytes(300_000) + bytes(3_000_000) + b"end"


class Server:
    """Serves parts of some bytes, and counts what was asked for."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked: list[int] = []

    def read(self, offset: int, length: int) -> bytes | None:
        assert 0 <= offset <= offset + length <= len(self.data) or offset == 0
        self.asked.append(length)
        return self.data[offset : offset + length]


def size(kind: Compression, data: bytes) -> int | None:
    return unpacked_size(kind, len(data), Server(data).read)


def test_an_xz_file_says_it_in_its_index() -> None:
    server = Server(lzma.compress(DATA, preset=0))
    assert unpacked_size(Compression.XZ, len(server.data), server.read) == len(DATA)
    assert len(server.asked) == 1


def test_streams_of_xz_one_after_the_other_add_up() -> None:
    # The second is longer than what is read at once, so that the first one's end is asked for anew.
    long = random.Random(4).randbytes(600_000)
    data = lzma.compress(DATA) + bytes(8) + lzma.compress(long) + lzma.compress(b"") + bytes(4)
    assert size(Compression.XZ, data) == len(DATA) + len(long)


@pytest.mark.skipif(shutil.which("xz") is None, reason="no xz here")
def test_an_index_of_many_blocks_is_read(tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(DATA)
    subprocess.run(["xz", "-T2", "-0", "--block-size=4096", str(tmp_path / "disk")], check=True)
    data = (tmp_path / "disk.xz").read_bytes()
    assert size(Compression.XZ, data) == len(DATA)


def test_a_zstd_frame_says_it_in_its_header_when_its_packer_knew() -> None:
    assert size(Compression.ZSTD, zstandard.ZstdCompressor().compress(DATA)) == len(DATA)
    packer = zstandard.ZstdCompressor().compressobj()
    assert size(Compression.ZSTD, packer.compress(DATA) + packer.flush()) is None


def test_what_is_not_packed_is_as_long_as_it_is() -> None:
    assert size(Compression.NONE, DATA) == len(DATA)


def test_gzip_does_not_say_it() -> None:
    assert size(Compression.GZIP, gzip.compress(DATA)) is None


def spoil(at: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[at] ^= 0xFF

    return change


@pytest.mark.parametrize("at", [-1, -3, -5, -10, -14, -20])
def test_a_damaged_end_says_nothing(at: int) -> None:
    data = bytearray(lzma.compress(DATA, preset=0))
    data[at] ^= 0xFF
    assert size(Compression.XZ, bytes(data)) is None


@pytest.mark.parametrize("kind", [Compression.XZ, Compression.ZSTD])
@pytest.mark.parametrize("data", [b"", b"x" * 5, b"<html>" * 100, bytes(4096)], ids=["none", "short", "page", "zeros"])
def test_what_is_no_such_file_says_nothing(kind: Compression, data: bytes) -> None:
    assert size(kind, data) in (None, 0)


def test_a_server_of_no_parts_leaves_it_open() -> None:
    for kind in (Compression.XZ, Compression.ZSTD):
        assert unpacked_size(kind, 1000, lambda *_: None) is None
    assert unpacked_size(Compression.XZ, None, lambda *_: b"") is None
