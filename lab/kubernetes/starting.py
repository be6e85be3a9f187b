"""Whether the pods of a workload would start: what they name must be there, and a node must take them.

The API server takes a workload whose pods cannot start; the provider then waits for it until its time is up. The lab
says at once what the pods would wait for.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from . import security
from .objects import SKIP_AWAIT, Cluster, annotation
from .pods import containers

_AWAITED = frozenset({"apps/v1/Deployment", "apps/v1/DaemonSet", "apps/v1/StatefulSet", "batch/v1/Job", "v1/Pod"})
"""Kinds that the provider waits for (pulumi-kubernetes pkg/await/awaiters.go)."""

_PASSING = frozenset({"node.cloudprovider.kubernetes.io/uninitialized", "node.kubernetes.io/not-ready"})
"""Taints of machines that are new; they go by themselves."""


def pod_spec(type: str, obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the pod's spec in a workload, or None when the kind has no pods."""
    spec = obj.get("spec") or {}
    if type == "v1/Pod":
        return dict(spec)
    if type == "batch/v1/CronJob":
        spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    elif type not in _AWAITED and type != "apps/v1/ReplicaSet":
        return None
    return dict((spec.get("template") or {}).get("spec") or {})


def security_problem(cluster: Cluster, type: str, namespace: str, obj: Mapping[str, Any]) -> str | None:
    """Say why PodSecurity would refuse a workload's pods, or None."""
    spec = pod_spec(type, obj)
    if spec is None:
        return None
    found = cluster.get("v1/Namespace", "", namespace) or {}
    enforced = security.level(namespace, (found.get("metadata") or {}).get("labels"))
    broken = security.violations(spec, enforced)
    if not broken:
        return None
    return f'violates PodSecurity "{enforced}:latest" of the namespace {namespace}: {"; ".join(broken)}'


def missing(cluster: Cluster, type: str, namespace: str, obj: Mapping[str, Any]) -> list[str]:
    """Return what the pods of a workload would wait for."""
    spec = pod_spec(type, obj)
    if spec is None or type not in _AWAITED or (obj.get("spec") or {}).get("replicas") == 0:
        return []
    if (annotation(obj, SKIP_AWAIT) or "").lower() == "true":
        return []
    found = list(dict.fromkeys(_references(cluster, namespace, spec)))
    if not found and type != "apps/v1/DaemonSet" and not any(takes(node, spec) for node in cluster.all("v1/Node")):
        found.append("a node that takes the pods: none has the wanted labels and only tolerated taints")
    return found


def _references(cluster: Cluster, namespace: str, spec: Mapping[str, Any]) -> Iterator[str]:
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account and not cluster.has("v1/ServiceAccount", namespace, account):
        yield f'serviceaccount "{account}" not found'
    priority = spec.get("priorityClassName")
    if priority and not cluster.has("scheduling.k8s.io/v1/PriorityClass", "", priority):
        yield f"no PriorityClass with name {priority} was found"
    for volume in spec.get("volumes") or []:
        for kind, source, field in _sources(volume):
            if source.get("optional") is not True:
                yield from _wanted(cluster, kind, namespace, source.get(field), [])
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if claim and not cluster.has("v1/PersistentVolumeClaim", namespace, claim):
            yield f'persistentvolumeclaim "{claim}" not found'
    for container in containers(spec):
        for kind, reference in _environment(container):
            if reference.get("optional") is not True:
                keys = [reference["key"]] if reference.get("key") else []
                yield from _wanted(cluster, kind, namespace, reference.get("name"), keys)


def _environment(container: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    sources = [variable.get("valueFrom") or {} for variable in container.get("env") or []]
    for source in [*sources, *(container.get("envFrom") or [])]:
        for field, kind in (
            *(("configMapKeyRef", "v1/ConfigMap"), ("secretKeyRef", "v1/Secret")),
            *(("configMapRef", "v1/ConfigMap"), ("secretRef", "v1/Secret")),
        ):
            if source.get(field):
                yield kind, source[field]


def _sources(volume: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    if volume.get("configMap"):
        yield "v1/ConfigMap", volume["configMap"], "name"
    if volume.get("secret"):
        yield "v1/Secret", volume["secret"], "secretName"
    for part in (volume.get("projected") or {}).get("sources") or []:
        if part.get("configMap"):
            yield "v1/ConfigMap", part["configMap"], "name"
        if part.get("secret"):
            yield "v1/Secret", part["secret"], "name"


def _wanted(cluster: Cluster, type: str, namespace: str, name: Any, keys: list[Any]) -> Iterator[str]:
    kind = type.partition("/")[2].lower()
    doc = cluster.get(type, namespace, str(name))
    if doc is None:
        if not cluster.has(type, namespace, str(name)):
            because = ""
            if type == "v1/Secret" and cluster.talos_api() is not None:
                because = f" (nor does Talos write it: {cluster.talos_account_problem(namespace, str(name))})"
            yield f'{kind} "{name}" not found{because}'
        return
    there = {**(doc.get("data") or {}), **(doc.get("binaryData") or {})}
    for key in keys:
        if key not in there:
            yield f'couldn\'t find key {key} in {kind} "{name}"'


def takes(node: Mapping[str, Any], spec: Mapping[str, Any]) -> bool:
    """Say whether the scheduler may put a pod on a node: its labels, required affinity and taints."""
    labels = (node.get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms")
    if terms and not any(_meets(labels, term.get("matchExpressions") or []) for term in terms):
        return False
    taints = (node.get("spec") or {}).get("taints") or []
    return all(
        taint["key"] in _PASSING
        or taint.get("effect") == "PreferNoSchedule"
        or any(_tolerates(toleration, taint) for toleration in spec.get("tolerations") or [])
        for taint in taints
    )


def _meets(labels: Mapping[str, Any], expressions: list[Mapping[str, Any]]) -> bool:
    for expression in expressions:
        value, values = labels.get(str(expression.get("key"))), expression.get("values") or []
        met = {
            "In": value is not None and value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }
        if not met.get(str(expression.get("operator")), True):
            return False
    return True


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")
