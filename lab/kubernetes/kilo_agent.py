"""What Kilo's agents write on the Nodes of a simulated cluster: squat/kilo 0.7.0 `pkg/k8s/backend.go` (``Set``).

An agent runs on every Node as soon as the cluster has Kilo's DaemonSet. It keeps its key for as long as its machine has
its disk, here: for as long as the Node has its name.
"""

import base64
import hashlib
import time
from collections.abc import Mapping
from typing import Any

from ..world import World

PREFIX = "kilo.squat.ai/"


def described(world: World, cluster_key: str) -> list[dict[str, Any]]:
    """Return a cluster's Nodes, with what Kilo's agents and kube-controller-manager have written on them."""
    records = sorted(world.find("kubernetes", "v1/Node"), key=lambda record: record.id)
    nodes = [record.doc for record in records if record.id.startswith(f"{cluster_key}/")]
    if not _deployed(world, cluster_key):
        return nodes
    return [_annotated(node, number) for number, node in enumerate(nodes)]


def _deployed(world: World, cluster_key: str) -> bool:
    sets = [r for r in world.find("kubernetes", "apps/v1/DaemonSet") if r.id.startswith(f"{cluster_key}/")]
    return any(
        "/kilo:" in str(container.get("image"))
        for record in sets
        for container in record.doc["spec"]["template"]["spec"]["containers"]
    )


def _annotated(node: Mapping[str, Any], number: int) -> dict[str, Any]:
    metadata = node["metadata"]
    address = next(one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP")
    key = hashlib.sha256(f"kilo {metadata['name']}".encode()).digest()
    said = {
        "endpoint": f"{address}:51820",
        "internal-ip": f"{address}/32",
        "last-seen": str(int(time.time())),
        "key": base64.b64encode(key).decode(),
        "wireguard-ip": f"10.4.0.{number + 1}/16",
    }
    annotations = {**metadata.get("annotations", {}), **{PREFIX + name: text for name, text in said.items()}}
    return {
        **node,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**node.get("spec", {}), "podCIDR": f"10.244.{number}.0/24"},
    }
