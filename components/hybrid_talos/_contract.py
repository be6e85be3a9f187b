"""How components check their inputs: the plain half of them, before anything is registered."""

from collections.abc import Mapping
from typing import Any, TypeVar

import pulumi
from pydantic import BaseModel, ConfigDict, ValidationError


class Shape(BaseModel):
    """The plain half of a component's inputs: what decides which children exist."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class BadInputs(pulumi.RunError):
    """Inputs that a component refuses; Pulumi prints the message without a traceback."""


S = TypeVar("S", bound=Shape)


def problems_of(error: ValidationError) -> list[str]:
    """Return one line for each problem of a pydantic error, never with a value in it."""
    return [
        f"{'.'.join(map(str, e['loc'])) or 'inputs'}: {e['msg'].removeprefix('Value error, ')}"
        for e in error.errors(include_input=False, include_url=False)
    ]


def check(owner: str, args: Mapping[str, Any], contract: type, shape: type[S]) -> S:
    """Return the validated shape of ``args``, or raise BadInputs naming every bad input.

    Only the keys that ``shape`` knows are looked at: they are plain by contract. All others are
    ``Input`` values, which may be unknown in a preview and are never inspected here.
    """
    required: frozenset[str] = contract.__required_keys__  # type: ignore[attr-defined]
    optional: frozenset[str] = contract.__optional_keys__  # type: ignore[attr-defined]
    problems = [f"{key}: no such input" for key in sorted(args.keys() - required - optional)]
    problems += [f"{key}: required" for key in sorted(required - args.keys())]
    try:
        checked = shape.model_validate({key: args[key] for key in shape.model_fields if key in args})
    except ValidationError as error:
        named = {line.split(":", 1)[0] for line in problems}
        problems += [line for line in problems_of(error) if line.split(":", 1)[0] not in named]
    else:
        if not problems:
            return checked
    raise BadInputs(f"{owner}: " + "; ".join(problems))
