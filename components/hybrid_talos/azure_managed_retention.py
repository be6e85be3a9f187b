"""The work of AzureManagedRetention: managed images, and upload disks that a killed run left, of one component."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from azure.core.exceptions import ResourceNotFoundError
from azure.mgmt.compute import ComputeManagementClient

from .azure_image_users import image_users
from .azure_managed_image import IMAGE_TAG, discard_disk
from .azure_resource_manager import (
    DISKS,
    MACHINES,
    MADE_TAG,
    OWNER_TAG,
    Properties,
    arm_errors,
    compute_client,
    has_tags,
    listed,
    parse_id,
    state_of,
)
from .image_retention import ImageStore, Retention, StoredImage


def _images(props: Properties) -> list[StoredImage]:
    mine = {OWNER_TAG: props["owner"]}
    with _group(props) as client:
        images = listed(client.images.list_by_resource_group, props["resource_group"], **MACHINES)
        disks = listed(client.disks.list_by_resource_group, props["resource_group"], **DISKS)
    stored = [
        StoredImage(image["id"], image["name"], image["tags"].get(MADE_TAG, ""), state_of(image) != "Failed")
        for image in images
        if has_tags(image, mine) and state_of(image) != "Deleting"
    ]
    return stored + [
        StoredImage(disk["id"], disk["tags"].get(IMAGE_TAG, disk["name"]), whole=False)
        for disk in disks
        if has_tags(disk, mine)
    ]


def _users(props: Properties, images: list[StoredImage]) -> Mapping[str, str]:
    with _group(props) as client:
        return image_users(client, props["resource_group"], [image.id for image in images])


def _remove(props: Properties, image: StoredImage) -> None:
    name = parse_id(image.id).names[0]
    with _group(props) as client:
        if "/disks/" in image.id:
            discard_disk(client, props["resource_group"], name)
            return
        with suppress(ResourceNotFoundError):
            client.images.begin_delete(props["resource_group"], name, **MACHINES).result()


@contextmanager
def _group(props: Properties) -> Iterator[ComputeManagementClient]:
    where = f"images in resource group {props['resource_group']}"
    with arm_errors(where), compute_client(props, props["subscription_id"]) as client:
        yield client


_RETENTION = Retention(ImageStore(("subscription_id", "resource_group", "owner"), _images, _users, _remove))
check, diff, create = _RETENTION.check, _RETENTION.diff, _RETENTION.create
read, update, delete = _RETENTION.read, _RETENTION.update, _RETENTION.delete
