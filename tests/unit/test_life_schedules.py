"""Random lives of a cluster: whatever fails or is killed, some things never happen, and the next `up` goes on."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from hybrid_talos import life_props
from hybrid_talos.cluster_work import Cluster
from hybrid_talos.talos_calls import Machine
from life_engine import Refused, Settings, Stack
from life_world import Box, Faults, World, cluster_in

LIVES = int(os.environ.get("HYBRID_TALOS_LIVES", "300"))
"""How many; a change of the work on clusters should see more than the usual run has time for."""
HARD_LIVES = (1420,)
"""Seeds that once found something, beyond those of the usual run."""
NEXT_TALOS = {"1.12.0": "1.13.0", "1.13.0": "1.13.5", "1.13.5": "1.14.0", "1.14.0": "1.14.0"}
NEXT_KUBERNETES = {"1.34.0": "1.35.0", "1.35.0": "1.35.2", "1.35.2": "1.36.0", "1.36.0": "1.36.0"}

Action = Callable[[random.Random, World, Settings], Settings]


def fresh(world: World) -> str:
    """Return the address of a machine that was never used."""
    address = f"192.0.2.{len(world.boxes) + 11}"
    world.boxes[address] = Box(address)
    return address


def another(world: World, kind: str) -> dict[str, str]:
    """Return a machine that was never used, by a name that nobody had."""
    address = fresh(world)
    return {f"{kind}-{int(address.rpartition('.')[2]) - 10}": address}


def upgrade_talos(_: random.Random, __: World, now: Settings) -> Settings:
    return replace(now, talos=NEXT_TALOS[now.talos])


def upgrade_kubernetes(_: random.Random, __: World, now: Settings) -> Settings:
    return replace(now, kubernetes=NEXT_KUBERNETES[now.kubernetes])


def upgrade_both(rng: random.Random, world: World, now: Settings) -> Settings:
    return upgrade_kubernetes(rng, world, upgrade_talos(rng, world, now))


def configure(rng: random.Random, _: World, now: Settings) -> Settings:
    return replace(now, config=f"c{rng.random()}")


def configure_with_reboot(rng: random.Random, _: World, now: Settings) -> Settings:
    return replace(now, boot=f"b{rng.random()}")


def renew_certificate(rng: random.Random, _: World, now: Settings) -> Settings:
    return replace(now, credentials=f"cert{rng.random()}")


def grow(_: random.Random, world: World, now: Settings) -> Settings:
    if len(now.control_planes) > 3:
        return now
    more = [another(world, "cp") for _ in range(2)]
    return replace(now, control_planes={**now.control_planes, **more[0], **more[1]})


def shrink(rng: random.Random, _: World, now: Settings) -> Settings:
    if len(now.control_planes) < 5:
        return now
    gone = set(rng.sample(sorted(now.control_planes), 2))
    return replace(now, control_planes={n: a for n, a in now.control_planes.items() if n not in gone})


def swap(rng: random.Random, world: World, now: Settings) -> Settings:
    """Replace a machine, the dead one if there is one, by another under a new name."""
    dead = [n for n, a in now.control_planes.items() if world.boxes[a].dead or world.boxes[a].etcd_broken]
    gone = dead[0] if dead else rng.choice(sorted(now.control_planes))
    rest = {n: a for n, a in now.control_planes.items() if n != gone}
    return replace(now, control_planes={**rest, **another(world, "cp")})


def move(rng: random.Random, world: World, now: Settings) -> Settings:
    """Put another machine in the place of one, under the same name."""
    return replace(now, control_planes={**now.control_planes, rng.choice(sorted(now.control_planes)): fresh(world)})


def change_workers(rng: random.Random, world: World, now: Settings) -> Settings:
    if len(now.workers) > 1:
        gone = rng.choice(sorted(now.workers))
        return replace(now, workers={n: a for n, a in now.workers.items() if n != gone})
    return replace(now, workers={**now.workers, **another(world, "w")})


def all_at_once(rng: random.Random, world: World, now: Settings) -> Settings:
    return swap(rng, world, configure_with_reboot(rng, world, upgrade_both(rng, world, now)))


ACTIONS: list[Action] = [
    upgrade_talos, upgrade_kubernetes, upgrade_both, configure, configure_with_reboot, renew_certificate, grow, shrink,
    swap, move, change_workers, all_at_once,
]  # fmt: skip


@contextmanager
def opened(world: World) -> Iterator[None]:
    """Let the work modules find the world in the place of real machines."""
    before, tool = life_props.cluster_of, life_props.tool_problem

    @contextmanager
    def cluster_of(props: dict[str, Any], *, alone: bool = True) -> Iterator[Cluster]:
        yield cluster_in(world, [Machine.of(member) for member in props.get("members") or ()])

    life_props.cluster_of, life_props.tool_problem = cluster_of, lambda *_: None
    try:
        yield
    finally:
        life_props.cluster_of, life_props.tool_problem = before, tool


def heal(world: World, known: set[str]) -> None:
    """End all trouble: what can be repaired is, and time passes.

    A dead machine that was removed is wiped before it comes back, as the warning of its removal asks.
    """
    world.faults = Faults()
    for address, box in list(world.boxes.items()):
        if box.dead and address not in known:
            assert any(f"{box.name} at {address}" in line for line in world.warnings)
            world.boxes[address] = Box(address, box.version)
    for box in world.boxes.values():
        box.dead = box.etcd_broken = False
    world.advance(600)


class Life:
    """One cluster from birth on, with a seed of its own."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World(self.rng)
        self.stack = Stack(self.world, self.rng)
        self.settings = Settings({f"cp-{n}": fresh(self.world) for n in (1, 2, 3)}, another(self.world, "w"))
        self.secret: float | None = None
        self.wanted = [self.settings]

    def trouble(self) -> Faults:
        return Faults(
            refuse=self.rng.choice([0, 0.02, 0.1]),
            lose=self.rng.choice([0, 0.05, 0.3]),
            kill=self.rng.choice([0, 0.01, 0.05]),
            die=self.rng.choice([0, 0, 0.001, 0.01]),
            most_dead=1,
        )

    def attempt(self) -> str:
        ended = self.stack.up(self.settings)
        self.hold()
        return ended

    def hold(self) -> None:
        """Check what holds after every run."""
        self.world.check()
        if "secrets" in self.stack.state:
            secret = self.stack.state["secrets"].outputs["secret"]
            assert self.secret in (None, secret), "the secrets changed"
            self.secret = secret

    def settle(self) -> None:
        """Without trouble the next run ends well, and one more finds nothing to do."""
        members = [r.outputs["address"] for r in self.stack.state.values() if r.kind == "Member"]
        heal(self.world, {*members, *self.settings.control_planes.values(), *self.settings.workers.values()})
        wanted = self.settings
        ended = self.attempt()
        if "take this change of" in ended:
            # A control plane that was put in the place of another was not finished when something else was wanted. So
            # that first, as the message says: the configuration as it was, and the lists one after the other.
            for step in self.wanted[1:]:
                self.settings = replace(wanted, boot=self.wanted[0].boot, control_planes=step.control_planes)
                # A list from which too much has happened since is refused, so the next one is tried.
                with suppress(Refused):
                    ended = self.attempt()
            self.settings = wanted
            ended = self.attempt()
        assert ended == "done", f"{ended}\n{self.world.story()}"
        self.wanted = [self.settings]
        assert self.stack.preview(self.settings) == {}
        self.correct()

    def correct(self) -> None:
        """Check that the cluster is what the settings say."""
        world, settings = self.world, self.settings
        assert world.bootstraps == 1
        assert {entry.address for entry in world.voters()} == set(settings.control_planes.values()), world.story()
        for name, address in {**settings.control_planes, **settings.workers}.items():
            box = world.boxes[address]
            assert (box.name, box.version, box.kubernetes) == (name, settings.talos, settings.kubernetes), world.story()
        assert set(world.nodes) == {*settings.control_planes, *settings.workers}, world.story()
        assert not any(node.cordoned for node in world.nodes.values()), world.story()

    def live(self) -> None:
        for action in [None, *(self.rng.choice(ACTIONS) for _ in range(self.rng.randint(2, 5)))]:
            if action is not None:
                self.settings = action(self.rng, self.world, self.settings)
                self.wanted.append(self.settings)
            self.world.faults = self.trouble()
            for _ in range(self.rng.randint(1, 3)):
                if self.attempt() == "done" and self.rng.random() < 0.5:
                    break
                if action is not None and self.rng.random() < 0.2:
                    # In the middle of it, somebody wants something else.
                    self.change_mind()
            self.settle()

    def change_mind(self) -> None:
        wanted = self.rng.choice(ACTIONS)(self.rng, self.world, self.settings)
        try:
            self.stack.preview(wanted)
        except Refused:
            return
        self.settings = wanted
        self.wanted.append(wanted)


@pytest.mark.parametrize("seed", sorted({*range(LIVES), *HARD_LIVES}))
def test_a_life_with_failures_kills_and_lost_answers(seed: int) -> None:
    life = Life(seed)
    with opened(life.world):
        life.live()
