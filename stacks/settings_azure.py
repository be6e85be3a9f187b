"""The settings of the worker pools on Azure."""

import re
from ipaddress import IPv4Network
from typing import Annotated

from hybrid_talos.arch import Arch
from hybrid_talos.azure_cloud import AzureEnvironment
from hybrid_talos.azure_sizes import AzureDiskType, EphemeralDisk
from pydantic import AfterValidator, Field

from .settings_azure_image import AzureEndpoints, AzureImage
from .settings_base import Network, Patch, Section, Uuid, form, trimmed
from .settings_labels import AzureTags, Labels, Taint
from .settings_pools import POOL_NAME, POOL_NAME_WORDS, CloudNetwork, MaxSize, MinSize, Rolling, Spot, networks_of


def _location(value: str) -> str:
    # Azure itself takes the display name for the name: "West Europe" is westeurope.
    name = trimmed(value).replace(" ", "").lower()
    if not re.fullmatch(r"[a-z]{4,}[0-9]{0,2}", name, re.ASCII):
        raise ValueError("must be a region of Azure, such as westeurope")
    return name


AzureLocation = Annotated[str, AfterValidator(_location)]
"""A region of Azure, in one form: "West Europe" becomes westeurope."""


SUBNET_ID = (
    r"/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[^/\s]+/providers/Microsoft\.Network/virtualNetworks/[^/\s]+"
    r"/subnets/[^/\s]+"
)
"""Form of a subnet's resource id."""


class AzurePool(Section):
    """A scale set of workers on Azure."""

    name: Annotated[
        str,
        form(POOL_NAME, POOL_NAME_WORDS, 30),
    ]
    """Name of the pool, which it keeps: for another one add a pool with ranges of its own, then take the old away."""
    subnet_cidr: Network
    """Range of the pool's own subnet, inside vnetCidr; with addresses it may be left out."""
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
    public_ips: bool | None = None
    """Give each machine a public address, or let all leave through a NAT gateway; left out, they have one unless a
    gateway pool serves their network."""
    gateway: bool = False
    """Let the machines lead their location in a mesh with leaders, for the others to be reached through. minSize equals
    maxSize, best 2 or more; the autoscaler is not told of them."""
    labels: Labels = {}
    """Labels of the nodes."""
    taints: tuple[Taint, ...] = ()
    """Taints of the nodes."""
    zones: tuple[Annotated[str, form("[1-3]", 'be "1", "2" or "3"')], ...] = ()
    """Availability zones; fixed at creation."""
    spot: Spot | None = None
    """Present for spot machines."""
    rolling: Rolling | None = None
    """Present to have nodes of an older image or configuration listed at every up, and replaced if asked for."""
    arch: Arch | None = None
    """Architecture, if it differs from image.arch."""
    # A page blob of the image is 11 GiB at 1.15; Azure's largest OS disk has 4095 GiB.
    os_disk_size_gb: int | None = Field(default=None, ge=16, le=4095)
    """Size of the system disk in GiB; left out for 64, but required with ephemeralOsDisk, whose room differs."""
    os_disk_type: AzureDiskType = AzureDiskType.STANDARD_SSD
    """Kind of the system disk: Standard_LRS, StandardSSD_LRS, Premium_LRS, or with ZRS; fixed at creation."""
    ephemeral_os_disk: EphemeralDisk | None = None
    """Keep the system disk on the machine's host: CacheDisk, ResourceDisk or NvmeDisk; left out for a managed disk."""
    accelerated_networking: bool = False
    """Let the machines' network bypass the host."""
    talos_api_allowed_cidrs: tuple[Network, ...] = ()
    """Ranges outside that may reach the machines' Talos API for diagnosis, each a /8 or smaller."""
    subnet_id: Annotated[str, form(SUBNET_ID, "be the resource id of a subnet", 400)] | None = None
    """Subnet that exists, with the range subnetCidr, for the pool to use instead of one of its own."""
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
    """Range of the network of the pools; with addresses it may be left out."""
    pools: tuple[AzurePool, ...] = Field(min_length=1)
    """The pools."""
    environment: AzureEnvironment = AzureEnvironment.PUBLIC
    """public, china or usgovernment."""
    image: AzureImage = AzureImage()
    """What the image becomes on Azure."""
    endpoints: AzureEndpoints = AzureEndpoints()
    """Addresses of services, where they are not the environment's usual ones."""
    ssh_public_key: (
        Annotated[
            str, form(r"(ssh-rsa|ssh-ed25519) [A-Za-z0-9+/=]{60,}( \S.*)?", "be a public SSH key in one line", 16384)
        ]
        | None
    ) = None
    """Public key to satisfy Azure, which demands one; Talos has no SSH and ignores it."""
    tags: AzureTags = {}
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
        return networks_of("azure", (self.location, self.vnet_cidr), pairs)
