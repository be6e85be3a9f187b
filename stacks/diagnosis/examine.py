"""All findings together, from what could be gathered."""

from collections.abc import Mapping, Sequence

from .autoscaler import autoscaler_findings, served_by, talos_versions, version_findings
from .capacity import capacity_findings
from .facts import Cluster, Group, Pool, autoscalers
from .finding import Finding, Level, ordered
from .mesh import mesh_findings
from .nodes import cluster_findings, node_findings
from .pending import pending_findings
from .rights import right_findings
from .template import template_findings


def examine(pools: Sequence[Pool], groups: Mapping[str, Group], cluster: Cluster | None) -> list[Finding]:
    """Return all findings; ``groups`` by the name of a pool, without those whose cloud could not be asked."""
    found: list[Finding] = []
    for pool in pools:
        group = groups.get(pool.name)
        if group is not None:
            found += capacity_findings(pool, group)
            if cluster is not None:
                found += node_findings(pool, group, cluster.nodes, cluster.now)
            found += template_findings(pool, group, cluster.nodes if cluster is not None else ())
    if cluster is None:
        return ordered(found)
    running = autoscalers(cluster.deployments)
    for pool in pools:
        if not pool.fixed:
            found += autoscaler_findings(pool, running, cluster)
    for one in running:
        served = [pool.name for pool in pools if not pool.fixed and served_by(pool, running) is one]
        found += right_findings(one, cluster.denied.get(f"{one.namespace}/{one.account}"), served)
    found += cluster_findings(cluster, [pool.name for pool in pools if pool.cloud == "aliyun" and not pool.fixed])
    found += version_findings(cluster, talos_versions(cluster.nodes))
    found += mesh_findings(cluster, {pool.label: pool.name for pool in pools})
    if "pods" in cluster.unread:
        return ordered(found)
    full = [one.pool for one in found if one.level is Level.STOPS]
    found += pending_findings(cluster.pods, {pool.name: pool for pool in pools if not pool.fixed}, full)
    return ordered(found)
