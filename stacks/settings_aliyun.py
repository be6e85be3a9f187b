"""The settings of the worker pools on Alibaba Cloud."""

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Annotated

from hybrid_talos.aliyun_disk import SYSTEM_DISK_GB, AliyunDiskCategory, AliyunZonePolicy
from hybrid_talos.aliyun_image_inputs import BootMode
from pydantic import Field

from .settings_base import Network, Patch, Section, TrustedUrl, form
from .settings_labels import AliyunTags, Labels, Taint
from .settings_pools import POOL_NAME, POOL_NAME_WORDS, CloudNetwork, MaxSize, MinSize, Rolling, Spot, networks_of

AliyunRegion = Annotated[
    str, form(r"[a-z]{2}(-[a-z]+)+(-[0-9]{1,2})?", "be a region of Alibaba Cloud, such as cn-hangzhou")
]
"""A region of Alibaba Cloud."""
AliyunZone = Annotated[str, form(r"[a-z]{2}(-[a-z0-9]+)+", "be a zone of Alibaba Cloud, such as cn-hangzhou-h")]
"""A zone of Alibaba Cloud."""


class AliyunEndpoints(Section):
    """Addresses of Alibaba Cloud's services, where they are not the region's usual ones."""

    oss: TrustedUrl | None = None
    """Object storage, such as https://oss-cn-hangzhou.aliyuncs.com."""
    ecs: TrustedUrl | None = None
    """Elastic Compute Service, such as https://ecs.cn-hangzhou.aliyuncs.com."""
    ess: TrustedUrl | None = None
    """Auto Scaling, such as https://ess.aliyuncs.com."""


class AliyunImage(Section):
    """What an image becomes on Alibaba Cloud."""

    boot_mode: BootMode = BootMode.UEFI
    """UEFI, or BIOS for instance types that know nothing else."""
    experimental_metal: bool = False
    """Take Talos' metal image, for Talos before 1.14. Experimental: such machines tell no provider id, so no autoscaler
    can manage them."""


class AliyunPool(Section):
    """A scaling group of workers on Alibaba Cloud."""

    name: Annotated[
        str,
        form(POOL_NAME, POOL_NAME_WORDS, 30),
    ]
    """Name of the pool, which it keeps: for another one add a pool with ranges of its own, then take the old away."""
    zones: Mapping[AliyunZone, Network] = Field(min_length=1)
    """Range of the pool's vSwitch in each zone, by the zone's id, inside vpcCidr; with addresses it may be auto."""
    instance_types: tuple[
        Annotated[str, form(r"ecs\.[a-z0-9-]+\.[a-z0-9-]+", "be an instance type, such as ecs.g7.large")], ...
    ] = Field(min_length=1, max_length=10)
    """Instance types of one CPU and memory, most wanted first: the autoscaler plans with the first."""
    min_size: MinSize = 0
    """Fewest machines."""
    max_size: MaxSize
    """Most machines that the autoscaler may ask for."""
    region: AliyunRegion | None = None
    """Region of this pool, if it differs from the section's."""
    vpc_cidr: Network | None = None
    """Range of the network of this pool, if it differs from the section's."""
    public_ips: bool | None = None
    """Give each machine a public address, or let all leave through a NAT gateway; left out, they have one unless a
    gateway pool serves their network."""
    gateway: bool = False
    """Let the machines lead their location in a mesh with leaders, for the others to be reached through. minSize equals
    maxSize, best 2 or more; the autoscaler is not told of them."""
    labels: Labels = {}
    """Labels of the nodes; they become tags of the scaling configuration."""
    taints: tuple[Taint, ...] = ()
    """Taints of the nodes; only with a minSize of 1 or more."""
    spot: Spot | None = None
    """Present for spot machines."""
    rolling: Rolling | None = None
    """Present to have nodes of an older image or configuration listed at every up, and replaced if asked for."""
    system_disk_category: AliyunDiskCategory | None = None
    """cloud_essd, cloud_ssd or cloud_efficiency; left out for the library's choice."""
    system_disk_size_gb: int | None = Field(default=None, ge=SYSTEM_DISK_GB[0], le=SYSTEM_DISK_GB[1])
    """Size of the system disk in GiB, 20 to 500; left out for the library's choice."""
    data_disk_sizes_gb: tuple[Annotated[int, Field(ge=20, le=32768)], ...] = Field(default=(), max_length=16)
    """Sizes in GiB of further disks that go with their machine; a UserVolumeConfig in configPatches uses them."""
    zone_policy: AliyunZonePolicy = AliyunZonePolicy.BALANCE
    """BALANCE or COST_OPTIMIZED; a change replaces the group with its machines."""
    vswitch_ids: Mapping[AliyunZone, Annotated[str, form(r"vsw-[a-z0-9]+", "be the id of a vSwitch")]] = {}
    """vSwitches that exist, one for each of zones, for the pool to use instead of its own; with vpcId."""
    vpc_id: Annotated[str, form(r"vpc-[a-z0-9]+", "be the id of a VPC")] | None = None
    """VPC that exists, with the range vpcCidr, to use instead of one of the stack's; the same for all pools in it."""
    role_name: Annotated[str, form(r"[A-Za-z0-9-]+", "be the name of a RAM role", 64)] | None = None
    """RAM role of the machines, which every pod on them can use."""
    talos_api_allowed_cidrs: tuple[Network, ...] = Field(default=(), max_length=20)
    """Ranges outside that may reach the machines' Talos API for diagnosis, each a /8 or smaller."""
    config_patches: tuple[Patch, ...] = ()
    """Talos patches for the machines of this pool."""


class AliyunSettings(Section):
    """Worker pools on Alibaba Cloud."""

    region: AliyunRegion
    """Region of the pools."""
    vpc_cidr: Network
    """Range of the network of the pools; with addresses it may be left out."""
    pools: tuple[AliyunPool, ...] = Field(min_length=1)
    """The pools."""
    image: AliyunImage = AliyunImage()
    """What the image becomes; what it is made of stands in the section image."""
    endpoints: AliyunEndpoints = AliyunEndpoints()
    """Addresses of services, where they are not the region's usual ones."""
    tags: AliyunTags = {}
    """Tags of every resource."""

    def region_of(self, pool: AliyunPool) -> str:
        """Return the region of a pool."""
        return self.region if pool.region is None else pool.region

    def vpc_cidr_of(self, pool: AliyunPool) -> IPv4Network:
        """Return the range of the network of a pool."""
        return self.vpc_cidr if pool.vpc_cidr is None else pool.vpc_cidr

    def networks(self) -> tuple[CloudNetwork, ...]:
        """Return the networks that the pools need, in the order of the pools."""
        pairs = [(self.region_of(pool), self.vpc_cidr_of(pool), pool.name) for pool in self.pools]
        return networks_of("aliyun", (self.region, self.vpc_cidr), pairs)
