"""What a stack hands out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi
from hybrid_talos.node_group import NodeGroup


@dataclass(frozen=True)
class Outputs:
    """A stack's outputs; what a composition does not make is absent."""

    next_steps: tuple[pulumi.Input[str], ...]
    image_ids: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    node_groups: Mapping[str, pulumi.Output[NodeGroup]] = field(default_factory=dict)
    stale_nodes: Mapping[str, pulumi.Output[Any]] = field(default_factory=dict)
    """Names of the nodes of an older image or configuration, by pool."""
    kubeconfig: pulumi.Output[str] | None = None
    talosconfig: pulumi.Output[str] | None = None
    endpoints: pulumi.Output[Any] | None = None
    cluster_endpoint: pulumi.Output[str] | None = None
    join: pulumi.Output[Any] | None = None
    ranges: Mapping[str, str] | None = None
    mesh_clients: pulumi.Output[Mapping[str, str]] | None = None

    def exports(self) -> dict[str, Any]:
        """Return the outputs under the names that people and other stacks read."""
        named = {
            "kubeconfig": self.kubeconfig,
            "talosconfig": self.talosconfig,
            "endpoints": self.endpoints,
            "clusterEndpoint": self.cluster_endpoint,
            "imageIds": dict(sorted(self.image_ids.items())),
            "nodeGroups": {name: group.apply(_camel) for name, group in sorted(self.node_groups.items())},
            "staleNodes": dict(sorted(self.stale_nodes.items())) or None,
            "nextSteps": list(self.next_steps),
            "join": self.join,
            "meshClients": self.mesh_clients,
            "ranges": self.ranges,
        }
        return {name: value for name, value in named.items() if value is not None}


def _camel(group: NodeGroup) -> dict[str, Any]:
    """Return a node group as people and other programs read it: stack outputs are camelCase."""
    return {
        "cloud": group["cloud"],
        "name": group["name"],
        "minSize": group["min_size"],
        "maxSize": group["max_size"],
        "labels": group["labels"],
        "taints": group["taints"],
    }
