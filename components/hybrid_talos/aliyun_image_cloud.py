"""Custom images of ECS as the API shows them: found by name or tag, imported, deleted, and who uses them.

help.aliyun.com, ECS API: DescribeImages, ImportImage, DeleteImage, TagResources, DescribeInstances; Auto Scaling API:
DescribeScalingConfigurations.
"""

import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from .aliyun_api import ECS, ESS, CloudRefusal, Properties, call, cloud_errors
from .engine_log import engine_sender
from .work_provider import WorkError

OWNER_TAG = "hybrid-talos-image"
"""Tag of an image: the bucket that it came through, whose name no other component has."""
RIGHTS = (
    "ecs:ImportImage, ecs:DescribeImages, ecs:DeleteImage, ecs:TagResources, ecs:UntagResources, "
    "ecs:DescribeInstances and ess:DescribeScalingConfigurations"
)
UNDER_WAY = ("Creating", "Waiting")
FAILED = ("UnAvailable", "CreateFailed")

# Imports take minutes; the provider of Terraform waits 20 by default, which is not always enough.
_LIMIT_SECONDS = 2 * 3600
_POLL_SECONDS = 5.0
_PAGE = 100
_ESS_PAGE = 50

Image = Mapping[str, Any]
"""One image, as DescribeImages shows it."""


def images(props: Properties, **where: Any) -> list[Image]:
    """Return the account's own images that fit, whatever their state."""
    found: list[Image] = []
    page = 1
    while True:
        answer = call(
            props, ECS, "DescribeImages", Status="ALL", ImageOwnerAlias="self", PageSize=_PAGE, PageNumber=page, **where
        )
        items = (answer.get("Images") or {}).get("Image") or []
        found += items
        if not items or len(found) >= int(answer.get("TotalCount") or 0):
            return found
        page += 1


def named(props: Properties, name: str) -> Image | None:
    """Return the image of exactly that name; names are unique in a region of an account."""
    # The API searches for names that contain it.
    return next((image for image in images(props, ImageName=name) if image.get("ImageName") == name), None)


def tags_of(image: Image) -> dict[str, str]:
    """Return the tags of an image."""
    return {tag["TagKey"]: tag.get("TagValue", "") for tag in (image.get("Tags") or {}).get("Tag") or ()}


def settled(props: Properties, image: Image | None) -> Image | None:
    """Return the image once it is no longer being imported; None when it is gone."""
    send, until = engine_sender(), time.monotonic() + _LIMIT_SECONDS
    while image is not None and image.get("Status") in UNDER_WAY:
        send(f"{image.get('ImageName')}: being imported, {image.get('Progress') or '0%'}")
        if time.monotonic() > until:
            raise WorkError(
                f"the image {image['ImageId']} is still being imported after {_LIMIT_SECONDS // 3600} hours; look at "
                "its task in the ECS console, then run `pulumi up` again"
            )
        time.sleep(_POLL_SECONDS)
        image = next(iter(images(props, ImageId=image["ImageId"])), None)
    return image


def begin_import(props: Properties, disk_gib: int, tags: Mapping[str, str]) -> str:
    """Let ECS import the object; return the id of the image, which is not there yet."""
    answer = call(
        props,
        ECS,
        "ImportImage",
        ImageName=props["image_name"],
        Description=props["description"],
        Architecture="x86_64",
        OSType="linux",
        Platform="Others Linux",
        BootMode=props["boot_mode"],
        # Instance types of the newer generations attach disks by NVMe, which Talos' kernel has built in.
        Features={"NvmeSupport": "supported"},
        DiskDeviceMapping=[
            {
                "Format": "QCOW2",
                "OSSBucket": props["bucket"],
                "OSSObject": props["key"],
                # Whole GiB that hold the disk inside: less is refused, more would be a larger system disk for each
                # machine.
                "DiskImageSize": disk_gib,
            }
        ],
        Tag=[{"Key": key, "Value": value} for key, value in sorted(tags.items())],
        # The same in each try of this call, so that a lost answer makes no second image.
        ClientToken=uuid.uuid4().hex,
    )
    return str(answer["ImageId"])


def set_tags(props: Properties, image: str, tags: Mapping[str, str], gone: Iterable[str] = ()) -> None:
    """Give an image tags, and take others away."""
    what: dict[str, Any] = {"ResourceType": "image", "ResourceId": [image]}
    if tags:
        pairs = [{"Key": key, "Value": value} for key, value in sorted(tags.items())]
        call(props, ECS, "TagResources", **what, Tag=pairs)
    if names := sorted(gone):
        call(props, ECS, "UntagResources", **what, TagKey=names)


def delete(props: Properties, image: str) -> None:
    """Delete an image; one that is gone already is no error, one that is being imported is waited for."""
    found = settled(props, next(iter(images(props, ImageId=image)), None))
    if found is None:
        return
    try:
        # Without Force: ECS itself refuses while an instance was made of it.
        call(props, ECS, "DeleteImage", ImageId=image)
    except CloudRefusal as refusal:
        if refusal.code == "InvalidImageId.NotFound":
            return
        if refusal.code == "ImageUsingByInstance":
            raise WorkError("an instance was made of it") from None
        raise


def users(props: Properties, wanted: Iterable[str]) -> dict[str, str]:
    """Return those of the images that something uses, each with the name of one user."""
    found: dict[str, str] = {}
    ids = sorted(wanted)
    for image in ids:
        answer = call(props, ECS, "DescribeInstances", ImageId=image, PageSize=1)
        items = (answer.get("Instances") or {}).get("Instance") or []
        if items:
            found[image] = f"instance {items[0].get('InstanceId')}"
    # ECS does not look at these, but a group cannot grow whose image is gone.
    for configuration in _configurations(props) if ids else ():
        image = str(configuration.get("ImageId") or "")
        if image in ids:
            found.setdefault(image, f"scaling configuration {configuration.get('ScalingConfigurationId')}")
    return found


def _configurations(props: Properties) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    page = 1
    while True:
        answer = call(props, ESS, "DescribeScalingConfigurations", PageSize=_ESS_PAGE, PageNumber=page)
        items = answer.get("ScalingConfigurations") or []
        # Version 2014-08-28 of this API nests the list once more.
        items = items.get("ScalingConfiguration") or [] if isinstance(items, Mapping) else items
        found += items
        if not items or len(found) >= int(answer.get("TotalCount") or 0):
            return found
        page += 1


def errors(props: Properties) -> Any:
    """Turn refusals of ECS and Auto Scaling into errors that say what to do."""
    return cloud_errors(props, RIGHTS)
