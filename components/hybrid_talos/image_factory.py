"""The Image Factory at deployment: makes the schematic known to it and compares what it says with ours.

HTTP as described in siderolabs/image-factory docs/api.md.
"""

import difflib
from collections.abc import Iterable
from typing import Any

import requests

from .image_assets import tag
from .image_download import plain_reason
from .image_stream import ImageError
from .schematic import schematic_id

_TIMEOUT_SECONDS = (30, 120)
_SHORT_TIMEOUT_SECONDS = (5, 30)
_SHOWN_VERSIONS = 5


def register(session: requests.Session, factory_url: str, schematic: str) -> None:
    """Send the schematic to the factory, which only builds images for those that it has been sent.

    Raises ImageError when the factory refuses it or gives it another id than ours: then the image that it
    serves would not be the one that was planned.
    """
    base = factory_url.rstrip("/")
    try:
        response = session.post(
            f"{base}/schematics",
            data=schematic.encode(),
            headers={"Content-Type": "application/yaml"},
            timeout=_TIMEOUT_SECONDS,
        )
    except requests.RequestException as error:
        raise ImageError(
            f"the image factory {base} cannot be reached ({type(error).__name__}); check image.factoryUrl, image.proxy "
            "and image.factoryCa, and HTTPS_PROXY and REQUESTS_CA_BUNDLE of this machine"
        ) from None
    if response.status_code != requests.codes.created:
        raise ImageError(
            f"the image factory {base} refuses the schematic: status {response.status_code}{plain_reason(response)}"
        )
    try:
        answered = response.json()["id"]
    except (ValueError, KeyError, TypeError):
        raise ImageError(f"what answers at {base} is no image factory: it gives no schematic id") from None
    expected = schematic_id(schematic)
    if answered != expected:
        raise ImageError(
            f"the image factory {base} gives the schematic the id {answered}, but it was planned as {expected}; "
            "a factory that adds an owner to schematics cannot be used"
        )


def check_version(session: requests.Session, factory_url: str, version: str) -> None:
    """Raise ImageError that names the closest and the newest releases when the factory does not know this one.

    A factory that does not list its releases is left to judge for itself when the image is asked for.
    """
    base, wanted = factory_url.rstrip("/"), tag(version)
    known = [name for name in _listed(session, f"{base}/versions") if isinstance(name, str)]
    if not known or wanted in known:
        return
    newest = ", ".join(known[-1 : -1 - _SHOWN_VERSIONS : -1])
    line = wanted.rsplit(".", 1)[0] if "-" not in wanted else wanted.partition("-")[0].rsplit(".", 1)[0]
    close = [name for name in known if name.startswith(f"{line}.")][-_SHOWN_VERSIONS:]
    near = f"of {line} it has {', '.join(close)}; " if close else ""
    raise ImageError(
        f"the image factory {base} does not know Talos {wanted}: {near}its newest are {newest}. Change the version "
        "(cluster.talosVersion, or talos_version of the image)"
    )


def check_extensions(session: requests.Session, factory_url: str, version: str, wanted: Iterable[str]) -> None:
    """Raise ImageError that names the closest extensions when one is not made for this Talos version.

    A factory that does not list its extensions is left to judge for itself when the image is asked for.
    """
    names = list(wanted)
    if not names:
        return
    known = _names(session, f"{factory_url.rstrip('/')}/version/{tag(version)}/extensions/official")
    words = f"the image factory {factory_url.rstrip('/')} has no such extension"
    _refuse_unknown(names, known, words, version, "image.extensions")


def check_overlay(session: requests.Session, factory_url: str, version: str, wanted: str | None) -> None:
    """Raise ImageError that names the closest overlays when this one is not made for this Talos version."""
    if not wanted:
        return
    known = _names(session, f"{factory_url.rstrip('/')}/version/{tag(version)}/overlays/official")
    words = f"the image factory {factory_url.rstrip('/')} has no such overlay"
    _refuse_unknown([wanted], known, words, version, "image.overlay")


def is_known(session: requests.Session, factory_url: str, schematic: str) -> bool:
    """Tell whether the factory knows a schematic by its id; one that cannot be asked has not forgotten it."""
    try:
        response = session.get(f"{factory_url.rstrip('/')}/schematics/{schematic}", timeout=_SHORT_TIMEOUT_SECONDS)
    except requests.RequestException:
        return True
    return bool(response.status_code != requests.codes.not_found)


def _refuse_unknown(wanted: list[str], known: set[str], words: str, version: str, key: str) -> None:
    problems = []
    for name in wanted if known else ():
        if name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=3)
            problems.append(f"{name} (did you mean {' or '.join(close)}?)" if close else name)
    if problems:
        raise ImageError(f"{words} for Talos {tag(version)}: {', '.join(problems)}; change {key}")


def _names(session: requests.Session, url: str) -> set[str]:
    return {str(entry["name"]) for entry in _listed(session, url) if isinstance(entry, dict) and "name" in entry}


def _listed(session: requests.Session, url: str) -> list[Any]:
    """Return a list that the factory serves; nothing when it does not."""
    try:
        response = session.get(url, timeout=_TIMEOUT_SECONDS)
        found = response.json() if response.ok else []
    except (requests.RequestException, ValueError):
        return []
    return found if isinstance(found, list) else []
