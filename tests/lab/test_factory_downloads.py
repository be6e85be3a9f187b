"""The library's downloads against the lab's factory: what is served, what is refused, what goes wrong on the way."""

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hybrid_talos import image_download, image_source
from hybrid_talos.http_session import retries
from hybrid_talos.image_assets import disk_assets
from hybrid_talos.image_source import open_image, vhd_of
from hybrid_talos.qcow2 import Qcow2
from hybrid_talos.schematic import Overlay, schematic_id, schematic_yaml
from hybrid_talos.work_provider import WorkError

from lab import factory
from lab.factory_disk import Disk
from lab.factory_faults import Fault, plan, take

SCHEMATIC = schematic_yaml(["siderolabs/drbd"])
MIB = 1 << 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all factories, so that each image is made once."""
    return tmp_path_factory.mktemp("factory")


@pytest.fixture(autouse=True)
def nothing_planned(folder: Path) -> None:
    (folder / "faults.json").unlink(missing_ok=True)


@pytest.fixture
def store(folder: Path) -> Iterator[str]:
    """A factory whose images lie behind a redirect, where parts of them are served."""
    base, stop = factory.serve(folder, redirect=True)
    yield base
    stop()


@pytest.fixture(params=[False, True], ids=["direct", "redirected"])
def url(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    base, stop = factory.serve(folder, redirect=request.param)
    yield base
    stop()


@pytest.fixture(autouse=True)
def notes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is said of broken connections; they are replaced without a pause here."""
    said: list[str] = []
    monkeypatch.setattr(image_download, "note", said.append)
    monkeypatch.setattr(image_source, "download", functools.partial(image_download.download, rule=retries(0)))
    return said


def source(url: str, platform: str = "azure", **more: Any) -> dict[str, Any]:
    return {
        "factory_url": url,
        "schematic": SCHEMATIC,
        "extensions": ["siderolabs/drbd"],
        "talos_version": "1.14.0",
        "assets": list(disk_assets(platform, "amd64")),
        **more,
    }


def disk_of(props: dict[str, Any]) -> tuple[str, bytes]:
    """Return what the image was called and the disk that its pages make."""
    with open_image(props) as image:
        vhd = vhd_of(image)
        disk = bytearray(64 * MIB)
        for offset, data in vhd.pages():
            disk[offset : offset + len(data)] = data
        image.verify()
        return image.name, bytes(disk)


def expected(platform: str = "azure", secure: str = "") -> bytes:
    return b"".join(Disk(f"{schematic_id(SCHEMATIC)} v1.14.0 {platform} amd64 {secure}").blocks())


@pytest.mark.parametrize("missing", range(6))
def test_every_form_gives_the_same_disk(url: str, folder: Path, missing: int) -> None:
    assets = disk_assets("azure", "amd64")
    plan(folder, *(Fault("missing", asset) for asset in assets[:missing]))
    assert disk_of(source(url)) == (assets[missing], expected())


@pytest.mark.parametrize(
    "asset", ["alibabacloud-amd64.qcow2", "alibabacloud-amd64.qcow2.zst", "alibabacloud-amd64.raw"]
)
def test_a_qcow2_from_elsewhere_gives_the_same_disk_too(url: str, asset: str) -> None:
    assert disk_of(source(url, assets=[asset])) == (asset, expected("alibabacloud"))


def test_alibaba_gets_the_qcow2_as_it_is(url: str) -> None:
    with open_image(source(url, "alibabacloud")) as image:
        reader = Qcow2(image.unpacked())
        size = sum(map(len, reader.chunks()))
    assert (image.name, image.total, reader.virtual_size) == ("alibabacloud-amd64.qcow2", size, 64 * MIB)


def test_an_asset_that_is_pinned_is_the_only_one(url: str, folder: Path) -> None:
    with open_image(source(url)) as image:
        for _ in image.packed():
            pass
    pin = {image.name: image.sha256}
    assert disk_of(source(url, compressed_sha256=pin))[0] == image.name
    plan(folder, Fault("missing", image.name))
    with pytest.raises(WorkError, match=r"azure-amd64\.vhd\.zst: status 404"):
        disk_of(source(url, compressed_sha256=pin))


def test_another_image_than_the_pinned_one_is_refused(url: str) -> None:
    with pytest.raises(WorkError, match="is pinned; nothing was kept"):
        disk_of(source(url, compressed_sha256={"azure-amd64.vhd.xz": "0" * 64}))


def test_secure_boot_is_another_image(url: str) -> None:
    assets = list(disk_assets("azure", "amd64", secure_boot=True))
    assert disk_of(source(url, assets=assets)) == (assets[0], expected(secure="-secureboot"))


def test_a_factory_without_keys_makes_no_image_for_secure_boot(tmp_path: Path) -> None:
    url, stop = factory.serve(tmp_path, secure_boot=False)
    try:
        with pytest.raises(WorkError, match="status 400.*secure boot support is disabled"):
            disk_of(source(url, assets=disk_assets("azure", "amd64", secure_boot=True)))
    finally:
        stop()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"talos_version": "1.14.7"}, "does not know Talos v1.14.7: of v1.14 it has v1.14.0; its newest are v1.14.0"),
        ({"extensions": ["siderolabs/drbb"]}, "siderolabs/drbb .did you mean siderolabs/drbd"),
    ],
)
def test_what_the_factory_does_not_know_is_said_before_it_is_asked_for(
    url: str, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(WorkError, match=words):
        disk_of(source(url, **change))


def test_an_overlay_that_there_is_none_of_is_refused_by_the_factory(url: str) -> None:
    schematic = schematic_yaml(overlay=Overlay("rpi_genric", "siderolabs/sbc-raspberrypi"))
    with pytest.raises(WorkError, match='official overlay "rpi_genric" is not available'):
        disk_of(source(url, schematic=schematic, extensions=[]))


def test_a_connection_that_breaks_three_times_is_no_loss(url: str, folder: Path, notes: list[str]) -> None:
    plan(folder, Fault("break", after=700_000, times=3))
    assert disk_of(source(url, "alibabacloud"))[1] == expected("alibabacloud")
    assert len(notes) == 3


def test_a_connection_to_a_store_goes_on_where_it_broke(store: str, folder: Path, notes: list[str]) -> None:
    plan(folder, Fault("break", after=700_000, times=2))
    assert disk_of(source(store, "alibabacloud"))[1] == expected("alibabacloud")
    assert [line.rpartition(" and ")[2] for line in notes] == ["goes on from there"] * 2


@pytest.mark.parametrize("asset", disk_assets("azure", "amd64"))
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault("truncate", after=1_000_000), "ends too early|is damaged|no VHD footer"),
        (Fault("truncate"), "is not a .* stream|ends too early"),
        (Fault("corrupt", after=500_000), "is damaged|ends too early"),
        (Fault("corrupt"), "is not a"),
        (Fault("html"), "an HTML page came"),
        (Fault("break", after=9_000, times=99), "again and again"),
    ],
    ids=["cut", "empty", "damaged", "other", "page", "broken"],
)
def test_what_is_no_image_is_never_taken_for_one(
    store: str, folder: Path, asset: str, fault: Fault, words: str
) -> None:
    plan(folder, fault)
    with pytest.raises(WorkError, match=words):
        disk_of(source(store, assets=[asset]))


def test_an_image_file_is_taken_from_a_server_and_the_factory_not_asked(url: str) -> None:
    with open_image(source(url)) as image:
        packed = b"".join(image.packed())
    location = f"{url}/image/{schematic_id(SCHEMATIC)}/v1.14.0/azure-amd64.vhd.zst"
    file = {"location": location, "sha256": hashlib.sha256(packed).hexdigest()}
    props = source("http://127.0.0.1:9", image_file=file)
    assert disk_of(props) == ("azure-amd64.vhd.zst", expected())
    with pytest.raises(WorkError, match="is pinned; nothing was kept"):
        disk_of({**props, "image_file": {**file, "sha256": "0" * 64}})


def test_an_image_file_is_taken_from_a_path(url: str, tmp_path: Path) -> None:
    path = tmp_path / "Talos 1.14.0 (azure).vhd.zst"
    with open_image(source(url)) as image:
        path.write_bytes(b"".join(image.packed()))
    file = {"location": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
    assert disk_of(source("http://127.0.0.1:9", image_file=file)) == ("Talos-1.14.0-azure-.vhd.zst", expected())


def test_a_plan_is_used_up_and_must_make_sense(tmp_path: Path) -> None:
    plan(tmp_path, Fault("break", "azure-*", after=5, times=2))
    assert take(tmp_path, "metal-amd64.raw.zst") is None
    assert [take(tmp_path, "azure-amd64.vhd") is not None for _ in range(3)] == [True, True, False]
    with pytest.raises(ValueError, match="no such fault"):
        Fault("explode")
    with pytest.raises(ValueError, match="from 0"):
        Fault("break", after=-1)
