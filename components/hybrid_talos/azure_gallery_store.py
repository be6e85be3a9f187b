"""A gallery version of an image: a private storage account, the uploaded VHD, the gallery, and what cleans up.

    gallery, account, container <- retention <- upload <- version <- pools

That order holds for a destroy, too, from right to left. Upload and version are kept by the cloud when they leave the
state, so that pools can go back to an older image; the retention is what deletes them.
"""

from typing import Any

import pulumi
import pulumi_azure_native as azure

from .azure_image_inputs import AzureShape
from .azure_image_names import account_name, definition_name, gallery_name, version_name
from .azure_image_resources import AzureGalleryImage, AzureGalleryRetention
from .image_assets import content_name
from .image_upload import AzurePageBlob, ImageSource
from .schematic import schematic_id

# learn.microsoft.com, Azure built-in roles: Storage Blob Data Contributor.
_BLOB_DATA_CONTRIBUTOR = "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
_CONTAINER = "images"


def build_gallery_image(
    name: str, shape: AzureShape, arch: str, source: ImageSource, parent: pulumi.Resource
) -> pulumi.Output[str]:
    """Declare the image's resources and return the id of the gallery image version."""
    child = pulumi.ResourceOptions(parent=parent)
    version, secure = source["talos_version"].removeprefix("v"), source["secure_boot"]
    # Both names say all that the content depends on, so that other content is another blob and another version.
    blob = f"{content_name('azure', arch, version, source['content'], secure_boot=secure)}.vhd"
    definition = definition_name(arch, source["content"], version, secure_boot=secure)
    own_tags = pulumi.Output.from_input(shape.tags or {})
    group = pulumi.Output.from_input(shape.resource_group_name)
    place: dict[str, Any] = {"resource_group_name": group, "location": shape.location, "tags": own_tags}

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
    endpoint = shape.endpoints.blob or account.primary_endpoints.apply(lambda found: found["blob"])
    role_is_new = shape.uploader_principal_id is not None
    retention = AzureGalleryRetention(
        f"{name}-retention",
        gallery_id=gallery.id,
        account=account.name,
        container=container.name,
        endpoint=endpoint,
        owner=name,
        current=f"{definition}/{version_name(version)}",
        current_blob=blob,
        retain=shape.retain,
        role_is_new=role_is_new,
        access=shape.access,
        opts=pulumi.ResourceOptions.merge(
            child,
            # The role is not an input, but nothing can be read, written or deleted without it.
            pulumi.ResourceOptions(depends_on=_uploader_role(name, shape, account, child)),
        ),
    )
    # What the cloud keeps when it leaves the state; the retention deletes it, and must be destroyed after it.
    kept = pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(retain_on_delete=True, depends_on=[retention]))
    uploaded = AzurePageBlob(
        f"{name}-upload",
        account=account.name,
        container=container.name,
        blob=blob,
        endpoint=endpoint,
        authority=shape.authority,
        source=source,
        role_is_new=role_is_new,
        opts=kept,
    )
    image = AzureGalleryImage(
        f"{name}-version",
        gallery_id=gallery.id,
        location=shape.location,
        definition=definition,
        version=version_name(version),
        architecture="Arm64" if arch == "arm64" else "x64",
        features=_features(secure_boot=secure),
        storage_account_id=account.id,
        # The account's own address, whatever way the upload took: Azure reads it, not we.
        blob_uri=pulumi.Output.all(account.primary_endpoints, container.name, uploaded.blob).apply(
            lambda parts: f"{parts[0]['blob']}{parts[1]}/{parts[2]}"
        ),
        regions=shape.regions,
        tags=own_tags.apply(
            lambda given: {
                **given,
                "hybrid-talos-image": name,
                "talos-version": version,
                "talos-schematic": schematic_id(source["schematic"]),
                "talos-content": source["content"],
                "talos-blob": blob,
            }
        ),
        source=source,
        signing_certificate=shape.signing_certificate,
        access=shape.access,
        opts=kept,
    )
    return image.image_id


def _features(*, secure_boot: bool) -> dict[str, str]:
    # Sizes from v6 on attach disks by NVMe only, and refuse images that do not say they can (Talos can).
    features = {"DiskControllerTypes": "SCSI, NVMe"}
    if secure_boot:
        # Of the security types, the one that a version made of a VHD may have, and that keys of its own need
        # (learn.microsoft.com "Secure Boot UEFI keys", prerequisites; hashicorp/packer-plugin-azure#304).
        features["SecurityType"] = "TrustedLaunchSupported"
    return features


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
