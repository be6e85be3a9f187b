"""Rolling replacement in a stack: which pools have their stale nodes listed at every up, and how they are replaced."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from hybrid_talos.node_template import pool_label_value
from hybrid_talos.worker_roll import WorkerRoll

from .settings import AliyunPool, AliyunSettings, AzurePool, AzureSettings
from .settings_pools import Rolling


@dataclass(frozen=True)
class Roll:
    """One pool that is to be rolled."""

    pool: pulumi.Resource
    props: Mapping[str, Any]
    """Properties of worker_roll_work.py, without the kubeconfig."""


def azure_props(azure: AzureSettings, pool: AzurePool, rolling: Rolling) -> dict[str, Any]:
    """Return what a roll of an Azure pool takes from the settings."""
    return {
        **_common("azure", pool.name, pool.max_size, rolling),
        "environment": azure.environment.value,
        "resource_manager": azure.endpoints.resource_manager,
    }


def aliyun_props(aliyun: AliyunSettings, pool: AliyunPool, rolling: Rolling) -> dict[str, Any]:
    """Return what a roll of an Alibaba pool takes from the settings."""
    return {
        **_common("aliyun", pool.name, pool.max_size, rolling),
        "region": pool.region or aliyun.region,
        "ess": aliyun.endpoints.ess,
    }


def _common(cloud: str, name: str, most: int, rolling: Rolling) -> dict[str, Any]:
    return {
        "cloud": cloud,
        "pool": pool_label_value(cloud, f"{cloud}-{name}"),
        "most": most,
        "max_surge": rolling.max_surge,
        "max_unavailable": rolling.max_unavailable,
        "drain_minutes": rolling.drain_minutes,
        "join_minutes": rolling.join_minutes,
        "on_up": rolling.on_up,
        "kubernetes_server": None,
    }


def plan(props: Mapping[str, Any], stamp: str) -> list[str]:
    """Return the steps of a roll in the words of a preview."""
    pool = props["pool"]
    if not props["on_up"]:
        return [f"list the nodes of {pool} that are not made as {stamp}; `python -m stacks.roll` replaces them"]
    return [
        f"for each machine of {pool} that is not made as {stamp}, one by one, with {props['max_surge']} more and "
        f"{props['max_unavailable']} fewer than the pool's size at most:",
        f"1. cordon, and drain within {props['drain_minutes']} minutes, budgets honoured",
        "2. remove the machine by its id, and its Node",
        f"3. wait at most {props['join_minutes']} minutes until the new one is Ready",
    ]


def declare_rolls(rolls: Mapping[str, Roll], kubeconfig: pulumi.Input[str]) -> dict[str, pulumi.Output[Any]]:
    """Declare the rolls, by pool; return the names of each pool's stale nodes."""
    stale: dict[str, pulumi.Output[Any]] = {}
    for name, roll in sorted(rolls.items()):
        props = roll.props
        stamp = pulumi.Output.from_input(props["stamp"])
        made = WorkerRoll(
            f"{name.replace('/', '-')}-roll",
            {
                **props,
                "kubeconfig": pulumi.Output.secret(kubeconfig),
                "plan": stamp.apply(functools.partial(plan, props)),
            },
            # The pool's new machines must be able to come before an old one goes.
            pulumi.ResourceOptions(depends_on=[roll.pool]),
        )
        stale[name] = made.stale
    return stale
