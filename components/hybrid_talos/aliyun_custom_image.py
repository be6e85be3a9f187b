"""The work of AliyunCustomImage: a qcow2 through a private bucket into a custom image of ECS.

Each step is looked for before it is done, so that a run that was killed anywhere is gone on from: an image of that name
is adopted, or waited for while it is being imported; an object that is whole is imported; parts that are there are not
sent again. The object is removed once the image is there, in the same step of the engine: what is in the state is
whole, and nothing is left in the bucket.
"""

from typing import Any

from pulumi.dynamic import DiffResult

from . import aliyun_image_cloud as cloud
from . import aliyun_oss_object as oss_object
from .aliyun_api import ENDPOINTS, Properties, address_problems
from .image_source import FOUND, diff_of, pin_problem, size_problem
from .work_provider import WorkError, changed

_KEY = ("region", "image_name")
_CONTENT = ("talos-version", "talos-content", "talos-boot")
"""Tags that say what an image is made of; one that is adopted must have them."""
_TAGS = {"disk_gib": "talos-disk-gib", "sha256": "talos-sha256", "asset": "talos-asset"}
_RESULTS = ("image_id", "disk_gib", *FOUND)


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    return address_problems(news)


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Another name is another image, made beside the old one; tags and addresses change in place."""
    return diff_of(_KEY, (*ENDPOINTS, "tags", "bucket", "key"), olds, news)


def create(props: Properties) -> tuple[str, Properties]:
    """Upload and import the image, or adopt it."""
    with cloud.errors(props):
        image = cloud.settled(props, cloud.named(props, props["image_name"]))
        if image is not None and image.get("Status") in cloud.FAILED:
            # What failed keeps its name.
            cloud.delete(props, image["ImageId"])
            image = None
        found = _import(props) if image is None else _adopt(props, image)
        # Nothing needs the object any more. From here on a killed run comes back to the image above, and to this.
        oss_object.clear(props)
    return found["image_id"], {**props, **found}


def read(props: Properties) -> Properties | None:
    """Return the resource as it is; None when the image is gone or never came to be."""
    with cloud.errors(props):
        image = next(iter(cloud.images(props, ImageId=props["image_id"])), None)
    if image is None or image.get("Status") in cloud.FAILED:
        return None
    return props


def update(olds: Properties, news: Properties) -> Properties:
    """Change the tags, and record the addresses; the image stays as it is."""
    if changed("tags", olds, news):
        with cloud.errors(news):
            before, after = dict(olds.get("tags") or {}), dict(news["tags"])
            moved = {key: value for key, value in after.items() if before.get(key) != value}
            cloud.set_tags(news, olds["image_id"], moved, before.keys() - after.keys())
    return {**news, **{key: olds.get(key) for key in _RESULTS}}


def delete(props: Properties) -> None:
    """Delete the image, unless something uses it still."""
    image = props["image_id"]
    with cloud.errors(props):
        if user := cloud.users(props, [image]).get(image):
            raise WorkError(f"the image {image} is still used by {user}; remove that first")
        cloud.delete(props, image)


def _import(props: Properties) -> Properties:
    found = oss_object.store(props)
    recorded = {tag: str(found[key]) for key, tag in _TAGS.items()}
    image = cloud.begin_import(props, int(found["disk_gib"]), {**props["tags"], **recorded})
    made = cloud.settled(props, {"ImageId": image, "ImageName": props["image_name"], "Status": "Creating"})
    if made is None or made.get("Status") in cloud.FAILED:
        raise WorkError(
            f"ECS could not import the image {image}: {(made or {}).get('Status', 'it is gone')}. Its task in the ECS "
            "console (Images, import tasks) says why; the object stays in the bucket for the next run"
        )
    return {**found, "image_id": image}


def _adopt(props: Properties, image: Any) -> Properties:
    """Take over an image that an earlier run made, or that a person tagged as one of this content."""
    identity, tags = str(image["ImageId"]), cloud.tags_of(image)
    wanted = {key: props["tags"][key] for key in _CONTENT}
    owner = tags.get(cloud.OWNER_TAG)
    if owner not in (None, props["bucket"]) or any(tags.get(key) != value for key, value in wanted.items()):
        pairs = ", ".join(f"{key}={value}" for key, value in wanted.items())
        raise WorkError(
            f"an image of the name {props['image_name']} is there ({identity}), but was not made for this component of "
            f"this content; rename or delete it, or tag it {pairs} if it is to be taken over"
        )
    disk = tags.get(_TAGS["disk_gib"], "")
    found = {
        "disk_gib": int(disk) if disk.isdecimal() else int(image.get("Size") or 0),
        "sha256": tags.get(_TAGS["sha256"], ""),
        "asset": tags.get(_TAGS["asset"], ""),
    }
    if problem := pin_problem(props, found) or size_problem(props, found):
        raise WorkError(problem)
    missing = {key: value for key, value in props["tags"].items() if tags.get(key) != value}
    if missing:
        cloud.set_tags(props, identity, missing)
    return {**found, "image_id": identity}
