"""Removing a control plane goes by what etcd says last: one that joins meanwhile is not wiped while it votes."""

import random

import pytest
from hybrid_talos.cluster_work import Cluster
from hybrid_talos.etcd_members import remove_control_plane
from hybrid_talos.talos_calls import Machine
from life_world import Box, Entry, FakeTalos, World, cluster_in


class Watched(FakeTalos):
    """Lets a machine join etcd at the moment of its reset, and may break its etcd right then."""

    def __init__(self, world: World, *, joins: bool, broken: bool = False) -> None:
        super().__init__(world)
        self.joins = joins
        self.broken = broken
        self.graceful: list[bool] = []

    def reset(self, machine: Machine, *, graceful: bool) -> None:
        self.graceful.append(graceful)
        box = self.world.boxes[machine.address]
        if self.joins:
            self.joins = False
            box.member = self.world.next_id
            self.world.entries.append(Entry(box.member, box.name, box.address, learner=False))
            self.world.next_id += 1
            box.etcd_broken = self.broken
        super().reset(machine, graceful=graceful)


def machine(number: int) -> Machine:
    return Machine(f"cp-{number}", f"192.0.2.{number}", f"192.0.2.{number}")


def cluster_of_three(talos_of: type[Watched], *, joins: bool, broken: bool = False) -> tuple[World, Watched, Cluster]:
    """Return a cluster of three with a fourth machine that is configured and has not joined."""
    world = World(random.Random(1), bootstraps=1, next_id=4)
    for number in range(1, 5):
        address = f"192.0.2.{number}"
        box = Box(address, name=f"cp-{number}", role="controlplane", config="a", join_at=float("inf"))
        if number < 4:
            box.member = number
            world.entries.append(Entry(number, box.name, address, learner=False))
        world.boxes[address] = box
    talos = talos_of(world, joins=joins, broken=broken)
    plain = cluster_in(world, [machine(number) for number in range(1, 5)])
    return world, talos, Cluster(**{**vars(plain), "talos": talos})


def test_one_that_joins_right_before_its_reset_leaves_on_its_way_down() -> None:
    world, talos, cluster = cluster_of_three(Watched, joins=True)
    remove_control_plane(cluster, machine(4), 0)
    assert talos.graceful == [True]
    assert [entry.name for entry in world.voters()] == ["cp-1", "cp-2", "cp-3"]
    assert not world.boxes["192.0.2.4"].configured


def test_one_that_cannot_leave_on_its_way_down_is_taken_out_and_reset_again() -> None:
    world, talos, cluster = cluster_of_three(Watched, joins=True, broken=True)
    remove_control_plane(cluster, machine(4), 0)
    # The world itself raises when a voter is wiped.
    assert talos.graceful == [True, False]
    assert [entry.name for entry in world.voters()] == ["cp-1", "cp-2", "cp-3"]
    assert any("remove 0000000000000004 via cp-" in line for line in world.log)
    assert not world.boxes["192.0.2.4"].configured


@pytest.mark.parametrize("number", [1, 4])
def test_one_that_has_left_is_just_reset(number: int) -> None:
    world, talos, cluster = cluster_of_three(Watched, joins=False)
    if number == 1:
        # Three are wanted, and three are left only when the fourth has joined.
        world.boxes["192.0.2.4"].member = 4
        world.entries.append(Entry(4, "cp-4", "192.0.2.4", learner=False))
        world.next_id = 5
    remove_control_plane(cluster, machine(number), 0)
    assert talos.graceful == [number == 4]
    assert len(world.voters()) == 3
