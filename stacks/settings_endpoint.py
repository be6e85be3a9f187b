"""The settings of the Kubernetes API's address, and of the record and load balancer that a stack may make for it."""

from collections.abc import Mapping
from typing import Annotated

from hybrid_talos.azure_cloud import AzureEnvironment
from hybrid_talos.cluster_endpoint import EndpointKind
from pydantic import Field

from .settings_aliyun import AliyunRegion, AliyunZone
from .settings_azure import SUBNET_ID, AzureLocation
from .settings_base import Host, Section, Uuid, form
from .settings_machines import LinkName

_GROUP = form(r"[A-Za-z0-9_().-]{0,89}[A-Za-z0-9_()-]", "be the name of a resource group")
_VNET_ID = (
    r"/subscriptions/[0-9a-fA-F-]{36}/resourceGroups/[^/\s]+/providers/Microsoft\.Network/virtualNetworks/[^/\s]+"
)


class AzureAccount(Section):
    """Where in Azure something is made; what is left out is that of the section azure."""

    subscription_id: Uuid | None = None
    """Subscription; left out, azure.subscriptionId."""
    tenant_id: Uuid | None = None
    """Tenant; left out, azure.tenantId, or that of the credentials."""
    environment: AzureEnvironment = AzureEnvironment.PUBLIC
    """public, china or usgovernment."""


class AzureDnsRecord(AzureAccount):
    """A record in a zone of Azure DNS."""

    resource_group: Annotated[str, _GROUP]
    """Resource group of the zone."""
    zone: Host
    """Name of the zone, such as example.com, which exists."""
    ttl: int = Field(default=60, ge=1, le=86400)
    """Seconds for which others may keep the answer."""


class AliyunDnsRecord(Section):
    """A record in a domain of Alibaba Cloud DNS."""

    domain: Host
    """Name of the domain, such as example.com, which exists there."""
    region: AliyunRegion = "cn-hangzhou"
    """Region through which the service is called."""
    ttl: int = Field(default=600, ge=1, le=86400)
    """Seconds for which others may keep the answer; below 600 only in the paid editions."""


class EndpointRecord(Section):
    """The DNS record of the endpoint, made by the stack: one of the two."""

    azure: AzureDnsRecord | None = None
    """In Azure DNS."""
    aliyun: AliyunDnsRecord | None = None
    """In Alibaba Cloud DNS."""


class AzureLoadBalancer(AzureAccount):
    """A Standard load balancer before control planes in a virtual network of Azure."""

    location: AzureLocation
    """Region of the virtual network."""
    resource_group: Annotated[str, _GROUP]
    """Resource group, which exists, for the load balancer and its public address."""
    vnet_id: Annotated[str, form(_VNET_ID, "be the resource id of a virtual network")]
    """Virtual network of the control planes, by its resource id."""
    subnet_id: Annotated[str, form(SUBNET_ID, "be the resource id of a subnet")] | None = None
    """Subnet of the virtual network: makes it an internal one with an address there. Left out, it is a public one."""


class AliyunLoadBalancer(Section):
    """A Network Load Balancer before control planes in a VPC of Alibaba Cloud."""

    region: AliyunRegion
    """Region of the VPC."""
    vpc_id: Annotated[str, form(r"vpc-[a-z0-9]+", "be the id of a VPC")]
    """VPC of the control planes."""
    zones: Mapping[AliyunZone, Annotated[str, form(r"vsw-[a-z0-9]+", "be the id of a vSwitch")]] = Field(
        min_length=2, max_length=10
    )
    """vSwitch of the VPC in each zone that it works in, by the zone's id."""
    internal: bool = False
    """Reached from inside the VPC alone."""


class EndpointLoadBalancer(Section):
    """The load balancer of the endpoint, made by the stack where the control planes are: one of the two."""

    azure: AzureLoadBalancer | None = None
    """On Azure."""
    aliyun: AliyunLoadBalancer | None = None
    """On Alibaba Cloud."""

    @property
    def internal(self) -> bool:
        """Return whether it is reached from its own network alone."""
        if self.azure is not None:
            return self.azure.subnet_id is not None
        return self.aliyun is not None and self.aliyun.internal


class Endpoint(Section):
    """Where clients and machines reach the Kubernetes API."""

    host: Host | None = None
    """Bare host name or IPv4 address, without scheme, port and path; may be left out with loadBalancer."""
    port: int = Field(default=6443, ge=1, le=65535)
    """TCP port of the API."""
    kind: EndpointKind
    """dns, loadBalancer or vip."""
    interface: LinkName | None = None
    """For kind vip: the link that carries the address; left out, the one with the machine's own address."""
    allow_member_address: bool = False
    """Accept the address of one control plane as the endpoint of several: with that machine the API is gone."""
    private_route: bool = False
    """The clouds reach a private address of the endpoint before the mesh is up, by a route that exists already."""
    check_dns: bool = True
    """Look a name up before machines get it: of kind dns it must lead to the control planes alone."""
    record: EndpointRecord | None = None
    """The DNS record of host, made by this stack."""
    load_balancer: EndpointLoadBalancer | None = None
    """For kind loadBalancer: the load balancer, made by this stack; left out, one that exists already."""
