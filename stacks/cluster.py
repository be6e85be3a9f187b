"""The cluster itself: control plane, static workers, mesh and cloud controller."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_kubernetes as kubernetes
from hybrid_talos.cluster_endpoint import EndpointArgs
from hybrid_talos.cni import Cni
from hybrid_talos.ha_control_plane import HAControlPlane
from hybrid_talos.machine import MachineArgs
from hybrid_talos.mesh_location import MeshLocation
from hybrid_talos.static_worker_pool import StaticWorkerPool
from hybrid_talos.talos_cloud_controller import TalosCloudController
from hybrid_talos.talos_image import Arch, Platform, TalosImage

from .join import write_join
from .mesh import build_mesh
from .outputs import Outputs
from .providers import kubernetes_provider, talos_provider
from .secrets import Secrets
from .settings import Endpoint, Machine, Settings


@dataclass(frozen=True)
class Joined:
    """What worker pools need of a cluster, built here or elsewhere."""

    machine_config: pulumi.Output[str]
    kubernetes: kubernetes.Provider
    locations: pulumi.Output[Mapping[str, MeshLocation]] | None
    ready: Sequence[pulumi.Resource]
    """What must stand before a machine may come."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that this stack built."""

    joined: Joined
    control_plane: HAControlPlane
    image: TalosImage


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


def _machines(machines: Sequence[Machine]) -> list[MachineArgs]:
    result: list[MachineArgs] = []
    for machine in machines:
        args: MachineArgs = {
            "name": machine.name,
            "address": str(machine.address),
            "install_disk": machine.install_disk,
            "config_patches": list(machine.config_patches),
        }
        if machine.public_address is not None:
            args["public_address"] = str(machine.public_address)
        result.append(args)
    return result


def _endpoint(endpoint: Endpoint) -> EndpointArgs:
    args: EndpointArgs = {
        "host": endpoint.host,
        "port": endpoint.port,
        "kind": endpoint.kind,
        "allow_member_address": endpoint.allow_member_address,
    }
    if endpoint.interface is not None:
        args["interface"] = endpoint.interface
    return args


def build_cluster(settings: Settings) -> Cluster:
    """Build the cluster; the mesh knows every location of the settings from the start."""
    cluster = settings.cluster
    talos = talos_provider()
    image = TalosImage(
        "image-metal",
        {
            "platform": Platform.METAL,
            "talos_version": cluster.talos_version,
            "factory_url": settings.image.factory_url,
            "extensions": list(settings.image.extensions),
            "extra_kernel_args": list(settings.image.extra_kernel_args),
            "arch": Arch(settings.image.arch.value),
        },
    )
    # The mesh's patch belongs into the machines' first configuration, and its manifests need the API that those
    # machines bring up: the provider gets its kubeconfig from the control plane that is declared below.
    with _later() as (kubeconfig, resolve):
        provider = kubernetes_provider(cluster.name, kubeconfig)
        mesh = build_mesh(settings, provider)
        locations = mesh.locations if mesh is not None else None
        machine_extras = _machine_extras(settings, locations)
        control_plane = HAControlPlane(
            "control-plane",
            {
                "cluster_name": cluster.name,
                "talos_version": cluster.talos_version,
                "config_contract": cluster.config_contract,
                "kubernetes_version": cluster.kubernetes_version,
                "endpoint": _endpoint(cluster.endpoint),
                "allow_single_member": cluster.allow_single_member,
                "cert_sans": list(cluster.cert_sans),
                "config_patches": list(cluster.config_patches),
                "control_planes": _machines(cluster.control_planes),
                "pod_cidr": str(cluster.pod_cidr),
                "service_cidr": str(cluster.service_cidr),
                "installer_image": image.installer_image,
                "registry_mirrors": {
                    host: [str(url) for url in urls] for host, urls in sorted(cluster.registry_mirrors.items())
                },
                "cni": settings.mesh.cni if settings.mesh is not None else Cni.FLANNEL,
                **machine_extras,
            },
            pulumi.ResourceOptions(providers=[talos]),
        )
        resolve(control_plane.kubeconfig)
    ready: list[pulumi.Resource] = [control_plane]
    if mesh is not None:
        ready.append(mesh)
    if cluster.workers:
        StaticWorkerPool(
            "workers",
            {
                "workers": _machines(cluster.workers),
                "machine_config": control_plane.worker_machine_config,
                "client_configuration": control_plane.client_configuration,
                "installer_image": image.installer_image,
                **machine_extras,
            },
            # A worker that boots before the API answers only waits; one after the other is easier to read.
            pulumi.ResourceOptions(providers=[talos], depends_on=[control_plane]),
        )
    ready.append(
        TalosCloudController(
            "cloud-controller",
            {"kubernetes_version": cluster.kubernetes_version},
            pulumi.ResourceOptions(providers=[provider]),
        )
    )
    joined = Joined(control_plane.worker_machine_config, provider, locations, ready)
    return Cluster(joined, control_plane, image)


class _Extras(TypedDict):
    node_subnets: NotRequired[Sequence[str]]
    location: NotRequired[pulumi.Input[MeshLocation]]


def _machine_extras(settings: Settings, locations: pulumi.Output[Mapping[str, MeshLocation]] | None) -> _Extras:
    own = settings.cluster.location
    if own is None:
        return {}
    extras: _Extras = {"node_subnets": [str(cidr) for cidr in own.cidrs]}
    if locations is not None:
        extras["location"] = locations[own.name]
    return extras


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
    "kubectl --kubeconfig kubeconfig get nodes -o wide",
    "talosctl --talosconfig talosconfig health",
)


def build(settings: Settings, secrets: Secrets) -> Outputs:
    """Build the stack ``cluster``."""
    built = build_cluster(settings)
    return Outputs(next_steps=CLUSTER_STEPS, **cluster_outputs(settings, built))
