"""The image that an upload takes, from the factory or from a file: announced, opened, and compared with its pin."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pulumi.dynamic import DiffResult

from .disk_image import GIB, SECTOR, FixedVhd
from .engine_log import Progress, engine_sender
from .http_session import http_session
from .image_assets import DiskFormat, image_url, pinned
from .image_download import Image, download, open_file, too_large
from .image_factory import check_extensions, check_version, register
from .image_stream import ImageError
from .qcow2 import disk_of
from .schematic import schematic_id
from .work_provider import WorkError, changed

Properties = dict[str, Any]

FOUND = ("asset", "sha256")
"""Outputs of every upload: what the image was called where it came from, and its digest as it came."""


@contextmanager
def open_image(props: Properties) -> Iterator[Image]:
    """Open the image that the inputs of an upload name.

    Raises WorkError when the factory does not know the release, the schematic or an extension, and for every image
    that is not what it should be.
    """
    try:
        with _opened(props) as image:
            yield image
    except ImageError as error:
        raise WorkError(_explained(str(error), props.get("image_file"))) from None


def _explained(problem: str, file: Properties | None) -> str:
    if not file:
        return problem
    where = "" if file["location"] in problem else f"{file['location']}: "
    return f"{where}{problem}; fetch or make the file anew, or name another one (image.files)"


@contextmanager
def _opened(props: Properties) -> Iterator[Image]:
    file, send = props.get("image_file"), engine_sender()
    pins = props.get("compressed_sha256") or {}
    assets = () if file else pinned(props["assets"], list(pins))
    progress = Progress(file["location"] if file else assets[0], send)
    if file and not urlsplit(file["location"]).scheme:
        with open_file(file["location"], progress.add) as image:
            image.pin, progress.total = file["sha256"], image.total
            image.largest = _largest(props)
            yield image
        return
    with http_session(props.get("factory_ca"), proxy=props.get("proxy")) as session:
        if file:
            urls = [file["location"]]
        else:
            factory, schematic, version = props["factory_url"], props["schematic"], props["talos_version"]
            check_version(session, factory, version)
            register(session, factory, schematic)
            check_extensions(session, factory, version, list(props.get("extensions") or ()))
            found = schematic_id(schematic)
            urls = [image_url(factory, found, version, asset) for asset in assets]
            send(f"{assets[0]}: asked for; the factory makes an image when it is asked for the first time")
        with download(session, urls, progress.add) as image:
            image.pin, image.largest = pin_of(props, image.name), _largest(props)
            progress.label, progress.total = image.name, image.total
            yield image


def vhd_of(image: Image) -> FixedVhd:
    """Return a reader of the image's disk as the pages of a fixed VHD, whatever the image's format."""
    if image.disk_format is DiskFormat.QCOW2:
        return FixedVhd(disk_of(image.unpacked()), has_footer=False, check_size=image.check_size)
    has_footer = image.disk_format is DiskFormat.VHD
    return FixedVhd(image.unpacked(), has_footer=has_footer, check_size=image.check_size)


def pin_of(props: Properties, asset: str | None) -> str | None:
    """Return the digest that is pinned for an image of that name, in lower case; None when none is."""
    file = props.get("image_file")
    found = file["sha256"] if file else (props.get("compressed_sha256") or {}).get(asset)
    return found.lower() if isinstance(found, str) else None


def pin_problem(props: Properties, found: Mapping[str, Any]) -> str | None:
    """Return what is wrong when an image that is stored already is not the pinned one.

    A pin belongs to one asset. An image that was made from another one, in another compression, has another digest
    and the same content; it is not asked about, and neither is one that a person tagged, without a digest.
    """
    pin, recorded = pin_of(props, found.get("asset")), found.get("sha256")
    if pin is None or not recorded or pin == recorded:
        return None
    return (
        f"{pin} is pinned (compressed_sha256), but the stored image was made from {recorded}. If the pin is right, "
        "that image is not to be trusted: move the pools to another release or schematic, or destroy them and this "
        "image and make both anew"
    )


def size_problem(props: Properties, found: Mapping[str, Any]) -> str | None:
    """Return what is wrong when the disk of an image that is stored already is larger than that of its machines."""
    largest = _largest(props)
    size = int(found.get("size") or 0) - SECTOR if found.get("size") else int(found.get("disk_gib") or 0) * GIB
    return None if largest is None or size <= largest else too_large(largest)


def _largest(props: Properties) -> int | None:
    given = props.get("system_disk_gb")
    return None if given is None else int(given) * GIB


def diff_of(key: tuple[str, ...], recorded: tuple[str, ...], olds: Properties, news: Properties) -> DiffResult:
    """Say what a change of inputs does to an upload.

    Another name (``key``) is another upload, made beside the old one. Of the other inputs only those that say
    how to reach it (``recorded``) matter, and are kept in the state: the content is named by the schematic, so
    that it does not matter which factory it came from.
    """
    replaces = [name for name in key if changed(name, olds, news)]
    if replaces:
        return DiffResult(changes=True, replaces=replaces)
    if problem := pin_problem(news, olds) or size_problem(news, olds):
        raise WorkError(problem)
    moved = any(changed(name, olds, news) for name in recorded)
    return DiffResult(changes=moved, replaces=[])
