"""The status that a controller gives an object soon after it was made, and what the API server fills in."""

from collections.abc import Callable, Mapping
from typing import Any

from .objects import Cluster, Reference


def status_of(cluster: Cluster, reference: Reference, live: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that an object gets from its controller."""
    make = _STATUS.get(reference.type)
    return {} if make is None else make(cluster, live)


def _condition(kind: str, reason: str) -> dict[str, str]:
    return {"type": kind, "status": "True", "reason": reason}


def _deployment(cluster: Cluster, live: Mapping[str, Any]) -> dict[str, Any]:
    wanted = (live.get("spec") or {}).get("replicas", 1)
    counts = {name: wanted for name in ("availableReplicas", "readyReplicas", "replicas", "updatedReplicas")}
    conditions = [
        _condition("Available", "MinimumReplicasAvailable"),
        _condition("Progressing", "NewReplicaSetAvailable"),
    ]
    return {"status": {"conditions": conditions, "observedGeneration": _generation(live), **counts}}


def _daemon_set(cluster: Cluster, live: Mapping[str, Any]) -> dict[str, Any]:
    nodes = len(cluster.all("v1/Node"))
    counts = {
        name: nodes for name in ("currentNumberScheduled", "desiredNumberScheduled", "numberAvailable", "numberReady")
    }
    return {
        "status": {
            **counts,
            "updatedNumberScheduled": nodes,
            "numberMisscheduled": 0,
            "observedGeneration": _generation(live),
        }
    }


def _stateful_set(cluster: Cluster, live: Mapping[str, Any]) -> dict[str, Any]:
    wanted = (live.get("spec") or {}).get("replicas", 1)
    counts = {name: wanted for name in ("availableReplicas", "currentReplicas", "readyReplicas", "replicas")}
    return {"status": {**counts, "updatedReplicas": wanted, "observedGeneration": _generation(live)}}


def _job(cluster: Cluster, live: Mapping[str, Any]) -> dict[str, Any]:
    return {"status": {"succeeded": 1, "conditions": [_condition("Complete", "CompletionsReached")]}}


def _definition(cluster: Cluster, live: Mapping[str, Any]) -> dict[str, Any]:
    spec = live.get("spec") or {}
    stored = [version.get("name") for version in spec.get("versions") or [] if version.get("storage")]
    conditions = [_condition("NamesAccepted", "NoConflicts"), _condition("Established", "InitialNamesAccepted")]
    return {"status": {"acceptedNames": spec.get("names") or {}, "conditions": conditions, "storedVersions": stored}}


def _generation(live: Mapping[str, Any]) -> int:
    return int((live.get("metadata") or {}).get("generation", 1))


_STATUS: dict[str, Callable[[Cluster, Mapping[str, Any]], dict[str, Any]]] = {
    "apiextensions.k8s.io/v1/CustomResourceDefinition": _definition,
    "apps/v1/DaemonSet": _daemon_set,
    "apps/v1/Deployment": _deployment,
    "apps/v1/StatefulSet": _stateful_set,
    "batch/v1/CronJob": lambda cluster, live: {"status": {}},
    "batch/v1/Job": _job,
    "v1/Namespace": lambda cluster, live: {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
    "v1/Pod": lambda cluster, live: {"status": {"phase": "Running", "conditions": [_condition("Ready", "")]}},
    "v1/Service": lambda cluster, live: {"status": {"loadBalancer": {}}},
}
