"""The network of one worker pool on Azure: its subnet, what may reach it, and its way out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_azure_native import network

from .mesh_location import MeshLocation
from .node_ports import APID, CILIUM, FLANNEL, KUBELET
from .pool_inputs import collapsed

PREFIX_LENGTH = 28
"""The biggest public IP prefix, 16 addresses (learn.microsoft.com, "Public IP address prefix").

Always the biggest: the length of a prefix cannot change, and one that machines use cannot be replaced, so a prefix
cut to `max_size` would stand in the way of raising it.
"""
MOST_PUBLIC_ADDRESSES = 2 ** (32 - PREFIX_LENGTH)
RESERVED_ADDRESSES = 5
"""Addresses that Azure keeps in every subnet (learn.microsoft.com, "Azure Virtual Network FAQ")."""


@dataclass(frozen=True)
class AzureNetwork:
    """What the scale set takes from its network."""

    subnet_id: pulumi.Output[str]
    security_group_id: pulumi.Output[str] | None
    """Group to attach to the machines themselves; None where the subnet has it."""
    public_ip_prefix_id: pulumi.Output[str] | None


def security_rules(
    owner: str, mesh: MeshLocation | None, talos_api_allowed_cidrs: Sequence[str] = ()
) -> list[network.SecurityRuleArgs]:
    """Return what may reach the machines of a pool; Azure's own last rule denies the rest.

    WireGuard from where the mesh says; the Talos API, the kubelet and the CNI from inside the virtual network and from
    ranges behind the mesh. A leader that forwards traffic of another location keeps its source address, which the tag
    `VirtualNetwork` does not cover, hence the ranges. ``talos_api_allowed_cidrs`` may reach the Talos API from outside.
    """
    internal = collapsed(f"{owner}: mesh_location.internal_cidrs", mesh["internal_cidrs"] if mesh else [])
    peers = collapsed(f"{owner}: mesh_location.firewall_sources", mesh["firewall_sources"] if mesh else [])
    rules: list[network.SecurityRuleArgs] = []
    if mesh and peers:
        rules.append(_allow("mesh", 100, "Udp", [int(mesh["firewall_port"])], peers))
    for offset, (protocol, role, ports) in enumerate(
        [("Tcp", "machine-apis", [APID, KUBELET]), ("Udp", "cni", [FLANNEL, CILIUM])]
    ):
        rules.append(_allow(f"{role}-from-network", 110 + offset, protocol, ports, "VirtualNetwork"))
        if internal:
            rules.append(_allow(f"{role}-from-mesh", 120 + offset, protocol, ports, internal))
    if talos_api_allowed_cidrs:
        sources = collapsed(f"{owner}: talos_api_allowed_cidrs", talos_api_allowed_cidrs)
        rules.append(_allow("talos-api-for-diagnosis", 130, "Tcp", [APID], sources))
    return rules


def _allow(
    name: str, priority: int, protocol: str, ports: list[int], sources: str | list[str]
) -> network.SecurityRuleArgs:
    return network.SecurityRuleArgs(
        name=f"allow-{name}",
        priority=priority,
        direction="Inbound",
        access="Allow",
        protocol=protocol,
        source_port_range="*",
        destination_address_prefix="*",
        destination_port_ranges=[str(port) for port in ports],
        **({"source_address_prefix": sources} if isinstance(sources, str) else {"source_address_prefixes": sources}),
    )


def azure_network(
    owner: str,
    name: str,
    *,
    resource_group_name: pulumi.Input[str],
    location: str,
    virtual_network_name: pulumi.Input[str] | None,
    subnet_cidr: str,
    subnet_id: pulumi.Input[str] | None = None,
    mesh: pulumi.Input[MeshLocation] | None,
    talos_api_allowed_cidrs: Sequence[str] = (),
    public_ips: bool,
    zonal: bool,
    tags: Mapping[str, str],
    child: pulumi.ResourceOptions,
) -> AzureNetwork:
    """Register the network of a pool; ``child`` carries the parent.

    With ``subnet_id`` the subnet is somebody else's, and so is its way out: the machines get the security group
    themselves.
    """
    group = network.NetworkSecurityGroup(
        f"{name}-firewall",
        resource_group_name=resource_group_name,
        location=location,
        # Inside the group, since separate rules and rules inside would undo each other.
        security_rules=pulumi.Output.from_input(mesh).apply(
            lambda known: security_rules(owner, known, talos_api_allowed_cidrs)
        ),
        tags=tags,
        opts=child,
    )
    # A machine gets its own address, or the subnet a gateway; without either there is no way out, because Azure's
    # implicit outbound access is switched off below.
    prefix = None
    gateway = None
    if public_ips:
        prefix = network.PublicIPPrefix(
            f"{name}-addresses",
            resource_group_name=resource_group_name,
            location=location,
            prefix_length=PREFIX_LENGTH,
            public_ip_address_version="IPv4",
            sku=network.PublicIPPrefixSkuArgs(name="Standard", tier="Regional"),
            # Spread over all zones, so that it serves machines of each of them.
            zones=["1", "2", "3"] if zonal else None,
            tags=tags,
            opts=child,
        )
    elif subnet_id is None:
        address = network.PublicIPAddress(
            f"{name}-outbound-address",
            resource_group_name=resource_group_name,
            location=location,
            public_ip_allocation_method="Static",
            public_ip_address_version="IPv4",
            sku=network.PublicIPAddressSkuArgs(name="Standard", tier="Regional"),
            zones=["1", "2", "3"] if zonal else None,
            tags=tags,
            opts=child,
        )
        gateway = network.NatGateway(
            f"{name}-outbound",
            resource_group_name=resource_group_name,
            location=location,
            public_ip_addresses=[network.SubResourceArgs(id=address.id)],
            sku=network.NatGatewaySkuArgs(name="Standard"),
            tags=tags,
            opts=child,
        )
    if subnet_id is not None:
        return AzureNetwork(pulumi.Output.from_input(subnet_id), group.id, prefix.id if prefix else None)
    assert virtual_network_name is not None
    subnet = network.Subnet(
        f"{name}-subnet",
        resource_group_name=resource_group_name,
        virtual_network_name=virtual_network_name,
        address_prefix=subnet_cidr,
        default_outbound_access=False,
        network_security_group=network.NetworkSecurityGroupArgs(id=group.id),
        nat_gateway=network.SubResourceArgs(id=gateway.id) if gateway else None,
        opts=child,
    )
    return AzureNetwork(subnet.id, None, prefix.id if prefix else None)
