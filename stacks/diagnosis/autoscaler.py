"""Findings about the autoscalers themselves: whether they run, for whom, in which version, and what they say."""

from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from hybrid_talos.versions import check_pair, minor, text

from .facts import Cluster, Object, Pool, Running, name_of, seconds
from .finding import Finding, Level, few

STALE_SECONDS = 300
"""A status or lease that is older is of an autoscaler that does not work: its loop takes seconds."""


def served_by(pool: Pool, running: Sequence[Running]) -> Running | None:
    """Return the autoscaler that knows a pool's group, or one that may find it by its tags."""
    mine = [one for one in running if one.cloud == pool.cloud]
    named = [one for one in mine if _bounds(one, pool) is not None]
    return next(iter(named or [one for one in mine if one.discovers]), None)


def _bounds(one: Running, pool: Pool) -> tuple[int, int] | None:
    # Azure does not tell upper from lower case in names.
    return next((bounds for name, bounds in one.groups.items() if name.lower() == pool.group_name.lower()), None)


def autoscaler_findings(pool: Pool, running: Sequence[Running], cluster: Cluster) -> list[Finding]:
    """Return what there is to say of the autoscaler of one pool."""
    one = served_by(pool, running)
    if one is None:
        others = [other.name for other in running if other.cloud == pool.cloud]
        what = f"no autoscaler knows the group {pool.group_name}"
        return [
            Finding(
                Level.STOPS,
                "autoscaler",
                f"{what}: {few(others)} has other groups" if others else f"{what}: none runs for {pool.cloud}",
                "nobody changes the pool's size",
                "`pulumi up --refresh`, and see that the autoscaler's settings are there",
                pool.name,
            )
        ]
    found: list[Finding] = []

    def say(level: Level, topic: str, what: str, why: str = "", do: str = "") -> None:
        found.append(Finding(level, topic, what, why, do, pool.name))

    where = f"{one.namespace}/{one.name}"
    if one.ready < 1:
        say(
            Level.STOPS,
            "autoscaler",
            f"deployment {where} has {one.ready} of {one.wanted} pods ready",
            "nobody changes the pool's size",
            f"`kubectl -n {one.namespace} describe pods` and `kubectl -n {one.namespace} logs deployment/{one.name}`",
        )
    bounds = _bounds(one, pool)
    if bounds is not None and bounds != (pool.least, pool.most):
        say(
            Level.HINDERS,
            "bounds",
            f"{where} gives the group {bounds[0]} to {bounds[1]} machines, the pool {pool.least} to {pool.most}",
            "it goes by its own",
            "`pulumi up --refresh`",
        )
    if one.version and cluster.version and minor(_short(one.version)) != minor(_short(cluster.version)):
        say(
            Level.HINDERS,
            "versions",
            f"{where} is {one.version}, and Kubernetes is {cluster.version}",
            "it simulates the scheduler of its own version, and waits for kinds that may not be there",
            f"give it an image of {text(minor(_short(cluster.version)))}: `pulumi up` chooses it",
        )
    found += lease_findings(pool, one, cluster)
    found += status_findings(pool, one, cluster)
    if not any(finding.level in (Level.STOPS, Level.HINDERS) for finding in found):
        say(Level.FINE, "autoscaler", f"{where} {one.version} runs and serves the group")
    return found


def _short(version: str) -> str:
    # As the images of mirrors and clouds' own builds write it: v1.36.1-amd64, v1.36.3+k3s1.
    return ".".join(version.lstrip("v").replace("+", "-").partition("-")[0].split(".")[:3])


def lease_findings(pool: Pool, one: Running, cluster: Cluster) -> list[Finding]:
    """Return whether the autoscaler leads."""
    if "leases" in cluster.unread:
        return []
    lease = _find(cluster.leases, one.namespace, one.lease)
    holder = str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")
    if lease is None or not holder:
        what, why = f"nobody holds the lease {one.namespace}/{one.lease}", "only its holder works"
    else:
        age = cluster.now - (seconds(lease["spec"].get("renewTime")) or 0.0)
        if age <= STALE_SECONDS:
            return [Finding(Level.FINE, "lease", f"{holder} holds the lease {one.lease}", pool=pool.name)]
        what = f"the lease {one.namespace}/{one.lease} of {holder} was last renewed {_ago(age)} ago"
        why = "its holder does not work"
    do = f"`kubectl -n {one.namespace} logs deployment/{one.name}`"
    return [Finding(Level.STOPS, "lease", what, why, do, pool.name)]


def status_findings(pool: Pool, one: Running, cluster: Cluster) -> list[Finding]:
    """Return what the autoscaler's own status says of a pool."""
    where = f"{one.namespace}/{one.status_map}"
    logs = f"`kubectl -n {one.namespace} logs deployment/{one.name}`"

    def say(level: Level, what: str, why: str = "", do: str = "") -> Finding:
        return Finding(level, "status", what, why, do, pool.name)

    if "configmaps" in cluster.unread:
        return []
    held = _find(cluster.maps, one.namespace, one.status_map)
    if held is None:
        return [say(Level.STOPS, f"there is no ConfigMap {where}", "it was never through its first loop", logs)]
    try:
        status = yaml.safe_load((held.get("data") or {})["status"])
        word = str(status["autoscalerStatus"])
        clusterwide, groups = status.get("clusterWide") or {}, status.get("nodeGroups") or []
        group = next((item for item in groups if str(item["name"]).lower() == pool.group_name.lower()), None)
        written = _written(status, held)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError):
        return [
            say(
                Level.UNKNOWN,
                f"the status in {where} is of a form that is not known",
                "it may stop the pool",
                "read it",
            )
        ]
    found: list[Finding] = []
    if written is not None and cluster.now - written > STALE_SECONDS:
        found.append(
            say(
                Level.STOPS,
                f"the status in {where} was written {_ago(cluster.now - written)} ago",
                "its loop stands",
                logs,
            )
        )
    if word != "Running":
        found.append(say(Level.STOPS, f"the autoscaler says that it is {word}", "it makes no machines", logs))
    if _state(clusterwide.get("health")) == "Unhealthy":
        found.append(
            say(
                Level.STOPS,
                "the autoscaler takes the cluster for unhealthy",
                "too many nodes are unready or never joined, and it stops altogether",
                "repair or delete those nodes",
            )
        )
    if group is None:
        if word == "Running":
            found.append(
                say(Level.STOPS, f"its status does not know the group {pool.group_name}", "it does not change it", logs)
            )
        return found
    up = group.get("scaleUp") or {}
    if _state(up) == "Backoff":
        info = up.get("backoffInfo") or {}
        reason = " ".join(str(info.get(key) or "") for key in ("errorCode", "errorMessage")).strip()
        found.append(
            say(
                Level.STOPS,
                "the group is held back after a failed scale-up" + (f": {reason[:200]}" if reason else ""),
                "nothing is tried for some minutes, longer each time",
                "quota, stock and price are the usual reasons: read the group's activities in the cloud",
            )
        )
    if _state(group.get("health")) == "Unhealthy":
        found.append(
            say(
                Level.STOPS,
                "the autoscaler takes the group for unhealthy",
                "machines that it made did not become ready nodes",
                "look at its machines that are no nodes, and at unready ones",
            )
        )
    if not found:
        found.append(say(Level.FINE, f"healthy; scale-up: {_state(up) or 'nothing yet'}"))
    return found


def version_findings(cluster: Cluster, talos: Sequence[str]) -> list[Finding]:
    """Return whether the versions of Talos on the machines run that Kubernetes."""
    found: list[Finding] = []
    for version in sorted(set(talos)):
        try:
            problem = check_pair(version, _short(cluster.version))
        except ValueError:
            continue
        if problem:
            found.append(
                Finding(
                    Level.HINDERS,
                    "versions",
                    problem,
                    "new machines may not join",
                    "upgrade the one that is behind (docs/upgrades.md)",
                )
            )
    if len({minor(version) for version in talos if _is_version(version)}) > 1:
        found.append(
            Finding(
                Level.HINDERS,
                "versions",
                f"machines have different versions of Talos: {few(sorted(set(talos)), 6)}",
                "an upgrade has not ended",
                "go on with it (docs/upgrades.md)",
            )
        )
    return found


def talos_versions(nodes: Sequence[Object]) -> list[str]:
    """Return the versions of Talos that Nodes say they run."""
    images = [str(((node.get("status") or {}).get("nodeInfo") or {}).get("osImage") or "") for node in nodes]
    return [image.partition("(")[2].rstrip(")").lstrip("v") for image in images if image.startswith("Talos (")]


def _is_version(version: str) -> bool:
    try:
        minor(version)
    except ValueError:
        return False
    return True


def _find(items: Sequence[Object], namespace: str, name: str) -> Object | None:
    return next((one for one in items if name_of(one) == name and one["metadata"].get("namespace") == namespace), None)


def _state(part: Any) -> str:
    return str(part.get("status") or "") if isinstance(part, Mapping) else ""


def _written(status: Mapping[str, Any], held: Object) -> float | None:
    """Return when a status was written; None when it does not say."""
    stamp = (held["metadata"].get("annotations") or {}).get("cluster-autoscaler.kubernetes.io/last-updated")
    for form in (stamp, status.get("time")):
        # Go writes `2026-12-02 22:40:08.12 +0000 UTC`.
        words = str(form or "").split()
        if len(words) >= 2:
            return seconds(f"{words[0]}T{words[1].partition('.')[0]}Z")
    return None


def _ago(age: float) -> str:
    if age > 10 * 365 * 86400:
        return "longer than is known"
    return f"{age / 60:.0f} minutes" if age < 7200 else f"{age / 3600:.0f} hours"
