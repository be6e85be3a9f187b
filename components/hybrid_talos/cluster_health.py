"""The work of ClusterHealth: waiting until every machine is what it should be, and saying which one lacks what."""

from collections.abc import Sequence
from dataclasses import dataclass

from pulumi.dynamic import DiffResult

from . import life_plan, life_props, talos_upgrade
from .cluster_work import Cluster, Etcd, look_at_etcd
from .life_props import Properties
from .maintenance_watch import FellBack, MaintenanceWatch
from .talos_calls import Machine, NotOfThisCluster, TalosError
from .talos_upgrade import Target, Task
from .work_provider import WorkError

_WAITS = "waits for its configuration (maintenance mode)"
_MUST_RUN = ("apid", "kubelet")
_MUST_RUN_ON_CONTROL_PLANES = ("trustd", "etcd")


@dataclass(frozen=True)
class Wanted:
    """What machines should be."""

    machines: Sequence[Machine]
    target: Target
    control_planes: bool
    nodes_ready: bool
    """Whether their Nodes must be ready: not so where the pod network comes later."""
    drain_seconds: float = 0


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    return life_props.check_machine(news)


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Any change of machines, versions or configurations is waited for anew."""
    return life_props.recorded(olds, news)


def create(props: Properties) -> tuple[str, Properties]:
    """Wait until all is well."""
    _wait(props)
    return "cluster-health", props


def read(props: Properties) -> Properties:
    """Return the resource as it is: what is ill now was well once, and a refresh touches no machine."""
    return props


# What an update that changes only these means is nothing to wait for.
_RECORDED_ONLY = ("client_configuration", "snapshots", "drain_minutes", "health_minutes", "kubernetes_server")


def update(olds: Properties, news: Properties) -> Properties:
    """Wait until all is well again."""
    if life_props.recorded(olds, news, ignored=_RECORDED_ONLY).changes:
        _wait(news)
    return news


def delete(_props: Properties) -> None:
    """Do nothing."""


def _wait(props: Properties) -> None:
    control_planes = props["role"] == "controlplane"
    wanted = Wanted(
        [Machine.of(machine) for machine in props["machines"]],
        Target(str(props["version"]), str(props["installer_image"])),
        control_planes,
        bool(props["nodes_ready"]),
        life_props.drain_seconds(props),
    )
    with life_props.cluster_of(props, alone=True) as cluster:
        wait_until_healthy(cluster, wanted)


def wait_until_healthy(cluster: Cluster, wanted: Wanted) -> None:
    """Wait until all machines are what they should be, and bring those to their version that run another."""
    what = "control planes" if wanted.control_planes else "workers"

    watch = MaintenanceWatch(cluster)

    def ill() -> str | None:
        found = problems(cluster, wanted)
        watch.look(machine for machine in wanted.machines if f"{machine.name}: {_WAITS}" in found)
        return "; ".join(found) or None

    def wait() -> None:
        try:
            cluster.wait(f"health of the {what}", cluster.limits.health, ill)
        except FellBack:
            raise
        except WorkError as error:
            raise WorkError(
                f"{error}. Next: look at what is named with `talosctl -n <address> service` and `talosctl -n <address> "
                "dmesg`, then run `pulumi up` again: what was made stays, and it only waits anew"
            ) from None

    wait()
    if not wanted.target.version:
        return
    late = [machine for machine in wanted.machines if not talos_upgrade.runs(cluster, machine, wanted.target)]
    for machine in late:
        # Installed before with another version, or changed between a birth that broke off and its end.
        talos_upgrade.upgrade(cluster, Task(machine, wanted.target, wanted.control_planes, wanted.drain_seconds))
    if late:
        wait()


def problems(cluster: Cluster, wanted: Wanted) -> list[str]:
    """Return what each machine lacks, all machines together."""
    etcd = look_at_etcd(cluster) if wanted.control_planes else Etcd()
    found: list[str] = []
    if not etcd.born:
        found.append("etcd was not started on any control plane")
    elif etcd.problem:
        found.append(etcd.problem)
    for machine in wanted.machines:
        lacking = _lacks(cluster, machine, wanted, etcd)
        if lacking:
            found.append(f"{machine.name}: {', '.join(lacking)}")
    return found


def _lacks(cluster: Cluster, machine: Machine, wanted: Wanted, etcd: Etcd) -> list[str]:
    found: list[str] = []
    try:
        cluster.talos.version(machine)
        if wanted.control_planes and etcd.born and not etcd.problem:
            own = life_plan.find(etcd.voters, machine.name, machine.address)
            if own is None:
                found.append("is no member of etcd")
            elif own.learner:
                found.append("is a member of etcd that does not vote yet")
            elif not own.healthy:
                found.append(own.lacks)
        found += _services(cluster, machine, wanted)
        found += _conditions(cluster, machine, wanted)
        node = cluster.talos.node(machine)
        if node is None:
            found.append("has no Node in Kubernetes yet")
        elif wanted.nodes_ready and not node.ready:
            found.append("its Node is not ready")
    except NotOfThisCluster as error:
        waits = cluster.talos.in_maintenance(machine)
        found.append(_WAITS if waits else f"does not know us: {error}")
    except TalosError as error:
        found.append(f"its Talos API does not answer at {machine.endpoint} ({error})")
    return found


def _services(cluster: Cluster, machine: Machine, wanted: Wanted) -> list[str]:
    running = {service.id: service for service in cluster.talos.services(machine)}
    found: list[str] = []
    for id in (*_MUST_RUN, *(_MUST_RUN_ON_CONTROL_PLANES if wanted.control_planes else ())):
        service = running.get(id)
        if service is None:
            found.append(f"{id} does not run")
        elif service.state != "Running":
            found.append(f"{id} is {service.state}")
        elif service.health.lower() not in ("ok", "?", ""):
            found.append(f"{id} is not healthy")
    return found


def _conditions(cluster: Cluster, machine: Machine, wanted: Wanted) -> list[str]:
    status = cluster.talos.status(machine)
    if status.stage != "running":
        return [f"is {status.stage}"]
    if status.ready:
        return []
    # Of a Node that is not ready, and of services, more is said elsewhere.
    said = {"nodeReady", "services"}
    return [f"{name}: {reason}" for name, reason in status.unmet if name not in said]
