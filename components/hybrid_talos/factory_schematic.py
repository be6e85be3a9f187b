"""The work of FactorySchematic: the factory is told of a schematic that machines will ask for by its id.

A factory builds only for schematics that it was sent. It keeps them for ever and for everybody, so that there is
nothing to delete.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests
from pulumi.dynamic import DiffResult

from .http_session import RETRIES, http_session
from .image_factory import check_extensions, check_overlay, check_version, is_known, register
from .image_stream import ImageError
from .schematic import schematic_id
from .work_provider import WorkError, changed

Properties = dict[str, Any]

_KEY = ("factory_url", "schematic")


def check(_news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs: all of them were looked at when they were made."""
    return {}


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Another schematic or factory is another resource; another release is asked for again."""
    replaces = [name for name in _KEY if changed(name, olds, news)]
    return DiffResult(changes=bool(replaces) or changed("talos_version", olds, news), replaces=replaces)


def create(props: Properties) -> tuple[str, Properties]:
    """Send the schematic, and ask whether the factory has the release and all that is in the schematic."""
    with _session(props) as session:
        check_version(session, props["factory_url"], props["talos_version"])
        register(session, props["factory_url"], props["schematic"])
        _ask_for_parts(session, props)
    return schematic_id(props["schematic"]), props


def read(props: Properties) -> Properties | None:
    """Return the resource; None when the factory says that it does not know the schematic."""
    # A refresh is not held up by a factory that is out of reach: it has not forgotten anything.
    with _session(props, times=1) as session:
        known = is_known(session, props["factory_url"], schematic_id(props["schematic"]))
    return props if known else None


def update(_olds: Properties, news: Properties) -> Properties:
    """Ask again, for another release."""
    with _session(news) as session:
        check_version(session, news["factory_url"], news["talos_version"])
        _ask_for_parts(session, news)
    return news


def delete(_props: Properties) -> None:
    """Do nothing: others may use the same schematic."""


def _ask_for_parts(session: requests.Session, props: Properties) -> None:
    factory, version = props["factory_url"], props["talos_version"]
    check_extensions(session, factory, version, props.get("extensions") or ())
    check_overlay(session, factory, version, props.get("overlay"))


@contextmanager
def _session(props: Properties, times: int = RETRIES) -> Iterator[requests.Session]:
    try:
        with http_session(props.get("factory_ca"), proxy=props.get("proxy"), times=times) as session:
            yield session
    except ImageError as error:
        raise WorkError(str(error)) from None
