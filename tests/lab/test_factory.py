"""The lab's Image Factory: the same ids, refusals and image forms as the real one."""

import gzip
import hashlib
import lzma
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
import zstandard

from lab import factory
from lab.factory_disk import Disk
from lab.factory_schematic import InvalidSchematic, canonical, schematic_id

# siderolabs/image-factory pkg/schematic/schematic_test.go
UPSTREAM_IDS = [
    ("{}", "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"),
    ("customization: {}", "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"),
    (
        'customization: {"extraKernelArgs": []}',
        "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba",
    ),
    (
        '{"customization": {"extraKernelArgs": ["noapic", "nolapic"], "systemExtensions": {}}}',
        "9cba8e32753f91a16c1837ab8abf356af021706ef284aef07380780177d9a06c",
    ),
    (
        '{"customization": {"meta": [{"key": 10, "value": "foo"}], "extraKernelArgs": []}}',
        "d308a2a5ee2277bed5fbaa104fcbc8d59122abfa737df987a95b4ca763459a7f",
    ),
    (
        '{"overlay": {"name": "rpi_generic", "image": "siderolabs/sbc-raspberrypi"},"customization":{}}',
        "ee21ef4a5ef808a9b7484cc0dda0f25075021691c8c09a276591eedb638ea1f9",
    ),
    (
        '{"customization":{"secureboot": {"includeWellKnownCertificates": true}}}',
        "fa8e05f142a851d3ee568eb0a8e5841eaf6b0ebc8df9a63df16ac5ed2c04f3e6",
    ),
]
EMPTY = UPSTREAM_IDS[0][1]


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    base, stop = factory.serve(tmp_path / "factory")
    yield base
    stop()


def post(url: str, body: str) -> requests.Response:
    return requests.post(f"{url}/schematics", data=body.encode(), timeout=10)


def fetch(url: str, path: str, **headers: str) -> requests.Response:
    return requests.get(f"{url}/{path}", headers=headers, timeout=60)


@pytest.mark.parametrize(("body", "expected"), UPSTREAM_IDS)
def test_ids_are_those_of_upstream(body: str, expected: str) -> None:
    assert schematic_id(canonical(body.encode())) == expected


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("console=ttyS0", "console=ttyS0"),
        ("off", '"off"'),
        ("2026-01-01", '"2026-01-01"'),
        ("1.50", '"1.50"'),
        ("0644", '"0644"'),
        ("a: b", "'a: b'"),
        ("*x", "'*x'"),
        ("", '""'),
    ],
)
def test_text_is_quoted_as_go_yaml_quotes_it(value: str, written: str) -> None:
    text = canonical(f"customization: {{extraKernelArgs: ['{value}']}}".encode())
    assert text == f"customization:\n    extraKernelArgs:\n        - {written}\n"


@pytest.mark.parametrize(
    "body",
    [
        "customization: {extensions: [a]}",
        "unknown: 1",
        "customization: {meta: [{key: 256, value: x}]}",
        "customization: {extraKernelArgs: noapic}",
        "customization: {bootloader: lilo}",
        "customization: {}\ncustomization: {}",
        "[",
        "- a",
        "",
    ],
)
def test_what_is_no_schematic_is_refused(body: str, url: str) -> None:
    with pytest.raises(InvalidSchematic):
        canonical(body.encode())
    assert post(url, body).status_code == 400


def test_a_posted_schematic_comes_back_by_its_id(url: str) -> None:
    answer = post(url, "customization:\n  systemExtensions:\n    officialExtensions: [siderolabs/drbd]\n")
    assert answer.status_code == 201
    id, text = answer.json()["id"], answer.json()["schematic"]
    assert hashlib.sha256(text.encode()).hexdigest() == id
    again = fetch(url, f"schematics/{id}")
    assert (again.status_code, again.text) == (200, text)
    assert fetch(url, f"schematics/{'0' * 64}").status_code == 404
    assert fetch(url, "schematics/..%2f..%2fetc").status_code == 404


def test_versions_and_extensions_are_listed(url: str) -> None:
    assert "v1.14.0" in fetch(url, "versions").json()
    names = [item["name"] for item in fetch(url, "version/v1.13.0/extensions/official").json()]
    assert "siderolabs/zfs" in names
    assert fetch(url, "version/v1.99.0/extensions/official").status_code == 404


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"image/{'0' * 64}/v1.14.0/azure-amd64.vhd.xz", 404),
        (f"image/{EMPTY}/v1.99.0/azure-amd64.vhd.xz", 404),
        (f"image/{EMPTY}/latest/azure-amd64.vhd.xz", 500),
        (f"image/{EMPTY}/v1.13.0/alibabacloud-amd64.qcow2", 400),
        (f"image/{EMPTY}/v1.14.0/azure-s390x.vhd.xz", 400),
        (f"image/{EMPTY}/v1.14.0/azure-amd64.floppy", 400),
        (f"image/{EMPTY}/v1.14.0/azure-amd64.vhd.xz.sha256", 402),
        (f"image/{EMPTY}/v1.14.0/azure-amd64.vhd.xz.sigstore.json", 402),
        (f"image/{EMPTY}/v1.14.0/metal-amd64.iso", 501),
        (f"image/{EMPTY}/v1.14.0/azure-amd64.qcow2", 500),
        (f"image/{EMPTY}/v1.14.0/alibabacloud-amd64.vhd.zst", 500),
        (f"pxe/{EMPTY}/v1.14.0/metal", 400),
        (f"pxe/{EMPTY}/v1.99.0/metal-amd64", 404),
        ("image", 404),
    ],
)
def test_what_cannot_be_had_is_refused_with_the_real_status(path: str, status: int, url: str) -> None:
    assert fetch(url, path).status_code == status


@pytest.mark.parametrize(("name", "status"), [("drbd", 200), ("i915-ucode", 200), ("no-such-thing", 400)])
def test_an_image_is_refused_for_an_unknown_extension_only(name: str, status: int, url: str) -> None:
    body = f"customization: {{systemExtensions: {{officialExtensions: [siderolabs/{name}]}}}}"
    id = post(url, body).json()["id"]
    answer = fetch(url, f"image/{id}/v1.14.0/metal-amd64.raw.zst")
    assert answer.status_code == status
    assert (f"siderolabs/{name}" in answer.text) == (status == 400)


def disk(seed: str) -> bytes:
    return b"".join(Disk(seed).blocks())


def test_the_vhd_is_whole_mebibytes_and_a_true_footer(url: str) -> None:
    data = lzma.decompress(fetch(url, f"image/{EMPTY}/v1.14.0/azure-amd64.vhd.xz").content)
    body, footer = data[:-512], data[-512:]
    assert len(body) % (1 << 20) == 0
    assert footer[:8] == b"conectix"
    assert struct.unpack(">Q", footer[48:56])[0] == len(body)
    assert struct.unpack(">I", footer[60:64])[0] == 2
    assert struct.unpack(">I", footer[64:68])[0] == ~(sum(footer) - sum(footer[64:68])) & 0xFFFFFFFF
    assert body == disk(f"{EMPTY} v1.14.0 azure amd64 ")


def read_qcow2(data: bytes) -> bytes:
    """Read a qcow2 by its specification alone (QEMU docs/interop/qcow2.txt), checking that references count."""
    magic, version, backing, _, bits, size = struct.unpack(">4sIQIIQ", data[:32])
    encryption, l1_size, l1_at, counts_at, count_clusters, snapshots = struct.unpack(">IIQQII", data[32:64])
    assert (magic, version, backing, encryption, snapshots) == (b"QFI\xfb", 3, 0, 0, 0)
    cluster = 1 << bits
    assert len(data) % cluster == 0
    seen = {0, l1_at // cluster, *(counts_at // cluster + i for i in range(count_clusters))}
    out = bytearray(size)
    for index in range(l1_size):
        entry = struct.unpack(">Q", data[l1_at + 8 * index :][:8])[0]
        l2_at = entry & 0x00FFFFFFFFFFFE00
        if not l2_at:
            continue
        seen.add(l2_at // cluster)
        for slot, (where,) in enumerate(struct.iter_unpack(">Q", data[l2_at : l2_at + cluster])):
            if at := where & 0x00FFFFFFFFFFFE00:
                seen.add(at // cluster)
                guest = (index * (cluster // 8) + slot) * cluster
                out[guest : guest + cluster] = data[at : at + cluster]
    blocks = struct.unpack(f">{cluster // 8}Q", data[counts_at : counts_at + cluster])
    seen |= {block // cluster for block in blocks if block}
    counts = [n for block in blocks if block for (n,) in struct.iter_unpack(">H", data[block : block + cluster])]
    assert {i for i, n in enumerate(counts) if n} == seen == set(range(len(data) // cluster))
    return bytes(out)


def test_the_qcow2_holds_the_disk(url: str) -> None:
    data = fetch(url, f"image/{EMPTY}/v1.14.0/alibabacloud-amd64.qcow2").content
    assert struct.unpack(">I", data[20:24])[0] == 13
    assert read_qcow2(data) == disk(f"{EMPTY} v1.14.0 alibabacloud amd64 ")


def test_raw_images_come_in_every_compression(url: str) -> None:
    expected = disk(f"{EMPTY} v1.13.0 metal amd64 ")

    def get(ending: str) -> bytes:
        return fetch(url, f"image/{EMPTY}/v1.13.0/metal-amd64.raw{ending}").content

    assert get("") == expected
    assert gzip.decompress(get(".gz")) == expected
    assert lzma.decompress(get(".xz")) == expected
    assert zstandard.ZstdDecompressor().decompressobj().decompress(get(".zst")) == expected


def test_disks_are_mostly_zero_and_follow_from_the_request() -> None:
    first, second = disk("a"), disk("b")
    assert first == disk("a") != second
    assert first[:512].strip(b"\0")
    assert first[-512:].strip(b"\0")
    assert 1 << 20 < len(first) - first.count(0) < 8 << 20


@pytest.fixture
def behind(tmp_path: Path) -> Iterator[str]:
    """A factory whose images lie behind a redirect, where parts of them are served."""
    base, stop = factory.serve(tmp_path / "behind", redirect=True)
    yield base
    stop()


def test_the_factory_itself_serves_no_parts(url: str) -> None:
    path = f"image/{EMPTY}/v1.14.0/alibabacloud-amd64.qcow2"
    answer = fetch(url, path, Range="bytes=100-8999")
    assert answer.status_code == 200
    assert {"ETag", "Last-Modified", "Accept-Ranges"}.isdisjoint(answer.headers)


def test_a_part_is_served_on_condition_that_the_image_is_the_same(behind: str) -> None:
    path = f"image/{EMPTY}/v1.14.0/alibabacloud-amd64.qcow2"
    whole = fetch(behind, path)
    for name in ("ETag", "Last-Modified"):
        part = fetch(behind, path, **{"Range": "bytes=5-", "If-Range": whole.headers[name]})
        assert (part.status_code, part.content) == (206, whole.content[5:])
    assert fetch(behind, path, **{"Range": "bytes=5-", "If-Range": '"other"'}).content == whole.content


def test_head_and_ranges_agree_with_the_whole(behind: str) -> None:
    url = behind
    path = f"image/{EMPTY}/v1.14.0/alibabacloud-amd64.qcow2"
    whole = fetch(url, path).content
    head = requests.head(f"{url}/{path}", timeout=10)
    assert (head.status_code, head.headers["Content-Length"], head.content) == (200, str(len(whole)), b"")
    middle = fetch(url, path, Range="bytes=100-8999")
    assert (middle.status_code, middle.content) == (206, whole[100:9000])
    assert middle.headers["Content-Range"] == f"bytes 100-8999/{len(whole)}"
    assert fetch(url, path, Range="bytes=-7").content == whole[-7:]
    assert fetch(url, path, Range=f"bytes={len(whole) - 3}-").content == whole[-3:]
    assert fetch(url, path, Range=f"bytes={len(whole)}-").status_code == 416
    assert fetch(url, path, Range="bytes=9-1").status_code == 200


def test_an_image_can_be_behind_a_redirect(tmp_path: Path) -> None:
    base, stop = factory.serve(tmp_path, redirect=True)
    try:
        path = f"{base}/image/{EMPTY}/v1.14.0/metal-amd64.raw.zst"
        assert requests.get(path, timeout=10, allow_redirects=False).status_code == 302
        followed = requests.get(path, timeout=10)
        assert followed.status_code == 200
        assert requests.head(path, timeout=10).headers["Content-Length"] == str(len(followed.content))
    finally:
        stop()


def test_requests_at_once_get_one_and_the_same_image(url: str) -> None:
    answers: list[bytes] = []

    def get() -> None:
        answers.append(fetch(url, f"image/{EMPTY}/v1.14.0/metal-amd64.raw.zst").content)

    threads = [threading.Thread(target=get) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 4
    assert len(set(answers)) == 1


def test_a_taken_port_is_an_error(url: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="in use"):
        factory.serve(tmp_path / "other", int(url.rsplit(":", 1)[1]))
