"""A custom resource that stands when a new cluster's Kubernetes API answers.

The provider here is a shell whose module and name stand in every state that has one: it is never renamed or moved,
and holds no code (docs/adr/0001-custom-resources.md). The work is in kubernetes_api. This module is imported by
Pulumi's dynamic provider and must stay light.
"""

from typing import ClassVar

import pulumi
from pulumi import dynamic

from .work_provider import WorkProvider


class KubernetesReadyProvider(WorkProvider):
    """Shell of KubernetesReady."""

    work: ClassVar[str] = "kubernetes_api"


class KubernetesReady(dynamic.Resource, module="cluster", name="KubernetesReady"):
    """Waits for a Kubernetes API when it is made, and again when its address or authority changes.

    A provider that meets an API which is not up yet takes the cluster for unreachable until its process ends, so
    whatever goes to the cluster comes after this.
    """

    server: pulumi.Output[str]
    """Address of the API that was found ready, as `https://host:port`."""

    def __init__(
        self,
        name: str,
        *,
        server: pulumi.Input[str],
        authority: pulumi.Input[str],
        connect_to: str | None,
        minutes: int,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Wait until ``server`` is ready, for at most so many ``minutes``.

        ``authority`` is the PEM certificate of the cluster's own authority, the only one that is trusted; nothing
        secret is needed. ``connect_to`` is an `https://host:port` to connect to in place of ``server``; its
        certificate must still be one for the host of ``server``.
        """
        props = {"server": server, "authority": authority, "connect_to": connect_to, "minutes": minutes}
        super().__init__(KubernetesReadyProvider(), name, props, opts)
