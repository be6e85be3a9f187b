"""Custom resources that make a machine image on Azure, and that clean up after images that nothing uses any more.

The providers here are shells whose module and names stand in every state that has one: they are never
renamed or moved, and hold no code (docs/adr/0001-custom-resources.md). This module is imported by Pulumi's dynamic
provider and must stay light.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, NotRequired, TypedDict

import pulumi
from pulumi import dynamic

from .image_upload import ImageSource
from .work_provider import WorkProvider


class AzureAccess(TypedDict):
    """How Azure is reached; what is left out is the public cloud's own."""

    environment: NotRequired[str | None]
    """Which of Microsoft's clouds."""
    resource_manager: NotRequired[str | None]
    """Address of Azure Resource Manager."""
    authority: NotRequired[str | None]
    """Host that gives tokens."""


class AzureGalleryImageProvider(WorkProvider):
    """Shell of AzureGalleryImage."""

    work: ClassVar[str] = "azure_gallery_image"


class AzureManagedImageProvider(WorkProvider):
    """Shell of AzureManagedImage."""

    work: ClassVar[str] = "azure_managed_image"


class AzureGalleryRetentionProvider(WorkProvider):
    """Shell of AzureGalleryRetention."""

    work: ClassVar[str] = "azure_gallery_retention"


class AzureManagedRetentionProvider(WorkProvider):
    """Shell of AzureManagedRetention."""

    work: ClassVar[str] = "azure_managed_retention"


class AzureGalleryImage(dynamic.Resource, module="image", name="AzureGalleryImage"):
    """One version of an image in a gallery, with its definition. Named for its content."""

    image_id: pulumi.Output[str]
    """Id of the version, which pools boot from."""

    def __init__(
        self,
        name: str,
        *,
        gallery_id: pulumi.Input[str],
        location: str,
        definition: str,
        version: str,
        architecture: str,
        features: Mapping[str, str],
        storage_account_id: pulumi.Input[str],
        blob_uri: pulumi.Input[str],
        regions: Sequence[str],
        tags: pulumi.Input[Mapping[str, str]],
        source: ImageSource,
        signing_certificate: str | None,
        access: AzureAccess,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Make ``version`` of ``definition`` of the VHD at ``blob_uri``, and copy it to ``regions``.

        An image for Secure Boot needs ``signing_certificate``, or that of the factory in ``source``.
        """
        props = {
            "gallery_id": gallery_id,
            "location": location,
            "definition": definition,
            "version": version,
            "architecture": architecture,
            "features": dict(features),
            "storage_account_id": storage_account_id,
            "blob_uri": blob_uri,
            "regions": list(regions),
            "tags": tags,
            "secure_boot": source["secure_boot"],
            "factory_url": source["factory_url"],
            "factory_ca": source.get("factory_ca"),
            "proxy": source.get("proxy"),
            "signing_certificate": signing_certificate,
            **access,
            "image_id": None,
        }
        super().__init__(AzureGalleryImageProvider(), name, props, opts)


class AzureManagedImage(dynamic.Resource, module="image", name="AzureManagedImage"):
    """A managed image, made of a disk that is written page by page and deleted afterwards. Named for its content."""

    image_id: pulumi.Output[str]
    """Id of the image, which pools boot from."""
    asset: pulumi.Output[str]
    """File name of the asset that the image came from."""
    sha256: pulumi.Output[str]
    """SHA-256 of what was downloaded, packed as it came."""

    def __init__(
        self,
        name: str,
        *,
        subscription_id: pulumi.Input[str],
        resource_group: pulumi.Input[str],
        location: str,
        image: str,
        source: ImageSource,
        tags: pulumi.Input[Mapping[str, str]],
        access: AzureAccess,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Make ``image`` of ``source``."""
        props = {
            **source,
            "subscription_id": subscription_id,
            "resource_group": resource_group,
            "location": location,
            "image": image,
            "disk": f"{image}-upload",
            "tags": tags,
            **access,
            "image_id": None,
            "asset": None,
            "sha256": None,
        }
        super().__init__(AzureManagedImageProvider(), name, props, opts)


class AzureGalleryRetention(dynamic.Resource, module="image", name="AzureGalleryRetention"):
    """Deletes versions, and what they were made of, that nothing uses and that are beyond the retention."""

    removable: pulumi.Output[Sequence[str]]
    """What the next update deletes."""

    def __init__(
        self,
        name: str,
        *,
        gallery_id: pulumi.Input[str],
        account: pulumi.Input[str],
        container: pulumi.Input[str],
        endpoint: pulumi.Input[str],
        owner: pulumi.Input[str],
        current: str,
        current_blob: str,
        retain: int,
        role_is_new: bool,
        access: AzureAccess,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Keep ``current``, and ``retain`` older images that ``owner`` tags as its own."""
        props = {
            "gallery_id": gallery_id,
            "account": account,
            "container": container,
            "endpoint": endpoint,
            "owner": owner,
            "current": current,
            "current_blob": current_blob,
            "retain": retain,
            "role_is_new": role_is_new,
            **access,
            "removable": None,
        }
        super().__init__(AzureGalleryRetentionProvider(), name, props, opts)


class AzureManagedRetention(dynamic.Resource, module="image", name="AzureManagedRetention"):
    """Deletes managed images, and disks that were left, that nothing uses and that are beyond the retention."""

    removable: pulumi.Output[Sequence[str]]
    """What the next update deletes."""

    def __init__(
        self,
        name: str,
        *,
        subscription_id: pulumi.Input[str],
        resource_group: pulumi.Input[str],
        owner: pulumi.Input[str],
        current: str,
        retain: int,
        access: AzureAccess,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Keep ``current``, and ``retain`` older images that ``owner`` tags as its own."""
        props = {
            "subscription_id": subscription_id,
            "resource_group": resource_group,
            "owner": owner,
            "current": current,
            "retain": retain,
            **access,
            "removable": None,
        }
        super().__init__(AzureManagedRetentionProvider(), name, props, opts)
