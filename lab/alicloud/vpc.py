"""VPCs, vSwitches, NAT gateways and their SNAT entries.

Sources: alibabacloud.com API pages CreateVpc, DeleteVpc, CreateVSwitch, DeleteVSwitch, CreateNatGateway,
DeleteNatGateway, CreateSnatEntry; aliyun/terraform-provider-alicloud resource_alicloud_vpc.go,
resource_alicloud_vswitch.go,
resource_alicloud_nat_gateway.go, resource_alicloud_snat_entry.go.
"""

from ipaddress import IPv4Address, IPv4Network

from ..provider import Call
from ..world import CloudError, Record, World
from . import names
from .bridge import FILLED, FIXED, PACKAGE, PLAIN, Attr, BridgedKind, Doc, find, lookup, not_found, one_of, region_of

# CreateVpc: "You can use 192.168.0.0/16, 172.16.0.0/12, 10.0.0.0/8 or subsets of them, or a custom address range,
# but not
# 100.64.0.0/10, 224.0.0.0/4, 127.0.0.0/8, 169.254.0.0/16 and their subsets"; masks of 8 to 28 bits.
_NOT_FOR_VPCS = tuple(map(IPv4Network, ("100.64.0.0/10", "224.0.0.0/4", "127.0.0.0/8", "169.254.0.0/16", "0.0.0.0/8")))
_RESERVED_AT_START = 1
_RESERVED_AT_END = 3
"""Addresses of a vSwitch that the system keeps: the first and the last three (alibabacloud.com "VPC FAQ")."""


class Network(BridgedKind):
    """A VPC."""

    token = "alicloud:vpc/network:Network"
    prefix = "vpc"
    attrs = {
        "cidrBlock": FILLED,
        "dnsHostnameStatus": one_of("ENABLED", "DISABLED", computed=True),
        "enableIpv6": FILLED,
        "ipv6CidrBlock": Attr(replaces=True, computed=True),
        "ipv6Isp": FILLED,
        "resourceGroupId": FILLED,
        "secondaryCidrBlocks": FILLED,
        "isDefault": Attr(replaces=True, computed=True),
        "systemRouteTableRoutePropagationEnable": FILLED,
        "userCidrs": Attr(replaces=True, computed=True),
        "vpcName": Attr(computed=True, conflicts=("name",)),
        "name": FILLED,
    }

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        names.verify_name("InvalidVpcName.Malformed", doc.get("vpcName"), 1)
        names.verify_description("InvalidVpcDiscription.Malformed", doc.get("description"), 1)
        names.verify_tags(doc.get("tags"))
        doc.setdefault("cidrBlock", "172.16.0.0/12")
        network = names.parse_cidr("InvalidCidrBlock.Malformed", doc["cidrBlock"])
        if not 8 <= network.prefixlen <= 28 or any(network.overlaps(other) for other in _NOT_FOR_VPCS):
            raise CloudError(
                "InvalidParameter",
                f"The VPC's CIDR block {network} is not valid: a mask of 8 to 28 bits, outside "
                f"{', '.join(map(str, _NOT_FOR_VPCS[:-1]))}.",
            )
        # ModifyVpcAttribute, parameter CidrBlock: the vSwitches must still lie inside.
        for vswitch in find(call.world, "Switch", vpcId=id):
            if not vswitch_range(vswitch).subnet_of(network) and doc["cidrBlock"] != (old or {}).get("cidrBlock"):
                raise CloudError("InvalidCidrBlock", f"The vSwitch {vswitch.id} would lie outside {network}.")
        if old is None:
            number = call.world.next("alicloud:vpc")
            doc |= {"routeTableId": f"vtb-lab{number:08x}", "routerId": f"vrt-lab{number:08x}"}
        doc |= {"status": "Available", "regionId": doc["_region"], "routerTableId": doc["routeTableId"]}
        doc.setdefault("name", doc.get("vpcName", ""))
        doc.setdefault("vpcName", doc["name"])
        _fill(doc, createTime="2026-01-01T00:00:00Z", resourceGroupId="rg-lab", userCidrs=[], secondaryCidrBlocks=[])
        _fill(doc, enableIpv6=False, ipv6CidrBlock="", ipv6CidrBlocks=[], isDefault=False, dnsHostnameStatus="DISABLED")
        _fill(doc, systemRouteTableRoutePropagationEnable=True, ipv6Isp="")

    def _before_delete(self, call: Call, record: Record) -> None:
        for kind, code in (
            ("Switch", "DependencyViolation.VSwitch"),
            ("NatGateway", "DependencyViolation.NatGateway"),
            ("SecurityGroup", "DependencyViolation.SecurityGroup"),
        ):
            if found := find(call.world, kind, vpcId=record.id):
                raise CloudError(code, f"The VPC {record.id} still has {found[0].id}.")


def _fill(doc: Doc, **values: object) -> None:
    for key, value in values.items():
        doc.setdefault(key, value)


def vswitch_range(record: Record) -> IPv4Network:
    """Return the range of a vSwitch."""
    return IPv4Network(record.doc["cidrBlock"])


def free_addresses(world: World, vswitch: Record, count: int) -> list[str]:
    """Return free addresses of a vSwitch, lowest first; raise CloudError when there are too few."""
    network = vswitch_range(vswitch)
    taken = {r.doc["privateIp"] for r in find(world, "instance", vswitchId=vswitch.id)}
    taken |= {r.doc["_privateIp"] for r in find(world, "NatGateway", vswitchId=vswitch.id)}
    found: list[str] = []
    for offset in range(_RESERVED_AT_START, network.num_addresses - _RESERVED_AT_END):
        if len(found) == count:
            break
        if (address := str(network[offset])) not in taken:
            found.append(address)
    if len(found) < count:
        # alibabacloud.com, ECS RunInstances error codes.
        raise CloudError(
            "InvalidVSwitchId.IpNotEnough",
            f"The specified VSwitch {vswitch.id} has not enough IpAddress: {count} wanted, {len(found)} free.",
        )
    return found


class Switch(BridgedKind):
    """A vSwitch: a range of a VPC in one zone."""

    token = "alicloud:vpc/switch:Switch"
    prefix = "vsw"
    exactly_one = (("zoneId", "availabilityZone"),)
    attrs = {
        "cidrBlock": Attr(replaces=True, computed=True),
        "enableIpv6": FILLED,
        "ipv6CidrBlockMask": FILLED,
        "isDefault": Attr(replaces=True, computed=True),
        "vswitchName": Attr(computed=True, conflicts=("name",)),
        "vpcId": Attr(replaces=True, computed=True),
        "zoneId": Attr(replaces=True, computed=True),
        "name": FILLED,
        "availabilityZone": Attr(replaces=True, computed=True),
    }

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        names.verify_name("InvalidVSwitchName.Malformed", doc.get("vswitchName"), 1)
        names.verify_description("InvalidVSwitchDescription.Malformed", doc.get("description"), 1)
        names.verify_tags(doc.get("tags"))
        region = doc["_region"]
        zone = doc.get("zoneId") or doc.get("availabilityZone")
        if not names.in_region(zone, region):
            raise CloudError("InvalidZoneId.NotFound", f"Specified value of ZoneId is not exists: {zone} in {region}.")
        vpc = lookup(call.world, "Network", doc.get("vpcId"), region)
        if vpc is None:
            raise not_found("InvalidVpcId.NotFound", "VPC", doc.get("vpcId"))
        network = names.parse_cidr("InvalidCidrBlock.Malformed", doc.get("cidrBlock"))
        outer = [IPv4Network(text) for text in (vpc.doc["cidrBlock"], *vpc.doc["secondaryCidrBlocks"])]
        # CreateVSwitch: "The subnet mask must be 16 to 29 bits in length", inside the VPC's CIDR block.
        if not 16 <= network.prefixlen <= 29:
            raise CloudError("InvalidCidrBlock.Malformed", f"The mask of {network} must have 16 to 29 bits.")
        if not any(network.subnet_of(space) for space in outer):
            raise CloudError(
                "InvalidCidrBlock", f"Specified CIDR block {network} is not in the VPC's range {vpc.doc['cidrBlock']}."
            )
        for other in find(call.world, "Switch", vpcId=vpc.id):
            if other.id != id and vswitch_range(other).overlaps(network):
                raise CloudError(
                    "InvalidCidrBlock.Overlapped",
                    f"Specified CIDR block {network} overlaps with {other.doc['cidrBlock']} of {other.id}.",
                )
        doc |= {"zoneId": zone, "availabilityZone": zone, "status": "Available"}
        doc.setdefault("name", doc.get("vswitchName", ""))
        doc.setdefault("vswitchName", doc["name"])
        _fill(doc, createTime="2026-01-01T00:00:00Z", enableIpv6=False, ipv6CidrBlock="", isDefault=False)

    def _before_delete(self, call: Call, record: Record) -> None:
        world = call.world
        for kind in ("NatGateway", "instance"):
            if found := find(world, kind, vswitchId=record.id):
                raise CloudError("DependencyViolation", f"The vSwitch {record.id} still has {kind} {found[0].id}.")
        for entry in find(world, "SnatEntry", sourceVswitchId=record.id):
            raise CloudError("DependencyViolation.SnatEntry", f"The vSwitch {record.id} is used by {entry.id}.")


class NatGateway(BridgedKind):
    """A NAT gateway in a vSwitch."""

    token = "alicloud:vpc/natGateway:NatGateway"
    prefix = "ngw"
    attrs = {
        "internetChargeType": one_of("PayByLcu", "PayBySpec", replaces=True, computed=True),
        "natGatewayName": Attr(computed=True, conflicts=("name",)),
        "name": FILLED,
        "natType": one_of("Enhanced", "Normal", computed=True),
        "paymentType": one_of(
            "PayAsYouGo", "Subscription", replaces=True, computed=True, conflicts=("instanceChargeType",)
        ),
        "instanceChargeType": one_of("PostPaid", "PrePaid", replaces=True, computed=True),
        "period": one_of(*range(1, 10), 12, 24, 36),
        "specification": one_of("Large", "Middle", "Small", "XLarge.1", computed=True),
        "vswitchId": PLAIN,
        "vpcId": FIXED,
        "deletionProtection": FILLED,
        "networkType": one_of("internet", "intranet", computed=True),
        "eipBindMode": one_of("MULTI_BINDED", "NAT", computed=True),
        "icmpReplyEnabled": FILLED,
        "privateLinkEnabled": FIXED,
        "accessMode": Attr(replaces=True, computed=True),
        "availabilityMode": one_of("CrossAZ", "SingleAZ", replaces=True, computed=True),
    }

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        names.verify_name("InvalidNatGatewayName.Malformed", doc.get("natGatewayName"))
        names.verify_tags(doc.get("tags"))
        region = doc["_region"]
        if lookup(call.world, "Network", doc["vpcId"], region) is None:
            raise not_found("InvalidVpcId.NotFound", "VPC", doc["vpcId"])
        # CreateNatGateway: only Enhanced gateways can be made, and they need a vSwitch.
        if doc.setdefault("natType", "Enhanced") != "Enhanced":
            raise CloudError("OperationUnsupported.NatType", "Normal NAT gateways can no longer be created.")
        vswitch = lookup(call.world, "Switch", doc.get("vswitchId"), region)
        if vswitch is None:
            raise CloudError(
                "InvalidVSwitchId.NotFound", f"The specified vSwitch does not exist: {doc.get('vswitchId')}."
            )
        if vswitch.doc["vpcId"] != doc["vpcId"]:
            raise CloudError("InvalidVSwitchId.NotFound", f"The vSwitch {vswitch.id} is not in VPC {doc['vpcId']}.")
        if old is not None and old["vswitchId"] != doc["vswitchId"]:
            # resource_alicloud_nat_gateway.go: vswitch_id may only change while a Normal gateway becomes Enhanced.
            raise CloudError("OperationUnsupported.UpdateNatGateway", "An Enhanced NAT gateway stays in its vSwitch.")
        if old is None:
            number = call.world.next("alicloud:nat")
            doc["_privateIp"] = free_addresses(call.world, vswitch, 1)[0]
            doc |= {"snatTableIds": f"stb-lab{number:08x}", "forwardTableIds": f"ftb-lab{number:08x}"}
        doc.setdefault("name", doc.get("natGatewayName", ""))
        doc.setdefault("natGatewayName", doc["name"])
        doc["status"] = "Available"
        _fill(
            doc,
            internetChargeType="PayByLcu",
            paymentType="PayAsYouGo",
            instanceChargeType="PostPaid",
            specification="",
        )
        _fill(doc, networkType="internet", eipBindMode="MULTI_BINDED", icmpReplyEnabled=True, deletionProtection=False)
        _fill(doc, availabilityMode="CrossAZ")

    def _before_delete(self, call: Call, record: Record) -> None:
        if record.doc["deletionProtection"]:
            raise CloudError("OperationFailed.DeletionProtected", f"{record.id} has deletion protection.")
        force = record.doc.get("force")
        for entry in find(call.world, "SnatEntry", snatTableId=record.doc["snatTableIds"]):
            if not force:
                raise CloudError("DependencyViolation.SnatEntry", f"The NAT gateway still has {entry.id}.")
            call.world.remove(PACKAGE, "SnatEntry", entry.id)
        for eip in find(call.world, "EipAssociation", instanceId=record.id):
            if not force:
                raise CloudError(
                    "DependencyViolation.EIPS",
                    f"The NAT gateway {record.id} is still bound to {eip.doc['allocationId']}.",
                )
            call.world.remove(PACKAGE, "EipAssociation", eip.id)


class SnatEntry(BridgedKind):
    """One way out of a vSwitch or range through a NAT gateway."""

    token = "alicloud:vpc/snatEntry:SnatEntry"
    prefix = "snat"
    attrs = {
        "snatTableId": FIXED,
        "sourceCidr": Attr(replaces=True, computed=True, conflicts=("sourceVswitchId",)),
        "sourceVswitchId": Attr(replaces=True, computed=True),
    }

    def _id(self, call: Call, doc: Doc) -> str:
        # resource_alicloud_snat_entry.go: the id is "<table>:<entry>".
        return f"{doc['snatTableId']}:{call.world.new_id(self.prefix)}"

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        world, region = call.world, region_of(call)
        gateway = next((g for g in find(world, "NatGateway", snatTableIds=doc["snatTableId"], _region=region)), None)
        if gateway is None:
            raise not_found("InvalidSnatTableId.NotFound", "SNAT table", doc["snatTableId"])
        bound = {
            eip.doc["ipAddress"]
            for link in find(world, "EipAssociation", instanceId=gateway.id)
            if (eip := lookup(world, "EipAddress", link.doc["allocationId"], region))
        }
        for address in str(doc["snatIp"]).split(","):
            IPv4Address(address)
            if address not in bound:
                # CreateSnatEntry: "The EIP must be associated with the NAT gateway".
                raise CloudError(
                    "InvalidIp.NotInNatgw", f"The SNAT IP {address} is not associated with NAT gateway {gateway.id}."
                )
        vswitch_id = doc.get("sourceVswitchId")
        if vswitch_id:
            vswitch = lookup(world, "Switch", vswitch_id, region)
            if vswitch is None or vswitch.doc["vpcId"] != gateway.doc["vpcId"]:
                raise not_found("InvalidVSwitchId.NotFound", "vSwitch", vswitch_id)
            doc["sourceCidr"] = vswitch.doc["cidrBlock"]
        elif doc.get("sourceCidr"):
            names.parse_cidr("InvalidSourceCIDR.Malformed", doc["sourceCidr"])
        else:
            raise CloudError("MissingParameter", "SourceVSwitchId or SourceCIDR must be given.")
        for other in find(world, "SnatEntry", snatTableId=doc["snatTableId"], sourceCidr=doc["sourceCidr"]):
            if other.id != id:
                raise CloudError(
                    "Forbidden.SourceVSwitchId.Duplicated", f"{doc['sourceCidr']} has the entry {other.id}."
                )
        doc |= {"snatEntryId": id.rpartition(":")[2], "status": "Available"}
        doc.setdefault("sourceVswitchId", "")
