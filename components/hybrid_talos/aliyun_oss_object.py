"""The work of AliyunOssObject: a qcow2 from the factory into an OSS bucket, nothing on disk.

A multipart upload is not there to be seen before it is completed, so half an object cannot exist. When it
is complete it is tagged with the digest and the size of the disk inside; an object without those tags is
from a run that was killed in between, and is written anew. Parts of runs that were killed are removed before
a new upload begins; the bucket's lifecycle rule does the same after a day. Whoever uploads or adopts the object
leaves a claim among its tags, and only the last one deletes it: where a replacement is forced (`pulumi up
--replace`), old and new are one object.
"""

import functools
import ipaddress
import logging
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import alibabacloud_oss_v2 as oss
from alibabacloud_credentials.client import Client as CredentialClient
from alibabacloud_credentials.exceptions import CredentialException
from alibabacloud_oss_v2.credentials import Credentials
from alibabacloud_oss_v2.exceptions import BaseError, OperationError, ServiceError
from alibabacloud_oss_v2.types import CredentialsProvider
from pulumi.dynamic import DiffResult

from .image_source import FOUND, Properties, diff_of, open_image, pin_problem
from .parallel import run_all
from .qcow2 import Qcow2
from .work_provider import WorkError

PART = 8 * 1024 * 1024
"""Bytes of a part; OSS takes 10,000 of them (help.aliyun.com, OSS multipart upload)."""
_WORKERS = 4
_KEY = ("region", "bucket", "key")
_GONE = ("NoSuchKey", "NoSuchBucket")


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    endpoint = news.get("endpoint")
    if isinstance(endpoint, str) and urlsplit(endpoint).scheme not in ("https", "http"):
        return {"endpoint": "must begin with https:// or http://"}
    return {}


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Another object is another resource; another address of the same object is only recorded."""
    return diff_of(_KEY, ("endpoint",), olds, news)


def create(props: Properties) -> tuple[str, Properties]:
    """Upload the image, or adopt the object when an earlier run finished it."""
    claim = {"claim": uuid.uuid4().hex}
    with _errors(props):
        client = _client(props)
        found = _found(_tags(client, props))
        if found is None:
            found = _upload(client, props)
        elif problem := pin_problem(props, found):
            raise WorkError(problem)
        _tag(client, props, {**found, **claim})
    return "/".join(props[key] for key in _KEY), {**props, **found, **claim}


def read(props: Properties) -> Properties | None:
    """Return the resource as it is; None when the object is gone or was never finished."""
    with _errors(props):
        found = _found(_tags(_client(props), props))
    return None if found is None else {**props, **found}


def update(olds: Properties, news: Properties) -> Properties:
    """Record the new address; the object stays as it is."""
    return {**news, **{key: olds.get(key) for key in ("disk_gib", *FOUND, "claim")}}


def delete(props: Properties) -> None:
    """Delete the object, unless something else claimed it since."""
    with _errors(props), _unless_gone():
        client = _client(props)
        if _tags(client, props).get("claim") == props.get("claim"):
            client.delete_object(oss.DeleteObjectRequest(bucket=props["bucket"], key=props["key"]))


class _DefaultChain(CredentialsProvider):  # type: ignore[misc]
    """Hands the default chain of alibabacloud-credentials (ALIBABA_CLOUD_*, OIDC, profile, role) to OSS."""

    def __init__(self) -> None:
        # The chain logs the traceback of each link that fails to stderr, where the engine shows all of it.
        logging.getLogger("credentials").setLevel(logging.CRITICAL)
        self._chain = CredentialClient()
        # Asked here, once, so that an identity that is not there is no OSS request that is tried again.
        self._chain.get_credential()

    def get_credentials(self) -> Credentials:
        found = self._chain.get_credential()
        return Credentials(found.access_key_id, found.access_key_secret, found.security_token or None)


def _client(props: Properties) -> Any:
    config = oss.config.load_default()
    config.region = props["region"]
    config.endpoint = props["endpoint"].replace("{region}", props["region"])
    config.credentials_provider = _DefaultChain()
    # An address has no subdomains to put the bucket's name into.
    config.use_path_style = _is_address(config.endpoint)
    config.readwrite_timeout = 120
    return oss.Client(config)


def _is_address(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    with suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return host == "localhost"


def _tags(client: Any, props: Properties) -> dict[str, str]:
    """Return the tags of the object; none when it is not there."""
    with _unless_gone():
        answer = client.get_object_tagging(oss.GetObjectTaggingRequest(bucket=props["bucket"], key=props["key"]))
        return {tag.key: tag.value for tag in (answer.tag_set and answer.tag_set.tags) or ()}
    return {}


def _tag(client: Any, props: Properties, tags: Properties) -> None:
    pairs = [oss.Tag(key=key, value=str(value)) for key, value in tags.items()]
    client.put_object_tagging(
        oss.PutObjectTaggingRequest(
            bucket=props["bucket"], key=props["key"], tagging=oss.Tagging(tag_set=oss.TagSet(tags=pairs))
        )
    )


def _found(tags: dict[str, str]) -> Properties | None:
    if "sha256" not in tags or not tags.get("disk_gib", "").isdecimal():
        return None
    return {"disk_gib": int(tags["disk_gib"]), **{key: tags.get(key, "") for key in FOUND}}


def _upload(client: Any, props: Properties) -> Properties:
    target = {"bucket": props["bucket"], "key": props["key"]}
    with open_image(props) as image:
        qcow2 = Qcow2(image.unpacked())
        parts = _parts(qcow2.chunks())
        # The first part is taken before the upload begins: what is no qcow2 leaves nothing behind.
        first = next(parts)
        _abort_leftovers(client, target)
        upload = client.initiate_multipart_upload(
            oss.InitiateMultipartUploadRequest(**target, content_type="application/octet-stream")
        ).upload_id
        try:
            done = run_all(_jobs(client, target, upload, first, parts), workers=_WORKERS)
            image.verify()
            client.complete_multipart_upload(
                oss.CompleteMultipartUploadRequest(
                    **target,
                    upload_id=upload,
                    complete_multipart_upload=oss.CompleteMultipartUpload(parts=done),
                )
            )
        except BaseException:
            with suppress(BaseError):
                client.abort_multipart_upload(oss.AbortMultipartUploadRequest(**target, upload_id=upload))
            raise
        return {"disk_gib": qcow2.disk_gib, "sha256": image.sha256, "asset": image.name}


def _jobs(
    client: Any, target: dict[str, str], upload: str, first: bytes, rest: Iterator[bytes]
) -> Iterator[Callable[[], Any]]:
    number, part = 1, first
    while part:
        yield functools.partial(_upload_part, client, target, upload, number, part)
        number, part = number + 1, next(rest, b"")


def _upload_part(client: Any, target: dict[str, str], upload: str, number: int, body: bytes) -> Any:
    answer = client.upload_part(oss.UploadPartRequest(**target, upload_id=upload, part_number=number, body=body))
    return oss.UploadPart(part_number=number, etag=answer.etag)


def _parts(chunks: Iterable[bytes]) -> Iterator[bytes]:
    pending = bytearray()
    for chunk in chunks:
        pending += chunk
        while len(pending) >= PART:
            yield bytes(memoryview(pending)[:PART])
            del pending[:PART]
    if pending:
        yield bytes(pending)


def _abort_leftovers(client: Any, target: dict[str, str]) -> None:
    found = client.list_multipart_uploads(
        oss.ListMultipartUploadsRequest(bucket=target["bucket"], prefix=target["key"])
    )
    for left in found.uploads or ():
        with _unless_gone():
            client.abort_multipart_upload(
                oss.AbortMultipartUploadRequest(bucket=target["bucket"], key=left.key, upload_id=left.upload_id)
            )


def _service_error(error: OperationError) -> ServiceError | None:
    inner = error.unwrap()
    return inner if isinstance(inner, ServiceError) else None


@contextmanager
def _unless_gone() -> Iterator[None]:
    try:
        yield
    except OperationError as error:
        service = _service_error(error)
        if service is None or service.code not in (*_GONE, "NoSuchUpload"):
            raise


@contextmanager
def _errors(props: Properties) -> Iterator[None]:
    where = f"OSS bucket {props['bucket']} in {props['region']}"
    try:
        yield
    except CredentialException:
        raise WorkError(
            f"{where}: no Alibaba Cloud identity was found; set ALIBABA_CLOUD_ACCESS_KEY_ID and "
            "ALIBABA_CLOUD_ACCESS_KEY_SECRET, or ALIBABA_CLOUD_ROLE_ARN with an OIDC token"
        ) from None
    except OperationError as error:
        service = _service_error(error)
        if service is None:
            raise WorkError(
                f"{where}: {props['endpoint']} cannot be reached; check the network and aliyun.endpoints.oss"
            ) from None
        if service.status_code == 403:
            raise WorkError(
                f"{where}: this identity may not do that ({service.code}); it needs oss:PutObject, oss:GetObject, "
                "oss:DeleteObject, oss:AbortMultipartUpload, oss:ListParts and the object tagging actions on it"
            ) from None
        raise WorkError(f"{where}: {service.code} ({service.status_code})") from None
    except BaseError as error:
        raise WorkError(f"{where}: {type(error).__name__}") from None
