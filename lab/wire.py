"""Values on the provider protocol: protobuf structs to Python values and back.

Unknown values of a preview become ``UNKNOWN``, secrets become ``Secret``, whole numbers become ``int``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import struct_pb2
from pulumi.runtime import rpc

from .sdk_schema import UNKNOWN

_SIGNATURE = rpc._special_sig_key
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"


@dataclass(frozen=True)
class Secret:
    """A value that the engine keeps encrypted."""

    value: Any

    def __repr__(self) -> str:
        return "Secret(...)"


def decode(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Return the values of a struct, with secrets marked by ``Secret``."""
    return {key: _decode(value) for key, value in struct.fields.items()}


def _decode(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return UNKNOWN if value.string_value == rpc.UNKNOWN else value.string_value
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        return [_decode(item) for item in value.list_value.values]
    if kind == "struct_value":
        fields = value.struct_value.fields
        signature = fields[_SIGNATURE].string_value if _SIGNATURE in fields else None
        if signature == rpc._special_secret_sig:
            return Secret(_decode(fields["value"]))
        if signature == _OUTPUT:
            inner = _decode(fields["value"]) if "value" in fields else UNKNOWN
            secret = "secret" in fields and fields["secret"].bool_value
            return Secret(inner) if secret else inner
        return {key: _decode(item) for key, item in fields.items()}
    return None


def plain(value: Any) -> Any:
    """Return a value without its secret marks."""
    if isinstance(value, Secret):
        return plain(value.value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def has_unknown(value: Any) -> bool:
    """Say whether any part of a value is not known yet."""
    if isinstance(value, Secret):
        return has_unknown(value.value)
    if isinstance(value, Mapping):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return value is UNKNOWN


def encode(values: Mapping[str, Any]) -> struct_pb2.Struct:
    """Return a struct with the values, as the engine reads them."""
    struct = struct_pb2.Struct()
    for key, value in values.items():
        if value is not None:
            struct.fields[key].CopyFrom(_encode(value))
    return struct


def _encode(value: Any) -> struct_pb2.Value:
    if value is UNKNOWN:
        return struct_pb2.Value(string_value=rpc.UNKNOWN)
    if isinstance(value, Secret):
        inner = struct_pb2.Struct()
        inner.fields[_SIGNATURE].string_value = rpc._special_secret_sig
        inner.fields["value"].CopyFrom(_encode(value.value))
        return struct_pb2.Value(struct_value=inner)
    if value is None:
        return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
    if isinstance(value, bool):
        return struct_pb2.Value(bool_value=value)
    if isinstance(value, int | float):
        return struct_pb2.Value(number_value=value)
    if isinstance(value, str):
        return struct_pb2.Value(string_value=value)
    if isinstance(value, Mapping):
        return struct_pb2.Value(struct_value=encode(value))
    if isinstance(value, list | tuple):
        return struct_pb2.Value(list_value=struct_pb2.ListValue(values=[_encode(item) for item in value]))
    raise TypeError(f"a {type(value).__name__} cannot go over the provider protocol")


def changed_paths(old: Any, new: Any, path: str = "") -> dict[str, str]:
    """Return the paths at which two values differ, each with ``add``, ``delete`` or ``update``."""
    old, new = plain(old), plain(new)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        found: dict[str, str] = {}
        for key in sorted(old.keys() | new.keys()):
            if key.startswith("__"):
                continue
            where = f"{path}.{key}" if path else key
            if old.get(key) is None and new.get(key) is not None:
                found[where] = "add"
            elif new.get(key) is None and old.get(key) is not None:
                found[where] = "delete"
            else:
                found |= changed_paths(old.get(key), new.get(key), where)
        return found
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        found = {}
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            found |= changed_paths(before, after, f"{path}[{index}]")
        return found
    return {} if old == new and old is not UNKNOWN else {path: "update"}


def fill(values: Any, filled: Any) -> Any:
    """Return ``values`` with ``filled`` laid over them: None takes a value away, secret marks stay."""
    if filled is None or isinstance(filled, Secret):
        return filled
    if isinstance(values, Secret):
        return Secret(fill(values.value, filled))
    if isinstance(values, Mapping) and isinstance(filled, Mapping):
        return {**values, **{key: fill(values.get(key), item) for key, item in filled.items()}}
    return filled


def overlay(inputs: Any, before: Any, now: Any) -> Any:
    """Return ``inputs`` with what changed in the cloud between ``before`` and ``now``.

    This is how a provider reads drift back into a resource's inputs: only properties that the program gave
    are touched, and one that did not drift keeps its value and its secret mark.
    """
    if isinstance(inputs, Mapping) and isinstance(before, Mapping) and isinstance(now, Mapping):
        result = {}
        for key, value in inputs.items():
            if key not in before:
                result[key] = value
            elif key in now:
                result[key] = overlay(value, before[key], now[key])
        return result
    if plain(before) == plain(now):
        return inputs
    return now
