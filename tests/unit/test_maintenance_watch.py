"""A machine whose installation failed is named early, with the likely cause, and not after all of the waiting."""

import random
from typing import Any

import pytest
from hybrid_talos import etcd_bootstrap
from hybrid_talos.cluster_health import Wanted, wait_until_healthy
from hybrid_talos.cluster_work import Cluster
from hybrid_talos.maintenance_watch import SECONDS, FellBack, MaintenanceWatch
from hybrid_talos.talos_calls import Machine
from hybrid_talos.talos_upgrade import Target
from hybrid_talos.work_provider import WorkError
from life_world import Box, Entry, FakeTalos, World, cluster_in

MACHINES = [Machine(f"cp-{number}", f"192.0.2.{number}", f"192.0.2.{number}") for number in (1, 2, 3)]


class Unborn(FakeTalos):
    """Machines of which some never took their configuration."""

    def bootstrap(self, machine: Machine) -> None:
        self._call(machine)
        self.world.bootstrap(machine.address)


def cluster(*configured: int, born: bool) -> tuple[World, Cluster, list[str]]:
    world = World(random.Random(1), bootstraps=int(born), next_id=9)
    for number in (1, 2, 3):
        box = Box(f"192.0.2.{number}", join_at=float("inf"))
        if number in configured:
            box.name, box.role, box.config = f"cp-{number}", "controlplane", "a"
            if born:
                box.member = number
                world.entries.append(Entry(number, box.name, box.address, learner=False))
        world.boxes[box.address] = box
    said: list[str] = []
    plain: dict[str, Any] = vars(cluster_in(world, MACHINES))
    return world, Cluster(**{**plain, "talos": Unborn(world), "say": said.append}), said


def test_health_ends_early_with_the_machine_and_the_cause() -> None:
    world, known, said = cluster(1, 2, born=True)
    began = world.now
    with pytest.raises(WorkError) as error:
        wait_until_healthy(known, Wanted(MACHINES, Target("1.12.0", ""), True, nodes_ready=False))
    assert SECONDS <= world.now - began < known.limits.health / 2
    assert str(error.value).startswith("cp-3 at 192.0.2.3: waits in maintenance mode again after its configuration")
    assert "no disk is what installDisk or installDiskSelector says" in str(error.value)
    assert "python -m stacks.discover 192.0.2.3" in str(error.value)
    # And while it waits.
    assert any("cp-3: waits for its configuration (maintenance mode)" in line for line in said)


def test_the_start_of_a_cluster_ends_early_too() -> None:
    world, known, _ = cluster(2, 3, born=False)
    began = world.now
    with pytest.raises(FellBack, match="cp-1 at 192.0.2.1: waits in maintenance mode again"):
        etcd_bootstrap.start(known, MACHINES[0])
    assert world.now - began < etcd_bootstrap.SECONDS / 2
    assert world.bootstraps == 0


def test_one_that_leaves_maintenance_mode_in_between_is_waited_for() -> None:
    world, known, _ = cluster(1, 2, born=True)
    watch = MaintenanceWatch(known)
    for waiting in ([MACHINES[2]], [], [MACHINES[2]], []):
        watch.look(waiting)
        world.advance(SECONDS - 5)
    watch.look([MACHINES[2]])
    world.advance(SECONDS)
    with pytest.raises(FellBack):
        watch.look([MACHINES[2]])
