"""The Azure half of TalosImage: a private storage account, the uploaded VHD, and a gallery version of it."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_azure_native as azure
from pydantic import Field

from ._contract import Shape
from .image_assets import content_name
from .image_upload import AzurePageBlob, ImageSource
from .schematic import schematic_id

# learn.microsoft.com, Azure built-in roles: Storage Blob Data Contributor.
_BLOB_DATA_CONTRIBUTOR = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
_CONTAINER = "images"


class PrincipalType(StrEnum):
    """What kind of identity a role is given to."""

    SERVICE_PRINCIPAL = "ServicePrincipal"
    """An application or a managed identity, as in a pipeline."""
    USER = "User"
    """A person."""
    GROUP = "Group"
    """A group of either."""


class AzureEndpoints(TypedDict):
    """Where Azure is reached, for national clouds and for private endpoints."""

    blob: NotRequired[str]
    """Blob endpoint, with `{account}` in place of the storage account's name. Default: what the account says."""
    authority: NotRequired[str]
    """Host that gives tokens, such as `login.chinacloudapi.cn`. Default: that of the Azure public cloud."""


class AzureImageArgs(TypedDict):
    """Where the image of an Azure pool is kept."""

    resource_group_name: pulumi.Input[str]
    """Resource group for the storage account and the gallery."""
    location: str
    """Region of both, such as `westeurope`."""
    replica_regions: NotRequired[Sequence[str]]
    """More regions whose pools boot this image. Default: none."""
    uploader_principal_id: NotRequired[pulumi.Input[str]]
    """Object id of the identity that runs Pulumi: it is given the right to write blobs in the account. Left
    out, that right must be there already."""
    uploader_principal_type: NotRequired[PrincipalType]
    """Kind of that identity. Default: a service principal."""
    endpoints: NotRequired[AzureEndpoints]
    """Addresses that are not those of the Azure public cloud."""
    tags: NotRequired[pulumi.Input[Mapping[str, pulumi.Input[str]]]]
    """Tags for every resource."""


class EndpointsShape(Shape):
    """Plain half of AzureEndpoints."""

    blob: str | None = Field(default=None, pattern=r"^https://")
    authority: str | None = Field(default=None, pattern=r"^[A-Za-z0-9.:-]+$")


class AzureShape(Shape):
    """Plain half of AzureImageArgs; the fields of type Any are Inputs, which are not looked at."""

    resource_group_name: Any
    location: str = Field(min_length=1)
    replica_regions: tuple[str, ...] = ()
    uploader_principal_id: Any = None
    uploader_principal_type: PrincipalType = PrincipalType.SERVICE_PRINCIPAL
    endpoints: EndpointsShape = EndpointsShape()
    tags: Any = None


def region_key(location: str) -> str:
    """Return the one spelling of a region: `West Europe` and `westeurope` are the same."""
    return location.replace(" ", "").lower()


def short_hash(text: str, length: int) -> str:
    """Return the first hexadecimal digits of a digest, for names that must be unique and legal."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def gallery_name(name: str, resource_group: str) -> str:
    """Return a name for the gallery: letters, digits and underscores, unique in the subscription.

    Gallery names are unique per subscription and take no hyphens (learn.microsoft.com, Azure Compute Gallery).
    """
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40]
    return f"talos_{slug}_{short_hash(f'{resource_group.lower()}/{name}', 8)}"


def account_name(gallery_id: str) -> str:
    """Return a name for the storage account: 24 lower-case letters and digits, unique in all of Azure.

    The id of the gallery holds subscription, resource group and gallery, so that two clusters never ask for
    the same name, and one cluster always asks for the same.
    """
    return f"talos{short_hash(gallery_id.lower(), 19)}"


def definition_name(arch: str, content: str, version: str, *, secure_boot: bool = False) -> str:
    """Return the image definition: one for each schematic or image file, and one for each pre-release.

    A version inside of it must be three numbers, and says the Talos release; `-rc.1` is not legal there.
    """
    stage = version.partition("-")[2]
    return f"talos-{arch}{'-secureboot' if secure_boot else ''}-{content[:12]}{'-' + stage if stage else ''}"


def build_azure_image(
    name: str, shape: AzureShape, arch: str, source: ImageSource, parent: pulumi.Resource
) -> pulumi.Output[str]:
    """Declare the image's resources and return the id of the gallery image version."""
    child = pulumi.ResourceOptions(parent=parent)
    schematic, version = schematic_id(source["schematic"]), source["talos_version"].removeprefix("v")
    definition = definition_name(arch, source["content"], version, secure_boot=source["secure_boot"])
    tags = pulumi.Output.from_input(shape.tags or {}).apply(
        lambda given: {**given, "talos-version": version, "talos-schematic": schematic}
    )
    group = pulumi.Output.from_input(shape.resource_group_name)
    place: dict[str, Any] = {"resource_group_name": group, "location": shape.location, "tags": tags}

    gallery = azure.compute.Gallery(
        f"{name}-gallery", gallery_name=group.apply(lambda rg: gallery_name(name, rg)), opts=child, **place
    )
    account = azure.storage.StorageAccount(
        f"{name}-account",
        account_name=gallery.id.apply(account_name),
        kind=azure.storage.Kind.STORAGE_V2,
        sku={"name": azure.storage.SkuName.STANDARD_LRS},
        # Nothing but a token opens the account, and no blob in it can be made public.
        allow_blob_public_access=False,
        allow_shared_key_access=False,
        enable_https_traffic_only=True,
        minimum_tls_version=azure.storage.MinimumTlsVersion.TLS1_2,
        opts=child,
        **place,
    )
    container = azure.storage.BlobContainer(
        f"{name}-container",
        account_name=account.name,
        container_name=_CONTAINER,
        public_access=azure.storage.PublicAccess.NONE,
        resource_group_name=group,
        opts=child,
    )
    uploaded = AzurePageBlob(
        f"{name}-upload",
        account=account.name,
        container=container.name,
        # The name says all that the content depends on, so that other content is another blob.
        blob=f"{content_name('azure', arch, version, source['content'], secure_boot=source['secure_boot'])}.vhd",
        endpoint=shape.endpoints.blob or account.primary_endpoints.apply(lambda found: found["blob"]),
        authority=shape.endpoints.authority,
        source=source,
        role_is_new=shape.uploader_principal_id is not None,
        opts=pulumi.ResourceOptions.merge(
            child,
            # The role is not an input of the upload, but nothing can be written, or deleted, without it.
            pulumi.ResourceOptions(depends_on=_uploader_role(name, shape, account, child)),
        ),
    )
    image_definition = azure.compute.GalleryImage(
        f"{name}-definition",
        gallery_name=gallery.name,
        gallery_image_name=definition,
        identifier={
            "publisher": "hybrid-talos",
            "offer": "talos",
            "sku": definition,
        },
        os_type=azure.compute.OperatingSystemTypes.LINUX,
        os_state=azure.compute.OperatingSystemStateTypes.GENERALIZED,
        architecture="Arm64" if arch == "arm64" else "x64",
        hyper_v_generation=azure.compute.HyperVGeneration.V2,
        # Sizes from v6 on attach disks by NVMe only, and refuse images that do not say they can (Talos can).
        features=[{"name": "DiskControllerTypes", "value": "SCSI, NVMe"}],
        opts=child,
        **place,
    )
    image = azure.compute.GalleryImageVersion(
        f"{name}-version",
        gallery_name=gallery.name,
        gallery_image_name=image_definition.name,
        gallery_image_version_name=version.partition("-")[0],
        storage_profile={
            "os_disk_image": {
                "host_caching": azure.compute.HostCaching.READ_ONLY,
                "source": {
                    "storage_account_id": account.id,
                    # The account's own address, whatever way the upload took: Azure reads it, not we.
                    "uri": pulumi.Output.all(account.primary_endpoints, container.name, uploaded.blob).apply(
                        lambda parts: f"{parts[0]['blob']}{parts[1]}/{parts[2]}"
                    ),
                },
            }
        },
        publishing_profile={
            "target_regions": [{"name": region, "regional_replica_count": 1} for region in image_regions(shape)],
            "storage_account_type": azure.compute.StorageAccountType.STANDARD_LRS,
        },
        # Lets a region be taken out of replica_regions again.
        safety_profile={"allow_deletion_of_replicated_locations": True},
        # Another schematic or release is another name: the new version is made, the pools move to it, and only
        # then is the old one deleted. That order is the engine's own, so nothing is retained or protected here.
        opts=pulumi.ResourceOptions.merge(
            child,
            # Copies to other regions may take longer than the provider waits by default.
            pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create="3h", update="3h")),
        ),
        **place,
    )
    image_id: pulumi.Output[str] = image.id
    return image_id


def image_regions(shape: AzureShape) -> tuple[str, ...]:
    """Return every region that the image can be booted in, in one spelling."""
    return tuple(dict.fromkeys(region_key(region) for region in (shape.location, *shape.replica_regions)))


def _uploader_role(
    name: str,
    shape: AzureShape,
    account: azure.storage.StorageAccount,
    child: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    if shape.uploader_principal_id is None:
        return []
    return [
        azure.authorization.RoleAssignment(
            f"{name}-uploader",
            principal_id=shape.uploader_principal_id,
            principal_type=shape.uploader_principal_type.value,
            role_definition_id=account.id.apply(
                lambda found: (
                    "/".join(found.split("/")[:3])
                    + f"/providers/Microsoft.Authorization/roleDefinitions/{_BLOB_DATA_CONTRIBUTOR}"
                )
            ),
            scope=account.id,
            opts=child,
        )
    ]
