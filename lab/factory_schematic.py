"""Reads a posted schematic and computes its id as the Image Factory does, on its own: nothing is shared with the
library, whose id is checked against this one.

The id is the SHA-256 of the schematic written by go-yaml with its fields in the order of the Go struct
(siderolabs/image-factory pkg/schematic/schematic.go; yaml.v3 encode.go and emitterc.go for how values are written).
"""

import hashlib
import re
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import yaml

_INDENT = 4
_KNOWN_BOOTLOADERS = ("auto", "dual-boot", "grub", "sd-boot")
_KNOWN_ENROL = ("off", "manual", "if-safe", "force")

# What go-yaml would read back as something else than text is written in double quotes (yaml.v3 resolve.go).
_NOT_TEXT = re.compile(
    r"""(?x)^(?:
      | ~ | null | Null | NULL | <<
      | true | True | TRUE | false | False | FALSE
      | y | Y | yes | Yes | YES | on | On | ON | n | N | no | No | NO | off | Off | OFF
      | [-+]?(?:0[bB][01_]+ | 0[oO]?[0-7_]+ | 0[xX][0-9a-fA-F_]+ | [0-9][0-9_]*)
      | [-+]?(?:\.[0-9]+ | [0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?
      | [-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?
      | [-+]?\.(?:inf|Inf|INF) | \.(?:nan|NaN|NAN)
      | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt\ ].*)?
    )$"""
)


class InvalidSchematic(Exception):
    """The posted text is no schematic; the message says why."""


class _Int(int):
    """A number that remembers how it was written: where the field is text, that is its value."""

    text: str


class _Float(float):
    """As above."""

    text: str


class _Loader(yaml.SafeLoader):
    """PyYAML takes dates, `off` and the like for values; in the schematic they are text."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse keys that stand twice, as go-yaml does."""
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, "mapping key already defined", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def _construct_int(loader: _Loader, node: yaml.ScalarNode) -> _Int:
    number = _Int(loader.construct_yaml_int(node))
    number.text = node.value
    return number


def _construct_float(loader: _Loader, node: yaml.ScalarNode) -> _Float:
    number = _Float(loader.construct_yaml_float(node))
    number.text = node.value
    return number


_Loader.add_constructor("tag:yaml.org,2002:int", _construct_int)
_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)

_Loader.yaml_implicit_resolvers = {
    key: [(tag, regexp) for tag, regexp in resolvers if tag.rsplit(":", 1)[-1] in ("null", "int", "float")]
    for key, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _first in "tTfF":
    _Loader.add_implicit_resolver(
        "tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), [_first]
    )


def canonical(body: bytes) -> str:
    """Return the canonical text of a posted schematic (YAML or JSON).

    Raises:
        InvalidSchematic: it does not parse, or a field is unknown or of the wrong type.
    """
    try:
        document = yaml.load(body, Loader=_Loader)  # noqa: S506 - a safe loader with fewer types
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InvalidSchematic(f"yaml: {error}") from error
    if document is None:
        raise InvalidSchematic("EOF")
    return _emit(_schematic(document), 0, in_sequence=False)


def schematic_id(text: str) -> str:
    """Return the id of a canonical schematic."""
    return hashlib.sha256(text.encode()).hexdigest()


def extensions(text: str) -> list[str]:
    """Return the official extensions that a canonical schematic names, in its order."""
    customization = yaml.safe_load(text)["customization"]
    names: list[str] = customization.get("systemExtensions", {}).get("officialExtensions", [])
    return names


def overlay(text: str) -> str | None:
    """Return the overlay that a canonical schematic names."""
    name: str | None = yaml.safe_load(text).get("overlay", {}).get("name")
    return name


def _schematic(document: Any) -> dict[str, Any]:
    fields = _fields(document, "schematic", ("owner", "overlay", "customization"))
    overlay = _fields(fields.get("overlay"), "overlay", ("image", "name", "options"))
    custom = _fields(
        fields.get("customization"),
        "customization",
        (
            *("embeddedMachineConfiguration", "extraKernelArgs", "meta", "systemExtensions"),
            *("bootloader", "secureboot", "diskImage"),
        ),
    )
    system = _fields(custom.get("systemExtensions"), "systemExtensions", ("officialExtensions",))
    secure = _fields(custom.get("secureboot"), "secureboot", ("enrollKeys", "includeWellKnownCertificates"))
    disk = _fields(custom.get("diskImage"), "diskImage", ("sectorSize",))
    result: dict[str, Any] = {}
    if owner := _text(fields.get("owner"), "owner"):
        result["owner"] = owner
    if overlay:
        # Neither of the two is omitted when empty, once there is an overlay at all.
        result["overlay"] = {
            "image": _text(overlay.get("image"), "image"),
            "name": _text(overlay.get("name"), "name"),
        }
        if options := overlay.get("options"):
            result["overlay"]["options"] = _sorted(_fields(options, "options", None))
    result["customization"] = _without_empty(
        {
            "embeddedMachineConfiguration": _text(
                custom.get("embeddedMachineConfiguration"), "embeddedMachineConfiguration"
            ),
            "extraKernelArgs": _texts(custom.get("extraKernelArgs"), "extraKernelArgs"),
            "meta": [_meta(item) for item in _list(custom.get("meta"), "meta")],
            "systemExtensions": _without_empty(
                {"officialExtensions": _texts(system.get("officialExtensions"), "officialExtensions")}
            ),
            "bootloader": _choice(custom.get("bootloader"), "bootloader", _KNOWN_BOOTLOADERS),
            "secureboot": _without_empty(
                {
                    "enrollKeys": _choice(secure.get("enrollKeys"), "enrollKeys", _KNOWN_ENROL),
                    "includeWellKnownCertificates": _flag(
                        secure.get("includeWellKnownCertificates"), "includeWellKnownCertificates"
                    ),
                }
            ),
            "diskImage": _without_empty({"sectorSize": _number(disk.get("sectorSize"), "sectorSize", 2**64)}),
        }
    )
    return result


def _meta(item: Any) -> dict[str, Any]:
    fields = _fields(item, "meta", ("key", "value"))
    return {"key": _number(fields.get("key"), "key", 256), "value": _text(fields.get("value"), "value")}


def _fields(value: Any, name: str, known: Sequence[str] | None) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidSchematic(f"yaml: cannot unmarshal {type(value).__name__} into {name}")
    for key in value:
        if known is not None and key not in known:
            raise InvalidSchematic(f"yaml: field {key} not found in {name}")
    return {str(key): item for key, item in value.items()}


def _list(value: Any, name: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidSchematic(f"yaml: cannot unmarshal {type(value).__name__} into {name}")
    return value


def _texts(value: Any, name: str) -> list[str]:
    return [_text(item, name) for item in _list(value, name)]


def _text(value: Any, name: str) -> str:
    # go-yaml takes numbers and truth values for text where the field is text.
    if value is None:
        return ""
    if isinstance(value, (Mapping, list)):
        raise InvalidSchematic(f"yaml: cannot unmarshal {type(value).__name__} into {name}")
    if isinstance(value, bool):
        return str(value).lower()
    return str(getattr(value, "text", value))


def _choice(value: Any, name: str, known: Sequence[str]) -> str:
    text = _text(value, name)
    if text and text not in known:
        raise InvalidSchematic(f"yaml: {name} must be one of {', '.join(known)}")
    return text


def _flag(value: Any, name: str) -> bool:
    if value not in (None, True, False):
        raise InvalidSchematic(f"yaml: cannot unmarshal {type(value).__name__} into {name}")
    return bool(value)


def _number(value: Any, name: str, limit: int) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < limit:
        raise InvalidSchematic(f"yaml: cannot unmarshal into {name}: expected a number below {limit}")
    return value


def _sorted(value: Any) -> Any:
    """Order the keys of free-form mappings, as go-yaml does with a Go map."""
    if isinstance(value, Mapping):
        return {str(key): _sorted(value[key]) for key in sorted(value, key=str)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _without_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if value not in (None, "", 0, False, [], {})}


def _emit(value: Any, indent: int, *, in_sequence: bool) -> str:
    """Write a mapping or list as a block, its lines at ``indent``; the first line of one in a list is not indented."""
    lines: list[str] = []
    margin = " " * indent
    if isinstance(value, Mapping):
        for key, item in value.items():
            lines.append(f"{_scalar(key, indent)}:{_item(item, _INDENT * (indent // _INDENT + 1))}")
    else:
        for item in value:
            if isinstance(item, (Mapping, list)) and item:
                lines.append(f"- {_emit(item, indent + 2, in_sequence=True)}")
            else:
                lines.append(f"- {_scalar(item, indent + 2)}\n")
    text = margin.join(lines)
    return text if in_sequence else margin + text


def _item(value: Any, indent: int) -> str:
    if isinstance(value, (Mapping, list)) and value:
        return "\n" + _emit(value, indent, in_sequence=False)
    return f" {_scalar(value, indent)}\n"


def _scalar(value: Any, indent: int) -> str:
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, list):
        return "[]"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    if "\n" in value:
        return _literal(value, indent)
    if value == "=":  # which PyYAML, and not go-yaml, takes for a value of its own
        return value
    style = '"' if _NOT_TEXT.match(value) else None
    text = yaml.dump(value, default_style=style, width=2**31, allow_unicode=True, explicit_end=False)
    return text.removesuffix("\n...\n").removesuffix("\n")


def _literal(value: str, indent: int) -> str:
    """Write text of several lines as a literal block, as far as such a block can hold it."""
    if value[0] in " \n" or re.search(r"[ \t]\n|[^\x09\x0a\x20-\x7e\xa0-퟿-�]", value):
        return yaml.dump(value, default_style='"', width=2**31, allow_unicode=True).removesuffix("\n")
    chomp = "-" if not value.endswith("\n") else "+" if value.endswith("\n\n") else ""
    body = "\n".join(" " * indent + line if line else "" for line in value.removesuffix("\n").split("\n"))
    return f"|{chomp}\n{body}"
