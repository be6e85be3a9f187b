"""What may be done to a cluster next, and in which order: the decisions, as pure functions.

Nothing here talks to a machine. What the machines say comes in as plain values, and what comes out is None, or the
reason against a step with what to do in its place.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .versions import KUBERNETES_OF_TALOS, check_talos, minor, normalise_version, parse, text


def quorum(members: int) -> int:
    """Return how many of etcd's voters must work: more than half of them."""
    return members // 2 + 1


@dataclass(frozen=True)
class Voter:
    """A member of etcd as the others see it."""

    id: str
    name: str
    """Host name; empty for one that never started."""
    address: str
    """Address at which the other members reach it."""
    learner: bool = False
    healthy: bool = False
    lacks: str = ""
    """What is wrong with one that is not healthy."""

    @property
    def known_as(self) -> str:
        """Return a name to print."""
        return self.name or self.address or self.id


def find(voters: Iterable[Voter], name: str, address: str) -> Voter | None:
    """Return a machine's own member: by its address, and by its name only where no address is known.

    Two members may bear one name, the machine and the one that it replaces.
    """
    known = list(voters)
    for voter in known:
        if voter.address == address:
            return voter
    return next((voter for voter in known if not voter.address and voter.name == name), None)


def _voting(voters: Iterable[Voter]) -> list[Voter]:
    return [voter for voter in voters if not voter.learner]


def _lacking(voters: Iterable[Voter]) -> str:
    return "; ".join(f"{voter.known_as}: {voter.lacks or 'is not healthy'}" for voter in voters)


def whole_problem(voters: Sequence[Voter], but: str = "") -> str | None:
    """Return which member of etcd, ``but`` the one at that address, is not healthy or not yet a voter, or None."""
    others = [voter for voter in voters if voter.address != but]
    ill = [voter for voter in others if not voter.healthy]
    if ill:
        total, well = len(_voting(voters)), len([v for v in _voting(others) if v.healthy])
        return (
            f"another member of etcd is not healthy ({_lacking(ill)}): with this one down too {well} of {total} would "
            f"work, and a quorum is {quorum(total)}"
        )
    learners = [voter for voter in others if voter.learner]
    if learners:
        return f"{learners[0].known_as} is just joining etcd and does not vote yet"
    return None


def count_problem(voters: Sequence[Voter], address: str, wanted: int) -> str | None:
    """Return why etcd has too few members for the machine at ``address`` to go down, or None.

    A cluster that is ``wanted`` to have one member goes down with its machine; whoever has one knows that.
    """
    voting = _voting(voters)
    others = [voter for voter in voting if voter.address != address]
    if len(others) == len(voting) or wanted == 1 or len(others) >= quorum(len(voting)):
        return None
    members = "1 member, which is" if len(voting) == 1 else f"{len(voting)} members and needs"
    return f"etcd has {members} {quorum(len(voting))} for a quorum, so none may go down until another one has joined"


def touch_problem(voters: Sequence[Voter], address: str, wanted: int) -> str | None:
    """Return why the machine at ``address`` must not go down now, be it for a reboot, or None.

    More is asked for than quorum: nobody takes a member down while another is down already.
    """
    return whole_problem(voters, address) or count_problem(voters, address, wanted)


def removal_problem(voters: Sequence[Voter], leaving: Voter, wanted: int) -> str | None:
    """Return why a member must not leave etcd now, with the sum that shows it, or None.

    A cluster that is ``wanted`` to have so many members keeps a majority of that number, in which others may be about
    to join; a member that is dead may go in any case, since nobody can join while it is listed.
    """
    rest = [voter for voter in _voting(voters) if voter.id != leaving.id]
    if leaving.learner:
        return None
    if not rest:
        return f"{leaving.known_as} is the last member of etcd: with it the cluster and its data would be gone"
    well = [voter for voter in rest if voter.healthy]
    ill = [voter for voter in rest if not voter.healthy]
    if len(well) < quorum(len(rest)):
        return (
            f"without {leaving.known_as} etcd has {len(rest)} members and needs {quorum(len(rest))} of them, but only "
            f"{len(well)} are healthy ({_lacking(ill)})"
        )
    if leaving.healthy and len(rest) < quorum(wanted):
        return (
            f"etcd would have {len(rest)} members, and a cluster of {wanted} keeps {quorum(wanted)} at least: the "
            "others must join first"
        )
    if leaving.healthy and ill:
        return (
            f"{_lacking(ill)}, while {leaving.known_as} is healthy: repair or remove the one that is not healthy first"
        )
    return None


def dead_strangers(voters: Sequence[Voter], wanted: Mapping[str, str]) -> list[Voter]:
    """Return the members that are dead and not among the ``wanted`` machines (name to address), which may leave etcd.

    etcd takes no new member while a voter is dead (etcd.io, `--strict-reconfig-check`), so they go before the new ones
    come. One that is alive leaves later, after the new ones came.
    """
    found: list[Voter] = []
    left = list(voters)
    for voter in sorted(voters, key=lambda v: (v.address, v.id)):
        if voter.healthy or any(voter.address == address for address in wanted.values()):
            continue
        # Never started: the machine that it was meant for may be just booting.
        if not voter.name and not voter.address:
            continue
        if removal_problem(left, voter, len(wanted)) is None:
            found.append(voter)
            left.remove(voter)
    return found


def membership_problem(old: Mapping[str, str], new: Mapping[str, str]) -> str | None:
    """Return why a list of control planes (name to address) cannot follow another in one step, with the sum, or None.

    The machines that stay must be a majority of the old ones: they alone know the cluster's data all the time.
    """
    if not old:
        return None
    stay = [name for name in old if new.get(name) == old[name]]
    gone = sorted(set(old) - set(stay))
    need, most = quorum(len(old)), len(old) - quorum(len(old))
    if len(stay) >= need:
        return None
    many = f"{len(gone)} of {len(old)} control planes ({', '.join(gone)}) would go or get another address"
    sum_ = f"{len(old)} members need {need} for a quorum ({len(old)} / 2 + 1), and {len(stay)} would stay"
    if most == 0:
        step = "add two more first, run `pulumi up`, then remove this one"
    elif len(old) == 3 and len(new) == 1:
        step = (
            "a cluster of 3 cannot shrink to 1, since 2 members survive no loss: make a new cluster of 1 and restore a "
            "snapshot into it"
        )
    else:
        step = f"change at most {most} at a time, and run `pulumi up` in between"
    return f"{many}: {sum_}. Next: {step}"


def membership_plan(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """Return what happens to the control planes, in order, each step with its sum."""
    count = len(old)
    steps: list[str] = []
    replaced = sorted(name for name in old if name in new and new[name] != old[name])
    for name in replaced:
        steps.append(f"remove {name} at {old[name]}: {count} -> {count - 1} members, {quorum(count - 1)} for a quorum")
        steps.append(f"add {name} at {new[name]}: {count - 1} -> {count} members, {quorum(count)} for a quorum")
    for name in sorted(set(new) - set(old)):
        count += 1
        steps.append(f"add {name}: {count - 1} -> {count} members, {quorum(count)} for a quorum")
    for name in sorted(set(old) - set(new), reverse=True):
        count -= 1
        steps.append(f"remove {name}: {count + 1} -> {count} members, {quorum(count)} for a quorum")
    return steps


def talos_step_problem(old: str, new: str, kubernetes: str) -> str | None:
    """Return why Talos cannot go from one version to another in one step while it runs ``kubernetes``, or None.

    Talos is upgraded from a minor to the next (siderolabs/talos website, "Upgrading Talos Linux": the newest patch of
    each minor in between).
    """
    before, after = minor(old), minor(new)
    names = f"Talos {normalise_version(old)} -> {normalise_version(new)}"
    if before[0] != after[0]:
        return f"{names} changes the major version, which is not known to this release"
    if after < before:
        return (
            f"{names} goes back by a minor, which Talos does not support: go back with `talosctl rollback` on each "
            f"machine, or restore a snapshot into machines of Talos {text(after)}"
        )
    if after[1] - before[1] > 1:
        way = [text((before[0], between)) for between in range(before[1] + 1, after[1])]
        return (
            f"{names} skips {', '.join(way)}. Next: set the newest {' , then the newest '.join(way)} first, run "
            f"`pulumi up` for each, then {normalise_version(new)}"
        )
    problem = check_talos(new)
    if problem:
        return problem
    oldest, newest = KUBERNETES_OF_TALOS[after]
    running = minor(kubernetes)
    if running < oldest:
        return (
            f"{names}: Talos {text(after)} runs Kubernetes {text(oldest)} to {text(newest)}, and the cluster runs "
            f"{normalise_version(kubernetes)}. Next: stay on Talos {normalise_version(old)}, raise Kubernetes to "
            f"{text(oldest)} one minor at a time, run `pulumi up` for each, then raise Talos"
        )
    if running > newest:
        return (
            f"{names}: Talos {text(after)} runs Kubernetes {text(oldest)} to {text(newest)}, and the cluster runs "
            f"{normalise_version(kubernetes)}"
        )
    return None


def kubernetes_step_problem(old: str, new: str) -> str | None:
    """Return why Kubernetes cannot go from one version to another in one step, or None.

    Its parts tolerate one minor of difference while they are upgraded (kubernetes.io, "Version Skew Policy").
    """
    before, after = minor(old), minor(new)
    names = f"Kubernetes {normalise_version(old)} -> {normalise_version(new)}"
    if after < before or before[0] != after[0]:
        return f"{names} goes back by a minor, which Kubernetes does not support: restore a snapshot in its place"
    if after[1] - before[1] > 1:
        way = [text((before[0], between)) for between in range(before[1] + 1, after[1])]
        return (
            f"{names} skips {', '.join(way)}. Next: set a patch of {', then of '.join(way)} first, run `pulumi up` for "
            f"each, then {normalise_version(new)}"
        )
    return None


def same_version(one: str, other: str) -> bool:
    """Return whether two versions are the same, with or without a leading `v`; text that is none is like nothing."""
    try:
        return parse(one) == parse(other)
    except ValueError:
        return False


def after_which(names: Sequence[str], parallel: int) -> dict[str, str | None]:
    """Return for each name the one that it waits for, so that at most ``parallel`` are changed at once.

    By name, so that another order of the same machines plans nothing.
    """
    ordered = sorted(names)
    return {name: ordered[i - parallel] if i >= parallel else None for i, name in enumerate(ordered)}
