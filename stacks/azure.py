"""The Azure half of a stack: resource group, networks, image, pools and their autoscaler."""

import pulumi
from hybrid_talos.autoscaler_access import AzureAutoscalerArgs
from hybrid_talos.azure_capacity import CapacityGuardArgs
from hybrid_talos.azure_sizes import AzureDiskType
from hybrid_talos.azure_worker_pool import AzureWorkerPool, AzureWorkerPoolArgs
from hybrid_talos.cluster_autoscaler import ClusterAutoscaler, ClusterAutoscalerArgs
from pulumi_azure_native import network, resources

from .autoscaler import autoscaler_args, watch_steps
from .azure_images import AzureImages, build_azure_images
from .burst import Burst, spot_args, taint_args
from .cluster import Joined
from .providers import azure_provider
from .rolls import Roll, azure_props
from .secrets import Secrets
from .settings import AzurePool, CloudNetwork, Settings
from .settings_autoscaler import AzureIdentityKind, discovery_tags
from .settings_reach import public_ips


def build_azure(settings: Settings, secrets: Secrets, joined: Joined) -> Burst:
    """Build the settings' Azure pools for the cluster that ``joined`` describes."""
    azure = settings.azure
    assert azure is not None
    provider = azure_provider(azure, joined.checked)
    inside = pulumi.ResourceOptions(provider=provider)
    tags = {**azure.tags, "hybrid-talos-cluster": settings.cluster.name}
    group = resources.ResourceGroup(
        "azure",
        resource_group_name=azure.resource_group,
        location=azure.location,
        tags=tags,
        opts=inside,
    )
    networks = sorted(azure.networks(), key=lambda net: net.name)
    by_name = {pool.name: pool for pool in azure.pools}
    images = build_azure_images(
        settings, azure, group, tags, pulumi.ResourceOptions(providers=[provider], depends_on=list(joined.checked))
    )
    pools: dict[str, AzureWorkerPool] = {}
    for net in networks:
        vnet = None
        if by_name[net.pools[0]].subnet_id is None:
            vnet = network.VirtualNetwork(
                net.name,
                resource_group_name=group.name,
                location=net.region,
                address_space={"address_prefixes": [str(net.cidr)]},
                tags=tags,
                opts=pulumi.ResourceOptions.merge(
                    inside,
                    # Subnets are resources of their own, owned by the pools; an inline list would remove them.
                    pulumi.ResourceOptions(ignore_changes=["subnets"]),
                ),
            )
        for name in sorted(net.pools):
            pools[name] = AzureWorkerPool(
                f"azure-{name}",
                _pool_args(settings, by_name[name], net, joined, images, group, vnet),
                # A machine that comes before the API, the mesh and the cloud controller would only be taken down again.
                pulumi.ResourceOptions(providers=[provider], depends_on=list(joined.ready)),
            )
    # The number of gateways is fixed: no autoscaler hears of them.
    scaled = {name: pool for name, pool in sorted(pools.items()) if not by_name[name].gateway}
    node_groups = {f"azure/{name}": pool.node_group for name, pool in scaled.items()}
    steps: tuple[pulumi.Input[str], ...] = ()
    if settings.autoscaler is not None and settings.autoscaler.azure is not None:
        choice = settings.autoscaler.azure
        identity = choice.identity
        args: AzureAutoscalerArgs = {
            "subscription_id": azure.subscription_id,
            "tenant_id": azure.tenant_id,
            "resource_group_name": group.name,
            "resource_group_id": group.id,
            "location": azure.location,
            "environment": azure.environment,
        }
        if choice.discovery:
            args["discovery_tags"] = discovery_tags(settings.cluster.name)
        if identity.kind is AzureIdentityKind.WORKLOAD_IDENTITY:
            assert settings.autoscaler.service_account_issuer is not None
            args["workload_identity"] = {"issuer": settings.autoscaler.service_account_issuer}
        elif identity.kind is AzureIdentityKind.MANAGED_IDENTITY:
            assert identity.client_id is not None
            args["managed_identity"] = {"client_id": identity.client_id}
        else:
            assert identity.client_id is not None
            assert secrets.azure_client_secret is not None
            args["client_id"], args["client_secret"] = identity.client_id, secrets.azure_client_secret
        if identity.principal_id is not None:
            args["principal_id"] = identity.principal_id
        wanted: ClusterAutoscalerArgs = {
            "kubernetes_version": settings.cluster.kubernetes_version,
            "node_groups": {name: pool.node_group for name, pool in scaled.items()},
            "azure": args,
            "deployment": choice.deployment,
        }
        wanted.update(autoscaler_args(choice, list(pools)))
        autoscaler = ClusterAutoscaler(
            "autoscaler-azure",
            wanted,
            pulumi.ResourceOptions(
                providers=[provider, joined.kubernetes],
                # It must be gone before the pools are, and it needs nodes that get their provider ids.
                depends_on=[*joined.ready, *pools.values()],
            ),
        )
        if identity.principal_id is None and identity.kind is not AzureIdentityKind.WORKLOAD_IDENTITY:
            steps = (autoscaler.role_command,)
        steps = (*steps, *watch_steps(choice, "autoscaler-azure"))
    rolls = {
        f"azure/{name}": Roll(
            pool,
            {**azure_props(azure, by_name[name], rolling), "group": pool.scale_set_id, "stamp": pool.template_hash},
        )
        for name, pool in sorted(pools.items())
        if (rolling := by_name[name].rolling) is not None
    }
    return Burst(images.ids(), node_groups, steps, rolls)


def _found_by(settings: Settings, pool: AzurePool) -> dict[str, str]:
    scaler = settings.autoscaler.azure if settings.autoscaler is not None else None
    if scaler is None or not scaler.discovery or pool.gateway:
        return {}
    return discovery_tags(settings.cluster.name)


def _pool_args(
    settings: Settings,
    pool: AzurePool,
    net: CloudNetwork,
    joined: Joined,
    images: AzureImages,
    group: resources.ResourceGroup,
    vnet: network.VirtualNetwork | None,
) -> AzureWorkerPoolArgs:
    azure = settings.azure
    assert azure is not None
    args: AzureWorkerPoolArgs = {
        "resource_group_name": group.name,
        "location": net.region,
        "subnet_cidr": str(pool.subnet_cidr),
        "vm_size": pool.vm_size,
        "min_size": pool.min_size,
        "max_size": pool.max_size,
        "image_id": images.of(settings.arch_of(pool), net.region).image_id,
        "machine_config": joined.machine_config,
        "talos_version": settings.cluster.talos_version,
        "public_ips": public_ips(settings.mesh, azure, pool),
        "gateway": pool.gateway,
        "labels": dict(sorted(pool.labels.items())),
        "taints": taint_args(pool.taints),
        "zones": list(pool.zones),
        "arch": settings.arch_of(pool),
        "config_patches": list(pool.config_patches),
        "tags": {**azure.tags, "hybrid-talos-cluster": settings.cluster.name},
        "discovery_tags": _found_by(settings, pool),
    }
    if pool.os_disk_type is not AzureDiskType.STANDARD_SSD:
        args["os_disk_type"] = pool.os_disk_type
    if pool.ephemeral_os_disk is not None:
        args["ephemeral_os_disk"] = pool.ephemeral_os_disk
    if settings.image.is_secure_boot:
        args["secure_boot"] = True
    if pool.accelerated_networking:
        args["accelerated_networking"] = True
    if pool.talos_api_allowed_cidrs:
        args["talos_api_allowed_cidrs"] = [str(cidr) for cidr in pool.talos_api_allowed_cidrs]
    if vnet is not None:
        args["virtual_network_name"] = vnet.name
    if pool.subnet_id is not None:
        args["subnet_id"] = pool.subnet_id
    guard: CapacityGuardArgs = {"environment": azure.environment}
    if azure.endpoints.resource_manager is not None:
        guard["resource_manager"] = azure.endpoints.resource_manager
    args["capacity_guard"] = guard
    if pool.spot is not None:
        args["spot"] = spot_args(pool.spot)
    if pool.os_disk_size_gb is not None:
        args["os_disk_size_gb"] = pool.os_disk_size_gb
    if azure.ssh_public_key is not None:
        args["ssh_public_key"] = azure.ssh_public_key
    if joined.locations is not None:
        args["mesh_location"] = joined.locations[net.name]
    return args
