"""What Prometheus watches of an autoscaler, and what it warns of.

Metrics: kubernetes/autoscaler `cluster-autoscaler/metrics/metrics.go`, tag 1.36.1, all with the prefix
`cluster_autoscaler_`. Objects: prometheus-operator `pkg/apis/monitoring/v1`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from .autoscaler_manifests import Autoscaler
from .manifests import after, labels, managed

API_VERSION = "monitoring.coreos.com/v1"


@dataclass(frozen=True)
class _Alert:
    name: str
    condition: str
    lasts: str
    severity: str
    summary: str
    action: str

    def rule(self) -> dict[str, Any]:
        return {
            "alert": self.name,
            "expr": self.condition,
            "for": self.lasts,
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "description": self.action},
        }


def alerts(job: str, namespace: str) -> list[dict[str, Any]]:
    """Return the rules for one autoscaler, by the name of its Service."""
    mine = f'{{job="{job}",namespace="{namespace}"}}'
    activity = f'{{job="{job}",namespace="{namespace}",activity="main"}}'
    found = [
        _Alert(
            "ClusterAutoscalerAbsent",
            f"absent(up{mine} == 1)",
            "10m",
            "critical",
            f"Nothing answers for the autoscaler {job}.",
            "Look at its Deployment: no machine comes or goes.",
        ),
        _Alert(
            "ClusterAutoscalerStandsStill",
            f"time() - max(cluster_autoscaler_last_activity{activity}) > 600",
            "5m",
            "critical",
            f"The autoscaler {job} has not looked at the cluster for ten minutes.",
            "Read its log: it waits for a cache (rights), or for the cloud.",
        ),
        _Alert(
            "ClusterAutoscalerUnsafe",
            f"max(cluster_autoscaler_cluster_safe_to_autoscale{mine}) == 0",
            "15m",
            "critical",
            f"The autoscaler {job} has stopped acting: too many nodes are not ready.",
            "Nodes whose machine is gone count; the node collector deletes them. Then look at the mesh.",
        ),
        _Alert(
            "ClusterAutoscalerScaleUpFails",
            f"sum(increase(cluster_autoscaler_failed_scale_ups_total{mine}[30m])) > 0",
            "5m",
            "warning",
            f"Scale-ups of the autoscaler {job} fail.",
            "Quota, stock, rights in the cloud, or machines that never join: `kubectl get events -A` says which group.",
        ),
        _Alert(
            "ClusterAutoscalerPodsWait",
            f"max(cluster_autoscaler_unschedulable_pods_count{mine}) > 0",
            "30m",
            "warning",
            f"Pods wait, and the autoscaler {job} makes no machine for them.",
            "`kubectl describe pod` shows its NotTriggerScaleUp event with the reason for each group.",
        ),
        _Alert(
            "ClusterAutoscalerMachinesNeverJoin",
            f"sum(increase(cluster_autoscaler_old_unregistered_nodes_removed_count{mine}[1h])) > 0",
            "0m",
            "warning",
            f"The autoscaler {job} gave up machines that did not become nodes.",
            "They do not reach the API server, or their nodes get no provider id: look at mesh and cloud controller.",
        ),
    ]
    return [alert.rule() for alert in found]


def watch_autoscaler(name: str, autoscaler: Autoscaler, extra: Mapping[str, str], opts: pulumi.ResourceOptions) -> None:
    """Declare Service, monitor and rules as children of the component ``name``; ``extra`` labels are theirs alone."""
    stem, namespace = autoscaler.stem, autoscaler.namespace
    selector = labels("cluster-autoscaler", stem)
    metadata = {"name": stem, "namespace": namespace, "labels": managed(selector)}
    service = kubernetes.core.v1.Service(
        f"{name}-metrics",
        metadata=metadata,
        # Headless: each replica is asked for itself.
        spec={
            "cluster_ip": "None",
            "selector": selector,
            "ports": [{"name": "metrics", "port": 8085, "target_port": "metrics", "protocol": "TCP"}],
        },
        opts=opts,
    )
    watched = {**metadata, "labels": {**extra, **managed(selector)}}
    kubernetes.apiextensions.CustomResource(
        f"{name}-monitor",
        api_version=API_VERSION,
        kind="ServiceMonitor",
        metadata=watched,
        spec={
            "selector": {"matchLabels": selector},
            "namespaceSelector": {"matchNames": [namespace]},
            "endpoints": [{"port": "metrics", "path": "/metrics", "interval": "30s"}],
        },
        opts=after(opts, service),  # it finds its targets by the Service
    )
    kubernetes.apiextensions.CustomResource(
        f"{name}-alerts",
        api_version=API_VERSION,
        kind="PrometheusRule",
        metadata=watched,
        spec={"groups": [{"name": stem, "rules": alerts(stem, namespace)}]},
        opts=opts,
    )
