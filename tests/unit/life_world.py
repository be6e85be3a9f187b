"""A Talos cluster in memory with a clock of its own, which can fail, be slow, lose answers, and kill its caller.

It is simulated, to run hundreds of lives in seconds: the real talosctl against nodes that speak the real API is in
tests/real. What it checks at every moment is what must never happen, whatever the caller does.
"""

import random
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from hybrid_talos.cluster_work import Cluster, Limits
from hybrid_talos.kubernetes_nodes import KubernetesError
from hybrid_talos.talos_calls import (
    EtcdMember,
    KubernetesImages,
    Machine,
    MachineStatus,
    NodeStatus,
    NotOfThisCluster,
    Say,
    Service,
    TalosError,
    Unreachable,
)


class Killed(BaseException):
    """The program was killed here."""


class Broken(AssertionError):
    """Something happened that never may."""


@dataclass
class Box:
    """One machine."""

    address: str
    version: str = "1.12.0"
    name: str = ""
    role: str = ""
    config: str = ""
    boot: str = ""
    kubernetes: str = ""
    staged: str = ""
    """Version that the next boot brings."""
    up_at: float = 0.0
    """Down until then."""
    dead: bool = False
    """Without power, by no doing of ours."""
    etcd_broken: bool = False
    ours: bool = False
    """Down now because somebody asked for it."""
    member: int | None = None
    join_at: float | None = None
    left: bool = False

    @property
    def configured(self) -> bool:
        return bool(self.config)


@dataclass
class Entry:
    """A member in etcd's list."""

    id: int
    name: str
    address: str
    learner: bool
    vote_at: float = 0.0


@dataclass
class NodeObject:
    cordoned: bool = False
    ours: bool = False


@dataclass
class Faults:
    """How likely things go wrong, of 1, at each call."""

    refuse: float = 0.0
    lose: float = 0.0
    kill: float = 0.0
    die: float = 0.0
    most_dead: int = 0


@dataclass
class World:
    rng: random.Random
    faults: Faults = field(default_factory=Faults)
    now: float = 0.0
    boxes: dict[str, Box] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    nodes: dict[str, NodeObject] = field(default_factory=dict)
    bootstraps: int = 0
    kubernetes: str = ""
    next_id: int = 1
    log: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    """Ids of bootstrap tokens that were deleted."""
    snapshots: int = 0

    # What happens by itself.

    def advance(self, seconds: float, *, quiet: bool = False) -> None:
        """Let time pass. In a ``quiet`` time no machine fails.

        One that fails in the very seconds between the last look at it and the change of another is a coincidence that
        nobody can rule out.
        """
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 5)
            self._tick(quiet)

    def _tick(self, quiet: bool) -> None:
        for box in self.boxes.values():
            if box.ours and not box.dead and self.now >= box.up_at:
                box.ours = False
                if box.staged:
                    box.version, box.staged = box.staged, ""
            if not self.running(box) or box.role != "controlplane" or not self.bootstraps:
                continue
            if box.member is None and not box.left:
                self._join(box)
            for entry in self.entries:
                if entry.id == box.member and entry.learner and self.now >= entry.vote_at and self.healthy_peers(entry):
                    entry.learner = False
        for box in self.boxes.values():
            if self.running(box) and box.configured and self.bootstraps and self.quorate():
                self.nodes.setdefault(box.name, NodeObject())
        if not quiet and self.rng.random() < self.faults.die:
            self._die()
        self.check()

    def _join(self, box: Box) -> None:
        if box.join_at is None:
            box.join_at = self.now + self.rng.choice([5, 30, 60])
        if self.now < box.join_at or not self.quorate():
            return
        # etcd takes a new member only while all voters are connected, and one learner at a time
        # (etcd.io, `--strict-reconfig-check`; etcdserver/server.go, `MemberAdd`).
        if any(entry.learner for entry in self.entries) or not all(map(self.works, self.entries)):
            return
        entry = Entry(self.next_id, box.name, box.address, learner=True, vote_at=self.now + self.rng.choice([5, 40]))
        self.next_id += 1
        self.entries.append(entry)
        box.member = entry.id

    def healthy_peers(self, entry: Entry) -> bool:
        return all(self.works(other) for other in self.entries if other is not entry)

    def _die(self) -> None:
        voters = [box for box in self.boxes.values() if box.member is not None]
        broken = [box for box in voters if box.dead or box.etcd_broken]
        # Only what a cluster survives: the point is what we add to it.
        if not voters or len(broken) >= self.faults.most_dead or any(box.ours for box in voters):
            return
        box = self.rng.choice(sorted(voters, key=lambda b: b.address))
        if self.rng.random() < 0.5:
            box.dead = True
        else:
            box.etcd_broken = True
        self.log.append(f"{self.now:.0f} {box.name} fails by itself")

    # What is true.

    def running(self, box: Box) -> bool:
        return not box.dead and self.now >= box.up_at

    def box_of(self, entry: Entry) -> Box | None:
        return next((box for box in self.boxes.values() if box.member == entry.id), None)

    def works(self, entry: Entry) -> bool:
        box = self.box_of(entry)
        return box is not None and self.running(box) and not box.etcd_broken

    def voters(self) -> list[Entry]:
        return [entry for entry in self.entries if not entry.learner]

    def quorate(self) -> bool:
        voters = self.voters()
        return bool(voters) and 2 * sum(map(self.works, voters)) > len(voters)

    def check(self) -> None:
        """Raise when something is so that never may be."""
        voters = self.voters()
        down = [entry for entry in voters if (box := self.box_of(entry)) is not None and box.ours]
        if len(down) > 1:
            raise Broken(f"{len(down)} members are down by our doing: {[entry.name for entry in down]}\n{self.story()}")
        if voters and not self.quorate():
            # Had we touched nothing, would there be a majority?
            without_us = 0
            for entry in voters:
                box = self.box_of(entry)
                without_us += box is not None and not box.dead and not box.etcd_broken
            if 2 * without_us > len(voters):
                raise Broken(f"quorum is lost by our doing\n{self.story()}")
        if self.bootstraps > 1:
            raise Broken("bootstrapped twice")
        wiped = [entry.name for entry in voters if self.box_of(entry) is None]
        if wiped and len(self.entries) > 1:
            raise Broken(f"wiped while still a member: {wiped}\n{self.story()}")

    def story(self) -> str:
        boxes = "\n".join(f"  {box}" for box in self.boxes.values())
        return f"{boxes}\n  {self.entries}\n  " + "\n  ".join(self.log[-25:])

    # What callers do to machines.

    def reboot(self, box: Box) -> None:
        box.up_at = self.now + self.rng.choice([30, 90, 200])
        box.ours = True
        self.check()

    def apply(self, address: str, name: str, role: str, config: str, boot: str, version: str, kubernetes: str) -> None:
        """Give a machine its configuration, as the Talos provider does; it waits for a machine up to ten minutes."""
        box = self.boxes[address]
        for _ in range(120):
            if self.running(box):
                break
            self.advance(5)
        else:
            raise Unreachable(f"{name} is not reached")
        self.log.append(f"{self.now:.0f} apply {name} {config} {boot} {kubernetes}")
        if not box.configured:
            box.version = version
            box.name, box.role, box.config, box.boot, box.kubernetes = name, role, config, boot, kubernetes
            box.left, box.member, box.join_at = False, None, None
            self.reboot(box)
            return
        if box.kubernetes != kubernetes and self.entries and box.role == "controlplane":
            raise Broken(f"the configuration of {name} brings Kubernetes {kubernetes} before its upgrade")
        changed = box.boot != boot
        box.config, box.boot, box.kubernetes = config, boot, kubernetes
        if changed:
            self.reboot(box)

    def bootstrap(self, address: str) -> None:
        box = self.boxes[address]
        for _ in range(240):
            if self.running(box):
                break
            self.advance(5)
        else:
            raise Unreachable("bootstrap: not reached")
        if self.entries:
            return  # AlreadyExists: it was its own answer that was lost
        self.bootstraps += 1
        self.kubernetes = box.kubernetes
        self.entries = [Entry(self.next_id, box.name, address, learner=False)]
        box.member = self.next_id
        self.next_id += 1
        self.log.append(f"{self.now:.0f} bootstrap {box.name}")


def configuration(boot: str) -> str:
    """Return a machine's configuration, in which something that needs a reboot stands."""
    return f"machine: {{env: {{BOOT: '{boot}'}}}}"


class FakeTalos:
    """The Talos API of the world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def _call(self, machine: Machine, change: bool = False) -> Box:
        """Reach a machine, or fail as calls do."""
        world = self.world
        world.advance(world.rng.choice([0, 0, 1, 5]), quiet=True)
        dice = world.rng.random()
        if dice < world.faults.kill:
            raise Killed
        if dice < world.faults.kill + world.faults.refuse * (0.3 if change else 1):
            raise Unreachable(f"{machine.name}: code = Unavailable")
        box = world.boxes[machine.address]
        if not world.running(box):
            raise Unreachable(f"{machine.name}: code = Unavailable")
        if not box.configured:
            raise NotOfThisCluster(f"{machine.name}: x509: certificate signed by unknown authority")
        return box

    def _answer(self, machine: Machine) -> None:
        """Lose the answer, or kill the caller, after the work was done."""
        world = self.world
        dice = world.rng.random()
        if dice < world.faults.kill:
            raise Killed
        if dice < world.faults.kill + world.faults.lose:
            raise Unreachable(f"{machine.name}: code = DeadlineExceeded")

    def version(self, machine: Machine) -> str:
        return self._call(machine).version

    def in_maintenance(self, machine: Machine) -> bool:
        box = self.world.boxes[machine.address]
        return self.world.running(box) and not box.configured

    def configuration(self, machine: Machine) -> str:
        return configuration(self._call(machine).boot)

    def schematic(self, machine: Machine) -> str:
        self._call(machine)
        return ""

    def status(self, machine: Machine) -> MachineStatus:
        box = self._call(machine)
        if box.etcd_broken:
            return MachineStatus("running", False, [("services", "etcd is not healthy")])
        return MachineStatus("running", True)

    def services(self, machine: Machine) -> Sequence[Service]:
        box = self._call(machine)
        names = [Service("apid", "Running", "OK"), Service("kubelet", "Running", "OK")]
        if box.role == "controlplane":
            state = "Finished" if box.left else "Running" if box.member is not None else "Preparing"
            health = "Fail" if box.etcd_broken or not self.world.quorate() else "OK"
            names += [Service("trustd", "Running", "OK"), Service("etcd", state, health)]
        return names

    def node(self, machine: Machine) -> NodeStatus | None:
        box = self._call(machine)
        return NodeStatus(box.name, True) if box.name in self.world.nodes else None

    def _etcd(self, machine: Machine) -> Box:
        box = self._call(machine)
        if box.member is None or box.etcd_broken or all(entry.id != box.member for entry in self.world.entries):
            raise TalosError(f"{machine.name}: connection to etcd refused")
        return box

    def etcd_members(self, machine: Machine) -> Sequence[EtcdMember]:
        self._etcd(machine)
        if not self.world.quorate():
            raise TalosError("etcdserver: no leader")
        return [
            EtcdMember(f"{entry.id:016x}", entry.name, entry.address, entry.learner) for entry in self.world.entries
        ]

    def etcd_problem(self, machine: Machine) -> str:
        self._etcd(machine)
        return "" if self.world.quorate() else "etcd has no leader"

    def snapshot(self, machine: Machine, recipients: Sequence[str]) -> Generator[bytes, None, None]:
        raise NotImplementedError

    def upgrade(self, machine: Machine, image: str, seconds: float, say: Say) -> None:
        box = self._call(machine, change=True)
        world = self.world
        world.log.append(f"{world.now:.0f} upgrade {machine.name} {image}")
        world.advance(60, quiet=True)
        if world.rng.random() < world.faults.kill:
            raise Killed  # between the installation and the reboot: nothing goes down
        box.staged = image.rpartition(":")[2].removeprefix("v")
        world.reboot(box)
        self._answer(machine)
        world.advance(max(0.0, box.up_at - world.now) + 10)
        self._answer(machine)

    def upgrade_kubernetes(
        self, machine: Machine, version: str, images: KubernetesImages, server: str | None, seconds: float, say: Say
    ) -> None:
        self._call(machine, change=True)
        world = self.world
        world.log.append(f"{world.now:.0f} upgrade-k8s {version}")
        for box in sorted(world.boxes.values(), key=lambda b: b.address):
            if not box.configured:
                continue
            if not world.running(box):
                raise Unreachable(f"{box.name} is not reached")
            box.kubernetes = version
            world.advance(30)
            self._answer(machine)
        world.kubernetes = version

    def leave_etcd(self, machine: Machine) -> None:
        box = self._etcd(machine)
        self.world.log.append(f"{self.world.now:.0f} leave {machine.name}")
        self._remove(box.member)
        box.left = True
        self._answer(machine)

    def remove_etcd_member(self, via: Machine, member_id: str) -> None:
        self._etcd(via)
        self.world.log.append(f"{self.world.now:.0f} remove {member_id} via {via.name}")
        self._remove(int(member_id, 16))
        self._answer(via)

    def _remove(self, member: int | None) -> None:
        world = self.world
        if not world.quorate():
            raise TalosError("etcdserver: no leader")
        world.entries = [entry for entry in world.entries if entry.id != member]
        for box in world.boxes.values():
            if box.member == member:
                box.member = None
                box.left = True
        world.check()

    def reset(self, machine: Machine, *, graceful: bool) -> None:
        box = self._call(machine, change=True)
        world = self.world
        world.log.append(f"{world.now:.0f} reset {machine.name}{' gracefully' if graceful else ''}")
        if graceful and not self._left(box):
            world.log.append(f"{world.now:.0f} reset of {machine.name} failed")
            return
        fresh = Box(box.address, box.version, up_at=world.now + 120, ours=True)
        world.boxes[box.address] = fresh
        world.check()
        self._answer(machine)

    def _left(self, box: Box) -> bool:
        """Leave etcd on the way down; False when that fails and the machine runs on.

        A learner that has not started is no member in its own eyes (siderolabs/talos `v1alpha1_sequencer_tasks.go`,
        `LeaveEtcd`).
        """
        own = next((entry for entry in self.world.entries if entry.id == box.member), None)
        if own is None or (own.learner and self.world.rng.random() < 0.5):
            return True
        if box.etcd_broken or not self.world.quorate():
            return False
        self._remove(box.member)
        return True

    def kubeconfig(self, machine: Machine) -> str:
        raise NotImplementedError


class FakeNodes:
    """The Kubernetes API of the world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def _call(self) -> None:
        dice = self.world.rng.random()
        if dice < self.world.faults.kill:
            raise Killed
        if dice < self.world.faults.kill + self.world.faults.refuse or not self.world.quorate():
            raise KubernetesError("the Kubernetes API is not reached")

    def status(self, name: str) -> NodeStatus | None:
        self._call()
        node = self.world.nodes.get(name)
        box = next((box for box in self.world.boxes.values() if box.name == name), None)
        if node is None or box is None:
            return None
        return NodeStatus(name, self.world.running(box), not node.cordoned)

    def kubelets(self) -> dict[str, str]:
        self._call()
        return {box.name: box.kubernetes for box in self.world.boxes.values() if box.name in self.world.nodes}

    def cordon(self, name: str) -> None:
        self._call()
        node = self.world.nodes.get(name)
        if node is not None and not node.cordoned:
            node.cordoned = node.ours = True

    def drain(self, name: str, seconds: float, *, bare: bool, say: Say) -> None:
        self._call()
        self.world.advance(20)
        if self.world.rng.random() < self.world.faults.refuse:
            raise KubernetesError(f"{name} was not drained within 1 minutes")

    def uncordon(self, name: str) -> None:
        self._call()
        node = self.world.nodes.get(name)
        if node is not None and node.ours:
            node.cordoned = node.ours = False

    def delete(self, name: str) -> None:
        self._call()
        self.world.nodes.pop(name, None)

    def listed(self) -> list[dict[str, Any]]:
        self._call()
        return [
            {
                "metadata": {"name": box.name},
                "status": {"addresses": [{"type": "InternalIP", "address": box.address}]},
            }
            for box in self.world.boxes.values()
            if box.name in self.world.nodes
        ]

    def forget_token(self, token_id: str) -> None:
        self._call()
        self.world.forgotten.append(token_id)


def cluster_in(world: World, members: Sequence[Machine]) -> Cluster:
    @contextmanager
    def nodes() -> Iterator[FakeNodes]:
        yield FakeNodes(world)

    def snapshot(machine: Machine) -> None:
        if not world.quorate():
            raise Broken("a snapshot without quorum")
        world.snapshots += 1

    nothing: Callable[[str], None] = lambda line: None  # noqa: E731
    return Cluster(
        FakeTalos(world),
        members,
        nodes,
        snapshot,
        nothing,
        world.warnings.append,
        Limits(),
        lambda: world.now,
        world.advance,
    )
