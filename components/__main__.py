"""The components as a Pulumi package for programs in other languages."""

from importlib import metadata

import hybrid_talos
from pulumi.provider.experimental import component_provider_host

COMPONENTS = (
    "AliyunWorkerPool",
    "AzureWorkerPool",
    "ClusterAutoscaler",
    "HAControlPlane",
    "NetworkMesh",
    "StaticWorkerPool",
    "TalosCloudController",
    "TalosImage",
)

if __name__ == "__main__":
    component_provider_host(
        [getattr(hybrid_talos, name) for name in COMPONENTS],
        "hybrid-talos",
        version=metadata.version("pulumi-hybrid-talos"),
    )
