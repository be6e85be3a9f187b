"""The start of a cluster: once, on the machine that was recorded, and never where one runs already.

The machines here are in memory; the real talosctl against nodes that speak the real API is in tests/real.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hybrid_talos import birth_member
from hybrid_talos.cluster_work import PAUSE, Cluster
from hybrid_talos.etcd_bootstrap import diff, start
from hybrid_talos.talos_calls import EtcdMember, Machine, NotOfThisCluster, Service, TalosError, Unreachable
from hybrid_talos.work_provider import WorkError

CP = [Machine(f"cp-{n}", f"192.0.2.1{n}", f"192.0.2.1{n}") for n in (1, 2, 3)]
NOT_YET = "talosctl bootstrap: rpc error: code = FailedPrecondition desc = time is not in sync yet"
TWICE = "talosctl bootstrap: rpc error: code = AlreadyExists desc = etcd data directory is not empty"


@dataclass
class Fleet:
    """Control planes as they answer, and a clock that only sleep moves."""

    state: dict[str, str] = field(default_factory=lambda: {machine.address: "waiting" for machine in CP})
    """`waiting`, `maintenance`, `silent`, or `etcd`."""
    refusals: list[Exception] = field(default_factory=list)
    """What the next bootstraps answer; ``None``-like ends are a success."""
    then: dict[float, dict[str, str]] = field(default_factory=dict)
    """What machines become at a time."""
    lost: bool = False
    """The next bootstrap works, and its answer is lost."""
    asked: list[str] = field(default_factory=list)
    started: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    now: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for when in sorted(self.then):
            if when <= self.now:
                self.state |= self.then.pop(when)

    def _answer(self, machine: Machine) -> str:
        state = self.state[machine.address]
        if state == "silent":
            raise Unreachable(f"{machine.name}: no route to host")
        if state == "maintenance":
            raise NotOfThisCluster("x509: certificate signed by unknown authority")
        return state

    def version(self, machine: Machine) -> str:
        self._answer(machine)
        return "1.14.0"

    def in_maintenance(self, machine: Machine) -> bool:
        return self.state[machine.address] == "maintenance"

    def services(self, machine: Machine) -> Sequence[Service]:
        return [Service("etcd", "Running" if self._answer(machine) == "etcd" else "Preparing", "?")]

    def etcd_members(self, machine: Machine) -> Sequence[EtcdMember]:
        if self._answer(machine) != "etcd":
            raise TalosError("etcd is not up")
        up = [address for address, state in self.state.items() if state == "etcd"]
        return [EtcdMember(str(n), address, address, False) for n, address in enumerate(up)]

    def etcd_problem(self, machine: Machine) -> str:
        return ""

    def bootstrap(self, machine: Machine) -> None:
        self.asked.append(machine.name)
        state = self._answer(machine)
        if self.refusals:
            raise self.refusals.pop(0)
        if state == "etcd":
            raise TalosError(TWICE)
        self.started.append(machine.name)
        self.state[machine.address] = "etcd"
        if self.lost:
            self.lost = False
            raise Unreachable("rpc error: code = Unavailable desc = transport is closing")

    def start(self, first: Machine = CP[0], members: Sequence[Machine] = CP, seconds: float = 300) -> None:
        cluster = Cluster(
            cast(Any, self), members, cast(Any, None), None, self.said.append, self.said.append,
            clock=lambda: self.now, sleep=self.sleep,
        )  # fmt: skip
        start(cluster, first, seconds)


def test_a_new_cluster_is_started_once_on_the_recorded_machine() -> None:
    fleet = Fleet()
    fleet.start(CP[1])
    assert fleet.asked == fleet.started == ["cp-2"]


def test_one_that_runs_is_taken_as_it_is() -> None:
    fleet = Fleet({machine.address: "etcd" for machine in CP})
    fleet.start()
    assert fleet.asked == []
    assert "taken as it is" in fleet.said[0]


def test_a_lost_answer_is_found_out_and_nothing_is_asked_twice() -> None:
    fleet = Fleet(lost=True)
    fleet.start()
    assert fleet.asked == fleet.started == ["cp-1"]


def test_a_run_that_was_killed_after_the_start_goes_on_from_there_whatever_the_list_is_now() -> None:
    fleet = Fleet()
    fleet.start(CP[0])
    before = Machine("a-1", "192.0.2.9", "192.0.2.9")
    fleet.state["192.0.2.9"] = "maintenance"
    fleet.start(CP[0], [before, *CP])
    assert fleet.started == ["cp-1"]


def test_a_machine_that_still_installs_is_waited_for() -> None:
    fleet = Fleet(
        {m.address: "maintenance" for m in CP}, then={60: {CP[0].address: "silent"}, 90: {CP[0].address: "waiting"}}
    )
    fleet.start()
    assert fleet.started == ["cp-1"]
    assert fleet.now >= 90
    assert any("has not taken its configuration yet" in line for line in fleet.said)


def test_a_refusal_for_now_is_shown_and_waited_for() -> None:
    fleet = Fleet(refusals=[TalosError(NOT_YET), TalosError(NOT_YET)])
    fleet.start()
    assert fleet.started == ["cp-1"]
    assert fleet.now == 3 * PAUSE
    assert len([line for line in fleet.said if "time is not in sync" in line]) == 1


def test_a_refusal_for_good_is_an_error() -> None:
    fleet = Fleet(refusals=[TalosError("rpc error: code = PermissionDenied desc = not authorized")])
    with pytest.raises(TalosError, match="not authorized"):
        fleet.start()


def test_time_is_limited_and_the_last_reason_is_told() -> None:
    fleet = Fleet({machine.address: "silent" for machine in CP})
    with pytest.raises(WorkError, match=r"was not started within 5 minutes: no control plane answers: cp-1") as error:
        fleet.start()
    assert "run `pulumi up` again" in str(error.value)
    assert fleet.started == []


def test_another_machine_starts_it_only_when_the_recorded_one_is_gone_and_nobody_can_have_it() -> None:
    fleet = Fleet()
    fleet.state[CP[0].address] = "silent"
    fleet.start(CP[0], CP[1:])
    assert fleet.started == ["cp-2"]


def test_a_recorded_machine_that_is_gone_and_a_member_that_is_silent_are_too_little_to_know() -> None:
    fleet = Fleet({CP[0].address: "silent", CP[1].address: "waiting", CP[2].address: "silent"})
    with pytest.raises(WorkError, match="cp-3 does not answer, so it cannot be told whether the cluster runs already"):
        fleet.start(CP[0], CP[1:])
    assert fleet.asked == []


def test_a_recorded_machine_that_is_gone_and_has_the_cluster_must_come_back() -> None:
    fleet = Fleet()
    fleet.state[CP[0].address] = "etcd"
    with pytest.raises(WorkError, match="cp-1 has started the cluster and is no control plane any more"):
        fleet.start(CP[0], CP[1:])
    assert fleet.asked == []


def test_both_records_stay_whatever_the_program_says_later() -> None:
    old = {"member": {"name": "cp-1"}, "first": {"name": "cp-1"}, "members": [1]}
    new = {"member": {"name": "a-1"}, "first": {"name": "a-1"}, "members": [1, 2]}
    assert not diff(old, new).changes
    assert not birth_member.diff(old, new).changes
    assert birth_member.update(old, new) == old
    assert birth_member.create(old) == ("cp-1", old)
