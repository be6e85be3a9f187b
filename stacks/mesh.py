"""The mesh of a stack: all locations of the settings, and the agent where this stack owns the cluster."""

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as kubernetes
from hybrid_talos.mesh_plan import MeshKind
from hybrid_talos.network_mesh import MeshLocationArgs, NetworkMesh, NetworkMeshArgs

from .settings import Location, OtherLocation, Settings
from .settings_reach import callable_from_outside


def build_mesh(
    settings: Settings,
    provider: kubernetes.Provider,
    *,
    deploy: bool = True,
    depends_on: Sequence[pulumi.Input[pulumi.Resource]] = (),
) -> NetworkMesh | None:
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
    if mesh.kind is MeshKind.KILO:
        args["cni"] = mesh.cni
        args["granularity"] = mesh.granularity
        args["cidr"] = str(mesh.cidr)
        args["persistent_keepalive"] = mesh.persistent_keepalive
        if mesh.peers is not None:
            args["peer_cidr"] = str(mesh.peers.cidr)
        if mesh.monitoring is not None:
            args["monitoring"] = {"labels": dict(sorted(mesh.monitoring.labels.items()))}
    if mesh.mtu is not None:
        args["mtu"] = mesh.mtu
    return NetworkMesh("mesh", args, pulumi.ResourceOptions(providers=[provider], depends_on=list(depends_on)))


def mesh_locations(settings: Settings) -> dict[str, MeshLocationArgs]:
    """Return every location of the mesh: the cluster's own, those of other stacks, and one for each cloud network."""
    mesh = settings.mesh
    assert mesh is not None
    locations: dict[str, MeshLocationArgs] = {}
    own = settings.cluster.location
    known: dict[str, Location | OtherLocation] = dict(mesh.locations)
    if own is not None:
        known[own.name] = own
    for name, location in known.items():
        locations[name] = {
            "cidrs": [str(cidr) for cidr in location.cidrs],
            "behind_nat": location.public_endpoint is None,
        }
        if location.public_endpoint is not None:
            locations[name]["public_endpoint"] = location.public_endpoint
    for section in (settings.azure, settings.aliyun):
        if section is None:
            continue
        for network in section.networks():
            reachable = callable_from_outside(mesh, section, network)
            locations[network.name] = {"cidrs": [str(network.cidr)], "behind_nat": not reachable}
            if section is settings.azure:
                # Talos sets the first link of a machine on Azure to 1400 (siderolabs/talos platform/azure/azure.go).
                locations[network.name]["path_mtu"] = AZURE_MTU
    for name, cidrs in mesh.exposed_cidrs.items():
        locations[name]["exposed_cidrs"] = [str(cidr) for cidr in cidrs]
    return dict(sorted(locations.items()))


AZURE_MTU = 1400
