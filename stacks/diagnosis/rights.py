"""What an autoscaler must be allowed to do, and findings about what it may not."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hybrid_talos.autoscaler_manifests import Autoscaler, cluster_rules, namespaced_rules

from .facts import Running
from .finding import Finding, Level, few


class Right(NamedTuple):
    """Something that an account may be allowed to do."""

    verb: str
    group: str
    resource: str
    name: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        """Return it as people write it."""
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {kind}" + (f" {self.name}" if self.name else "")


_WAITED_FOR = ("list", "watch")


def needed(one: Running) -> list[Right]:
    """Return each right that the code of an autoscaler uses, in the cluster and in its own namespace."""
    # Names as its flags have them, which may be others than those that this library gives.
    shape = Autoscaler(one.lease, "", "", {}, {}, {}, priorities={"": 0} if one.priorities else {})
    renamed = {shape.status_map: one.status_map}
    found = [*_rights(cluster_rules(), "", {})]
    found += _rights(namespaced_rules(shape), one.namespace, renamed)
    return sorted(set(found))


def _rights(
    rules: Sequence[Mapping[str, Sequence[str]]], namespace: str, renamed: Mapping[str, str]
) -> Iterator[Right]:
    for rule in rules:
        for group in rule["api_groups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resource_names") or [""]:
                        yield Right(verb, group, resource, renamed.get(name, name), namespace)


def right_findings(one: Running, denied: Sequence[str] | None, pools: Sequence[str]) -> list[Finding]:
    """Return what an autoscaler that serves ``pools`` may not do; ``denied`` is None when nobody could be asked."""
    account = f"{one.namespace}/{one.account}"
    if denied is None:
        return []
    if not denied:
        return [
            Finding(Level.FINE, "rights", f"the account {account} may do all that the autoscaler does", pool=pool)
            for pool in pools
        ]
    # It waits for every cache before its first loop; what else it lacks fails when it is done.
    stops = any(text.startswith((*_WAITED_FOR, "create leases", "update leases", "get leases")) for text in denied)
    return [
        Finding(
            Level.STOPS if stops else Level.HINDERS,
            "rights",
            f"the account {account} may not: {few(sorted(denied), 5)}",
            "it waits for its caches or its lease for ever" if stops else "part of its work fails",
            "`pulumi up --refresh`: somebody changed its roles",
            pool,
        )
        for pool in pools
    ]
