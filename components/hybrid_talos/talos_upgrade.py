"""The work of TalosUpgrade: one machine is brought to a version of Talos, and nothing else goes down meanwhile."""

import re
from contextlib import suppress
from dataclasses import dataclass

from pulumi.dynamic import DiffResult

from . import life_plan, life_props
from .cluster_work import Cluster, Etcd, answers, held_up, look_at_etcd, take_snapshot, wait_for_etcd
from .life_props import Properties
from .talos_calls import Machine, NodeStatus, TalosError, Unreachable
from .work_provider import WorkError, changed, is_unknown

_SCHEMATIC = re.compile(r"/([0-9a-f]{64})[:@]")


@dataclass(frozen=True)
class Target:
    """The Talos that a machine is to run."""

    version: str
    image: str
    """Installer image that brings it."""

    @property
    def schematic(self) -> str:
        """Return the Image Factory's schematic that the image's name shows; empty for other images."""
        found = _SCHEMATIC.search(self.image)
        return found[1] if found else ""


@dataclass(frozen=True)
class Task:
    """One machine to upgrade."""

    machine: Machine
    target: Target
    control_plane: bool
    drain_seconds: float
    """How long pods may take to leave; 0 lets them be."""
    forced: bool = False
    """Upgrade although the version is right: the image is another one, and the machine does not tell which it runs."""


def runs(cluster: Cluster, machine: Machine, target: Target) -> bool:
    """Return whether a machine runs what it should."""
    if not life_plan.same_version(cluster.talos.version(machine), target.version):
        return False
    return not target.schematic or cluster.talos.schematic(machine) == target.schematic


def upgrade(cluster: Cluster, task: Task) -> str:
    """Bring a machine to its version of Talos and wait until it works again; return what was done.

    Killed at any point, the next call goes on. WorkError when the machine must not go down, or does not come back.
    """
    reason = _nothing_to_do(cluster, task)
    if reason is not None:
        return reason
    machine, target = task.machine, task.target
    if not task.forced and runs(cluster, machine, target):
        _settle(cluster, task)
        return f"runs Talos {target.version}"
    if task.control_plane:
        etcd = look_at_etcd(cluster)
        if life_plan.count_problem(etcd.voters, machine.address, len(cluster.members)) and held_up(cluster, etcd):
            # What is missing joins after the upgrades, with its configuration; ClusterHealth then does this one.
            return "waits until all control planes have joined"
        take_snapshot(cluster, _gate(cluster, machine))
    _drain(cluster, task)
    if task.control_plane:
        # Pods took their time to leave.
        _gate_or_uncordon(cluster, task)
    before = cluster.talos.version(machine)
    cluster.say(f"{machine.name}: upgrading Talos {before} -> {target.version}")
    failure: TalosError | None = None
    try:
        cluster.talos.upgrade(machine, target.image, cluster.limits.upgrade, cluster.say)
    except TalosError as error:
        # The answer may be lost while the work goes on; the machine itself tells.
        failure = error
    _wait_for_version(cluster, task, before, failure)
    _settle(cluster, task)
    return f"upgraded Talos {before} -> {target.version}"


def _nothing_to_do(cluster: Cluster, task: Task) -> str | None:
    """Return why an upgrade is not for this machine now, or None; wait for a machine that is just rebooting."""
    found: list[str] = []

    def look() -> str | None:
        answer = answers(cluster, task.machine)
        if answer is False:
            found.append("waits for its configuration, which installs the version")
            return None
        if cluster.members and not look_at_etcd(cluster).born:
            found.append("the cluster was not started yet")
            return None
        return None if answer else f"{task.machine.name} does not answer at {task.machine.endpoint}"

    cluster.wait(f"upgrade of {task.machine.name}", cluster.limits.boot, look)
    return found[-1] if found else None


def _gate(cluster: Cluster, machine: Machine) -> Etcd:
    """Wait until a control plane may go down, and return etcd as it is then; WorkError when it may not."""

    def problem(etcd: Etcd) -> str | None:
        if not etcd.born:
            return etcd.unborn_but("")
        return life_plan.touch_problem(etcd.voters, machine.address, len(cluster.members))

    return wait_for_etcd(cluster, f"{machine.name} must not go down now", cluster.limits.gate, problem)


def _gate_or_uncordon(cluster: Cluster, task: Task) -> None:
    try:
        _gate(cluster, task.machine)
    except WorkError:
        _uncordon(cluster, task, quiet=True)
        raise


def _drain(cluster: Cluster, task: Task) -> None:
    if not task.drain_seconds:
        return
    with cluster.nodes() as nodes:
        nodes.cordon(task.machine.name)
        try:
            # Pods that nobody makes anew are started again by the kubelet after the reboot.
            nodes.drain(task.machine.name, task.drain_seconds, bare=False, say=cluster.say)
        except WorkError:
            with suppress(WorkError):
                nodes.uncordon(task.machine.name)
            raise


def _wait_for_version(cluster: Cluster, task: Task, before: str, failure: TalosError | None) -> None:
    machine, target = task.machine, task.target

    def problem() -> str | None:
        try:
            if runs(cluster, machine, target):
                return None
            return f"it runs Talos {cluster.talos.version(machine)}"
        except TalosError as error:
            return str(error)

    why = f"; talosctl said: {failure}" if failure is not None else ""
    # With an answer of talosctl the machine has booted, or never will; without, it may still be at it.
    seconds = cluster.limits.boot if isinstance(failure, Unreachable) else cluster.limits.lost
    try:
        cluster.wait(f"{machine.name} should run Talos {target.version} after its upgrade", seconds, problem)
    except WorkError as error:
        _uncordon(cluster, task, quiet=True)
        raise WorkError(
            f"{error}{why}. A machine that cannot boot a new Talos goes back to the one before ({before}). Next: look "
            f"at it with `talosctl -n {machine.address} dmesg`, then run `pulumi up` again: it goes on with this "
            "machine, and no other is touched before"
        ) from None


def _settle(cluster: Cluster, task: Task) -> None:
    """Wait until a machine works again, and let pods come back to it."""
    cluster.wait(f"{task.machine.name} after its upgrade", cluster.limits.health, lambda: _unsettled(cluster, task))
    _uncordon(cluster, task)


def _unsettled(cluster: Cluster, task: Task) -> str | None:
    machine = task.machine
    try:
        status = cluster.talos.status(machine)
        # Without a pod network no Node is ever ready, and that is not for an upgrade to wait for.
        unmet = [f"{name}: {reason}" for name, reason in status.unmet if name != "nodeReady"]
        if status.stage != "running" or (unmet and not status.ready):
            return f"stage {status.stage}" + (f", {'; '.join(unmet)}" if unmet else "")
        if task.control_plane:
            etcd = look_at_etcd(cluster)
            if etcd.problem:
                return etcd.problem
            own = life_plan.find(etcd.voters, machine.name, machine.address)
            if own is None:
                return "it is no member of etcd"
            return None if own.healthy and not own.learner else own.lacks or "its etcd does not vote yet"
    except TalosError as error:
        return str(error)
    return None


def _uncordon(cluster: Cluster, task: Task, *, quiet: bool = False) -> None:
    if not task.drain_seconds:
        return

    def problem() -> str | None:
        try:
            with cluster.nodes() as nodes:
                status: NodeStatus | None = nodes.status(task.machine.name)
                if status is not None and not status.ready and not quiet:
                    return "its Node is not ready"
                nodes.uncordon(task.machine.name)
        except WorkError as error:
            return str(error)
        return None

    if quiet:
        problem()
        return
    cluster.wait(f"Node of {task.machine.name}", cluster.limits.health, problem)


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    return life_props.check_machine(news)


def planned(olds: Properties, news: Properties) -> tuple[Properties, dict[str, str]]:
    """Return the inputs with the plan in words, and why a step is refused; both show in a preview."""
    news["plan"] = olds.get("plan", "")
    if not olds or any(is_unknown(news.get(key)) for key in ("version", "kubernetes_version")):
        return news, {}
    old, new = str(olds["version"]), str(news["version"])
    if old == new and not changed("installer_image", olds, news):
        return news, {}
    news["plan"] = _in_words(olds, news)
    if old != new:
        # Kubernetes is raised after Talos: what runs meanwhile is the old one.
        problem = life_plan.talos_step_problem(old, new, str(olds.get("kubernetes_version") or new))
        if problem:
            return news, {"version": problem}
    if (problem := life_props.tool_problem()) is not None:
        return news, {"version": problem}
    return news, life_props.snapshot_problem(news)


def _in_words(olds: Properties, news: Properties) -> str:
    if olds["version"] == news["version"]:
        what = f"Talos {news['version']} with another installer image"
    else:
        what = f"Talos {olds['version']} -> {news['version']}"
    after = f", after {news['after']}" if news.get("after") else ""
    drain = f", drained within {int(news['drain_minutes'])} minutes" if news.get("drain_minutes") else ""
    return f"{what}{after}{drain}"


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Any change is recorded; only another version or image is work."""
    return life_props.recorded(olds, news, ignored=("after", "plan"))


def create(props: Properties) -> tuple[str, Properties]:
    """Do nothing: a machine installs its version with its first configuration."""
    return f"talos-upgrade-{props['name']}", props


def read(props: Properties) -> Properties:
    """Return the resource as it is: a refresh touches no machine."""
    return props


def update(olds: Properties, news: Properties) -> Properties:
    """Bring the machine to its version."""
    if all(olds.get(key) == news.get(key) for key in ("version", "installer_image")):
        return news
    target = Target(str(news["version"]), str(news["installer_image"]))
    control_plane = news["role"] == "controlplane"
    with life_props.cluster_of(news, alone=control_plane) as cluster:
        upgrade(
            cluster,
            Task(
                Machine.of(news),
                target,
                control_plane,
                life_props.drain_seconds(news),
                forced=olds["version"] == news["version"] and not target.schematic,
            ),
        )
    return news


def delete(_props: Properties) -> None:
    """Do nothing: the machine's own resource removes it."""
