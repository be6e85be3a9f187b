"""A managed image by an upload disk, and its retention, by the real clients, against the simulated Azure."""

import gzip
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hybrid_talos import azure_managed_image, azure_managed_retention, disk_image
from hybrid_talos.work_provider import WorkError

from lab.azure import disk_access
from lab.azure.blob_store import Blob
from tests.lab.azure_image_servers import DISK, MIB, VHD, Azure, azure_servers


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Azure]:
    with azure_servers(tmp_path, monkeypatch) as made:
        yield made


def done(azure: Azure) -> list[str]:
    """Return what was done to disks and images, in order."""
    found = []
    for event in azure.world.events():
        kind = event.kind.rsplit(":", 1)[-1]
        if kind in ("Disk", "Image"):
            found.append(f"{event.op} {kind}")
    return found


def states(azure: Azure) -> list[str]:
    return [record.doc["diskState"] for record in azure.world.find("azure-native", "Disk")]


def test_an_image_is_made_of_a_disk_that_is_gone_afterwards(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[int, bytes] = {}
    write = Blob.write

    def record(self: Blob, offset: int, data: bytes | None, length: int) -> None:
        written[offset] = data or b""
        write(self, offset, data, length)

    monkeypatch.setattr(Blob, "write", record)
    identity, outs = azure_managed_image.create(azure.managed_image())
    (image,) = azure.world.find("azure-native", "Image")
    assert identity == outs["image_id"] == image.id
    assert (image.doc["hyperVGeneration"], image.doc["location"]) == ("V2", "westeurope")
    assert done(azure) == [
        "create Disk", "grant Disk", "revoke Disk", "update Disk", "create Image", "delete Disk",
    ]  # fmt: skip
    # The pages that came make up the VHD, and the zeros did not come.
    assert sum(map(len, written.values())) < 2 * MIB
    whole = bytearray(len(VHD))
    for offset, data in written.items():
        whole[offset : offset + len(data)] = data
    assert bytes(whole) == VHD
    assert list(written)[-1] == len(DISK)
    assert azure.world.find("azure-native", "Disk") == azure.world.find("azure-native", "blob") == []
    assert azure_managed_image.read(outs) == outs
    assert outs["sha256"] == azure.file()["content"]


def test_the_address_of_the_grant_is_in_nothing_that_is_kept(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    signatures: list[str] = []
    grant = disk_access.act

    def remember(*arguments: Any) -> str | None:
        address = grant(*arguments)
        if address:
            signatures.append(address.partition("sig=")[2])
        return address

    monkeypatch.setattr("lab.azure.arm_server.disk_access.act", remember)
    _, outs = azure_managed_image.create(azure.managed_image())
    azure.world.plan_fault("update", "PageBlob", "no-stock")
    for status in range(9):
        azure.world.plan_fault("update", "PageBlob", "no-stock", nth=status + 1)
    assert signatures
    assert not any(signature in str(outs) for signature in signatures)


BAD: dict[str, tuple[str, bytes, str]] = {
    "footer": ("disk.vhd.xz", lzma.compress(DISK, preset=0), "no VHD footer"),
    "cut": ("disk.vhd.xz", lzma.compress(VHD, preset=0)[:-40], "too early|damaged"),
    "page": ("disk.vhd.xz", b"<html>no</html>", "HTML"),
    "small": ("disk.raw", b"x" * 4096, "Azure takes"),
}


@pytest.mark.parametrize("case", BAD)
def test_an_image_that_is_none_leaves_no_disk_and_no_grant(azure: Azure, case: str) -> None:
    name, data, problem = BAD[case]
    with pytest.raises(WorkError, match=problem):
        azure_managed_image.create(azure.managed_image(**azure.file(name, data)))
    assert states(azure) == []
    assert done(azure).count("grant Disk") == done(azure).count("revoke Disk")
    assert azure.names("Image") == []


@pytest.mark.parametrize(("size", "name"), [(True, "disk.raw.xz"), (False, "disk.raw.gz")])
def test_a_disk_larger_than_that_of_the_machines_makes_none(azure: Azure, size: bool, name: str) -> None:
    disk = b"x".ljust(2 * MIB, b"y") + bytes(1024 * MIB)
    packed = lzma.compress(disk, preset=0) if size else gzip.compress(disk, 1)
    wanted = azure.managed_image(**azure.file(name, packed), system_disk_gb=1.0)
    with pytest.raises(WorkError, match="more than 1 GiB, which is the smallest system disk"):
        azure_managed_image.create(wanted)
    assert (states(azure), done(azure)) == ([], []), "it is known before a disk is made"


def test_a_disk_that_refuses_pages_is_revoked_and_removed(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure_managed_image, "_RETRIES", 0)
    azure.world.plan_fault("update", "PageBlob", "fail")
    with pytest.raises(WorkError, match=r"the upload disk refused a page \(ServerBusy\)") as caught:
        azure_managed_image.create(azure.managed_image())
    assert "sig=" not in str(caught.value)
    assert states(azure) == []
    assert done(azure) == ["create Disk", "grant Disk", "revoke Disk", "delete Disk"]


class Killed(BaseException):
    """Ends a run where it stands: nothing that cleans up runs after a SIGKILL."""


def kill(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Let the run end at a place, and let none of its cleaning up happen."""

    def die(*_: Any, **__: Any) -> None:
        raise Killed

    monkeypatch.setattr(azure_managed_image, "revoke", lambda *_: None)
    monkeypatch.setattr(azure_managed_image, "discard_disk", lambda *_: None)
    monkeypatch.setattr(azure_managed_image, place, die)


@pytest.mark.parametrize(
    ("place", "left", "uploads"),
    [("write_pages", "ActiveUpload", 2), ("_page_blob", "ActiveUpload", 2), ("wait", "Unattached", 1)],
    ids=["upload", "grant", "image"],
)
def test_what_a_killed_run_left_is_cleaned_up_by_the_next(azure: Azure, place: str, left: str, uploads: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if place == "wait":
            patch.setattr(azure_managed_image, "wait", lambda *_: (_ for _ in ()).throw(Killed))
        else:
            kill(patch, place)
        with pytest.raises(Killed):
            azure_managed_image.create(azure.managed_image())
    assert states(azure) == [left]
    identity, _ = azure_managed_image.create(azure.managed_image())
    assert azure.names("Image") == ["talos-1"]
    assert identity.endswith("/images/talos-1")
    assert states(azure) == []
    assert done(azure).count("grant Disk") == uploads
    assert done(azure).count("create Image") == 1


def test_a_full_disk_becomes_the_image_without_a_second_upload(azure: Azure) -> None:
    with pytest.MonkeyPatch.context() as patch:
        azure.world.plan_fault("create", "Image", "no-stock")
        with pytest.raises(WorkError, match="NoStock"):
            azure_managed_image.create(azure.managed_image())
        assert states(azure) == ["Unattached"]
        patch.setattr(azure_managed_image, "open_image", None)
        azure_managed_image.create(azure.managed_image())
    assert states(azure) == []


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("disk.raw", DISK[:-1000]),
        ("disk.raw.xz", lzma.compress(DISK, preset=0)),
        ("disk.vhd.gz", gzip.compress(VHD, 1)),
        ("disk.vhd", VHD),
    ],
)
def test_the_disk_is_made_as_large_as_the_image(
    azure: Azure, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes
) -> None:
    sizes: list[int] = []
    grant = disk_access.act

    def remember(world: Any, disk: Any, *more: Any) -> str | None:
        sizes.append(int(disk.doc["creationData"]["uploadSizeBytes"]))
        return grant(world, disk, *more)

    monkeypatch.setattr("lab.azure.arm_server.disk_access.act", remember)
    azure_managed_image.create(azure.managed_image(**azure.file(name, data)))
    assert set(sizes) == {len(VHD)}


def test_an_image_that_lies_about_its_size_is_measured(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = DISK + bytes(2 * MIB)
    for wrong in (len(disk) - MIB, len(disk) + MIB):
        monkeypatch.setattr(azure_managed_image, "unpacked_size", lambda *_, wrong=wrong: wrong)
        azure_managed_image.create(azure.managed_image(f"talos-{wrong}", **azure.file("disk.raw", disk)))
    assert len(azure.names("Image")) == 2
    assert states(azure) == []


def test_an_image_that_is_there_is_adopted_unless_it_is_another(azure: Azure) -> None:
    first = azure_managed_image.create(azure.managed_image())
    assert azure_managed_image.create(azure.managed_image()) == first
    assert done(azure).count("create Image") == 1
    with pytest.raises(WorkError, match="was not made of this content"):
        azure_managed_image.create(azure.managed_image(tags={**azure.tags(), "talos-content": "other"}))


def test_an_image_that_a_person_made_is_taken_over_once_it_is_tagged(azure: Azure) -> None:
    wanted = azure.managed_image()
    _, outs = azure_managed_image.create(wanted)
    (image,) = azure.world.find("azure-native", "Image")
    azure.world.put(image.package, image.kind, image.id, {**image.doc, "tags": {"team": "a"}})
    with pytest.raises(WorkError, match="or tag it talos-version=1.14.0, talos-content=talos if it"):
        azure_managed_image.create(wanted)
    tags = {"team": "a", "talos-version": "1.14.0", "talos-content": "talos"}
    azure.world.put(image.package, image.kind, image.id, {**image.doc, "tags": tags})
    _, again = azure_managed_image.create(wanted)
    assert again["image_id"] == outs["image_id"]
    (image,) = azure.world.find("azure-native", "Image")
    assert image.doc["tags"] == {"team": "a", **wanted["tags"]}
    azure_managed_retention.delete(azure.managed_retention())
    assert azure.names("Image") == []


def test_a_refresh_sees_that_it_is_gone(azure: Azure) -> None:
    _, outs = azure_managed_image.create(azure.managed_image())
    azure_managed_image.delete(outs)
    assert azure_managed_image.read(outs) is None
    azure_managed_image.delete(outs)


def test_tags_change_in_place(azure: Azure) -> None:
    props = azure.managed_image()
    _, outs = azure_managed_image.create(props)
    news = {**props, "tags": {**props["tags"], "team": "a"}}
    assert azure_managed_image.diff(outs, news).replaces == []
    azure_managed_image.update(outs, news)
    (image,) = azure.world.find("azure-native", "Image")
    assert image.doc["tags"]["team"] == "a"
    assert image.doc["tags"]["talos-sha256"] == outs["sha256"]


def test_a_vhd_of_an_image_has_a_size_of_whole_mib() -> None:
    assert disk_image.vhd_footer(len(DISK))[:8] == b"conectix"
    assert azure_managed_image._vhd_size(len(DISK) - 1) == len(VHD)


# -- retention ----------------------------------------------------------------------------------------------


def test_older_images_and_disks_that_were_left_go(azure: Azure) -> None:
    for number in (1, 2, 3):
        azure_managed_image.create(azure.managed_image(f"talos-{number}"))
        (record,) = azure.world.find("azure-native", "Image", name=f"talos-{number}")
        tags = {**record.doc["tags"], "hybrid-talos-made": f"2026-0{number}-01T00:00:00Z"}
        azure.world.put(record.package, record.kind, record.id, {**record.doc, "tags": tags})
    with pytest.MonkeyPatch.context() as patch:
        kill(patch, "write_pages")
        with pytest.raises(Killed):
            azure_managed_image.create(azure.managed_image("talos-4"))
    props = azure.managed_retention("talos-3")
    seen = azure_managed_retention.read(props)
    names = [identity.rsplit("/", 2)[-2:] for identity in seen["removable"]]
    assert names == [["disks", "talos-4-upload"], ["images", "talos-1"]]
    azure_managed_retention.update(seen, props)
    assert azure.names("Image") == ["talos-2", "talos-3"]
    assert states(azure) == []
    azure_managed_retention.delete(props)
    assert azure.names("Image") == []


def test_the_disk_of_the_image_that_is_being_made_stays(azure: Azure) -> None:
    with pytest.MonkeyPatch.context() as patch:
        kill(patch, "write_pages")
        with pytest.raises(Killed):
            azure_managed_image.create(azure.managed_image("talos-1"))
    assert azure_managed_retention.read(azure.managed_retention("talos-1"))["removable"] == []
    # Destroyed before the next `up`: the grant is closed and the disk is gone.
    azure_managed_retention.delete(azure.managed_retention("talos-1"))
    assert states(azure) == []
    assert done(azure)[-2:] == ["revoke Disk", "delete Disk"]
