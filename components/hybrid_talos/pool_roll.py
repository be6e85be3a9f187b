"""Rolling replacement: machines of a pool that are not made as new ones would be give way to new ones, one by one.

The same for both clouds. What to do next is a pure function of what is seen (:func:`next_step`), so a run that was
killed is gone on from by looking again. Only the difference that the roll itself has made to the pool's size cannot be
seen; it is written down beside the lock, before and after each change of the size.
"""

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Protocol

from .talos_calls import Say
from .work_provider import WorkError

_PAUSE = 5.0


class SizeChanged(Exception):
    """The pool has another size than was seen: somebody else has changed it, so look again."""


@dataclass(frozen=True)
class Instance:
    """A machine as its cloud shows it."""

    id: str
    """What the cloud calls it within the pool."""
    provider_id: str
    """What its Node has as provider ID, in lower case."""
    leaving: bool = False
    """Whether it is being removed."""
    outdated: bool = False
    """Whether the pool's model has changed since, and an update of the instance would bring it along."""


@dataclass(frozen=True)
class PoolNode:
    """A Node as the cluster shows it."""

    name: str
    provider_id: str
    pool: str = ""
    """Value of the pool's label; empty while a new machine has not set its labels."""
    stamp: str = ""
    """Hash of what the machine was made of."""
    ready: bool = True
    schedulable: bool = True


@dataclass(frozen=True)
class Pending:
    """A change of a pool's size that was begun."""

    remove: str = ""
    """The instance to remove, or empty: machines are added."""
    node: str = ""
    """Its Node, if it has one."""
    size: int = 0
    """Size of the pool before machines are added."""
    by: int = 0
    token: str = ""
    """Makes the request the same one when it is sent again."""


@dataclass(frozen=True)
class Progress:
    """What of a roll cannot be seen: what it has made of the pool's size."""

    extra: int = 0
    """How many machines more (or less) than without the roll the pool is to have."""
    pending: Pending | None = None


class PoolCloud(Protocol):
    """The machines of one pool in its cloud."""

    def instances(self) -> Sequence[Instance]:
        """Return all machines, once no change of the pool that the cloud has begun is under way."""

    def size(self) -> int:
        """Return how many machines the pool is to have."""

    def least(self) -> int:
        """Return the fewest machines that the cloud itself lets the pool have."""

    def grow(self, size: int, by: int, token: str) -> None:
        """Let a pool of that ``size`` have ``by`` more machines; SizeChanged when it has another size by now."""

    def remove(self, instance: str) -> None:
        """Remove exactly this machine and lower the pool's size by one; return when it is gone."""

    def update(self, instance: str) -> None:
        """Bring the pool's model to a machine that needs no replacement for it."""


class PoolNodes(Protocol):
    """The Nodes of the cluster."""

    def nodes(self) -> Sequence[PoolNode]:
        """Return all Nodes."""

    def hold(self, name: str) -> None:
        """Keep the autoscaler from taking a Node away, if nobody else does so already."""

    def let_go(self) -> Sequence[str]:
        """Undo every `hold` and cordon of a roll of this pool; return the names of those Nodes."""

    def cordon(self, name: str) -> None:
        """Let no new pods come to a Node."""

    def drain(self, name: str, seconds: float, *, bare: bool, say: Say) -> None:
        """Evict its pods, budgets honoured, within so many seconds."""

    def delete(self, name: str) -> None:
        """Delete a Node; one that is gone is no error."""


class Journal(Protocol):
    """The lock of a pool's roll, with what is written down there."""

    def held(self) -> AbstractContextManager[Progress]:
        """Hold the lock; yield what an earlier roll left."""

    def write(self, progress: Progress) -> None:
        """Write down how it stands; also tells that the holder lives."""

    def alive(self) -> None:
        """Tell that the holder lives; WorkError when another has taken the lock."""


@dataclass(frozen=True)
class Rule:
    """How a pool is rolled."""

    pool: str
    """Value of the pool's label."""
    stamp: str
    """Hash of what new machines are made of."""
    most: int
    """Most machines of the pool."""
    max_surge: int = 1
    """Machines that may be there beyond the pool's size."""
    max_unavailable: int = 0
    """Machines that may be missing from the pool's size."""
    drain_seconds: float = 900
    join_seconds: float = 1200
    """How long a new machine may take until its Node is Ready."""


@dataclass(frozen=True)
class Pair:
    """A machine and its Node, if it has one."""

    instance: Instance
    node: PoolNode | None

    @property
    def name(self) -> str:
        """What people know it by."""
        return self.node.name if self.node is not None else f"machine {self.instance.id}"

    @property
    def available(self) -> bool:
        """Whether pods can run there."""
        return self.node is not None and self.node.ready and self.node.schedulable and not self.instance.leaving


@dataclass(frozen=True)
class View:
    """A pool as it is seen."""

    pairs: Sequence[Pair]
    size: int
    least: int
    extra: int
    broken: frozenset[str] = frozenset()
    """Machines from before the roll that never became a Node."""

    def stale(self, rule: Rule) -> list[Pair]:
        """Return the machines that have to go, those first whose going costs nothing."""
        found = [pair for pair in self.pairs if is_stale(pair, rule) or pair.instance.id in self.broken]
        return sorted((pair for pair in found if not pair.instance.leaving), key=lambda p: (p.available, p.name))


def is_stale(pair: Pair, rule: Rule) -> bool:
    """Tell whether a machine is known to be made of something else than new ones.

    One whose Node does not bear the pool's label yet is not: Talos sets all labels at once, after the Node is there.
    """
    return pair.node is not None and pair.node.pool == rule.pool and pair.node.stamp != rule.stamp


@dataclass(frozen=True)
class Step:
    """What to do next: one of the fields is set."""

    grow: int = 0
    replace: Pair | None = None
    wait: str = ""
    """What is waited for."""
    stop: str = ""
    """Why it cannot go on."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return not (self.grow or self.replace or self.wait or self.stop)


def next_step(view: View, rule: Rule) -> Step:
    """Return what brings the pool nearer to having new machines only, within the rule."""
    if leaving := [pair.name for pair in view.pairs if pair.instance.leaving]:
        return Step(wait=f"{', '.join(sorted(leaving))} to be gone")
    stale = view.stale(rule)
    # What was taken away comes back first, whether or not there is more to do.
    if view.extra < 0:
        return Step(grow=-view.extra)
    room = max(rule.most - view.size, 0)
    wanted = min(rule.max_surge, len(stale)) - view.extra
    if wanted > 0 and room > 0:
        return Step(grow=min(wanted, room))
    if stale:
        victim = stale[0]
        left = sum(pair.available for pair in view.pairs) - victim.available
        enough = left >= view.size - view.extra - rule.max_unavailable
        below = view.size - 1 < view.least
        if (enough or not victim.available) and not below:
            return Step(replace=victim)
        if below:
            return Step(
                stop=f"the pool has its fewest machines, {view.size}, and the cloud takes none away: let it have one "
                "more for the time (maxSurge 1, and a maxSize above minSize)"
            )
        if view.extra == 0 and rule.max_unavailable == 0 and (rule.max_surge == 0 or room == 0):
            return Step(
                stop=f"the pool has its most machines, {view.size}, so there is no room for a new one before an old "
                "one goes: raise maxSize, or set maxUnavailable to 1"
            )
    waiting = [pair.name for pair in view.pairs if not is_stale(pair, rule) and not pair.available]
    if missing := view.size - len(view.pairs):
        waiting.append(f"{missing} new machines" if missing > 1 else "a new machine")
    if waiting and (stale or any(_young(pair, rule) for pair in view.pairs) or missing > 0):
        return Step(wait=f"{', '.join(sorted(waiting))} to be Ready")
    if stale:
        return Step(wait="enough machines to be Ready")
    return Step()


def _young(pair: Pair, rule: Rule) -> bool:
    """Tell whether a machine is one that this or an earlier roll has brought, and is not there yet."""
    return not pair.available and (pair.node is None or pair.node.pool != rule.pool or pair.node.schedulable)


@dataclass
class Roll:
    """One roll of one pool."""

    rule: Rule
    cloud: PoolCloud
    nodes: PoolNodes
    journal: Journal
    say: Say
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _progress: Progress = field(default_factory=Progress)
    _before: frozenset[str] | None = None
    _broken: frozenset[str] = frozenset()

    def run(self) -> list[str]:
        """Replace all stale machines; return the names of those that were replaced.

        Raises WorkError at the first failure. Nodes are then as before, but for those that are new; running it again
        goes on.
        """
        done: list[str] = []
        with self.journal.held() as self._progress:
            try:
                self._finish_pending()
                self._loop(done)
            except BaseException:
                self._tidy()
                raise
            # Not before it is known that nothing is left: whoever reads an empty entry may start anew.
            self.nodes.let_go()
            self._write(Progress())
        return done

    def _tidy(self) -> None:
        try:
            self.nodes.let_go()
        except WorkError as error:
            self.say(f"the annotations of the roll are still there ({error}); the next `pulumi up` removes them")

    def _loop(self, done: list[str]) -> None:
        end, last = self.clock() + self.rule.join_seconds, ""
        while True:
            view = self._look()
            step = next_step(view, self.rule)
            if step.done:
                return
            if step.stop:
                raise WorkError(f"{self.rule.pool}: {step.stop}")
            if step.wait:
                if self.clock() >= end:
                    if broken := self._never_joined(view) - self._broken:
                        self._broken |= broken
                        continue
                    raise WorkError(
                        f"{self.rule.pool}: waited {self.rule.join_seconds / 60:.0f} minutes for {step.wait}. Next: "
                        "look at the machine's console, put right what keeps it from joining, and roll again"
                    )
                if step.wait != last:
                    self.say(f"{self.rule.pool}: waiting for {step.wait}")
                    last = step.wait
                self.journal.alive()
                self.sleep(_PAUSE)
                continue
            if step.grow:
                self._grow(view.size, step.grow)
            elif step.replace is not None:
                self._replace(step.replace)
                done.append(step.replace.name)
            end, last = self.clock() + self.rule.join_seconds, ""

    def _look(self) -> View:
        pairs = pairs_of(self.cloud.instances(), self.nodes.nodes())
        if self._before is None:
            self._before = frozenset(pair.instance.id for pair in pairs)
        for pair in pairs:
            if pair.node is not None:
                self.nodes.hold(pair.node.name)
        size = self.cloud.size()
        # Somebody else may have taken away what the roll has added.
        extra = self._progress.extra
        if extra > 0:
            new = sum(not is_stale(pair, self.rule) for pair in pairs) + max(size - len(pairs), 0)
            if new < extra:
                extra = new
                self._write(Progress(extra))
        return View(pairs, size, self.cloud.least(), extra, self._broken)

    def _never_joined(self, view: View) -> frozenset[str]:
        ids = {pair.instance.id for pair in view.pairs if pair.node is None}
        return frozenset(ids & (self._before or frozenset()))

    def _grow(self, size: int, by: int) -> None:
        token = uuid.uuid4().hex
        self._write(replace(self._progress, pending=Pending(size=size, by=by, token=token)))
        self.say(f"{self.rule.pool}: adding {by} to {size} machines")
        try:
            self.cloud.grow(size, by, token)
        except SizeChanged:
            by = 0
        self._write(Progress(self._progress.extra + by))

    def _replace(self, pair: Pair) -> None:
        if pair.node is not None:
            self.say(f"{self.rule.pool}: {pair.name}: cordon and drain")
            self.nodes.cordon(pair.node.name)
            self.nodes.drain(pair.node.name, self.rule.drain_seconds, bare=True, say=self._alive_say)
        node = pair.node.name if pair.node is not None else ""
        self._write(replace(self._progress, pending=Pending(remove=pair.instance.id, node=node)))
        self.say(f"{self.rule.pool}: {pair.name}: removing machine {pair.instance.id}")
        self.cloud.remove(pair.instance.id)
        if node:
            self.nodes.delete(node)
        self._write(Progress(self._progress.extra - 1))

    def _alive_say(self, line: str) -> None:
        self.journal.alive()
        self.say(line)

    def _finish_pending(self) -> None:
        """Find out whether what was begun when an earlier run ended has happened."""
        pending = self._progress.pending
        if pending is None:
            return
        extra = self._progress.extra
        instances = self.cloud.instances()
        if pending.remove:
            there = {item.id: item for item in instances}
            end = self.clock() + self.rule.join_seconds
            while pending.remove in there and there[pending.remove].leaving and self.clock() < end:
                self.journal.alive()
                self.sleep(_PAUSE)
                there = {item.id: item for item in self.cloud.instances()}
            if pending.remove not in there:
                extra -= 1
                if pending.node:
                    self.nodes.delete(pending.node)
        elif self.cloud.size() > pending.size:
            extra += pending.by
        self._write(Progress(extra))

    def _write(self, progress: Progress) -> None:
        self.journal.write(progress)
        self._progress = progress


def pairs_of(instances: Sequence[Instance], nodes: Sequence[PoolNode]) -> list[Pair]:
    """Return a pool's machines, each with its Node; the clouds do not keep upper and lower case in their ids."""
    by_id = {node.provider_id.lower(): node for node in nodes if node.provider_id}
    return [Pair(item, by_id.get(item.provider_id.lower())) for item in sorted(instances, key=lambda i: i.id)]


def stale_names(pairs: Sequence[Pair], rule: Rule) -> list[str]:
    """Return the names of the Nodes that are made of something else than new ones, sorted."""
    return sorted(pair.name for pair in pairs if is_stale(pair, rule))


def to_update(pairs: Sequence[Pair], rule: Rule) -> list[Pair]:
    """Return the machines that are made as new ones, and have an older model otherwise.

    Only those: a stale machine would get the new image as well, which replaces its disk without a drain
    (learn.microsoft.com, "Modify a Virtual Machine Scale Set").
    """
    return [
        pair
        for pair in pairs
        if pair.instance.outdated
        and not pair.instance.leaving
        and pair.node is not None
        and pair.node.pool == rule.pool
        and pair.node.stamp == rule.stamp
    ]


def bring_model(rule: Rule, cloud: PoolCloud, nodes: PoolNodes, say: Say) -> list[str]:
    """Bring the pool's model to the machines that need no replacement for it; return their names."""
    found = to_update(pairs_of(cloud.instances(), nodes.nodes()), rule)
    for pair in found:
        say(f"{rule.pool}: {pair.name}: applying the pool's model, without a restart")
        cloud.update(pair.instance.id)
    return [pair.name for pair in found]
