"""Which sections each composition needs and which it does not build."""

from collections.abc import Iterator

from .settings_errors import Problem
from .settings_tree import Tree

_CLOUDS = {
    "cluster": (),
    "azure-burst": ("azure",),
    "aliyun-burst": ("aliyun",),
    "hybrid": ("azure", "aliyun"),
}
_NAMES = {"azure": "Azure", "aliyun": "Alibaba Cloud"}


def sections(stack: str, tree: Tree) -> Iterator[Problem]:
    """Find sections that the stack needs and lacks, or that it would leave unread."""
    wanted = _CLOUDS[stack]
    present = {"azure": tree.azure is not None, "aliyun": tree.aliyun is not None}
    for cloud, given in present.items():
        if given and cloud not in wanted:
            yield Problem(
                cloud,
                f"the stack {stack} builds no pools on {_NAMES[cloud]}: remove this section, or set "
                f"hybrid-talos:stack to {cloud}-burst or hybrid",
            )
        if not given and cloud in wanted and stack != "hybrid":
            yield Problem(cloud, f"is required by the stack {stack}: the pools on {_NAMES[cloud]}")
    if stack == "hybrid" and not any(present.values()):
        yield Problem(
            "azure", "the stack hybrid needs azure, aliyun or both; for neither set hybrid-talos:stack to cluster"
        )
    yield from _of_autoscaler(stack, tree, present)
    if stack in {"cluster", "hybrid"}:
        if tree.cluster_stack is not None:
            yield Problem("clusterStack", f"the stack {stack} builds its own cluster and joins none: remove this key")
        if not tree.cluster.control_planes:
            yield Problem(
                "cluster.controlPlanes", f"is required by the stack {stack}: the machines of the control plane"
            )
    else:
        for key, block in (
            ("record", tree.cluster.endpoint.record),
            ("loadBalancer", tree.cluster.endpoint.load_balancer),
        ):
            if block is not None:
                yield Problem(
                    f"cluster.endpoint.{key}",
                    f"is made by the stack that builds the cluster, which {stack} is not: remove it, and give the host",
                )
        yield from _of_mesh(stack, tree)
    if stack != "cluster" and tree.mesh is None:
        yield Problem(
            "mesh", f"is required by the stack {stack}: machines of a cloud reach the control planes only through it"
        )
    if (stack != "cluster" or tree.mesh is not None) and tree.cluster.location is None:
        yield Problem(
            "cluster.location", "is required: the mesh joins this place of the control planes with the others"
        )


def _of_mesh(stack: str, tree: Tree) -> Iterator[Problem]:
    """Find what of a mesh only the stack makes that builds the cluster."""
    if tree.mesh is None:
        return
    if tree.mesh.peers is not None and tree.mesh.peers.machines:
        yield Problem(
            "mesh.peers.machines",
            f"are made by the stack that builds the cluster, which {stack} is not: remove them, and leave cidr for the "
            "firewalls",
        )
    if tree.mesh.monitoring is not None:
        yield Problem(
            "mesh.monitoring", f"is made by the stack that builds the cluster, which {stack} is not: remove it"
        )


def _of_autoscaler(stack: str, tree: Tree, present: dict[str, bool]) -> Iterator[Problem]:
    if tree.autoscaler is None:
        return
    if stack == "cluster":
        yield Problem("autoscaler", "the stack cluster has no pools to grow: remove this section")
        return
    given = {"azure": tree.autoscaler.azure is not None, "aliyun": tree.autoscaler.aliyun is not None}
    if not any(given.values()):
        yield Problem("autoscaler", "names no cloud: add azure or aliyun below it, or remove it")
    for cloud, has_one in given.items():
        section = tree.azure if cloud == "azure" else tree.aliyun
        if has_one and section is not None and all(pool.gateway for pool in section.pools):
            yield Problem(
                f"autoscaler.{cloud}", "there are only gateways, whose number is fixed: remove it, or add other pools"
            )
        if has_one and not present[cloud]:
            yield Problem(
                f"autoscaler.{cloud}", f"there are no pools on {_NAMES[cloud]} to grow: remove it, or add {cloud}"
            )
