"""A workload that fits on no machine of a pool that runs now, to see one come."""

from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from .manifests import labels, managed, restricted_container, restricted_pod
from .node_group import NodeGroup
from .node_template import POOL_LABEL

PAUSE = "registry.k8s.io/pause:3.10"
"""Does nothing, and is on each node already as a rule."""

NAMESPACE = "default"


def tolerations(taints: list[str]) -> list[dict[str, str]]:
    """Return what a pod needs to run beside taints that are written as `key=value:Effect`."""
    found: list[dict[str, str]] = []
    for taint in taints:
        left, _, effect = taint.rpartition(":")
        key, _, value = left.partition("=")
        found.append({"key": key, "operator": "Equal", "value": value, "effect": effect})
    return found


def _pod(group: NodeGroup, stem: str, image: str, cpu: str, memory: str) -> dict[str, Any]:
    return {
        "node_selector": {POOL_LABEL: group["labels"][POOL_LABEL]},
        "tolerations": tolerations(list(group["taints"])),
        # One a machine: the second replica needs a second machine.
        "affinity": {
            "pod_anti_affinity": {
                "required_during_scheduling_ignored_during_execution": [
                    {
                        "label_selector": {"match_labels": labels("scale-up-sample", stem)},
                        "topology_key": "kubernetes.io/hostname",
                    }
                ]
            }
        },
        "termination_grace_period_seconds": 0,
        "security_context": restricted_pod(65535),
        "containers": [
            {
                "name": "pause",
                "image": image,
                "resources": {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}},
                "security_context": restricted_container(),
            }
        ],
    }


def sample_workload(
    name: str,
    stem: str,
    group: pulumi.Output[NodeGroup],
    image: str,
    replicas: int,
    cpu: str,
    memory: str,
    opts: pulumi.ResourceOptions,
) -> kubernetes.apps.v1.Deployment:
    """Declare the workload for one group as a child of the component ``name``."""
    selector = labels("scale-up-sample", stem)
    return kubernetes.apps.v1.Deployment(
        f"{name}-sample",
        metadata={
            "name": f"{stem}-sample",
            "namespace": NAMESPACE,
            "labels": managed(selector),
            # It is ready only when a machine has come; `up` must not wait for that.
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        spec=group.apply(
            lambda one: {
                "replicas": replicas,
                "selector": {"match_labels": selector},
                "template": {
                    "metadata": {"labels": managed(selector)},
                    "spec": _pod(one, stem, image, cpu, memory),
                },
            }
        ),
        opts=opts,
    )
