"""The work of EtcdBootstrap: start the cluster's etcd on one control plane, exactly once in the cluster's life.

A second etcd would be a second cluster under the same name. So before it is asked for, every control plane is looked
at: where any of them has run etcd already, the cluster is born, however its first bootstrap ended here, and is taken as
it is. The Talos provider's own resource asks again and again instead, until its time is over, when the answer to a
bootstrap that worked was lost (siderolabs/terraform-provider-talos talos_machine_bootstrap_resource.go).
"""

from collections.abc import Sequence
from dataclasses import replace

from pulumi.dynamic import DiffResult

from . import life_props
from .cluster_work import PAUSE, Cluster, Etcd, look_at_etcd
from .life_props import Properties
from .maintenance_watch import MaintenanceWatch
from .talos_calls import Machine, NotOfThisCluster, TalosError, Unreachable
from .work_provider import WorkError

SECONDS = 1200.0
"""Servers take their time to install and to boot."""


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    return life_props.check_machine(news)


def diff(_olds: Properties, _news: Properties) -> DiffResult:
    """Nothing that happens to the list of members or to certificates later starts a cluster again."""
    return DiffResult(changes=False, replaces=[])


def create(props: Properties) -> tuple[str, Properties]:
    """Start the cluster, or find that it was started."""
    with life_props.cluster_of(props) as cluster:
        start(cluster, Machine.of(props["first"]))
    return "etcd", props


def read(props: Properties) -> Properties:
    """Return the record: a refresh touches no machine."""
    return props


def update(olds: Properties, _news: Properties) -> Properties:
    """Keep the record."""
    return olds


def delete(_props: Properties) -> None:
    """Do nothing: etcd goes with its machines."""


def start(cluster: Cluster, first: Machine, seconds: float = SECONDS) -> None:
    """Start etcd on ``first``, unless any member has it already; return when etcd works."""
    end, shown, asked = cluster.clock() + seconds, "", False
    watch = MaintenanceWatch(cluster)
    while True:
        etcd = look_at_etcd(cluster)
        if etcd.voters:
            if not asked:
                cluster.say("etcd runs already: the cluster was started before, and is taken as it is")
            return
        problem = etcd.problem
        if not etcd.born:
            starter = _starter(cluster, first)
            problem, again = _ask(cluster, starter)
            watch.look([starter] if problem and not again and cluster.talos.in_maintenance(starter) else [])
            asked = asked or not problem or again
        if cluster.clock() >= end:
            raise WorkError(
                f"the cluster was not started within {seconds / 60:.0f} minutes: {problem or 'etcd is not up yet'}. "
                "Next: look at the console of the machines, and run `pulumi up` again: it goes on from here"
            )
        if problem and problem != shown:
            shown = problem
            cluster.say(problem)
        cluster.sleep(PAUSE)


def _ask(cluster: Cluster, machine: Machine) -> tuple[str, bool]:
    """Ask a machine to start etcd; return why it did not, and whether it may have."""
    try:
        cluster.talos.bootstrap(machine)
    except NotOfThisCluster:
        return f"{machine.name} has not taken its configuration yet", False
    except Unreachable as error:
        # Its answer may have been lost: the next look tells.
        return f"{machine.name} does not answer: {error}", True
    except TalosError as error:
        # gRPC's own codes, as talosctl prints them (siderolabs/talos v1alpha1_server.go, Bootstrap).
        if "code = AlreadyExists" in str(error):
            return f"{machine.name} has started etcd, which is not up yet", True
        if "code = FailedPrecondition" in str(error):
            return f"{machine.name} is not ready for it yet: {error}", False
        raise
    cluster.say(f"etcd is started on {machine.name}")
    return "", True


def _starter(cluster: Cluster, first: Machine) -> Machine:
    """Return the machine that starts etcd: the recorded one, as long as it is a member.

    Raises WorkError when it is gone from the list and not every other member is known never to have started.
    """
    known = next((member for member in cluster.members if member.address == first.address), None)
    if known is not None:
        return known
    silent = _silent(cluster, cluster.members)
    if silent:
        raise WorkError(
            f"{first.name}, which was to start the cluster, is no control plane any more, and {', '.join(silent)} does "
            "not answer, so it cannot be told whether the cluster runs already. Next: bring it up, or put "
            f"{first.name} back into the list, and run `pulumi up` again"
        )
    old = Etcd(born=False)
    if not _silent(cluster, [first]):
        old = look_at_etcd(replace(cluster, members=[first]))
    if old.voters or old.problem:
        raise WorkError(
            f"{first.name} has started the cluster and is no control plane any more. Next: put it back into the list, "
            "run `pulumi up`, then remove it"
        )
    return sorted(cluster.members, key=lambda member: member.name)[0]


def _silent(cluster: Cluster, machines: Sequence[Machine]) -> list[str]:
    silent = []
    for machine in machines:
        try:
            cluster.talos.version(machine)
        except NotOfThisCluster:
            if not cluster.talos.in_maintenance(machine):
                silent.append(machine.name)
        except TalosError:
            silent.append(machine.name)
    return silent
