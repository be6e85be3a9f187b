"""The network of one worker pool on Alibaba Cloud: vSwitches, what may reach it, and its way out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
from pulumi_alicloud import ecs, vpc

from ._contract import BadInputs
from .mesh_location import MeshLocation
from .node_ports import APID, CILIUM, FLANNEL, KUBELET
from .pool_inputs import collapsed

MOST_RANGES = 20
"""Entries of each prefix list. Fixed when the list is made, and counted in full by every rule that uses it: five rules
stay at 100, which was the limit of a security group before it was raised (alibabacloud.com, "Prefix lists")."""
RESERVED_ADDRESSES = 4
"""Addresses that Alibaba Cloud keeps in every vSwitch (alibabacloud.com, "VPC FAQ")."""


@dataclass(frozen=True)
class AliyunNetwork:
    """What the scaling group takes from its network."""

    vswitch_ids: list[pulumi.Output[str]]
    security_group_id: pulumi.Output[str]
    ready: list[pulumi.Resource]
    """What must stand before the first machine boots, and no id of which reaches the scaling group."""


def prefix_entries(owner: str, ranges: Sequence[str]) -> list[ecs.EcsPrefixListEntryArgs]:
    """Return the entries of a prefix list; BadInputs when there are too many or none."""
    unique = collapsed(owner, ranges)
    if not 1 <= len(unique) <= MOST_RANGES:
        raise BadInputs(f"{owner}: {len(unique)} ranges, and a prefix list here holds 1 to {MOST_RANGES}")
    return [ecs.EcsPrefixListEntryArgs(cidr=cidr) for cidr in unique]


def aliyun_network(
    owner: str,
    name: str,
    *,
    vpc_id: pulumi.Input[str],
    vpc_cidr: pulumi.Input[str] | None,
    zones: Mapping[str, str],
    vswitch_ids: Mapping[str, pulumi.Input[str]] | None = None,
    mesh: pulumi.Input[MeshLocation] | None,
    talos_api_allowed_cidrs: Sequence[str] = (),
    public_ips: bool,
    tags: Mapping[str, str],
    child: pulumi.ResourceOptions,
) -> AliyunNetwork:
    """Register the network of a pool; ``child`` carries the parent.

    Names that are shown begin with `pool-`, since a pool's own name may begin with a digit, which many may not. With
    ``vswitch_ids`` the vSwitches are somebody else's, and so is their way out.
    """
    switches: dict[str, vpc.Switch] = {
        zone: vpc.Switch(
            f"{name}-vswitch-{zone}",
            vpc_id=vpc_id,
            zone_id=zone,
            cidr_block=cidr,
            vswitch_name=f"pool-{name}-{zone}",
            tags=tags,
            opts=child,
        )
        for zone, cidr in (zones.items() if vswitch_ids is None else ())
    }
    group = ecs.SecurityGroup(
        f"{name}-firewall",
        vpc_id=vpc_id,
        security_group_name=f"pool-{name}",
        # Machines of the pool may talk to each other.
        inner_access_policy="Accept",
        tags=tags,
        opts=child,
    )
    rules = _rules(owner, name, group.id, vpc_cidr, list(zones.values()), mesh, talos_api_allowed_cidrs, child)
    if vswitch_ids is not None:
        return AliyunNetwork([pulumi.Output.from_input(vswitch_ids[zone]) for zone in zones], group.id, rules)
    outbound = [] if public_ips else _outbound(name, vpc_id, switches, tags, child)
    return AliyunNetwork([switch.id for switch in switches.values()], group.id, [*rules, *outbound])


def _rules(
    owner: str,
    name: str,
    group_id: pulumi.Output[str],
    vpc_cidr: pulumi.Input[str] | None,
    own_ranges: list[str],
    mesh: pulumi.Input[MeshLocation] | None,
    talos_api_allowed_cidrs: Sequence[str],
    child: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Open the mesh's port to where the mesh says, and the Talos API, the kubelet and the CNI to the inside.

    ``talos_api_allowed_cidrs`` may reach the Talos API from outside.

    The ranges stand in prefix lists, because how many there are is known only at deployment, and which resources there
    are must not depend on that. A group accepts nothing else from outside itself.
    """

    def allow(role: str, protocol: str, port: pulumi.Input[str], sources: ecs.EcsPrefixList) -> pulumi.Resource:
        rule: pulumi.Resource = ecs.SecurityGroupRule(
            f"{name}-allow-{role}",
            security_group_id=group_id,
            type="ingress",
            policy="accept",
            ip_protocol=protocol,
            port_range=port,
            prefix_list_id=sources.id,
            description=role,
            opts=child,
        )
        return rule

    def prefix_list(role: str, ranges: pulumi.Output[list[str]]) -> ecs.EcsPrefixList:
        return ecs.EcsPrefixList(
            f"{name}-{role}-ranges",
            prefix_list_name=f"pool-{name}-{role}",
            address_family="IPv4",
            max_entries=MOST_RANGES,
            entries=ranges.apply(lambda known: prefix_entries(f"{owner}: {role} ranges", known)),
            opts=child,
        )

    found = pulumi.Output.all(mesh=mesh, vpc=vpc_cidr)
    inside = prefix_list(
        "inside",
        found.apply(
            lambda known: [
                *(known["mesh"]["internal_cidrs"] if known["mesh"] else []),
                *([known["vpc"]] if known["vpc"] else own_ranges),
            ]
        ),
    )
    rules = [
        allow("apid", "tcp", f"{APID}/{APID}", inside),
        allow("kubelet", "tcp", f"{KUBELET}/{KUBELET}", inside),
        allow("flannel", "udp", f"{FLANNEL}/{FLANNEL}", inside),
        allow("cilium", "udp", f"{CILIUM}/{CILIUM}", inside),
    ]
    if mesh is not None:
        location = pulumi.Output.from_input(mesh)
        peers = prefix_list("peers", location.apply(lambda known: list(known["firewall_sources"])))
        port = location.apply(lambda known: "{0}/{0}".format(int(known["firewall_port"])))
        rules.append(allow("mesh", "udp", port, peers))
    if talos_api_allowed_cidrs:
        outside = prefix_list("diagnosis", pulumi.Output.from_input(list(talos_api_allowed_cidrs)))
        rules.append(allow("diagnosis", "tcp", f"{APID}/{APID}", outside))
    return rules


def _outbound(
    name: str,
    vpc_id: pulumi.Input[str],
    switches: Mapping[str, vpc.Switch],
    tags: Mapping[str, str],
    child: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Give machines without public addresses one way out: a NAT gateway with an address of its own."""
    gateway = vpc.NatGateway(
        f"{name}-outbound",
        vpc_id=vpc_id,
        # The zone that is named first; a gateway cannot move to another vSwitch.
        vswitch_id=next(iter(switches.values())).id,
        nat_gateway_name=f"pool-{name}-outbound",
        nat_type="Enhanced",
        network_type="internet",
        payment_type="PayAsYouGo",
        internet_charge_type="PayByLcu",
        tags=tags,
        opts=child,
    )
    address = ecs.EipAddress(
        f"{name}-outbound-address",
        address_name=f"pool-{name}-outbound",
        payment_type="PayAsYouGo",
        internet_charge_type="PayByTraffic",
        bandwidth="100",
        tags=tags,
        opts=child,
    )
    bound = ecs.EipAssociation(
        f"{name}-outbound-binding",
        allocation_id=address.id,
        instance_id=gateway.id,
        instance_type="Nat",
        opts=child,
    )
    return [
        vpc.SnatEntry(
            f"{name}-outbound-{zone}",
            snat_table_id=gateway.snat_table_ids,
            snat_ip=address.ip_address,
            source_vswitch_id=switch.id,
            opts=pulumi.ResourceOptions.merge(
                child,
                # An entry may name an address only while that is bound to the gateway, and no output says so.
                pulumi.ResourceOptions(depends_on=[bound]),
            ),
        )
        for zone, switch in switches.items()
    ]
