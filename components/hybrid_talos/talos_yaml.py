"""Reading and writing multi-document Talos configuration the way Talos itself reads it.

PyYAML follows YAML 1.1, where a bare `off`, `yes` or `2026-01-01` is no text. Talos reads with go-yaml, where
they are text unless a field is typed otherwise. So values are read by the rules of YAML 1.2 here, and every
text that either version could take for something else is written in quotes.
"""

import re
from collections.abc import Hashable, Iterable
from typing import Any

import yaml

from ._contract import BadInputs

Document = dict[str, Any]
"""One document of a configuration."""


class _Loader(yaml.SafeLoader):
    """A safe loader with the scalars of YAML 1.2, plus the octal numbers (`0644`) that go-yaml reads too."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Refuse keys that stand twice: Talos does, and PyYAML would keep the last one in silence."""
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, "a key stands twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """A safe dumper that writes the same bytes for the same value."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write shared values out in full: no reader has to know anchors."""
        return True


_BOOLEAN = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_INTEGER = re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$")
_FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
_DIGITS = "-+.0123456789"
_RESOLVERS: tuple[tuple[str, re.Pattern[str], Iterable[str]], ...] = (
    ("tag:yaml.org,2002:bool", _BOOLEAN, "tTfF"),
    ("tag:yaml.org,2002:int", _INTEGER, _DIGITS),
    ("tag:yaml.org,2002:float", _FLOAT, _DIGITS),
    ("tag:yaml.org,2002:null", _NULL, ("~", "n", "N", "")),
    ("tag:yaml.org,2002:merge", re.compile(r"^<<$"), "<"),
)
for _tag, _pattern, _first in _RESOLVERS:
    _Loader.add_implicit_resolver(_tag, _pattern, list(_first))
    # On top of the rules of YAML 1.1 that a dumper has by itself.
    _Dumper.add_implicit_resolver(_tag, _pattern, list(_first))
# Both forms of YAML leave these alone in theory; readers of the first drafts of 1.1 take them for booleans.
_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^[yYnN]$"), list("yYnN"))


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = loader.construct_scalar(node)
    unsigned = text.lstrip("+-")
    octal = len(unsigned) > 1 and unsigned.isdigit() and unsigned.startswith("0") and not set(unsigned) & set("89")
    return int(text, 8 if octal else 0 if unsigned[:2] in ("0o", "0x") else 10)


_Loader.add_constructor("tag:yaml.org,2002:int", _integer)


def load(text: str, owner: str = "machine config") -> list[Document]:
    """Return the documents of a configuration, empty ones left out.

    Raises BadInputs, naming ``owner`` and the line, when ``text`` is not YAML or holds something that is not a
    mapping. The message never repeats any of the text, which carries secrets.
    """
    try:
        # The loader is a safe one: it makes nothing but plain values.
        found = list(yaml.load_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        raise BadInputs(f"{owner}{where}: {_problem(error)}") from None
    documents: list[Document] = []
    for number, document in enumerate(found, start=1):
        if document is None:
            continue
        if isinstance(document, list):
            raise BadInputs(
                f"{owner}, document {number}: is a list, as JSON patches are; only strategic-merge patches work on "
                "configurations of several documents"
            )
        if not isinstance(document, dict) or not all(isinstance(key, str) for key in document):
            raise BadInputs(f"{owner}, document {number}: must be a mapping with text as keys")
        documents.append(document)
    return documents


def _problem(error: yaml.YAMLError) -> str:
    """Return what is wrong in words that hold nothing of the text."""
    problem = getattr(error, "problem", None)
    # PyYAML's own wording of a bad tag or alias repeats what it found.
    if not isinstance(problem, str) or any(sign in problem for sign in "'\"!"):
        return "is not valid YAML"
    return f"is not valid YAML: {problem}"


def dump(documents: Iterable[Document]) -> str:
    """Return ``documents`` as text: the same bytes for the same content, whatever the order of keys was."""
    return "---\n".join(
        yaml.dump(document, Dumper=_Dumper, sort_keys=True, width=2**31, allow_unicode=True, default_flow_style=False)
        for document in documents
    )
