"""Two clusters in one program, each with one instance or more of every component, as somebody else would write it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_alicloud as alicloud
import pulumi_azure_native as azure
import pulumi_kubernetes as kubernetes
import pulumiverse_talos as talos
from hybrid_talos import (
    AliyunWorkerPool,
    AzureWorkerPool,
    ClusterAutoscaler,
    EndpointKind,
    HAControlPlane,
    MeshKind,
    MeshPeers,
    NetworkMesh,
    Platform,
    StaticWorkerPool,
    TalosCloudController,
    TalosImage,
)

TALOS, KUBERNETES = "1.14.0", "1.36.3"
LOCATION, REGION = "westeurope", "cn-hangzhou"

addresses = pulumi.Config("hybrid-talos").require_object("settings")


@dataclass(frozen=True)
class Place:
    """What one cluster does not share with the other."""

    name: str
    rack: str
    """The first three bytes of its machines' addresses."""
    members: int
    second: int
    """The second byte of its first range in 10.0.0.0/8; it has five."""

    @property
    def endpoints(self) -> Any:
        """Where its machines are reached, and its Kubernetes API at its first one: the lab has one way in for all."""
        talos = addresses["cluster"]["endpoints"]["talos"]
        first = talos[f"{self.rack}.11"].partition(":")[0]
        return {"talos": talos, "kubernetes": f"https://{first}:6443"}

    def cidr(self, number: int, prefix: int = 16, third: int = 0) -> str:
        return f"10.{self.second + number}.{third}.0/{prefix}"


EAST = Place("east", "192.0.2", 3, 100)
WEST = Place("west", "198.51.100", 1, 110)

azure_cloud = azure.Provider("azure", subscription_id="00000000-0000-0000-0000-000000000000")
aliyun_cloud = alicloud.Provider("aliyun", region=REGION)
machines = talos.Provider("talos")


def build(place: Place) -> None:
    """Declare one cluster with everything that belongs to it."""
    name = place.name
    pods, services, mesh_range = (place.cidr(number) for number in range(3))
    vnet, vpc = place.cidr(3, 17), place.cidr(3, 17, 128)
    kubeconfig: pulumi.Output[str]
    resolve: Callable[[pulumi.Output[str]], None]
    kubeconfig, resolve = pulumi.deferred_output()
    api = kubernetes.Provider(f"{name}-api", kubeconfig=kubeconfig, cluster_identifier=name)

    image = TalosImage(
        f"{name}-image",
        {"platform": Platform.METAL, "talos_version": TALOS, "factory_url": addresses["image"]["factoryUrl"]},
    )
    mesh = NetworkMesh(
        f"{name}-mesh",
        {
            "kind": MeshKind.KILO,
            "pod_cidr": pods,
            "service_cidr": services,
            "cidr": mesh_range,
            "peer_cidr": place.cidr(4, 24),
            "locations": {
                "rack": {"cidrs": [f"{place.rack}.0/24"], "public_endpoint": f"wg.{name}.example.com"},
                "azure": {"cidrs": [vnet], "path_mtu": 1400},
                "aliyun": {"cidrs": [vpc]},
            },
        },
        pulumi.ResourceOptions(providers=[api]),
    )
    control_plane = HAControlPlane(
        f"{name}-control-plane",
        {
            "cluster_name": name,
            "talos_version": TALOS,
            "kubernetes_version": KUBERNETES,
            "endpoint": {"host": f"k8s.{name}.example.com", "kind": EndpointKind.DNS, "check_dns": False},
            "control_planes": [
                {"name": f"cp-{number}", "address": f"{place.rack}.{10 + number}"}
                for number in range(1, place.members + 1)
            ],
            "installer_image": image.installer_image,
            "pod_cidr": pods,
            "service_cidr": services,
            "location": mesh.locations["rack"],
            "allow_single_member": place.members == 1,
            "protect": False,
            "endpoints": place.endpoints,
        },
        pulumi.ResourceOptions(providers=[machines]),
    )
    resolve(control_plane.kubeconfig)
    MeshPeers(
        f"{name}-peers",
        {
            "cidr": place.cidr(4, 24),
            "peers": {"alice": {"address": f"10.{place.second + 4}.0.2"}},
            "kubeconfig": control_plane.kubeconfig,
            "connect_to": place.endpoints["kubernetes"],
        },
        pulumi.ResourceOptions(providers=[api], depends_on=[mesh]),
    )
    StaticWorkerPool(
        f"{name}-workers",
        {
            "workers": [{"name": "worker-1", "address": f"{place.rack}.21"}],
            "machine_config": control_plane.worker_machine_config,
            "client_configuration": control_plane.client_configuration,
            "installer_image": image.installer_image,
            "talos_version": TALOS,
            "kubernetes_version": KUBERNETES,
            "control_planes": control_plane.members,
            "endpoints": place.endpoints,
            "location": mesh.locations["rack"],
            "graceful_removal": False,
        },
        pulumi.ResourceOptions(providers=[machines], depends_on=[control_plane]),
    )
    controller = TalosCloudController(
        f"{name}-cloud-controller", {"kubernetes_version": KUBERNETES}, pulumi.ResourceOptions(providers=[api])
    )
    ready = [control_plane, mesh, controller]
    on_azure(place, vnet, mesh, control_plane, api, ready)
    on_aliyun(place, vpc, mesh, control_plane, api, ready)


def on_azure(
    place: Place,
    vnet: str,
    mesh: NetworkMesh,
    control_plane: HAControlPlane,
    api: kubernetes.Provider,
    ready: Sequence[pulumi.Resource],
) -> None:
    """Declare an image, a pool and an autoscaler on Azure."""
    name = f"{place.name}-azure"
    inside = pulumi.ResourceOptions(provider=azure_cloud)
    group = azure.resources.ResourceGroup(name, resource_group_name=name, location=LOCATION, opts=inside)
    network = azure.network.VirtualNetwork(
        name,
        resource_group_name=group.name,
        location=LOCATION,
        address_space={"address_prefixes": [vnet]},
        opts=pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(ignore_changes=["subnets"])),
    )
    image = TalosImage(
        f"{name}-image",
        {
            "platform": Platform.AZURE,
            "talos_version": TALOS,
            "factory_url": addresses["image"]["factoryUrl"],
            "azure": {
                "resource_group_name": group.name,
                "location": LOCATION,
                "endpoints": {
                    "blob": addresses["azure"]["endpoints"]["blob"],
                    "resource_manager": addresses["azure"]["endpoints"]["resourceManager"],
                },
            },
        },
        pulumi.ResourceOptions(providers=[azure_cloud]),
    )
    pool = AzureWorkerPool(
        f"{name}-pool",
        {
            "resource_group_name": group.name,
            "location": LOCATION,
            "virtual_network_name": network.name,
            "subnet_cidr": vnet.replace("/17", "/24"),
            "vm_size": "Standard_D2s_v3",
            "min_size": 0,
            "max_size": 3,
            "image_id": image.image_id,
            "machine_config": control_plane.worker_machine_config,
            "talos_version": TALOS,
            "mesh_location": mesh.locations["azure"],
            "public_ips": True,
        },
        pulumi.ResourceOptions(providers=[azure_cloud], depends_on=ready),
    )
    ClusterAutoscaler(
        f"{name}-autoscaler",
        {
            "kubernetes_version": KUBERNETES,
            "node_groups": {"pool": pool.node_group},
            "azure": {
                "subscription_id": "00000000-0000-0000-0000-000000000000",
                "tenant_id": "00000000-0000-0000-0000-000000000000",
                "resource_group_name": group.name,
                "resource_group_id": group.id,
                "location": LOCATION,
                "client_id": "00000000-0000-0000-0000-000000000001",
                "client_secret": pulumi.Output.secret(f"{name}-client-secret-MARKER"),
                "principal_id": "00000000-0000-0000-0000-000000000002",
            },
        },
        pulumi.ResourceOptions(providers=[azure_cloud, api], depends_on=[*ready, pool]),
    )


def on_aliyun(
    place: Place,
    vpc: str,
    mesh: NetworkMesh,
    control_plane: HAControlPlane,
    api: kubernetes.Provider,
    ready: Sequence[pulumi.Resource],
) -> None:
    """Declare an image, a pool and an autoscaler on Alibaba Cloud, in the region of the other cluster."""
    name = f"{place.name}-aliyun"
    inside = pulumi.ResourceOptions(provider=aliyun_cloud)
    network = alicloud.vpc.Network(name, vpc_name=name, cidr_block=vpc, opts=inside)
    image = TalosImage(
        f"{name}-image",
        {
            "platform": Platform.ALIBABACLOUD,
            "talos_version": TALOS,
            "factory_url": addresses["image"]["factoryUrl"],
            "aliyun": {"region": REGION, "endpoints": addresses["aliyun"]["endpoints"]},
        },
        pulumi.ResourceOptions(providers=[aliyun_cloud]),
    )
    pool = AliyunWorkerPool(
        f"{name}-pool",
        {
            "region": REGION,
            "vpc_id": network.id,
            "zones": {f"{REGION}-h": vpc.replace("/17", "/24")},
            "instance_types": ["ecs.g7.large"],
            "min_size": 0,
            "max_size": 3,
            "image_id": image.image_id,
            "machine_config": control_plane.worker_machine_config,
            "talos_version": TALOS,
            "mesh_location": mesh.locations["aliyun"],
            "public_ips": True,
        },
        pulumi.ResourceOptions(providers=[aliyun_cloud], depends_on=ready),
    )
    ClusterAutoscaler(
        f"{name}-autoscaler",
        {
            "kubernetes_version": KUBERNETES,
            "node_groups": {"pool": pool.node_group},
            "aliyun": {
                "region": REGION,
                "access_key_id": "LTAIexample",
                "access_key_secret": pulumi.Output.secret(f"{name}-access-key-secret-MARKER"),
                "user_name": "autoscaler",
            },
        },
        pulumi.ResourceOptions(providers=[aliyun_cloud, api], depends_on=[*ready, pool]),
    )


for each in (EAST, WEST):
    build(each)
