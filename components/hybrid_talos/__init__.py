"""Components for one Talos Linux cluster across a rack, Azure and Alibaba Cloud.

A component's module, and the provider SDK under it, is imported when its name is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aliyun_worker_pool import AliyunWorkerPool, AliyunWorkerPoolArgs
    from .azure_worker_pool import AzureWorkerPool, AzureWorkerPoolArgs
    from .cluster_autoscaler import ClusterAutoscaler, ClusterAutoscalerArgs
    from .ha_control_plane import HAControlPlane, HAControlPlaneArgs
    from .mesh_location import MeshLocation
    from .network_mesh import NetworkMesh, NetworkMeshArgs
    from .node_group import NodeGroup
    from .static_worker_pool import StaticWorkerPool, StaticWorkerPoolArgs
    from .talos_cloud_controller import TalosCloudController, TalosCloudControllerArgs
    from .talos_image import Platform, TalosImage, TalosImageArgs

_MODULES = {
    "AliyunWorkerPool": "aliyun_worker_pool",
    "AliyunWorkerPoolArgs": "aliyun_worker_pool",
    "AzureWorkerPool": "azure_worker_pool",
    "AzureWorkerPoolArgs": "azure_worker_pool",
    "ClusterAutoscaler": "cluster_autoscaler",
    "ClusterAutoscalerArgs": "cluster_autoscaler",
    "HAControlPlane": "ha_control_plane",
    "HAControlPlaneArgs": "ha_control_plane",
    "MeshLocation": "mesh_location",
    "NetworkMesh": "network_mesh",
    "NetworkMeshArgs": "network_mesh",
    "NodeGroup": "node_group",
    "Platform": "talos_image",
    "StaticWorkerPool": "static_worker_pool",
    "StaticWorkerPoolArgs": "static_worker_pool",
    "TalosCloudController": "talos_cloud_controller",
    "TalosCloudControllerArgs": "talos_cloud_controller",
    "TalosImage": "talos_image",
    "TalosImageArgs": "talos_image",
}

__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
