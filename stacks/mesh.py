"""The mesh of a stack: all locations of the settings, and the agent where this stack owns the cluster."""

import pulumi
import pulumi_kubernetes as kubernetes
from hybrid_talos.network_mesh import NetworkMesh, NetworkMeshArgs

from .networks import mesh_locations
from .settings import Settings


def build_mesh(settings: Settings, provider: kubernetes.Provider, *, deploy: bool = True) -> NetworkMesh | None:
    """Return the mesh, or None without one; ``deploy`` is False where the cluster is another stack's."""
    mesh = settings.mesh
    if mesh is None:
        return None
    args: NetworkMeshArgs = {
        "kind": mesh.kind,
        "pod_cidr": str(settings.cluster.pod_cidr),
        "service_cidr": str(settings.cluster.service_cidr),
        "port": mesh.port,
        "locations": mesh_locations(settings),
        "deploy": deploy,
    }
    if mesh.kind == "kilo":
        args["cni"] = mesh.cni
        args["granularity"] = mesh.granularity
        args["cidr"] = str(mesh.cidr)
        args["persistent_keepalive"] = mesh.persistent_keepalive
    if mesh.mtu is not None:
        args["mtu"] = mesh.mtu
    return NetworkMesh("mesh", args, pulumi.ResourceOptions(providers=[provider]))
