"""Findings about the template that the autoscaler builds of an empty group, against what its nodes register with."""

from collections.abc import Mapping, Sequence

from hybrid_talos.autoscaler_tags import AZURE_TAG_PREFIX
from hybrid_talos.node_template import POOL_LABEL

from .facts import Group, Object, Pool, labels_of, name_of, provider_id
from .finding import Finding, Level, few


def azure_template(tags: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return labels and taints that the Azure autoscaler reads from a scale set's tags.

    kubernetes/autoscaler `cloudprovider/azure/azure_template.go`: `_` is a slash, and then `~2` an underscore.
    """
    labels: dict[str, str] = {}
    taints: list[str] = []
    for tag, value in tags.items():
        kind, _, key = tag.removeprefix(AZURE_TAG_PREFIX).partition("_")
        if not tag.startswith(AZURE_TAG_PREFIX) or not key:
            continue
        plain = key.replace("_", "/").replace("~2", "_")
        if kind == "label":
            labels[plain] = value
        elif kind == "taint":
            taints.append(f"{plain}={value}")
    return labels, tuple(sorted(taints))


def template_findings(pool: Pool, group: Group, nodes: Sequence[Object]) -> list[Finding]:
    """Return where the template differs from what the pool's nodes register with."""
    found: list[Finding] = []

    def say(level: Level, what: str, why: str, do: str) -> None:
        found.append(Finding(level, "template", what, why, do, pool.name))

    wrong = sorted(key for key, value in pool.labels.items() if group.labels.get(key) != value)
    if wrong:
        say(
            Level.STOPS if not group.machines else Level.HINDERS,
            f"the group's tags do not say the labels {few(wrong)} as the pool has them",
            "an empty pool is planned with its tags: pods that ask for such a label would never make a machine",
            "`pulumi up --refresh`: somebody changed the tags",
        )
    if group.taints is not None and sorted(group.taints) != sorted(pool.taints):
        less = sorted(set(pool.taints) - set(group.taints))
        more = sorted(set(group.taints) - set(pool.taints))
        say(
            Level.STOPS if more and not group.machines else Level.HINDERS,
            "the group's tags "
            + " and ".join(
                [
                    *([f"lack the taints {few(less)}"] if less else []),
                    *([f"have the taints {few(more)} besides"] if more else []),
                ]
            ),
            "machines come for pods that cannot use them, or do not come for pods that could",
            "`pulumi up --refresh`: somebody changed the tags",
        )
    if group.taints is None and pool.taints and not group.machines:
        say(
            Level.HINDERS,
            f"the pool has the taints {few(list(pool.taints))}, which tags of its cloud cannot say",
            "while it is empty, it grows for pods that cannot run there",
            "set minSize to 1 or more, or use labels and node selectors",
        )
    ids = {machine.provider_id for machine in group.machines}
    strange = sorted(
        f"{name_of(node)} ({', '.join(missing)})"
        for node in nodes
        if provider_id(node) in ids
        and (missing := sorted(key for key, value in pool.labels.items() if labels_of(node).get(key) != value))
    )
    strange = [text for text in strange if text]
    if strange:
        level = Level.STOPS if any(POOL_LABEL in text for text in strange) else Level.HINDERS
        say(
            level,
            f"nodes without the pool's labels: {few(strange)}",
            "the autoscaler plans further machines like those that are there, without these labels",
            f"`python -m stacks.roll {pool.name}`; one label that NodeRestriction refuses makes all of them fail",
        )
    if not found:
        found.append(
            Finding(Level.FINE, "template", "tags and nodes have the pool's labels and taints", pool=pool.name)
        )
    return found
