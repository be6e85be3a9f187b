"""Virtual networks and subnets.

Sources: learn.microsoft.com "Azure Virtual Network frequently asked questions" (virtual-network/virtual-networks-faq),
"Troubleshoot issues deleting a virtual network" for the InUse codes, docstrings of pulumi_azure_native.network.Subnet.
"""

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Any

from ..provider import Call
from ..world import CloudError, Record, World
from . import names
from .addresses import network_ranges, parse_prefix, subnet_fits
from .arm import ArmKind
from .records import PACKAGE, Doc, below, lookup, name_of, reference, reference_id, referrers, refuse_change


def subnet_prefixes(subnet: Mapping[str, Any], owner: str) -> list[IPv4Network]:
    """Return a subnet's ranges; raise CloudError when it has none or both spellings."""
    one, many = subnet.get("addressPrefix"), list(subnet.get("addressPrefixes") or ())
    if (one is None) == (not many):
        raise CloudError(
            "InvalidRequestFormat",
            f"Subnet {owner} takes either addressPrefix or addressPrefixes, exactly one of them.",
        )
    return [parse_prefix(text, owner) for text in many or [one]]


def network_of(world: World, subnet: str) -> Record:
    """Return the virtual network around a subnet."""
    id = subnet.rsplit("/subnets/", 1)[0]
    record = lookup(world, "VirtualNetwork", id)
    if record is None:
        raise CloudError("ResourceNotFound", f"The virtual network {id} was not found.")
    return record


def spaces(network: Record) -> list[IPv4Network]:
    """Return a virtual network's ranges."""
    return [IPv4Network(text) for text in network.doc["addressSpace"]["addressPrefixes"]]


def users_of_subnet(world: World, id: str) -> list[str]:
    """Return the scale sets, machines and load balancers in a subnet."""
    return referrers(world, id)


class VirtualNetwork(ArmKind):
    """A virtual network. Subnets are resources of their own, or stand inline and then are the whole list."""

    token = "azure-native:network:VirtualNetwork"
    arm_type = "Microsoft.Network/virtualNetworks"
    api_version = "2024-05-01"
    name_input = "virtualNetworkName"
    name_rule = names.VIRTUAL_NETWORK
    location_required = False
    # pulumi/pulumi-azure-native provider/pkg/gen/replacement.go: location; the rest is the path.
    replace_on = frozenset({"resourceGroupName", "virtualNetworkName", "location"})

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        prefixes = (inputs.get("addressSpace") or {}).get("addressPrefixes") or []
        if not prefixes:
            raise CloudError(
                "InvalidRequestFormat", f"Virtual network {id} must have at least one address prefix in addressSpace."
            )
        ranges = network_ranges(prefixes, id)
        for subnet in below(call.world, id, "Subnet"):
            for inner in subnet_prefixes(subnet.doc, subnet.id):
                if not any(inner.subnet_of(space) for space in ranges):
                    raise CloudError(
                        "InUsePrefixCannotBeDeleted",
                        f"IpPrefix {inner} on Vnet {name_of(id)} has active allocations and cannot be deleted.",
                    )

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        # The provider keeps subnets that are resources of their own when the network gives none inline, and leaves
        # them out of the inputs it reads back (CONTRIBUTING.md, "Sub-resources"); so does the lab in the outputs.
        if inputs.get("subnets") is not None:
            self._write_inline(call, id, inputs["subnets"], doc)
        return {
            "resourceGuid": old["resourceGuid"] if old else call.world.new_id("guid"),
            "etag": f'W/"{call.world.next("etag")}"',
        }

    def _write_inline(self, call: Call, id: str, subnets: list[Doc], doc: Doc) -> None:
        wanted = {str(subnet.get("name")): subnet for subnet in subnets}
        for record in below(call.world, id, "Subnet"):
            if name_of(record.id) not in wanted:
                _refuse_used(call.world, record)
                call.world.remove(PACKAGE, "Subnet", record.id)
        outer = network_ranges(doc["addressSpace"]["addressPrefixes"], id)
        for name, subnet in wanted.items():
            names.NETWORK.verify("subnet", name)
            subnet_id = f"{id}/subnets/{name}"
            verify_subnet(call.world, subnet_id, subnet, outer, doc["location"])
            call.world.put(PACKAGE, "Subnet", subnet_id, {**subnet, "name": name, "type": Subnet.arm_type})

    def _before_delete(self, call: Call, record: Record) -> None:
        for subnet in below(call.world, record.id, "Subnet"):
            _refuse_used(call.world, subnet)

    def _remove(self, world: World, record: Record) -> None:
        for inside in below(world, record.id):
            world.remove(PACKAGE, inside.kind, inside.id)
        super()._remove(world, record)


def _refuse_used(world: World, subnet: Record) -> None:
    if users := users_of_subnet(world, subnet.id):
        raise CloudError(
            "InUseSubnetCannotBeDeleted",
            f"Subnet {name_of(subnet.id)} is in use by {users[0]} and cannot be deleted. In order to delete the "
            "subnet, delete all the resources within the subnet. See aka.ms/deletesubnet.",
        )


def verify_subnet(world: World, id: str, subnet: Mapping[str, Any], outer: list[IPv4Network], location: str) -> None:
    """Raise CloudError when a subnet does not fit its network or names what is not there."""
    network = name_of(id.rsplit("/subnets/", 1)[0])
    ranges = subnet_prefixes(subnet, id)
    subnet_fits(ranges, network, name_of(id), outer)
    for other in below(world, id.rsplit("/subnets/", 1)[0], "Subnet"):
        if other.id.lower() == id.lower():
            continue
        if any(a.overlaps(b) for a in ranges for b in subnet_prefixes(other.doc, other.id)):
            raise CloudError(
                "NetcfgSubnetRangesOverlap",
                f"Subnet '{name_of(id)}' is not valid because its IP address range overlaps with that of an "
                f"existing subnet in virtual network '{network}'.",
            )
    for key, kind in (
        ("networkSecurityGroup", "NetworkSecurityGroup"),
        ("natGateway", "NatGateway"),
        ("routeTable", "RouteTable"),
    ):
        if target := reference_id(subnet.get(key)):
            reference(world, id, kind, target, location)


class Subnet(ArmKind):
    """A subnet of a virtual network."""

    token = "azure-native:network:Subnet"
    arm_type = "Microsoft.Network/virtualNetworks/subnets"
    api_version = "2024-05-01"
    name_input = "subnetName"
    parents = ("virtualNetworkName",)
    naming = "copy"
    name_rule = names.NETWORK
    located = False
    # pulumi/pulumi-azure-native provider/pkg/gen/replacement.go: nothing but the path.
    replace_on = frozenset({"resourceGroupName", "virtualNetworkName", "subnetName"})

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        network = network_of(call.world, id)
        verify_subnet(call.world, id, inputs, spaces(network), network.doc["location"])
        # Docstring of default_outbound_access: "cannot be updated for an existing subnet".
        refuse_change(old, doc, "defaultOutboundAccess")
        moved = old is not None and subnet_prefixes(old, id) != subnet_prefixes(doc, id)
        if moved and (users := users_of_subnet(call.world, id)):
            raise CloudError(
                "InUseSubnetPrefixCannotBeChanged",
                f"The address prefix of subnet {name_of(id)} cannot be changed while it is in use by {users[0]}.",
            )

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        return {
            "etag": f'W/"{call.world.next("etag")}"',
            "privateEndpointNetworkPolicies": inputs.get("privateEndpointNetworkPolicies", "Disabled"),
            "privateLinkServiceNetworkPolicies": inputs.get("privateLinkServiceNetworkPolicies", "Enabled"),
        }

    def _before_delete(self, call: Call, record: Record) -> None:
        _refuse_used(call.world, record)
