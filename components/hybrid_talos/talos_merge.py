"""Merging of Talos machine configuration, as `talosctl` does it.

Pure functions. Worker pools need the finished text of a configuration while the program runs, since it becomes the
user data of machines that do not exist yet; no Talos API is there to apply a patch.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from deepmerge import Merger

from ._contract import BadInputs
from .talos_yaml import Document, dump, load

Patch = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A strategic-merge patch: YAML of one or more documents, one document, or several."""

V1ALPHA1 = "v1alpha1"
"""Identity of the one document that has no kind: `machine` and `cluster`."""


def identity(document: Mapping[str, Any]) -> str:
    """Return what a document is matched by: its kind and, where it has one, its name."""
    kind = document.get("kind")
    if kind is None:
        return V1ALPHA1
    name = document.get("name")
    return f"{document.get('apiVersion', '')}/{kind}" + (f"/{name}" if name is not None else "")


def merge(base_yaml: str, *patches: Patch) -> str:
    """Return ``base_yaml`` with ``patches`` merged in, one after the other, as `talosctl machineconfig patch` does.

    Documents are matched by apiVersion, kind and name; one that the base lacks is appended. Mappings merge, lists
    append, scalars replace, except where Talos has its own rule (siderolabs/talos `pkg/machinery/config/merge/`
    and the `merge` tags and methods of its types). As there, null and an empty value clear nothing. The same
    input gives the same bytes.

    Raises BadInputs when something is not YAML, a patch deletes (`$patch`) or is a JSON patch, or two values do
    not go together.
    """
    documents = load(base_yaml)
    _unique(documents, "machine config")
    for number, patch in enumerate(patches, start=1):
        documents = merge_documents(documents, documents_of(patch, f"config patch {number}"), f"config patch {number}")
    return dump(documents)


def documents_of(patch: Patch, owner: str = "config patch") -> list[Document]:
    """Return the documents of a patch; BadInputs when it cannot be merged."""
    if isinstance(patch, str):
        documents = load(patch, owner)
    elif isinstance(patch, Mapping):
        documents = [dict(patch)] if patch else []
    else:
        documents = [dict(document) for document in patch if document]
    for document in documents:
        _refuse_deletes(document, owner)
    _unique(documents, owner)
    return documents


def merge_documents(base: Sequence[Document], patch: Sequence[Document], owner: str = "config patch") -> list[Document]:
    """Return the documents of ``base`` with those of ``patch`` merged in; both stay as they are."""
    merged = [copy.deepcopy(document) for document in base]
    index = {identity(document): document for document in merged}
    for document in patch:
        known = index.get(identity(document))
        if known is None:
            merged.append(copy.deepcopy(document))
            continue
        try:
            _MERGER.value_strategy([str(document.get("kind", V1ALPHA1))], known, copy.deepcopy(document))
        except _Clash as clash:
            raise BadInputs(f"{owner}: {clash} is of another type in the configuration that it patches") from None
    return merged


def _unique(documents: Sequence[Document], owner: str) -> None:
    seen: set[str] = set()
    for document in documents:
        if identity(document) in seen:
            raise BadInputs(f"{owner}: holds two documents of one kind and name ({identity(document)})")
        seen.add(identity(document))


def _refuse_deletes(value: Any, owner: str) -> None:
    if isinstance(value, Mapping):
        if "$patch" in value:
            raise BadInputs(
                f"{owner}: deletes with $patch, which cannot be merged into user data; set the value instead"
            )
        for nested in value.values():
            _refuse_deletes(nested, owner)
    elif isinstance(value, list):
        for nested in value:
            _refuse_deletes(nested, owner)


class _Clash(Exception):
    """Two values that do not go together; the message is their path."""


Path = list[Any]

_REPLACED: frozenset[tuple[str, ...]] = frozenset(
    {
        (V1ALPHA1, "cluster", "network", "podSubnets"),
        (V1ALPHA1, "cluster", "network", "serviceSubnets"),
        (V1ALPHA1, "cluster", "apiServer", "auditPolicy"),
        ("NetworkRuleConfig", "ingress"),
        ("NetworkRuleConfig", "portSelector", "ports"),
    }
)
"""Values that a patch replaces as a whole: those with the tag `merge:"replace"`."""

_KEYED: Mapping[tuple[str, ...], tuple[str, ...]] = {
    (V1ALPHA1, "machine", "network", "interfaces"): ("interface", "deviceSelector"),
    (V1ALPHA1, "machine", "network", "interfaces", "vlans"): ("vlanId",),
    (V1ALPHA1, "cluster", "apiServer", "admissionControl"): ("name",),
    ("ExtensionServiceConfig", "configFiles"): ("mountPath",),
}
"""Lists whose entries are matched by a field and merged: those whose Go type has a method `Merge`."""

_EXTRA_ARGS: frozenset[tuple[str, ...]] = frozenset(
    {
        (V1ALPHA1, "machine", "kubelet", "extraArgs"),
        *(
            (V1ALPHA1, "cluster", part, "extraArgs")
            for part in ("apiServer", "controllerManager", "scheduler", "proxy", "etcd")
        ),
    }
)
"""Flags: a patch sets each one anew, be it a text or a list (type `Args`)."""


def _merge_lists(merger: Merger, path: Path, base: list[Any], patch: list[Any]) -> list[Any]:
    here = tuple(path)
    if here in _REPLACED or here[:-1] in _EXTRA_ARGS:
        return patch
    if here == ("ImageVerificationConfig", "rules"):
        return _by_pattern(base, patch)
    keys = _KEYED.get(here)
    if keys is None:
        return base + patch
    for entry in patch:
        known = _matching(base, entry, keys)
        if known is None:
            base.append(entry)
        else:
            merger.value_strategy(path, known, entry)
    return base


def _matching(entries: list[Any], wanted: Any, keys: Sequence[str]) -> Any:
    """Return the entry that has the same value as ``wanted`` in the first of ``keys`` that ``wanted`` has."""
    if not isinstance(wanted, dict):
        return None
    for key in keys:
        if wanted.get(key):
            return next((e for e in entries if isinstance(e, dict) and e.get(key) == wanted[key]), None)
    return None


def _by_pattern(base: list[Any], patch: list[Any]) -> list[Any]:
    """Return image rules: one for the same images takes the other's place."""
    places = {entry.get("image"): place for place, entry in enumerate(base)}
    for entry in patch:
        if entry.get("image") in places:
            base[places[entry.get("image")]] = entry
        else:
            base.append(entry)
    return base


def _merge_mappings(merger: Merger, path: Path, base: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    if tuple(path) in _REPLACED:
        return patch
    for key, value in patch.items():
        base[key] = merger.value_strategy([*path, key], base[key], value) if key in base else value
    return base


def _merge_others(_merger: Merger, path: Path, base: Any, patch: Any) -> Any:
    """Merge what is not two lists or two mappings: scalars, null, and values of different types."""
    if patch is None:
        return base
    if base is None or tuple(path[:-1]) in _EXTRA_ARGS:
        return patch
    if isinstance(base, dict | list) or isinstance(patch, dict | list):
        raise _Clash(".".join(str(part) for part in path if part != V1ALPHA1))
    empty = patch == "" or (patch == 0 and not isinstance(patch, bool))
    return base if empty else patch


_MERGER = Merger([(list, _merge_lists), (dict, _merge_mappings)], [_merge_others], [_merge_others])
