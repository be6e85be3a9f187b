"""The collector of Node objects whose machine is gone.

Neither the Talos cloud controller nor the autoscalers of Azure and Alibaba Cloud delete them
(siderolabs/talos-cloud-controller-manager `pkg/talos/instances.go`), and silent nodes count against
`--ok-total-unready-count`, until nothing scales any more.

Why this way: cozystack/local-ccm's lifecycle controller pings machines, for which it needs the host's network and
NET_RAW, and leaves evicted spot machines, which carry no deletion taint. `kubectl delete` cannot select by condition.
So Python's official image runs a script of ours, which is read together with this module, as its code is.
"""

from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from .manifests import (
    CONTROL_PLANE,
    KUBE_SYSTEM,
    after,
    control_plane_affinity,
    control_plane_tolerations,
    labels,
    managed,
    restricted_container,
    restricted_pod,
)
from .node_template import POOL_LABEL

IMAGE = "docker.io/library/python:3.13.9-alpine3.22"
"""Python's official image; the script needs nothing but the standard library of 3.11 or later."""

SCALED_AWAY_SECONDS = 300
"""How long a node that the autoscaler has chosen must be silent: enough for a drain that still reports."""

_SCRIPT = files(__package__).joinpath("node_collector_script.py").read_text(encoding="utf-8")
_NOBODY = 65534


@dataclass(frozen=True)
class Collector:
    """How the collector is named and what it takes for gone."""

    base: str
    image: str
    gone_minutes: int
    silent_pool_minutes: int
    dry_run: bool


def only_pool_nodes(account: str) -> dict[str, Any]:
    """Return an admission policy's spec: ``account`` may delete nodes of pools and no others.

    RBAC cannot tell one node from another; this can, whatever the script does.
    """
    labelled = "has(oldObject.metadata.labels)"
    return {
        "failure_policy": "Fail",
        "match_constraints": {
            "resource_rules": [
                {"api_groups": [""], "api_versions": ["v1"], "operations": ["DELETE"], "resources": ["nodes"]}
            ]
        },
        "match_conditions": [
            {
                "name": "collector",
                "expression": f"request.userInfo.username == 'system:serviceaccount:{KUBE_SYSTEM}:{account}'",
            }
        ],
        "validations": [
            {
                "expression": f"{labelled} && '{POOL_LABEL}' in oldObject.metadata.labels "
                f"&& !('{CONTROL_PLANE}' in oldObject.metadata.labels)",
                "message": "the collector deletes nodes of worker pools only",
            }
        ],
    }


def _pod(settings: Collector) -> dict[str, Any]:
    environment = {
        "POOL_LABEL": POOL_LABEL,
        "SCALED_AWAY_SECONDS": str(SCALED_AWAY_SECONDS),
        "GONE_SECONDS": str(settings.gone_minutes * 60),
        "SILENT_POOL_SECONDS": str(settings.silent_pool_minutes * 60),
        "DRY_RUN": "true" if settings.dry_run else "false",
    }
    return {
        "service_account_name": settings.base,
        "restart_policy": "Never",
        "affinity": control_plane_affinity(),
        "tolerations": control_plane_tolerations(),
        "security_context": restricted_pod(_NOBODY),
        "containers": [
            {
                "name": "collector",
                "image": settings.image,
                # -B: the file system is read-only. -I: nothing of the environment but what is named here.
                "command": ["python3", "-B", "-I", "/opt/collector/collect.py"],
                "env": [{"name": key, "value": value} for key, value in sorted(environment.items())],
                "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
                "security_context": restricted_container(),
                "volume_mounts": [{"name": "script", "mount_path": "/opt/collector", "read_only": True}],
            }
        ],
        "volumes": [{"name": "script", "config_map": {"name": settings.base}}],
    }


def deploy_collector(name: str, settings: Collector, child: pulumi.ResourceOptions) -> None:
    """Declare the collector as children of the component ``name``."""
    selector = labels("node-collector", settings.base)
    cluster_wide = {"name": settings.base, "labels": managed(selector)}
    inside = {**cluster_wide, "namespace": KUBE_SYSTEM}

    account = kubernetes.core.v1.ServiceAccount(f"{name}-collector-account", metadata=inside, opts=child)
    script = kubernetes.core.v1.ConfigMap(
        f"{name}-collector-script", metadata=inside, data={"collect.py": _SCRIPT}, opts=child
    )
    policy = kubernetes.admissionregistration.v1.ValidatingAdmissionPolicy(
        f"{name}-collector-policy", metadata=cluster_wide, spec=only_pool_nodes(settings.base), opts=child
    )
    guard = kubernetes.admissionregistration.v1.ValidatingAdmissionPolicyBinding(
        f"{name}-collector-policy-binding",
        metadata=cluster_wide,
        spec={"policy_name": settings.base, "validation_actions": ["Deny"]},
        opts=after(child, policy),  # a binding without its policy is refused work
    )
    role = kubernetes.rbac.v1.ClusterRole(
        f"{name}-collector-role",
        metadata=cluster_wide,
        rules=[{"api_groups": [""], "resources": ["nodes"], "verbs": ["list", "delete"]}],
        opts=child,
    )
    binding = kubernetes.rbac.v1.ClusterRoleBinding(
        f"{name}-collector-binding",
        metadata=cluster_wide,
        role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": settings.base},
        subjects=[{"kind": "ServiceAccount", "name": settings.base, "namespace": KUBE_SYSTEM}],
        # The right comes after the guard that narrows it, and goes before it.
        opts=after(child, role, guard),
    )
    kubernetes.batch.v1.CronJob(
        f"{name}-collector",
        metadata=inside,
        spec={
            "schedule": "*/5 * * * *",
            "concurrency_policy": "Forbid",
            # A run that could not start in time is skipped; the next one sees the same nodes.
            "starting_deadline_seconds": 240,
            "successful_jobs_history_limit": 1,
            "failed_jobs_history_limit": 1,
            "job_template": {
                "spec": {
                    "backoff_limit": 0,
                    "active_deadline_seconds": 240,
                    "template": {"metadata": {"labels": managed(selector)}, "spec": _pod(settings)},
                }
            },
        },
        opts=after(child, account, script, binding),  # a run without its rights would only fail
    )
