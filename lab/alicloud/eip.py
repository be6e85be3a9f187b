"""Elastic IP addresses, and what they are bound to.

Sources: alibabacloud.com API pages AllocateEipAddress, AssociateEipAddress, UnassociateEipAddress, ReleaseEipAddress;
aliyun/terraform-provider-alicloud resource_alicloud_eip_address.go, resource_alicloud_eip_association.go.
"""

from ipaddress import IPv4Address

from ..provider import Call
from ..world import CloudError, Record, World
from . import names
from .bridge import FILLED, FIXED, Attr, BridgedKind, Doc, find, lookup, not_found, one_of


def new_public_address(world: World) -> str:
    """Return a public address that nothing else in the lab has: of the range that RFC 2544 keeps for tests."""
    return str(IPv4Address("198.19.128.0") + world.next("alicloud:public-address"))


class EipAddress(BridgedKind):
    """An elastic IP address."""

    token = "alicloud:ecs/eipAddress:EipAddress"
    prefix = "eip"
    attrs = {
        "addressName": Attr(computed=True, conflicts=("name",)),
        "allocationId": Attr(replaces=True, computed=True),
        "bandwidth": FILLED,
        "deletionProtection": FILLED,
        "description": FILLED,
        "highDefinitionMonitorLogStatus": one_of("OFF", "ON", replaces=True, computed=True),
        "internetChargeType": one_of("PayByBandwidth", "PayByTraffic", replaces=True, computed=True),
        "ipAddress": Attr(replaces=True, computed=True),
        "isp": one_of(
            *("BGP", "BGP_PRO", "ChinaTelecom", "ChinaUnicom", "ChinaMobile", "ChinaTelecom_L2", "ChinaUnicom_L2"),
            *("ChinaMobile_L2", "BGP_FinanceCloud", "BGP_International"),
            replaces=True,
            computed=True,
        ),
        "mode": one_of("NAT", "BINDED", "MULTI_BINDED", computed=True),
        "netmode": one_of("public", replaces=True, computed=True),
        "paymentType": one_of(
            *("Subscription", "PayAsYouGo", "PrePaid", "PostPaid"),
            replaces=True,
            computed=True,
            conflicts=("instanceChargeType",),
        ),
        "period": one_of(*range(10), 12, 24, 36),
        "pricingCycle": one_of("Month", "Year"),
        "publicIpAddressPoolId": FIXED,
        "resourceGroupId": FILLED,
        "securityProtectionTypes": FIXED,
        "zone": Attr(replaces=True, computed=True),
        "name": FILLED,
        "instanceChargeType": one_of("Subscription", "PayAsYouGo", "PrePaid", "PostPaid", replaces=True, computed=True),
    }

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        names.verify_name("InvalidName.Malformed", doc.get("addressName"), 1)
        names.verify_tags(doc.get("tags"))
        bandwidth = str(doc.setdefault("bandwidth", "5"))
        charge = doc.setdefault("internetChargeType", "PayByBandwidth")
        # AllocateEipAddress: 1 to 500 Mbit/s by bandwidth, 1 to 200 by traffic.
        most = 500 if charge == "PayByBandwidth" else 200
        if not bandwidth.isdigit() or not 1 <= int(bandwidth) <= most:
            raise CloudError(
                "InvalidBandwidth.Malformed", f"The bandwidth of an EIP must be 1 to {most} Mbit/s with {charge}."
            )
        doc["bandwidth"] = bandwidth
        payment = {"PostPaid": "PayAsYouGo", "PrePaid": "Subscription"}
        given = doc.get("paymentType") or doc.get("instanceChargeType") or "PayAsYouGo"
        doc["paymentType"] = payment.get(given, given)
        doc["instanceChargeType"] = "PrePaid" if doc["paymentType"] == "Subscription" else "PostPaid"
        if old is None:
            doc.setdefault("ipAddress", new_public_address(call.world))
            doc["status"] = "Available"
        doc.setdefault("name", doc.get("addressName", ""))
        doc.setdefault("addressName", doc["name"])
        for key, value in {
            "allocationId": id,
            "isp": "BGP",
            "netmode": "public",
            "mode": "NAT",
            "description": "",
            "deletionProtection": False,
            "highDefinitionMonitorLogStatus": "OFF",
            "resourceGroupId": "rg-lab",
            "zone": "",
            "createTime": "2026-01-01T00:00:00Z",
        }.items():
            doc.setdefault(key, value)

    def _answer(self, call: Call, id: str, doc: Doc) -> Doc:
        bound = find(call.world, "EipAssociation", allocationId=id)
        return super()._answer(call, id, doc) | {"status": "InUse" if bound else "Available"}

    def _before_delete(self, call: Call, record: Record) -> None:
        if found := find(call.world, "EipAssociation", allocationId=record.id):
            raise CloudError(
                "IncorrectEipStatus",
                f"The EIP {record.id} is bound to {found[0].doc['instanceId']} and cannot be released.",
            )
        if record.doc["deletionProtection"]:
            raise CloudError("OperationDenied.DeletionProtection", f"The EIP {record.id} has deletion protection.")


class EipAssociation(BridgedKind):
    """The bond between an elastic IP address and what uses it."""

    token = "alicloud:ecs/eipAssociation:EipAssociation"
    attrs = {
        "allocationId": FIXED,
        "instanceId": FIXED,
        "instanceType": Attr(replaces=True, computed=True),
        "mode": one_of("NAT", "MULTI_BINDED", "BINDED", computed=True),
        "privateIpAddress": FIXED,
        "vpcId": FIXED,
    }

    def _id(self, call: Call, doc: Doc) -> str:
        return f"{doc['allocationId']}:{doc['instanceId']}"

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        world, region = call.world, doc["_region"]
        eip = lookup(world, "EipAddress", doc["allocationId"], region)
        if eip is None:
            raise not_found("InvalidAllocationId.NotFound", "EIP", doc["allocationId"])
        if old is None and find(world, "EipAssociation", allocationId=eip.id):
            raise CloudError("IncorrectEipStatus", f"The EIP {eip.id} is already in use.")
        target = str(doc["instanceId"])
        # resource_alicloud_eip_association.go: the type follows from the id's prefix when it is not given.
        kinds = {"ngw-": ("Nat", "NatGateway"), "i-": ("EcsInstance", "instance")}
        found = next(((name, kind) for prefix, (name, kind) in kinds.items() if target.startswith(prefix)), None)
        if found is None or lookup(world, found[1], target, region) is None:
            raise not_found("InvalidInstanceId.NotFound", "instance", target)
        if doc.setdefault("instanceType", found[0]) != found[0]:
            raise CloudError("InvalidInstanceType", f"{target} is no {doc['instanceType']}.")
        doc.setdefault("mode", "NAT")

    def _before_delete(self, call: Call, record: Record) -> None:
        gateway = lookup(call.world, "NatGateway", record.doc["instanceId"])
        eip = lookup(call.world, "EipAddress", record.doc["allocationId"])
        if gateway is None or eip is None or record.doc.get("force"):
            return
        for entry in find(call.world, "SnatEntry", snatTableId=gateway.doc["snatTableIds"]):
            if eip.doc["ipAddress"] in str(entry.doc["snatIp"]).split(","):
                # UnassociateEipAddress, error codes.
                raise CloudError("EIP_CAN_NOT_UNASSOCIATE", f"The EIP {eip.id} is used by SNAT entry {entry.id}.")
