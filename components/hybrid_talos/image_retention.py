"""Which stored images may go: the part that is the same in every cloud.

An image that pools moved away from is kept by the cloud, not by Pulumi's state (`retain_on_delete`), for machines
that exist still boot or heal from it. So one resource beside the image looks at all that was stored for it: a
refresh lists what is beyond the retention and used by nothing, which makes the next preview show an update of this
resource, and that update deletes it. Destroying the resource deletes everything that was stored.

It is created before the image and destroyed after it; nothing it deletes is in any state.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi.dynamic import DiffResult

from .engine_log import note
from .work_provider import WorkError, changed, is_unknown

Properties = dict[str, Any]


@dataclass(frozen=True)
class StoredImage:
    """One image, or what is left of one, that was stored for the resource."""

    id: str
    """What the cloud calls it."""
    key: str
    """What it is made of; the input ``current`` names the one that pools boot now."""
    made: str = ""
    """When it was made, in a form that sorts."""
    whole: bool = True
    """False for what a run that was killed left half done: it goes, whatever the retention."""


@dataclass(frozen=True)
class ImageStore:
    """How one cloud is asked. Each function gets the resource's inputs first."""

    scope: Sequence[str]
    """Inputs that say which store is meant: another value is another resource."""
    images: Callable[[Properties], list[StoredImage]]
    """Return all that was stored for the resource and nothing else; nothing when the store itself is gone."""
    users: Callable[[Properties, list[StoredImage]], Mapping[str, str]]
    """Return the ids of those images that something uses, each with one user's name."""
    remove: Callable[[Properties, StoredImage], None]
    """Delete one image; one that is gone already is no error. Raises WorkError."""


class Retention:
    """The operations of a custom resource with the inputs ``current`` and ``retain`` and those of its store.

    Its output ``removable`` holds the ids that the next update deletes.
    """

    def __init__(self, store: ImageStore) -> None:
        self._store = store

    def check(self, news: Properties) -> dict[str, str]:
        """Return what is wrong with the inputs."""
        retain = news.get("retain")
        if is_unknown(retain) or (isinstance(retain, int | float) and retain >= 0):
            return {}
        return {"retain": "must be a number of images, 0 or more"}

    def diff(self, olds: Properties, news: Properties) -> DiffResult:
        """Say that there is something to delete, and in the preview what."""
        replaces = [name for name in self._store.scope if changed(name, olds, news)]
        removable = list(olds.get("removable") or ())
        if removable and not replaces:
            note(f"older images that nothing uses will be deleted: {', '.join(_short(name) for name in removable)}")
        inputs = [name for name in news if name != "removable" and not name.startswith("__")]
        moved = any(changed(name, olds, news) for name in inputs)
        return DiffResult(changes=bool(removable or moved), replaces=replaces)

    def create(self, props: Properties) -> tuple[str, Properties]:
        """Look at the store; what is there already is judged by the next refresh."""
        return "/".join(str(props[name]) for name in self._store.scope), {**props, "removable": []}

    def read(self, props: Properties) -> Properties:
        """Return the resource with what may go now."""
        return {**props, "removable": [image.id for image in self._removable(props)]}

    def update(self, _olds: Properties, news: Properties) -> Properties:
        """Delete what may go now, which is looked at again: state may be old."""
        left = []
        for image in self._removable(news):
            try:
                self._store.remove(news, image)
            except WorkError as error:
                # No reason to hold up the pools: it stays in `removable`, and the next run tries again.
                note(f"{_short(image.id)} was not deleted: {error}", warning=True)
                left.append(image.id)
        return {**news, "removable": left}

    def delete(self, props: Properties) -> None:
        """Delete everything that was stored, unless something uses it still."""
        images = self._store.images(props)
        users = self._store.users(props, images) if images else {}
        for image in images:
            if image.id in users:
                raise WorkError(f"the image {_short(image.id)} is still used by {users[image.id]}; remove that first")
        for image in images:
            self._store.remove(props, image)

    def _removable(self, props: Properties) -> list[StoredImage]:
        others = [image for image in self._store.images(props) if image.key != props["current"]]
        whole = sorted((i for i in others if i.whole), key=lambda image: (image.made, image.id), reverse=True)
        beyond = whole[int(props["retain"]) :] + [image for image in others if not image.whole]
        if not beyond:
            return []
        users = self._store.users(props, beyond)
        return sorted((image for image in beyond if image.id not in users), key=lambda image: image.id)


def _short(identity: str) -> str:
    """Return an id as a person reads it: of an id of Azure what comes after the resource group."""
    return identity.partition("/providers/")[2] or identity
