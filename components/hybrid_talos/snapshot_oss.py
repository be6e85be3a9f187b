"""Snapshots of etcd in a bucket of Alibaba Cloud's OSS."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import alibabacloud_oss_v2 as oss
from alibabacloud_oss_v2.exceptions import BaseError, OperationError, ServiceError

from .aliyun_api import endpoint_of
from .aliyun_oss_client import oss_client, oss_errors, unless_gone
from .snapshot_store import Kept, is_snapshot
from .work_provider import WorkError

_PART = 8 << 20
"""Bytes of a part, of which one is in memory; OSS takes 10,000 of them (help.aliyun.com, OSS multipart upload)."""
_CHUNK = 1 << 20


class OssStore:
    """A bucket; who runs this may write there by the chain of alibabacloud-credentials."""

    def __init__(self, bucket: str, prefix: str, region: str, endpoint: str | None = None) -> None:
        """``prefix`` is empty or ends with a slash; ``endpoint`` is OSS's public address of the region if left out."""
        self._bucket = bucket
        self._prefix = prefix
        self._props: dict[str, Any] = {"bucket": bucket, "region": region, "oss": endpoint}

    @property
    def where(self) -> str:
        """Return the bucket and the folder in it."""
        return f"oss://{self._bucket}/{self._prefix}".rstrip("/")

    def put(self, name: str, content: Iterator[bytes]) -> None:
        """Upload parts, which are no object until the last of them is there."""
        target = {"bucket": self._bucket, "key": self._prefix + name}
        with self._errors(name):
            client = oss_client(self._props)
            parts = _parts(content)
            # Taken before anything is begun in the bucket: what fails at once leaves nothing there.
            first = next(parts, b"")
            upload = client.initiate_multipart_upload(
                oss.InitiateMultipartUploadRequest(**target, content_type="application/octet-stream")
            ).upload_id
            try:
                done, number, part = [], 1, first
                while part:
                    answer = client.upload_part(
                        oss.UploadPartRequest(**target, upload_id=upload, part_number=number, body=part)
                    )
                    done.append(oss.UploadPart(part_number=number, etag=answer.etag))
                    number, part = number + 1, next(parts, b"")
                client.complete_multipart_upload(
                    oss.CompleteMultipartUploadRequest(
                        **target,
                        upload_id=upload,
                        forbid_overwrite=True,
                        complete_multipart_upload=oss.CompleteMultipartUpload(parts=done),
                    )
                )
            except BaseException:
                with suppress(BaseError):
                    client.abort_multipart_upload(oss.AbortMultipartUploadRequest(**target, upload_id=upload))
                raise

    def get(self, name: str) -> Generator[bytes, None, None]:
        """Download an object in pieces."""
        with self._errors(name):
            request = oss.GetObjectRequest(bucket=self._bucket, key=self._prefix + name)
            answer = oss_client(self._props).get_object(request)
            with answer.body as body:
                yield from body.iter_bytes(block_size=_CHUNK)

    def names(self) -> list[Kept]:
        """List the objects below the folder."""
        found: list[Kept] = []
        with self._errors():
            request = oss.ListObjectsV2Request(bucket=self._bucket, prefix=self._prefix)
            for page in oss_client(self._props).list_objects_v2_paginator().iter_page(request):
                for item in page.contents or ():
                    found.append(Kept(item.key.removeprefix(self._prefix), int(item.size)))
        return sorted((one for one in found if is_snapshot(one.name)), key=lambda one: one.name)

    def remove(self, name: str) -> None:
        """Delete an object."""
        with self._errors(), unless_gone():
            oss_client(self._props).delete_object(oss.DeleteObjectRequest(bucket=self._bucket, key=self._prefix + name))

    @contextmanager
    def _errors(self, name: str = "") -> Iterator[None]:
        with oss_errors(self._props):
            try:
                yield
            except OperationError as error:
                refusal = error.unwrap()
                if isinstance(refusal, ServiceError):
                    if refusal.code == "FileAlreadyExists":
                        raise WorkError(f"{self.where}/{name} is there already. Next: run the command again") from None
                    if refusal.code in ("NoSuchKey", "NoSuchBucket"):
                        raise WorkError(
                            f"{self.where}: is not there ({refusal.code}). Next: make the bucket, or name another one"
                        ) from None
                else:
                    raise WorkError(
                        f"{self.where}: {endpoint_of(self._props, 'oss')} cannot be reached. Next: check the network, "
                        "--oss-region and --oss-endpoint"
                    ) from None
                raise


def _parts(content: Iterator[bytes]) -> Iterator[bytes]:
    pending = bytearray()
    for chunk in content:
        pending += chunk
        while len(pending) >= _PART:
            yield bytes(memoryview(pending)[:_PART])
            del pending[:_PART]
    if pending:
        yield bytes(pending)
