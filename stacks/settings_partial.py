"""What parses of a file with problems, so that the rest of it can be checked at the same time."""

import json
from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import PydanticUndefined

from .settings_base import Section, UnparsedError
from .settings_errors import bare, is_section

S = TypeVar("S", bound=Section)


@cache
def _adapter(section: type[Section], name: str) -> TypeAdapter[Any]:
    field = section.model_fields[name]
    kind: Any = field.annotation
    for mark in field.metadata:
        kind = Annotated[kind, mark]
    return TypeAdapter(kind, config=ConfigDict(strict=True, hide_input_in_errors=True))


def _holds_sections(annotation: Any) -> bool:
    kind = bare(annotation)
    return is_section(kind) or any(_holds_sections(part) for part in get_args(kind) if part is not ...)


def _lenient(annotation: Any, data: Any) -> Any:
    kind = bare(annotation)
    if data is None and get_origin(annotation) in {Union, UnionType}:
        return None
    if is_section(kind):
        return partial(kind, data)
    if get_origin(kind) is tuple and isinstance(data, list | tuple):
        # Items that are no mappings stay as empty sections, so that the others keep their index.
        return tuple(_lenient(get_args(kind)[0], item) for item in data)
    if get_origin(kind) is Mapping and isinstance(data, Mapping):
        return {str(key): _lenient(get_args(kind)[1], value) for key, value in data.items()}
    raise UnparsedError


def partial(section: type[S], data: Any) -> S:
    """Return a section that holds the fields that parse; asking it for another raises UnparsedError."""
    given: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
    values: dict[str, Any] = {}
    unparsed: set[str] = set()
    for name, field in section.model_fields.items():
        alias = field.alias or name
        try:
            if alias in given and _holds_sections(field.annotation):
                values[name] = _lenient(field.annotation, given[alias])
            elif alias in given:
                values[name] = _adapter(section, name).validate_json(json.dumps(given[alias], default=str))
            elif isinstance(data, Mapping) and not field.is_required():
                values[name] = field.get_default(call_default_factory=True, validated_data=values)
            else:
                unparsed.add(name)
        # A default may be made of a field that did not parse.
        except (ValidationError, UnparsedError, KeyError, ValueError):
            unparsed.add(name)
        if values.get(name) is PydanticUndefined:
            unparsed.add(name)
    fields_set = {name for name, field in section.model_fields.items() if (field.alias or name) in given}
    # Cast, because the plugin of pydantic for mypy gives the base class here.
    made = cast(S, section.model_construct(_fields_set=fields_set, **values))
    for name in unparsed:
        made.__dict__.pop(name, None)
    return made
