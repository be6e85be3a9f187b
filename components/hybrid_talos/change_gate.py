"""The gate before each change of a machine's configuration, which may reboot the machine.

The Talos provider's ConfigurationApply looks at no other machine, and returns before a reboot is over. So the gate is a
hook that the engine runs right before that update, each time, and never in a preview; a resource in front of it would
be passed once, and the change might come in a later run.
"""

from . import life_plan
from .cluster_work import Cluster, answers, held_up, look_at_etcd
from .talos_calls import Machine, NotOfThisCluster, TalosError
from .work_provider import WorkError


def first_gate(cluster: Cluster, machine: Machine) -> None:
    """Wait before a machine's first configuration, if it is not the first: what was applied may not be recorded.

    That is so when a run was killed in between. A machine that is no member of etcd takes nothing away.
    """
    if answers(cluster, machine) is False:
        return
    etcd = look_at_etcd(cluster)
    if etcd.born and life_plan.find(etcd.voters, machine.name, machine.address) is not None:
        gate(cluster, machine, control_plane=True, before=[], reboots=True)


def gate(cluster: Cluster, machine: Machine, *, control_plane: bool, before: list[Machine], reboots: bool) -> None:
    """Wait until a machine may be changed: etcd is whole, and the machines changed ``before`` it work again."""

    def problem() -> str | None:
        if control_plane:
            etcd = look_at_etcd(cluster)
            if not etcd.born:
                return None
            reason = etcd.problem or life_plan.whole_problem(etcd.voters, machine.address)
            if reason is None and reboots:
                reason = life_plan.count_problem(etcd.voters, machine.address, len(cluster.members))
                late = held_up(cluster, etcd) if reason else None
                if late is not None:
                    raise WorkError(
                        f"{machine.name} must not reboot now: {reason}, and {late.name} waits for its configuration. "
                        "Next: take this change of the configuration back, run `pulumi up` so that all control planes "
                        "join, then make it again"
                    )
            if reason:
                return reason
        return next((reason for other in before if (reason := _not_back(cluster, other))), None)

    cluster.wait(f"{machine.name} must not be changed now", cluster.limits.gate, problem)


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
