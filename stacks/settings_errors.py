"""Words for what is wrong with the settings: one line for each key, never with the value of a secret."""

import difflib
import re
import types
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import pulumi
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from .settings_base import SECRET_IN_SETTINGS, Section

KEY = "hybrid-talos:settings"
"""The config key that holds the settings."""


class Problem(NamedTuple):
    """One thing that is wrong, and where."""

    path: str
    """Path below `hybrid-talos:settings`, in the form that `pulumi config set --path` takes."""
    text: str
    """What was expected, and what to do."""

    def __str__(self) -> str:
        """Return the line of a message."""
        return f"{self.path}: {self.text}"


class SettingsError(pulumi.RunError):
    """Settings that cannot be used; Pulumi prints the message without a traceback."""

    def __init__(self, problems: Iterable[str]) -> None:
        """Put every problem into one message, each once and on a line of its own."""
        self.problems = tuple(dict.fromkeys(map(str, problems)))
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__("\n".join([f"{count} in the settings of this stack:", *(f"  {p}" for p in self.problems)]))


def path_of(location: Iterable[int | str]) -> str:
    """Return a path such as `azure.pools[0].labels["example.com/pool"]`."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", part, re.ASCII):
            path += f".{part}" if path else part
        elif part != "[key]":  # how pydantic marks a bad key of a mapping
            path += f'["{part[:64]}"]'
    return path or KEY


def is_section(annotation: Any) -> bool:
    """Return whether an annotation is a section."""
    return isinstance(annotation, type) and issubclass(annotation, Section)


def bare(annotation: Any) -> Any:
    """Return an annotation without Annotated and without `| None`."""
    if get_origin(annotation) is Annotated:
        return bare(get_args(annotation)[0])
    if get_origin(annotation) in {Union, types.UnionType}:
        kinds = [kind for kind in get_args(annotation) if kind is not types.NoneType]
        return bare(kinds[0]) if len(kinds) == 1 else annotation
    return annotation


def field_of(section: type[Section], alias: str) -> FieldInfo | None:
    """Return the field of a section that a key of the file stands for."""
    return next((field for field in section.model_fields.values() if field.alias == alias), None)


def _section_at(root: type[Section], location: Iterable[int | str]) -> type[Section] | None:
    """Return the section that a location of the file leads to."""
    current: Any = root
    for part in location:
        if is_section(current):
            field = field_of(current, str(part))
            current = bare(field.annotation) if field else None
        else:
            current = bare(get_args(current)[-1 if isinstance(part, str) else 0]) if get_args(current) else None
    return current if is_section(current) else None


_SECRET = re.compile(
    r"secret|password|passwd|token|private_?key|credential|access_?key$|kubeconfig|talosconfig|^join$", re.I
)


def _secret_key(location: tuple[int | str, ...]) -> str:
    key = str(location[-1]).lower()
    if "kubeconfig" in key or key == "join":
        return f"hybrid-talos:{'join' if key == 'join' else 'kubeconfig'}"
    where = "".join(map(str, location)).lower()
    if "registries" in where or "registry" in where:
        return "hybrid-talos:registryPasswords"
    if "proxy" in where:
        return "hybrid-talos:proxyPassword"
    if "aliyun" in where or "accesskey" in where:
        return "hybrid-talos:aliyunAccessKeySecret"
    if "azure" in where or "client" in where:
        return "hybrid-talos:azureClientSecret"
    return "hybrid-talos:azureClientSecret or hybrid-talos:aliyunAccessKeySecret"


def closest(key: str, known: Iterable[str]) -> str | None:
    """Return the known name that a wrong one most probably stands for."""
    names = {name.lower(): name for name in known}
    found = difflib.get_close_matches(key.replace("_", "").replace("-", "").lower(), names, n=1, cutoff=0.6)
    return names[found[0]] if found else None


def _unknown(root: type[Section], location: tuple[int | str, ...]) -> str:
    key = str(location[-1])
    section = _section_at(root, location[:-1])
    known = sorted(field.alias or "" for field in section.model_fields.values()) if section else []
    meant = closest(key, known)
    if _SECRET.search(key):
        return f"{SECRET_IN_SETTINGS} `pulumi config set --secret {_secret_key(location)}`"
    if meant:
        return f"no such key; did you mean {meant}?"
    return f"no such key; known here are {', '.join(known)}"


def _missing(root: type[Section], location: tuple[int | str, ...]) -> str:
    section = _section_at(root, location[:-1])
    field = field_of(section, str(location[-1])) if section else None
    meaning = (field.description or "").split("\n", 1)[0].rstrip(".") if field else ""
    return f"is required: {meaning}" if meaning else "is required"


_EXPECTED = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list, [in brackets] or with a - before each item",
    "list_type": "must be a list, [in brackets] or with a - before each item",
    "dict_type": "must be a mapping of keys to values",
    "mapping_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of keys to values",
}
_LIMITS = {
    "greater_than_equal": "must be {ge} or more",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be {le} or less",
    "less_than": "must be less than {lt}",
    "too_short": "must have {min_length} or more items",
    "too_long": "must have {max_length} items or fewer",
    "enum": "must be one of {expected}",
}


def _hint(kind: str, value: Any) -> str:
    if kind == "string_type" and isinstance(value, bool | int | float):
        return ": put it in quotes"
    if kind in {"int_type", "float_type", "bool_type"} and isinstance(value, str):
        return ": write it without quotes"
    return ""


def _words(root: type[Section], error: ErrorDetails) -> str:
    kind, value, location = error["type"], error["input"], error["loc"]
    if kind == "extra_forbidden":
        return _unknown(root, location)
    if kind == "missing":
        return _missing(root, location)
    if kind in _EXPECTED:
        return ("is empty; it " if value is None else "") + _EXPECTED[kind] + _hint(kind, value)
    if kind in _LIMITS:
        return _LIMITS[kind].format(**error.get("ctx", {})).replace("'", "")
    return error["msg"].removeprefix("Value error, ")


def problems_of(root: type[Section], error: ValidationError) -> list[Problem]:
    """Return a problem for each error of pydantic. Its input is looked at for its kind alone, never shown."""
    details = error.errors(include_url=False)
    places = [detail["loc"] for detail in details]

    def follows(detail: ErrorDetails) -> bool:
        """Whether an error only follows from another, as of a list that its bad items leave empty."""
        size = len(detail["loc"])
        inside = (place for place in places if len(place) > size and place[:size] == detail["loc"])
        return detail["type"] == "default_factory_not_called" or (
            detail["type"] == "too_short" and next(inside, None) is not None
        )

    return [Problem(path_of(detail["loc"]), _words(root, detail)) for detail in details if not follows(detail)]
