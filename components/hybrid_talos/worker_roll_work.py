"""The work of WorkerRoll: one pool's stale nodes are listed, updated in place, or replaced.

Properties: `cloud` (azure or aliyun), `pool` (value of the pool's label), `group` (id of the scale set or the scaling
group), `stamp`, `most`, `max_surge`, `max_unavailable`, `drain_minutes`, `join_minutes`, `on_up`, `kubeconfig` (a
secret), `kubernetes_server` (an address to connect to in place of the kubeconfig's, or None), `plan` (words for a
preview); for Azure `environment` and `resource_manager`, for Alibaba Cloud `region` and `ess`. It finds out `stale`
(names of Nodes), `outdated` (of those that an update in place would help) and `held` (of those that a killed roll has
left held).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pulumi.dynamic import DiffResult

from .engine_log import engine_sender, note
from .kubernetes_nodes import nodes_of
from .pool_nodes import KubernetesPoolNodes, LeaseJournal
from .pool_roll import PoolCloud, Roll, Rule, bring_model, pairs_of, stale_names, to_update
from .talos_calls import Say
from .work_provider import WorkError, changed, is_unknown

Properties = dict[str, Any]

_WATCHED = (
    *("cloud", "pool", "group", "stamp", "most", "max_surge", "max_unavailable", "drain_minutes", "join_minutes"),
    *("on_up", "kubeconfig", "kubernetes_server", "environment", "resource_manager", "region", "ess"),
)


@dataclass(frozen=True)
class Pool:
    """One pool, opened."""

    rule: Rule
    cloud: PoolCloud
    nodes: KubernetesPoolNodes
    journal: LeaseJournal
    say: Say

    def roll(
        self, clock: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep
    ) -> list[str]:
        """Replace the stale machines; return the names of those that were replaced."""
        return Roll(self.rule, self.cloud, self.nodes, self.journal, self.say, clock, sleep).run()

    def update(self) -> list[str]:
        """Bring the pool's model to machines that need no replacement for it; return their names."""
        return bring_model(self.rule, self.cloud, self.nodes, self.say)

    def let_go(self) -> list[str]:
        """Undo what a killed roll has left on Nodes, unless it is one that runs."""
        if not self.nodes.held():
            return []
        with self.journal.held():
            return list(self.nodes.let_go())

    def found(self) -> Properties:
        """Return what is to be known of the pool."""
        pairs = pairs_of(self.cloud.instances(), self.nodes.nodes())
        return {
            "stale": stale_names(pairs, self.rule),
            "outdated": sorted(pair.name for pair in to_update(pairs, self.rule)),
            "held": self.nodes.held(),
        }


@contextmanager
def pool_of(props: Properties, say: Say) -> Iterator[Pool]:
    """Open the pool of a resource: its cloud and its cluster."""
    rule = Rule(
        pool=props["pool"],
        stamp=props["stamp"],
        most=int(props["most"]),
        max_surge=int(props["max_surge"]),
        max_unavailable=int(props["max_unavailable"]),
        drain_seconds=float(props["drain_minutes"]) * 60,
        join_seconds=float(props["join_minutes"]) * 60,
    )
    with nodes_of(props["kubeconfig"], props.get("kubernetes_server")) as nodes, _cloud(props, say) as cloud:
        journal = LeaseJournal(nodes.api, rule.pool, say, sleep=time.sleep)
        yield Pool(rule, cloud, KubernetesPoolNodes(nodes, rule.pool), journal, say)


@contextmanager
def _cloud(props: Properties, say: Say) -> Iterator[PoolCloud]:
    # Each cloud's client is imported only where a pool of it is rolled.
    if props["cloud"] == "azure":
        from .azure_pool import azure_pool  # noqa: PLC0415

        with azure_pool(props, props["group"], say) as pool:
            yield pool
    else:
        from .aliyun_pool import AliyunPool  # noqa: PLC0415

        yield AliyunPool(props, props["group"], say)


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    problems: dict[str, str] = {}
    if news.get("cloud") not in ("azure", "aliyun"):
        problems["cloud"] = "must be azure or aliyun"
    surge, unavailable = news.get("max_surge"), news.get("max_unavailable")
    if not is_unknown(surge) and not is_unknown(unavailable) and not int(surge or 0) + int(unavailable or 0) > 0:
        problems["max_surge"] = "must be 1 or more where max_unavailable is 0: no machine could ever be replaced"
    for key in ("resource_manager", "kubernetes_server"):
        value = news.get(key)
        if isinstance(value, str) and not value.startswith("https://"):
            problems[key] = "must begin with https://, since credentials go there"
    return problems


def diff(olds: Properties, news: Properties) -> DiffResult:
    """A changed hash or rule is a change, and so is what an earlier run or somebody else has left to do."""
    left = bool(olds.get("held") or olds.get("outdated") or (news.get("on_up") and olds.get("stale")))
    return DiffResult(changes=left or any(changed(key, olds, news) for key in _WATCHED), replaces=[])


def create(props: Properties) -> tuple[str, Properties]:
    """Do what there is to do; list what is stale."""
    return f"{props['cloud']}/{props['pool']}", _done(props)


def update(_olds: Properties, news: Properties) -> Properties:
    """Do what there is to do; list what is stale."""
    return _done(news)


def read(props: Properties) -> Properties:
    """List what is stale now; nothing is touched, and a cluster that is down changes nothing."""
    try:
        with pool_of(props, engine_sender()) as pool:
            return {**props, **pool.found()}
    except WorkError:
        return props


def delete(_props: Properties) -> None:
    """Do nothing: nodes go with their pool."""


def _done(props: Properties) -> Properties:
    say = engine_sender()
    try:
        with pool_of(props, say) as pool:
            pool.let_go()
            pool.update()
            if props["on_up"]:
                pool.roll()
            found = pool.found()
    except WorkError as error:
        if props["on_up"]:
            raise WorkError(f"{error}. What was replaced stays; run `pulumi up` again to go on") from None
        # Without a roll to do, a list that cannot be made is no reason to fail.
        note(f"the stale nodes of {props['pool']} are not known: {error}", warning=True)
        return {**props, "stale": None, "outdated": None, "held": None}
    if found["stale"]:
        names = ", ".join(found["stale"])
        note(
            f"{props['pool']}: made of an older image or configuration: {names}. Next: `python -m stacks.roll`",
            warning=True,
        )
    return {**props, **found}
