"""Custom resources that make a machine image on Alibaba Cloud, and clean up after images that nothing uses any more.

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


class AliyunAccess(TypedDict):
    """Where Alibaba Cloud is reached; what is left out is the region's public address."""

    oss: NotRequired[str | None]
    """Object storage."""
    ecs: NotRequired[str | None]
    """Elastic Compute Service."""
    ess: NotRequired[str | None]
    """Auto Scaling."""


class AliyunCustomImageProvider(WorkProvider):
    """Shell of AliyunCustomImage."""

    work: ClassVar[str] = "aliyun_custom_image"


class AliyunImageRetentionProvider(WorkProvider):
    """Shell of AliyunImageRetention."""

    work: ClassVar[str] = "aliyun_image_retention"


class AliyunCustomImage(dynamic.Resource, module="image", name="AliyunCustomImage"):
    """A custom image, imported from a qcow2 that goes through a bucket and is removed there. Named for its content."""

    image_id: pulumi.Output[str]
    """Id of the image, which pools boot from."""
    disk_gib: pulumi.Output[float]
    """Whole GiB that hold the disk inside."""
    asset: pulumi.Output[str]
    """File name of the asset that the image came from."""
    sha256: pulumi.Output[str]
    """SHA-256 of what was downloaded, packed as it came."""

    def __init__(
        self,
        name: str,
        *,
        region: str,
        bucket: pulumi.Input[str],
        key: str,
        image_name: pulumi.Input[str],
        description: str,
        boot_mode: str,
        tags: pulumi.Input[Mapping[str, str]],
        source: ImageSource,
        access: AliyunAccess,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Import ``source`` by way of ``key`` in ``bucket`` as ``image_name``."""
        props = {
            **source,
            "region": region,
            "bucket": bucket,
            "key": key,
            "image_name": image_name,
            "description": description,
            "boot_mode": boot_mode,
            "tags": tags,
            **access,
            "image_id": None,
            "disk_gib": None,
            "asset": None,
            "sha256": None,
        }
        super().__init__(AliyunCustomImageProvider(), name, props, opts)


class AliyunImageRetention(dynamic.Resource, module="image", name="AliyunImageRetention"):
    """Deletes images, and what is left of uploads, that nothing uses and that are beyond the retention."""

    removable: pulumi.Output[Sequence[str]]
    """What the next update deletes."""

    def __init__(
        self,
        name: str,
        *,
        region: str,
        bucket: pulumi.Input[str],
        current: pulumi.Input[str],
        current_key: str,
        retain: int,
        access: AliyunAccess,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Keep the image ``current``, and ``retain`` older ones that came through ``bucket``."""
        props = {
            "region": region,
            "bucket": bucket,
            "current": current,
            "current_key": current_key,
            "retain": retain,
            **access,
            "removable": None,
        }
        super().__init__(AliyunImageRetentionProvider(), name, props, opts)
