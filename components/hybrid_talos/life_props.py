"""From the properties of a resource to the cluster that its work is about."""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pulumi.dynamic import DiffResult

from . import etcd_snapshot
from .cluster_lock import cluster_lock
from .cluster_work import Cluster, Limits
from .engine_log import engine_sender, note
from .kubernetes_nodes import KubernetesNodes, nodes_of
from .talos_calls import Machine, TalosError
from .talosctl_api import TalosctlApi
from .talosctl_run import check_kubernetes, find_talosctl
from .work_provider import WorkError, is_unknown

Properties = dict[str, Any]

CREDENTIALS = ("caCertificate", "clientCertificate", "clientKey")


@contextmanager
def cluster_of(props: Properties, *, alone: bool = True) -> Iterator[Cluster]:
    """Yield the cluster of a resource, and hold its lock; not ``alone``, only that of the resource's machine."""
    credentials = {key: str(props["client_configuration"][key]) for key in CREDENTIALS}
    members = [Machine.of(member) for member in props.get("members") or ()]
    say = engine_sender()
    owner = _oldest(credentials["caCertificate"]) + ("" if alone else f"/{props['name']}")
    with cluster_lock(owner, say) as lock:
        talos = TalosctlApi(credentials, members, lock=lock)
        limits = Limits()
        if props.get("health_minutes"):
            seconds = float(props["health_minutes"]) * 60
            lost = min(seconds, limits.lost)
            limits = replace(limits, gate=seconds, health=seconds, boot=max(seconds, limits.lost), lost=lost)
        target = props.get("snapshots")

        @contextmanager
        def nodes() -> Iterator[KubernetesNodes]:
            with nodes_of(_kubeconfig(talos, members), props.get("kubernetes_server")) as found:
                yield found

        def snapshot(machine: Machine) -> None:
            etcd_snapshot.take(talos, machine, etcd_snapshot.Target.of(target or {}))

        yield Cluster(talos, members, nodes, snapshot if target else None, say, _warn, limits)


def _oldest(authorities: str) -> str:
    """Return the first of some certificates (PEM in base64): the cluster's lock has one name amid a rotation too."""
    try:
        text = base64.b64decode(authorities).decode()
    except ValueError:
        return authorities
    return authorities if text.count(_END) < 2 else base64.b64encode(f"{text.split(_END)[0]}{_END}\n".encode()).decode()


_END = "-----END CERTIFICATE-----"


def _warn(line: str) -> None:
    note(line, warning=True)


def _kubeconfig(talos: TalosctlApi, members: Sequence[Machine]) -> str:
    last: TalosError | None = None
    for member in members:
        try:
            return talos.kubeconfig(member)
        except TalosError as error:
            last = error
    raise WorkError(f"no control plane gives out a kubeconfig: {last or 'none is known'}")


def drain_seconds(props: Properties) -> float:
    """Return how long pods may take to leave; without known control planes there is no way to move them."""
    return float(props.get("drain_minutes") or 0) * 60 if props.get("members") else 0


def check_machine(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs that all of these resources share."""
    problems: dict[str, str] = {}
    credentials = news.get("client_configuration")
    if not is_unknown(credentials):
        missing = [key for key in CREDENTIALS if key not in credentials] if isinstance(credentials, Mapping) else None
        if missing is None or missing:
            problems["client_configuration"] = f"must hold {', '.join(CREDENTIALS)}"
    return problems


def snapshot_problem(news: Properties) -> dict[str, str]:
    """Return why a risky step may not begin: no place for a snapshot is given, and none was waived."""
    if news.get("snapshots") or news.get("role") != "controlplane" or news.get("without_snapshot"):
        return {}
    return {
        "snapshots": "required before an upgrade: name a place and an age recipient that the snapshot of etcd is "
        "encrypted for (settings: cluster.snapshots), or do without one (cluster.upgrade.snapshot: false)"
    }


def tool_problem(kubernetes: str | None = None) -> str | None:
    """Return why the talosctl here cannot do an upgrade, or None.

    It upgrades to any Talos (siderolabs/talos `cmd/talosctl/cmd/talos/upgrade.go` looks at what runs, not at what
    comes), but only to the minors of ``kubernetes`` that it knows.
    """
    try:
        _, version = find_talosctl()
        if kubernetes is not None:
            check_kubernetes(version, kubernetes)
    except WorkError as error:
        return str(error)
    return None


def recorded(
    olds: Properties, news: Properties, *, ignored: Sequence[str] = (), replaces: Sequence[str] = ()
) -> DiffResult:
    """Return a diff in which every input counts, since `delete` and later runs have what was recorded alone."""
    keys = {key for key in (*olds, *news) if not key.startswith("__")} - set(ignored)
    differing = {key for key in keys if _differs(olds.get(key), news.get(key))}
    hit = [key for key in replaces if key in differing]
    return DiffResult(changes=bool(differing), replaces=hit, delete_before_replace=bool(hit))


def _differs(old: Any, new: Any) -> bool:
    if _has_unknown(new):
        return True
    # None and absent are one; numbers come back as floating point.
    return json.dumps(_plain(old), sort_keys=True) != json.dumps(_plain(new), sort_keys=True)


def _has_unknown(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_unknown(nested) for nested in value.values())
    if isinstance(value, list | tuple):
        return any(_has_unknown(nested) for nested in value)
    return is_unknown(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(nested) for key, nested in value.items() if nested is not None}
    if isinstance(value, list | tuple):
        return [_plain(nested) for nested in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
