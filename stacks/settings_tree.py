"""The root of the settings."""

from dataclasses import dataclass
from typing import Annotated

from hybrid_talos.arch import Arch

from .settings_addresses import Addresses
from .settings_aliyun import AliyunSettings
from .settings_autoscaler import AutoscalerSettings
from .settings_azure import AzurePool, AzureSettings
from .settings_base import Section, form
from .settings_cluster import ClusterSettings
from .settings_image import ImageSettings
from .settings_mesh import MeshSettings

STACKS = ("cluster", "azure-burst", "aliyun-burst", "hybrid")
"""The compositions that `hybrid-talos:stack` picks from."""


class Tree(Section):
    """The object `hybrid-talos:settings`."""

    cluster: ClusterSettings
    """The cluster: name, versions, endpoint, ranges and the machines that exist."""
    image: ImageSettings = ImageSettings()
    """What the images of the machines are made of."""
    mesh: MeshSettings | None = None
    """The WireGuard mesh between the locations."""
    addresses: Addresses | None = None
    """Where the clouds' ranges come from that are left out; without it all are written down."""
    azure: AzureSettings | None = None
    """Worker pools on Azure."""
    aliyun: AliyunSettings | None = None
    """Worker pools on Alibaba Cloud."""
    autoscaler: AutoscalerSettings | None = None
    """The autoscalers of the pools."""
    cluster_stack: (
        Annotated[
            str,
            form(
                r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+){2}",
                "be the full name of a stack, organization/project/stack, such as organization/hybrid-talos/rack",
            ),
        ]
        | None
    ) = None
    """Stack whose cluster a burst stack joins; without it come hybrid-talos:join and hybrid-talos:kubeconfig."""


@dataclass(frozen=True)
class Settings:
    """The checked settings of one stack."""

    stack: str
    """Which composition: cluster, azure-burst, aliyun-burst or hybrid."""
    cluster: ClusterSettings
    """The cluster."""
    image: ImageSettings
    """What the images are made of."""
    mesh: MeshSettings | None
    """The mesh, or None."""
    addresses: Addresses | None
    """Where ranges come from that were left out, or None."""
    azure: AzureSettings | None
    """The pools on Azure, or None."""
    aliyun: AliyunSettings | None
    """The pools on Alibaba Cloud, or None."""
    autoscaler: AutoscalerSettings | None
    """The autoscalers, or None."""
    cluster_stack: str | None
    """Full name of the stack whose cluster a burst stack joins, or None."""

    def arch_of(self, pool: AzurePool) -> Arch:
        """Return the architecture of a pool: its own, or the images'."""
        return self.image.arch if pool.arch is None else pool.arch
