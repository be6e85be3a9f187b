"""What the API server refuses in an object by itself, whatever else is in the cluster.

Sources: kubernetes/kubernetes pkg/apis/*/validation and staging/src/k8s.io/apimachinery pkg/api/validation and
pkg/util/validation; kubernetes.io "Object Names and IDs", "Labels and Selectors", "Annotations".
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from .pods import pod_problems

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_CRON = re.compile(r"@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every \S+|(\S+\s+){4}\S+")

_MEBIBYTE = 1 << 20
_ANNOTATIONS = 256 << 10


def subdomain_problem(name: str) -> str | None:
    """Return why a name is no DNS-1123 subdomain, or None."""
    if len(name) > 253 or not _SUBDOMAIN.fullmatch(name):
        return "a lowercase RFC 1123 subdomain of at most 253 characters: letters, digits, '-' and '.'"
    return None


def label_problem(name: str) -> str | None:
    """Return why a name is no DNS-1123 label, or None."""
    if len(name) > 63 or not _LABEL.fullmatch(name):
        return "a lowercase RFC 1123 label of at most 63 characters: letters, digits and '-'"
    return None


def _name_problem(type: str, name: str) -> str | None:
    if type == "v1/Namespace":
        return label_problem(name)
    if type == "v1/Service":
        good = len(name) <= 63 and _SERVICE.fullmatch(name)
        return None if good else "a lowercase RFC 1035 label of at most 63 characters that begins with a letter"
    if type.startswith("rbac.authorization.k8s.io/"):
        # Their names only have to be a part of a path (`ValidatePathSegmentName`).
        return "no '/' or '%', and not '.' or '..'" if name in (".", "..") or re.search(r"[/%]", name) else None
    if type == "batch/v1/CronJob" and len(name) > 52:
        return "at most 52 characters: its Jobs get 11 more"
    if type == "scheduling.k8s.io/v1/PriorityClass" and name.startswith("system-"):
        return "not to begin with 'system-', which the system keeps for itself"
    return subdomain_problem(name)


def key_problem(key: str) -> str | None:
    """Return why a label or annotation key is not one, or None."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or subdomain_problem(prefix)):
        return "its prefix must be a DNS subdomain"
    if len(name) > 63 or not _QUALIFIED.fullmatch(name):
        return "its name must be at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    return None


def label_value_problem(value: Any) -> str | None:
    """Return why a value is no label value, or None."""
    if not isinstance(value, str):
        return "expected a string"
    if value and (len(value) > 63 or not _QUALIFIED.fullmatch(value)):
        return "at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    return None


def problems(type: str, obj: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with an object whose values are all known; a line each, with the field first."""
    found = list(metadata_problems(type, obj.get("metadata") or {}))
    rule = _RULES.get(type)
    if rule is not None:
        found += rule(obj)
    return found


def metadata_problems(type: str, metadata: Mapping[str, Any]) -> Iterator[str]:
    """Return what is wrong with an object's name, labels and annotations."""
    name = metadata.get("name")
    if not isinstance(name, str) or not name:
        yield "metadata.name: Required value: name or generateName is required"
    else:
        wanted = _name_problem(type, name)
        if wanted:
            yield f"metadata.name: Invalid value: {name!r}: must be {wanted}"
    namespace = metadata.get("namespace")
    if isinstance(namespace, str) and namespace and label_problem(namespace):
        yield f"metadata.namespace: Invalid value: {namespace!r}: must be {label_problem(namespace)}"
    yield from labels_problems(metadata.get("labels"), "metadata.labels")
    annotations = metadata.get("annotations") or {}
    for key, value in annotations.items():
        if key_problem(key.lower()):
            yield f"metadata.annotations: Invalid value: {key!r}: {key_problem(key.lower())}"
        if not isinstance(value, str):
            yield f"metadata.annotations[{key}]: expected a string"
    if sum(len(str(key)) + len(str(value)) for key, value in annotations.items()) > _ANNOTATIONS:
        yield "metadata.annotations: Too long: may not be more than 262144 bytes"


def labels_problems(labels: Any, path: str) -> Iterator[str]:
    """Return what is wrong with a set of labels."""
    for key, value in (labels or {}).items():
        if key_problem(key):
            yield f"{path}: Invalid value: {key!r}: {key_problem(key)}"
        if label_value_problem(value):
            yield f"{path}[{key}]: Invalid value: {label_value_problem(value)}"


def selector_problems(selector: Any, labels: Any, path: str) -> Iterator[str]:
    """Return why a workload's selector does not choose its own pods."""
    wanted = (selector or {}).get("matchLabels") or {}
    if not wanted and not (selector or {}).get("matchExpressions"):
        yield f"{path}: Required value"
    yield from labels_problems(wanted, f"{path}.matchLabels")
    if any((labels or {}).get(key) != value for key, value in wanted.items()):
        yield "spec.template.metadata.labels: Invalid value: `selector` does not match template `labels`"


def _workload(restart: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Iterator[str]]:
    def rule(obj: Mapping[str, Any]) -> Iterator[str]:
        spec = obj.get("spec") or {}
        template = spec.get("template") or {}
        labels = (template.get("metadata") or {}).get("labels")
        yield from labels_problems(labels, "spec.template.metadata.labels")
        yield from selector_problems(spec.get("selector"), labels, "spec.selector")
        if isinstance(spec.get("replicas"), int) and spec["replicas"] < 0:
            yield "spec.replicas: Invalid value: must be greater than or equal to 0"
        yield from pod_problems(template.get("spec") or {}, "spec.template.spec", restart)

    return rule


def _job_template(spec: Mapping[str, Any], path: str) -> Iterator[str]:
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    if pod.get("restartPolicy") is None:
        yield f"{path}.template.spec.restartPolicy: Required value: valid values: OnFailure, Never"
    yield from labels_problems((template.get("metadata") or {}).get("labels"), f"{path}.template.metadata.labels")
    yield from pod_problems(pod, f"{path}.template.spec", ("OnFailure", "Never"))


def _job(obj: Mapping[str, Any]) -> Iterator[str]:
    yield from _job_template(obj.get("spec") or {}, "spec")


def _cron_job(obj: Mapping[str, Any]) -> Iterator[str]:
    spec = obj.get("spec") or {}
    if not _CRON.fullmatch(str(spec.get("schedule") or "")):
        yield "spec.schedule: Invalid value: expected five fields or a macro such as @hourly"
    if spec.get("concurrencyPolicy") not in (None, "Allow", "Forbid", "Replace"):
        yield "spec.concurrencyPolicy: Unsupported value: supported values: Allow, Forbid, Replace"
    yield from _job_template((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec")


def _pod(obj: Mapping[str, Any]) -> Iterator[str]:
    yield from pod_problems(obj.get("spec") or {}, "spec", ("Always", "OnFailure", "Never"))


def _keys(data: Mapping[str, Any], path: str) -> Iterator[str]:
    for key in data:
        if len(key) > 253 or not _DATA_KEY.fullmatch(key) or key in (".", "..") or key.startswith(".."):
            yield f"{path}[{key}]: Invalid value: a key must consist of letters, digits, '-', '_' or '.'"


def _config_map(obj: Mapping[str, Any]) -> Iterator[str]:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    yield from _keys({**data, **binary}, "data")
    yield from (f"data[{key}]: expected a string" for key, value in data.items() if not isinstance(value, str))
    yield from (f"data[{key}]: Invalid value: duplicate of binaryData" for key in data.keys() & binary.keys())
    if sum(len(str(value).encode()) for value in (*data.values(), *binary.values())) > _MEBIBYTE:
        yield f"data: Too long: may not be more than {_MEBIBYTE} bytes"


_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}


def _secret(obj: Mapping[str, Any]) -> Iterator[str]:
    data = obj.get("data") or {}
    yield from _keys(data, "data")
    size = 0
    for key, value in data.items():
        try:
            size += len(base64.b64decode(value, validate=True))
        except (binascii.Error, ValueError, TypeError):
            yield f"data[{key}]: illegal base64 data; text goes into stringData"
    if size > _MEBIBYTE:
        yield f"data: Too long: may not be more than {_MEBIBYTE} bytes"
    for key in _SECRET_KEYS.get(str(obj.get("type")), ()):
        if key not in data:
            yield f"data[{key}]: Required value: a Secret of type {obj.get('type')} needs it"


def _service(obj: Mapping[str, Any]) -> Iterator[str]:
    spec = obj.get("spec") or {}
    kind = spec.get("type") or "ClusterIP"
    if kind not in ("ClusterIP", "NodePort", "LoadBalancer", "ExternalName"):
        yield "spec.type: Unsupported value: supported values: ClusterIP, NodePort, LoadBalancer, ExternalName"
    ports = spec.get("ports") or []
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        yield "spec.ports: Required value"
    for index, port in enumerate(ports):
        if not isinstance(port.get("port"), int) or not 1 <= port["port"] <= 65535:
            yield f"spec.ports[{index}].port: Invalid value: must be between 1 and 65535"
        if len(ports) > 1 and not port.get("name"):
            yield f"spec.ports[{index}].name: Required value"


def _definition(obj: Mapping[str, Any]) -> Iterator[str]:
    spec = obj.get("spec") or {}
    names = spec.get("names") or {}
    wanted = f"{names.get('plural')}.{spec.get('group')}"
    if (obj.get("metadata") or {}).get("name") != wanted:
        yield f"metadata.name: Invalid value: must be spec.names.plural+'.'+spec.group, that is {wanted!r}"
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        yield "spec.scope: Unsupported value: supported values: Cluster, Namespaced"
    versions = spec.get("versions") or []
    if sum(version.get("storage") is True for version in versions) != 1:
        yield "spec.versions: Invalid value: must have exactly one version marked as storage version"
    for index, version in enumerate(versions):
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            yield f"spec.versions[{index}].schema.openAPIV3Schema: Required value: schemas are required"
        elif schema.get("type") != "object":
            yield f"spec.versions[{index}].schema.openAPIV3Schema.type: Invalid value: must be object at the root"


def _budget(obj: Mapping[str, Any]) -> Iterator[str]:
    spec = obj.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield "spec: Invalid value: minAvailable and maxUnavailable cannot be both set"


def _role(obj: Mapping[str, Any]) -> Iterator[str]:
    for index, rule in enumerate(obj.get("rules") or []):
        if not rule.get("verbs"):
            yield f"rules[{index}].verbs: Required value: verbs must contain at least one value"
        if rule.get("nonResourceURLs"):
            if obj.get("kind") == "Role":
                yield f"rules[{index}].nonResourceURLs: Invalid value: namespaced rules cannot apply to them"
            if rule.get("resources") or rule.get("apiGroups"):
                yield f"rules[{index}]: Invalid value: rules cannot apply to both resources and nonResourceURLs"
        else:
            if not rule.get("apiGroups"):
                yield f"rules[{index}].apiGroups: Required value: resource rules must supply at least one api group"
            if not rule.get("resources"):
                yield f"rules[{index}].resources: Required value: resource rules must supply at least one resource"


def _binding(obj: Mapping[str, Any]) -> Iterator[str]:
    reference = obj.get("roleRef") or {}
    allowed = ("ClusterRole",) if obj.get("kind") == "ClusterRoleBinding" else ("Role", "ClusterRole")
    if reference.get("apiGroup") not in (None, "rbac.authorization.k8s.io"):
        yield "roleRef.apiGroup: Unsupported value: supported values: rbac.authorization.k8s.io"
    if reference.get("kind") not in allowed:
        yield f"roleRef.kind: Unsupported value: supported values: {', '.join(allowed)}"
    if not reference.get("name"):
        yield "roleRef.name: Required value"
    for index, subject in enumerate(obj.get("subjects") or []):
        if subject.get("kind") == "ServiceAccount":
            if not subject.get("namespace"):
                yield f"subjects[{index}].namespace: Required value"
            if subject.get("apiGroup"):
                yield f"subjects[{index}].apiGroup: Unsupported value: supported values: ''"
        elif subject.get("kind") not in ("User", "Group"):
            yield f"subjects[{index}].kind: Unsupported value: supported values: ServiceAccount, User, Group"


def _priority(obj: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(obj.get("value"), int) and obj["value"] > Decimal(1_000_000_000):
        yield "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"


_RULES: dict[str, Callable[[Mapping[str, Any]], Iterator[str]]] = {
    "apps/v1/Deployment": _workload(("Always",)),
    "apps/v1/DaemonSet": _workload(("Always",)),
    "apps/v1/StatefulSet": _workload(("Always",)),
    "apps/v1/ReplicaSet": _workload(("Always",)),
    "batch/v1/Job": _job,
    "batch/v1/CronJob": _cron_job,
    "v1/Pod": _pod,
    "v1/ConfigMap": _config_map,
    "v1/Secret": _secret,
    "v1/Service": _service,
    "apiextensions.k8s.io/v1/CustomResourceDefinition": _definition,
    "policy/v1/PodDisruptionBudget": _budget,
    "rbac.authorization.k8s.io/v1/Role": _role,
    "rbac.authorization.k8s.io/v1/ClusterRole": _role,
    "rbac.authorization.k8s.io/v1/RoleBinding": _binding,
    "rbac.authorization.k8s.io/v1/ClusterRoleBinding": _binding,
    "scheduling.k8s.io/v1/PriorityClass": _priority,
}
