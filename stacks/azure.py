"""The Azure half of a stack: resource group, networks, image, pools and their autoscaler."""

from typing import Any

import pulumi
from hybrid_talos.azure_worker_pool import AzureWorkerPool, AzureWorkerPoolArgs
from hybrid_talos.cluster_autoscaler import ClusterAutoscaler
from hybrid_talos.talos_image import Platform, TalosImage
from pulumi_azure_native import network, resources

from .burst import Burst
from .cluster import Joined
from .networks import AzureNetwork, azure_networks
from .providers import azure_provider
from .secrets import Secrets
from .settings import AzurePool, Settings


def build_azure(settings: Settings, secrets: Secrets, joined: Joined) -> Burst:
    """Build the settings' Azure pools for the cluster that ``joined`` describes."""
    azure = settings.azure
    assert azure is not None
    provider = azure_provider(azure)
    inside = pulumi.ResourceOptions(provider=provider)
    group = resources.ResourceGroup(
        "azure",
        resource_group_name=azure.resource_group,
        location=azure.location,
        tags={"hybrid-talos-cluster": settings.cluster.name},
        opts=inside,
    )
    networks = azure_networks(settings)
    regions = sorted({net.location for net in networks} | {azure.location})
    image = TalosImage(
        "image-azure",
        {
            "platform": Platform.AZURE,
            "talos_version": settings.cluster.talos_version,
            "factory_url": settings.image.factory_url,
            "extensions": list(settings.image.extensions),
            "extra_kernel_args": list(settings.image.extra_kernel_args),
            "arch": settings.image.arch,
            "azure": {
                "resource_group_name": group.name,
                "location": azure.location,
                "replica_regions": [region for region in regions if region != azure.location],
                "endpoints": {"blob": azure.endpoints.blob},
            },
        },
        pulumi.ResourceOptions(providers=[provider]),
    )
    pools: dict[str, AzureWorkerPool] = {}
    for net in networks:
        vnet = network.VirtualNetwork(
            net.name,
            resource_group_name=group.name,
            location=net.location,
            address_space={"address_prefixes": [net.cidr]},
            tags={"hybrid-talos-cluster": settings.cluster.name},
            opts=pulumi.ResourceOptions.merge(
                inside,
                # Subnets are resources of their own, owned by the pools; an inline list would remove them.
                pulumi.ResourceOptions(ignore_changes=["subnets"]),
            ),
        )
        for pool in net.pools:
            pools[pool.name] = AzureWorkerPool(
                f"azure-{pool.name}",
                _pool_args(settings, pool, net, joined, image, group, vnet),
                # A machine that comes before the API, the mesh and the cloud controller would only be taken down again.
                pulumi.ResourceOptions(providers=[provider], depends_on=list(joined.ready)),
            )
    node_groups = {f"azure/{name}": pool.node_group for name, pool in sorted(pools.items())}
    steps: tuple[pulumi.Input[str], ...] = ()
    if settings.autoscaler is not None and settings.autoscaler.azure is not None:
        assert secrets.azure_client_secret is not None
        choice = settings.autoscaler.azure
        args: Any = {
            "subscription_id": azure.subscription_id,
            "tenant_id": azure.tenant_id,
            "resource_group_name": group.name,
            "resource_group_id": group.id,
            "location": azure.location,
            "client_id": choice.identity.client_id,
            "client_secret": secrets.azure_client_secret,
        }
        if choice.identity.principal_id is not None:
            args["principal_id"] = choice.identity.principal_id
        autoscaler = ClusterAutoscaler(
            "autoscaler-azure",
            {
                "kubernetes_version": settings.cluster.kubernetes_version,
                "node_groups": {name: pool.node_group for name, pool in sorted(pools.items())},
                "azure": args,
                "deployment": choice.deployment,
            },
            pulumi.ResourceOptions(
                providers=[provider, joined.kubernetes],
                # It must be gone before the pools are, and it needs nodes that get their provider ids.
                depends_on=[*joined.ready, *pools.values()],
            ),
        )
        if choice.identity.principal_id is None:
            steps = (autoscaler.role_command,)
    return Burst({f"azure/{azure.location}": image.image_id}, node_groups, steps)


def _pool_args(
    settings: Settings,
    pool: AzurePool,
    net: AzureNetwork,
    joined: Joined,
    image: TalosImage,
    group: resources.ResourceGroup,
    vnet: network.VirtualNetwork,
) -> AzureWorkerPoolArgs:
    args: AzureWorkerPoolArgs = {
        "resource_group_name": group.name,
        "location": net.location,
        "virtual_network_name": vnet.name,
        "subnet_cidr": str(pool.subnet_cidr),
        "vm_size": pool.vm_size,
        "min_size": pool.min_size,
        "max_size": pool.max_size,
        "image_id": image.image_id,
        "machine_config": joined.machine_config,
        "talos_version": settings.cluster.talos_version,
        "public_ips": pool.public_ips,
        "labels": dict(sorted(pool.labels.items())),
        "tags": {"hybrid-talos-cluster": settings.cluster.name},
    }
    if joined.locations is not None:
        args["mesh_location"] = joined.locations[net.name]
    return args
