"""The work of Membership: which control planes there shall be, and whether the step to them keeps quorum."""

from typing import Any

from pulumi.dynamic import DiffResult

from . import life_plan, life_props
from .cluster_work import Cluster, healthy_member, look_at_etcd, take_snapshot
from .life_props import Properties
from .work_provider import is_unknown


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    return life_props.check_machine(news)


def _addresses(props: Properties) -> dict[str, str]:
    members: list[dict[str, Any]] = list(props.get("members") or ())
    return {str(member["name"]): str(member["address"]) for member in members}


def planned(olds: Properties, news: Properties) -> tuple[Properties, dict[str, str]]:
    """Return the inputs with the steps to the new list, and why it is refused; both show in a preview."""
    news["plan"] = olds.get("plan", [])
    if not olds or is_unknown(news.get("members")):
        return news, {}
    old, new = _addresses(olds), _addresses(news)
    if old == new:
        return news, {}
    news["plan"] = life_plan.membership_plan(old, new)
    problem = life_plan.membership_problem(old, new)
    return news, {"members": problem} if problem else {}


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Any change is recorded."""
    return life_props.recorded(olds, news, ignored=("plan",))


def create(props: Properties) -> tuple[str, Properties]:
    """Record the members of the birth."""
    return "membership", props


def read(props: Properties) -> Properties:
    """Return the resource as it is: a refresh touches no machine."""
    return props


def update(olds: Properties, news: Properties) -> Properties:
    """Make way for new members: dead ones that are not wanted any more leave etcd."""
    old, new = _addresses(olds), _addresses(news)
    if old != new:
        # Asked through those that stay and those that go alike.
        every = {str(m["address"]): m for m in [*(olds.get("members") or ()), *(news.get("members") or ())]}
        with life_props.cluster_of({**news, "members": [every[key] for key in sorted(every)]}) as cluster:
            make_way(cluster, new)
    return news


def make_way(cluster: Cluster, wanted: dict[str, str]) -> list[str]:
    """Take dead members that are not ``wanted`` out of etcd; return their names.

    Nothing is done when etcd is not whole enough for that: the removal of the machine then says what is wrong.
    """
    etcd = look_at_etcd(cluster)
    if not etcd.born or etcd.problem:
        return []
    strangers = life_plan.dead_strangers(etcd.voters, wanted)
    if strangers:
        # One look may have met a machine that just reboots.
        cluster.sleep(cluster.limits.lost)
        etcd = look_at_etcd(cluster)
        strangers = life_plan.dead_strangers(etcd.voters, wanted)
    if strangers:
        take_snapshot(cluster, etcd)
    for stranger in strangers:
        cluster.say(f"{stranger.known_as} is dead and not wanted any more: taking it out of etcd")
        cluster.talos.remove_etcd_member(healthy_member(cluster, etcd), stranger.id)
    return [stranger.known_as for stranger in strangers]


def delete(_props: Properties) -> None:
    """Do nothing: each machine is removed by its own resource."""
