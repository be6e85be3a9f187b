"""What the providers' Python SDKs know of their resources: names, types, required inputs, enums and outputs.

The simulated providers check inputs against this, so that a misspelt or missing argument fails in the lab as it
does with the real provider. It is read from the SDK's own classes, on first use of a type, and cached.
"""

import collections.abc
import enum
import functools
import importlib
import inspect
import re
import sys
import threading
import types
import typing
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi import _types as sdk_types

MODULES = {
    "azure-native": "pulumi_azure_native",
    "alicloud": "pulumi_alicloud",
    "kubernetes": "pulumi_kubernetes",
    "talos": "pulumiverse_talos",
}


class Unknown:
    """A value that a preview does not know yet."""

    def __repr__(self) -> str:
        return "<unknown>"

    def __bool__(self) -> bool:
        return False


UNKNOWN = Unknown()


@dataclass(frozen=True)
class Field:
    """One input of a resource or of a nested object."""

    name: str
    type: Any
    required: bool


@dataclass(frozen=True)
class ResourceSchema:
    """What the SDK says of one resource type."""

    token: str
    cls: type
    args: type
    inputs: dict[str, Field]
    outputs: frozenset[str] = field(default_factory=frozenset)


_importing = threading.RLock()
"""The SDKs import their modules on first use, and a second thread sees a module that is half there."""


@functools.cache
def resource(token: str) -> ResourceSchema | None:
    """Return the schema of a resource type, or None when the SDK has no such type."""
    with _importing:
        return _resource(token)


def _resource(token: str) -> ResourceSchema | None:
    cls = _resource_class(token)
    if cls is None:
        return None
    module = sys.modules[cls.__module__]
    args = getattr(module, f"{cls.__name__}InitArgs", None) or getattr(module, f"{cls.__name__}Args", None)
    if args is None:
        return None
    return ResourceSchema(token, cls, args, _fields(args), frozenset(sdk_types.resource_types(cls)))


def _resource_class(token: str) -> type | None:
    package, module_name, name = token.split(":")
    base = MODULES[package]
    if package in ("alicloud", "talos"):
        path = module_name.split("/")[0]
    elif package == "kubernetes":
        group, _, version = module_name.partition("/")
        path = f"{group.split('.')[0]}.{version}"
    else:
        path = module_name
    full = base if path == "index" else f"{base}.{path}"
    for candidate in (full, _keyword_safe(full)):
        try:
            module = importlib.import_module(candidate)
        except ModuleNotFoundError:
            continue
        cls = getattr(module, name, None)
        if isinstance(cls, type) and issubclass(cls, pulumi.Resource):
            return cls
    return None


def _keyword_safe(path: str) -> str:
    return ".".join(re.sub(r"^(\d)", r"_\1", part) for part in path.split("."))


@functools.cache
def _fields(args: type) -> dict[str, Field]:
    with _importing:
        names = sdk_types.input_type_py_to_pulumi_names(args)
        hints = sdk_types.input_type_types(args)
    parameters = inspect.signature(args.__init__).parameters  # type: ignore[misc]
    return {
        pulumi_name: Field(
            pulumi_name,
            hints.get(pulumi_name, typing.Any),
            python_name in parameters and parameters[python_name].default is inspect.Parameter.empty,
        )
        for python_name, pulumi_name in names.items()
    }


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with the inputs of a resource."""

    path: str
    reason: str


def problems(schema: ResourceSchema, inputs: dict[str, Any]) -> list[Problem]:
    """Return what the SDK's types say is wrong with ``inputs`` (camelCase, unknown values allowed)."""
    return list(_object_problems(schema.inputs, inputs, ""))


def _object_problems(fields: dict[str, Field], value: dict[str, Any], path: str) -> typing.Iterator[Problem]:
    for name in sorted(value.keys() - fields.keys()):
        if not name.startswith("__"):
            yield Problem(_join(path, name), "unknown property")
    for name, known in fields.items():
        given = value.get(name)
        if given is None:
            if known.required:
                yield Problem(_join(path, name), "missing required property")
            continue
        yield from _value_problems(known.type, given, _join(path, name))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _value_problems(hint: Any, value: Any, path: str) -> typing.Iterator[Problem]:
    if value is UNKNOWN or value is None:
        return
    options = _options(hint)
    if not options or any(option in (typing.Any, object) for option in options):
        return
    found = [list(_option_problems(option, value, path)) for option in options]
    if all(found):
        yield from min(found, key=_severity)


def _severity(found: list[Problem]) -> tuple[int, int]:
    # The option that gets furthest into the value explains best what is wrong with it.
    return (sum(p.reason.startswith("expected") and "." not in p.path for p in found), len(found))


def _options(hint: Any) -> list[Any]:
    """Return the plain types that an input may have; awaitables and outputs are resolved by then."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        found: list[Any] = []
        for member in typing.get_args(hint):
            for option in _options(member):
                if option not in found:
                    found.append(option)
        enums = [option for option in found if isinstance(option, type) and issubclass(option, enum.Enum)]
        # An enum beside `str` is how the SDK spells an enum: its values are what the service takes.
        return [option for option in found if not (enums and option is str)]
    if hint is type(None) or origin is collections.abc.Awaitable:
        return []
    if origin is pulumi.Output or hint is pulumi.Output:
        return []
    return [hint]


def _option_problems(hint: Any, value: Any, path: str) -> typing.Iterator[Problem]:  # noqa: PLR0912
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        if value not in typing.get_args(hint):
            yield Problem(path, f"expected {' or '.join(map(repr, typing.get_args(hint)))}")
    elif origin in (list, collections.abc.Sequence):
        if not isinstance(value, list):
            yield Problem(path, f"expected a list, got {_kind(value)}")
            return
        for index, item in enumerate(value):
            yield from _value_problems(typing.get_args(hint)[0], item, f"{path}[{index}]")
    elif origin in (dict, collections.abc.Mapping):
        if not isinstance(value, dict):
            yield Problem(path, f"expected an object, got {_kind(value)}")
            return
        for key, item in value.items():
            yield from _value_problems(typing.get_args(hint)[1], item, _join(path, key))
    elif isinstance(hint, type) and sdk_types.is_input_type(hint):
        if not isinstance(value, dict):
            yield Problem(path, f"expected an object, got {_kind(value)}")
            return
        yield from _object_problems(_fields(hint), value, path)
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        allowed = [member.value for member in hint]
        if value not in allowed:
            yield Problem(path, f"expected one of {', '.join(map(str, allowed))}")
    elif hint in _SCALARS and not _SCALARS[hint](value):
        yield Problem(path, f"expected {_NAMES[hint]}, got {_kind(value)}")


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        # The engine hands numbers over as text where a program gave text; providers take it.
        return re.fullmatch(r"-?\d+(\.\d+)?", value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


_SCALARS: dict[Any, typing.Callable[[Any], bool]] = {
    str: lambda v: isinstance(v, str | int | float | bool),
    int: lambda v: _is_number(v) and float(v) == int(float(v)),
    float: _is_number,
    bool: lambda v: isinstance(v, bool) or v in ("true", "false"),
}
_NAMES = {str: "a string", int: "a whole number", float: "a number", bool: "true or false"}


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "true or false"
    names = {str: "a string", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), type(value).__name__)
