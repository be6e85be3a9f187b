"""What the two burst stacks share: joining a cluster that another stack built, and what a cloud's half hands out."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pulumi
from hybrid_talos.node_group import NodeGroup
from hybrid_talos.node_template import TaintArgs
from hybrid_talos.pool_inputs import SpotArgs

from .cluster import Joined
from .join import read_join
from .mesh import build_mesh
from .providers import kubernetes_provider
from .rolls import Roll
from .secrets import Secrets
from .settings import Settings, Spot, Taint


@dataclass(frozen=True)
class Burst:
    """What a cloud's half of a stack hands out."""

    image_ids: dict[str, pulumi.Output[str]]
    node_groups: dict[str, pulumi.Output[NodeGroup]]
    next_steps: tuple[pulumi.Input[str], ...]
    rolls: dict[str, Roll] = field(default_factory=dict)
    """Pools whose machines of an older kind are listed, and replaced, by name."""


def taint_args(taints: Sequence[Taint]) -> list[TaintArgs]:
    """Return the settings' taints as a pool takes them."""
    return [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in taints]


def spot_args(spot: Spot) -> SpotArgs:
    """Return the settings' spot section as a pool takes it."""
    return {} if spot.max_price is None else {"max_price": spot.max_price}


def join_cluster(settings: Settings, secrets: Secrets) -> tuple[Joined, pulumi.Output[str]]:
    """Return what pools need of the cluster that the settings name, and its kubeconfig.

    It stands already, so nothing is waited for.
    """
    existing = read_join(settings, secrets)
    provider = kubernetes_provider(settings.cluster.name, existing.kubeconfig)
    mesh = build_mesh(settings, provider, deploy=False, depends_on=existing.checked)
    locations = mesh.locations if mesh is not None else None
    joined = Joined(existing.machine_config, provider, locations, existing.checked, existing.checked)
    return joined, existing.kubeconfig


BURST_STEPS = ("kubectl get nodes -o wide --watch",)
