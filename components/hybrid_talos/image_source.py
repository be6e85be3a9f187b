"""The image that an upload takes from the factory: announced, opened, and compared with its pin."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pulumi.dynamic import DiffResult

from .engine_log import Progress, engine_sender
from .image_factory import check_extensions, register
from .image_stream import Download, ImageError, download, http_session
from .schematic import image_url, schematic_id
from .work_provider import WorkError, changed

Properties = dict[str, Any]


@contextmanager
def open_image(props: Properties) -> Iterator[Download]:
    """Open the image that the inputs of an upload name, and check it when the block ends well.

    Raises WorkError when the factory does not know the schematic or an extension, and for every image that
    is not what it should be.
    """
    session = http_session(props.get("factory_ca"))
    factory, schematic, version = props["factory_url"], props["schematic"], props["talos_version"]
    try:
        with session:
            register(session, factory, schematic)
            check_extensions(session, factory, version, list(props.get("extensions") or ()))
            url = image_url(factory, schematic_id(schematic), version, props["asset"])
            progress = Progress(props["asset"], engine_sender())
            with download(session, url, progress.add) as image:
                progress.total = image.total
                yield image
    except ImageError as error:
        raise WorkError(str(error)) from None


def pin_problem(props: Properties, recorded: str | None) -> str | None:
    """Return what is wrong when an image that is stored already is not the pinned one."""
    pin = props.get("compressed_sha256")
    if not isinstance(pin, str) or recorded is None or pin.lower() == recorded:
        return None
    return (
        f"compressed_sha256 pins {pin.lower()}, but the stored image was made from {recorded}. If the pin is right, "
        "that image is not to be trusted: move the pools to another release or schematic, or destroy them and this "
        "image and make both anew"
    )


def diff_of(key: tuple[str, ...], recorded: tuple[str, ...], olds: Properties, news: Properties) -> DiffResult:
    """Say what a change of inputs does to an upload.

    Another name (``key``) is another upload, made beside the old one. Of the other inputs only those that say
    how to reach it (``recorded``) matter, and are kept in the state: the content is named by the schematic, so
    that it does not matter which factory it came from.
    """
    replaces = [name for name in key if changed(name, olds, news)]
    if replaces:
        return DiffResult(changes=True, replaces=replaces)
    if problem := pin_problem(news, olds.get("sha256")):
        raise WorkError(problem)
    moved = any(changed(name, olds, news) for name in recorded)
    return DiffResult(changes=moved, replaces=[])
