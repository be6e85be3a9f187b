"""Rolls of a simulated pool, with faults and kills at any call, and with an autoscaler that changes it meanwhile."""

import random
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import pytest
from hybrid_talos.pool_roll import (
    Instance,
    Pair,
    PoolNode,
    Progress,
    Roll,
    Rule,
    SizeChanged,
    View,
    bring_model,
    next_step,
    pairs_of,
    stale_names,
    to_update,
)
from hybrid_talos.work_provider import WorkError
from hypothesis import given, settings
from hypothesis import strategies as st

POOL, OLD, NEW = "azure-workers", "0" * 16, "1" * 16


class Killed(BaseException):
    """The process is gone: nothing that it would still do happens."""


@dataclass
class Machine:
    node: str
    stamp: str
    joins: float = 0
    """When its Node is Ready; a machine that never joins has no Node either."""
    labels: float = 0
    """When its Node has its labels."""


@dataclass
class Place:
    """A cloud, a cluster and a clock; each call may be struck."""

    size: int
    rule: Rule
    least: int = 0
    boot: float = 30
    machines: dict[str, Machine] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)
    cordoned: set[str] = field(default_factory=set)
    drained: set[str] = field(default_factory=set)
    nodes: dict[str, str] = field(default_factory=dict)
    """Nodes by name, with the machine that they were made for; they outlive it."""
    note: Progress = field(default_factory=Progress)
    now: float = 0
    number: int = 0
    strikes: list[tuple[int, str]] = field(default_factory=list)
    """At which call what happens: `fail` or `kill` before it is done, `lost` or `dead` after it."""
    calls: int = 0
    dead: bool = False
    base: int = 0
    strict: bool = True
    tokens: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.base = self.size
        for _ in range(self.size):
            self._add(OLD, ready=True)

    def _add(self, stamp: str, *, ready: bool = False) -> None:
        key, name = f"m{self.number}", f"node-{self.number}"
        self.number += 1
        joins = self.now if ready else self.now + self.boot
        self.machines[key] = Machine(name, stamp, joins, joins + (0 if ready else 7))
        self.nodes[name] = key

    @contextmanager
    def call(self):
        if self.dead:
            raise Killed
        self.calls += 1
        strike = next((what for at, what in self.strikes if at == self.calls), "")
        if strike == "kill":
            self.dead = True
            raise Killed
        if strike == "fail":
            raise WorkError("planned")
        yield
        if strike == "dead":
            self.dead = True
            raise Killed
        if strike == "lost":
            raise WorkError("planned, after it was done")

    def ready(self, key: str) -> bool:
        return self.machines[key].joins <= self.now

    def available(self) -> int:
        return sum(self.ready(key) and m.node not in self.cordoned for key, m in self.machines.items())

    def check(self) -> None:
        if self.strict:
            assert self.available() >= self.base - self.rule.max_unavailable, "more unavailable than allowed"
            assert self.size <= min(self.base + self.rule.max_surge, self.rule.most), "more machines than allowed"

    # The cloud

    def instances(self):
        with self.call():
            return [Instance(key, f"azure:///X/{key.upper()}") for key in self.machines]

    def count(self):
        with self.call():
            return self.size

    def grow(self, size, by, token):
        with self.call():
            if self.size != size:
                raise SizeChanged
            assert token not in self.tokens
            self.tokens.add(token)
            self.size += by
            for _ in range(by):
                self._add(self.rule.stamp)
            self.check()

    def remove(self, key):
        with self.call():
            name = self.machines[key].node
            if self.machines[key].joins <= self.now:
                assert name in self.cordoned, "removed without a cordon"
                assert name in self.drained, "removed without a drain"
            assert self.machines[key].stamp != self.rule.stamp or not self.strict, "a new machine was removed"
            assert self.size - 1 >= self.least
            del self.machines[key]
            self.size -= 1
            self.check()

    # The cluster

    def listed(self):
        with self.call():
            found = []
            for name, key in self.nodes.items():
                machine = self.machines.get(key)
                if machine is not None and machine.joins > self.now:
                    continue
                labelled = machine is None or machine.labels <= self.now
                found.append(
                    PoolNode(
                        name,
                        f"azure:///x/{key}",
                        pool=POOL if labelled else "",
                        stamp=machine.stamp if labelled and machine is not None else "",
                        ready=machine is not None,
                        schedulable=name not in self.cordoned,
                    )
                )
            return found

    def hold(self, name):
        if name in self.held:
            return
        with self.call():
            self.held.add(name)

    def let_go(self):
        with self.call():
            gone = sorted(self.held)
            self.cordoned -= self.held
            self.drained -= self.held
            self.held.clear()
            return gone

    def cordon(self, name):
        with self.call():
            self.cordoned.add(name)
            self.check()

    def drain(self, name, seconds, *, bare, say):
        with self.call():
            assert name in self.cordoned
            say("draining")
            self.drained.add(name)

    def delete(self, name):
        with self.call():
            self.nodes.pop(name, None)

    # The journal

    @contextmanager
    def lock(self):
        if self.dead:
            raise Killed
        yield self.note

    def write(self, progress):
        with self.call():
            self.note = progress

    def sleep(self, seconds):
        self.now += seconds


class _Cloud:
    def __init__(self, place):
        self.instances, self.size, self.grow, self.remove = place.instances, place.count, place.grow, place.remove
        self.least = lambda: place.least


class _Nodes:
    def __init__(self, place):
        self.nodes, self.hold, self.let_go = place.listed, place.hold, place.let_go
        self.cordon, self.drain, self.delete = place.cordon, place.drain, place.delete


class _Journal:
    def __init__(self, place):
        self.held, self.write = place.lock, place.write

    def alive(self):
        pass


def roll(place, say=lambda line: None):
    run = Roll(
        place.rule, _Cloud(place), _Nodes(place), _Journal(place), say, clock=lambda: place.now, sleep=place.sleep
    )
    return run.run()


def rule(**changes):
    return Rule(**{"pool": POOL, "stamp": NEW, "most": 10, **changes})


def finished(place):
    """Hold what a roll has left against what it is for."""
    assert {machine.stamp for machine in place.machines.values()} <= {NEW}
    assert not place.held
    assert not place.cordoned
    assert place.note == Progress()
    assert {key for key in place.nodes.values()} == set(place.machines), "a Node without a machine"
    if place.strict:
        assert place.size == len(place.machines) == place.base


BUDGETS = st.sampled_from([(1, 0), (2, 0), (3, 0), (0, 1), (0, 2), (1, 1), (2, 1)])


@settings(max_examples=400, deadline=None)
@given(
    size=st.integers(0, 6),
    budget=BUDGETS,
    room=st.integers(1, 3),
    fresh=st.sets(st.integers(0, 5)),
    strikes=st.lists(st.tuples(st.integers(1, 160), st.sampled_from(["fail", "lost", "kill", "dead"])), max_size=6),
    boot=st.sampled_from([0.0, 30.0, 300.0]),
)
def test_whatever_happens_it_comes_to_its_end_within_its_budget(size, budget, room, fresh, strikes, boot):
    surge, unavailable = budget
    place = Place(
        size, rule(max_surge=surge, max_unavailable=unavailable, most=size + room), boot=boot, strikes=strikes
    )
    for index in fresh & set(range(size)):
        place.machines[f"m{index}"].stamp = NEW
    for _ in range(len(strikes) + 1):
        place.dead = False
        try:
            roll(place)
        except (WorkError, Killed):
            continue
        break
    else:
        pytest.fail("it did not end")
    finished(place)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1 << 30), size=st.integers(1, 5), budget=BUDGETS)
def test_an_autoscaler_and_evictions_meanwhile_do_not_keep_it_from_its_end(seed, size, budget):
    chance = random.Random(seed)
    surge, unavailable = budget
    place = Place(size, rule(max_surge=surge, max_unavailable=unavailable, most=12), strict=False)
    plain = place.sleep
    changes = iter(range(12))

    def sleep(seconds):
        plain(seconds)
        if chance.random() < 0.3 and next(changes, None) is not None:
            if chance.random() < 0.5 and place.size < place.rule.most:
                place.size += 1
                place._add(NEW)
            elif place.machines:
                # The node collector takes the Node of a machine that was evicted.
                gone = place.machines.pop(chance.choice(sorted(place.machines)))
                place.nodes.pop(gone.node, None)
                place.held.discard(gone.node)
                place.cordoned.discard(gone.node)
                place.size -= 1

    place.sleep = sleep
    roll(place)
    finished(place)


def test_a_failure_stops_it_and_leaves_the_nodes_as_they_were():
    place = Place(3, rule())

    def drain(name, seconds, *, bare, say):
        raise WorkError(f"{name} was not drained")

    place.drain = drain
    with pytest.raises(WorkError, match="node-0 was not drained"):
        roll(place)
    assert not place.held
    assert not place.cordoned
    # The machine that was added for the roll stays, and it is known.
    assert (place.size, place.note.extra, len(place.machines)) == (4, 1, 4)
    del place.drain
    roll(place)
    finished(place)


def test_a_new_machine_that_never_joins_stops_it_before_an_old_one_goes():
    place = Place(2, rule(join_seconds=60), boot=1e9)
    with pytest.raises(WorkError, match=r"waited 1 minutes for machine m2 to be Ready\. Next: look at the machine's"):
        roll(place)
    assert {"m0", "m1"} <= set(place.machines)
    assert not place.held


def test_a_machine_that_never_joined_is_replaced_too():
    place = Place(2, rule(join_seconds=60, max_unavailable=1))
    place.machines["m0"].joins = 1e9
    del place.nodes["node-0"]
    roll(place)
    finished(place)


def test_dead_machines_go_first():
    pairs = [Pair(Instance(str(n), f"p{n}"), PoolNode(f"n{n}", f"p{n}", POOL, OLD, ready=n != 2)) for n in range(3)]
    step = next_step(View(pairs, size=3, least=0, extra=0), rule(max_surge=0, max_unavailable=1))
    assert step.replace == pairs[2]


def test_nothing_is_held_or_made_where_all_is_new():
    place = Place(3, replace(rule(), stamp=OLD))
    roll(place)
    assert place.size == 3
    assert not place.tokens


@pytest.mark.parametrize(
    ("changes", "least", "said"),
    [
        ({"most": 3}, 0, "has its most machines, 3.*maxUnavailable to 1"),
        ({"most": 3, "max_surge": 0, "max_unavailable": 1}, 3, "has its fewest machines, 3.*maxSurge 1"),
    ],
)
def test_a_pool_without_room_says_what_to_do(changes, least, said):
    place = Place(3, rule(**changes), least=least)
    with pytest.raises(WorkError, match=said):
        roll(place)
    assert not place.held
    assert place.size == 3


def test_a_full_pool_rolls_by_what_may_be_missing():
    place = Place(3, rule(most=3, max_unavailable=1))
    roll(place)
    finished(place)


def test_a_node_without_labels_yet_is_not_stale():
    pairs = pairs_of([Instance("1", "azure:///A")], [PoolNode("n", "azure:///a")])
    assert pairs[0].node is not None
    assert stale_names(pairs, rule()) == []


def test_only_machines_that_are_made_as_new_ones_get_an_update():
    instances = [Instance(str(n), f"p{n}", outdated=n != 3, leaving=n == 4) for n in range(5)]
    nodes = [PoolNode(f"n{n}", f"p{n}", POOL, OLD if n == 0 else NEW) for n in range(5) if n != 1]
    assert [pair.name for pair in to_update(pairs_of(instances, nodes), rule())] == ["n2"]
    updated = []

    class Cloud:
        def instances(self):
            return instances

        def update(self, instance):
            updated.append(instance)

    class Nodes:
        def nodes(self):
            return nodes

    assert bring_model(rule(), Cloud(), Nodes(), lambda line: None) == ["n2"]
    assert updated == ["2"]
