"""The settings of a stack: the whole tree, strict and frozen, and every rule about it in one message.

`load` is pure: it reads no config, environment, file or clock. Secrets never come here; they are
top-level keys of their own (`hybrid-talos:azureClientSecret`, `hybrid-talos:aliyunAccessKeySecret`,
`hybrid-talos:join`, `hybrid-talos:kubeconfig`).
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from .settings_clouds import (
    AliyunPool,
    AliyunSettings,
    AutoscalerDeployment,
    AutoscalerSettings,
    AzureEnvironment,
    AzurePool,
    AzureSettings,
    CloudNetwork,
    Spot,
)
from .settings_cluster import (
    Arch,
    ClusterSettings,
    Cni,
    Endpoint,
    EndpointKind,
    Granularity,
    ImageSettings,
    Location,
    Machine,
    MeshKind,
    MeshSettings,
    OtherLocation,
)
from .settings_errors import KEY, Problem, SettingsError, closest, problems_of
from .settings_labels import Effect, Taint
from .settings_partial import partial
from .settings_rules import problems_between
from .settings_tree import STACKS, Settings, Tree

__all__ = [
    "STACKS",
    "AliyunPool",
    "AliyunSettings",
    "Arch",
    "AutoscalerDeployment",
    "AutoscalerSettings",
    "AzureEnvironment",
    "AzurePool",
    "AzureSettings",
    "CloudNetwork",
    "ClusterSettings",
    "Cni",
    "Effect",
    "Endpoint",
    "EndpointKind",
    "Granularity",
    "ImageSettings",
    "Location",
    "Machine",
    "MeshKind",
    "MeshSettings",
    "OtherLocation",
    "Settings",
    "SettingsError",
    "Spot",
    "Taint",
    "load",
]


def _stack_problems(stack: Any) -> list[Problem]:
    if isinstance(stack, str) and stack in STACKS:
        return []
    meant = closest(stack, STACKS) if isinstance(stack, str) else None
    hint = f"; did you mean {meant}?" if meant else ""
    return [Problem("hybrid-talos:stack", f"must be one of {', '.join(STACKS)}{hint}")]


def load(stack: str, document: Mapping[str, Any]) -> Settings:
    """Return the settings of a stack, checked.

    Args:
        stack: the value of `hybrid-talos:stack`: which composition the stack is.
        document: the value of `hybrid-talos:settings`, as plain data.

    Raises:
        SettingsError: naming every key that is wrong, what was expected there, and what to do. It shows no
            value that could be a secret.
    """
    problems = _stack_problems(stack)
    known = None if problems else stack
    if not isinstance(document, Mapping):
        raise SettingsError([*map(str, problems), f"{KEY}: must be a mapping of keys to values"])
    try:
        # JSON is where pydantic's strict mode lets text stand for an address, a range or a choice.
        tree = Tree.model_validate_json(json.dumps(dict(document), default=str))
    except ValidationError as error:
        problems += problems_of(Tree, error)
        tree = partial(Tree, document)
        problems += problems_between(known, tree, whole=False)
    else:
        problems += problems_between(known, tree, whole=True)
    if problems:
        raise SettingsError(map(str, problems))
    return Settings(stack=stack, tree=tree)
