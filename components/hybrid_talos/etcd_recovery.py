"""The way back: etcd is started anew from a snapshot, on control planes that have none.

Talos's own way (docs.siderolabs.com "Disaster recovery"): no control plane may have data of etcd, one of them is
bootstrapped from the snapshot, and the others join it. What can go wrong by hand is refused here: a second cluster
beside one that still lives, and a second bootstrap.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from .cluster_work import PAUSE, Cluster, Etcd, look_at_etcd
from .life_plan import quorum, whole_problem
from .recovery_record import Begun, RecoveryRecord
from .secret_file import secret_file
from .snapshot_key import PlainSnapshot
from .talos_calls import Machine, NotOfThisCluster, Service, TalosError, Unreachable
from .talosctl_run import Talosctl
from .work_provider import WorkError

UPLOAD_SECONDS = 1800.0
_SHORT = 60.0
_LOST_SECONDS = 30.0
"""How long a bootstrap whose answer was lost may take to show."""


class State(Enum):
    """What a control plane has of etcd."""

    MAINTENANCE = "waits for its configuration"
    EMPTY = "has no data of etcd"
    BUSY = "is just starting"
    FAILED = "could not start its etcd"
    DATA = "runs etcd with data"
    SILENT = "does not answer"


# siderolabs/talos internal/app/machined/pkg/system/services/etcd.go: with a configuration and without data the service
# stays in its preparation, where it waits for a bootstrap or for others to join.
_STATES = {
    "Preparing": State.EMPTY,
    "Initialized": State.BUSY,
    "Waiting": State.BUSY,
    "Starting": State.BUSY,
    "Failed": State.FAILED,
}


@dataclass(frozen=True)
class Order:
    """What is to be recovered, and what may be lost for it."""

    snapshot: PlainSnapshot
    onto: str = ""
    """Name of the control plane that begins; the first by name if empty."""
    gone: Collection[str] = ()
    """Names of control planes that are switched off for good."""
    discard: bool = False
    """Whether what control planes still have of etcd is wiped."""
    configurations: Mapping[str, str] | None = None
    """Machine configurations by address, for machines that wait for theirs."""


class Recovery:
    """One recovery of one cluster, whose lock is held."""

    def __init__(self, cluster: Cluster, talosctl: Talosctl, record: RecoveryRecord, order: Order) -> None:
        self._cluster = replace(cluster, members=[m for m in cluster.members if m.name not in order.gone])
        self._talosctl = talosctl
        self._record = record
        self._order = order
        unknown = sorted({*order.gone, *([order.onto] if order.onto else [])} - {m.name for m in cluster.members})
        if unknown:
            raise WorkError(
                f"{', '.join(unknown)}: no such control plane. Next: name them as they are called here: "
                f"{', '.join(sorted(m.name for m in cluster.members))}"
            )
        self._members = sorted(self._cluster.members, key=lambda m: m.name)
        if not self._members or order.onto in order.gone:
            raise WorkError("the control plane that begins cannot be one that is gone")

    def run(self) -> Sequence[str]:
        """Recover; return the names of etcd's members in the end.

        Raises:
            WorkError: something is against it, or it did not come to its end; the same call goes on from there.
        """
        begun = self._record.read()
        states = self._settled()
        first = self._first(begun, states)
        goal = Begun(self._order.snapshot.digest, first.address)
        if begun == goal and states[first] is State.DATA:
            self._cluster.say(
                f"an earlier run has started etcd on {first.name} from this snapshot: going on from there"
            )
        else:
            self._prepare(states)
            self._record.write(goal)
            self._start(first)
        names = self._joined()
        self._record.forget()
        return names

    def _first(self, begun: Begun | None, states: Mapping[Machine, State]) -> Machine:
        """Return the machine that begins: that of a run which was killed, as long as it has what that run gave it."""
        chosen = next((m for m in self._members if m.name == self._order.onto), self._members[0])
        before = next((m for m in self._members if begun is not None and m.address == begun.machine), None)
        if before is None or states[before] is not State.DATA:
            return chosen
        if self._order.onto and before != chosen:
            raise WorkError(
                f"an earlier run has started etcd on {before.name}. Next: run it again with --onto {before.name}"
            )
        return before

    def _settled(self) -> dict[Machine, State]:
        """Return what each control plane has of etcd, once none of them is just starting."""
        found: dict[Machine, State] = {}

        def problem() -> str | None:
            found.update({machine: self._look(machine) for machine in self._members})
            busy = [m.name for m, state in found.items() if state in (State.BUSY, State.SILENT)]
            return f"{', '.join(busy)} {State.BUSY.value} or does not answer" if busy else None

        # What is still so after that is said with what to do about it.
        with suppress(WorkError):
            self._cluster.wait("the control planes", self._cluster.limits.lost, problem)
        return found

    def _look(self, machine: Machine) -> State:
        try:
            service = self._service(machine)
        except NotOfThisCluster:
            return State.MAINTENANCE if self._cluster.talos.in_maintenance(machine) else State.SILENT
        except TalosError:
            return State.SILENT
        return State.BUSY if service is None else _STATES.get(service.state, State.DATA)

    def _service(self, machine: Machine) -> Service | None:
        return next((one for one in self._cluster.talos.services(machine) if one.id == "etcd"), None)

    def _prepare(self, states: Mapping[Machine, State]) -> None:
        """Bring every control plane to have its configuration and no data of etcd; WorkError when that is refused."""
        silent = [m.name for m, state in states.items() if state in (State.SILENT, State.BUSY)]
        if silent:
            raise WorkError(
                f"{', '.join(silent)}: cannot be looked at, and may have data of the old etcd, with which a second "
                "cluster would come up beside this one. Next: make it answer; or, when it is switched off for good, "
                + " ".join(f"--gone {name}" for name in silent)
            )
        holding = [m for m, state in states.items() if state in (State.DATA, State.FAILED)]
        if holding and not self._order.discard:
            raise WorkError(self._refusal(holding, states))
        waiting = [m for m, state in states.items() if state is State.MAINTENANCE]
        configurations = self._order.configurations or {}
        lacking = [m.name for m in waiting if m.address not in configurations]
        if lacking:
            raise WorkError(
                f"{', '.join(lacking)}: waits for its configuration, and none is known for it. Next: apply it "
                "(`talosctl apply-config --insecure`), or name the stack that built it (--stack)"
            )
        for machine in holding:
            self._cluster.say(f"{machine.name}: wiping what it has of etcd")
            self._change(machine, ["reset", *_ETCD_ALONE], _SHORT)
        for machine in waiting:
            self._configure(machine, configurations[machine.address])

        def problem() -> str | None:
            rest = {m.name: self._look(m) for m in (*holding, *waiting)}
            left = [f"{name} {state.value}" for name, state in rest.items() if state is not State.EMPTY]
            return "; ".join(left) or None

        if holding or waiting:
            self._cluster.wait("the control planes should be ready", self._cluster.limits.boot, problem)

    def _refusal(self, holding: Sequence[Machine], states: Mapping[Machine, State]) -> str:
        named = "; ".join(f"{m.name} {states[m].value}" for m in holding)
        etcd = look_at_etcd(self._cluster)
        if etcd.voters and not etcd.problem:
            well = sum(1 for voter in etcd.voters if voter.healthy and not voter.learner)
            total = sum(1 for voter in etcd.voters if not voter.learner)
            alive = f"{well} of {total} members work, and a quorum is {quorum(total)}"
            if well >= quorum(total):
                return (
                    f"{named}: etcd lives ({alive}), and what was written since the snapshot would be lost. Next: "
                    "replace the members that are gone (docs/backup-and-restore.md); or, to go back to the snapshot "
                    "all the same, --discard wipes what they have"
                )
        return (
            f"{named}, without a quorum. Next: bring enough of them up again, when that can be done: nothing is lost "
            "then; else --discard wipes what they have, and goes back to the snapshot"
        )

    def _configure(self, machine: Machine, text: str) -> None:
        self._cluster.say(f"{machine.name}: gets the configuration that it had")
        with secret_file(text) as file:
            self._talosctl.insecure(
                ["apply-config", "-f", file.path],
                endpoint=machine.endpoint,
                seconds=_SHORT,
                descriptors=file.descriptors,
            )

    def _start(self, first: Machine) -> None:
        """Start etcd from the snapshot on one machine, whatever becomes of answers."""
        clock, end = self._cluster.clock, self._cluster.clock() + self._cluster.limits.boot
        snapshot, reason, asked = self._order.snapshot, "", False
        while True:
            self._cluster.say(f"{first.name}: starting etcd from the snapshot ({snapshot.size} bytes)")
            try:
                self._change(
                    first, ["bootstrap", "--recover-from", snapshot.path], UPLOAD_SECONDS, snapshot.descriptors
                )
                reason, patience = "", self._cluster.limits.boot
            except Unreachable as error:
                # It may have come through.
                reason, patience = str(error), min(_LOST_SECONDS, self._cluster.limits.lost)
            except TalosError as error:
                if "code = AlreadyExists" in str(error) and not asked:
                    # Nothing of this run is there, so nothing may be taken for it later.
                    self._record.forget()
                    raise WorkError(
                        f"{first.name} has got an etcd from somebody else meanwhile. Next: see from whom, and run "
                        "the command again"
                    ) from None
                if "code = AlreadyExists" in str(error):
                    reason, patience = "", self._cluster.limits.boot
                elif "code = FailedPrecondition" in str(error):
                    reason, patience = str(error), PAUSE
                else:
                    raise
            asked = asked or patience > PAUSE
            if self._has_started(first, patience):
                return
            if clock() >= end:
                raise WorkError(
                    f"{first.name} has not started etcd from the snapshot{': ' if reason else ''}{reason}. Next: "
                    "look at its console, and run the command again: it goes on from there"
                )

    def _has_started(self, first: Machine, patience: float) -> bool:
        end = self._cluster.clock() + patience
        while True:
            state = self._look(first)
            if state is State.DATA:
                return True
            if state is State.FAILED:
                raise WorkError(
                    f"{first.name} cannot start etcd from the snapshot. Next: see why (`talosctl service etcd`), take "
                    "another snapshot, and run the command with --discard"
                )
            if self._cluster.clock() >= end:
                return False
            self._cluster.sleep(PAUSE)

    def _joined(self) -> Sequence[str]:
        """Wait until all control planes are healthy members; return their names."""
        etcd = Etcd()

        def problem() -> str | None:
            nonlocal etcd
            etcd = look_at_etcd(self._cluster)
            if etcd.problem or not etcd.voters:
                return etcd.problem or "etcd is not up yet"
            there = {voter.address for voter in etcd.voters}
            missing = [m.name for m in self._members if m.address not in there]
            return f"{', '.join(missing)} did not join yet" if missing else whole_problem(etcd.voters)

        self._cluster.wait("etcd should have all its members", self._cluster.limits.health, problem)
        return [voter.known_as for voter in etcd.voters]

    def _change(
        self, machine: Machine, words: Sequence[str], seconds: float, descriptors: tuple[int, ...] = ()
    ) -> None:
        self._talosctl.follow(
            words,
            endpoints=[machine.endpoint],
            node=machine.address,
            seconds=seconds,
            say=lambda _: None,
            descriptors=descriptors,
        )


_ETCD_ALONE = ("--graceful=false", "--reboot", "--wait=false", "--system-labels-to-wipe=EPHEMERAL")
"""Words of a reset that keeps the configuration (docs.siderolabs.com "Disaster recovery")."""
