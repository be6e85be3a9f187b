"""Images as streams: downloaded, unpacked, checked; and what disk images are made of."""

import gzip
import hashlib
import lzma
import random
import struct
import tracemalloc
from collections.abc import Callable, Iterable, Iterator

import pytest
import trustme
import zstandard
from http_stub import Answer, Request, serve
from hybrid_talos.disk_image import (
    BLOCK,
    MIB,
    SECTOR,
    FixedVhd,
    Page,
    Qcow2,
    check_vhd,
    sparse_pages,
    vhd_footer,
)
from hybrid_talos.image_stream import (
    Compression,
    ImageError,
    compression_of,
    download,
    http_session,
)

DATA = random.Random(1).randbytes(300_000) + bytes(5_000_000) + b"end"
PACK: dict[Compression, Callable[[bytes], bytes]] = {
    Compression.XZ: lambda data: lzma.compress(data, preset=0),
    Compression.ZSTD: lambda data: zstandard.ZstdCompressor(level=1, write_checksum=True).compress(data),
    Compression.GZIP: lambda data: gzip.compress(data, 1),
    Compression.NONE: bytes,
}
KINDS = list(Compression)
PACKED_KINDS = [kind for kind in KINDS if kind]


def fetch(url: str, compression: Compression, pin: str | None = None) -> bytes:
    with http_session(backoff_seconds=0) as session, download(session, url) as image:
        data = b"".join(image.unpacked(compression))
        image.verify(pin)
        return data


def always(answer: Answer) -> Callable[[Request], Answer]:
    return lambda _: answer


@pytest.mark.parametrize("kind", KINDS)
def test_an_image_is_unpacked(kind: Compression) -> None:
    packed = PACK[kind](DATA)
    with serve(always(Answer(body=packed))) as url:
        assert fetch(url, kind, hashlib.sha256(packed).hexdigest()) == DATA


@pytest.mark.parametrize("kind", PACKED_KINDS)
def test_streams_that_follow_each_other_are_one_image(kind: Compression) -> None:
    packed = PACK[kind](DATA) + PACK[kind](b"more")
    with serve(always(Answer(body=packed))) as url:
        assert fetch(url, kind) == DATA + b"more"


def test_zeros_between_xz_streams_are_padding() -> None:
    packed = PACK[Compression.XZ](DATA) + bytes(8) + PACK[Compression.XZ](b"more") + bytes(4)
    with serve(always(Answer(body=packed))) as url:
        assert fetch(url, Compression.XZ) == DATA + b"more"


@pytest.mark.parametrize("kind", PACKED_KINDS)
def test_a_stream_that_is_cut_off_at_its_source_is_refused(kind: Compression) -> None:
    packed = PACK[kind](DATA)[:-20]
    with (
        serve(always(Answer(body=packed))) as url,
        pytest.raises(ImageError, match="ends too early|is damaged"),
    ):
        fetch(url, kind)


@pytest.mark.parametrize("kind", PACKED_KINDS)
def test_a_damaged_stream_is_refused(kind: Compression) -> None:
    packed = bytearray(PACK[kind](DATA))
    middle = len(packed) // 2
    packed[middle : middle + 64] = bytes(64)
    with (
        serve(always(Answer(body=bytes(packed)))) as url,
        pytest.raises(ImageError, match="is damaged|ends too early"),
    ):
        fetch(url, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_breaks_is_an_error(kind: Compression) -> None:
    packed = PACK[kind](DATA)
    with (
        serve(always(Answer(body=packed, cut=len(packed) // 2))) as url,
        pytest.raises(ImageError, match="broke after"),
    ):
        fetch(url, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_of_html_is_no_image(kind: Compression) -> None:
    page = b"\n<!DOCTYPE html><html><body>Sign in</body></html>"
    with serve(always(Answer(body=page))) as url, pytest.raises(ImageError, match="HTML"):
        fetch(url, kind)


def test_html_is_seen_by_its_type_too() -> None:
    answer = Answer(body=b"sorry", headers={"Content-Type": "text/html; charset=utf-8"})
    with serve(always(answer)) as url, pytest.raises(ImageError, match="HTML"):
        fetch(url, Compression.NONE)


def test_another_compression_is_named() -> None:
    with serve(always(Answer(body=gzip.compress(DATA)))) as url, pytest.raises(ImageError, match="not a xz"):
        fetch(url, Compression.XZ)


@pytest.mark.parametrize("status", [204, 400, 404, 500])
def test_any_other_status_is_an_error_with_the_servers_reason(status: int) -> None:
    body = b"" if status == 204 else b'official extension "x" is not available\nmore'
    answer = Answer(status, body, {"Content-Type": "text/plain"})
    with serve(always(answer)) as url, pytest.raises(ImageError, match=f"status {status}") as caught:
        fetch(url, Compression.NONE)
    assert ("not available" in str(caught.value)) is bool(body)
    assert "more" not in str(caught.value)


def test_redirects_are_followed() -> None:
    packed = PACK[Compression.XZ](DATA)

    def respond(request: Request) -> Answer:
        if request.path == "/image":
            return Answer(302, headers={"Location": "/elsewhere"})
        return Answer(body=packed)

    with serve(respond) as url:
        assert fetch(f"{url}/image", Compression.XZ) == DATA


def test_a_server_that_is_busy_is_asked_again() -> None:
    left = [503, 429]

    def respond(_: Request) -> Answer:
        return Answer(left.pop()) if left else Answer(body=b"image")

    with serve(respond) as url:
        assert fetch(url, Compression.NONE) == b"image"
    assert not left


def test_a_server_that_is_not_there_is_named() -> None:
    with serve(always(Answer())) as url:
        pass
    with pytest.raises(ImageError, match=f"{url}.*cannot be reached"):
        fetch(url, Compression.NONE)


def test_the_pin_is_of_the_packed_bytes() -> None:
    packed = PACK[Compression.XZ](DATA)
    right = hashlib.sha256(packed).hexdigest()
    with serve(always(Answer(body=packed))) as url:
        fetch(url, Compression.XZ, right.upper())
        with pytest.raises(ImageError, match=right):
            fetch(url, Compression.XZ, hashlib.sha256(DATA).hexdigest())


@pytest.mark.parametrize("kind", PACKED_KINDS)
def test_memory_does_not_grow_with_the_image(kind: Compression) -> None:
    packed = PACK[kind](bytes(200 * MIB))
    size = 0
    with serve(always(Answer(body=packed))) as url, http_session() as session, download(session, url) as image:
        tracemalloc.start()
        for _, data in sparse_pages(image.unpacked(kind)):
            size += len(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert size == 0
    assert peak < 80 * MIB


def test_a_certificate_authority_can_be_given_as_text() -> None:
    authority = trustme.CA().cert_pem.bytes().decode()
    with http_session(authority) as session:
        assert session.get_adapter("https://factory.example").max_retries.total == 5


def test_a_certificate_authority_that_is_none_is_refused() -> None:
    with pytest.raises(ImageError, match="factory_ca"):
        http_session("no certificate")


@pytest.mark.parametrize(
    ("asset", "kind"),
    [
        ("azure-amd64.vhd.xz", Compression.XZ),
        ("metal-amd64.raw.zst", Compression.ZSTD),
        ("akamai-amd64.raw.gz", Compression.GZIP),
        ("alibabacloud-amd64.qcow2", Compression.NONE),
        ("azure-amd64.vhd", Compression.NONE),
    ],
)
def test_the_file_name_says_the_compression(asset: str, kind: Compression) -> None:
    assert compression_of(asset) == kind


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


# -- qcow2 --------------------------------------------------------------------------------------------------


def qcow2(
    magic: bytes = b"QFI\xfb", version: int = 3, backing: int = 0, size: int = 4247 * MIB, crypt: int = 0
) -> bytes:
    return struct.pack(">4sIQIIQI", magic, version, backing, 0, 13, size, crypt).ljust(4096, b"\0")


@pytest.mark.parametrize("size", [7, 48, 4096])
def test_a_qcow2_passes_as_it_is(size: int) -> None:
    image = qcow2() + b"clusters"
    reader = Qcow2(pieces(image, size))
    assert b"".join(reader.chunks()) == image
    assert reader.virtual_size == 4247 * MIB
    assert reader.disk_gib == 5


@pytest.mark.parametrize(
    ("image", "problem"),
    [
        (b"QFI", "shorter"),
        (qcow2(magic=b"QFI\0"), "not a qcow2"),
        (qcow2(version=4), "not a qcow2"),
        (qcow2(backing=1), "backing"),
        (qcow2(crypt=1), "encrypted"),
        (qcow2(size=0), "empty"),
    ],
)
def test_what_alibaba_cannot_import_is_refused(image: bytes, problem: str) -> None:
    with pytest.raises(ImageError, match=problem):
        list(Qcow2([image]).chunks())
