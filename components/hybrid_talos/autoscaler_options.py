"""How the autoscaler decides: the typed inputs of ClusterAutoscaler for its flags, and the flags that they become."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, NotRequired, TypedDict

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from ._contract import Shape
from .node_template import label_key_problem
from .versions import minor, text


class Expander(StrEnum):
    """Which group grows when several could."""

    RANDOM = "random"
    """Any of them."""
    MOST_PODS = "most-pods"
    """The one in which most waiting pods find room."""
    LEAST_WASTE = "least-waste"
    """The one that leaves least CPU idle, then least memory."""
    LEAST_NODES = "least-nodes"
    """The one that needs the fewest new machines."""
    PRIORITY = "priority"
    """The one with the highest number in `priorities`, which must be given."""


class ScaleDownArgs(TypedDict):
    """When machines go. What is absent stays as the autoscaler has it."""

    delay_after_add_minutes: NotRequired[int]
    """Minutes without scale-down after machines were added, 0 or more. The autoscaler's own: 10."""
    delay_after_delete_seconds: NotRequired[int]
    """Seconds without scale-down after a machine was removed, 0 or more. The autoscaler's own: 0, each scan."""
    delay_after_failure_minutes: NotRequired[int]
    """Minutes without scale-down after one failed, 0 or more. The autoscaler's own: 3."""
    unready_minutes: NotRequired[int]
    """Minutes after which a node that is not ready may go, 10 or more: a mesh that flaps must not cost machines. The
    autoscaler's own: 20."""
    gpu_utilization_threshold: NotRequired[float]
    """The share below which a node with GPUs counts as little used, 0 to 1. The autoscaler's own: 0.5."""
    max_graceful_termination_seconds: NotRequired[int]
    """Most seconds that pods of a node get to end, 0 or more. The autoscaler's own: 600."""
    max_parallel: NotRequired[int]
    """Most machines that are removed at a time, 1 or more. The autoscaler's own: 10."""
    max_parallel_drains: NotRequired[int]
    """Most machines with pods among them, 1 or more, at most `max_parallel`. The autoscaler's own: 1."""
    keep_nodes_with_system_pods: NotRequired[bool]
    """Whether pods of kube-system without a budget keep their node for an hour. The autoscaler's own: true."""
    keep_nodes_with_local_storage: NotRequired[bool]
    """Whether pods with emptyDir or hostPath keep their node. False loses that data. The autoscaler's own: true."""
    keep_nodes_with_custom_controller_pods: NotRequired[bool]
    """Whether pods of controllers that it does not know keep their node. The autoscaler's own: true."""
    min_replica_count: NotRequired[int]
    """Fewest replicas that a ReplicaSet must have for its pods to be moved, 0 or more. The autoscaler's own: 0."""
    evict_daemonsets_of_empty_nodes: NotRequired[bool]
    """Whether DaemonSet pods of empty nodes are evicted first. The autoscaler's own: false."""
    evict_daemonsets_of_used_nodes: NotRequired[bool]
    """Whether DaemonSet pods of other nodes are evicted first. The autoscaler's own: true."""
    ignore_daemonsets_utilization: NotRequired[bool]
    """Whether DaemonSet pods count as no use of a node. The autoscaler's own: false."""


class BalancingArgs(TypedDict):
    """Which groups are similar, so that they grow evenly."""

    labels: NotRequired[Sequence[str]]
    """Keys of labels: groups that agree in these are similar, whatever else differs."""
    ignored_labels: NotRequired[Sequence[str]]
    """Keys of labels in which similar groups may differ, besides zone and hostname. The pool's own label
    `hybrid-talos.dev/pool` and the hash of its machines are always among them."""


class LimitsArgs(TypedDict):
    """Bounds of the whole cluster, above those of each group."""

    max_nodes_total: NotRequired[int]
    """Most nodes of the cluster, control planes among them, 1 or more. The autoscaler's own: no bound."""
    max_cores_total: NotRequired[int]
    """Most CPU cores of the cluster, 1 or more. The autoscaler's own: 320000."""
    max_memory_gib_total: NotRequired[int]
    """Most GiB of memory of the cluster, 1 or more. The autoscaler's own: 6400000."""
    ok_unready_nodes: NotRequired[int]
    """Nodes of the whole cluster that may be unready before `max_unready_percentage` counts, 0 or more. The
    autoscaler's own: 3."""
    max_unready_percentage: NotRequired[int]
    """Percent of the cluster's nodes, 0 to 100, above which it stops acting. The autoscaler's own: 45."""


_MOST = 1_000_000


class _ScaleDown(Shape):
    delay_after_add_minutes: int | None = Field(default=None, ge=0, le=_MOST)
    delay_after_delete_seconds: int | None = Field(default=None, ge=0, le=_MOST)
    delay_after_failure_minutes: int | None = Field(default=None, ge=0, le=_MOST)
    unready_minutes: int | None = Field(default=None, ge=10, le=_MOST)
    gpu_utilization_threshold: float | None = Field(default=None, ge=0, le=1)
    max_graceful_termination_seconds: int | None = Field(default=None, ge=0, le=_MOST)
    max_parallel: int | None = Field(default=None, ge=1, le=_MOST)
    max_parallel_drains: int | None = Field(default=None, ge=1, le=_MOST)
    keep_nodes_with_system_pods: bool | None = None
    keep_nodes_with_local_storage: bool | None = None
    keep_nodes_with_custom_controller_pods: bool | None = None
    min_replica_count: int | None = Field(default=None, ge=0, le=_MOST)
    evict_daemonsets_of_empty_nodes: bool | None = None
    evict_daemonsets_of_used_nodes: bool | None = None
    ignore_daemonsets_utilization: bool | None = None

    @model_validator(mode="after")
    def _in_order(self) -> "_ScaleDown":
        if (self.max_parallel_drains or 1) > (self.max_parallel or 10):
            raise ValueError("max_parallel_drains is above max_parallel, which is 10 when it is not given")
        return self


def _label_key(key: str) -> str:
    problem = label_key_problem(key)
    if problem:
        raise ValueError(problem)
    return key


_Key = Annotated[str, AfterValidator(_label_key)]


class _Balancing(Shape):
    labels: tuple[_Key, ...] = ()
    ignored_labels: tuple[_Key, ...] = ()

    @model_validator(mode="after")
    def _one_way(self) -> "_Balancing":
        if self.labels and self.ignored_labels:
            raise ValueError("labels and ignored_labels exclude each other: with labels, no others are compared")
        return self


class _Limits(Shape):
    max_nodes_total: int | None = Field(default=None, ge=1, le=_MOST)
    max_cores_total: int | None = Field(default=None, ge=1, le=320_000)
    max_memory_gib_total: int | None = Field(default=None, ge=1, le=6_400_000)
    ok_unready_nodes: int | None = Field(default=None, ge=0, le=_MOST)
    max_unready_percentage: int | None = Field(default=None, ge=0, le=100)


class Options(Shape):
    """The part of ClusterAutoscaler's inputs that becomes flags, checked."""

    expander: Expander | None = None
    priorities: Mapping[str, Annotated[int, Field(ge=0, le=_MOST)]] = Field(default_factory=dict)
    max_node_provision_minutes: int = Field(default=20, ge=15)
    scale_down_unneeded_minutes: int | None = Field(default=None, ge=1)
    scale_down_utilization_threshold: float | None = Field(default=None, ge=0, le=1)
    scale_down: _ScaleDown = _ScaleDown()
    new_pod_scale_up_delay_seconds: int | None = Field(default=None, ge=0)
    balance_similar_node_groups: bool = False
    balancing: _Balancing = _Balancing()
    limits: _Limits = _Limits()
    startup_taints: tuple[_Key, ...] = ()
    status_taints: tuple[_Key, ...] = ()
    scan_interval_seconds: int | None = Field(default=None, ge=5, le=3600)
    expendable_pods_priority_cutoff: int | None = Field(default=None, ge=-2_000_000_000, le=1_000_000_000)
    log_level: int = Field(default=4, ge=0, le=10)
    extra_args: Mapping[Annotated[str, StringConstraints(pattern=r"^\S+$")], str] = Field(default_factory=dict)

    def option_problems(self, groups: Mapping[str, Any]) -> list[str]:
        """Return what does not fit together."""
        found: list[str] = []
        if (self.expander is Expander.PRIORITY) != bool(self.priorities):
            found.append("expander: priority needs priorities, one number for each group, and they need it")
        if self.priorities and self.priorities.keys() != groups.keys():
            found.append(
                "priorities: must name each of node_groups and nothing else, since a group without a number never grows"
            )
        if (self.balancing.labels or self.balancing.ignored_labels) and not self.balance_similar_node_groups:
            found.append("balancing: needs balance_similar_node_groups: true")
        return found

    def flags(self) -> dict[str, str]:
        """Return the flags that come once, by name."""
        down, limits = self.scale_down, self.limits
        wanted: dict[str, str | None] = {
            # Without it a raised minimum makes no machines.
            "enforce-node-group-min-size": "true",
            "max-node-provision-time": f"{self.max_node_provision_minutes}m",
            "v": str(self.log_level),
            "expander": self.expander.value if self.expander else None,
            "scale-down-unneeded-time": _unit(self.scale_down_unneeded_minutes, "m"),
            "scale-down-utilization-threshold": _number(self.scale_down_utilization_threshold),
            "new-pod-scale-up-delay": _unit(self.new_pod_scale_up_delay_seconds, "s"),
            "balance-similar-node-groups": "true" if self.balance_similar_node_groups else None,
            "scale-down-delay-after-add": _unit(down.delay_after_add_minutes, "m"),
            "scale-down-delay-after-delete": _unit(down.delay_after_delete_seconds, "s"),
            "scale-down-delay-after-failure": _unit(down.delay_after_failure_minutes, "m"),
            "scale-down-unready-time": _unit(down.unready_minutes, "m"),
            "scale-down-gpu-utilization-threshold": _number(down.gpu_utilization_threshold),
            "max-graceful-termination-sec": _unit(down.max_graceful_termination_seconds, ""),
            "max-scale-down-parallelism": _unit(down.max_parallel, ""),
            "max-drain-parallelism": _unit(down.max_parallel_drains, ""),
            "skip-nodes-with-system-pods": _switch(down.keep_nodes_with_system_pods),
            "skip-nodes-with-local-storage": _switch(down.keep_nodes_with_local_storage),
            "skip-nodes-with-custom-controller-pods": _switch(down.keep_nodes_with_custom_controller_pods),
            "min-replica-count": _unit(down.min_replica_count, ""),
            "daemonset-eviction-for-empty-nodes": _switch(down.evict_daemonsets_of_empty_nodes),
            "daemonset-eviction-for-occupied-nodes": _switch(down.evict_daemonsets_of_used_nodes),
            "ignore-daemonsets-utilization": _switch(down.ignore_daemonsets_utilization),
            "max-nodes-total": _unit(limits.max_nodes_total, ""),
            "cores-total": None if limits.max_cores_total is None else f"0:{limits.max_cores_total}",
            "memory-total": None if limits.max_memory_gib_total is None else f"0:{limits.max_memory_gib_total}",
            "ok-total-unready-count": _unit(limits.ok_unready_nodes, ""),
            "max-total-unready-percentage": _unit(limits.max_unready_percentage, ""),
            "scan-interval": _unit(self.scan_interval_seconds, "s"),
            "expendable-pods-priority-cutoff": _unit(self.expendable_pods_priority_cutoff, ""),
        }
        return {name: value for name, value in wanted.items() if value is not None}

    def lists(self, own_labels: Sequence[str]) -> dict[str, list[str]]:
        """Return the flags that come once for each value; ``own_labels`` differ between any two pools."""
        ignored = [*self.balancing.ignored_labels, *own_labels]
        wanted = {
            "balancing-label": list(self.balancing.labels),
            # Without the labels that differ between any two pools, no two would ever be similar.
            "balancing-ignore-label": [] if self.balancing.labels or not self.balance_similar_node_groups else ignored,
            "startup-taint": list(self.startup_taints),
            "status-taint": list(self.status_taints),
        }
        return {name: sorted(set(values)) for name, values in wanted.items() if values}


def _unit(value: int | None, unit: str) -> str | None:
    return None if value is None else f"{value}{unit}"


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"


def _switch(value: bool | None) -> str | None:
    return None if value is None else str(value).lower()


def image_problem(image: str, kubernetes_version: str) -> str | None:
    """Return why an image cannot be the autoscaler of this Kubernetes, as far as its tag says."""
    kubernetes = text(minor(kubernetes_version))
    tag = re.search(r":v?(\d+\.\d+)[^/]*$", image)
    if tag is None or tag[1] == kubernetes:
        return None
    return (
        f"its version {tag[1]} is not the minor version of Kubernetes, {kubernetes}; "
        "other pairs are not tested upstream"
    )


_NO_RIGHTS = "it needs definitions and rights that this component does not bring; leave it off"

INSTEAD: Mapping[str, str] = {
    "enable-provisioning-requests": _NO_RIGHTS,
    "capacity-buffer-controller-enabled": _NO_RIGHTS,
    "capacity-buffer-pod-injection-enabled": _NO_RIGHTS,
    "capacity-quotas-enabled": _NO_RIGHTS,
    "nodes": "the groups and their sizes are the pools' own; change min_size and max_size there",
    "node-group-auto-discovery": "the groups come from node_groups, which name exactly what the pools made; "
    "on Azure they may be found by tags (discovery), on Alibaba Cloud the autoscaler refuses it",
    "cloud-provider": "use azure or aliyun",
    "cloud-config": "use azure or aliyun",
    "namespace": "it follows from the component",
    "leader-elect": "it is always on, so that two pods never act at once",
    "leader-elect-resource-name": "it follows from the component's name",
    "leader-elect-resource-namespace": "it follows from the component",
    "leader-elect-resource-lock": "it is a Lease, for which its rights are",
    "status-config-map-name": "it follows from the component's name",
    "address": "probes and metrics go to port 8085",
    "kubeconfig": "it runs in the cluster, as its service account",
    "kubernetes": "it runs in the cluster, as its service account",
    "enforce-node-group-min-size": "it is always on: without, a raised minimum makes no machines",
    "max-node-provision-time": "use max_node_provision_minutes",
    "v": "use log_level",
    "expander": "use expander",
    "scale-down-unneeded-time": "use scale_down_unneeded_minutes",
    "scale-down-utilization-threshold": "use scale_down_utilization_threshold",
    "new-pod-scale-up-delay": "use new_pod_scale_up_delay_seconds",
    "balance-similar-node-groups": "use balance_similar_node_groups",
    "balancing-label": "use balancing.labels",
    "balancing-ignore-label": "use balancing.ignored_labels",
    "startup-taint": "use startup_taints",
    "status-taint": "use status_taints",
    "scan-interval": "use scan_interval_seconds",
    "expendable-pods-priority-cutoff": "use expendable_pods_priority_cutoff",
    "scale-down-delay-after-add": "use scale_down.delay_after_add_minutes",
    "scale-down-delay-after-delete": "use scale_down.delay_after_delete_seconds",
    "scale-down-delay-after-failure": "use scale_down.delay_after_failure_minutes",
    "scale-down-unready-time": "use scale_down.unready_minutes",
    "scale-down-gpu-utilization-threshold": "use scale_down.gpu_utilization_threshold",
    "max-graceful-termination-sec": "use scale_down.max_graceful_termination_seconds",
    "max-scale-down-parallelism": "use scale_down.max_parallel",
    "max-drain-parallelism": "use scale_down.max_parallel_drains",
    "skip-nodes-with-system-pods": "use scale_down.keep_nodes_with_system_pods",
    "skip-nodes-with-local-storage": "use scale_down.keep_nodes_with_local_storage",
    "skip-nodes-with-custom-controller-pods": "use scale_down.keep_nodes_with_custom_controller_pods",
    "min-replica-count": "use scale_down.min_replica_count",
    "daemonset-eviction-for-empty-nodes": "use scale_down.evict_daemonsets_of_empty_nodes",
    "daemonset-eviction-for-occupied-nodes": "use scale_down.evict_daemonsets_of_used_nodes",
    "ignore-daemonsets-utilization": "use scale_down.ignore_daemonsets_utilization",
    "max-nodes-total": "use limits.max_nodes_total",
    "cores-total": "use limits.max_cores_total",
    "memory-total": "use limits.max_memory_gib_total",
    "ok-total-unready-count": "use limits.ok_unready_nodes",
    "max-total-unready-percentage": "use limits.max_unready_percentage",
}
"""Flags that this library sets or cannot serve, and what to do instead; `extra_args` must not have them."""
