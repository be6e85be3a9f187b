"""Everything that the library puts into a cluster: mesh, cloud controller, an autoscaler for each cloud, a package."""

import base64

import pulumi
import pulumi_alicloud as alicloud
import pulumi_azure_native as azure
import pulumi_kubernetes as kubernetes
from hybrid_talos import (
    AutoscalerDeployment,
    ClusterAutoscaler,
    Cni,
    MeshKind,
    MeshPeers,
    NetworkMesh,
    TalosCloudController,
)

config = pulumi.Config()
settings = config.get_object("settings") or {}

SUBSCRIPTION = TENANT = CLIENT = "00000000-0000-0000-0000-000000000000"
VERSION = "1.36.3"

api = kubernetes.Provider("api", kubeconfig=config.require_secret("kubeconfig"), cluster_identifier="real")
azure_cloud = azure.Provider("azure", subscription_id=SUBSCRIPTION)
aliyun_cloud = alicloud.Provider("aliyun", region="cn-hangzhou")
everywhere = pulumi.ResourceOptions(providers=[api, azure_cloud, aliyun_cloud])
secret = config.require_secret("credential")
group = azure.resources.ResourceGroup(
    "workers",
    resource_group_name="demo-workers",
    location="westeurope",
    opts=pulumi.ResourceOptions(provider=azure_cloud),
)

mesh = NetworkMesh(
    "mesh",
    {
        "kind": MeshKind.KILO,
        "cni": Cni(settings.get("cni", "flannel")),
        "pod_cidr": "10.244.0.0/16",
        "service_cidr": "10.96.0.0/16",
        "locations": {
            "rack": {"cidrs": ["192.0.2.0/24"], "public_endpoint": "wg.demo.example.com"},
            "azure": {"cidrs": ["10.2.0.0/16"], "path_mtu": 1400},
            "aliyun": {"cidrs": ["10.3.0.0/16"]},
        },
        "peer_cidr": "10.5.0.0/24",
        "monitoring": {"labels": {"release": "prometheus"}},
    },
    everywhere,
)
peers = MeshPeers(
    "peers",
    {
        "cidr": "10.5.0.0/24",
        "peers": {
            "alice": {"address": "10.5.0.2", "preshared": True},
            "branch": {
                "address": "10.5.0.3",
                "public_key": base64.b64encode(b"the branch has its private key..").decode(),
                "endpoint": "branch.example.com:51820",
                "routed_cidrs": ["172.16.1.0/24"],
            },
        },
        "kubeconfig": config.require_secret("kubeconfig"),
        "ready_minutes": 1,
    },
    # Programs that know the mesh say so; then the definition of Peers goes after they do.
    pulumi.ResourceOptions.merge(everywhere, pulumi.ResourceOptions(depends_on=[mesh])),
)
controller = TalosCloudController("cloud", {"kubernetes_version": VERSION, "talos_version": "1.14.0"}, everywhere)
AZURE = {
    "subscription_id": SUBSCRIPTION,
    "tenant_id": TENANT,
    "resource_group_name": group.name,
    "resource_group_id": group.id,
    "location": "westeurope",
    "client_id": CLIENT,
    "client_secret": secret,
}
GROUPS = {
    "azure": {"cloud": "azure", "name": "demo-workers-vmss", "min_size": 0, "max_size": 10, "labels": {}, "taints": []},
    "aliyun": {"cloud": "aliyun", "name": "asg-bp1example", "min_size": 0, "max_size": 5, "labels": {}, "taints": []},
}
on_azure = ClusterAutoscaler(
    "demo-azure",
    {
        "kubernetes_version": VERSION,
        "node_groups": {"workers": GROUPS["azure"]},
        "azure": AZURE,
        "expander": "least-nodes",
    },
    everywhere,
)
on_aliyun = ClusterAutoscaler(
    "demo-aliyun",
    {
        "kubernetes_version": VERSION,
        "node_groups": {"workers": GROUPS["aliyun"]},
        "aliyun": {"region": "cn-hangzhou", "access_key_id": "LTAIexample", "access_key_secret": secret},
    },
    everywhere,
)
ClusterAutoscaler(
    "packaged-azure",
    {
        "kubernetes_version": VERSION,
        "node_groups": {"workers": GROUPS["azure"]},
        "azure": AZURE,
        "deployment": AutoscalerDeployment.COZYSTACK_PACKAGE,
    },
    everywhere,
)

pulumi.export("deployments", [controller.deployment_name, on_azure.deployment_name, on_aliyun.deployment_name])
pulumi.export("clients", peers.client_files)
