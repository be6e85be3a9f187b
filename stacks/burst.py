"""What the two burst stacks share: joining a cluster that another stack built, and what a cloud's half hands out."""

from dataclasses import dataclass
from typing import Any

import pulumi

from .cluster import Joined
from .join import read_join
from .mesh import build_mesh
from .providers import kubernetes_provider
from .secrets import Secrets
from .settings import Settings


@dataclass(frozen=True)
class Burst:
    """What a cloud's half of a stack hands out."""

    image_ids: dict[str, pulumi.Output[str]]
    node_groups: dict[str, pulumi.Output[Any]]
    next_steps: tuple[pulumi.Input[str], ...]


def join_cluster(settings: Settings, secrets: Secrets) -> Joined:
    """Return what pools need of the cluster that the settings name; it stands already, so nothing is waited for."""
    machine_config, kubeconfig = read_join(settings, secrets)
    provider = kubernetes_provider(settings.cluster.name, kubeconfig)
    mesh = build_mesh(settings, provider, deploy=False)
    return Joined(machine_config, provider, mesh.locations if mesh is not None else None, ())


BURST_STEPS = ("kubectl get nodes -o wide --watch",)
