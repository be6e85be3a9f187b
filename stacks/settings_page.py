"""The page docs/settings.md, written from the settings' own types: `make docs` writes it anew."""

import types
import typing
from collections.abc import Iterator
from enum import Enum
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from .settings_base import Section
from .settings_tree import Tree

HEAD = """\
# Settings

Everything about a cluster that is not a secret stands in one object, `hybrid-talos:settings`, in `Pulumi.<stack>.yaml`;
`hybrid-talos:stack` beside it picks what is built. [Pulumi.dev.yaml](../Pulumi.dev.yaml) is a complete example, and
[Pulumi.burst.yaml](../examples/azure-burst/Pulumi.burst.yaml) one for a cluster that exists already.

Keys are camelCase and an unknown one is refused. Versions are text: write `"1.36.3"` with quotes. All problems of a
file come in one message, in the preview, before anything is made. Secrets are keys of their own: see
[Secrets](secrets.md).

This page is written from the program's own types: `make docs` writes it anew.
"""


def page() -> str:
    """Return the page as Markdown."""
    lines = [HEAD]
    for path, section in _sections(Tree, ""):
        lines += [f"## `{path}`" if path else "## Top level", ""]
        if path and section.__doc__:
            lines += [" ".join(section.__doc__.split()), ""]
        lines += ["| key | type | default | meaning |", "|---|---|---|---|"]
        for name, field in section.model_fields.items():
            key = field.alias or name
            lines.append(f"| `{key}` | {_type(field.annotation)} | {_default(field)} | {_meaning(field)} |")
        lines.append("")
    return "\n".join(lines)


def _sections(section: type[Section], path: str) -> Iterator[tuple[str, type[Section]]]:
    yield path, section
    for name, field in section.model_fields.items():
        for inner, ending in _inner(field.annotation):
            key = field.alias or name
            yield from _sections(inner, f"{path}.{key}{ending}" if path else f"{key}{ending}")


def _inner(hint: Any, ending: str = "") -> Iterator[tuple[type[Section], str]]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, type) and issubclass(hint, Section):
        yield hint, ending
    elif origin is tuple:
        yield from _inner(arguments[0], ending + "[]")
    elif origin is not None and "Mapping" in str(origin):
        yield from _inner(arguments[1], ending + ".<name>")
    elif arguments:
        for argument in arguments:
            yield from _inner(argument, ending)


def _type(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_type(argument) for argument in arguments if argument is not type(None))
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if origin is not None and "Mapping" in str(origin):
        return f"map of {_type(arguments[1])}"
    if isinstance(hint, type) and issubclass(hint, Section):
        return "section"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return " \\| ".join(f"`{member.value}`" for member in hint)
    names = {"str": "text", "int": "number", "float": "number", "bool": "true or false", "IPv4Network": "IPv4 range"}
    name = getattr(hint, "__name__", str(hint))
    return names.get(name, "IPv4 address" if name == "IPv4Address" else name)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if field.default is PydanticUndefined:
        return "from other keys"
    value = field.default
    if value is None:
        return "none"
    if isinstance(value, Section | tuple | dict):
        return "empty" if not value or isinstance(value, Section) else f"`{list(value)}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value.value if isinstance(value, Enum) else value}`"


def _meaning(field: FieldInfo) -> str:
    return " ".join((field.description or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    print(page(), end="")
