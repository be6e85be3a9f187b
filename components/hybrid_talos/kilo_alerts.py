"""What Prometheus is told about Kilo: where its metrics are, and when somebody should look.

Metrics: squat/kilo 0.7.0 `pkg/mesh/mesh.go` (`kilo_errors_total` by `event`, `kilo_leader`, `kilo_nodes`, `kilo_peers`,
`kilo_reconciles_total`). Objects: prometheus-operator `pkg/apis/monitoring/v1`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from .manifests import labels, managed
from .mesh_plan import Granularity

API_VERSION = "monitoring.coreos.com/v1"


@dataclass(frozen=True)
class _Alert:
    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    description: str

    def rule(self) -> dict[str, Any]:
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.lasts,
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "description": self.description},
        }


def alerts(namespace: str, granularity: Granularity) -> list[dict[str, Any]]:
    """Return the alert rules for the agents in ``namespace``."""
    mine = f'{{namespace="{namespace}"}}'
    found = [
        _Alert(
            "KiloAgentsGone",
            f"absent(kilo_nodes{mine})",
            "15m",
            "critical",
            "No agent of Kilo is seen.",
            "New machines do not join the mesh, and changed addresses are not followed. Look at the DaemonSet kilo.",
        ),
        _Alert(
            "KiloStandsStill",
            # The agent reconciles every 30 seconds, whatever happens (`--resync-period`).
            f"increase(kilo_reconciles_total{mine}[10m]) == 0",
            "10m",
            "critical",
            "Kilo's agent {{ $labels.pod }} does not reconcile.",
            "Its machine keeps the tunnels that it has and follows no change. Restart the pod.",
        ),
        _Alert(
            "KiloErrors",
            f"sum by (namespace, pod, event) (increase(kilo_errors_total{mine}[15m])) > 3",
            "15m",
            "warning",
            "Kilo's agent {{ $labels.pod }} fails at {{ $labels.event }}.",
            "Tunnels or routes of its machine may be old. The pod's log says why.",
        ),
        _Alert(
            "KiloMachinesDisagree",
            f"max(kilo_nodes{mine}) - min(kilo_nodes{mine}) > 0",
            "15m",
            "warning",
            "Kilo's agents do not see the same machines.",
            "One of them does not hear from the Kubernetes API. Look for the one with the lowest kilo_nodes.",
        ),
        _Alert(
            "KiloMachinesMissing",
            # Says nothing where kube-state-metrics is not.
            f"count(kube_node_info) - max(kilo_nodes{mine}) > 0",
            "20m",
            "warning",
            "{{ $value }} machines are not in the mesh.",
            "Kilo leaves a machine out that has no endpoint, key or pod range, or has not checked in for a minute.",
        ),
    ]
    if granularity is Granularity.LOCATION:
        # Where every machine is its own location, it leads for good.
        found += [
            _Alert(
                "KiloWithoutLeader",
                f"sum(kilo_leader{mine}) == 0",
                "5m",
                "critical",
                "No machine leads its location in the mesh.",
                "The locations do not reach each other.",
            ),
            _Alert(
                "KiloLeadersChange",
                f"sum(changes(kilo_leader{mine}[1h])) > 6",
                "5m",
                "warning",
                "The leaders of the mesh change often.",
                "Each change breaks a location's connections. Give it a pool of gateways, which does not scale away.",
            ),
        ]
    return [alert.rule() for alert in found]


def watch_kilo(
    name: str,
    base: str,
    namespace: str,
    granularity: Granularity,
    extra: Mapping[str, str],
    opts: pulumi.ResourceOptions,
) -> None:
    """Declare the monitor and the rules, as children of the component ``name``; ``extra`` labels are theirs alone."""
    selector = labels("kilo", base)
    metadata = {"name": f"{base}-kilo", "namespace": namespace, "labels": {**extra, **managed(selector)}}
    kubernetes.apiextensions.CustomResource(
        f"{name}-monitor",
        api_version=API_VERSION,
        kind="PodMonitor",
        metadata=metadata,
        spec={
            "selector": {"matchLabels": selector},
            "namespaceSelector": {"matchNames": [namespace]},
            "podMetricsEndpoints": [{"port": "metrics", "path": "/metrics", "interval": "30s"}],
        },
        opts=opts,
    )
    kubernetes.apiextensions.CustomResource(
        f"{name}-alerts",
        api_version=API_VERSION,
        kind="PrometheusRule",
        metadata=metadata,
        spec={"groups": [{"name": f"{base}-kilo", "rules": alerts(namespace, granularity)}]},
        opts=opts,
    )
