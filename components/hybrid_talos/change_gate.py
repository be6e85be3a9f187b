"""The gate before each change of a machine's configuration, which may reboot the machine.

The Talos provider's ConfigurationApply looks at no other machine, and returns before a reboot is over. So the gate is a
hook that the engine runs right before that update, each time, and never in a preview; a resource in front of it would
be passed once, and the change might come in a later run.
"""

from . import boot_configuration, life_plan
from .cluster_work import Cluster, Etcd, answers, held_up, look_at_etcd
from .talos_calls import Machine, NotOfThisCluster, TalosError
from .work_provider import WorkError


def first_gate(cluster: Cluster, machine: Machine, boot: str) -> None:
    """Wait before a machine's first configuration, if it is not the first: what was applied may not be recorded.

    That is so when a run was killed in between. A machine that is no member of etcd takes nothing away. ``boot`` is the
    digest of what needs a reboot in the configuration that comes.
    """

    def problem() -> str | None:
        if answers(cluster, machine) is False:
            return None
        etcd = look_at_etcd(cluster)
        if etcd.problem or (etcd.born and life_plan.find(etcd.voters, machine.name, machine.address) is None):
            return etcd.problem or None
        return _etcd_problem(cluster, machine, etcd, _reboots(cluster, machine, boot))

    cluster.wait(f"{machine.name} must not be configured now", cluster.limits.gate, problem)


def gate(cluster: Cluster, machine: Machine, *, control_plane: bool, before: list[Machine], reboots: bool) -> None:
    """Wait until a machine may be changed: etcd is whole, and the machines changed ``before`` it work again."""

    def problem() -> str | None:
        if control_plane:
            etcd = look_at_etcd(cluster)
            reason = etcd.problem or _etcd_problem(cluster, machine, etcd, reboots)
            if reason or not etcd.born:
                return reason
        return next((reason for other in before if (reason := _not_back(cluster, other))), None)

    cluster.wait(f"{machine.name} must not be changed now", cluster.limits.gate, problem)


def _etcd_problem(cluster: Cluster, machine: Machine, etcd: Etcd, reboots: bool) -> str | None:
    """Return why a control plane must not be changed; WorkError when no waiting will help."""
    if not etcd.born:
        # One that answers and has not started etcd takes nothing away.
        if machine.address in etcd.waiting:
            return None
        return f"{machine.name} does not answer, so it is not known whether it is a member of etcd"
    reason = life_plan.whole_problem(etcd.voters, machine.address)
    if reason or not reboots:
        return reason
    reason = life_plan.count_problem(etcd.voters, machine.address, len(cluster.members))
    late = held_up(cluster, etcd) if reason else None
    if late is not None:
        raise WorkError(
            f"{machine.name} must not reboot now: {reason}, and {late.name} waits for its configuration. "
            "Next: take this change of the configuration back, run `pulumi up` so that all control planes "
            "join, then make it again"
        )
    return reason


def _reboots(cluster: Cluster, machine: Machine, boot: str) -> bool:
    """Return whether a configuration whose digest is ``boot`` may reboot a machine that has one."""
    try:
        return boot_configuration.digests(cluster.talos.configuration(machine), []).boot != boot
    except TalosError:
        return True


def _not_back(cluster: Cluster, machine: Machine) -> str | None:
    try:
        status = cluster.talos.status(machine)
    except NotOfThisCluster:
        # Without a configuration it takes part in nothing.
        return None
    except TalosError as error:
        return f"{machine.name}, which was changed before it, does not answer ({error})"
    unmet = [f"{name}: {reason}" for name, reason in status.unmet if name != "nodeReady"]
    if status.stage == "running" and (status.ready or not unmet):
        return None
    return f"{machine.name}, which was changed before it, is not ready: stage {status.stage} {'; '.join(unmet)}"
