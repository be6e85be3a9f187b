"""The cluster itself: control plane, static workers, mesh and cloud controller."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
from hybrid_talos.cluster_life import ControlPlaneMember, described
from hybrid_talos.cluster_rotation import RotationRecord
from hybrid_talos.cni import Cni
from hybrid_talos.control_plane_inputs import ControlPlaneEndpoints
from hybrid_talos.ha_control_plane import HAControlPlane, HAControlPlaneArgs
from hybrid_talos.mesh_location import MeshLocation
from hybrid_talos.static_worker_pool import StaticWorkerPool, StaticWorkerPoolArgs, WorkerEndpoints
from hybrid_talos.talos_cloud_controller import TalosCloudController
from hybrid_talos.talos_image import Platform, TalosImage

from .endpoint import endpoint_args
from .images import image_args
from .join import write_join
from .machines import component_images, machine_args, registry_args, rotation_args, site_args, upgrade_args
from .mesh import build_mesh
from .outputs import Outputs
from .providers import kubernetes_provider, talos_provider
from .secrets import Secrets
from .settings import Settings


@dataclass(frozen=True)
class Joined:
    """What worker pools need of a cluster, built here or elsewhere."""

    machine_config: pulumi.Output[str]
    kubernetes: kubernetes.Provider
    locations: pulumi.Output[Mapping[str, MeshLocation]] | None
    ready: Sequence[pulumi.Input[pulumi.Resource]]
    """What must stand before a machine may come."""
    checked: Sequence[pulumi.Input[pulumi.Resource]] = ()
    """What must be known to be good before anything of a cloud is made."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that this stack built."""

    joined: Joined
    control_plane: HAControlPlane


@contextmanager
def _later() -> Iterator[tuple[pulumi.Output[str], Any]]:
    """Yield an output and the function that gives it its value.

    An output that nobody resolves would let the program wait for ever, so a failure resolves it too.
    """
    value: pulumi.Output[str]
    resolve: Callable[[pulumi.Output[str]], None]
    value, resolve = pulumi.deferred_output()
    try:
        yield value, resolve
    except BaseException:
        resolve(pulumi.Output.from_input(""))
        raise


def build_cluster(settings: Settings, secrets: Secrets) -> Cluster:
    """Build the cluster; the mesh knows every location of the settings from the start."""
    cluster = settings.cluster
    talos = talos_provider()
    installer = _installer(settings)
    # The mesh's patch belongs into the machines' first configuration, and its manifests need the API that those
    # machines bring up: the provider gets its kubeconfig from the control plane that is declared below.
    with _later() as (kubeconfig, resolve):
        provider = kubernetes_provider(cluster.name, kubeconfig)
        mesh = build_mesh(settings, provider)
        place = _Place.of(settings, mesh.locations if mesh is not None else None)
        control_plane = _control_plane(settings, secrets, installer, place, talos)
        resolve(control_plane.kubeconfig)
    changed: list[pulumi.Resource] = [control_plane]
    if cluster.workers:
        changed.append(_workers(settings, secrets, installer, place, talos, control_plane))
    if control_plane.rotating is not None:
        RotationRecord(
            "rotation-record",
            control_plane.rotating,
            machines=[*control_plane.members, *_static_workers(settings)],
            opts=pulumi.ResourceOptions(depends_on=changed),
        )
    cloud_controller = TalosCloudController(
        "cloud-controller",
        {"kubernetes_version": cluster.kubernetes_version, "talos_version": cluster.talos_version},
        pulumi.ResourceOptions(providers=[provider]),
    )
    ready = [control_plane, cloud_controller, *([mesh] if mesh is not None else [])]
    joined = Joined(control_plane.worker_machine_config, provider, mesh.locations if mesh is not None else None, ready)
    return Cluster(joined, control_plane)


@dataclass(frozen=True)
class _Place:
    """Where the machines that exist stand: their ranges, and what the mesh asks of them."""

    subnets: list[str]
    location: pulumi.Output[MeshLocation] | None

    @classmethod
    def of(cls, settings: Settings, locations: pulumi.Output[Mapping[str, MeshLocation]] | None) -> "_Place":
        own = settings.cluster.location
        if own is None:
            return cls([], None)
        return cls([str(cidr) for cidr in own.cidrs], None if locations is None else locations[own.name])


def _installer(settings: Settings) -> pulumi.Input[str]:
    """Return the image that machines install: the one given, else one with the stack's own schematic."""
    if settings.image.installer_image is not None:
        return settings.image.installer_image
    return TalosImage("image-metal", image_args(settings, Platform.METAL)).installer_image


def _control_plane(
    settings: Settings, secrets: Secrets, installer: pulumi.Input[str], place: _Place, talos: pulumi.ProviderResource
) -> HAControlPlane:
    cluster = settings.cluster
    args: HAControlPlaneArgs = {
        "cluster_name": cluster.name,
        "talos_version": cluster.talos_version,
        "config_contract": cluster.config_contract,
        "kubernetes_version": cluster.kubernetes_version,
        "endpoint": endpoint_args(settings),
        "control_planes": machine_args(cluster.control_planes),
        "allow_single_member": cluster.allow_single_member,
        "protect": cluster.protect,
        "pod_cidr": str(cluster.pod_cidr),
        "service_cidr": str(cluster.service_cidr),
        "node_subnets": place.subnets,
        "installer_image": installer,
        "cert_sans": list(cluster.cert_sans),
        "registry_mirrors": {host: list(urls) for host, urls in sorted(cluster.registry_mirrors.items())},
        "mirror_fallback": cluster.mirror_fallback,
        "registries": registry_args(settings, secrets),
        "trusted_roots": list(cluster.trusted_roots),
        "config_patches": list(cluster.config_patches),
        "api_ready_minutes": cluster.api_ready_minutes,
        "upgrade": upgrade_args(cluster.upgrade),
        "cni": settings.mesh.cni if settings.mesh is not None else Cni.FLANNEL,
    }
    if (images := component_images(settings)) is not None:
        args["component_images"] = images
    if (site := site_args(settings, secrets)) is not None:
        args["site"] = site
    if cluster.rotation is not None:
        args["rotation"] = rotation_args(cluster.rotation)
    if cluster.snapshots is not None:
        args["snapshots"] = {
            "directory": cluster.snapshots.directory,
            "recipients": list(cluster.snapshots.recipients),
        }
        if cluster.snapshots.oss_region is not None:
            args["snapshots"]["oss_region"] = cluster.snapshots.oss_region
        if cluster.snapshots.oss_endpoint is not None:
            args["snapshots"]["oss_endpoint"] = cluster.snapshots.oss_endpoint
    endpoints: ControlPlaneEndpoints = {}
    if cluster.endpoints.kubernetes is not None:
        endpoints["kubernetes"] = cluster.endpoints.kubernetes
    if cluster.endpoints.talos:
        endpoints["talos"] = dict(sorted(cluster.endpoints.talos.items()))
    if cluster.endpoints.nameserver is not None:
        endpoints["nameserver"] = cluster.endpoints.nameserver
    args["endpoints"] = endpoints
    if place.location is not None:
        args["location"] = place.location
    return HAControlPlane("control-plane", args, pulumi.ResourceOptions(providers=[talos]))


def _workers(
    settings: Settings,
    secrets: Secrets,
    installer: pulumi.Input[str],
    place: _Place,
    talos: pulumi.ProviderResource,
    control_plane: HAControlPlane,
) -> StaticWorkerPool:
    args: StaticWorkerPoolArgs = {
        "workers": machine_args(settings.cluster.workers),
        "machine_config": control_plane.worker_machine_config,
        "client_configuration": control_plane.client_configuration,
        "installer_image": installer,
        "node_subnets": place.subnets,
        "config_contract": settings.cluster.config_contract,
        "config_patches": [*settings.cluster.config_patches, *control_plane.static_worker_patches],
        "graceful_removal": settings.cluster.protect,
        "talos_version": settings.cluster.talos_version,
        "kubernetes_version": settings.cluster.kubernetes_version,
        "control_planes": control_plane.members,
        "upgrade": upgrade_args(settings.cluster.upgrade),
    }
    endpoints: WorkerEndpoints = {}
    if settings.cluster.endpoints.kubernetes is not None:
        endpoints["kubernetes"] = settings.cluster.endpoints.kubernetes
    if settings.cluster.endpoints.talos:
        endpoints["talos"] = dict(sorted(settings.cluster.endpoints.talos.items()))
    args["endpoints"] = endpoints
    if (site := site_args(settings, secrets)) is not None:
        args["site"] = site
    if place.location is not None:
        args["location"] = place.location
    # A worker that boots before the API answers only waits; one after the other is easier to read.
    opts = pulumi.ResourceOptions(providers=[talos], depends_on=[control_plane])
    return StaticWorkerPool("workers", args, opts)


def _static_workers(settings: Settings) -> list[ControlPlaneMember]:
    """Return the workers that exist, by name, as they are reached."""
    found: list[ControlPlaneMember] = []
    for machine in sorted(settings.cluster.workers, key=lambda worker: worker.name):
        address = str(machine.address)
        reached = settings.cluster.endpoints.talos.get(address, str(machine.public_address or address))
        found.append(described(machine.name, address, reached))
    return found


def cluster_outputs(settings: Settings, built: Cluster) -> dict[str, Any]:
    """Return the outputs that every stack with a cluster of its own has."""
    return {
        "kubeconfig": built.control_plane.kubeconfig,
        "talosconfig": built.control_plane.talosconfig,
        "endpoints": built.control_plane.endpoints,
        "cluster_endpoint": built.control_plane.cluster_endpoint,
        "join": write_join(
            settings,
            built.control_plane.cluster_endpoint,
            built.joined.machine_config,
            built.joined.locations,
        ),
    }


CLUSTER_STEPS = (
    "(umask 077; pulumi stack output kubeconfig --show-secrets > kubeconfig)",
    "(umask 077; pulumi stack output talosconfig --show-secrets > talosconfig)",
    "kubectl --kubeconfig kubeconfig get nodes -o wide --watch",
    "talosctl --talosconfig talosconfig health",
)


def build(settings: Settings, secrets: Secrets) -> Outputs:
    """Build the stack ``cluster``."""
    built = build_cluster(settings, secrets)
    return Outputs(next_steps=CLUSTER_STEPS, **cluster_outputs(settings, built))
