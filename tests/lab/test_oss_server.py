"""The lab's OSS, asked by the real client."""

import hashlib
import http.client
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import alibabacloud_oss_v2 as oss
import pytest

from lab.alicloud import OssServer
from lab.alicloud.oss_store import Store
from lab.world import World
from tests.lab.alicloud_cloud import BUCKET, Cloud, refused

PART = 128 * 1024


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    with closing(Cloud(tmp_path)) as cloud:
        cloud.make(BUCKET, "images", bucket="talos-images", forceDestroy=True)
        yield cloud


@pytest.fixture
def server(cloud: Cloud) -> Iterator[OssServer]:
    server = OssServer(cloud.world)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def client(server: OssServer) -> Any:
    return client_of(server)


def client_of(server: OssServer, **settings: Any) -> Any:
    config = oss.config.load_default()
    config.region = "cn-hangzhou"
    config.endpoint = server.url
    config.use_path_style = True
    config.retry_max_attempts = settings.pop("attempts", 1)
    config.credentials_provider = settings.pop("credentials", oss.credentials.StaticCredentialsProvider("LTAIlab", "x"))
    assert not settings
    return oss.Client(config)


def code(action: Any, *args: Any) -> str:
    """Return the code with which the server refuses."""
    with pytest.raises(oss.exceptions.OperationError) as caught:
        action(*args)
    error = caught.value.unwrap()
    assert isinstance(error, oss.exceptions.ServiceError)
    return str(error.code)


def put(client: Any, key: str, body: bytes = b"content", **more: Any) -> Any:
    return client.put_object(oss.PutObjectRequest(bucket="talos-images", key=key, body=body, **more))


def get(client: Any, key: str, **more: Any) -> bytes:
    answer = client.get_object(oss.GetObjectRequest(bucket="talos-images", key=key, **more))
    return bytes(answer.body.content)


def begin(client: Any, key: str = "disk.qcow2") -> str:
    request = oss.InitiateMultipartUploadRequest(bucket="talos-images", key=key)
    return str(client.initiate_multipart_upload(request).upload_id)


def part(client: Any, upload: str, number: int, body: bytes, key: str = "disk.qcow2") -> Any:
    answer = client.upload_part(
        oss.UploadPartRequest(bucket="talos-images", key=key, upload_id=upload, part_number=number, body=body)
    )
    return oss.UploadPart(part_number=number, etag=answer.etag)


def complete(client: Any, upload: str, parts: list[Any], key: str = "disk.qcow2") -> Any:
    return client.complete_multipart_upload(
        oss.CompleteMultipartUploadRequest(
            bucket="talos-images",
            key=key,
            upload_id=upload,
            complete_multipart_upload=oss.CompleteMultipartUpload(parts=parts),
        )
    )


def uploads(client: Any, **more: Any) -> list[str]:
    found = client.list_multipart_uploads(oss.ListMultipartUploadsRequest(bucket="talos-images", **more))
    return [upload.upload_id for upload in found.uploads or ()]


def test_an_object_comes_back_as_it_was_put(client: Any) -> None:
    body = bytes(range(256)) * 1000
    answer = put(client, "folder/a b+ü&.bin", body, content_type="application/x-disk", metadata={"talos": "1.14"})
    # The client itself compares this checksum with its own, and refuses another.
    assert answer.hash_crc64
    assert answer.etag.strip('"') == hashlib.md5(body).hexdigest().upper()
    assert get(client, "folder/a b+ü&.bin") == body
    head = client.head_object(oss.HeadObjectRequest(bucket="talos-images", key="folder/a b+ü&.bin"))
    assert (head.content_length, head.content_type) == (len(body), "application/x-disk")
    assert head.metadata["talos"] == "1.14"
    assert head.object_type == "Normal"


@pytest.mark.parametrize(
    ("range_", "expected"),
    [("bytes=0-3", b"0123"), ("bytes=7-", b"789"), ("bytes=-2", b"89"), ("bytes=4-99", b"456789")],
)
def test_a_part_of_an_object(client: Any, range_: str, expected: bytes) -> None:
    put(client, "digits", b"0123456789")
    assert get(client, "digits", range_header=range_) == expected


def test_a_range_past_the_end_is_refused_only_when_asked_for(client: Any) -> None:
    put(client, "digits", b"0123456789")
    assert get(client, "digits", range_header="bytes=20-30") == b"0123456789"
    request = oss.GetObjectRequest(
        bucket="talos-images", key="digits", range_header="bytes=20-30", range_behavior="standard"
    )
    assert code(client.get_object, request) == "InvalidRange"


def test_meta_of_an_object(client: Any) -> None:
    put(client, "digits", b"0123456789")
    meta = client.get_object_meta(oss.GetObjectMetaRequest(bucket="talos-images", key="digits"))
    assert meta.content_length == 10


def test_many_parts_become_one_object(client: Any, cloud: Cloud) -> None:
    bodies = [bytes([number]) * PART for number in range(1, 4)] + [b"the end"]
    upload = begin(client)
    parts = [part(client, upload, number, body) for number, body in reversed(list(enumerate(bodies, 1)))]
    listed = client.list_parts(oss.ListPartsRequest(bucket="talos-images", key="disk.qcow2", upload_id=upload))
    assert [(p.part_number, p.size) for p in listed.parts] == [(1, PART), (2, PART), (3, PART), (4, 7)]
    answer = complete(client, upload, sorted(parts, key=lambda p: p.part_number))
    assert answer.etag.strip('"').endswith("-4")
    assert get(client, "disk.qcow2") == b"".join(bodies)
    assert uploads(client) == []
    head = client.head_object(oss.HeadObjectRequest(bucket="talos-images", key="disk.qcow2"))
    assert head.object_type == "Multipart"
    assert head.hash_crc64 == str(answer.hash_crc64)
    # Nothing of the parts is left on the disk.
    assert not list((cloud.world.folder / "oss" / ".parts").iterdir())
    assert not list((cloud.world.folder / "oss" / ".drafts").iterdir())


def test_a_part_that_is_sent_again_counts_once(client: Any) -> None:
    upload = begin(client)
    part(client, upload, 1, b"x" * PART)
    again = part(client, upload, 1, b"y" * PART)
    complete(client, upload, [again])
    assert get(client, "disk.qcow2") == b"y" * PART


def test_an_object_is_not_there_before_its_upload_is_complete(client: Any) -> None:
    upload = begin(client)
    part(client, upload, 1, b"x")
    request = oss.HeadObjectRequest(bucket="talos-images", key="disk.qcow2")
    assert code(client.head_object, request) == "NoSuchKey"


def test_an_aborted_upload_is_gone(client: Any) -> None:
    first, second = begin(client), begin(client, "other")
    client.abort_multipart_upload(
        oss.AbortMultipartUploadRequest(bucket="talos-images", key="disk.qcow2", upload_id=first)
    )
    assert uploads(client) == [second]
    assert code(part, client, first, 1, b"x") == "NoSuchUpload"


def test_uploads_are_listed_by_prefix_and_page(client: Any) -> None:
    made = [begin(client, key) for key in ("a/1", "a/2", "b")]
    assert uploads(client) == made
    assert uploads(client, prefix="a/") == made[:2]
    request = oss.ListMultipartUploadsRequest(bucket="talos-images", max_uploads=2)
    page = client.list_multipart_uploads(request)
    assert page.is_truncated
    request.key_marker, request.upload_id_marker = page.next_key_marker, page.next_upload_id_marker
    assert [upload.upload_id for upload in client.list_multipart_uploads(request).uploads] == made[2:]


def test_objects_are_listed_by_prefix_and_page(client: Any) -> None:
    for key in ("a/1", "a/2", "b&c"):
        put(client, key)
    found = client.list_objects_v2(oss.ListObjectsV2Request(bucket="talos-images"))
    assert [item.key for item in found.contents] == ["a/1", "a/2", "b&c"]
    found = client.list_objects_v2(oss.ListObjectsV2Request(bucket="talos-images", prefix="a/", max_keys=1))
    assert (found.is_truncated, [item.key for item in found.contents]) == (True, ["a/1"])
    found = client.list_objects_v2(
        oss.ListObjectsV2Request(bucket="talos-images", prefix="a/", continuation_token=found.next_continuation_token)
    )
    assert [item.key for item in found.contents] == ["a/2"]


@pytest.mark.parametrize(
    ("numbers", "sizes", "expected"),
    [
        ([2, 1], [PART, PART], "InvalidPartOrder"),
        ([1, 3], [PART, PART], "InvalidPart"),
        ([1, 2], [10, 10], "EntityTooSmall"),
        ([], [PART], "MalformedXML"),
    ],
)
def test_parts_that_do_not_fit_together(client: Any, numbers: list[int], sizes: list[int], expected: str) -> None:
    upload = begin(client)
    made = {number: part(client, upload, number, b"x" * size) for number, size in enumerate(sizes, 1)}
    named = [made.get(number, oss.UploadPart(part_number=number, etag='"0"')) for number in numbers]
    assert code(complete, client, upload, named) == expected
    assert uploads(client) == [upload]


def test_a_part_with_another_tag_is_refused(client: Any) -> None:
    upload = begin(client)
    part(client, upload, 1, b"x")
    assert code(complete, client, upload, [oss.UploadPart(part_number=1, etag='"00"')]) == "InvalidPart"


@pytest.mark.parametrize("number", [0, 10_001])
def test_part_numbers_have_a_range(client: Any, number: int) -> None:
    assert code(part, client, begin(client), number, b"x") == "InvalidArgument"


def test_a_new_object_has_no_tags_of_the_old_one(client: Any) -> None:
    put(client, "image")
    tags = [oss.Tag(key="sha256", value="ab"), oss.Tag(key="disk_gib", value="5")]
    tagging = oss.Tagging(tag_set=oss.TagSet(tags=tags))
    client.put_object_tagging(oss.PutObjectTaggingRequest(bucket="talos-images", key="image", tagging=tagging))
    assert tags_of(client, "image") == {"sha256": "ab", "disk_gib": "5"}
    put(client, "image", b"other")
    assert tags_of(client, "image") == {}


def tags_of(client: Any, key: str) -> dict[str, str]:
    found = client.get_object_tagging(oss.GetObjectTaggingRequest(bucket="talos-images", key=key))
    return {tag.key: tag.value for tag in found.tag_set.tags or ()}


def test_an_object_has_ten_tags_at_most(client: Any) -> None:
    put(client, "image")
    tagging = oss.Tagging(tag_set=oss.TagSet(tags=[oss.Tag(key=f"k{n}", value="v") for n in range(11)]))
    request = oss.PutObjectTaggingRequest(bucket="talos-images", key="image", tagging=tagging)
    assert code(client.put_object_tagging, request) == "InvalidTag"


def test_deleting_twice_is_no_error(client: Any) -> None:
    put(client, "image")
    for _ in range(2):
        client.delete_object(oss.DeleteObjectRequest(bucket="talos-images", key="image"))
    assert code(get, client, "image") == "NoSuchKey"


def test_a_bucket_that_no_program_made_is_not_there(client: Any) -> None:
    request = oss.PutObjectRequest(bucket="stranger", key="image", body=b"x")
    assert code(client.put_object, request) == "NoSuchBucket"


def test_nobody_gets_in_without_a_signature(server: OssServer) -> None:
    stranger = client_of(server, credentials=oss.credentials.AnonymousCredentialsProvider())
    assert code(put, stranger, "image") == "AccessDenied"


def test_the_bucket_may_stand_in_the_host_name(client: Any, server: OssServer) -> None:
    put(client, "folder/image", b"content")
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    headers = {"Host": f"talos-images.oss-cn-hangzhou.example.com:{server.port}", "Authorization": "OSS lab:lab"}
    connection.request("GET", "/folder/image", headers=headers)
    assert connection.getresponse().read() == b"content"
    connection.close()


def test_a_wrong_digest_is_refused(client: Any) -> None:
    assert code(lambda: put(client, "image", b"x", content_md5="AAAAAAAAAAAAAAAAAAAAAA==")) == "InvalidDigest"


def test_overwriting_can_be_forbidden(client: Any) -> None:
    put(client, "image")
    assert code(lambda: put(client, "image", b"x", forbid_overwrite=True)) == "FileAlreadyExists"


def test_a_planned_fault_strikes_a_part(client: Any, server: OssServer, cloud: Cloud) -> None:
    upload = begin(client)
    cloud.world.plan_fault("update", "BucketObject", "fail", nth=2, message="gone for lunch")
    part(client, upload, 1, b"x" * PART)
    assert code(part, client, upload, 2, b"y") == "InternalError"
    part(client, upload, 2, b"y")


def test_a_lost_answer_is_found_again_by_asking_again(server: OssServer, cloud: Cloud) -> None:
    client = client_of(server, attempts=3)
    cloud.world.plan_fault("create", "BucketObject", "lost")
    put(client, "image", b"content")
    assert get(client, "image") == b"content"
    made = [event for event in cloud.world.events() if event.kind == "object"]
    assert len(made) == 2


def test_objects_outlive_the_server(client: Any, server: OssServer, cloud: Cloud) -> None:
    put(client, "image", b"content")
    server.stop()
    world = World(cloud.world.folder)
    again = OssServer(world)
    again.start()
    assert get(client_of(again), "image") == b"content"
    again.stop()
    world.close()
    server.start()


def test_a_bucket_with_objects_goes_only_by_force(client: Any, cloud: Cloud) -> None:
    put(client, "image")
    cloud.change(BUCKET, "images", forceDestroy=False)
    with refused("BucketNotEmpty"):
        cloud.delete(BUCKET, "images")
    cloud.change(BUCKET, "images", forceDestroy=True)
    cloud.delete(BUCKET, "images")
    assert Store(cloud.world).objects("talos-images") == []
    assert not (cloud.world.folder / "oss" / "talos-images").exists()


def test_not_even_force_removes_parts(client: Any, cloud: Cloud) -> None:
    upload = begin(client)
    part(client, upload, 1, b"x")
    with refused("BucketNotEmpty"):
        cloud.delete(BUCKET, "images")
