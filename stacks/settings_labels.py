"""Labels and taints of nodes, and the tags of cloud resources: what Kubernetes and the clouds accept of them."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator

from .settings_base import Section

OWN_PREFIX = "hybrid-talos/"
"""Labels with this prefix are set by the program itself, such as the one that tells each pool from all others."""

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.ASCII)

# What the admission plugin NodeRestriction lets a kubelet set on its own node:
# kubernetes.io, reference, "Admission Controllers", NodeRestriction.
_ALLOWED = {"topology.kubernetes.io/region", "topology.kubernetes.io/zone", "node.kubernetes.io/instance-type"}
_ALLOWED_PREFIXES = {"kubelet.kubernetes.io", "node.kubernetes.io"}


class Effect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


def _key_problem(key: str) -> str | None:
    prefix, slash, name = key.rpartition("/")
    if not _NAME.fullmatch(name) or (slash and not (len(prefix) <= 253 and _PREFIX.fullmatch(prefix))):
        return (
            "is no key for Kubernetes: an optional domain and /, then at most 63 letters, digits, -, _ and ., "
            "with a letter or digit at both ends"
        )
    if key.startswith(OWN_PREFIX):
        return f"is the program's own: keys that start with {OWN_PREFIX} are set by it"
    return None


def _reserved(key: str) -> bool:
    domain = key.rpartition("/")[0]
    return domain in {"kubernetes.io", "k8s.io"} or domain.endswith((".kubernetes.io", ".k8s.io"))


def _value_problem(value: str) -> str | None:
    if value and not _NAME.fullmatch(value):
        return "must be empty or at most 63 letters, digits, -, _ and ., with a letter or digit at both ends"
    return None


def _labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    problems = []
    for key, value in labels.items():
        problem = _key_problem(key)
        if problem:
            problems.append(f"{key} {problem}")
        elif _reserved(key) and key not in _ALLOWED and key.rpartition("/")[0] not in _ALLOWED_PREFIXES:
            problems.append(
                f"{key} is refused when a node sets it on itself, and then all its labels are missing: set it from "
                "the control plane (kubectl label node), or use a domain of your own"
            )
        value_problem = _value_problem(value)
        if value_problem:
            problems.append(f"the value of {key} {value_problem}")
    if problems:
        raise ValueError("; ".join(problems))
    return labels


def _taint_key(key: str) -> str:
    problem = _key_problem(key)
    if problem:
        raise ValueError(problem)
    if _reserved(key):
        raise ValueError("must not be of the domain kubernetes.io or k8s.io, which is Kubernetes' own")
    return key


def _taint_value(value: str) -> str:
    problem = _value_problem(value)
    if problem:
        raise ValueError(problem)
    return value


def _tags(tags: Mapping[str, str]) -> Mapping[str, str]:
    problems = []
    for key, value in tags.items():
        if not 1 <= len(key) <= 64 or re.search(r"[<>%&\\?/\s]", key):
            problems.append(
                f"the key {key[:64]!r} must have 1 to 64 characters, without white space and < > % & \\ ? /"
            )
        # ECS and ESS keep these for themselves: "Limits on tags" of Alibaba Cloud's documentation.
        elif key.lower().startswith(("aliyun", "acs:", "http:", "https:", "azure", "microsoft", "windows")):
            problems.append(f"the key {key} starts with a word that the clouds keep for themselves")
        if len(value) > 128:
            problems.append(f"the value of {key[:64]} has {len(value)} characters: at most 128 are possible")
    if problems:
        raise ValueError("; ".join(problems))
    return tags


Labels = Annotated[Mapping[str, str], AfterValidator(_labels)]
"""Labels that a node sets on itself when it registers."""
Tags = Annotated[Mapping[str, str], AfterValidator(_tags)]
"""Tags that both clouds accept."""


class Taint(Section):
    """A taint that every node of a pool registers with."""

    key: Annotated[str, AfterValidator(_taint_key)]
    """Key, with a domain of your own."""
    value: Annotated[str, AfterValidator(_taint_value)] = ""
    """Value; may be empty."""
    effect: Effect
    """NoSchedule, PreferNoSchedule or NoExecute."""
