"""The settings of a stack: the whole tree, strict and frozen, and every rule about it in one message.

`load` is pure: it reads no config, environment, file or clock. Secrets never come here; they are
top-level keys of their own (`hybrid-talos:azureClientSecret`, `hybrid-talos:aliyunAccessKeySecret`,
`hybrid-talos:join`, `hybrid-talos:kubeconfig`).
"""

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ValidationError

from .settings_base import Section, form
from .settings_clouds import Aliyun, AliyunPool, Autoscaler, Azure, AzurePool, CloudNetwork
from .settings_cluster import Arch, Cluster, Image, Mesh
from .settings_errors import KEY, Problem, SettingsError, closest, problems_of
from .settings_partial import partial
from .settings_rules import STACKS, StackName, check

__all__ = [
    "STACKS",
    "Aliyun",
    "AliyunPool",
    "Arch",
    "Autoscaler",
    "Azure",
    "AzurePool",
    "CloudNetwork",
    "Cluster",
    "Image",
    "Mesh",
    "Problem",
    "Settings",
    "SettingsError",
    "StackName",
    "load",
]
