"""An image on Azure through its life on the real engine: changed, kept, brought back, lost, killed, destroyed."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from killed_up import kill_up
from lab_folder import Lab

from lab.factory_faults import Fault, plan

pytestmark = pytest.mark.lab

PROGRAM = Path(__file__).parent / "programs" / "azure-image"
STORES = {"gallery": "GalleryImageVersion", "managedImage": "Image"}


class Image:
    """A stack of the program, and what the cloud holds of it."""

    def __init__(self, lab: Lab, folder: Path, store: str) -> None:
        self.lab = lab
        self.folder = folder
        self.store = store

    def with_(self, *extensions: str, retain: int = 1) -> Lab:
        """Return the lab with an image of those extensions."""
        assert self.lab.config_file is not None
        document = yaml.safe_load(self.lab.config_file.read_text())
        image = {"extensions": list(extensions), "store": self.store, "retain": retain}
        document["config"]["hybrid-talos:settings"]["image"] = image
        path = self.folder / f"{'-'.join(name.split('/')[1] for name in extensions)}-{retain}.yaml"
        path.write_text(yaml.safe_dump(document))
        return replace(self.lab, config_file=path)

    def found(self, kind: str) -> list[str]:
        """Return the ids of what the cloud holds of a kind."""
        return [record.id for record in self.lab.world().find("azure-native", kind)]

    @property
    def images(self) -> list[str]:
        return self.found(STORES[self.store])

    def uploads(self) -> int:
        """Return how often the upload of an image was begun."""
        wanted = ("create", "blob") if self.store == "gallery" else ("grant", "azure-native:compute:Disk")
        return sum((event.op, event.kind) == wanted for event in self.lab.world().events())


@pytest.fixture(scope="module", params=STORES)
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Image:
    lab = Lab(tmp_path_factory.mktemp("lab"), "image", PROGRAM / "Pulumi.image.yaml", program=PROGRAM)
    return Image(lab, tmp_path_factory.mktemp("files"), request.param)


DRBD, ZFS, ISCSI = "siderolabs/drbd", "siderolabs/zfs", "siderolabs/iscsi-tools"


class TestLife:
    """In order: each test goes on from the one before, once for each way to store an image."""

    def test_up_makes_it_and_a_second_preview_and_a_refresh_see_no_change(self, image: Image) -> None:
        lab = image.with_(DRBD)
        lab.up()
        assert lab.outputs()["imageId"] == image.images[0]
        assert lab.changes() == {}
        lab.run("refresh", "--yes", "--skip-preview", "--expect-no-changes")
        assert image.found("Disk") == []
        assert "sig=" not in json.dumps(lab.state())

    def test_another_one_is_made_beside_it_and_the_older_is_kept(self, image: Image) -> None:
        lab = image.with_(ZFS)
        first = image.images
        lab.up()
        assert len(image.images) == 2
        assert image.images[0] == first[0]
        assert lab.outputs()["imageId"] == image.images[1]

    def test_a_third_one_drives_out_the_first(self, image: Image) -> None:
        first, second = image.images
        lab = image.with_(ISCSI)
        lab.up()
        assert first not in image.images
        assert image.images[0] == second
        assert lab.changes() == {}
        if image.store == "gallery":
            assert len(image.found("blob")) == len(image.found("GalleryImage")) == 2

    def test_going_back_uploads_nothing(self, image: Image) -> None:
        before, second = image.uploads(), image.images[0]
        lab = image.with_(ZFS)
        lab.up()
        assert image.uploads() == before
        assert lab.outputs()["imageId"] == second
        assert len(image.images) == 2

    def test_a_shorter_retention_says_what_goes_and_deletes_it(self, image: Image) -> None:
        lab = image.with_(ZFS, retain=0)
        refused = set(image.images) - {lab.outputs()["imageId"]}
        lab.up()
        assert not refused & set(image.images)

    def test_what_becomes_unused_is_shown_by_the_next_preview(self, image: Image) -> None:
        # Made by another stack of the same name, say, and left behind.
        kept = image.with_(ZFS, retain=0)
        world = image.lab.world()
        (record,) = world.find("azure-native", STORES[image.store])
        stray = record.id.replace("/1.14.0", "/1.13.0") if image.store == "gallery" else record.id + "-old"
        world.put("azure-native", record.kind, stray, {**record.doc, "name": stray.rsplit("/", 1)[-1]})
        shown = kept.run("preview")
        assert "older images that nothing uses will be deleted" in shown.text
        assert set(kept.changes().values()) == {"update"}
        kept.up()
        assert image.images == [record.id]
        assert kept.changes() == {}

    def test_what_was_deleted_behind_our_back_is_made_anew(self, image: Image) -> None:
        lab = image.with_(ZFS, retain=0)
        world, before = image.lab.world(), image.uploads()
        (record,) = world.find("azure-native", STORES[image.store])
        image.lab.run("cloud", "set", "azure:delete", record.id)
        refreshed = lab.run("refresh", "--yes", "--skip-preview")
        assert "1 deleted" in refreshed.text
        lab.up()
        assert image.images == [record.id]
        # A version is made of the blob that is there still; of a managed image nothing is left.
        assert image.uploads() == before + (image.store == "managedImage")

    def test_what_the_state_lost_is_taken_over(self, image: Image) -> None:
        lab = image.with_(ZFS, retain=0)
        before, made = image.uploads(), image.images
        for resource in reversed(lab.state()):
            if "pulumi-python:dynamic/image" in resource["type"]:
                lab.run("state", "delete", resource["urn"], "--yes", "--force")
        lab.up()
        assert (image.uploads(), image.images) == (before, made)
        assert lab.changes() == {}

    def test_destroy_leaves_nothing_of_ours_and_all_of_others(self, image: Image) -> None:
        lab = image.with_(ZFS, retain=0)
        world = image.lab.world()
        foreign = "/subscriptions/s/resourceGroups/other/providers/Microsoft.Compute/images/theirs"
        world.put("azure-native", "Image", foreign, {"name": "theirs", "location": "westeurope"})
        lab.destroy()
        assert [record.id for record in world.find() if not record.doc.get("builtin")] == [foreign]
        world.remove("azure-native", "Image", foreign)


def slow(lab: Lab, op: str, kind: str, nth: int = 1) -> None:
    lab.run("cloud", "fail", op, kind, "--nth", str(nth), "--action", "slow", "--seconds", "120")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the processes to kill in /proc")
@pytest.mark.parametrize(
    ("store", "op", "kind", "nth"),
    [
        ("gallery", "update", "PageBlob", 1),
        ("gallery", "create", "GalleryImageVersion", 1),
        ("managedImage", "update", "PageBlob", 1),
        ("managedImage", "create", "Image", 1),
        ("managedImage", "delete", "Disk", 1),
    ],
    ids=["page", "version", "disk-page", "image", "disk-left"],
)
def test_a_killed_up_is_finished_by_the_next_and_leaves_nothing(
    tmp_path: Path, store: str, op: str, kind: str, nth: int
) -> None:
    lab = Lab(tmp_path / "lab", "image", PROGRAM / "Pulumi.image.yaml", program=PROGRAM)
    image = Image(lab, tmp_path, store)
    wanted = image.with_(DRBD)
    world = lab.world()
    slow(lab, op, kind, nth)
    kill_up(wanted, lambda: all(fault.done for fault in world.faults()))
    states: list[Any] = [record.doc["diskState"] for record in world.find("azure-native", "Disk")]
    if kind == "PageBlob" and store == "managedImage":
        assert states == ["ActiveUpload"]

    wanted.up()
    assert len(image.images) == 1
    assert image.found("Disk") == []
    assert image.uploads() == (2 if states == ["ActiveUpload"] else 1)
    wanted.destroy()
    assert [record.id for record in world.find() if not record.doc.get("builtin")] == []


def test_a_long_upload_says_how_far_it_is(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", "image", PROGRAM / "Pulumi.image.yaml", program=PROGRAM)
    image = Image(lab, tmp_path, "gallery")
    wanted = image.with_(DRBD)
    plan(lab.folder / "factory", Fault("pause", "azure-*", after=1000))
    said = wanted.up().text
    lines = re.findall(r"azure-amd64\S*: \d+ %, \d+\.\d MB/s, .*left \(\d+ of \d+ MiB\)", said)
    assert lines, said
    wanted.destroy()
