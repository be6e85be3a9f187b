"""What a stack says of its pools, and how its cluster is reached: from its settings and its state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hybrid_talos.node_template import pool_label_value

from ..settings import Settings
from ..stack_state import StackState
from .facts import Pool
from .finding import Finding, Level

_TOKENS = {"azure": "hybrid-talos:index:AzureWorkerPool", "aliyun": "hybrid-talos:index:AliyunWorkerPool"}
_GROUPS = {"azure": "scaleSetId", "aliyun": "scalingGroupId"}


@dataclass(frozen=True)
class Subject:
    """What is to be looked at."""

    pools: tuple[Pool, ...]
    kubeconfig: str | None = field(repr=False)
    findings: tuple[Finding, ...] = ()
    """What the stack itself lacks."""


def subject(settings: Settings, state: StackState) -> Subject:
    """Return the pools that the last `pulumi up` has made, and the way to their cluster."""
    pools: list[Pool] = []
    found: list[Finding] = []
    for name, cloud, shape in _wanted(settings):
        made = _made(state, cloud, f"{cloud}-{name}")
        group = made.get("nodeGroup") or {}
        if not made.get(_GROUPS[cloud]) or not group:
            found.append(
                Finding(
                    Level.STOPS,
                    "stack",
                    "the settings have this pool, and the stack has not",
                    "there is no group that could grow",
                    "`pulumi up`",
                    f"{cloud}/{name}",
                )
            )
            continue
        pools.append(
            Pool(
                name=f"{cloud}/{name}",
                cloud=cloud,
                group=str(made[_GROUPS[cloud]]),
                group_name=str(group["name"]),
                least=_number(group, "min_size", "minSize"),
                most=_number(group, "max_size", "maxSize"),
                labels=dict(group.get("labels") or {}),
                taints=tuple(group.get("taints") or ()),
                label=pool_label_value(cloud, f"{cloud}-{name}"),
                stamp=str(made.get("templateHash") or ""),
                **shape,
            )
        )
    if not pools and not found:
        found.append(
            Finding(
                Level.UNKNOWN,
                "stack",
                "the stack has no pools",
                "there is nothing that could scale",
                "name a stack that has some with --stack",
            )
        )
    kubeconfig = next(
        (
            text
            for resource in state.of_type("pulumi:providers:kubernetes")
            if isinstance(text := (resource.get("inputs") or {}).get("kubeconfig"), str)
        ),
        None,
    )
    return Subject(tuple(sorted(pools, key=lambda one: one.name)), kubeconfig, tuple(found))


def _wanted(settings: Settings) -> list[tuple[str, str, dict[str, Any]]]:
    found: list[tuple[str, str, dict[str, Any]]] = []
    if settings.azure is not None:
        azure = settings.azure
        for pool in azure.pools:
            where = {
                "environment": azure.environment.value,
                "resource_manager": azure.endpoints.resource_manager,
                "location": pool.location or azure.location,
            }
            shape = {
                "sizes": (pool.vm_size,),
                "zones": tuple(pool.zones),
                "spot": pool.spot is not None,
                "fixed": pool.gateway,
            }
            found.append((pool.name, "azure", {**shape, "where": where}))
    if settings.aliyun is not None:
        aliyun = settings.aliyun
        for group in aliyun.pools:
            where = {
                "region": group.region or aliyun.region,
                "ecs": aliyun.endpoints.ecs,
                "ess": aliyun.endpoints.ess,
            }
            shape = {
                "sizes": tuple(group.instance_types),
                "zones": tuple(sorted(group.zones)),
                "spot": group.spot is not None,
                "fixed": group.gateway,
            }
            found.append((group.name, "aliyun", {**shape, "where": where}))
    return found


def _made(state: StackState, cloud: str, name: str) -> Mapping[str, Any]:
    return next(
        (
            resource.get("outputs") or {}
            for resource in state.of_type(_TOKENS[cloud])
            if str(resource["urn"]).rpartition("::")[2] == name
        ),
        {},
    )


def _number(group: Mapping[str, Any], snake: str, camel: str) -> int:
    return int(group.get(snake, group.get(camel, 0)))
