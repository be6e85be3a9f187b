"""The work of AzureManagedImage: a disk that is filled through a short-lived write grant, and a managed image of it.

Disk, grant, upload, revocation and image are one resource, so that no step can be left without the one that cleans
up after it. The disk is only the way: it is deleted when the image is there. What a killed run leaves is found by
its name at the next one: a grant is revoked before anything else, a disk that was not filled to its end is made anew
(Azure shows nobody what is in it), and a full one becomes the image without a second upload.

The address that the grant gives opens the disk for whoever has it. It stays in this process: it is in no state, no
message and no argument.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError
from azure.mgmt.compute import ComputeManagementClient
from azure.storage.blob import BlobClient
from pulumi.dynamic import DiffResult

from .azure_blob_client import code_of
from .azure_resource_manager import (
    DISKS,
    MACHINES,
    MADE_TAG,
    Properties,
    arm_errors,
    check_address,
    compute_client,
    found,
    has_tags,
    not_ours,
    settled,
    state_of,
    wait,
)
from .disk_image import MIB, SECTOR, SMALLEST_VHD
from .engine_log import engine_sender
from .image_assets import DiskFormat
from .image_download import Image
from .image_size import unpacked_size
from .image_source import diff_of, open_image, pin_problem, vhd_of
from .image_stream import ImageError
from .page_writer import write_pages
from .work_provider import WorkError

_KEY = ("subscription_id", "resource_group", "image")
_IN_PLACE = ("tags", "resource_manager", "authority", "environment")
_CONTENT = ("talos-version", "talos-content")
# Long enough for a slow line; it is revoked as soon as the last page is in.
_GRANT_SECONDS = 4 * 3600
_LIMIT_SECONDS = 3600
_RETRIES = 5
UPLOAD_STATES = frozenset({"ReadyToUpload", "ActiveUpload"})
"""States of a disk that takes an upload; ActiveUpload has an open grant."""
IMAGE_TAG = "talos-image"
"""Tag of an upload disk: the image that it is for."""
_SHA_TAG = "talos-sha256"
_ASSET_TAG = "talos-asset"
_FULL_TAG = "talos-upload"


class _OtherSize(Exception):
    """The image is not as large as it said."""


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    return check_address(news)


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Another name is another image; tags change in place."""
    return diff_of(_KEY, _IN_PLACE, olds, news)


def create(props: Properties) -> tuple[str, Properties]:
    """Make the image, or adopt it, and leave no disk behind."""
    with _opened(props) as made:
        image = settled(made.image, made.where)
        if image is not None and state_of(image) == "Failed":
            made.remove_image()
            image = None
        if image is not None:
            made.verify_content(image)
            image = made.tagged(image)
        else:
            image = made.make()
        made.discard_disk()
        return image["id"], {**props, **_found(image)}


def read(props: Properties) -> Properties | None:
    """Return the resource as it is; None when the image is gone or was never finished."""
    with _opened(props) as made:
        image = made.image()
        if image is None or state_of(image) != "Succeeded":
            return None
        return {**props, **_found(image)}


def update(_olds: Properties, news: Properties) -> Properties:
    """Write the tags."""
    with _opened(news) as made:
        image = made.image()
        if image is None:
            raise WorkError(f"{made.where} is gone; run `pulumi up` with --refresh")
        return {**news, **_found(made.tagged(image))}


def delete(props: Properties) -> None:
    """Delete the image, and a disk that was left."""
    with _opened(props) as made:
        made.discard_disk()
        made.remove_image()


def discard_disk(client: ComputeManagementClient, group: str, name: str) -> None:
    """Revoke what opens an upload disk and delete it; one that is gone already is no error."""
    disk = found(client.disks.get, group, name, **DISKS)
    if disk is None:
        return
    if disk["properties"].get("diskState") in UPLOAD_STATES:
        revoke(client, group, name)
    with suppress(ResourceNotFoundError):
        client.disks.begin_delete(group, name, **DISKS).result()


def revoke(client: ComputeManagementClient, group: str, name: str) -> None:
    """Close every grant of a disk."""
    with suppress(ResourceNotFoundError):
        client.disks.begin_revoke_access(group, name, **DISKS).result()


def _found(image: Properties) -> Properties:
    tags = image.get("tags") or {}
    return {"image_id": image["id"], "sha256": tags.get(_SHA_TAG, ""), "asset": tags.get(_ASSET_TAG, "")}


@contextmanager
def _opened(props: Properties) -> Iterator["_Made"]:
    where = f"image {props['image']} in resource group {props['resource_group']}"
    with arm_errors(where), compute_client(props, props["subscription_id"]) as client:
        yield _Made(client, where, props)


class _Made:
    """The image that the inputs name, and the disk it is made of."""

    def __init__(self, client: ComputeManagementClient, where: str, props: Properties) -> None:
        self.client = client
        self.where = where
        self.path = (props["resource_group"], props["image"])
        self._disk = (props["resource_group"], props["disk"])
        self._props = props

    def image(self) -> Properties | None:
        """Return the image as Azure has it."""
        return found(self.client.images.get, *self.path, **MACHINES)

    def remove_image(self) -> None:
        """Delete the image; one that is gone already is no error."""
        with suppress(ResourceNotFoundError):
            self.client.images.begin_delete(*self.path, **MACHINES).result()

    def verify_content(self, image: Properties) -> None:
        """Raise WorkError unless the image is of the content that is wanted."""
        if not has_tags(image, content := {key: self._props["tags"][key] for key in _CONTENT}):
            raise WorkError(not_ours(self.where, content))
        if problem := pin_problem(self._props, _found(image)):
            raise WorkError(problem)

    def tagged(self, image: Properties) -> Properties:
        """Return the image with the tags that are wanted, beside those that it has."""
        if has_tags(image, self._props["tags"]):
            return image
        tags = {**(image.get("tags") or {}), **self._props["tags"]}
        self.client.images.begin_update(*self.path, {"tags": tags}, **MACHINES).result()
        return {**image, "tags": tags}

    def make(self) -> Properties:
        """Make the image of the disk, which is filled first unless an earlier run did it to the end."""
        disk = found(self.client.disks.get, *self._disk, **DISKS)
        if (
            disk is None
            or disk["properties"].get("diskState") != "Unattached"
            or not has_tags(disk, {_FULL_TAG: "full"})
        ):
            self.discard_disk()
            disk = self._filled_disk()
        elif problem := pin_problem(self._props, _found(disk)):
            self.discard_disk()
            raise WorkError(problem)
        tags = {key: value for key, value in (disk.get("tags") or {}).items() if key in (_SHA_TAG, _ASSET_TAG)}
        os_disk = {
            "osType": "Linux",
            "osState": "Generalized",
            "managedDisk": {"id": disk["id"]},
            "caching": "ReadOnly",
        }
        wanted = {
            "location": self._props["location"],
            "tags": {**self._props["tags"], **tags, MADE_TAG: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")},
            "properties": {
                "hyperVGeneration": "V2",
                "storageProfile": {"osDisk": {**os_disk, "storageAccountType": "Standard_LRS"}},
            },
        }
        say = engine_sender()
        poller = self.client.images.begin_create_or_update(*self.path, wanted, **MACHINES)
        wait(poller, lambda s: say(f"{self.where}: Azure makes it of the disk ({s:.0f} s)"), _LIMIT_SECONDS, self.where)
        image = self.image()
        if image is None or state_of(image) != "Succeeded":
            raise WorkError(f"{self.where}: Azure did not finish it; run `pulumi up` again")
        return image

    def discard_disk(self) -> None:
        """Leave no disk and no grant behind."""
        discard_disk(self.client, *self._disk)

    def _filled_disk(self) -> Properties:
        try:
            with open_image(self._props) as image:
                return self._fill(image, _size_of(image))
        except _OtherSize:
            # The image's own word was wrong, or it says nothing: it is unpacked once to be measured.
            with open_image(self._props) as image:
                size = _measured(image)
            with open_image(self._props) as image:
                return self._fill(image, size)

    def _fill(self, image: Image, size: int | None) -> Properties:
        if size is None or size < SMALLEST_VHD or size % MIB != SECTOR:
            raise _OtherSize
        image.check_size(size - SECTOR)
        vhd = vhd_of(image)
        pages = vhd.pages()
        # The first page is taken before the disk is made: what is no image at all leaves nothing behind.
        first = next(pages, None)
        if first is None:
            raise ImageError("the image holds nothing but zeros")
        self._make_disk(size)
        try:
            with self._granted() as address, _page_blob(address) as blob:

                def rest() -> Iterator[tuple[int, bytes]]:
                    yield first
                    for offset, data in pages:
                        if offset + len(data) > size - SECTOR:
                            raise _OtherSize
                        yield offset, data

                write = functools.partial(_write, blob)
                write_pages(rest(), write)
                image.verify()
                if vhd.file_size != size:
                    raise _OtherSize
                write(vhd.disk_size, vhd.footer)
        except BaseException:
            # When this fails too, the next run does it.
            with suppress(AzureError):
                self.discard_disk()
            raise
        tags = {**self._disk_tags(), _FULL_TAG: "full", _SHA_TAG: image.sha256, _ASSET_TAG: image.name}
        self.client.disks.begin_update(*self._disk, {"tags": tags}, **DISKS).result()
        disk = found(self.client.disks.get, *self._disk, **DISKS)
        if disk is None or disk["properties"].get("diskState") != "Unattached":
            raise WorkError(f"{self.where}: the disk did not leave its upload state; run `pulumi up` again")
        return disk

    def _make_disk(self, size: int) -> None:
        wanted = {
            "location": self._props["location"],
            "sku": {"name": "Standard_LRS"},
            "tags": self._disk_tags(),
            "properties": {
                "osType": "Linux",
                "hyperVGeneration": "V2",
                "supportedCapabilities": {"architecture": "x64"},
                "creationData": {"createOption": "Upload", "uploadSizeBytes": size},
            },
        }
        self.client.disks.begin_create_or_update(*self._disk, wanted, **DISKS).result()

    def _disk_tags(self) -> dict[str, str]:
        return {**self._props["tags"], IMAGE_TAG: self._props["image"]}

    @contextmanager
    def _granted(self) -> Iterator[str]:
        """Open the disk for writing, and close it again whatever happens."""
        try:
            wish = {"access": "Write", "durationInSeconds": _GRANT_SECONDS}
            grant = self.client.disks.begin_grant_access(*self._disk, wish, **DISKS).result()
            yield str(grant.access_sas)
        finally:
            revoke(self.client, *self._disk)


@contextmanager
def _page_blob(address: str) -> Iterator[BlobClient]:
    """Open the disk at the address that the grant gave. No error that leaves here holds that address."""
    try:
        with BlobClient.from_blob_url(address, initial_backoff=2, retry_total=_RETRIES) as blob:
            yield blob
    except HttpResponseError as error:
        raise WorkError(f"the upload disk refused a page ({code_of(error)}); run `pulumi up` again") from None
    except AzureError as error:
        raise WorkError(
            f"the connection to the upload disk broke ({type(error).__name__}); run `pulumi up` again"
        ) from None


def _write(blob: BlobClient, offset: int, data: bytes) -> None:
    blob.upload_page(data, offset=offset, length=len(data))


def _size_of(image: Image) -> int | None:
    """Return the bytes of the VHD, as far as the image tells before it is unpacked."""
    if image.disk_format is DiskFormat.QCOW2:
        return None
    size = unpacked_size(image.compression, image.total, image.read_range)
    return size if size is None or image.disk_format is DiskFormat.VHD else _vhd_size(size)


def _vhd_size(disk: int) -> int:
    return -(-disk // MIB) * MIB + SECTOR


def _measured(image: Image) -> int:
    vhd = vhd_of(image)
    for _ in vhd.pages():
        pass
    return vhd.file_size
