"""The work of AliyunImageRetention: images, objects and uploads that were stored for one component in one region."""

from collections.abc import Mapping

from . import aliyun_image_cloud as cloud
from . import aliyun_oss_object as oss_object
from .aliyun_api import Properties, address_problems
from .image_retention import ImageStore, Retention, StoredImage

_OBJECT, _UPLOAD = "object:", "upload:"


def _images(props: Properties) -> list[StoredImage]:
    tag = [{"Key": cloud.OWNER_TAG, "Value": props["bucket"]}]
    with cloud.errors(props):
        found = cloud.images(props, Tag=tag)
    stored = [
        StoredImage(
            str(image["ImageId"]),
            str(image.get("ImageName")),
            str(image.get("CreationTime") or ""),
            whole=image.get("Status") not in (*cloud.FAILED, *cloud.UNDER_WAY),
        )
        for image in found
    ]
    keys, uploads = oss_object.stored(props)

    def half(identity: str, key: str) -> StoredImage:
        # What belongs to the current image is for the next run to go on with.
        return StoredImage(identity, props["current"] if key == props["current_key"] else key, whole=False)

    stored += [half(f"{_OBJECT}{key}", key) for key in keys]
    stored += [half(f"{_UPLOAD}{upload}/{key}", key) for key, upload in uploads]
    return stored


def _users(props: Properties, images: list[StoredImage]) -> Mapping[str, str]:
    with cloud.errors(props):
        return cloud.users(props, [i.id for i in images if not i.id.startswith((_OBJECT, _UPLOAD))])


def _remove(props: Properties, image: StoredImage) -> None:
    if image.id.startswith(_OBJECT):
        oss_object.remove(props, image.id.removeprefix(_OBJECT))
    elif image.id.startswith(_UPLOAD):
        upload, _, key = image.id.removeprefix(_UPLOAD).partition("/")
        oss_object.abort(props, key, upload)
    else:
        with cloud.errors(props):
            cloud.delete(props, image.id)


_RETENTION = Retention(ImageStore(("region", "bucket"), _images, _users, _remove))


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    return {**_RETENTION.check(news), **address_problems(news)}


diff, create = _RETENTION.diff, _RETENTION.create
read, update, delete = _RETENTION.read, _RETENTION.update, _RETENTION.delete
