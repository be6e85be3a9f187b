"""The work of AzurePageBlob: a VHD from the factory into a page blob, zeros left out, nothing on disk.

The blob's own metadata says how far it is: `state` is `uploading` until the last byte is in and checked, and
`complete` from then on, together with the digest of what was downloaded. While it is `uploading` a checkpoint
stands beside it, from which the next run goes on (page_writer), and a blob that is complete is adopted. A lease
keeps a run that was given up, but still lives, from writing into what its successor does. Whoever uploads or
adopts the blob leaves a claim there, and only the last one deletes it: where a replacement is forced (`pulumi up
--replace`), old and new are one blob.

The size is not known before the last byte: an xz stream tells it only at its end, and a byte range of that
end is not something every factory, mirror or proxy serves. A page blob can be resized, and pages never
written cost nothing, so the blob grows by doubling and is cut to its exact size before the footer goes in.
"""

import uuid
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobClient, BlobLeaseClient
from pulumi.dynamic import DiffResult

from .azure_blob_client import blob_client, blob_errors, check_endpoint, nothing_when_gone, wait_for_role
from .blob_lease import held, take_away
from .disk_image import GIB, SECTOR, Page
from .image_source import FOUND, Properties, diff_of, open_image, pin_problem, size_problem, vhd_of
from .image_stream import ImageError, Interrupted
from .page_writer import Checkpoint, SourceChanged, write_pages
from .schematic import schematic_id
from .work_provider import WorkError

_FIRST_CAPACITY = GIB
_KEY = ("account", "container", "blob")


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    return check_endpoint(news)


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Another blob is another resource; another address of the same blob is only recorded."""
    return diff_of(_KEY, ("endpoint", "authority", "environment"), olds, news)


def create(props: Properties) -> tuple[str, Properties]:
    """Upload the image, or adopt the blob when an earlier run finished it."""
    claim = {"claim": uuid.uuid4().hex}
    with blob_errors(props):
        wait_for_role(props)
        with blob_client(props, props["blob"]) as blob:
            metadata = _metadata(blob)
            if metadata.get("state") != "complete":
                metadata = _upload(blob, props)
            found = _found(blob, metadata)
            if problem := pin_problem(props, found) or size_problem(props, found):
                raise WorkError(problem)
            blob.set_blob_metadata({**metadata, **claim})
    return "/".join(props[key] for key in _KEY), {**props, **found, **claim}


def read(props: Properties) -> Properties | None:
    """Return the resource as it is; None when the blob, or its account, is gone or was never finished."""
    with blob_errors(props), nothing_when_gone(), blob_client(props, props["blob"]) as blob:
        metadata = dict(blob.get_blob_properties().metadata or {})
        return {**props, **_found(blob, metadata)} if metadata.get("state") == "complete" else None
    return None


def update(olds: Properties, news: Properties) -> Properties:
    """Record the new address; the blob stays as it is."""
    return {**news, **{key: olds.get(key) for key in ("size", *FOUND, "claim")}}


def delete(props: Properties) -> None:
    """Delete the blob, unless something else claimed it since."""
    with blob_errors(props), nothing_when_gone(), blob_client(props, props["blob"]) as blob:
        if _metadata(blob).get("claim") == props.get("claim"):
            take_away(blob)
            blob.delete_blob(delete_snapshots="include")


def _metadata(blob: BlobClient) -> dict[str, str]:
    """Return what stands on the blob; nothing when it is not there."""
    with suppress(ResourceNotFoundError):
        return dict(blob.get_blob_properties().metadata or {})
    return {}


def _found(blob: BlobClient, metadata: dict[str, str]) -> Properties:
    return {"size": blob.get_blob_properties().size, **{key: metadata.get(key, "") for key in FOUND}}


def _upload(blob: BlobClient, props: Properties) -> dict[str, str]:
    try:
        return _upload_once(blob, props, go_on=True)
    except SourceChanged:
        return _upload_once(blob, props, go_on=False)


def _upload_once(blob: BlobClient, props: Properties, *, go_on: bool) -> dict[str, str]:
    with open_image(props) as image:
        vhd = vhd_of(image)
        pages = vhd.pages()
        # The first page is taken before the blob is made: what is no image at all leaves nothing behind.
        first = next(pages, None)
        if first is None:
            raise ImageError("the image holds nothing but zeros")
        marks = {"talos_version": props["talos_version"], "schematic": schematic_id(props["schematic"])}
        uploading = {**marks, "state": "uploading"}
        with suppress(ResourceExistsError):
            blob.create_page_blob(_FIRST_CAPACITY, metadata=uploading, match_condition=MatchConditions.IfMissing)
        with held(blob) as lease:
            found = _metadata(blob)
            if found.get("state") == "complete":  # by a run that was taken for dead
                return found
            try:
                if not go_on:
                    found = uploading
                _write(blob, lease, chain((first,), pages), uploading, _checkpoint(found))
                image.verify()
                blob.resize_blob(vhd.file_size, lease=lease)
                blob.upload_page(vhd.footer, offset=vhd.disk_size, length=SECTOR, lease=lease)
            except Interrupted:
                raise
            except ImageError:
                # Part of an image that is none is of no use. What was cut short otherwise is what the next run
                # goes on from.
                with suppress(AzureError):
                    blob.delete_blob(lease=lease)
                raise
            finished = {**marks, "state": "complete", "sha256": image.sha256, "asset": image.name}
            blob.set_blob_metadata(finished, lease=lease)
        return finished


def _write(
    blob: BlobClient,
    lease: BlobLeaseClient,
    pages: Iterator[Page],
    uploading: dict[str, str],
    resume: Checkpoint | None,
) -> None:
    # What an earlier run wrote above its checkpoint is cleared by this, or all of it where there is none.
    capacity = 0 if resume is None else resume.end
    blob.resize_blob(capacity, lease=lease)
    if resume is None:
        blob.set_blob_metadata(uploading, lease=lease)

    def grow(end: int) -> None:
        nonlocal capacity
        if end > capacity:
            while end > capacity:
                capacity = max(2 * capacity, _FIRST_CAPACITY)
            blob.resize_blob(capacity, lease=lease)

    def write(offset: int, data: bytes) -> None:
        blob.upload_page(data, offset=offset, length=len(data), lease=lease)

    def save(checkpoint: Checkpoint) -> None:
        progress = {"checkpoint_end": str(checkpoint.end), "checkpoint_sha256": checkpoint.digest}
        blob.set_blob_metadata({**uploading, **progress}, lease=lease)

    write_pages(pages, write, prepare=grow, resume=resume, save=save)


def _checkpoint(metadata: dict[str, str]) -> Checkpoint | None:
    end = metadata.get("checkpoint_end", "")
    if not end.isdecimal():
        return None
    return Checkpoint(int(end), metadata.get("checkpoint_sha256", ""))
