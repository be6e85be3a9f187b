"""The Image Factory at deployment: makes the schematic known to it and compares what it says with ours.

HTTP as described in siderolabs/image-factory docs/api.md.
"""

import difflib

import requests

from .image_stream import ImageError, plain_reason
from .schematic import schematic_id

_TIMEOUT_SECONDS = (30, 120)


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
            f"the image factory {base} cannot be reached ({type(error).__name__}); check factory_url, and "
            "HTTPS_PROXY and REQUESTS_CA_BUNDLE of this machine"
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


def check_extensions(session: requests.Session, factory_url: str, version: str, wanted: list[str]) -> None:
    """Raise ImageError that names the closest extensions when one is not made for this Talos version.

    A factory that does not list its extensions is left to judge for itself when the image is asked for.
    """
    if not wanted:
        return
    base = factory_url.rstrip("/")
    tag = f"v{version.removeprefix('v')}"
    try:
        response = session.get(f"{base}/version/{tag}/extensions/official", timeout=_TIMEOUT_SECONDS)
        names = {entry["name"] for entry in response.json()} if response.ok else set()
    except (requests.RequestException, ValueError, KeyError, TypeError):
        return
    if not names:
        return
    problems = []
    for name in wanted:
        if name not in names:
            close = difflib.get_close_matches(name, names, n=3)
            problems.append(f"{name} (did you mean {' or '.join(close)}?)" if close else name)
    if problems:
        raise ImageError(f"the image factory {base} has no such extension for Talos {tag}: {', '.join(problems)}")
