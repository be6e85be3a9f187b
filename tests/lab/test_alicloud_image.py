"""A custom image and its retention, by the real clients, against the simulated Alibaba Cloud."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import alibabacloud_oss_v2 as oss
import pytest
from alibabacloud_credentials.utils import auth_util
from hybrid_talos import aliyun_api, aliyun_custom_image, aliyun_image_cloud, aliyun_image_retention
from hybrid_talos.aliyun_oss_client import oss_client
from hybrid_talos.aliyun_oss_object import PART
from hybrid_talos.work_provider import WorkError

from lab.alicloud.accounts import without
from lab.alicloud.oss_store import Store
from tests.lab.alicloud_cloud import Cloud
from tests.lab.alicloud_image_servers import KEY, NAME, QCOW2, Aliyun, aliyun_servers

OTHER = QCOW2[:48] + random.Random(9).randbytes(9 << 20)


@pytest.fixture
def aliyun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aliyun]:
    with aliyun_servers(tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the parts that OSS took in."""
    numbers: list[int] = []
    add = Store.add_part

    def counted(store: Store, id: str, number: int, source: Path) -> Any:
        numbers.append(number)
        return add(store, id, number, source)

    monkeypatch.setattr(Store, "add_part", counted)
    return numbers


def uploads(aliyun: Aliyun) -> int:
    return len([event for event in aliyun.world.events() if (event.op, event.kind) == ("create", "object")])


def imports(aliyun: Aliyun) -> int:
    return len([event for event in aliyun.world.events() if event.op == "create" and "ImageImport" in event.kind])


# -- one image ----------------------------------------------------------------------------------------------


def test_an_image_is_imported_and_nothing_stays_in_the_bucket(aliyun: Aliyun, sent: list[int]) -> None:
    identity, outs = aliyun_custom_image.create(aliyun.image())
    (image,) = aliyun.images()
    assert identity == outs["image_id"] == image.id
    doc = image.doc
    assert (doc["imageName"], doc["bootMode"], doc["architecture"]) == (NAME, "UEFI", "x86_64")
    assert (doc["osType"], doc["platform"], doc["features"]) == ("linux", "Others Linux", {"nvmeSupport": "supported"})
    (disk,) = doc["diskDeviceMappings"]
    assert disk == {"format": "qcow2", "ossBucket": "images", "ossObject": KEY, "diskImageSize": 5}
    assert doc["_tags"]["hybrid-talos-image"] == "images"
    assert sorted(sent) == [1, 2, 3, 4]
    assert aliyun.left() == []
    assert aliyun_custom_image.read(outs) == outs
    assert outs["disk_gib"] == 5
    assert outs["sha256"] == outs["image_file"]["sha256"]


def test_the_same_content_is_adopted_although_its_object_is_gone(aliyun: Aliyun) -> None:
    first = aliyun_custom_image.create(aliyun.image())
    assert aliyun_custom_image.create(aliyun.image()) == first
    assert (uploads(aliyun), imports(aliyun)) == (1, 1)
    assert aliyun.left() == []


def test_an_answer_of_the_import_that_is_lost_makes_no_second_image(aliyun: Aliyun) -> None:
    aliyun.world.plan_fault("create", "ImageImport", "lost")
    _, outs = aliyun_custom_image.create(aliyun.image())
    assert [image.id for image in aliyun.images()] == [outs["image_id"]]


def test_an_import_under_way_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with aliyun_servers(tmp_path, monkeypatch, polls=3) as aliyun:
        with monkeypatch.context() as hasty:
            hasty.setattr(aliyun_image_cloud, "_LIMIT_SECONDS", -1)
            with pytest.raises(WorkError, match="still being imported"):
                aliyun_custom_image.create(aliyun.image())
        assert aliyun.left() == [KEY], "the import reads it"
        aliyun_custom_image.create(aliyun.image())
        assert (uploads(aliyun), imports(aliyun), aliyun.left()) == (1, 1, [])


def test_an_import_that_failed_is_done_anew_without_a_second_upload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with aliyun_servers(tmp_path, monkeypatch, polls=1) as aliyun:

        def fails(props: Any, *rest: Any) -> str:
            image = begin(props, *rest)
            doc = aliyun.world.get("alicloud", "ImageImport", image) or {}
            aliyun.world.put("alicloud", "ImageImport", image, {**doc, "_ends": "CreateFailed"})
            return image

        begin = aliyun_image_cloud.begin_import
        with monkeypatch.context() as failing:
            failing.setattr(aliyun_image_cloud, "begin_import", fails)
            with pytest.raises(WorkError, match=r"could not import .* CreateFailed"):
                aliyun_custom_image.create(aliyun.image())
        assert aliyun.left() == [KEY]
        aliyun_custom_image.create(aliyun.image())
        assert (aliyun.names(), uploads(aliyun), aliyun.left()) == ([NAME], 1, [])


def test_a_refresh_sees_an_image_that_is_gone(aliyun: Aliyun) -> None:
    _, outs = aliyun_custom_image.create(aliyun.image())
    aliyun.world.remove("alicloud", "ImageImport", outs["image_id"])
    assert aliyun_custom_image.read(outs) is None
    _, again = aliyun_custom_image.create(aliyun.image())
    assert again["image_id"] != outs["image_id"]
    assert aliyun.left() == []


def test_an_image_of_somebody_else_is_not_adopted(aliyun: Aliyun) -> None:
    aliyun_custom_image.create(aliyun.image(tags=aliyun.tags(**{"hybrid-talos-image": "other"})))
    with pytest.raises(WorkError, match="was not made for this component"):
        aliyun_custom_image.create(aliyun.image())
    assert len(aliyun.images()) == 1


def test_an_image_that_a_person_imported_is_taken_over_once_it_is_tagged(aliyun: Aliyun) -> None:
    props = aliyun.image()
    with aliyun_image_cloud.errors(props):
        aliyun_custom_image.create(props)
        (image,) = aliyun.images()
        own = {"talos-version": "1.14.0", "talos-boot": "UEFI"}
        aliyun.world.put("alicloud", "ImageImport", image.id, {**image.doc, "_tags": own})
        with pytest.raises(WorkError, match=f"tag it .*talos-content={NAME}"):
            aliyun_custom_image.create(props)
        aliyun.world.put("alicloud", "ImageImport", image.id, {**image.doc, "_tags": {**own, "talos-content": NAME}})
        identity, outs = aliyun_custom_image.create(props)
    assert identity == image.id
    assert outs["disk_gib"] == 5
    assert aliyun.images()[0].doc["_tags"] == aliyun.tags()
    assert imports(aliyun) == 1


def test_tags_change_in_place(aliyun: Aliyun) -> None:
    props = aliyun.image(tags=aliyun.tags(team="a", old="x"))
    _, outs = aliyun_custom_image.create(props)
    news = {**props, "tags": aliyun.tags(team="b")}
    change = aliyun_custom_image.diff(outs, news)
    assert (change.changes, change.replaces) == (True, [])
    updated = aliyun_custom_image.update(outs, news)
    assert updated["image_id"] == outs["image_id"]
    tags = aliyun.images()[0].doc["_tags"]
    assert tags["team"] == "b"
    assert "old" not in tags
    assert tags["talos-sha256"] == outs["sha256"]


def test_another_name_is_another_image_and_another_address_only_recorded(aliyun: Aliyun) -> None:
    _, outs = aliyun_custom_image.create(aliyun.image())
    other = aliyun_custom_image.diff(outs, aliyun.image(name="talos-2"))
    assert (other.changes, other.replaces) == (True, ["image_name"])
    assert not aliyun_custom_image.diff(outs, aliyun.image(factory_url="https://two")).changes
    moved = aliyun.image(ecs="https://ecs.example.com")
    assert aliyun_custom_image.diff(outs, moved).replaces == []
    assert aliyun_custom_image.update(outs, moved)["image_id"] == outs["image_id"]


# -- runs that were killed ----------------------------------------------------------------------------------

_CREATE = "import json, sys; from hybrid_talos import aliyun_custom_image as w; w.create(json.load(sys.stdin))"


def killed(aliyun: Aliyun, props: Any, reached: Any) -> None:
    """Start the work in a process of its own, and kill it once ``reached`` says so."""
    process = subprocess.Popen([sys.executable, "-c", _CREATE], stdin=subprocess.PIPE, env=dict(os.environ))
    assert process.stdin is not None
    process.stdin.write(json.dumps(props).encode())
    process.stdin.close()
    until = time.monotonic() + 60
    while not reached():
        assert process.poll() is None, "it ended before it was killed"
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()


def parts(aliyun: Aliyun) -> list[int]:
    return sorted(int(number) for record in aliyun.store.uploads("images") for number in record.doc["parts"])


def test_the_parts_of_a_run_that_was_killed_are_not_sent_again(aliyun: Aliyun, sent: list[int]) -> None:
    # The last of them hangs in OSS, which has the others by then.
    aliyun.world.plan_fault("update", "BucketObject", "slow", nth=4, seconds=30)
    killed(aliyun, aliyun.image(), lambda: len(parts(aliyun)) == 3)
    before, there = list(sent), parts(aliyun)
    assert aliyun.images() == []
    aliyun_custom_image.create(aliyun.image())
    again = sent[len(before) :]
    assert len(again) == 1
    assert sorted([*there, *again]) == [1, 2, 3, 4]
    assert (aliyun.names(), aliyun.left()) == ([NAME], [])


def test_a_part_of_other_content_is_sent_again(aliyun: Aliyun, sent: list[int]) -> None:
    props = aliyun.image()
    client, target = oss_client(props), {"bucket": "images", "key": KEY}
    upload = client.initiate_multipart_upload(oss.InitiateMultipartUploadRequest(**target)).upload_id
    for number, body in ((1, QCOW2[:PART]), (2, bytes(PART)), (9, b"more than the image has")):
        client.upload_part(oss.UploadPartRequest(**target, upload_id=upload, part_number=number, body=body))
    sent.clear()
    aliyun_custom_image.create(props)
    assert sorted(sent) == [2, 3, 4]


def test_a_run_that_was_killed_after_the_upload_imports_what_is_there(aliyun: Aliyun) -> None:
    aliyun.world.plan_fault("read", "ImageImport", "slow", nth=2, seconds=0)
    aliyun.world.plan_fault("create", "ImageImport", "slow", seconds=30)
    killed(aliyun, aliyun.image(), lambda: aliyun.left() == [KEY])
    assert aliyun.images() == []
    aliyun_custom_image.create(aliyun.image())
    assert (aliyun.names(), uploads(aliyun), aliyun.left()) == ([NAME], 1, [])


def test_an_object_that_is_not_the_image_is_written_anew(aliyun: Aliyun) -> None:
    props = aliyun.image()
    client = oss_client(props)
    client.put_object(oss.PutObjectRequest(bucket="images", key=KEY, body=QCOW2[:-1] + b"x"))
    aliyun_custom_image.create(props)
    assert (uploads(aliyun), aliyun.left()) == (2, [])


def test_a_run_that_was_killed_between_import_and_removal_removes_the_object(aliyun: Aliyun) -> None:
    aliyun.world.plan_fault("delete", "BucketObject", "slow", seconds=30)
    killed(aliyun, aliyun.image(), lambda: aliyun.names() == [NAME])
    assert aliyun.left() == [KEY]
    aliyun_custom_image.create(aliyun.image())
    assert (imports(aliyun), uploads(aliyun), aliyun.left()) == (1, 1, [])


def test_strangers_uploads_are_aborted(aliyun: Aliyun) -> None:
    props = aliyun.image()
    client = oss_client(props)
    for key in ("other.qcow2", KEY, KEY):
        client.initiate_multipart_upload(oss.InitiateMultipartUploadRequest(bucket="images", key=key))
    aliyun_custom_image.create(props)
    assert aliyun.left() == []


# -- what goes wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"<html>not here</html>", "an HTML or XML page came"),
        (b"QFI\xfb" + bytes(100), "not a qcow2|version"),
        (bytes(1 << 20), "not a qcow2"),
    ],
)
def test_what_is_no_qcow2_leaves_nothing_behind(aliyun: Aliyun, data: bytes, problem: str) -> None:
    with pytest.raises(WorkError, match=problem):
        aliyun_custom_image.create(aliyun.image(data=data))
    assert (aliyun.left(), aliyun.images()) == ([], [])


def test_a_disk_larger_than_that_of_the_machines_is_refused_before_it_is_sent(aliyun: Aliyun, sent: list[int]) -> None:
    with pytest.raises(WorkError, match="more than 4 GiB, which is the smallest system disk"):
        aliyun_custom_image.create(aliyun.image(system_disk_gb=4.0))
    assert (aliyun.left(), aliyun.images(), sent) == ([], [], [])
    _, outs = aliyun_custom_image.create(aliyun.image(system_disk_gb=5.0))
    smaller = aliyun.image(system_disk_gb=4.0)
    with pytest.raises(WorkError, match="more than 4 GiB"):
        aliyun_custom_image.create(smaller)
    with pytest.raises(WorkError, match="more than 4 GiB"):
        aliyun_custom_image.diff(outs, smaller)


def test_a_digest_of_something_else_leaves_nothing_behind(aliyun: Aliyun) -> None:
    props = aliyun.image()
    props["image_file"]["sha256"] = "0" * 64
    with pytest.raises(WorkError, match="0000"):
        aliyun_custom_image.create(props)
    assert (aliyun.left(), aliyun.images()) == ([], [])


def test_a_missing_service_role_is_named(aliyun: Aliyun) -> None:
    without(aliyun.world, "AliyunECSImageImportDefaultRole")
    with pytest.raises(WorkError, match="AliyunECSImageImportDefaultRole"):
        aliyun_custom_image.create(aliyun.image())
    assert aliyun.left() == [KEY], "for the next run"


def test_a_wrong_secret_is_no_traceback(aliyun: Aliyun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth_util, "environment_access_key_secret", "SECRET-MARKER")
    with pytest.raises(WorkError, match="SignatureDoesNotMatch.*it needs ecs:ImportImage") as caught:
        aliyun_custom_image.create(aliyun.image())
    assert "MARKER" not in str(caught.value)


def test_without_an_identity_nothing_is_asked(aliyun: Aliyun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(auth_util, "environment_access_key_id", None)
    monkeypatch.setattr(auth_util, "environment_ecs_metadata_disabled", "true")
    monkeypatch.setattr(auth_util, "environment_cli_profile_disabled", "true")
    monkeypatch.setattr(auth_util, "environment_credentials_file", str(tmp_path / "none"))
    with pytest.raises(WorkError, match="no Alibaba Cloud identity was found"):
        aliyun_custom_image.create(aliyun.image())


def test_services_that_are_not_there_are_named(aliyun: Aliyun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aliyun_api, "_FIRST_WAIT_SECONDS", 0)
    monkeypatch.setattr(aliyun_api, "_TRIES", 2)
    with pytest.raises(WorkError, match=r"http://127.0.0.1:1 cannot be reached; .* aliyun.endpoints.ecs"):
        aliyun_custom_image.create(aliyun.image(ecs="http://127.0.0.1:1"))
    monkeypatch.setattr(oss.retry.StandardRetryer, "max_attempts", lambda _: 1)
    with pytest.raises(WorkError, match="aliyun.endpoints.oss"):
        aliyun_custom_image.create(aliyun.image(oss="http://127.0.0.1:1"))


def test_addresses_of_the_regions_own_services() -> None:
    def address(key: str, region: str, **more: str) -> str:
        return aliyun_api.endpoint_of({"region": region, **more}, key)

    assert address("oss", "cn-beijing") == "https://oss-cn-beijing.aliyuncs.com"
    assert address("ecs", "cn-beijing") == "https://ecs.cn-beijing.aliyuncs.com"
    assert address("ess", "cn-beijing") == "https://ess.aliyuncs.com"
    assert address("ess", "eu-central-1") == "https://ess.eu-central-1.aliyuncs.com"
    assert address("ecs", "cn-beijing", ecs="https://ecs.{region}.example.com") == "https://ecs.cn-beijing.example.com"
    assert aliyun_custom_image.check({"ecs": "ecs.example.com"}) == {"ecs": "must begin with https:// or http://"}


# -- retention ----------------------------------------------------------------------------------------------


def second(aliyun: Aliyun) -> Any:
    """Make a second image beside the first, as an update of the content does."""
    return aliyun.image("talos-2", "talos-2.qcow2", OTHER)


def test_an_older_image_goes_once_nothing_uses_it(aliyun: Aliyun, monkeypatch: pytest.MonkeyPatch) -> None:
    _, old = aliyun_custom_image.create(aliyun.image())
    aliyun_custom_image.create(second(aliyun))
    used = {old["image_id"]: "instance i-1"}
    retention = aliyun.retention("talos-2", "talos-2.qcow2", removable=[])
    with monkeypatch.context() as busy:
        busy.setattr(aliyun_image_cloud, "users", lambda _props, ids: {i: used[i] for i in ids if i in used})
        assert aliyun_image_retention.read(retention)["removable"] == []
    seen = aliyun_image_retention.read(retention)
    assert seen["removable"] == [old["image_id"]]
    assert aliyun_image_retention.diff(seen, retention).changes
    assert aliyun_image_retention.update(seen, retention)["removable"] == []
    assert aliyun.names() == ["talos-2"]


def test_older_images_within_the_retention_stay(aliyun: Aliyun) -> None:
    aliyun_custom_image.create(aliyun.image())
    aliyun_custom_image.create(second(aliyun))
    kept = aliyun.retention("talos-2", "talos-2.qcow2", retain=1)
    assert aliyun_image_retention.read(kept)["removable"] == []


def test_images_and_configurations_that_use_an_image_are_found(aliyun: Aliyun) -> None:
    _, outs = aliyun_custom_image.create(aliyun.image())
    group(aliyun.cloud, outs["image_id"])
    (configuration,) = aliyun.world.find("alicloud", "ScalingConfiguration")
    props = aliyun.retention("talos-2")
    assert aliyun_image_cloud.users(props, [outs["image_id"], "m-other"]) == {
        outs["image_id"]: f"scaling configuration {configuration.id}"
    }
    (machines,) = aliyun.world.find("alicloud", "ScalingGroup")
    aliyun.world.put("alicloud", "ScalingGroup", machines.id, {**machines.doc, "maxSize": 2, "minSize": 1})
    machine = aliyun.world.new_id("i")
    doc = {"imageId": outs["image_id"], "region": "cn-hangzhou", "status": "Running"}
    aliyun.world.put("alicloud", "instance", machine, doc)
    assert aliyun_image_cloud.users(props, [outs["image_id"]]) == {outs["image_id"]: f"instance {machine}"}
    with pytest.raises(WorkError, match=f"still used by instance {machine}"):
        aliyun_image_retention.delete(props)
    with pytest.raises(WorkError, match="still used by"):
        aliyun_custom_image.delete(outs)
    with aliyun_image_cloud.errors(props), pytest.raises(WorkError, match="an instance was made of it"):
        aliyun_image_cloud.delete(props, outs["image_id"])
    assert aliyun.names() == [NAME]


def group(cloud: Cloud, image: str) -> None:
    """Make a scaling group without machines whose configuration names an image."""
    place = {"_region": "cn-hangzhou", "scalingGroupId": "asg-1"}
    cloud.world.put("alicloud", "ScalingGroup", "asg-1", {**place, "minSize": 0, "maxSize": 1})
    cloud.world.put("alicloud", "ScalingConfiguration", "asc-1", {**place, "imageId": image, "active": True})


def test_leftovers_of_other_content_go_and_those_of_the_current_stay(aliyun: Aliyun) -> None:
    retention = aliyun.retention(removable=[])
    client = oss_client(retention)
    for key in ("old.qcow2", KEY):
        client.initiate_multipart_upload(oss.InitiateMultipartUploadRequest(bucket="images", key=key))
        client.put_object(oss.PutObjectRequest(bucket="images", key=key, body=b"x"))
    seen = aliyun_image_retention.read(retention)
    aliyun_image_retention.update(seen, retention)
    assert aliyun.left() == [KEY, f"upload of {KEY}"]


def test_a_destroy_removes_all_of_ours_and_nothing_else(aliyun: Aliyun) -> None:
    aliyun_custom_image.create(aliyun.image())
    aliyun_custom_image.create(second(aliyun))
    other = aliyun.image("theirs", "theirs.qcow2", tags=aliyun.tags(**{"hybrid-talos-image": "other"}))
    aliyun_custom_image.create(other)
    client = oss_client(other)
    for key in (KEY, "other"):
        client.initiate_multipart_upload(oss.InitiateMultipartUploadRequest(bucket="images", key=key))
    aliyun_image_retention.delete(aliyun.retention())
    assert (aliyun.names(), aliyun.left()) == (["theirs"], [])


def test_a_retention_whose_bucket_is_gone_still_knows_the_images(aliyun: Aliyun) -> None:
    aliyun_custom_image.create(aliyun.image())
    aliyun.cloud.delete("oss/bucket:Bucket", "images")
    aliyun_image_retention.delete(aliyun.retention())
    assert aliyun.names() == []


def test_more_images_than_a_page_holds_are_seen(aliyun: Aliyun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aliyun_image_cloud, "_PAGE", 2)
    for number in range(5):
        doc = {
            **{"_region": "cn-hangzhou", "_status": "Available", "_size": 5, "_tags": {"hybrid-talos-image": "images"}},
            **{"imageName": f"talos-{number}", "architecture": "x86_64", "bootMode": "UEFI", "osType": "linux"},
            **{"platform": "Others Linux", "diskDeviceMappings": []},
        }
        aliyun.world.put("alicloud", "ImageImport", f"m-{number}", doc)
    assert len(aliyun_image_retention.read(aliyun.retention("talos-0"))["removable"]) == 4
