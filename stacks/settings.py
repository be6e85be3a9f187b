"""The settings of a stack: the whole tree, strict and frozen, and every rule about it in one message.

`load` is pure: it reads no config, environment, file or clock. Secrets never come here; they are
top-level keys of their own (`hybrid-talos:azureClientSecret`, `hybrid-talos:aliyunAccessKeySecret`,
`hybrid-talos:join`, `hybrid-talos:kubeconfig`).
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hybrid_talos.aliyun_disk import AliyunDiskCategory
from hybrid_talos.arch import Arch
from hybrid_talos.autoscaler_deployment import AutoscalerDeployment
from hybrid_talos.azure_cloud import AzureEnvironment
from hybrid_talos.cluster_endpoint import EndpointKind
from hybrid_talos.cni import Cni
from hybrid_talos.mesh_plan import Granularity, MeshKind
from hybrid_talos.node_template import TaintEffect
from pydantic import ValidationError

from .settings_addresses import with_addresses
from .settings_aliyun import AliyunPool, AliyunSettings
from .settings_autoscaler import AutoscalerSettings
from .settings_azure import AzurePool, AzureSettings
from .settings_cluster import (
    ClusterSettings,
    Location,
    OtherLocation,
)
from .settings_endpoint import Endpoint
from .settings_errors import KEY, Problem, SettingsError, closest, problems_of
from .settings_image import ImageSettings
from .settings_labels import Taint
from .settings_machines import Machine
from .settings_mesh import MeshSettings, Peer, Peers
from .settings_partial import partial
from .settings_pools import CloudNetwork, Spot
from .settings_rules import problems_between
from .settings_tree import STACKS, Settings, Tree

__all__ = [
    "STACKS",
    "AliyunDiskCategory",
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
    "Endpoint",
    "EndpointKind",
    "Granularity",
    "ImageSettings",
    "Location",
    "Machine",
    "MeshKind",
    "MeshSettings",
    "OtherLocation",
    "Peer",
    "Peers",
    "Settings",
    "SettingsError",
    "Spot",
    "Taint",
    "TaintEffect",
    "load",
]


def _stack_problems(stack: Any) -> list[Problem]:
    if isinstance(stack, str) and stack in STACKS:
        return []
    meant = closest(stack, STACKS) if isinstance(stack, str) else None
    hint = f"; did you mean {meant}?" if meant else ""
    return [Problem("hybrid-talos:stack", f"must be one of {', '.join(STACKS)}{hint}")]


def load(stack: str, document: Mapping[str, Any], further: Sequence[str] = ()) -> Settings:
    """Return the settings of a stack, checked.

    Args:
        stack: the value of `hybrid-talos:stack`: which composition the stack is.
        document: the value of `hybrid-talos:settings`, as plain data.
        further: problems found beside the settings, such as missing secrets, for the same message.

    Raises:
        SettingsError: naming every key that is wrong, what was expected there, and what to do. It shows no
            value that could be a secret.
    """
    problems = _stack_problems(stack)
    known = None if problems else stack
    if not isinstance(document, Mapping):
        raise SettingsError([*map(str, problems), f"{KEY}: must be a mapping of keys to values", *further])
    document, unallotted = with_addresses(document)
    problems += unallotted
    try:
        # JSON is where pydantic's strict mode lets text stand for an address, a range or a choice.
        tree = Tree.model_validate_json(json.dumps(dict(document), default=str))
    except ValidationError as error:
        problems += problems_of(Tree, error)
        tree = partial(Tree, document)
        problems += problems_between(known, tree, whole=False)
    else:
        problems += problems_between(known, tree, whole=True)
    if problems or further:
        raise SettingsError([*map(str, problems), *further])
    return Settings(
        stack=stack,
        cluster=tree.cluster,
        image=tree.image,
        mesh=tree.mesh,
        addresses=tree.addresses,
        azure=tree.azure,
        aliyun=tree.aliyun,
        autoscaler=tree.autoscaler,
        cluster_stack=tree.cluster_stack,
    )
