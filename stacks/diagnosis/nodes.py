"""Findings about Nodes: whether they are those of the group's machines, ready, and made as new ones are."""

import re
from collections.abc import Mapping, Sequence

from hybrid_talos.node_template import POOL_LABEL, TEMPLATE_LABEL

from .facts import Cluster, Group, Object, Pool, condition, labels_of, name_of, provider_id
from .finding import Finding, Level, few

# What the autoscaler bears of all Nodes (its flags ok-total-unready-count and max-total-unready-percentage).
OK_UNREADY, MOST_UNREADY_PERCENT = 3, 45

JOIN_SECONDS = 20 * 60
"""How long a machine may take to join, as the autoscaler has it without another maxNodeProvisionMinutes."""

_AZURE = re.compile(
    r"azure:///subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/virtualMachineScaleSets/[^/]+"
    r"/virtualMachines/[0-9]+"
)
_UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
_PLACE = "docs/why-does-it-not-scale.md"


def node_findings(pool: Pool, group: Group, nodes: Sequence[Object], now: float) -> list[Finding]:
    """Return what there is to say of the Nodes of one pool at a moment."""
    by_id = {provider_id(node): node for node in nodes if provider_id(node)}
    own = [node for node in nodes if labels_of(node).get(POOL_LABEL) == pool.label]
    found: list[Finding] = []

    def say(level: Level, topic: str, what: str, why: str = "", do: str = "") -> None:
        found.append(Finding(level, topic, what, why, do, pool.name))

    failed = sorted(one.provider_id for one in group.machines if one.failed)
    if failed:
        say(
            Level.HINDERS,
            "machines",
            f"the cloud could not make {len(failed)} machines: {few(failed)}",
            "the autoscaler removes them and holds the group back for a while",
            "read the group's activities in the cloud: quota, stock and image are the usual reasons",
        )
    found += _machine_findings(pool, group, by_id, now)
    expected = {one.provider_id.lower() for one in group.machines}
    for node in own:
        text, name = provider_id(node), name_of(node)
        if not text:
            say(
                Level.STOPS,
                "provider-id",
                f"node {name} has no provider id"
                + (f", and the taint {_UNINITIALIZED} is still there" if _has_taint(node, _UNINITIALIZED) else ""),
                "the autoscaler cannot tell its machine and deletes it",
                "read the log of Talos' cloud controller: it must reach the machine's port 50000 through the mesh",
            )
        elif problem := form_problem(pool.cloud, text, str(pool.where.get("region") or "")):
            say(
                Level.STOPS,
                "provider-id",
                f"node {name} has the provider id {text}, and {problem}",
                "the autoscaler cannot tell its machine and deletes it",
                "run one cloud controller only, and correct the id with a transformation",
            )
        elif text.lower() not in expected:
            say(
                Level.HINDERS,
                "ghost",
                f"node {name} is left of a machine that the group no longer has",
                "it counts as unready, and too many of those stop all scaling",
                f"let the collector delete it, or `kubectl delete node {name}`",
            )
    stale = sorted(name_of(node) for node in own if labels_of(node).get(TEMPLATE_LABEL) not in (None, pool.stamp))
    if stale:
        say(
            Level.HINDERS,
            "stale",
            f"{len(stale)} nodes are of an older image or configuration: {few(stale)}",
            "new ones will differ from them",
            f"`python -m stacks.roll {pool.name}`",
        )
    unready = sorted(name_of(node) for node in own if condition(node, "Ready") != "True")
    if unready:
        say(
            Level.HINDERS,
            "ready",
            f"{len(unready)} of {len(own)} nodes are not ready: {few(unready)}",
            "pods wait for them, and the autoscaler makes no others meanwhile",
            "`kubectl describe node`; the mesh and the kubelet are the usual reasons",
        )
    if not any(one.topic in ("provider-id", "joined", "machines", "ghost") for one in found):
        count = len(group.machines)
        say(
            Level.FINE,
            "provider-id",
            f"{count} machines, each the node that the autoscaler expects" if count else "empty",
        )
    return found


def _machine_findings(pool: Pool, group: Group, by_id: Mapping[str, Object], now: float) -> list[Finding]:
    """Return which machines of the group are no nodes that the autoscaler knows; ``by_id`` are all Nodes."""
    lowered = {text.lower(): text for text in by_id}
    found: list[Finding] = []

    def say(level: Level, topic: str, what: str, why: str, do: str) -> None:
        found.append(Finding(level, topic, what, why, do, pool.name))

    for machine in group.machines:
        if machine.leaving or machine.failed or machine.provider_id in by_id:
            continue
        other = lowered.get(machine.provider_id.lower())
        if other is not None:
            say(
                Level.STOPS,
                "provider-id",
                f"node {name_of(by_id[other])} has the provider id {other}, and the autoscaler knows its machine as "
                f"{machine.provider_id}",
                "they are compared letter by letter: the machine counts as one that never joined, and is deleted",
                "let Talos' cloud controller alone write provider ids, and replace the machine",
            )
        elif machine.made is not None and now - machine.made < JOIN_SECONDS:
            age = max(now - machine.made, 0) / 60
            say(
                Level.HINDERS,
                "joined",
                f"machine {machine.provider_id} is no node yet, {age:.0f} minutes after it was made",
                "it has to boot, to find the mesh and to get its provider id",
                f"look again when {JOIN_SECONDS // 60} minutes are over",
            )
        else:
            say(
                Level.STOPS,
                "joined",
                f"machine {machine.provider_id} is no node",
                "the autoscaler deletes machines that have not joined after maxNodeProvisionMinutes",
                f"see that it reaches the API server and the mesh, and that its node gets its provider id ({_PLACE})",
            )
    return found


def form_problem(cloud: str, text: str, region: str) -> str | None:
    """Return why the autoscaler does not understand a provider id of its cloud, or None."""
    if cloud == "azure":
        if _AZURE.fullmatch(text):
            return None
        return "it must be azure:///subscriptions/.../virtualMachineScaleSets/NAME/virtualMachines/NUMBER"
    if (
        re.fullmatch(rf"{re.escape(region)}\.i-[a-z0-9]+", text)
        if region
        else re.fullmatch(r"[a-z0-9-]+\.i-[a-z0-9]+", text)
    ):
        return None
    return f"it must be {region or 'REGION'}.i-..., with nothing before it"


def _has_taint(node: Object, key: str) -> bool:
    return any(taint.get("key") == key for taint in (node.get("spec") or {}).get("taints") or ())


def cluster_findings(cluster: Cluster, aliyun: Sequence[str]) -> list[Finding]:
    """Return what there is to say of all Nodes together; ``aliyun`` are the pools of Alibaba Cloud's autoscaler."""
    found: list[Finding] = []
    unready = sorted(name_of(node) for node in cluster.nodes if condition(node, "Ready") != "True")
    count = len(cluster.nodes)
    if len(unready) > OK_UNREADY and len(unready) * 100 > MOST_UNREADY_PERCENT * count:
        found.append(
            Finding(
                Level.STOPS,
                "ready",
                f"{len(unready)} of {count} nodes are not ready: {few(unready)}",
                f"above {OK_UNREADY} and {MOST_UNREADY_PERCENT} percent of all nodes the autoscalers stop altogether",
                "repair the mesh or the location that is cut off, and delete nodes whose machine is gone",
            )
        )
    elif unready:
        found.append(
            Finding(
                Level.HINDERS,
                "ready",
                f"{len(unready)} of {count} nodes are not ready: {few(unready)}",
                "more of them stop all scaling",
                "`kubectl describe node`",
            )
        )
    else:
        found.append(Finding(Level.FINE, "ready", f"all {count} nodes are ready"))
    dotless = sorted(name_of(node) for node in cluster.nodes if provider_id(node) and "." not in provider_id(node))
    if dotless:
        found += [
            Finding(
                Level.STOPS,
                "provider-id",
                f"the provider ids of {few(dotless)} have no dot",
                "the autoscaler of Alibaba Cloud gives up at them in every loop",
                "remove the controller that writes them, or write them with a transformation",
                pool,
            )
            for pool in aliyun
        ]
    waiting = sorted(name_of(one) for one in cluster.requests if not (one.get("status") or {}).get("conditions"))
    if waiting:
        found.append(
            Finding(
                Level.HINDERS,
                "certificates",
                f"{len(waiting)} certificate requests wait for approval: {few(waiting)}",
                "a kubelet without its certificate serves neither logs nor metrics, or does not join",
                "see that Talos' cloud controller runs and approves: `kubectl get csr`",
            )
        )
    return found
