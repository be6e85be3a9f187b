"""One program that takes the components from this process or, with `hosted:hosted`, from the package.

The hosted half is what a program in another language does: tokens, camelCase inputs and outputs, and no import of the
library.
"""

from typing import Any

import pulumi
import pulumi_azure_native as azure
import pulumi_kubernetes as kubernetes
import pulumiverse_talos as talos

TALOS, KUBERNETES = "1.14.0", "1.36.3"
LOCATION = "westeurope"
NOBODY = "00000000-0000-0000-0000-000000000000"

addresses = pulumi.Config("hybrid-talos").require_object("settings")
hosted = pulumi.Config().get_bool("hosted") or False
most = pulumi.Config().get_int("maxSize") or 3


class Remote(pulumi.ComponentResource):
    """A component of the package, as a generated SDK declares it."""

    def __init__(
        self, kind: str, name: str, inputs: dict[str, Any], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        self.kind = kind
        properties = {**dict.fromkeys(OUTPUTS[kind]), **inputs}
        super().__init__(f"hybrid-talos:index:{kind}", name, properties, opts, remote=True)


OUTPUTS = {
    "TalosImage": ("installerImage", "imageId"),
    "NetworkMesh": ("locations",),
    "HAControlPlane": ("kubeconfig", "workerMachineConfig", "clientConfiguration"),
    "StaticWorkerPool": ("nodeNames",),
    "AzureWorkerPool": ("nodeGroup",),
    "ClusterAutoscaler": ("nodeGroups",),
}


def component(kind: str, name: str, inputs: dict[str, Any], opts: pulumi.ResourceOptions | None = None) -> Any:
    """Return a component; ``inputs`` are spelled as in the schema."""
    if hosted:
        return Remote(kind, name, inputs, opts)
    import hybrid_talos  # noqa: PLC0415 - the hosted half must do without it

    return getattr(hybrid_talos, kind)(name, snake(inputs), opts)


def snake(inputs: dict[str, Any]) -> dict[str, Any]:
    """Return inputs as Python spells them; keys of maps, which a program chooses, have no capitals in here."""
    return {
        "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in key): snaked(value)
        for key, value in inputs.items()
    }


def snaked(value: Any) -> Any:
    if isinstance(value, dict):
        return snake(value)
    return [snaked(item) for item in value] if isinstance(value, list) else value


def output(made: Any, key: str) -> pulumi.Output[Any]:
    """Return an output by its name in the schema."""
    (name,) = snake({key: None})
    return getattr(made, key if hosted else name)


azure_cloud = azure.Provider("azure", subscription_id=NOBODY)
machines = talos.Provider("talos")
inside = pulumi.ResourceOptions(provider=azure_cloud)
group = azure.resources.ResourceGroup("workers", resource_group_name="workers", location=LOCATION, opts=inside)
network = azure.network.VirtualNetwork(
    "workers",
    resource_group_name=group.name,
    location=LOCATION,
    address_space={"address_prefixes": ["10.2.0.0/16"]},
    opts=pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(ignore_changes=["subnets"])),
)
MESH = {
    "kind": "kilo",
    "podCidr": "10.244.0.0/16",
    "serviceCidr": "10.96.0.0/16",
    "locations": {
        "rack": {"cidrs": ["192.0.2.0/24"], "publicEndpoint": "wg.example.com"},
        "azure": {"cidrs": ["10.2.0.0/16"], "pathMtu": 1400},
    },
}
factory = {"talosVersion": TALOS, "factoryUrl": addresses["image"]["factoryUrl"]}

metal = component("TalosImage", "metal", {"platform": "metal", **factory})
# A hosted component answers once all of its children are made. The agent needs a cluster, and the cluster the
# locations: so they are asked of a mesh that deploys nothing.
plan = component("NetworkMesh", "plan", {**MESH, "deploy": False})
locations = output(plan, "locations")
cluster = component(
    "HAControlPlane",
    "cluster",
    {
        "clusterName": "hosted",
        "talosVersion": TALOS,
        "kubernetesVersion": KUBERNETES,
        "endpoint": {"host": "k8s.example.com", "kind": "dns", "checkDns": False},
        "controlPlanes": [{"name": "cp-1", "address": "192.0.2.11"}],
        "installerImage": output(metal, "installerImage"),
        "podCidr": MESH["podCidr"],
        "serviceCidr": MESH["serviceCidr"],
        "location": locations["rack"],
        "allowSingleMember": True,
        "protect": False,
        "endpoints": {key: addresses["cluster"]["endpoints"][key] for key in ("kubernetes", "talos")},
    },
    pulumi.ResourceOptions(providers=[machines]),
)
component(
    "StaticWorkerPool",
    "static",
    {
        "workers": [{"name": "worker-1", "address": "192.0.2.21"}],
        "machineConfig": output(cluster, "workerMachineConfig"),
        "clientConfiguration": output(cluster, "clientConfiguration"),
        "installerImage": output(metal, "installerImage"),
        "location": locations["rack"],
        "gracefulRemoval": False,
    },
    pulumi.ResourceOptions(providers=[machines], depends_on=[cluster]),
)
api = kubernetes.Provider("api", kubeconfig=output(cluster, "kubeconfig"), cluster_identifier="hosted")
mesh = component("NetworkMesh", "mesh", MESH, pulumi.ResourceOptions(providers=[api]))
image = component(
    "TalosImage",
    "image",
    {
        "platform": "azure",
        **factory,
        "azure": {
            "resourceGroupName": group.name,
            "location": LOCATION,
            "endpoints": {
                "blob": addresses["azure"]["endpoints"]["blob"],
                "resourceManager": addresses["azure"]["endpoints"]["resourceManager"],
            },
        },
    },
    pulumi.ResourceOptions(providers=[azure_cloud]),
)
pool = component(
    "AzureWorkerPool",
    "pool",
    {
        "resourceGroupName": group.name,
        "location": LOCATION,
        "virtualNetworkName": network.name,
        "subnetCidr": "10.2.0.0/24",
        "vmSize": "Standard_D2s_v3",
        "minSize": 0,
        "maxSize": most,
        "imageId": output(image, "imageId"),
        "machineConfig": output(cluster, "workerMachineConfig"),
        "talosVersion": TALOS,
        "meshLocation": locations["azure"],
        "publicIps": True,
        "labels": {"example.com/pool": "azure"},
        "taints": [{"key": "example.com/burst", "value": "true", "effect": "NoSchedule"}],
    },
    pulumi.ResourceOptions(providers=[azure_cloud], depends_on=[cluster, mesh]),
)
autoscaler = component(
    "ClusterAutoscaler",
    "autoscaler",
    {
        "kubernetesVersion": KUBERNETES,
        "nodeGroups": {"pool": output(pool, "nodeGroup")},
        "azure": {
            "subscriptionId": NOBODY,
            "tenantId": NOBODY,
            "resourceGroupName": group.name,
            "resourceGroupId": group.id,
            "location": LOCATION,
            "clientId": NOBODY,
            "clientSecret": pulumi.Output.secret("client-secret-MARKER"),
            "principalId": NOBODY,
        },
    },
    pulumi.ResourceOptions(providers=[azure_cloud, api], depends_on=[cluster, mesh, pool]),
)
pulumi.export("kubeconfig", output(cluster, "kubeconfig"))
pulumi.export("poolName", output(pool, "nodeGroup")["name"])
