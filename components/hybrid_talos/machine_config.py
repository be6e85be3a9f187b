"""Talos machine configuration as plain text: patches, and merging them as `talosctl` does.

Pure functions. Each patch builder returns what `merge` takes; `render` turns it into the text that the Talos provider
takes.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from .talos_merge import V1ALPHA1, Patch, documents_of, identity, merge, merge_documents
from .talos_yaml import Document, dump
from .versions import parse

__all__ = [
    "V1ALPHA1",
    "Document",
    "Patch",
    "accepts_hostname_off",
    "documents_of",
    "has_documents",
    "has_environment_document",
    "has_hostname_document",
    "hostname_from_platform",
    "identity",
    "kubelet_identity",
    "merge",
    "merge_documents",
    "node_annotations",
    "node_ip",
    "node_labels",
    "register_with_taints",
    "render",
    "static_hostname",
    "value_at",
    "without",
]

FIRST_TALOS_WITH_DOCUMENTS = "1.12.0"
"""From here on `HostnameConfig` and `RegistryMirrorConfig` exist (siderolabs/talos `pkg/machinery/config/types/`)."""


def render(patch: Patch) -> str:
    """Return a patch as YAML, for `config_patches` of the Talos provider; an empty patch gives an empty text."""
    return dump(documents_of(patch))


def kubelet_identity() -> Document:
    """Return the patch that lets a cloud controller name the node and approve its serving certificate.

    Every kubelet needs it, on control planes too (siderolabs/talos-cloud-controller-manager `docs/install.md`).
    A fixed provider ID is never set here: all machines of a pool share one configuration.
    """
    return {"machine": {"kubelet": {"extraArgs": {"cloud-provider": "external", "rotate-server-certificates": "true"}}}}


def node_ip(valid_subnets: Sequence[str]) -> Document:
    """Return the patch that makes the kubelet choose its address from ``valid_subnets`` (CIDRs, `!` excludes)."""
    return {"machine": {"kubelet": {"nodeIP": {"validSubnets": list(valid_subnets)}}}} if valid_subnets else {}


def node_labels(labels: Mapping[str, str]) -> Document:
    """Return the patch that sets labels of the node."""
    return {"machine": {"nodeLabels": dict(labels)}} if labels else {}


def node_annotations(annotations: Mapping[str, str]) -> Document:
    """Return the patch that sets annotations of the node."""
    return {"machine": {"nodeAnnotations": dict(annotations)}} if annotations else {}


def register_with_taints(taints: Sequence[tuple[str, str, str]]) -> Document:
    """Return the patch that makes the kubelet register with taints, each a key, value and effect.

    `machine.nodeTaints` is no way for a worker: it may not taint itself once it is registered, and until then pods
    could land on it (siderolabs/talos#10935).
    """
    if not taints:
        return {}
    entries = [
        {"key": key, **({"value": value} if value else {}), "effect": str(effect)} for key, value, effect in taints
    ]
    return {"machine": {"kubelet": {"extraConfig": {"registerWithTaints": entries}}}}


def accepts_hostname_off(talos_version: str) -> bool:
    """Return whether this Talos boots with automatic host names switched off and no static one.

    1.12.0 to 1.12.8 and 1.13.0 to 1.13.2 refuse it: their validation takes `off` for nothing set
    (siderolabs/talos#13249, #13410). Below 1.12 the document does not exist.
    """
    version = parse(talos_version)
    first_good = {(1, 12): "1.12.9", (1, 13): "1.13.3"}.get((version.major, version.minor), "1.14.0-alpha.1")
    return version >= parse(first_good)


def has_documents(talos_version: str) -> bool:
    """Return whether this Talos has documents of their own for host names, networks, clocks and registries."""
    return parse(talos_version) >= parse(FIRST_TALOS_WITH_DOCUMENTS)


def has_hostname_document(talos_version: str) -> bool:
    """Return whether this Talos knows the document `HostnameConfig`."""
    return has_documents(talos_version)


def has_environment_document(talos_version: str) -> bool:
    """Return whether this Talos knows the document `EnvironmentConfig`."""
    return parse(talos_version) >= parse("1.13.0")


def hostname_from_platform(talos_version: str) -> Document:
    """Return the patch that leaves the host name to the platform; empty where the default does that already.

    Where `off` is refused, the generated `stable` stays: the platform's name ranks above it.
    """
    if not accepts_hostname_off(talos_version):
        return {}
    return {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "off"}


def static_hostname(name: str, contract: str) -> Document:
    """Return the patch that names one machine.

    ``contract`` is the version that the configuration was generated for: from 1.12 on it carries a
    `HostnameConfig`, and a host name in both places is refused.
    """
    if has_hostname_document(contract):
        return {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "off", "hostname": name}
    return {"machine": {"network": {"hostname": name}}}


def without(document: Document, *path: str) -> Document:
    """Return a copy of ``document`` that lacks the value at ``path``."""
    copied = copy.deepcopy(document)
    here: Any = copied
    for part in path[:-1]:
        here = here.get(part) if isinstance(here, dict) else None
    if isinstance(here, dict):
        here.pop(path[-1], None)
    return copied


def value_at(document: Mapping[str, Any], *path: str) -> Any:
    """Return the value at ``path``, or None."""
    here: Any = document
    for part in path:
        here = here.get(part) if isinstance(here, Mapping) else None
    return here
