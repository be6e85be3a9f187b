"""Findings about pods that wait: whether a machine of any pool, by its template, would take them."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from hybrid_talos.azure_sizes import azure_sizes
from kubernetes.utils.quantity import parse_quantity

from .facts import Object, Pool
from .finding import Finding, Level, few

_HARD = ("NoSchedule", "NoExecute")


def unschedulable(pods: Sequence[Object]) -> list[Object]:
    """Return the pods that the scheduler has found no node for."""
    return [pod for pod in pods if _phase(pod) == "Pending" and _reason(pod) == "Unschedulable"]


def pending_findings(pods: Sequence[Object], pools: Mapping[str, Pool], full: Sequence[str]) -> list[Finding]:
    """Return what waits and why; ``full`` are the names of pools that take no more machines."""
    waiting = unschedulable(pods)
    if not waiting:
        return [Finding(Level.FINE, "pending", "no pod waits for a node")]
    found: list[Finding] = []
    for pod in waiting:
        name = f"{pod['metadata'].get('namespace')}/{pod['metadata']['name']}"
        reasons = {key: misfit(pod, pool) for key, pool in sorted(pools.items())}
        fits = sorted(key for key, reason in reasons.items() if reason is None)
        free = [key for key in fits if key not in full]
        if free:
            found.append(
                Finding(Level.FINE, "pending", f"pod {name} waits, and a machine of {few(free)} would take it")
            )
        elif fits:
            found.append(
                Finding(
                    Level.STOPS,
                    "pending",
                    f"pod {name} waits, and {few(fits)} would take it but cannot grow",
                    "no machine comes for it",
                    "see what stops that pool",
                )
            )
        else:
            said = "; ".join(f"{key}: {reason}" for key, reason in reasons.items())
            found.append(
                Finding(
                    Level.STOPS,
                    "pending",
                    f"pod {name} waits, and no pool would take it ({said or 'there are no pools'})",
                    "no machine comes for it",
                    "change the pod, or a pool's labels, taints or size",
                )
            )
    return found


def misfit(pod: Object, pool: Pool) -> str | None:
    """Return why an empty machine of a pool would not take a pod, or None. Volumes and other pods are not looked at."""
    spec = pod.get("spec") or {}
    for key, value in sorted((spec.get("nodeSelector") or {}).items()):
        if _label(pool, key) != value:
            return f"it has not the label {key}={value}"
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if affinity and not any(_matches(term, pool) for term in affinity.get("nodeSelectorTerms") or ()):
        return "the pod's node affinity asks for something else"
    for text in pool.taints:
        key, _, rest = text.partition("=")
        value, _, effect = rest.rpartition(":")
        if effect in _HARD and not _tolerated(key, value, effect, spec.get("tolerations") or ()):
            return f"the pod does not tolerate {text}"
    return _too_large(spec, pool)


def _label(pool: Pool, key: str) -> str | None:
    known = {"kubernetes.io/os": "linux", **pool.labels}
    if key == "kubernetes.io/arch" and key not in known:
        size = azure_sizes().get(pool.sizes[0]) if pool.sizes else None
        return size.arch.value if size is not None else "amd64"
    if key == "node.kubernetes.io/instance-type" and len(pool.sizes) == 1:
        return pool.sizes[0]
    return known.get(key)


_OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, wanted: value in wanted,
    "NotIn": lambda value, wanted: value not in wanted,
    "Exists": lambda value, _wanted: value is not None,
    "DoesNotExist": lambda value, _wanted: value is None,
}


def _matches(term: Mapping[str, Any], pool: Pool) -> bool:
    # Fields name one node, and numbers are compared with labels of nodes: neither is of any pool's template.
    expressions = term.get("matchExpressions") or ()
    if term.get("matchFields") or not expressions:
        return False
    return all(
        one["operator"] in _OPERATORS and _OPERATORS[one["operator"]](_label(pool, one["key"]), one.get("values") or ())
        for one in expressions
    )


def _tolerated(key: str, value: str, effect: str, tolerations: Sequence[Mapping[str, Any]]) -> bool:
    return any(
        one.get("effect") in (None, "", effect)
        and (
            (one.get("operator") == "Exists" and one.get("key") in (None, "", key))
            or (one.get("operator", "Equal") == "Equal" and one.get("key") == key and (one.get("value") or "") == value)
        )
        for one in tolerations
    )


def _too_large(spec: Mapping[str, Any], pool: Pool) -> str | None:
    size = azure_sizes().get(pool.sizes[0]) if pool.sizes else None
    if size is None:
        return None
    for resource, has in (("cpu", Decimal(size.cpus)), ("memory", Decimal(size.memory_gib) * 2**30)):
        asked = _asked(spec, resource)
        if asked is not None and asked > has:
            shown = f"{asked.normalize():f} cores" if resource == "cpu" else f"{asked / 2**30:.1f} GiB"
            return f"the pod asks for {shown}, more than a whole {size.name} has"
    return None


def _asked(spec: Mapping[str, Any], resource: str) -> Decimal | None:
    try:
        return sum(
            (
                Decimal(parse_quantity(asked))
                for container in spec.get("containers") or ()
                if (asked := ((container.get("resources") or {}).get("requests") or {}).get(resource)) is not None
            ),
            Decimal(0),
        )
    except (ValueError, InvalidOperation):
        return None


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def _reason(pod: Object) -> str:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((str(one.get("reason") or "") for one in conditions if one.get("type") == "PodScheduled"), "")
