"""Downloads of images: packed and not, whole and cut off, over one connection and over several."""

import gzip
import hashlib
import lzma
import random
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trustme
import zstandard
from http_stub import Answer, Request, serve
from hybrid_talos import image_download
from hybrid_talos.disk_image import MIB, sparse_pages
from hybrid_talos.http_session import http_session, retries
from hybrid_talos.image_assets import Compression
from hybrid_talos.image_download import Image, download, open_file
from hybrid_talos.image_stream import ImageError

DATA = random.Random(1).randbytes(300_000) + bytes(5_000_000) + b"end"
PACK: dict[Compression, Callable[[bytes], bytes]] = {
    Compression.XZ: lambda data: lzma.compress(data, preset=0),
    Compression.ZSTD: lambda data: zstandard.ZstdCompressor(level=1, write_checksum=True).compress(data),
    Compression.GZIP: lambda data: gzip.compress(data, 1),
    Compression.NONE: bytes,
}
KINDS = list(Compression)
PACKED_KINDS = [kind for kind in KINDS if kind]


def name(kind: Compression) -> str:
    return f"metal-amd64.raw.{kind.value}".removesuffix(".")


def read(image: Image, pin: str | None = None) -> bytes:
    image.pin = pin
    data = b"".join(image.unpacked())
    image.verify()
    return data


def fetch(url: str, kind: Compression, pin: str | None = None) -> bytes:
    with (
        http_session(backoff_seconds=0) as session,
        download(session, [f"{url}/{name(kind)}"], rule=retries(0)) as image,
    ):
        return read(image, pin)


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
        if request.path.startswith("/metal"):
            return Answer(302, headers={"Location": "/elsewhere"})
        return Answer(body=packed)

    with serve(respond) as url:
        assert fetch(url, Compression.XZ) == DATA


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
    with (
        serve(always(Answer(body=packed))) as url,
        http_session() as session,
        download(session, [f"{url}/{name(kind)}"]) as image,
    ):
        tracemalloc.start()
        for _, data in sparse_pages(image.unpacked()):
            size += len(data)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert size == 0
    assert peak < 80 * MIB


# -- several servers' answers ----------------------------------------------------------------------------------


def first_of(url: str, names: list[str]) -> tuple[str, bytes]:
    with http_session(backoff_seconds=0) as session, download(session, [f"{url}/{name}" for name in names]) as image:
        return image.name, read(image)


@pytest.mark.parametrize(
    "refusal", [Answer(404), Answer(500), Answer(body=b"<p>", headers={"Content-Type": "text/html"})]
)
def test_the_first_asset_that_is_served_is_taken(refusal: Answer) -> None:
    def respond(request: Request) -> Answer:
        return refusal if request.path == "/a.vhd.zst" else Answer(body=lzma.compress(b"disk"))

    with serve(respond) as url:
        assert first_of(url, ["a.vhd.zst", "a.vhd.xz", "a.vhd.gz"]) == ("a.vhd.xz", b"disk")


def test_when_none_is_served_every_reason_is_named() -> None:
    def respond(request: Request) -> Answer:
        return Answer(500 if request.path.endswith("zst") else 404, b"sorry", {"Content-Type": "text/plain"})

    with serve(respond) as url, pytest.raises(ImageError) as caught:
        first_of(url, ["a.vhd.zst", "a.vhd.xz", "a.vhd.gz"])
    assert str(caught.value) == (
        f"{url}/a.vhd.zst: status 500: sorry; {url}/a.vhd.xz, {url}/a.vhd.gz: status 404: sorry"
    )


# -- connections that break ------------------------------------------------------------------------------------

BODY = random.Random(2).randbytes(3_000_000)


class Breaking:
    """A server whose connections break after so many bytes; it may resume, and tell contents apart."""

    def __init__(self, cuts: list[int], *, ranges: bool = True, headers: dict[str, str] | None = None) -> None:
        self.cuts = cuts
        self.ranges = ranges
        self.headers = {"ETag": '"1"'} if headers is None else headers
        self.bodies = [BODY]
        self.asked: list[tuple[str | None, str | None]] = []

    def respond(self, request: Request) -> Answer:
        wanted, condition = request.headers.get("Range"), request.headers.get("If-Range")
        self.asked.append((wanted, condition))
        body = self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]
        cut = self.cuts.pop(0) if self.cuts else None
        if self.ranges and wanted and condition == next(iter(self.headers.values()), None):
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            whole = f"bytes {start}-{len(body) - 1}/{len(body)}"
            return Answer(206, body[start:], {**self.headers, "Content-Range": whole}, cut=cut)
        return Answer(body=body, headers=self.headers, cut=cut)


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(image_download, "note", said.append)
    return said


def test_a_broken_connection_is_gone_on_from_where_it_broke(notes: list[str]) -> None:
    server = Breaking([1_200_000, 1_300_000])
    with serve(server.respond) as url:
        assert fetch(url, Compression.NONE, hashlib.sha256(BODY).hexdigest()) == BODY
    starts = [int((wanted or "bytes=0-").removeprefix("bytes=").rstrip("-")) for wanted, _ in server.asked]
    assert starts == sorted(starts)
    assert len(starts) == 3
    assert {condition for _, condition in server.asked[1:]} == {'"1"'}
    assert all("goes on from there" in line for line in notes)


@pytest.mark.parametrize(
    "headers",
    [{}, {"ETag": 'W/"1"'}, {"ETag": '"1"'}, {"Last-Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}],
    ids=["no validator", "weak", "strong", "date"],
)
def test_a_server_that_cannot_resume_is_read_again_and_compared(headers: dict[str, str], notes: list[str]) -> None:
    server = Breaking([2_500_000], ranges=False, headers=headers)
    with serve(server.respond) as url:
        assert fetch(url, Compression.NONE, hashlib.sha256(BODY).hexdigest()) == BODY
    asked = bool(headers) and not headers.get("ETag", "").startswith("W/")
    assert [wanted is not None for wanted, _ in server.asked] == [False, asked]
    assert "read and compared again" in notes[0]


@pytest.mark.parametrize("other", [b"x" + BODY[1:], BODY + b"more", BODY[:-1]], ids=["other", "longer", "shorter"])
def test_an_image_that_changed_meanwhile_is_never_mixed(other: bytes, notes: list[str]) -> None:
    server = Breaking([2_500_000], ranges=False)
    server.bodies = [BODY, other]
    with serve(server.respond) as url, pytest.raises(ImageError, match="serves another image now"):
        fetch(url, Compression.NONE)


@pytest.mark.parametrize(
    ("tag", "size"), [('"2"', len(BODY)), ('"1"', len(BODY) + 4)], ids=["another tag", "another size"]
)
def test_a_part_of_another_image_is_never_taken(tag: str, size: int, notes: list[str]) -> None:
    """As by a server that does not heed If-Range."""

    def respond(request: Request) -> Answer:
        if (wanted := request.headers.get("Range")) is not None:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            return Answer(206, BODY[start:], {"ETag": tag, "Content-Range": f"bytes {start}-{size - 1}/{size}"})
        return Answer(body=BODY, headers={"ETag": '"1"'}, cut=2_500_000)

    with serve(respond) as url, pytest.raises(ImageError, match="serves another image now"):
        fetch(url, Compression.NONE)


def test_another_part_than_the_one_asked_for_is_refused(notes: list[str]) -> None:
    def respond(request: Request) -> Answer:
        if "Range" in request.headers:
            return Answer(206, BODY[5:], {"Content-Range": f"bytes 5-{len(BODY) - 1}/{len(BODY)}"})
        return Answer(body=BODY, headers={"ETag": '"1"'}, cut=2_500_000)

    with serve(respond) as url, pytest.raises(ImageError, match="another part"):
        fetch(url, Compression.NONE)


def test_a_server_that_refuses_to_go_on_is_named(notes: list[str]) -> None:
    def respond(request: Request) -> Answer:
        if "Range" in request.headers:
            return Answer(403, b"expired", {"Content-Type": "text/plain"})
        return Answer(body=BODY, headers={"ETag": '"1"'}, cut=2_500_000)

    with serve(respond) as url, pytest.raises(ImageError, match="broke after .* status 403: expired"):
        fetch(url, Compression.NONE)


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_breaks_again_and_again_is_an_error(kind: Compression, notes: list[str]) -> None:
    packed = PACK[kind](DATA)
    answer = Answer(body=packed, cut=len(packed) // 2)
    with serve(always(answer)) as url, pytest.raises(ImageError, match="broke after .*again and again"):
        fetch(url, kind)


def test_a_slow_line_may_break_more_often_than_one_that_brings_nothing(notes: list[str]) -> None:
    step = MIB + 70_000
    body = random.Random(3).randbytes(9 * step)
    server = Breaking([step] * 8)
    server.bodies = [body]
    with serve(server.respond) as url:
        assert fetch(url, Compression.NONE) == body
    assert len(server.asked) == 9


def test_an_image_without_any_sign_of_its_end_must_be_pinned() -> None:
    answer = Answer(body=BODY, announce=False)
    with serve(always(answer)) as url:
        with pytest.raises(ImageError, match="does not say how long"):
            fetch(url, Compression.NONE)
        assert fetch(url, Compression.NONE, hashlib.sha256(BODY).hexdigest()) == BODY
    packed = Answer(body=lzma.compress(BODY, preset=0), announce=False)
    with serve(always(packed)) as url:
        assert fetch(url, Compression.XZ) == BODY


def test_a_part_is_read_beside_the_stream() -> None:
    server = Breaking([])

    def respond(request: Request) -> Answer:
        if "Range" not in request.headers:
            return server.respond(request)
        first, last = map(int, request.headers["Range"].removeprefix("bytes=").split("-"))
        return Answer(206, BODY[first : last + 1], {"Content-Range": f"bytes {first}-{last}/{len(BODY)}"})

    with serve(respond) as url, http_session() as session, download(session, [f"{url}/a.raw"]) as image:
        assert image.read_range(1000, 50) == BODY[1000:1050]
        assert read(image) == BODY


@pytest.mark.parametrize("answer", [Answer(body=BODY), Answer(416)])
def test_a_server_without_parts_says_so(answer: Answer) -> None:
    def respond(request: Request) -> Answer:
        return answer if "Range" in request.headers else Answer(body=BODY)

    with serve(respond) as url, http_session() as session, download(session, [f"{url}/a.raw"]) as image:
        assert image.read_range(0, 50) is None
        assert read(image) == BODY


# -- proxies and authorities -----------------------------------------------------------------------------------


def test_a_proxy_that_is_given_goes_before_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def respond(request: Request) -> Answer:
        seen.append(request.path)
        return Answer(body=b"image")

    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "factory.invalid")
    with serve(respond) as proxy, http_session(proxy=proxy, backoff_seconds=0) as session:
        assert session.get("http://factory.invalid/versions", timeout=5).content == b"image"
    assert seen == ["/versions"]


def test_the_environments_proxy_is_used_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(always(Answer(body=b"image"))) as proxy, http_session(backoff_seconds=0) as session:
        monkeypatch.setenv("http_proxy", proxy)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        assert session.get("http://factory.invalid/versions", timeout=5).content == b"image"


def test_a_certificate_authority_can_be_given_as_text() -> None:
    authority = trustme.CA().cert_pem.bytes().decode()
    with http_session(authority) as session:
        assert session.get_adapter("https://factory.example").max_retries.total == 5


def test_a_certificate_authority_that_is_none_is_refused() -> None:
    with pytest.raises(ImageError, match="factory_ca"):
        http_session("no certificate")


# -- files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_read_as_a_download_is(kind: Compression, tmp_path: Path) -> None:
    path, packed = tmp_path / name(kind), PACK[kind](DATA)
    path.write_bytes(packed)
    counted: list[int] = []
    with open_file(str(path), counted.append) as image:
        assert image.total == len(packed)
        assert image.read_range(2, 5) == packed[2:7]
        assert read(image, hashlib.sha256(packed).hexdigest()) == DATA
    assert sum(counted) == len(packed)


@pytest.mark.parametrize("content", [b"<html>sign in</html>", lzma.compress(DATA, preset=0)[:-20], b""])
def test_a_file_that_is_no_image_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.raw.xz"
    path.write_bytes(content)
    with open_file(str(path)) as image, pytest.raises(ImageError, match=r"a\.raw\.xz: "):
        read(image)


def paths(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    yield tmp_path / "missing.vhd", "No such file"
    yield tmp_path, "Is a directory"


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    for path, reason in paths(tmp_path):
        with pytest.raises(ImageError, match=f"cannot be opened.*{reason}"), open_file(str(path)):
            pass


def test_a_file_whose_name_says_nothing_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "image.bin"
    path.write_bytes(b"x")
    with pytest.raises(ImageError, match="does not tell"), open_file(str(path)):
        pass
