"""Which part of a machine's configuration takes a reboot, as Talos decides it; a pure function.

A preview cannot ask the machine. But Talos compares old and new by a fixed list of fields that it takes at once
(siderolabs/talos `internal/app/machined/pkg/runtime/v1alpha1/v1alpha1_runtime.go`, `CanApplyImmediate`): when the rest
is the same, no reboot comes. Documents with a kind never need one.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from ._contract import BadInputs
from .talos_merge import merge
from .talos_yaml import load

_AT_ONCE = ("debug", "cluster")
_AT_ONCE_OF_MACHINE = (
    "ca",
    "acceptedCAs",
    "time",
    "certSANs",
    "install",
    "network",
    "sysfs",
    "sysctls",
    "logging",
    "controlPlane",
    "kubelet",
    "kernel",
    "registries",
    "pods",
    "seccompProfiles",
    "nodeAnnotations",
    "nodeLabels",
    "nodeTaints",
)
_AT_ONCE_OF_FEATURES = (
    "kubernetesTalosAPIAccess",
    "kubePrism",
    "hostDNS",
    "imageCache",
    "nodeAddressSortAlgorithm",
)


class Digests(NamedTuple):
    """Short names of a configuration, which tell whether two are the same and nothing of what is in them."""

    all: str
    """Of all of it."""
    boot: str
    """Of what needs a reboot when it changes."""


def digests(base: str, patches: Sequence[str]) -> Digests:
    """Return the digests of a configuration with its patches."""
    whole = _digest([base, *patches])
    try:
        documents = load(merge(base, *patches), "machine config")
    except BadInputs:
        # A patch that only Talos itself can merge: any change may then need a reboot.
        return Digests(whole, whole)
    return Digests(whole, _digest([_slow(document) for document in documents if "kind" not in document]))


def _slow(document: dict[str, Any]) -> dict[str, Any]:
    """Return the part of the main document that Talos does not take at once."""
    slow = {key: value for key, value in document.items() if key not in _AT_ONCE}
    machine = {key: value for key, value in (slow.get("machine") or {}).items() if key not in _AT_ONCE_OF_MACHINE}
    features = machine.get("features") or {}
    machine["features"] = {key: value for key, value in features.items() if key not in _AT_ONCE_OF_FEATURES}
    return {**slow, "machine": machine}


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]
