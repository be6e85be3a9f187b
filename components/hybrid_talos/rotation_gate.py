"""The work of Rotation: whether a stage may begin, asked of every machine before any is changed."""

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi.dynamic import DiffResult

from . import life_props, rotation
from ._contract import BadInputs
from .cluster_work import Cluster
from .life_props import Properties
from .node_template import TEMPLATE_LABEL
from .rotation import TALOS, TOKENS, Step
from .talos_calls import Machine, TalosError
from .talos_yaml import load
from .work_provider import WorkError


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    return life_props.check_machine(news)


def planned(olds: Properties, news: Properties) -> tuple[Properties, dict[str, str]]:
    """Return the inputs with what the stages mean, and why one is refused after what was begun."""
    old, new = rotation.steps_of(olds.get("steps")), rotation.steps_of(news["steps"])
    news["plan"] = olds.get("plan", [])
    if old == new:
        return news, {}
    news["plan"] = [rotation.step_plan(part, old[part], new[part]) for part in sorted(new) if old[part] != new[part]]
    problems = [
        problem for part in sorted(new) if (problem := rotation.step_problem(part, old[part], new[part])) is not None
    ]
    return news, {"rotation": "; ".join(problems)} if problems else {}


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Any change is recorded."""
    return life_props.recorded(olds, news, ignored=("plan",))


def create(props: Properties) -> tuple[str, Properties]:
    """See that the first stage may begin."""
    _may_begin({}, props)
    return "rotation", props


def read(props: Properties) -> Properties:
    """Return the resource as it is: a refresh touches no machine."""
    return props


def update(olds: Properties, news: Properties) -> Properties:
    """See that the next stage may begin."""
    _may_begin(olds, news)
    return news


def delete(_props: Properties) -> None:
    """Do nothing."""


def _may_begin(olds: Properties, news: Properties) -> None:
    old, new = rotation.steps_of(olds.get("steps")), rotation.steps_of(news["steps"])
    begins = {part: step for part, step in new.items() if step != old[part] and step.generation >= old[part].generation}
    asked = {part: step for part, step in begins.items() if not (part == TALOS and step.stage == "accept")}
    if not asked:
        return
    with life_props.cluster_of(news) as cluster:
        ready(cluster, asked, authority=str(news["authority"]), token=str(news["token"]))


def ready(cluster: Cluster, steps: Mapping[str, Step], *, authority: str, token: str) -> None:
    """Ask every Node of the cluster whether it is ready for ``steps``; WorkError names those that are not.

    ``authority`` is the new one's certificate, and ``token`` the id of the new bootstrap token.
    """
    problems: list[str] = []
    with cluster.nodes() as nodes:
        listed = nodes.listed()
    for node, pool in sorted(_machines(cluster, listed), key=lambda found: found[0].name):
        try:
            main = _main_document(cluster.talos.configuration(node))
        except (TalosError, BadInputs) as error:
            if pool:
                cluster.warn(
                    f"{node.name}, a machine of a pool, does not show its configuration ({error}): replace it when it "
                    "is older than the first stage of this rotation (python -m stacks.roll)"
                )
            else:
                problems.append(f"{node.name} does not show its configuration ({error})")
            continue
        lacks = _lacks(main, steps, authority, token, pool=pool)
        if lacks:
            way = "replace it (python -m stacks.roll)" if pool else "run `pulumi up` with the stage before"
            problems.append(f"{node.name} {lacks}: {way}")
    if problems:
        raise WorkError(
            f"the rotation does not go on, and no machine was changed: {'; '.join(problems)}. Next: do that, repair or "
            "remove machines that do not answer, then run `pulumi up` again"
        )


def _lacks(main: Mapping[str, Any], steps: Mapping[str, Step], authority: str, token: str, *, pool: bool) -> str | None:
    talos, tokens = steps.get(TALOS), steps.get(TOKENS)
    # Of a pool's machine nothing breaks before the old authority is gone: it keeps its certificates for hours.
    if talos is not None and (talos.stage == "finish" or not pool) and not rotation.knows_authority(main, authority):
        return "does not know the new Talos authority yet"
    if tokens is not None and tokens.stage == "finish" and not rotation.uses_token(main, token):
        return "has the old join tokens"
    return None


def _machines(cluster: Cluster, listed: list[dict[str, Any]]) -> Iterator[tuple[Machine, bool]]:
    """Yield each Node's machine, and whether it is one of a pool; others are reached through a control plane."""
    known = {member.address: member for member in cluster.members}
    yield from ((member, False) for member in known.values())
    for node in listed:
        addresses = [
            str(entry.get("address"))
            for entry in (node.get("status") or {}).get("addresses") or ()
            if entry.get("type") == "InternalIP"
        ]
        if not addresses or any(address in known for address in addresses):
            continue
        metadata = node.get("metadata") or {}
        pool = TEMPLATE_LABEL in (metadata.get("labels") or {})
        yield Machine(str(metadata.get("name")), addresses[0], cluster.members[0].endpoint), pool


def _main_document(text: str) -> Mapping[str, Any]:
    for document in load(text, "the configuration"):
        if "kind" not in document:
            return document
    raise BadInputs("it has no main document")
