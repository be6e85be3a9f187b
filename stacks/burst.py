"""What the two burst stacks share: joining a cluster that another stack built, and what a cloud's half hands out."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from hybrid_talos.node_group import NodeGroup
from hybrid_talos.node_template import TaintArgs
from hybrid_talos.pool_inputs import SpotArgs

from .cluster import Joined
from .join import read_join
from .mesh import build_mesh
from .providers import kubernetes_provider
from .secrets import Secrets
from .settings import Settings, Spot, Taint


@dataclass(frozen=True)
class Burst:
    """What a cloud's half of a stack hands out."""

    image_ids: dict[str, pulumi.Output[str]]
    node_groups: dict[str, pulumi.Output[NodeGroup]]
    next_steps: tuple[pulumi.Input[str], ...]


def taint_args(taints: Sequence[Taint]) -> list[TaintArgs]:
    """Return the settings' taints as a pool takes them."""
    return [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in taints]


def spot_args(spot: Spot) -> SpotArgs:
    """Return the settings' spot section as a pool takes it."""
    return {} if spot.max_price is None else {"max_price": spot.max_price}


def join_cluster(settings: Settings, secrets: Secrets) -> Joined:
    """Return what pools need of the cluster that the settings name; it stands already, so nothing is waited for."""
    existing = read_join(settings, secrets)
    provider = kubernetes_provider(settings.cluster.name, existing.kubeconfig)
    mesh = build_mesh(settings, provider, deploy=False, depends_on=existing.checked)
    locations = mesh.locations if mesh is not None else None
    return Joined(existing.machine_config, provider, locations, existing.checked, existing.checked)


BURST_STEPS = ("kubectl get nodes -o wide --watch",)
