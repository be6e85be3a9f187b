"""A qcow2 in an OSS bucket, streamed there in parts, nothing on disk, and gone on with when a run was killed.

A multipart upload is not there to be seen before it is completed, so half an object cannot exist. The next run finds
the parts that are there, reads the image again, and sends what is missing: the ETag of a part is the MD5 of its
content, so a part is only kept when it is what would be sent (help.aliyun.com "UploadPart"). An object that is whole
is read against its CRC64 and kept. What OSS takes in is checked against its CRC64 by the client.
"""

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import alibabacloud_oss_v2 as oss
from alibabacloud_oss_v2.crc import Crc64
from alibabacloud_oss_v2.exceptions import BaseError, OperationError

from .aliyun_api import Properties
from .aliyun_oss_client import oss_client, oss_errors, unless_gone
from .image_download import Image
from .image_source import open_image
from .parallel import run_all
from .qcow2 import Qcow2

PART = 8 * 1024 * 1024
"""Bytes of a part; OSS takes 10,000 of them (help.aliyun.com, OSS multipart upload)."""
_WORKERS = 4

Parts = dict[int, tuple[str, int]]
"""Parts that OSS has, by number: ETag and size."""


def store(props: Properties) -> Properties:
    """Bring the image into the bucket, unless it is there; return `disk_gib`, `sha256` and `asset`."""
    with oss_errors(props):
        client = oss_client(props)
        head = _head(client, props)
        found = None if head is None else _same(props, head)
        return _upload(client, props) if found is None else found


def stored(props: Properties) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the keys of the bucket's objects, and key and id of each upload; nothing when the bucket is gone."""
    keys: list[str] = []
    uploads: list[tuple[str, str]] = []
    with oss_errors(props), unless_gone():
        client, bucket = oss_client(props), props["bucket"]
        for page in client.list_objects_v2_paginator().iter_page(oss.ListObjectsV2Request(bucket=bucket)):
            keys += [item.key for item in page.contents or ()]
        uploads = _uploads(client, bucket)
    return keys, uploads


def remove(props: Properties, key: str) -> None:
    """Delete an object; one that is gone already is no error."""
    with oss_errors(props), unless_gone():
        oss_client(props).delete_object(oss.DeleteObjectRequest(bucket=props["bucket"], key=key))


def abort(props: Properties, key: str, upload: str) -> None:
    """Forget an upload and its parts; one that is gone already is no error."""
    with oss_errors(props):
        _abort(oss_client(props), {"bucket": props["bucket"], "key": key}, upload)


def clear(props: Properties) -> None:
    """Remove the image's object and its uploads, once nothing needs them any more."""
    remove(props, props["key"])
    for key, upload in stored(props)[1]:
        if key == props["key"]:
            abort(props, key, upload)


def _head(client: Any, props: Properties) -> Any:
    with unless_gone():
        return client.head_object(oss.HeadObjectRequest(bucket=props["bucket"], key=props["key"]))
    return None


def _same(props: Properties, head: Any) -> Properties | None:
    """Return what is known of the object that is there; None when it is not what would be sent.

    It is from a run that was killed after its last part. Only the download is done again.
    """
    with open_image(props) as image:
        qcow2, crc, size = Qcow2(image.unpacked(), image.check_size), Crc64(0), 0
        for chunk in qcow2.chunks():
            crc.update(chunk)
            size += len(chunk)
        image.verify()
        same = size == head.content_length and str(int(crc.sum64())) == str(head.hash_crc64)
        return _found(qcow2, image) if same else None


def _upload(client: Any, props: Properties) -> Properties:
    target = {"bucket": props["bucket"], "key": props["key"]}
    with open_image(props) as image:
        qcow2 = Qcow2(image.unpacked(), image.check_size)
        parts = _parts(qcow2.chunks())
        # The first part is taken before the upload begins: what is no qcow2 leaves nothing behind.
        first = next(parts)
        upload, there = _begin(client, target)
        try:
            done = run_all(_jobs(client, target, upload, there, first, parts), workers=_WORKERS)
            image.verify()
            client.complete_multipart_upload(
                oss.CompleteMultipartUploadRequest(
                    **target, upload_id=upload, complete_multipart_upload=oss.CompleteMultipartUpload(parts=done)
                )
            )
        except OperationError:
            # OSS failed, not the image: the parts stay for the next run. What never comes to one is cleared by the
            # retention, and by the bucket's lifecycle rule.
            raise
        except Exception:
            with suppress(BaseError):
                _abort(client, target, upload)
            raise
        return _found(qcow2, image)


def _found(qcow2: Qcow2, image: Image) -> Properties:
    return {"disk_gib": qcow2.disk_gib, "sha256": image.sha256, "asset": image.name}


def _begin(client: Any, target: dict[str, str]) -> tuple[str, Parts]:
    """Return the upload to go on with and its parts, or a new one; all other uploads of the bucket are aborted."""
    mine: tuple[str, Parts] | None = None
    for key, upload in _uploads(client, target["bucket"]):
        found: Parts = {}
        if key == target["key"]:
            with unless_gone():
                request = oss.ListPartsRequest(**target, upload_id=upload)
                for page in client.list_parts_paginator().iter_page(request):
                    for part in page.parts or ():
                        found[int(part.part_number)] = (_etag(part.etag), int(part.size))
            if mine is None or len(found) > len(mine[1]):
                if mine is not None:
                    _abort(client, target, mine[0])
                mine = (upload, found)
                continue
        _abort(client, {**target, "key": key}, upload)
    if mine is not None:
        return mine
    request = oss.InitiateMultipartUploadRequest(**target, content_type="application/octet-stream")
    return client.initiate_multipart_upload(request).upload_id, {}


def _uploads(client: Any, bucket: str) -> list[tuple[str, str]]:
    request = oss.ListMultipartUploadsRequest(bucket=bucket)
    pages = client.list_multipart_uploads_paginator().iter_page(request)
    return [(item.key, item.upload_id) for page in pages for item in page.uploads or ()]


def _abort(client: Any, target: dict[str, str], upload: str) -> None:
    with unless_gone():
        client.abort_multipart_upload(oss.AbortMultipartUploadRequest(**target, upload_id=upload))


def _jobs(
    client: Any, target: dict[str, str], upload: str, there: Parts, first: bytes, rest: Iterator[bytes]
) -> Iterator[Callable[[], Any]]:
    number, part = 1, first
    while part:
        yield functools.partial(_put, client, target, upload, number, part, there.get(number))
        number, part = number + 1, next(rest, b"")


def _put(
    client: Any, target: dict[str, str], upload: str, number: int, body: bytes, there: tuple[str, int] | None
) -> Any:
    if there is not None and there[1] == len(body):
        digest = hashlib.md5(body, usedforsecurity=False).hexdigest()
        if _etag(there[0]) == digest:
            return oss.UploadPart(part_number=number, etag=f'"{digest.upper()}"')
    answer = client.upload_part(oss.UploadPartRequest(**target, upload_id=upload, part_number=number, body=body))
    return oss.UploadPart(part_number=number, etag=answer.etag)


def _etag(text: str) -> str:
    return text.strip('"').lower()


def _parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    pending = bytearray()
    for chunk in chunks:
        pending += chunk
        while len(pending) >= PART:
            yield bytes(memoryview(pending)[:PART])
            del pending[:PART]
    if pending:
        yield bytes(pending)
