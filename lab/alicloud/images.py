"""Custom images, imported from objects in OSS.

Sources: alibabacloud.com API pages ImportImage, DescribeImages, DeleteImage and "Import custom images" (service
role, same
region, formats); aliyun/terraform-provider-alicloud resource_alicloud_image_import.go; qemu docs/interop/qcow2.rst and
Microsoft "Virtual Hard Disk Image Format Specification" (what a file begins or ends with).
"""

import re
import struct
from collections.abc import Mapping
from typing import Any

from ..provider import Call
from ..world import CloudError, Record, World
from . import names
from .accounts import has_role
from .bridge import FILLED, PLAIN, Attr, BridgedKind, Doc, find, lookup, one_of
from .oss_store import Store

IMPORT_ROLE = "AliyunECSImageImportDefaultRole"
_GIB = 1 << 30
_MOST_GIB = 2048
# ImportImage, parameter Platform.
_PLATFORMS = (
    *(
        "Aliyun",
        "Anolis",
        "CentOS",
        "Ubuntu",
        "CoreOS",
        "SUSE",
        "Debian",
        "OpenSUSE",
        "FreeBSD",
        "RedHat",
        "Kylin",
        "UOS",
    ),
    *(
        "Fedora",
        "Fedora CoreOS",
        "CentOS Stream",
        "AlmaLinux",
        "Rocky Linux",
        "Gentoo",
        "Customized Linux",
        "Others Linux",
    ),
    *("Windows Server 2022", "Windows Server 2019", "Windows Server 2016", "Windows Server 2012", "Other Windows"),
)


class ImageImport(BridgedKind):
    """A custom image that is imported from OSS."""

    token = "alicloud:ecs/imageImport:ImageImport"
    prefix = "m"
    attrs = {
        "architecture": one_of("x86_64", "i386", replaces=True, default="x86_64"),
        "osType": one_of("windows", "linux", replaces=True, default="linux"),
        "platform": Attr(replaces=True, computed=True),
        "bootMode": one_of("BIOS", "UEFI", replaces=True, computed=True),
        "licenseType": one_of("Auto", "Aliyun", "BYOL", default="Auto"),
        "imageName": FILLED,
        "description": PLAIN,
        "features": FILLED,
        "diskDeviceMappings": Attr(
            replaces=True,
            nested={
                "format": one_of("RAW", "VHD", "qcow2", computed=True),
                "device": FILLED,
                "diskImageSize": Attr(default=5),
            },
        ),
    }

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        self._verify_name(call.world, id, doc)
        names.verify_description("InvalidDescription.Malformed", doc.get("description"))
        if doc.get("platform") not in (None, *_PLATFORMS):
            raise CloudError("InvalidPlatform.ValueNotSupported", f"The platform '{doc['platform']}' is not supported.")
        # ImportImage, parameter Features.NvmeSupport.
        support = (doc.get("features") or {}).get("nvmeSupport")
        if support not in (None, "supported", "unsupported"):
            raise CloudError("InvalidParameter.NvmeSupport", f"NvmeSupport cannot be '{support}'.")
        if old is not None:
            return
        if not has_role(call.world, IMPORT_ROLE):
            raise CloudError(
                "NoSetRoletoECSServiceAccount",
                f"ECS service account Have no right to access your OSS: make the service role {IMPORT_ROLE}.",
            )
        mappings = doc["diskDeviceMappings"]
        if not mappings:
            raise CloudError("MissingParameter", "The input parameter DiskDeviceMapping is mandatory.")
        for mapping in mappings:
            _verify_disk(call.world, doc["_region"], mapping)
        doc.setdefault("platform", "Others Linux" if doc["osType"] == "linux" else "Other Windows")
        doc.setdefault("bootMode", "BIOS")
        doc.setdefault("features", {"nvmeSupport": "unsupported"})
        doc |= {"_status": "Available", "_size": max(int(m["diskImageSize"]) for m in mappings)}

    def _verify_name(self, world: World, id: str, doc: Doc) -> None:
        name = doc.setdefault("imageName", id)
        # ImportImage, parameter ImageName.
        if (
            re.fullmatch(r"[^\W\d_][\w.:-]{1,127}", name) is None
            or name.lower().startswith(("acs:", "aliyun"))
            or "http://" in name
            or "https://" in name
        ):
            raise CloudError("InvalidImageName.Malformed", f"The specified image name '{name}' is not valid.")
        if any(other.id != id for other in find(world, self.kind, imageName=name, _region=doc["_region"])):
            raise CloudError("InvalidImageName.Duplicated", f"The specified image name '{name}' has already been used.")

    def _before_delete(self, call: Call, record: Record) -> None:
        # DeleteImage without Force: refused while instances use the image; the provider does not force.
        if found := find(call.world, "instance", imageId=record.id):
            raise CloudError(
                "ImageUsingByInstance", f"The specified image has been used to create instances: {found[0].id}."
            )


def _verify_disk(world: World, region: str, mapping: Mapping[str, Any]) -> None:
    bucket, key = str(mapping.get("ossBucket")), str(mapping.get("ossObject"))
    found = lookup(world, "Bucket", bucket, region)
    if found is None:
        raise CloudError("InvalidOSSBucket.NotFound", f"The specified OSS bucket does not exist in {region}: {bucket}.")
    store = Store(world)
    item = store.object(bucket, key)
    if item is None:
        raise CloudError("InvalidOSSObject.NotFound", f"The specified OSS object does not exist: {key} in {bucket}.")
    size = int(mapping.get("diskImageSize") or 5)
    if not 1 <= size <= _MOST_GIB:
        raise CloudError("InvalidDiskImageSize.Malformed", f"DiskImageSize must be 1 to {_MOST_GIB} GiB, not {size}.")
    actual, virtual = disk_format(store, bucket, key, int(item["size"]))
    wanted = mapping.get("format") or actual
    if str(wanted).lower() != actual.lower():
        raise CloudError("InvalidImageFormat.Malformed", f"The object {key} is {actual}, and the format says {wanted}.")
    if size * _GIB < virtual:
        raise CloudError(
            "InvalidDiskImageSize",
            f"The disk in {key} has {virtual} bytes: a DiskImageSize of {size} GiB is too small, "
            f"{-(-virtual // _GIB)} is the least.",
        )


def disk_format(store: Store, bucket: str, key: str, size: int) -> tuple[str, int]:
    """Return the format of a disk image in OSS and the size in bytes of the disk inside."""
    head = store.read(bucket, key, 0, min(size, 32))
    if head[:4] == b"QFI\xfb" and len(head) == 32:
        return "qcow2", int(struct.unpack_from(">Q", head, 24)[0])
    tail = store.read(bucket, key, max(size - 512, 0), min(size, 512))
    if tail[:8] == b"conectix":
        return "VHD", int(struct.unpack_from(">Q", tail, 48)[0])
    return "RAW", size
