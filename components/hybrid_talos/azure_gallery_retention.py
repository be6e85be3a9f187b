"""The work of AzureGalleryRetention: versions, definitions and blobs that were stored for one component."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from azure.core.exceptions import ResourceNotFoundError
from azure.mgmt.compute import ComputeManagementClient
from azure.storage.blob import ContainerClient

from .azure_blob_client import blob_errors, container_client, nothing_when_gone, wait_for_role
from .azure_gallery_image import remove_empty_definition
from .azure_image_users import image_users
from .azure_resource_manager import (
    GALLERIES,
    MADE_TAG,
    OWNER_TAG,
    Properties,
    arm_errors,
    compute_client,
    found,
    has_tags,
    listed,
    parse_id,
    state_of,
)
from .blob_lease import take_away
from .image_retention import ImageStore, Retention, StoredImage

BLOB_TAG = "talos-blob"
"""Tag of a version: the blob that it was made of."""
_BLOB = "blob:"


def _images(props: Properties) -> list[StoredImage]:
    blobs = _blobs(props)
    with _gallery(props) as client:
        stored, needed = _stored(client, props)
    halves = [StoredImage(_BLOB + name, key, whole=False) for name, key in blobs.items() if name not in needed]
    return stored + halves


def _stored(client: ComputeManagementClient, props: Properties) -> tuple[list[StoredImage], set[str]]:
    """Return versions, and definitions that have none, and the blobs that belong to versions."""
    path = _path(props)
    stored: list[StoredImage] = []
    blobs: set[str] = set()
    for definition in listed(client.gallery_images.list_by_gallery, *path, **GALLERIES):
        if not has_tags(definition, {OWNER_TAG: props["owner"]}):
            continue
        name = definition["name"]
        versions = listed(client.gallery_image_versions.list_by_gallery_image, *path, name, **GALLERIES)
        if not versions:
            # It holds no image, but it is what the next one of the same name is made in.
            key = props["current"] if props["current"].startswith(f"{name}/") else name
            stored.append(StoredImage(definition["id"], key, whole=False))
        for version in versions:
            tags = version.get("tags") or {}
            if state_of(version) == "Deleting" or tags.get(OWNER_TAG) != props["owner"]:
                continue
            blobs.add(tags.get(BLOB_TAG, ""))
            whole = state_of(version) != "Failed"
            stored.append(StoredImage(version["id"], f"{name}/{version['name']}", tags.get(MADE_TAG, ""), whole))
    return stored, blobs


def _blobs(props: Properties) -> dict[str, str]:
    """Return the blobs of the container, each with its image's key where that is the current one."""
    with blob_errors(props):
        wait_for_role(props)
        with nothing_when_gone(), container_client(props) as container:
            names = [blob.name for blob in container.list_blobs()]
            return {name: props["current"] if name == props["current_blob"] else name for name in names}
    return {}


def _users(props: Properties, images: list[StoredImage]) -> Mapping[str, str]:
    with _gallery(props) as client:
        return image_users(client, _path(props)[0], [image.id for image in images if "/versions/" in image.id])


def _remove(props: Properties, image: StoredImage) -> None:
    if image.id.startswith(_BLOB):
        with blob_errors(props), container_client(props) as container:
            _remove_blob(container, image.id.removeprefix(_BLOB))
        return
    with _gallery(props) as client:
        group, gallery = _path(props)
        names = parse_id(image.id).names
        blob = ""
        if len(names) == 3:
            version = found(client.gallery_image_versions.get, group, *names, **GALLERIES)
            blob = ((version or {}).get("tags") or {}).get(BLOB_TAG, "")
            with suppress(ResourceNotFoundError):
                client.gallery_image_versions.begin_delete(group, *names, **GALLERIES).result()
        remove_empty_definition(client, group, gallery, names[1])
        _, needed = _stored(client, props)
    # That of the current image stays for a version that has to be made anew; a destroy takes it with its container.
    if blob and blob not in {*needed, props["current_blob"]}:
        with blob_errors(props), container_client(props) as container:
            _remove_blob(container, blob)


def _remove_blob(container: ContainerClient, name: str) -> None:
    with suppress(ResourceNotFoundError), container.get_blob_client(name) as blob:
        take_away(blob)
        blob.delete_blob(delete_snapshots="include")


def _path(props: Properties) -> tuple[str, str]:
    identity = parse_id(props["gallery_id"])
    return identity.resource_group, identity.names[0]


@contextmanager
def _gallery(props: Properties) -> Iterator[ComputeManagementClient]:
    identity = parse_id(props["gallery_id"])
    with arm_errors(f"gallery {identity.names[0]}"), compute_client(props, identity.subscription) as client:
        yield client


_RETENTION = Retention(ImageStore(("gallery_id", "account", "container", "owner"), _images, _users, _remove))
check, diff, create = _RETENTION.check, _RETENTION.diff, _RETENTION.create
read, update, delete = _RETENTION.read, _RETENTION.update, _RETENTION.delete
