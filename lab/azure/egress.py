"""Public addresses, NAT gateways and routes.

Sources: learn.microsoft.com "Public IP addresses" and "Public IP address prefix" (virtual-network/ip-services),
"Azure NAT Gateway resource" (nat-gateway/nat-gateway-resource), "Virtual network traffic routing"
(virtual-network/virtual-networks-udr-overview), Azure/bicep#5914 (Basic address on a NAT gateway),
skypilot-org/skypilot#7977 (Basic addresses after their retirement on 2025-09-30).
"""

from collections.abc import Mapping
from ipaddress import IPv4Address, ip_address
from typing import Any

from ..provider import Call
from ..world import CloudError, Record, World
from . import names
from .addresses import new_public_address, new_public_prefix, parse_prefix
from .arm import ArmKind
from .records import PACKAGE, Doc, below, lookup, name_of, reference, reference_id, referrers


def no_basic_addresses() -> CloudError:
    """Return the refusal of a Basic address."""
    return CloudError(
        "IPv4BasicSkuPublicIpCountLimitReached",
        "Cannot create more than 0 IPv4 Basic SKU public IP addresses for this subscription in this region.",
    )


def sku_of(inputs: Mapping[str, Any]) -> str:
    """Return the sku; Basic is the API's default."""
    return str((inputs.get("sku") or {}).get("name", "Basic"))


def _between(value: Any, low: int, high: int, what: str) -> None:
    if value is not None and not low <= int(value) <= high:
        raise CloudError("InvalidIdleTimeout", f"{what} must be between {low} and {high} minutes, not {value}.")


def _ids(values: Any) -> list[str]:
    return [id for value in values or () if (id := reference_id(value))]


class NetworkKind(ArmKind):
    """What the types of Microsoft.Network here have in common."""

    api_version = "2024-05-01"
    name_rule = names.NETWORK
    location_required = False

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        return {
            "resourceGuid": old["resourceGuid"] if old else call.world.new_id("guid"),
            "etag": f'W/"{call.world.next("etag")}"',
        }


class PublicIPAddress(NetworkKind):
    """A public IPv4 address."""

    token = "azure-native:network:PublicIPAddress"
    arm_type = "Microsoft.Network/publicIPAddresses"
    name_input = "publicIpAddressName"
    # pulumi/pulumi-azure-native provider/pkg/gen/replacement.go.
    replace_on = frozenset(
        {"resourceGroupName", "publicIpAddressName", "location", "publicIPAddressVersion", "publicIPPrefix", "sku"}
    )
    schema_defaults = {"idleTimeoutInMinutes": 4, "publicIPAddressVersion": "IPv4"}

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        if sku_of(inputs) == "Basic":
            raise no_basic_addresses()
        if inputs.get("publicIPAllocationMethod", "Dynamic") != "Static":
            raise CloudError(
                "PublicIPAddressMustBeStatic",
                f"Standard sku publicIp {id} must have AllocationMethod set to Static.",
            )
        _between(inputs.get("idleTimeoutInMinutes"), 4, 30, "The idle timeout of a public IP address")
        names.verify_zones(inputs.get("zones"), doc["location"], name_of(id))
        if prefix := reference_id(inputs.get("publicIPPrefix")):
            reference(call.world, id, "PublicIPPrefix", prefix, doc["location"])

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        if old:
            address = old["ipAddress"]
        elif prefix := lookup(call.world, "PublicIPPrefix", reference_id(inputs.get("publicIPPrefix"))):
            address = take_from_prefix(call.world, prefix, 1, id)[0]
        else:
            address = new_public_address(call.world)
        return super()._computed(call, id, inputs, doc, old) | {"ipAddress": address}

    def _before_delete(self, call: Call, record: Record) -> None:
        if users := referrers(call.world, record.id):
            raise CloudError(
                "PublicIPAddressCannotBeDeleted",
                f"Public IP address {record.id} can not be deleted since it is still allocated to resource "
                f"{users[0]}. In order to delete the public IP, disassociate/detach the Public IP address from the "
                "resource.",
            )


def take_from_prefix(world: World, prefix: Record, count: int, owner: str) -> list[str]:
    """Return ``count`` free addresses of a public prefix."""
    from_prefix = {r.doc.get("ipAddress") for r in world.find(PACKAGE, "PublicIPAddress")}
    from_prefix |= {r.doc.get("publicIp") for r in world.find(PACKAGE, "instance")}
    free = [text for text in prefix_addresses(prefix) if text not in from_prefix]
    if len(free) < count:
        raise CloudError(
            "PublicIpPrefixOutOfIpAddresses",
            f"Public IP prefix {prefix.id} ({prefix.doc['ipPrefix']}) does not have the {count} free IP addresses "
            f"that {owner} requires; {len(free)} are free.",
        )
    return free[:count]


def prefix_addresses(prefix: Record) -> list[str]:
    """Return all addresses of a public prefix: each of them can be used."""
    return [str(address) for address in parse_prefix(prefix.doc["ipPrefix"], prefix.id)]


class PublicIPPrefix(NetworkKind):
    """A range of public IPv4 addresses."""

    token = "azure-native:network:PublicIPPrefix"
    arm_type = "Microsoft.Network/publicIPPrefixes"
    name_input = "publicIpPrefixName"
    replace_on = frozenset({"resourceGroupName", "publicIpPrefixName"})
    schema_defaults = {"prefixLength": 28, "publicIPAddressVersion": "IPv4"}

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        if sku_of(inputs) == "Basic":
            raise CloudError("PublicIpPrefixSkuNotSupported", f"Public IP prefix {id} must have the Standard sku.")
        # "Public IP address prefix", section Prefix sizes; larger ones only come from a custom IP prefix.
        if not 28 <= int(doc["prefixLength"]) <= 31:
            raise CloudError(
                "PublicIpPrefixInvalidPrefixLength",
                f"Public IP prefix {id} has the prefix length {doc['prefixLength']}; allowed are 28 (16 addresses) "
                "to 31 (2 addresses).",
            )
        if old is not None and int(old["prefixLength"]) != int(doc["prefixLength"]):
            raise CloudError(
                "PublicIpPrefixLengthCannotBeChanged", f"The length of public IP prefix {id} cannot be changed."
            )
        names.verify_zones(inputs.get("zones"), doc["location"], name_of(id))

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        range_ = old["ipPrefix"] if old else new_public_prefix(call.world, int(doc["prefixLength"]))
        return super()._computed(call, id, inputs, doc, old) | {"ipPrefix": range_}

    def _before_delete(self, call: Call, record: Record) -> None:
        if users := referrers(call.world, record.id):
            raise CloudError(
                "InUsePublicIpPrefixCannotBeDeleted",
                f"Public IP prefix {record.id} is in use by {users[0]} and cannot be deleted.",
            )


class NatGateway(NetworkKind):
    """A NAT gateway: the way out for machines without public addresses."""

    token = "azure-native:network:NatGateway"
    arm_type = "Microsoft.Network/natGateways"
    name_input = "natGatewayName"
    replace_on = frozenset({"resourceGroupName", "natGatewayName"})
    schema_defaults = {"idleTimeoutInMinutes": 4}

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        if (inputs.get("sku") or {}).get("name") not in ("Standard", "StandardV2"):
            raise CloudError("NatGatewaySkuNotSpecified", f"NAT gateway {id} must have the Standard sku.")
        _between(inputs.get("idleTimeoutInMinutes"), 4, 120, "The idle timeout of a NAT gateway")
        names.verify_zones(inputs.get("zones"), doc["location"], name_of(id), most=1)
        addresses, prefixes = _ids(inputs.get("publicIpAddresses")), _ids(inputs.get("publicIpPrefixes"))
        if len(addresses) > 16:
            raise CloudError("NatGatewayTooManyPublicIps", f"NAT gateway {id} takes at most 16 public IP addresses.")
        for kind, ids in (("PublicIPAddress", addresses), ("PublicIPPrefix", prefixes)):
            for target in ids:
                record = reference(call.world, id, kind, target, doc["location"])
                if other := [user for user in referrers(call.world, record.id) if user.lower() != id.lower()]:
                    raise CloudError(
                        "PublicIPAddressInUse",
                        f"Resource {id} is referencing public IP address {record.id} that is already allocated to "
                        f"resource {other[0]}.",
                    )

    def _before_delete(self, call: Call, record: Record) -> None:
        if users := referrers(call.world, record.id):
            raise CloudError(
                "NatGatewayInUseBySubnet",
                f"NAT gateway {record.id} cannot be deleted because it is in use by {', '.join(users)}.",
            )


def verify_route(id: str, route: Mapping[str, Any]) -> None:
    """Raise CloudError for what Azure refuses in one route."""
    prefix = route.get("addressPrefix")
    if prefix is None:
        raise CloudError("RouteAddressPrefixRequired", f"Route {id} must have an addressPrefix.")
    if not str(prefix)[:1].isalpha():
        parse_prefix(prefix, id)
    hop, address = route.get("nextHopType"), route.get("nextHopIpAddress")
    if hop == "VirtualAppliance":
        try:
            good = isinstance(ip_address(str(address)), IPv4Address)
        except ValueError:
            good = False
        if not good:
            raise CloudError(
                "InvalidNextHopIpAddress", f"Route {id} with next hop VirtualAppliance needs a nextHopIpAddress."
            )
    elif address:
        raise CloudError(
            "NextHopIpAddressNotAllowed", f"Route {id} takes a nextHopIpAddress only with next hop VirtualAppliance."
        )


class RouteTable(NetworkKind):
    """A table of routes; routes stand inline or are resources of their own."""

    token = "azure-native:network:RouteTable"
    arm_type = "Microsoft.Network/routeTables"
    name_input = "routeTableName"
    replace_on = frozenset({"resourceGroupName", "routeTableName"})

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        for route in inputs.get("routes") or ():
            verify_route(f"{id}/routes/{route.get('name')}", route)

    def _before_delete(self, call: Call, record: Record) -> None:
        if users := referrers(call.world, record.id):
            raise CloudError(
                "InUseRouteTableCannotBeDeleted",
                f"Route table {name_of(record.id)} is in use and cannot be deleted. It is associated with subnet(s): "
                f"{', '.join(users)}.",
            )

    def _remove(self, world: World, record: Record) -> None:
        for route in below(world, record.id):
            world.remove(PACKAGE, route.kind, route.id)
        super()._remove(world, record)


def routes_of(world: World, table: Record) -> list[Mapping[str, Any]]:
    """Return all routes of a table."""
    return [*(table.doc.get("routes") or ()), *(r.doc for r in below(world, table.id, "Route"))]


class Route(NetworkKind):
    """A route of a route table."""

    token = "azure-native:network:Route"
    arm_type = "Microsoft.Network/routeTables/routes"
    name_input = "routeName"
    parents = ("routeTableName",)
    naming = "copy"
    located = False
    replace_on = frozenset({"resourceGroupName", "routeTableName", "routeName"})

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        verify_route(id, inputs)
        table = lookup(call.world, "RouteTable", id.rsplit("/routes/", 1)[0])
        for other in below(call.world, table.id, "Route") if table else ():
            if other.id.lower() != id.lower() and other.doc.get("addressPrefix") == inputs.get("addressPrefix"):
                raise CloudError(
                    "RouteConflict",
                    f"Route {name_of(id)} conflicts with route {name_of(other.id)}. Routes cannot have the same "
                    "AddressPrefix or AddressSpace.",
                )

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        return {"etag": f'W/"{call.world.next("etag")}"', "hasBgpOverride": False}
