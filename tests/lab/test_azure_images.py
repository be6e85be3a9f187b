"""Storage accounts, disks and images in the simulated Azure."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lab.world import CloudError
from tests.lab.azure_cloud import MIB, Cloud, refused


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    with closing(Cloud(tmp_path)) as cloud:
        yield cloud


def test_account_names_are_unique_in_the_world(cloud: Cloud) -> None:
    cloud.group()
    cloud.blob()
    cloud.group(name="other")
    with refused("StorageAccountAlreadyTaken"):
        cloud.make(
            "storage:StorageAccount",
            "second",
            resourceGroupName="other",
            accountName="talosacct",
            kind="StorageV2",
            sku={"name": "Standard_LRS"},
        )
    with refused("AccountNameInvalid"):
        cloud.make(
            "storage:StorageAccount",
            "third",
            resourceGroupName="rg",
            accountName="With-Hyphen",
            kind="StorageV2",
            sku={"name": "Standard_LRS"},
        )


def test_containers_are_private_unless_the_account_says_otherwise(cloud: Cloud) -> None:
    cloud.group()
    cloud.blob()
    with refused("PublicAccessNotPermitted"):
        cloud.make(
            "storage:BlobContainer",
            "open",
            resourceGroupName="rg",
            accountName="talosacct",
            containerName="open",
            publicAccess="Blob",
        )


def test_a_container_takes_its_blobs_along(cloud: Cloud) -> None:
    cloud.group()
    cloud.blob()
    cloud.delete("storage:BlobContainer", "images")
    assert cloud.world.find("azure-native", "blob") == []


def test_a_version_is_made_of_a_finished_vhd_only(cloud: Cloud) -> None:
    cloud.group()
    cloud.definition()
    unfinished = cloud.blob("half.vhd", footer=bytes(512))
    with refused("InvalidParameter", "conectix"):
        cloud.version(uri=unfinished)
    with refused("InvalidParameter", "whole number"):
        cloud.version(uri=cloud.blob("odd.vhd", size=64 * MIB + 512))
    with refused("InvalidParameter", "does not exist"):
        cloud.version(uri=unfinished.replace("half", "none"))
    cloud.version(uri=cloud.blob("good.vhd", size=3 * 1024 * MIB))
    found = cloud.read("compute:GalleryImageVersion", "1.14.0") or {}
    assert found["storageProfile"]["osDiskImage"]["sizeInGB"] == 3


def test_versions_are_three_numbers_and_include_their_own_region(cloud: Cloud) -> None:
    cloud.group()
    cloud.definition()
    for name in ("v1.14.0", "1.14", "1.14.0-rc.1", "1.14.99999999999"):
        with refused("InvalidParameter"):
            cloud.version(name)
    with refused("InvalidParameter", "must include its own location"):
        cloud.version(publishingProfile={"targetRegions": [{"name": "northeurope"}]})
    cloud.version(publishingProfile={"targetRegions": [{"name": "West Europe"}, {"name": "northeurope"}]})
    with refused("PropertyChangeNotAllowed"):
        source = {"uri": cloud.blob("other.vhd"), "storageAccountId": cloud.ids["acct"]}
        cloud.change("compute:GalleryImageVersion", "1.14.0", storageProfile={"osDiskImage": {"source": source}})


def test_the_source_of_an_image_is_in_its_region(cloud: Cloud) -> None:
    cloud.group()
    cloud.definition()
    with refused("InvalidParameter", "own region"):
        cloud.version(location="northeurope")
    with refused("InvalidParameter", "own region"):
        cloud.make(
            "compute:Image",
            "image",
            resourceGroupName="rg",
            location="northeurope",
            storageProfile={"osDisk": {"osType": "Linux", "osState": "Generalized", "blobUri": cloud.blob("d.vhd")}},
        )


def test_what_holds_images_cannot_go_before_them(cloud: Cloud) -> None:
    cloud.group()
    cloud.definition()
    cloud.version()
    with refused("CannotDeleteResource", "versions/1.14.0"):
        cloud.delete("compute:GalleryImage", "definition")
    with refused("CannotDeleteResource"):
        cloud.delete("compute:Gallery", "gallery")


def test_arm64_needs_generation_two_and_a_gallery(cloud: Cloud) -> None:
    cloud.group()
    with refused("InvalidParameter", "Arm64"):
        cloud.definition(architecture="Arm64", hyperVGeneration="V1")
    cloud.blob()
    cloud.make(
        "compute:Disk",
        "disk",
        resourceGroupName="rg",
        creationData={
            "createOption": "Import",
            "sourceUri": cloud.blob(),
            "storageAccountId": cloud.ids["acct"],
        },
        supportedCapabilities={"architecture": "Arm64"},
    )
    with refused("BadRequest", "Arm64"):
        cloud.make(
            "compute:Image",
            "image",
            resourceGroupName="rg",
            storageProfile={
                "osDisk": {
                    "osType": "Linux",
                    "osState": "Generalized",
                    "managedDisk": {"id": cloud.ids["disk"]},
                }
            },
        )


def test_upload_disks_have_whole_mib_and_are_no_source_while_open(cloud: Cloud) -> None:
    cloud.group()
    for size in (20 * MIB, 1_610_613_248 + 512, 1 << 60):
        with pytest.raises(CloudError, match="must be"):
            cloud.make(
                "compute:Disk",
                "bad",
                resourceGroupName="rg",
                creationData={"createOption": "Upload", "uploadSizeBytes": size},
            )
    cloud.make(
        "compute:Disk",
        "disk",
        resourceGroupName="rg",
        creationData={"createOption": "Upload", "uploadSizeBytes": 1537 * MIB + 512},
    )
    with refused("OperationNotAllowed", "ReadyToUpload"):
        cloud.make(
            "compute:Image",
            "image",
            resourceGroupName="rg",
            storageProfile={
                "osDisk": {
                    "osType": "Linux",
                    "osState": "Generalized",
                    "managedDisk": {"id": cloud.ids["disk"]},
                }
            },
        )
