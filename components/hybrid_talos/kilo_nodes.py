"""A custom resource that knows which machines of a cluster a client of its mesh has tunnels to.

The provider here is a shell whose module and name stand in every state that has one: it is never renamed or moved,
and holds no code (docs/adr/0001-custom-resources.md). The work is in kilo_nodes_work. This module is imported by
Pulumi's dynamic provider and must stay light.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pulumi
from pulumi import dynamic

from .work_provider import WorkProvider


class KiloNodesProvider(WorkProvider):
    """Shell of KiloNodes."""

    work: ClassVar[str] = "kilo_nodes_work"


class KiloNodes(dynamic.Resource, module="mesh", name="KiloNodes"):
    """Waits until Kilo's agents have described their machines, and reads them; a refresh reads them again."""

    remotes: pulumi.Output[Sequence[Mapping[str, Any]]]
    """Name, public key, allowed ranges and endpoint of each tunnel."""

    def __init__(
        self,
        name: str,
        *,
        kubeconfig: pulumi.Input[str],
        connect_to: str | None,
        granularity: str,
        minutes: int,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Read the machines of the cluster of ``kubeconfig``, which is secret.

        ``connect_to`` is an `https://host:port` to connect to in place of its server. It waits for at most so many
        ``minutes`` for the first machine that Kilo has described.
        """
        props = {
            "kubeconfig": pulumi.Output.secret(kubeconfig),
            "connect_to": connect_to,
            "granularity": granularity,
            "minutes": minutes,
            "remotes": None,
        }
        secret = pulumi.ResourceOptions(additional_secret_outputs=["kubeconfig"])
        super().__init__(KiloNodesProvider(), name, props, pulumi.ResourceOptions.merge(opts, secret))
