"""The Alibaba half of TalosImage: a private bucket, an image that goes through it, and what cleans up.

    bucket <- retention <- image <- pools

That order holds for a destroy, too, from right to left. The image is kept by the cloud when it leaves the state, so
that machines go on and pools can go back to it; the retention is what deletes it. Why the import is no
`alicloud.ecs.ImageImport`: docs/adr/0004-images-that-are-adopted.md.
"""

import pulumi
import pulumi_alicloud as alicloud

from ._contract import BadInputs
from .aliyun_image_inputs import AliyunShape, BootMode
from .aliyun_image_resources import AliyunCustomImage, AliyunImageRetention
from .azure_image_names import short_hash
from .image_assets import content_name
from .image_upload import ImageSource
from .schematic import schematic_id


def image_name(content: str, boot_mode: BootMode, bucket: str) -> str:
    """Return a name for the image: unique among its account's images, and another one for other content.

    ECS wants 2 to 128 letters, digits, `.`, `:`, `_` and `-`, beginning with a letter. Bucket names are unique
    in all of Alibaba Cloud, so that two clusters of one account do not ask for the same name.
    """
    return f"{content}-{boot_mode.value.lower()}-{short_hash(bucket, 8)}"


def build_aliyun_image(
    name: str, shape: AliyunShape, arch: str, source: ImageSource, parent: pulumi.Resource
) -> pulumi.Output[str]:
    """Declare the image's resources and return the id of the custom image."""
    child = pulumi.ResourceOptions(parent=parent)
    schematic, version = schematic_id(source["schematic"]), source["talos_version"].removeprefix("v")
    platform = "metal" if shape.experimental_metal else "alibabacloud"
    content = content_name(platform, arch, version, source["content"])
    own_tags = pulumi.Output.from_input(shape.tags or {})
    if shape.experimental_metal:
        pulumi.log.warn(
            "aliyun.experimental_metal: EXPERIMENTAL, tried on no real ECS: the machines boot Talos' metal image, "
            "which reads its user data without a token and tells no provider id: keep the metadata service open to "
            "requests without tokens, and let no autoscaler manage them. Talos 1.14 needs none of this",
            parent,
        )

    bucket = alicloud.oss.Bucket(
        f"{name}-bucket",
        # No name: the provider makes one that is unique, which bucket names must be in all of Alibaba Cloud.
        # What an upload that was killed leaves behind must not keep the bucket from being deleted.
        force_destroy=True,
        lifecycle_rules=[{"enabled": True, "prefix": "", "abort_multipart_uploads": [{"days": 1}]}],
        tags=own_tags,
        opts=child,
    )
    private = alicloud.oss.BucketAcl(
        f"{name}-acl",
        bucket=pulumi.Output.all(bucket.id, _provider_region(parent)).apply(
            lambda known: _in_region(name, shape.region, *known)
        ),
        acl="private",
        opts=child,
    )
    # The name says all that the content depends on, so that other content is another image and another object.
    key = f"{content}.qcow2"
    called = bucket.id.apply(lambda found: image_name(_short(content), shape.boot_mode, found))
    retention = AliyunImageRetention(
        f"{name}-retention",
        region=shape.region,
        bucket=bucket.id,
        current=called,
        current_key=key,
        retain=shape.retain,
        access=shape.access,
        # The bucket is to be private before anything is in it.
        opts=pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=[private])),
    )
    image = AliyunCustomImage(
        f"{name}-image",
        region=shape.region,
        bucket=bucket.id,
        key=key,
        image_name=called,
        description=f"Talos Linux {version}, schematic {schematic}",
        boot_mode=shape.boot_mode.value,
        tags=pulumi.Output.all(own_tags, bucket.id).apply(
            lambda known: {
                **known[0],
                "hybrid-talos-image": known[1],
                "talos-version": version,
                "talos-schematic": schematic,
                "talos-content": f"{platform}-{source['content']}",
                "talos-boot": shape.boot_mode.value,
            }
        ),
        source=source,
        access=shape.access,
        # What the cloud keeps when it leaves the state; the retention deletes it, and must be destroyed after it.
        opts=pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(retain_on_delete=True, depends_on=[retention])),
    )
    return image.image_id


def _short(content: str) -> str:
    """Return the name of a content with the first digits of its digest, which leave room in an image's name."""
    stem, _, digest = content.rpartition("-")
    return f"{stem}-{digest[:12]}"


def _provider_region(parent: pulumi.Resource) -> pulumi.Output[str | None]:
    provider = parent.get_provider("alicloud:oss/bucket:Bucket")
    return pulumi.Output.from_input(getattr(provider, "region", None))


def _in_region(name: str, region: str, bucket: str, provider_region: str | None) -> str:
    if provider_region is not None and provider_region != region:
        raise BadInputs(
            f"TalosImage '{name}': aliyun.region: is {region}, but the alicloud provider given to it works in "
            f"{provider_region}; give one of {region}"
        )
    return bucket
