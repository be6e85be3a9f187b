"""Images on Alibaba Cloud through their life on the real engine: changed, kept, lost, killed, destroyed."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from killed_up import kill_up
from lab_folder import Lab

from lab.alicloud.oss_store import Store
from lab.world import Record

pytestmark = pytest.mark.lab

PROGRAM = Path(__file__).parent / "programs" / "aliyun-image"
HANGZHOU, BEIJING = "cn-hangzhou", "cn-beijing"
DRBD, ZFS, ISCSI = "siderolabs/drbd", "siderolabs/zfs", "siderolabs/iscsi-tools"


class Image:
    """A stack of the program, and what the cloud holds of it."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder

    def with_(self, **changes: Any) -> Lab:
        """Return the lab with other settings of the image."""
        assert self.lab.config_file is not None
        document = yaml.safe_load(self.lab.config_file.read_text())
        document["config"]["hybrid-talos:settings"]["image"].update(changes)
        path = self.folder / f"{len(list(self.folder.iterdir()))}.yaml"
        path.write_text(yaml.safe_dump(document))
        return replace(self.lab, config_file=path)

    @property
    def images(self) -> list[str]:
        return [record.id for record in self.lab.world().find("alicloud", "ImageImport")]

    def record(self, image: str) -> Record:
        return next(r for r in self.lab.world().find("alicloud", "ImageImport") if r.id == image)

    def count(self, op: str, kind: str) -> int:
        return sum((event.op, event.kind) == (op, kind) for event in self.lab.world().events())

    @property
    def uploads(self) -> int:
        return self.count("create", "object")

    @property
    def imports(self) -> int:
        return self.count("create", "alicloud:ecs/imageImport:ImageImport")

    def in_buckets(self) -> list[str]:
        """Return what lies in any bucket: objects and uploads."""
        world = self.lab.world()
        return [r.id for kind in ("object", "upload") for r in world.find("alicloud", kind)]


def made(folder: Path, files: Path) -> Image:
    return Image(Lab(folder, "image", PROGRAM / "Pulumi.image.yaml", program=PROGRAM), files)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return made(tmp_path_factory.mktemp("lab"), tmp_path_factory.mktemp("files"))


class TestLife:
    """In order: each test goes on from the one before."""

    def test_up_makes_it_and_nothing_stays_in_the_bucket(self, image: Image) -> None:
        lab = image.with_()
        lab.up()
        assert lab.outputs()[HANGZHOU] == image.images[0]
        assert image.in_buckets() == []

    def test_a_second_preview_and_a_refresh_see_no_change_although_the_object_is_gone(self, image: Image) -> None:
        lab = image.with_()
        assert lab.changes() == {}
        lab.run("refresh", "--yes", "--skip-preview", "--expect-no-changes")
        lab.up()
        assert (image.uploads, image.imports) == (1, 1)

    def test_a_second_region_gets_an_image_of_its_own(self, image: Image) -> None:
        lab = image.with_(regions=[HANGZHOU, BEIJING])
        lab.up()
        outputs = lab.outputs()
        assert {image.record(outputs[region]).doc["_region"]: region for region in (HANGZHOU, BEIJING)} == {
            HANGZHOU: HANGZHOU,
            BEIJING: BEIJING,
        }
        (first, second) = (record.doc["_region"] for record in image.lab.world().find("alicloud", "Bucket"))
        assert {first, second} == {HANGZHOU, BEIJING}

    def test_a_region_that_goes_takes_its_image_with_it(self, image: Image) -> None:
        lab = image.with_()
        kept = lab.outputs()[HANGZHOU]
        lab.up()
        assert image.images == [kept]

    def test_an_older_image_is_no_reason_for_an_up_to_fail_while_instances_use_it(self, image: Image) -> None:
        lab = image.with_(extensions=[ZFS], retain=0)
        (old,) = image.images
        world = image.lab.world()
        machine = {"imageId": old, "region": HANGZHOU, "status": "Running"}
        world.put("alicloud", "instance", "i-1", machine)
        lab.up()
        assert len(image.images) == 2
        assert lab.changes() == {}
        # The last machine that booted from it is replaced.
        world.remove("alicloud", "instance", "i-1")
        shown = lab.run("preview")
        assert f"older images that nothing uses will be deleted: {old}" in shown.text
        assert set(lab.changes().values()) == {"update"}
        lab.up()
        assert image.images == [lab.outputs()[HANGZHOU]]
        assert lab.changes() == {}

    def test_going_back_to_one_that_is_kept_uploads_nothing(self, image: Image) -> None:
        (before,) = image.images
        image.with_(extensions=[ISCSI]).up()
        assert before in image.images
        uploads = image.uploads
        lab = image.with_(extensions=[ZFS])
        lab.up()
        assert lab.outputs()[HANGZHOU] == before
        assert image.uploads == uploads

    def test_what_was_deleted_behind_our_back_is_made_anew(self, image: Image) -> None:
        lab = image.with_(extensions=[ZFS])
        gone = lab.outputs()[HANGZHOU]
        image.lab.world().remove("alicloud", "ImageImport", gone)
        assert "1 deleted" in lab.run("refresh", "--yes", "--skip-preview").text
        lab.up()
        assert lab.outputs()[HANGZHOU] != gone
        assert lab.outputs()[HANGZHOU] in image.images
        assert image.in_buckets() == []

    def test_what_the_state_lost_is_taken_over(self, image: Image) -> None:
        lab = image.with_(extensions=[ZFS])
        before, images = image.uploads, image.images
        for resource in reversed(lab.state()):
            if "pulumi-python:dynamic/image" in resource["type"]:
                lab.run("state", "delete", resource["urn"], "--yes", "--force")
        lab.up()
        assert (image.uploads, image.images) == (before, images)
        assert lab.changes() == {}

    def test_no_secret_stands_in_the_state(self, image: Image) -> None:
        text = json.dumps(image.lab.state())
        assert "LTAIlab" not in text
        assert "access_key" not in text

    def test_destroy_leaves_nothing_of_ours_and_all_of_others(self, image: Image) -> None:
        lab = image.with_(extensions=[ZFS])
        world = image.lab.world()
        doc = {**image.record(image.images[0]).doc, "imageName": "theirs", "_tags": {"hybrid-talos-image": "other"}}
        world.put("alicloud", "ImageImport", "m-theirs", doc)
        lab.destroy()
        assert [record.id for record in world.find() if not record.doc.get("builtin")] == ["m-theirs"]


def test_the_metal_image_is_asked_for_and_labelled_experimental(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    image = made(tmp_path / "lab", tmp_path / "files")
    refused = image.with_(talosVersion="1.13.9").run("preview", code=None)
    assert refused.code != 0
    assert "1.13.9 has no alibabacloud platform" in refused.text
    assert "Traceback" not in refused.text
    lab = image.with_(talosVersion="1.13.9", metal=True)
    assert "EXPERIMENTAL" in lab.run("preview").text
    lab.up()
    assert image.record(image.images[0]).doc["imageName"].startswith("talos-1.13.9-metal-amd64-")
    other = image.with_(providerRegion=BEIJING).run("preview", code=None)
    assert other.code != 0
    assert "aliyun.region: is cn-hangzhou, but the alicloud provider given to it works in cn-beijing" in other.text
    lab.destroy()


def slow(lab: Lab, op: str, kind: str, nth: int = 1) -> None:
    lab.run("cloud", "fail", op, kind, "--nth", str(nth), "--action", "slow", "--seconds", "120")


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the processes to kill in /proc")
@pytest.mark.parametrize(
    ("op", "kind", "nth"),
    [("create", "BucketObject", 1), ("create", "ImageImport", 1), ("delete", "BucketObject", 1)],
    ids=["last-part", "import", "removal"],
)
def test_a_killed_up_is_finished_by_the_next_and_leaves_nothing(tmp_path: Path, op: str, kind: str, nth: int) -> None:
    (tmp_path / "files").mkdir()
    image = made(tmp_path / "lab", tmp_path / "files")
    wanted = image.with_()
    world = image.lab.world()
    slow(wanted, op, kind, nth)
    kill_up(wanted, lambda: all(fault.done for fault in world.faults()))
    there = [set(record.doc["parts"]) for record in Store(world).uploads(bucket(world))]
    if (op, kind) == ("create", "BucketObject"):
        assert there
        assert all(there)

    wanted.up()
    assert (len(image.images), image.uploads, image.imports) == (1, 1, 1)
    assert image.in_buckets() == []
    assert wanted.changes() == {}
    wanted.destroy()
    assert [record.id for record in world.find() if not record.doc.get("builtin")] == []


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the processes to kill in /proc")
def test_a_destroy_after_a_killed_upload_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    image = made(tmp_path / "lab", tmp_path / "files")
    world = image.lab.world()
    slow(image.lab, "create", "BucketObject")
    kill_up(image.with_(), lambda: all(fault.done for fault in world.faults()))
    assert image.in_buckets()
    image.lab.destroy()
    assert [record.id for record in world.find() if not record.doc.get("builtin")] == []


def bucket(world: Any) -> str:
    (record,) = world.find("alicloud", "Bucket")
    return str(record.id)
