"""How two machine configurations differ, value by value, without showing a secret."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hybrid_talos.talos_yaml import Document

_HIDDEN = "[secret]"
_LENGTH = 80

_SECRET_KEYS = re.compile(
    r"(key|token|secret|password|auth|identitytoken|aescbcencryptionsecret|secretboxencryptionsecret|passphrase|"
    r"privatekey|presharedkey|contents?|content|userdata)",
    re.IGNORECASE,
)
"""Keys whose values may be secrets, by their last part. File contents may hold anything."""
_LOOKS_SECRET = (
    re.compile(r"-----BEGIN"),
    re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b"),
    re.compile(r"(?![0-9a-f]{40,}\b)[A-Za-z0-9+/_]{40,}={0,2}"),
)
_USERINFO = re.compile(r"://[^/@\s]+@")


@dataclass(frozen=True)
class Difference:
    """A value that is not the same; None where it is absent."""

    path: str
    runs: str | None
    generated: str | None

    def __str__(self) -> str:
        def shown(value: str | None) -> str:
            return "(absent)" if value is None else value

        return f"{self.path}: runs {shown(self.runs)}, settings give {shown(self.generated)}"


def differences(
    runs: Sequence[Document], generated: Sequence[Document], secrets: Iterable[str] = ()
) -> list[Difference]:
    """Return where two configurations differ, sorted by path; ``secrets`` are texts that are never shown."""
    hidden = frozenset(secrets)
    before, after = _flat(runs), _flat(generated)
    return [
        Difference(path, _shown(path, before.get(path), hidden), _shown(path, after.get(path), hidden))
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


def _flat(documents: Sequence[Document]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for document in documents:
        prefix = ""
        if "kind" in document:
            name = document.get("name")
            prefix = f"{document['kind']}{f'/{name}' if name is not None else ''}."
        for path, value in _leaves(document):
            found[f"{prefix}{path}"] = value
    return found


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, nested in value.items():
            yield from _leaves(nested, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for number, nested in enumerate(value):
            yield from _leaves(nested, f"{path}[{number}]")
    elif value not in (None, {}, []):
        # Talos makes no difference between nothing and an empty section.
        yield path, value


def _shown(path: str, value: Any, hidden: frozenset[str]) -> str | None:
    if value is None:
        return None
    text = str(value)
    last = re.sub(r"\[\d+\]$", "", path.rpartition(".")[2])
    if text in hidden or _SECRET_KEYS.fullmatch(last) or any(pattern.search(text) for pattern in _LOOKS_SECRET):
        return _HIDDEN
    text = _USERINFO.sub("://[secret]@", " ".join(text.split()))
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."
