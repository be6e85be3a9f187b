"""What the API server refuses in a pod's spec (kubernetes/kubernetes pkg/apis/core/validation/validation.go)."""

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_ENVIRONMENT = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))((?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?)")
_SUFFIXES = {
    "": Decimal(1),
    **{s: Decimal(10) ** p for s, p in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)},
    **{f"{s}i": Decimal(1024) ** (p + 1) for p, s in enumerate("KMGTPE")},
}
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_WHOLE = frozenset({"storage", "ephemeral-storage", "memory", "cpu"})


def quantity(value: Any) -> Decimal | None:
    """Return a resource quantity as a number, or None when it is none (kubernetes.io "Quantity")."""
    match = _QUANTITY.fullmatch(str(value))
    if match is None or isinstance(value, bool):
        return None
    number, suffix = match.groups()
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return Decimal(number) * Decimal(10) ** int(suffix[1:])
    return Decimal(number) * _SUFFIXES[suffix]


def containers(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a pod's containers, init containers first."""
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]


def pod_problems(spec: Mapping[str, Any], path: str, restart: tuple[str, ...]) -> Iterator[str]:
    """Return what is wrong with a pod's spec."""
    policy = spec.get("restartPolicy")
    if policy is not None and policy not in restart:
        yield f"{path}.restartPolicy: Unsupported value: {policy!r}: supported values: {', '.join(restart)}"
    if not spec.get("containers"):
        yield f"{path}.containers: Required value"
    volumes = [str(volume.get("name")) for volume in spec.get("volumes") or []]
    yield from _unique(volumes, f"{path}.volumes")
    yield from _unique([str(container.get("name")) for container in containers(spec)], f"{path}.containers")
    for listing in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(listing) or []):
            where = f"{path}.{listing}[{index}]"
            yield from _container(container, where, frozenset(volumes), spec.get("hostNetwork") is True)
    for index, toleration in enumerate(spec.get("tolerations") or []):
        yield from _toleration(toleration, f"{path}.tolerations[{index}]")
    for key, value in (spec.get("nodeSelector") or {}).items():
        if not isinstance(value, str):
            yield f"{path}.nodeSelector[{key}]: expected a string"
    yield from _affinity(spec.get("affinity") or {}, f"{path}.affinity")
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or []):
        if constraint.get("whenUnsatisfiable") not in ("DoNotSchedule", "ScheduleAnyway"):
            yield f"{path}.topologySpreadConstraints[{index}].whenUnsatisfiable: Unsupported value"


def _unique(names: Iterable[str], path: str) -> Iterator[str]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            yield f"{path}[{index}].name: Duplicate value: {name!r}"
        if len(name) > 63 or not _LABEL.fullmatch(name):
            yield f"{path}[{index}].name: Invalid value: {name!r}: must be a lowercase RFC 1123 label"
        seen.add(name)


def _container(container: Mapping[str, Any], path: str, volumes: frozenset[str], host: bool) -> Iterator[str]:
    if not container.get("image"):
        yield f"{path}.image: Required value"
    for listing in ("command", "args"):
        for index, word in enumerate(container.get(listing) or []):
            if not isinstance(word, str):
                yield f"{path}.{listing}[{index}]: expected a string"
    for index, variable in enumerate(container.get("env") or []):
        where = f"{path}.env[{index}]"
        if not _ENVIRONMENT.fullmatch(str(variable.get("name") or "")):
            yield f"{where}.name: Invalid value: an environment variable's name"
        if variable.get("value") is not None and variable.get("valueFrom") is not None:
            yield f"{where}.valueFrom: Invalid value: may not be specified when `value` is not empty"
        if variable.get("value") is not None and not isinstance(variable["value"], str):
            yield f"{where}.value: expected a string"
    for index, port in enumerate(container.get("ports") or []):
        yield from _port(port, f"{path}.ports[{index}]", host)
    for index, mount in enumerate(container.get("volumeMounts") or []):
        if mount.get("name") not in volumes:
            yield f"{path}.volumeMounts[{index}].name: Not found: {mount.get('name')!r}"
        if not mount.get("mountPath"):
            yield f"{path}.volumeMounts[{index}].mountPath: Required value"
    yield from _resources(container.get("resources") or {}, f"{path}.resources")


def _port(port: Mapping[str, Any], path: str, host: bool) -> Iterator[str]:
    number = port.get("containerPort")
    for field in ("containerPort", "hostPort"):
        if port.get(field) is not None and (not isinstance(port[field], int) or not 1 <= port[field] <= 65535):
            yield f"{path}.{field}: Invalid value: must be between 1 and 65535"
    if host and port.get("hostPort") not in (None, number):
        yield f"{path}.hostPort: Invalid value: must match `containerPort` when `hostNetwork` is true"
    name = port.get("name")
    if name is not None and (len(name) > 15 or not _PORT_NAME.fullmatch(name)):
        yield f"{path}.name: Invalid value: {name!r}: at most 15 lowercase letters, digits and '-', one a letter"
    if port.get("protocol") not in (None, "TCP", "UDP", "SCTP"):
        yield f"{path}.protocol: Unsupported value: supported values: TCP, UDP, SCTP"


def _resources(resources: Mapping[str, Any], path: str) -> Iterator[str]:
    amounts: dict[str, dict[str, Decimal]] = {"requests": {}, "limits": {}}
    for listing, found in amounts.items():
        for name, value in (resources.get(listing) or {}).items():
            amount = quantity(value)
            if amount is None:
                yield f"{path}.{listing}[{name}]: Invalid value: {value!r}: quantities must match a number and a suffix"
            elif amount < 0:
                yield f"{path}.{listing}[{name}]: Invalid value: must be greater than or equal to 0"
            elif "/" not in name and name not in _WHOLE and not name.startswith("hugepages-"):
                yield f"{path}.{listing}[{name}]: Invalid value: must be a standard resource type or fully qualified"
            else:
                found[name] = amount
    for name, limit in amounts["limits"].items():
        if amounts["requests"].get(name, limit) > limit:
            yield f"{path}.requests: Invalid value: must be less than or equal to {name} limit"


def _toleration(toleration: Mapping[str, Any], path: str) -> Iterator[str]:
    operator, effect = toleration.get("operator") or "Equal", toleration.get("effect")
    if operator not in ("Equal", "Exists"):
        yield f"{path}.operator: Unsupported value: supported values: Equal, Exists"
    if operator == "Exists" and toleration.get("value"):
        yield f"{path}.operator: Invalid value: value must be empty when `operator` is 'Exists'"
    if not toleration.get("key") and operator != "Exists":
        yield f"{path}.operator: Invalid value: operator must be Exists when `key` is empty"
    if effect and effect not in _EFFECTS:
        yield f"{path}.effect: Unsupported value: supported values: {', '.join(_EFFECTS)}"
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        yield f"{path}.effect: Invalid value: effect must be 'NoExecute' when `tolerationSeconds` is set"


def _affinity(affinity: Mapping[str, Any], path: str) -> Iterator[str]:
    node = affinity.get("nodeAffinity") or {}
    required = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None and not required.get("nodeSelectorTerms"):
        yield f"{path}.nodeAffinity.required…: Required value: must have at least one node selector term"
    terms = list((required or {}).get("nodeSelectorTerms") or [])
    terms += [
        item.get("preference") or {} for item in node.get("preferredDuringSchedulingIgnoredDuringExecution") or []
    ]
    for term in terms:
        for expression in term.get("matchExpressions") or []:
            operator, values = expression.get("operator"), expression.get("values")
            if operator not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"):
                yield f"{path}.nodeAffinity: Invalid value: {operator!r}: not a valid selector operator"
            elif operator in ("In", "NotIn") and not values:
                yield f"{path}.nodeAffinity: Required value: values must be given when `operator` is {operator!r}"
            elif operator in ("Exists", "DoesNotExist") and values:
                yield f"{path}.nodeAffinity: Forbidden: values may not be given when `operator` is {operator!r}"
