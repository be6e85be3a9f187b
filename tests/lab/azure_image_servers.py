"""The simulated Azure's own servers, with a gallery and a private storage account, for the work on images."""

import hashlib
import lzma
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hybrid_talos.disk_image import vhd_footer

from lab.azure.arm_server import ArmServer
from lab.azure.blob_store import Blob
from lab.azure.blobs import BlobServer
from lab.azure.identity import IdentityServer
from lab.certs import certificates
from tests.lab.azure_cloud import ZERO, Cloud

MIB = 1 << 20
ACCOUNT, CONTAINER = "talosimages", "images"
# As small as Azure takes a disk, which is enough for everything but speed.
DISK = random.Random(7).randbytes(MIB) + bytes(18 * MIB) + b"end".ljust(MIB, b"\0")
VHD = DISK + vhd_footer(len(DISK))
PACKED = lzma.compress(VHD, preset=0)

Properties = dict[str, Any]


class Azure:
    """The cloud, its servers, and inputs for the custom resources."""

    def __init__(self, cloud: Cloud, arm: ArmServer, blobs: BlobServer, folder: Path) -> None:
        self.cloud = cloud
        self.world = cloud.world
        self.blobs = blobs
        self.access = {"resource_manager": arm.url, "environment": "public", "authority": None}
        self.folder = folder

    def file(self, name: str = "azure-amd64.vhd.xz", data: bytes | None = None) -> Properties:
        """Return the source of an image that lies in a file."""
        packed = PACKED if data is None else data
        path = self.folder / name
        path.write_bytes(packed)
        return {
            "schematic": "customization: {}\n",
            "talos_version": "1.14.0",
            "secure_boot": False,
            "content": hashlib.sha256(packed).hexdigest(),
            "assets": [name],
            "image_file": {"location": str(path), "sha256": hashlib.sha256(packed).hexdigest()},
        }

    def upload(self, blob: str = "one.vhd", **more: Any) -> Properties:
        place = {
            "account": ACCOUNT,
            "container": CONTAINER,
            "blob": blob,
            "endpoint": f"{self.blobs.url}/{{account}}",
        }
        return {**self.file(), **place, **more}

    def gallery_image(self, version: str = "1.14.0", definition: str = "talos", **more: Any) -> Properties:
        return {
            "gallery_id": self.cloud.ids["gallery"],
            "location": "westeurope",
            "definition": definition,
            "version": version,
            "architecture": "x64",
            "features": {"DiskControllerTypes": "SCSI, NVMe"},
            "storage_account_id": self.cloud.ids["account"],
            "blob_uri": f"{self.blobs.url}/{ACCOUNT}/{CONTAINER}/one.vhd",
            "regions": ["westeurope"],
            "tags": self.tags(version, definition),
            **self.access,
            **more,
        }

    def tags(self, version: str = "1.14.0", content: str = "talos", blob: str = "one.vhd") -> dict[str, str]:
        return {
            "hybrid-talos-image": "me",
            "talos-version": version,
            "talos-content": content,
            "talos-blob": blob,
        }

    def gallery_retention(self, current: str = "talos/1.14.0", **more: Any) -> Properties:
        return {
            "gallery_id": self.cloud.ids["gallery"],
            "account": ACCOUNT,
            "container": CONTAINER,
            "endpoint": f"{self.blobs.url}/{{account}}",
            "owner": "me",
            "current": current,
            "current_blob": "one.vhd",
            "retain": 1,
            **self.access,
            **more,
        }

    def managed_image(self, image: str = "talos-1", **more: Any) -> Properties:
        return {
            **self.file(),
            "subscription_id": ZERO,
            "resource_group": "rg",
            "location": "westeurope",
            "image": image,
            "disk": f"{image}-upload",
            "tags": {key: value for key, value in self.tags().items() if key != "talos-blob"},
            **self.access,
            **more,
        }

    def managed_retention(self, current: str = "talos-1", **more: Any) -> Properties:
        return {
            "subscription_id": ZERO,
            "resource_group": "rg",
            "owner": "me",
            "current": current,
            "retain": 1,
            **self.access,
            **more,
        }

    def blob(self, name: str = "one.vhd") -> Blob:
        return Blob(self.world, ACCOUNT, CONTAINER, name)

    def names(self, kind: str) -> list[str]:
        return sorted(record.id.rsplit("/", 1)[-1] for record in self.world.find("azure-native", kind))


@contextmanager
def azure_servers(folder: Path, monkeypatch: pytest.MonkeyPatch, *, at_once: bool = True) -> Iterator[Azure]:
    """Serve a cloud that has a resource group, a gallery and a storage account with one container."""
    for variable in ("ARM_CLIENT_ID", "ARM_TENANT_ID", "ARM_USE_OIDC", "ARM_USE_MSI", "AZURE_CLIENT_ID"):
        monkeypatch.delenv(variable, raising=False)
    files = certificates(folder / "certs")
    cloud = Cloud(folder)
    cloud.group()
    cloud.make("compute:Gallery", "gallery", resourceGroupName="rg", galleryName="gallery")
    cloud.make(
        "storage:StorageAccount",
        "account",
        resourceGroupName="rg",
        accountName=ACCOUNT,
        kind="StorageV2",
        sku={"name": "Standard_LRS"},
        allowSharedKeyAccess=False,
    )
    cloud.make(
        "storage:BlobContainer", "container", resourceGroupName="rg", accountName=ACCOUNT, containerName=CONTAINER
    )
    identity, blobs = IdentityServer(cloud.world), BlobServer(cloud.world)
    arm = ArmServer(cloud.world, blobs, at_once=at_once)
    identity.start()
    blobs.start(0, files.server_context())
    arm.start(0, files.server_context())
    for name, value in identity.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(files.bundle))
    yield Azure(cloud, arm, blobs, folder)
    for server in (arm, blobs, identity):
        server.stop()
    cloud.close()
