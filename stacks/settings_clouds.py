"""The settings of the pools in the clouds, and of the autoscalers that grow them."""

import re
from collections.abc import Mapping
from enum import StrEnum
from ipaddress import IPv4Network
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field

from .settings_base import Network, Patch, Section, TrustedUrl, Uuid, form, trimmed
from .settings_cluster import Arch
from .settings_labels import Labels, Tags, Taint


class AzureEnvironment(StrEnum):
    """Which of Microsoft's clouds."""

    PUBLIC = "public"
    CHINA = "china"
    US_GOVERNMENT = "usgovernment"


class AutoscalerDeployment(StrEnum):
    """How the autoscaler gets into the cluster."""

    MANIFESTS = "manifests"
    COZYSTACK_PACKAGE = "cozystackPackage"


class CloudNetwork(NamedTuple):
    """A network in a cloud: all pools of one region that name the same range share it."""

    name: str
    """Name of its location in the mesh; with the range in it when it is not the section's own network."""
    region: str
    """Region of the cloud."""
    cidr: IPv4Network
    """Range of the network."""
    pools: tuple[str, ...]
    """Names of its pools, in the order of the file."""


def _networks(
    cloud: str, usual: tuple[str, IPv4Network], pairs: list[tuple[str, IPv4Network, str]]
) -> tuple[CloudNetwork, ...]:
    pools: dict[tuple[str, IPv4Network], list[str]] = {}
    for region, cidr, pool in pairs:
        pools.setdefault((region, cidr), []).append(pool)
    networks = []
    for (region, cidr), names in pools.items():
        suffix = "" if (region, cidr) == usual else "-" + re.sub("[./]", "-", str(cidr))
        networks.append(CloudNetwork(f"{cloud}-{region}{suffix}", region, cidr, tuple(names)))
    return tuple(networks)


def _location(value: str) -> str:
    # Azure itself takes the display name for the name: "West Europe" is westeurope.
    name = trimmed(value).replace(" ", "").lower()
    if not re.fullmatch(r"[a-z]{4,}[0-9]{0,2}", name, re.ASCII):
        raise ValueError("must be a region of Azure, such as westeurope")
    return name


def _blob(value: str) -> str:
    if "{account}" not in value:
        raise ValueError("must hold {account}, which stands for the storage account's name")
    return value


AzureLocation = Annotated[str, AfterValidator(_location)]
"""A region of Azure, in one form: "West Europe" becomes westeurope."""
AliyunRegion = Annotated[
    str, form(r"[a-z]{2}(-[a-z]+)+(-[0-9]{1,2})?", "be a region of Alibaba Cloud, such as cn-hangzhou")
]
"""A region of Alibaba Cloud."""
AliyunZone = Annotated[str, form(r"[a-z]{2}(-[a-z0-9]+)+", "be a zone of Alibaba Cloud, such as cn-hangzhou-h")]
"""A zone of Alibaba Cloud."""
MinSize = Annotated[int, Field(ge=0)]
"""Fewest machines of a pool."""
MaxSize = Annotated[int, Field(ge=1)]
"""Most machines of a pool."""


class Spot(Section):
    """Machines that the cloud may take back."""

    max_price: float | None = Field(default=None, gt=0)
    """Most to pay for a machine and hour, in the currency of the account; left out for the price on demand."""


class AzureEndpoints(Section):
    """Addresses of Azure's services, where they are not the public cloud's."""

    blob: Annotated[TrustedUrl, AfterValidator(_blob)] | None = None
    """Blob storage, with {account} for the account, such as https://{account}.blob.core.chinacloudapi.cn."""


class AliyunEndpoints(Section):
    """Addresses of Alibaba Cloud's services, where they are not the region's usual ones."""

    oss: TrustedUrl | None = None
    """Object storage, such as https://oss-cn-hangzhou.aliyuncs.com."""


class AzurePool(Section):
    """A scale set of workers on Azure."""

    # Azure allows 15 characters before the number of a machine: pulumi-azure-native, computerNamePrefix.
    name: Annotated[
        str,
        form(
            r"[a-z]([a-z0-9-]*[a-z0-9])?",
            "start with a lower-case letter, hold only lower-case letters, digits and hyphens, and not end with a "
            "hyphen",
            15,
        ),
    ]
    """Name of the pool; begins the computer names of its machines."""
    subnet_cidr: Network
    """Range of the pool's own subnet, inside vnetCidr."""
    vm_size: Annotated[
        str, form(r"(Standard|Basic)_[A-Za-z0-9]+([_-][A-Za-z0-9]+)*", "be a VM size, such as Standard_D2s_v3")
    ]
    """VM size."""
    min_size: MinSize = 0
    """Fewest machines."""
    max_size: MaxSize
    """Most machines that the autoscaler may ask for."""
    location: AzureLocation | None = None
    """Region of this pool, if it differs from the section's."""
    vnet_cidr: Network | None = None
    """Range of the network of this pool, if it differs from the section's."""
    public_ips: bool = False
    """Give each machine a public address; without, they leave through a NAT gateway and none can call them."""
    labels: Labels = {}
    """Labels of the nodes."""
    taints: tuple[Taint, ...] = ()
    """Taints of the nodes."""
    zones: tuple[Annotated[str, form("[1-3]", 'be "1", "2" or "3"')], ...] = ()
    """Availability zones; fixed at creation."""
    spot: Spot | None = None
    """Present for spot machines."""
    arch: Arch | None = None
    """Architecture, if it differs from image.arch."""
    # A page blob of the image is 11 GiB at 1.15; Azure's largest OS disk has 4095 GiB.
    os_disk_size_gb: int | None = Field(default=None, ge=16, le=4095)
    """Size of the system disk in GiB; left out for the image's."""
    config_patches: tuple[Patch, ...] = ()
    """Talos patches for the machines of this pool."""


class AzureSettings(Section):
    """Worker pools on Azure."""

    subscription_id: Uuid
    """Subscription that everything is made in."""
    tenant_id: Uuid
    """Tenant of the subscription."""
    location: AzureLocation
    """Region of the pools."""
    resource_group: Annotated[
        str,
        form(r"[A-Za-z0-9_().-]*[A-Za-z0-9_()-]", "be a name of letters, digits and _ ( ) - . without a final dot", 90),
    ]
    """Resource group that is made for the pools."""
    vnet_cidr: Network
    """Range of the network of the pools."""
    pools: tuple[AzurePool, ...] = Field(min_length=1)
    """The pools."""
    environment: AzureEnvironment = AzureEnvironment.PUBLIC
    """public, china or usgovernment."""
    endpoints: AzureEndpoints = AzureEndpoints()
    """Addresses of services, where they are not the environment's usual ones."""
    ssh_public_key: (
        Annotated[
            str, form(r"(ssh-rsa|ssh-ed25519) [A-Za-z0-9+/=]{60,}( \S.*)?", "be a public SSH key in one line", 16384)
        ]
        | None
    ) = None
    """Public key to satisfy Azure, which demands one; Talos has no SSH and ignores it."""
    tags: Tags = {}
    """Tags of every resource."""

    def location_of(self, pool: AzurePool) -> str:
        """Return the region of a pool."""
        return self.location if pool.location is None else pool.location

    def vnet_cidr_of(self, pool: AzurePool) -> IPv4Network:
        """Return the range of the network of a pool."""
        return self.vnet_cidr if pool.vnet_cidr is None else pool.vnet_cidr

    def networks(self) -> tuple[CloudNetwork, ...]:
        """Return the networks that the pools need, in the order of the pools."""
        pairs = [(self.location_of(pool), self.vnet_cidr_of(pool), pool.name) for pool in self.pools]
        return _networks("azure", (self.location, self.vnet_cidr), pairs)


class AliyunPool(Section):
    """A scaling group of workers on Alibaba Cloud."""

    name: Annotated[
        str,
        form(
            r"[a-z]([a-z0-9-]*[a-z0-9])?",
            "start with a lower-case letter, hold only lower-case letters, digits and hyphens, and not end with a "
            "hyphen",
            30,
        ),
    ]
    """Name of the pool."""
    zones: Mapping[AliyunZone, Network] = Field(min_length=1)
    """Range of the pool's vSwitch in each zone, by the zone's id, inside vpcCidr."""
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
    public_ips: bool = False
    """Give each machine a public address; without, they leave through a NAT gateway and none can call them."""
    labels: Labels = {}
    """Labels of the nodes; they become tags of the scaling configuration."""
    taints: tuple[Taint, ...] = ()
    """Taints of the nodes; only with a minSize of 1 or more."""
    spot: Spot | None = None
    """Present for spot machines."""
    system_disk_category: Annotated[str, form(r"cloud(_[a-z]+)?", "be a kind of disk, such as cloud_essd")] | None = (
        None
    )
    """Kind of the system disk; left out for the library's choice."""
    system_disk_size_gb: int | None = Field(default=None, ge=20, le=2048)
    """Size of the system disk in GiB; left out for the library's choice."""
    config_patches: tuple[Patch, ...] = ()
    """Talos patches for the machines of this pool."""


class AliyunSettings(Section):
    """Worker pools on Alibaba Cloud."""

    region: AliyunRegion
    """Region of the pools."""
    vpc_cidr: Network
    """Range of the network of the pools."""
    pools: tuple[AliyunPool, ...] = Field(min_length=1)
    """The pools."""
    endpoints: AliyunEndpoints = AliyunEndpoints()
    """Addresses of services, where they are not the region's usual ones."""
    tags: Tags = {}
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
        return _networks("aliyun", (self.region, self.vpc_cidr), pairs)


class AzureIdentity(Section):
    """The application that the autoscaler signs in as. Its secret is `hybrid-talos:azureClientSecret`."""

    client_id: Uuid
    """Client id of the application."""
    principal_id: Uuid | None = None
    """Object id of its service principal; without it the role is made, not assigned, and the command is printed."""


class AliyunIdentity(Section):
    """The RAM user that the autoscaler signs in as. Its secret is `hybrid-talos:aliyunAccessKeySecret`."""

    access_key_id: Annotated[str, form(r"[A-Za-z0-9.]{8,128}", "be the id of an access key, such as LTAIexample")]
    """Id of the access key, which is no secret."""
    user_name: (
        Annotated[str, form(r"[A-Za-z0-9._-]{1,64}", "be the name of a RAM user, without @ and domain")] | None
    ) = None
    """Name of the RAM user; without it the policy is made, not attached, and the command is printed."""


_IMAGE = form(
    r"[a-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)+(:[A-Za-z0-9_.-]+)?(@sha256:[0-9a-f]{64})?",
    "be an image with its registry, such as registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1",
    512,
)


def _no_package(value: Any) -> Any:
    if value == AutoscalerDeployment.COZYSTACK_PACKAGE.value:
        raise ValueError("must be manifests: Cozystack has no package for Alibaba Cloud")
    return value


class AzureAutoscaler(Section):
    """The autoscaler of the Azure pools."""

    identity: AzureIdentity
    """Who it signs in as."""
    deployment: AutoscalerDeployment = AutoscalerDeployment.MANIFESTS
    """manifests or cozystackPackage."""
    image: Annotated[str, _IMAGE] | None = None
    """Image, if it does not come from registry.k8s.io; its minor must be Kubernetes' own."""


class AliyunAutoscaler(Section):
    """The autoscaler of the Alibaba Cloud pools."""

    identity: AliyunIdentity
    """Who it signs in as."""
    deployment: Annotated[AutoscalerDeployment, BeforeValidator(_no_package)] = AutoscalerDeployment.MANIFESTS
    """Always manifests: Cozystack has no package for Alibaba Cloud."""
    image: Annotated[str, _IMAGE] | None = None
    """Image, if it does not come from registry.k8s.io; its minor must be Kubernetes' own."""


class AutoscalerSettings(Section):
    """The autoscalers, one for each cloud."""

    azure: AzureAutoscaler | None = None
    """The autoscaler of the Azure pools."""
    aliyun: AliyunAutoscaler | None = None
    """The autoscaler of the Alibaba Cloud pools."""
