"""The simulated Alibaba Cloud's own servers, with a private bucket, for the work on images."""

import hashlib
import random
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alibabacloud_credentials.utils import auth_util
from hybrid_talos import aliyun_image_cloud

from lab.alicloud import OssServer, RpcServer
from lab.alicloud.oss_store import Store
from lab.world import Record
from tests.lab.alicloud_cloud import BUCKET, Cloud

MIB = 1 << 20
NAME, KEY = "talos-1.14.0-uefi-1234", "talos-1.14.0.qcow2"
# Three parts and a bit, which is enough for everything but speed.
QCOW2 = struct.pack(">4sIQIIQI", b"QFI\xfb", 3, 0, 0, 13, 4247 * MIB, 0) + random.Random(8).randbytes(26 * MIB)

Properties = dict[str, Any]


class Aliyun:
    """The cloud, its servers, and inputs for the custom resources."""

    def __init__(self, cloud: Cloud, rpc: RpcServer, oss: OssServer, folder: Path) -> None:
        self.cloud = cloud
        self.world = cloud.world
        self.store = Store(cloud.world)
        self.access = {"ecs": rpc.url, "ess": rpc.url, "oss": oss.url}
        self.folder = folder

    def file(self, data: bytes = QCOW2) -> Properties:
        """Return the source of an image that lies in a file."""
        digest = hashlib.sha256(data).hexdigest()
        path = self.folder / f"{digest[:8]}.qcow2"
        path.write_bytes(data)
        return {
            "schematic": "customization: {}\n",
            "talos_version": "1.14.0",
            "secure_boot": False,
            "content": digest,
            "assets": [path.name],
            "image_file": {"location": str(path), "sha256": digest},
        }

    def image(self, name: str = NAME, key: str = KEY, data: bytes = QCOW2, **more: Any) -> Properties:
        return {
            **self.file(data),
            "region": "cn-hangzhou",
            "bucket": "images",
            "key": key,
            "image_name": name,
            "description": "Talos Linux 1.14.0",
            "boot_mode": "UEFI",
            "tags": self.tags(name),
            **self.access,
            **more,
        }

    @staticmethod
    def tags(name: str = NAME, **more: str) -> dict[str, str]:
        content = {"talos-version": "1.14.0", "talos-content": name, "talos-boot": "UEFI"}
        return {"hybrid-talos-image": "images", **content, **more}

    def retention(self, current: str = NAME, key: str = KEY, **more: Any) -> Properties:
        place = {"region": "cn-hangzhou", "bucket": "images", "current": current, "current_key": key, "retain": 0}
        return {**place, **self.access, **more}

    def images(self) -> list[Record]:
        return self.world.find("alicloud", "ImageImport")

    def names(self) -> list[str]:
        return sorted(record.doc["imageName"] for record in self.images())

    def left(self) -> list[str]:
        """Return what lies in the bucket: objects, and uploads that are under way."""
        stored = [record.doc["key"] for record in self.store.objects("images")]
        return stored + [f"upload of {record.doc['key']}" for record in self.store.uploads("images")]


@contextmanager
def aliyun_servers(folder: Path, monkeypatch: pytest.MonkeyPatch, *, polls: int = 0) -> Iterator[Aliyun]:
    """Serve a cloud that has one bucket; an import takes ``polls`` looks at it."""
    for name, value in (("id", "LTAIlab"), ("secret", "lab")):
        # For processes that the tests start; this one has read its variables when it imported the library.
        monkeypatch.setenv(f"ALIBABA_CLOUD_ACCESS_KEY_{name.upper()}", value)
        monkeypatch.setattr(auth_util, f"environment_access_key_{name}", value)
    monkeypatch.setattr(aliyun_image_cloud, "_POLL_SECONDS", 0.01)
    cloud = Cloud(folder)
    cloud.make(BUCKET, "images", bucket="images", forceDestroy=True)
    rpc, oss = RpcServer(cloud.world, polls=polls), OssServer(cloud.world)
    rpc.start()
    oss.start()
    try:
        yield Aliyun(cloud, rpc, oss, folder)
    finally:
        rpc.stop()
        oss.stop()
        cloud.close()
