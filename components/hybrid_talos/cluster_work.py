"""What all work on a running cluster has in common: its machines, a look at etcd, and waiting with a limit."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from .kubernetes_nodes import Nodes
from .life_plan import Voter, find
from .talos_calls import EtcdMember, Machine, NotOfThisCluster, Say, Talos, TalosError
from .work_provider import WorkError

PAUSE = 5.0
"""Seconds between two looks."""

_BEFORE_START = ("Initialized", "Waiting", "Preparing", "Starting")
"""States of the etcd service before it has ever run since the machine's boot: it waits for its cluster."""


@dataclass(frozen=True)
class Limits:
    """How many seconds things may take."""

    gate: float = 600
    """Until a cluster is healthy before it is touched."""
    boot: float = 900
    """Until a machine answers again."""
    upgrade: float = 1800
    """Until talosctl has upgraded a machine."""
    kubernetes: float = 5400
    """Until talosctl has upgraded Kubernetes."""
    health: float = 900
    """Until everything works after a change."""
    lost: float = 300
    """Until a machine that answers on no way counts as dead."""


@dataclass(frozen=True)
class Cluster:
    """One cluster, as work on it sees it."""

    talos: Talos
    members: Sequence[Machine]
    """The control planes that are known."""
    nodes: Callable[[], AbstractContextManager[Nodes]]
    """Opens the Kubernetes API, with credentials that a control plane gives out."""
    snapshot: Callable[[Machine], None] | None
    """Takes a snapshot from a member, or None when none is wanted."""
    say: Say
    """Shows progress, which is forgotten afterwards."""
    warn: Say
    """Shows what a person must know, which stays."""
    limits: Limits = field(default_factory=Limits)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def wait(self, what: str, seconds: float, problem: Callable[[], str | None]) -> None:
        """Wait until there is no problem any more; WorkError with the last one when time is over."""
        end, shown = self.clock() + seconds, ""
        while True:
            last = problem()
            if last is None:
                return
            if self.clock() >= end:
                raise WorkError(f"{what}: not within {seconds / 60:.0f} minutes: {last}")
            if last != shown:
                shown = last
                self.say(f"{what}: {last}")
            self.sleep(PAUSE)


@dataclass(frozen=True)
class Etcd:
    """etcd as its members show it."""

    voters: Sequence[Voter] = ()
    born: bool = True
    """False when no member has ever started: the cluster was not bootstrapped yet."""
    problem: str = ""
    """Why nothing is known of a cluster that was born: no quorum, or nobody answers."""
    waiting: frozenset[str] = frozenset()
    """With nobody born: addresses of those that answer and have not started etcd."""
    silent: frozenset[str] = frozenset()
    """With nobody born: addresses of those that do not answer, so that it is not certain."""

    def unborn_but(self, address: str) -> str | None:
        """Return why it is not certain that the cluster was never started, whatever the one at ``address`` says."""
        unknown = sorted(self.silent - {address})
        return f"{', '.join(unknown)} does not answer, and may have started etcd" if unknown else None


def look_at_etcd(cluster: Cluster) -> Etcd:
    """Return etcd's members and how each of them is."""
    silent: dict[str, str] = {}
    waiting: list[str] = []
    started: list[str] = []
    for machine in cluster.members:
        try:
            return Etcd([_voter(cluster, member) for member in cluster.talos.etcd_members(machine)])
        except NotOfThisCluster as error:
            if cluster.talos.in_maintenance(machine):
                waiting.append(machine.address)
            else:
                silent[machine.address] = f"{machine.name}: {error}"
        except TalosError as error:
            # etcd did not answer; the machine may.
            try:
                state = next((s.state for s in cluster.talos.services(machine) if s.id == "etcd"), "Initialized")
            except TalosError as later:
                silent[machine.address] = f"{machine.name}: {later}"
                continue
            if state in _BEFORE_START:
                waiting.append(machine.address)
            else:
                started.append(f"{machine.name}: {error}")
    if started:
        return Etcd(problem="etcd has no quorum: " + "; ".join([*started, *silent.values()]))
    if waiting:
        return Etcd(born=False, waiting=frozenset(waiting), silent=frozenset(silent))
    return Etcd(problem="no control plane answers: " + "; ".join(silent.values()))


def wait_for_etcd(cluster: Cluster, what: str, seconds: float, problem: Callable[[Etcd], str | None]) -> Etcd:
    """Wait until there is no problem with etcd any more, and return the look that showed it.

    What follows must go by that look: the next one may have met nobody who answered.
    """
    found: list[Etcd] = []

    def look() -> str | None:
        found.append(look_at_etcd(cluster))
        return found[-1].problem or problem(found[-1])

    cluster.wait(what, seconds, look)
    return found[-1]


def _voter(cluster: Cluster, member: EtcdMember) -> Voter:
    machine = next((m for m in cluster.members if m.address == member.address), None)
    if machine is None:
        machine = _stranger(member.name, member.address)
    if not member.name:
        lacks = "it was added to etcd and never started"
    else:
        try:
            lacks = cluster.talos.etcd_problem(machine)
        except TalosError as error:
            lacks = f"its etcd does not answer ({error})"
    return Voter(member.id, member.name, member.address, member.learner, not lacks, lacks)


def _stranger(name: str, address: str) -> Machine:
    """Return a machine that only etcd knows; it is reached through the others when not directly."""
    return Machine(name or address, address, address)


def strangers(cluster: Cluster, etcd: Etcd) -> list[Machine]:
    """Return the machines of etcd that are not known otherwise."""
    known = {machine.address for machine in cluster.members}
    return [_stranger(voter.name, voter.address) for voter in etcd.voters if voter.address not in known]


def healthy_member(cluster: Cluster, etcd: Etcd, but: str = "") -> Machine:
    """Return a control plane whose etcd works, rather another one than that at the address ``but``."""
    well = {voter.address for voter in etcd.voters if voter.healthy and not voter.learner}
    known = [machine for machine in cluster.members if machine.address in well]
    if not known:
        raise WorkError("no control plane of the settings is a healthy member of etcd")
    return next((machine for machine in known if machine.address != but), known[0])


def held_up(cluster: Cluster, etcd: Etcd) -> Machine | None:
    """Return a control plane that can join only once its configuration comes, or None.

    In the order of changes that may be after the one that waits for it.
    """
    missing = [m for m in cluster.members if find(etcd.voters, m.name, m.address) is None]
    return next((machine for machine in missing if answers(cluster, machine) is False), None)


def take_snapshot(cluster: Cluster, etcd: Etcd) -> None:
    """Take a snapshot, when one is wanted."""
    if cluster.snapshot is not None:
        cluster.say("taking a snapshot of etcd")
        cluster.snapshot(healthy_member(cluster, etcd))


def answers(cluster: Cluster, machine: Machine) -> bool | None:
    """Return whether a machine answers as one of the cluster: False in maintenance mode, None if not at all."""
    try:
        cluster.talos.version(machine)
    except NotOfThisCluster:
        return False if cluster.talos.in_maintenance(machine) else None
    except TalosError:
        return None
    return True
