"""The Alibaba half of TalosImage: a private bucket, the uploaded qcow2, and the image imported from it."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_alicloud as alicloud
from pydantic import Field

from ._contract import Shape
from .azure_image_names import short_hash
from .image_assets import content_name
from .image_upload import AliyunOssObject, ImageSource
from .schematic import schematic_id


class BootMode(StrEnum):
    """How instances boot the image."""

    UEFI = "UEFI"
    """By UEFI, as current instance types do."""
    BIOS = "BIOS"
    """By BIOS, for instance types that know nothing else."""


class AliyunEndpoints(TypedDict):
    """Where Alibaba Cloud is reached."""

    oss: NotRequired[str]
    """OSS endpoint; `{region}` in it stands for the region. Default: the region's public endpoint."""


class AliyunImageArgs(TypedDict):
    """Where the image of an Alibaba Cloud pool is kept."""

    region: str
    """Region of bucket and image, the one of the alicloud provider given to this component."""
    boot_mode: NotRequired[BootMode]
    """How instances boot. Default: UEFI."""
    endpoints: NotRequired[AliyunEndpoints]
    """Addresses that are not the region's public ones."""
    tags: NotRequired[pulumi.Input[Mapping[str, pulumi.Input[str]]]]
    """Tags for the bucket."""


class EndpointsShape(Shape):
    """Plain half of AliyunEndpoints."""

    oss: str = Field(default="https://oss-{region}.aliyuncs.com", pattern=r"^https?://")


class AliyunShape(Shape):
    """Plain half of AliyunImageArgs; the fields of type Any are Inputs, which are not looked at."""

    region: str = Field(pattern=r"^[a-z]{2}-[a-z0-9-]+$")
    boot_mode: BootMode = BootMode.UEFI
    endpoints: EndpointsShape = EndpointsShape()
    tags: Any = None


def image_name(version: str, arch: str, schematic: str, bucket: str) -> str:
    """Return a name for the image: unique among its account's images, and another one for other content.

    ECS wants 2 to 128 letters, digits, `.`, `:`, `_` and `-`, beginning with a letter. Bucket names are unique
    in all of Alibaba Cloud, so that two clusters of one account do not ask for the same name.
    """
    return f"talos-{version}-{arch}-{schematic[:12]}-{short_hash(bucket, 8)}"


def build_aliyun_image(
    name: str, shape: AliyunShape, arch: str, source: ImageSource, parent: pulumi.Resource
) -> pulumi.Output[str]:
    """Declare the image's resources and return the id of the custom image."""
    child = pulumi.ResourceOptions(parent=parent)
    schematic, version = schematic_id(source["schematic"]), source["talos_version"].removeprefix("v")

    bucket = alicloud.oss.Bucket(
        f"{name}-bucket",
        # No name: the provider makes one that is unique, which bucket names must be in all of Alibaba Cloud.
        # What an upload that was killed leaves behind must not keep the bucket from being deleted.
        force_destroy=True,
        lifecycle_rules=[{"enabled": True, "prefix": "", "abort_multipart_uploads": [{"days": 1}]}],
        tags=shape.tags,
        opts=child,
    )
    private = alicloud.oss.BucketAcl(f"{name}-acl", bucket=bucket.id, acl="private", opts=child)
    uploaded = AliyunOssObject(
        f"{name}-upload",
        region=shape.region,
        bucket=bucket.id,
        # The name says all that the content depends on, so that other content is another object.
        key=f"{content_name('alibabacloud', arch, version, source['content'])}.qcow2",
        endpoint=shape.endpoints.oss,
        source=source,
        # The bucket is to be private before anything is in it.
        opts=pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=[private])),
    )
    image = alicloud.ecs.ImageImport(
        f"{name}-import",
        image_name=bucket.id.apply(lambda found: image_name(version, arch, source["content"], found)),
        description=f"Talos Linux {version}, schematic {schematic}",
        architecture="x86_64",
        os_type="linux",
        platform="Others Linux",
        boot_mode=shape.boot_mode.value,
        # Instance types of the newer generations attach disks by NVMe, which Talos' kernel has built in.
        features={"nvme_support": "supported"},
        disk_device_mappings=[
            {
                "format": "qcow2",
                "oss_bucket": bucket.id,
                "oss_object": uploaded.key,
                # Read from the image: it differs between Talos releases, and less than that is refused.
                "disk_image_size": uploaded.disk_gib.apply(int),
            }
        ],
        # Every input of an import makes a new image: it is made, the pools move to it, and only then is the old one
        # deleted. That order is the engine's own, so nothing is retained or protected here.
        opts=pulumi.ResourceOptions.merge(
            child,
            # Imports may take longer than the 20 minutes that the provider waits by default.
            pulumi.ResourceOptions(custom_timeouts=pulumi.CustomTimeouts(create="1h")),
        ),
    )
    image_id: pulumi.Output[str] = image.id
    return image_id
