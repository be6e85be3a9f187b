"""Components for one Talos Linux cluster across a rack, Azure and Alibaba Cloud.

Here is everything that a program needs: the components, and the types of their inputs and outputs. A component's
module, and the provider SDK under it, is imported when its name is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .aliyun_disk import AliyunDiskCategory, AliyunZonePolicy
    from .aliyun_image_inputs import AliyunEndpoints, AliyunImageArgs, BootMode
    from .aliyun_worker_pool import AliyunWorkerPool, AliyunWorkerPoolArgs
    from .arch import Arch
    from .autoscaler_access import (
        AliyunAutoscalerArgs,
        AliyunOidcArgs,
        AzureAutoscalerArgs,
        AzureManagedIdentityArgs,
        AzureWorkloadIdentityArgs,
    )
    from .autoscaler_deployment import AutoscalerDeployment
    from .autoscaler_options import BalancingArgs, Expander, LimitsArgs, ScaleDownArgs
    from .azure_capacity import CapacityGuardArgs
    from .azure_cloud import AzureEnvironment
    from .azure_image_inputs import AzureEndpoints, AzureImageArgs, AzureImageStore, PrincipalType
    from .azure_sizes import AzureDiskType, EphemeralDisk
    from .azure_worker_pool import AzureWorkerPool, AzureWorkerPoolArgs
    from .cluster_autoscaler import (
        AutoscalerMonitoringArgs,
        AutoscalerPodArgs,
        ClusterAutoscaler,
        ClusterAutoscalerArgs,
        SampleWorkloadArgs,
    )
    from .cluster_endpoint import EndpointArgs, EndpointKind
    from .cluster_life import ControlPlaneMember
    from .cluster_rotation import RotationRecord
    from .cni import Cni
    from .control_plane_inputs import ControlPlaneEndpoints, HAControlPlaneArgs
    from .ha_control_plane import HAControlPlane
    from .image_inputs import EnrollKeys, ImageFileArgs, MetaValueArgs, OverlayArgs, SecureBootArgs
    from .install_disk import DiskSelectorArgs, DiskType
    from .life_inputs import SnapshotArgs, UpgradeArgs
    from .machine import MachineArgs
    from .machine_links import BondArgs, BondMode, LinkArgs, RouteArgs, VlanArgs
    from .mesh_location import MeshLocation
    from .mesh_peers import MeshPeerArgs, MeshPeers, MeshPeersArgs
    from .mesh_plan import Granularity, MeshKind
    from .network_mesh import MeshLocationArgs, MeshMonitoringArgs, NetworkMesh, NetworkMeshArgs
    from .node_group import NodeGroup
    from .node_template import TaintArgs, TaintEffect
    from .node_transformations import MachineRequirementArgs, SelectorOperator, TransformationArgs
    from .pool_inputs import SpotArgs
    from .registries import ComponentImagesArgs, RegistryArgs
    from .rotation import AuthorityRotationArgs, AuthorityStage, RotationArgs, TokenRotationArgs, TokenStage
    from .site import ProxyArgs, SiteArgs
    from .static_worker_pool import StaticWorkerPool, StaticWorkerPoolArgs, WorkerEndpoints
    from .talos_cloud_controller import NodeCollectorArgs, TalosCloudController, TalosCloudControllerArgs
    from .talos_image import Platform, TalosImage, TalosImageArgs

_MODULES = {
    "AliyunAutoscalerArgs": "autoscaler_access",
    "AliyunDiskCategory": "aliyun_disk",
    "AliyunEndpoints": "aliyun_image_inputs",
    "AliyunImageArgs": "aliyun_image_inputs",
    "AliyunOidcArgs": "autoscaler_access",
    "AliyunWorkerPool": "aliyun_worker_pool",
    "AliyunWorkerPoolArgs": "aliyun_worker_pool",
    "AliyunZonePolicy": "aliyun_disk",
    "Arch": "arch",
    "AuthorityRotationArgs": "rotation",
    "AuthorityStage": "rotation",
    "AutoscalerDeployment": "autoscaler_deployment",
    "AutoscalerMonitoringArgs": "cluster_autoscaler",
    "AutoscalerPodArgs": "cluster_autoscaler",
    "AzureAutoscalerArgs": "autoscaler_access",
    "AzureDiskType": "azure_sizes",
    "AzureEndpoints": "azure_image_inputs",
    "AzureEnvironment": "azure_cloud",
    "AzureImageArgs": "azure_image_inputs",
    "AzureImageStore": "azure_image_inputs",
    "AzureManagedIdentityArgs": "autoscaler_access",
    "AzureWorkerPool": "azure_worker_pool",
    "AzureWorkerPoolArgs": "azure_worker_pool",
    "AzureWorkloadIdentityArgs": "autoscaler_access",
    "BalancingArgs": "autoscaler_options",
    "BondArgs": "machine_links",
    "BondMode": "machine_links",
    "BootMode": "aliyun_image_inputs",
    "CapacityGuardArgs": "azure_capacity",
    "ClusterAutoscaler": "cluster_autoscaler",
    "ClusterAutoscalerArgs": "cluster_autoscaler",
    "Cni": "cni",
    "ComponentImagesArgs": "registries",
    "ControlPlaneEndpoints": "control_plane_inputs",
    "ControlPlaneMember": "cluster_life",
    "DiskSelectorArgs": "install_disk",
    "DiskType": "install_disk",
    "EndpointArgs": "cluster_endpoint",
    "EndpointKind": "cluster_endpoint",
    "EnrollKeys": "image_inputs",
    "EphemeralDisk": "azure_sizes",
    "Expander": "autoscaler_options",
    "Granularity": "mesh_plan",
    "HAControlPlane": "ha_control_plane",
    "HAControlPlaneArgs": "control_plane_inputs",
    "ImageFileArgs": "image_inputs",
    "LimitsArgs": "autoscaler_options",
    "LinkArgs": "machine_links",
    "MachineArgs": "machine",
    "MachineRequirementArgs": "node_transformations",
    "MeshKind": "mesh_plan",
    "MeshLocation": "mesh_location",
    "MeshLocationArgs": "network_mesh",
    "MeshMonitoringArgs": "network_mesh",
    "MeshPeerArgs": "mesh_peers",
    "MeshPeers": "mesh_peers",
    "MeshPeersArgs": "mesh_peers",
    "MetaValueArgs": "image_inputs",
    "NetworkMesh": "network_mesh",
    "NetworkMeshArgs": "network_mesh",
    "NodeCollectorArgs": "talos_cloud_controller",
    "NodeGroup": "node_group",
    "OverlayArgs": "image_inputs",
    "Platform": "talos_image",
    "PrincipalType": "azure_image_inputs",
    "ProxyArgs": "site",
    "RegistryArgs": "registries",
    "RotationArgs": "rotation",
    "RotationRecord": "cluster_rotation",
    "RouteArgs": "machine_links",
    "SampleWorkloadArgs": "cluster_autoscaler",
    "ScaleDownArgs": "autoscaler_options",
    "SecureBootArgs": "image_inputs",
    "SelectorOperator": "node_transformations",
    "SiteArgs": "site",
    "SnapshotArgs": "life_inputs",
    "SpotArgs": "pool_inputs",
    "StaticWorkerPool": "static_worker_pool",
    "StaticWorkerPoolArgs": "static_worker_pool",
    "TaintArgs": "node_template",
    "TaintEffect": "node_template",
    "TalosCloudController": "talos_cloud_controller",
    "TalosCloudControllerArgs": "talos_cloud_controller",
    "TalosImage": "talos_image",
    "TalosImageArgs": "talos_image",
    "TokenRotationArgs": "rotation",
    "TokenStage": "rotation",
    "TransformationArgs": "node_transformations",
    "UpgradeArgs": "life_inputs",
    "VlanArgs": "machine_links",
    "WorkerEndpoints": "static_worker_pool",
}

# Written out once more: type checkers read it, and take a computed one for none.
__all__ = [
    "AliyunAutoscalerArgs",
    "AliyunDiskCategory",
    "AliyunEndpoints",
    "AliyunImageArgs",
    "AliyunOidcArgs",
    "AliyunWorkerPool",
    "AliyunWorkerPoolArgs",
    "AliyunZonePolicy",
    "Arch",
    "AuthorityRotationArgs",
    "AuthorityStage",
    "AutoscalerDeployment",
    "AutoscalerMonitoringArgs",
    "AutoscalerPodArgs",
    "AzureAutoscalerArgs",
    "AzureDiskType",
    "AzureEndpoints",
    "AzureEnvironment",
    "AzureImageArgs",
    "AzureImageStore",
    "AzureManagedIdentityArgs",
    "AzureWorkerPool",
    "AzureWorkerPoolArgs",
    "AzureWorkloadIdentityArgs",
    "BalancingArgs",
    "BondArgs",
    "BondMode",
    "BootMode",
    "CapacityGuardArgs",
    "ClusterAutoscaler",
    "ClusterAutoscalerArgs",
    "Cni",
    "ComponentImagesArgs",
    "ControlPlaneEndpoints",
    "ControlPlaneMember",
    "DiskSelectorArgs",
    "DiskType",
    "EndpointArgs",
    "EndpointKind",
    "EnrollKeys",
    "EphemeralDisk",
    "Expander",
    "Granularity",
    "HAControlPlane",
    "HAControlPlaneArgs",
    "ImageFileArgs",
    "LimitsArgs",
    "LinkArgs",
    "MachineArgs",
    "MachineRequirementArgs",
    "MeshKind",
    "MeshLocation",
    "MeshLocationArgs",
    "MeshMonitoringArgs",
    "MeshPeerArgs",
    "MeshPeers",
    "MeshPeersArgs",
    "MetaValueArgs",
    "NetworkMesh",
    "NetworkMeshArgs",
    "NodeCollectorArgs",
    "NodeGroup",
    "OverlayArgs",
    "Platform",
    "PrincipalType",
    "ProxyArgs",
    "RegistryArgs",
    "RotationArgs",
    "RotationRecord",
    "RouteArgs",
    "SampleWorkloadArgs",
    "ScaleDownArgs",
    "SecureBootArgs",
    "SelectorOperator",
    "SiteArgs",
    "SnapshotArgs",
    "SpotArgs",
    "StaticWorkerPool",
    "StaticWorkerPoolArgs",
    "TaintArgs",
    "TaintEffect",
    "TalosCloudController",
    "TalosCloudControllerArgs",
    "TalosImage",
    "TalosImageArgs",
    "TokenRotationArgs",
    "TokenStage",
    "TransformationArgs",
    "UpgradeArgs",
    "VlanArgs",
    "WorkerEndpoints",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
