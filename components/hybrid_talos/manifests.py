"""Pieces of Kubernetes manifests that several components share. Pure."""

import re
from typing import Any

import pulumi

from ._contract import BadInputs

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
"""Label and taint of control planes."""

KUBE_SYSTEM = "kube-system"
"""Namespace that Talos exempts from PodSecurity."""

# 40 characters leave room for the longest suffix within the 63 of a DNS label.
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")


def object_base(owner: str, name: str) -> str:
    """Return the component's name as the stem of Kubernetes object names; BadInputs when it cannot be one.

    The names are explicit, since two previews must agree and flags refer to them, and come from the
    component's name, so that two instances do not collide in one cluster.
    """
    if not _NAME.fullmatch(name):
        raise BadInputs(
            f"{owner}: the name becomes part of Kubernetes object names, so it must be 1 to 40 "
            "lower-case letters, digits and hyphens, starting with a letter and not ending with a hyphen"
        )
    return name


def labels(app: str, instance: str) -> dict[str, str]:
    """Return the labels of one instance of an application; also its selector, so they never change."""
    return {"app.kubernetes.io/name": app, "app.kubernetes.io/instance": instance}


def managed(selector: dict[str, str]) -> dict[str, str]:
    """Return the labels of an object: its selector and who looks after it."""
    return {**selector, "app.kubernetes.io/managed-by": "pulumi", "app.kubernetes.io/part-of": "hybrid-talos"}


def restricted_pod(user: int) -> dict[str, Any]:
    """Return a pod's security context that PodSecurity `restricted` admits, run as ``user``."""
    return {
        "run_as_non_root": True,
        "run_as_user": user,
        "run_as_group": user,
        "seccomp_profile": {"type": "RuntimeDefault"},
    }


def restricted_container() -> dict[str, Any]:
    """Return a container's security context that PodSecurity `restricted` admits."""
    return {
        "allow_privilege_escalation": False,
        "read_only_root_filesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def control_plane_affinity() -> dict[str, Any]:
    """Return an affinity that keeps a pod on control planes, which no autoscaler takes away."""
    term = {"match_expressions": [{"key": CONTROL_PLANE, "operator": "Exists"}]}
    return {"node_affinity": {"required_during_scheduling_ignored_during_execution": {"node_selector_terms": [term]}}}


def control_plane_tolerations(moves_after: int = 60) -> list[dict[str, Any]]:
    """Return the tolerations of a pod on control planes; it leaves a lost node after ``moves_after`` seconds.

    Kubernetes' own 300 seconds are a third of the time that the autoscaler gives a new machine to join.
    """
    return [
        {"key": CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"},
        *(
            {
                "key": f"node.kubernetes.io/{state}",
                "operator": "Exists",
                "effect": "NoExecute",
                "toleration_seconds": moves_after,
            }
            for state in ("not-ready", "unreachable")
        ),
    ]


def after(child: pulumi.ResourceOptions, *resources: pulumi.Resource) -> pulumi.ResourceOptions:
    """Return the options of a child that is made after ``resources``; the caller says why in a comment."""
    return pulumi.ResourceOptions.merge(child, pulumi.ResourceOptions(depends_on=list(resources)))
