"""The Alibaba half of a stack: networks, images, pools and their autoscalers, region by region."""

import pulumi
from hybrid_talos.aliyun_disk import AliyunZonePolicy
from hybrid_talos.aliyun_image_inputs import AliyunEndpoints, AliyunImageArgs
from hybrid_talos.aliyun_worker_pool import DISK_GB, AliyunWorkerPool, AliyunWorkerPoolArgs
from hybrid_talos.autoscaler_access import ALIYUN_AUDIENCE, AliyunAutoscalerArgs
from hybrid_talos.cluster_autoscaler import ClusterAutoscaler, ClusterAutoscalerArgs
from hybrid_talos.talos_image import Platform, TalosImage
from pulumi_alicloud import ims, vpc

from .autoscaler import autoscaler_args, choice_pool, watch_steps
from .burst import Burst, spot_args, taint_args
from .cluster import Joined
from .images import image_args
from .providers import aliyun_provider
from .rolls import Roll, aliyun_props
from .secrets import Secrets
from .settings import AliyunPool, CloudNetwork, Settings
from .settings_autoscaler import AliyunIdentityKind
from .settings_reach import public_ips


def build_aliyun(settings: Settings, secrets: Secrets, joined: Joined) -> Burst:
    """Build the settings' Alibaba pools for the cluster that ``joined`` describes."""
    aliyun = settings.aliyun
    assert aliyun is not None
    networks = sorted(aliyun.networks(), key=lambda net: net.name)
    by_name = {pool.name: pool for pool in aliyun.pools}
    tags = {**aliyun.tags, "hybrid-talos-cluster": settings.cluster.name}
    # An image is for its region alone: each region that has a pool gets one, and its pools no other.
    regions = sorted({net.region for net in networks})
    providers = {region: aliyun_provider(region, joined.checked) for region in regions}
    images = {region: _image(settings, region, providers[region], joined) for region in regions}
    pools: dict[str, AliyunWorkerPool] = {}
    pool_regions: dict[str, str] = {}
    for net in networks:
        network_id: pulumi.Input[str] | None = by_name[net.pools[0]].vpc_id
        if network_id is None:
            network_id = vpc.Network(
                net.name,
                vpc_name=f"{settings.cluster.name}-{net.name}",
                cidr_block=str(net.cidr),
                tags=tags,
                opts=pulumi.ResourceOptions(provider=providers[net.region]),
            ).id
        for name in sorted(net.pools):
            pool_regions[name] = net.region
            pools[name] = AliyunWorkerPool(
                f"aliyun-{name}",
                _pool_args(settings, by_name[name], net, joined, images[net.region], network_id),
                # A machine that comes before the API, the mesh and the cloud controller would only be taken down again.
                pulumi.ResourceOptions(providers=[providers[net.region]], depends_on=list(joined.ready)),
            )
    # The number of gateways is fixed: no autoscaler hears of them.
    scaled = {name: pool for name, pool in sorted(pools.items()) if not by_name[name].gateway}
    steps: list[pulumi.Input[str]] = []
    if settings.autoscaler is not None and settings.autoscaler.aliyun is not None:
        issuer = _issuer(settings, providers[aliyun.region] if aliyun.region in providers else providers[regions[0]])
        # The Alibaba autoscaler speaks to one region; the settings' own keeps the plain name.
        for region in sorted({pool_regions[name] for name in scaled}):
            suffix = "" if region == aliyun.region else f"-{region}"
            mine = {name: pool for name, pool in scaled.items() if pool_regions[name] == region}
            steps += _autoscaler(
                settings, secrets, joined, region, f"autoscaler-aliyun{suffix}", mine, providers[region], issuer
            )
    return Burst(
        {f"aliyun/{region}": image.image_id for region, image in images.items()},
        {f"aliyun/{name}": pool.node_group for name, pool in scaled.items()},
        tuple(steps),
        {
            f"aliyun/{name}": Roll(
                pool,
                {
                    **aliyun_props(aliyun, by_name[name], rolling),
                    "group": pool.scaling_group_id,
                    "stamp": pool.template_hash,
                },
            )
            for name, pool in sorted(pools.items())
            if (rolling := by_name[name].rolling) is not None
        },
    )


def _image(settings: Settings, region: str, provider: pulumi.ProviderResource, joined: Joined) -> TalosImage:
    aliyun = settings.aliyun
    assert aliyun is not None
    endpoints: AliyunEndpoints = {}
    if aliyun.endpoints.oss is not None:
        endpoints["oss"] = aliyun.endpoints.oss
    if aliyun.endpoints.ecs is not None:
        endpoints["ecs"] = aliyun.endpoints.ecs
    if aliyun.endpoints.ess is not None:
        endpoints["ess"] = aliyun.endpoints.ess
    target: AliyunImageArgs = {
        "region": region,
        "boot_mode": aliyun.image.boot_mode,
        "experimental_metal": aliyun.image.experimental_metal,
        "retain": settings.image.retain,
        "endpoints": endpoints,
        "tags": {**aliyun.tags, "hybrid-talos-cluster": settings.cluster.name},
    }
    disks = [pool.system_disk_size_gb or DISK_GB for pool in aliyun.pools if aliyun.region_of(pool) == region]
    return TalosImage(
        f"image-aliyun-{region}",
        {**image_args(settings, Platform.ALIBABACLOUD), "system_disk_gb": min(disks), "aliyun": target},
        pulumi.ResourceOptions(providers=[provider], depends_on=list(joined.checked)),
    )


def _issuer(settings: Settings, provider: pulumi.ProviderResource) -> ims.OidcProvider | None:
    """Declare the account's trust in tokens of the cluster, of which there can be one, when no key is given."""
    assert settings.autoscaler is not None
    assert settings.autoscaler.aliyun is not None
    identity = settings.autoscaler.aliyun.identity
    if identity.kind is not AliyunIdentityKind.OIDC:
        return None
    return ims.OidcProvider(
        "autoscaler-issuer",
        oidc_provider_name=settings.cluster.name,
        issuer_url=settings.autoscaler.service_account_issuer,
        client_ids=[ALIYUN_AUDIENCE],
        fingerprints=sorted(identity.issuer_fingerprints),
        description="The cluster whose service accounts sign in by token.",
        opts=pulumi.ResourceOptions(provider=provider),
    )


def _autoscaler(
    settings: Settings,
    secrets: Secrets,
    joined: Joined,
    region: str,
    name: str,
    pools: dict[str, AliyunWorkerPool],
    provider: pulumi.ProviderResource,
    issuer: ims.OidcProvider | None,
) -> list[pulumi.Input[str]]:
    assert settings.autoscaler is not None
    assert settings.autoscaler.aliyun is not None
    choice = settings.autoscaler.aliyun
    identity = choice.identity
    args: AliyunAutoscalerArgs = {
        "region": region,
        # Policy names are unique in an account, which may hold other clusters.
        "policy_name": f"{settings.cluster.name}-{name}".replace(".", "-"),
    }
    if issuer is not None:
        assert settings.autoscaler.service_account_issuer is not None
        args["oidc"] = {"issuer": settings.autoscaler.service_account_issuer, "provider_arn": issuer.arn}
    else:
        assert identity.access_key_id is not None
        assert secrets.aliyun_access_key_secret is not None
        args["access_key_id"] = identity.access_key_id
        args["access_key_secret"] = secrets.aliyun_access_key_secret
    if identity.user_name is not None:
        args["user_name"] = identity.user_name
    wanted: ClusterAutoscalerArgs = {
        "kubernetes_version": settings.cluster.kubernetes_version,
        "node_groups": {pool: component.node_group for pool, component in pools.items()},
        "aliyun": args,
    }
    wanted.update(autoscaler_args(choice, list(pools)))
    autoscaler = ClusterAutoscaler(
        name,
        wanted,
        pulumi.ResourceOptions(
            providers=[provider, joined.kubernetes],
            # It must be gone before the pools are, and it needs nodes that get their provider ids.
            depends_on=[*joined.ready, *pools.values()],
        ),
    )
    steps: list[pulumi.Input[str]] = list(watch_steps(choice, name)) if choice_pool(choice) in pools else []
    return steps if identity.user_name is not None or issuer is not None else [autoscaler.role_command, *steps]


def _pool_args(
    settings: Settings,
    pool: AliyunPool,
    net: CloudNetwork,
    joined: Joined,
    image: TalosImage,
    network_id: pulumi.Input[str],
) -> AliyunWorkerPoolArgs:
    aliyun = settings.aliyun
    assert aliyun is not None
    args: AliyunWorkerPoolArgs = {
        "region": net.region,
        "vpc_id": network_id,
        "zones": {zone: str(cidr) for zone, cidr in sorted(pool.zones.items())},
        "instance_types": list(pool.instance_types),
        "min_size": pool.min_size,
        "max_size": pool.max_size,
        "image_id": image.image_id,
        "machine_config": joined.machine_config,
        "talos_version": settings.cluster.talos_version,
        "experimental_metal": aliyun.image.experimental_metal,
        "public_ips": public_ips(settings.mesh, aliyun, pool),
        "gateway": pool.gateway,
        "labels": dict(sorted(pool.labels.items())),
        "taints": taint_args(pool.taints),
        "config_patches": list(pool.config_patches),
        "vpc_cidr": str(net.cidr),
        "tags": {**aliyun.tags, "hybrid-talos-cluster": settings.cluster.name},
    }
    if pool.data_disk_sizes_gb:
        args["data_disk_sizes_gb"] = list(pool.data_disk_sizes_gb)
    if pool.zone_policy is not AliyunZonePolicy.BALANCE:
        args["zone_policy"] = pool.zone_policy
    if pool.vswitch_ids:
        args["vswitch_ids"] = dict(sorted(pool.vswitch_ids.items()))
    if pool.role_name is not None:
        args["role_name"] = pool.role_name
    if pool.talos_api_allowed_cidrs:
        args["talos_api_allowed_cidrs"] = [str(cidr) for cidr in pool.talos_api_allowed_cidrs]
    if pool.spot is not None:
        args["spot"] = spot_args(pool.spot)
    if pool.system_disk_category is not None:
        args["system_disk_category"] = pool.system_disk_category
    if pool.system_disk_size_gb is not None:
        args["system_disk_size_gb"] = pool.system_disk_size_gb
    if joined.locations is not None:
        args["mesh_location"] = joined.locations[net.name]
    return args
