"""The work of AzureGalleryImage: an image definition and one version of it, made of a VHD in a page blob.

A version that is there already, made for the same component of the same content, is adopted: after a run that was
killed while Azure copied it, and when pools move back to an image that the retention kept.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from azure.core.exceptions import ResourceNotFoundError
from azure.mgmt.compute import ComputeManagementClient
from pulumi.dynamic import DiffResult

from .azure_resource_manager import (
    GALLERIES,
    MADE_TAG,
    OWNER_TAG,
    Properties,
    arm_errors,
    check_address,
    compute_client,
    found,
    has_tags,
    listed,
    not_ours,
    parse_id,
    settled,
    state_of,
    wait,
)
from .engine_log import engine_sender
from .signing_certificate import signing_certificate
from .work_provider import WorkError, changed

_KEY = ("gallery_id", "definition", "version")
_IN_PLACE = ("regions", "tags", "resource_manager", "authority", "environment")
_CONTENT = ("talos-version", "talos-content", "talos-blob")
# Copies to other regions take from minutes to more than an hour.
_LIMIT_SECONDS = 3 * 3600


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    return check_address(news)


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Another name is another image; regions and tags change in place."""
    replaces = [name for name in _KEY if changed(name, olds, news)]
    moved = any(changed(name, olds, news) for name in _IN_PLACE)
    return DiffResult(changes=bool(replaces) or moved, replaces=replaces)


def create(props: Properties) -> tuple[str, Properties]:
    """Make the definition and the version, or adopt them."""
    with _opened(props) as gallery:
        gallery.define()
        version = settled(gallery.version, gallery.where, _LIMIT_SECONDS)
        if version is not None and state_of(version) == "Failed":
            # What failed takes no second try under its name.
            gallery.remove_version()
            version = None
        if version is None:
            version = gallery.make()
        elif not has_tags(version, content := {key: props["tags"][key] for key in _CONTENT}):
            raise WorkError(not_ours(gallery.where, content))
        else:
            version = gallery.adjusted(version)
        return version["id"], {**props, "image_id": version["id"]}


def read(props: Properties) -> Properties | None:
    """Return the resource as it is; None when the version is gone or was never made."""
    with _opened(props) as gallery:
        version = gallery.version()
        if version is None or state_of(version) == "Failed":
            return None
        regions = _regions(version)
        same = sorted(regions) == sorted(props["regions"])
        return {**props, "regions": props["regions"] if same else regions, "image_id": version["id"]}


def update(_olds: Properties, news: Properties) -> Properties:
    """Bring regions and tags to what is wanted."""
    with _opened(news) as gallery:
        version = settled(gallery.version, gallery.where, _LIMIT_SECONDS)
        if version is None:
            raise WorkError(f"{gallery.where} is gone; run `pulumi up` with --refresh")
        return {**news, "image_id": gallery.adjusted(version)["id"]}


def delete(props: Properties) -> None:
    """Delete the version, and the definition when nothing else is in it."""
    with _opened(props) as gallery:
        gallery.remove_version()
        remove_empty_definition(gallery.client, *gallery.path[:3])


def remove_empty_definition(client: ComputeManagementClient, group: str, gallery: str, definition: str) -> None:
    """Delete an image definition unless a version is in it; one that is gone already is no error."""
    if not listed(client.gallery_image_versions.list_by_gallery_image, group, gallery, definition, **GALLERIES):
        with suppress(ResourceNotFoundError):
            client.gallery_images.begin_delete(group, gallery, definition, **GALLERIES).result()


@contextmanager
def _opened(props: Properties) -> Iterator["_Gallery"]:
    identity = parse_id(props["gallery_id"])
    path = (identity.resource_group, identity.names[0], props["definition"], props["version"])
    where = f"image {path[2]}/{path[3]} in gallery {path[1]}"
    with arm_errors(where), compute_client(props, identity.subscription) as client:
        yield _Gallery(client, path, where, props)


class _Gallery:
    """One version in the gallery that the inputs name."""

    def __init__(
        self, client: ComputeManagementClient, path: tuple[str, str, str, str], where: str, props: Properties
    ) -> None:
        self.client = client
        self.path = path
        self.where = where
        self._props = props

    def define(self) -> None:
        """Make the definition; one that is there must be of the same kind, which Azure cannot change."""
        props, group, gallery, name = self._props, *self.path[:3]
        kind = {
            "osType": "Linux",
            "osState": "Generalized",
            "hyperVGeneration": "V2",
            "architecture": props["architecture"],
        }
        there = found(self.client.gallery_images.get, group, gallery, name, **GALLERIES)
        if there is None:
            wanted = {
                "location": props["location"],
                "tags": props["tags"],
                "properties": {
                    **kind,
                    "identifier": {"publisher": "hybrid-talos", "offer": "talos", "sku": name},
                    "features": [{"name": key, "value": value} for key, value in sorted(props["features"].items())],
                },
            }
            self.client.gallery_images.begin_create_or_update(group, gallery, name, wanted, **GALLERIES).result()
        elif other := [key for key, value in kind.items() if there["properties"].get(key) != value]:
            raise WorkError(f"image definition {name} in gallery {gallery} exists with another {other[0]}; delete it")
        elif not has_tags(there, owner := {OWNER_TAG: props["tags"][OWNER_TAG]}):
            # A person made it. From now on it is the retention's, as what is in it.
            tags = {**(there.get("tags") or {}), **owner}
            self.client.gallery_images.begin_update(group, gallery, name, {"tags": tags}, **GALLERIES).result()

    def version(self) -> Properties | None:
        """Return the version as Azure has it."""
        return found(self.client.gallery_image_versions.get, *self.path, **GALLERIES)

    def make(self) -> Properties:
        """Make the version of the blob."""
        props = self._props
        source = {"storageAccountId": props["storage_account_id"], "uri": props["blob_uri"]}
        wanted: Properties = {
            "location": props["location"],
            "tags": {**props["tags"], MADE_TAG: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")},
            "properties": {
                "storageProfile": {"osDiskImage": {"hostCaching": "ReadOnly", "source": source}},
                "publishingProfile": self._publishing(),
                # Lets a region be taken out of the list again.
                "safetyProfile": {"allowDeletionOfReplicatedLocations": True},
            },
        }
        if props.get("secure_boot"):
            wanted["properties"]["securityProfile"] = {"uefiSettings": _trusting(signing_certificate(props))}
        poller = self.client.gallery_image_versions.begin_create_or_update(*self.path, wanted, **GALLERIES)
        return self._finished(poller)

    def adjusted(self, version: Properties) -> Properties:
        """Return the version with the regions and tags that are wanted."""
        props = self._props
        if sorted(_regions(version)) == sorted(props["regions"]) and has_tags(version, props["tags"]):
            return version
        tags = {**(version.get("tags") or {}), **props["tags"]}
        wanted = {"tags": tags, "properties": {"publishingProfile": self._publishing()}}
        return self._finished(self.client.gallery_image_versions.begin_update(*self.path, wanted, **GALLERIES))

    def remove_version(self) -> None:
        """Delete the version; one that is gone already is no error."""
        with suppress(ResourceNotFoundError):
            self.client.gallery_image_versions.begin_delete(*self.path, **GALLERIES).result()

    def _publishing(self) -> Properties:
        targets = [{"name": region, "regionalReplicaCount": 1} for region in self._props["regions"]]
        return {"targetRegions": targets, "storageAccountType": "Standard_LRS"}

    def _finished(self, poller: Any) -> Properties:
        say = engine_sender()
        wait(
            poller, lambda seconds: say(f"{self.where}: Azure copies it ({seconds:.0f} s)"), _LIMIT_SECONDS, self.where
        )
        version = self.version()
        if version is None or state_of(version) != "Succeeded":
            raise WorkError(f"{self.where}: Azure did not finish it; run `pulumi up` again")
        return version


def _trusting(certificate: str) -> Properties:
    """Return the keys of the machines' firmware: Microsoft's own, and the one that Talos is signed with."""
    return {
        "signatureTemplateNames": ["MicrosoftUefiCertificateAuthorityTemplate"],
        "additionalSignatures": {"db": [{"type": "x509", "value": [certificate]}]},
    }


def _regions(version: Properties) -> list[str]:
    targets = version["properties"].get("publishingProfile", {}).get("targetRegions") or ()
    return [target["name"].replace(" ", "").lower() for target in targets]
