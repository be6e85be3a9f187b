"""The work of Member: a machine's place in the cluster, and how it is taken out of it.

Inputs that change are recorded, since a removal has nothing but what was recorded; and they tell in a preview whether a
machine reboots.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from pulumi.dynamic import DiffResult

from . import life_plan, life_props
from .cluster_work import (
    Cluster,
    Etcd,
    answers,
    healthy_member,
    held_up,
    strangers,
    take_snapshot,
    wait_for_etcd,
)
from .life_props import Properties
from .talos_calls import Machine, TalosError
from .work_provider import WorkError, changed, is_unknown

_SILENT = 3
"""Looks without an answer after which a machine that was told to reset has gone down."""


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    return life_props.check_machine(news)


def planned(olds: Properties, news: Properties) -> tuple[Properties, dict[str, str]]:
    """Return the inputs with what the next configuration means for the machine, which shows in a preview."""
    news["plan"] = olds.get("plan", "")
    if not olds or is_unknown(news.get("configuration")) or not changed("configuration", olds, news):
        return news, {}
    if olds.get("address") != news.get("address"):
        news["plan"] = f"another machine at {news['address']}; the one at {olds['address']} is removed first"
    elif changed("boot_configuration", olds, news):
        news["plan"] = "another configuration, with a reboot of the machine"
    else:
        news["plan"] = "another configuration, without a reboot"
    return news, {}


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Any change is recorded; another address is another machine, and the old one goes first."""
    return life_props.recorded(olds, news, ignored=("plan",), replaces=("address",))


def create(props: Properties) -> tuple[str, Properties]:
    """Do nothing: a machine that has no configuration yet takes nothing away when it gets one."""
    return f"member-{props['name']}-{props['address']}", props


def read(props: Properties) -> Properties:
    """Return the resource as it is: a refresh touches no machine."""
    return props


def update(_olds: Properties, news: Properties) -> Properties:
    """Record what a later removal needs to know; the gate of a change stands before the change itself (change_gate)."""
    return news


def delete(props: Properties) -> None:
    """Take the machine out of the cluster and wipe it."""
    with life_props.cluster_of(props, alone=_controls(props)) as cluster:
        if props.get("teardown"):
            wipe(cluster, Machine.of(props), teardown=True)
        elif _controls(props):
            remove_control_plane(cluster, Machine.of(props), life_props.drain_seconds(props))
        else:
            remove_worker(cluster, Machine.of(props), life_props.drain_seconds(props))


def _controls(props: Properties) -> bool:
    return bool(props.get("role") == "controlplane")


def remove_control_plane(cluster: Cluster, machine: Machine, drain_seconds: float) -> None:
    """Let a control plane leave etcd, wipe it and forget its Node; WorkError when the rest would not have quorum."""
    answer = _settled_answer(cluster, machine)
    # Also of one in maintenance mode: who wiped it may have left its member behind.
    left = [_leave(cluster, machine, alive=bool(answer), drain_seconds=drain_seconds)]
    if answer:

        def leave_again() -> bool:
            # One that has just left does not join again before its next boot; later, nothing is certain.
            return left.pop() if left else _leave(cluster, machine, alive=True, drain_seconds=0)

        wipe(cluster, machine, leave=leave_again)
        # It may have been added to etcd without having started there.
        _leave(cluster, machine, alive=False, drain_seconds=0)
    elif answer is None:
        _warn_of_ghost(cluster, machine)
    _forget(cluster, machine)


def remove_worker(cluster: Cluster, machine: Machine, drain_seconds: float) -> None:
    """Drain a worker, wipe it and forget its Node."""
    answer = _settled_answer(cluster, machine)
    if answer:
        if drain_seconds:
            with cluster.nodes() as nodes:
                nodes.cordon(machine.name)
                # What runs here is lost with the machine, so all of it is asked to end.
                nodes.drain(machine.name, drain_seconds, bare=True, say=cluster.say)
        wipe(cluster, machine)
    elif answer is None:
        _warn_of_ghost(cluster, machine)
    _forget(cluster, machine)


def _settled_answer(cluster: Cluster, machine: Machine) -> bool | None:
    """Return whether a machine answers; one that does not is asked for a while, since it may be rebooting."""
    found: list[bool | None] = []

    def look() -> str | None:
        found.append(answers(cluster, machine))
        return None if found[-1] is not None else f"it does not answer at {machine.endpoint}"

    with suppress(WorkError):
        cluster.wait(f"removal of {machine.name}", cluster.limits.lost, look)
    return found[-1]


def _leave(cluster: Cluster, machine: Machine, *, alive: bool, drain_seconds: float) -> bool:
    """Take a machine's member out of etcd, if it has one and the others can do without; return whether it had one."""

    def problem(etcd: Etcd) -> str | None:
        if not etcd.born:
            return etcd.unborn_but(machine.address)
        own = life_plan.find(etcd.voters, machine.name, machine.address)
        reason = life_plan.removal_problem(etcd.voters, own, len(cluster.members)) if own is not None else None
        late = held_up(cluster, etcd) if reason else None
        if late is not None:
            raise WorkError(
                f"{machine.name} must not be removed now: {reason}, and {late.name} waits for its configuration. Next: "
                "take this change of the control planes back, run `pulumi up` so that all of them join, then make it "
                "again"
            )
        return reason

    etcd = wait_for_etcd(cluster, f"{machine.name} must not be removed now", cluster.limits.gate, problem)
    # What is recorded with a machine that goes may be old: others have come since, and are reached through it.
    cluster = replace(cluster, members=[*cluster.members, *strangers(cluster, etcd)])
    own = life_plan.find(etcd.voters, machine.name, machine.address)
    if own is None:
        return False
    if own.healthy and not alive:
        raise WorkError(
            f"{machine.name} does not answer at {machine.endpoint}, but its etcd works: it is not dead, only not "
            "reached from here. Next: make its Talos API reachable, then run `pulumi up` again"
        )
    take_snapshot(cluster, etcd)
    if own.healthy and drain_seconds:
        with cluster.nodes() as nodes:
            nodes.cordon(machine.name)
            nodes.drain(machine.name, drain_seconds, bare=True, say=cluster.say)
    cluster.say(f"{machine.name}: leaving etcd")
    failure: TalosError | None = None
    try:
        if own.healthy:
            cluster.talos.leave_etcd(machine)
        else:
            # It cannot leave by itself.
            cluster.talos.remove_etcd_member(healthy_member(cluster, etcd, machine.address), own.id)
    except TalosError as error:
        # The answer may be lost while the work is done; etcd itself tells.
        failure = error
    why = f"; talosctl said: {failure}" if failure else ""

    def still_there(now: Etcd) -> str | None:
        there = life_plan.find(now.voters, machine.name, machine.address) is not None
        return f"etcd still lists it{why}" if there else None

    wait_for_etcd(cluster, f"{machine.name} should leave etcd", cluster.limits.lost, still_there)
    return True


def wipe(
    cluster: Cluster, machine: Machine, *, leave: Callable[[], bool] | None = None, teardown: bool = False
) -> None:
    """Reset a machine into maintenance mode and wait until it has gone down for that; lost answers are asked anew.

    ``leave`` is called before each reset of a control plane, takes its member out of etcd and returns whether there was
    one. With none, the machine may join between that look and its reset, so it is asked to leave by itself on its way
    down; when it cannot, that ends with the machine running on, and it is looked at and reset once more.
    """
    cluster.say(f"{machine.name}: resetting")
    accepted: float | None = None
    silent, graceful = 0, leave is not None

    def problem() -> str | None:
        nonlocal accepted, silent, graceful
        answer = answers(cluster, machine)
        if answer is False:
            return None
        if answer is None:
            silent += 1
            # It may come back at an address that is not known here, so its silence must do.
            return None if accepted is not None and silent >= _SILENT else f"it does not answer at {machine.endpoint}"
        silent = 0
        if accepted is not None:
            if not graceful or cluster.clock() < accepted + cluster.limits.gate:
                return "it still runs"
            graceful = False
        left = leave is not None and leave()
        try:
            cluster.talos.reset(machine, graceful=graceful and not left)
        except TalosError as error:
            return str(error)
        accepted = cluster.clock()
        return "it still runs"

    try:
        cluster.wait(f"{machine.name} should be reset", cluster.limits.boot, problem)
    except WorkError as error:
        step = "see that it runs and is reached, then run the command again"
        if teardown:
            step += (
                "; when it is gone for good, take it out of the state with `pulumi state delete` and the URN of this "
                "resource"
            )
        raise WorkError(f"{error}. Next: {step}") from None


def _warn_of_ghost(cluster: Cluster, machine: Machine) -> None:
    cluster.warn(
        f"{machine.name} at {machine.address} does not answer, so it was taken out of the cluster but not reset: wipe "
        "its disks before it is switched on in this network again"
    )


def _forget(cluster: Cluster, machine: Machine) -> None:
    """Delete a machine's Node, which a kubelet that is gone leaves behind, and which another of its name would take."""
    if not cluster.members:
        return

    def problem() -> str | None:
        try:
            with cluster.nodes() as nodes:
                nodes.delete(machine.name)
        except WorkError as error:
            return str(error)
        return None

    cluster.wait(f"{machine.name} is removed, but its Node is left", cluster.limits.lost, problem)
