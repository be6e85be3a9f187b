"""Network Load Balancers, their server groups, servers and listeners.

Sources: alibabacloud.com API pages CreateLoadBalancer, CreateServerGroup, AddServersToServerGroup, CreateListener (NLB
2022-04-30); aliyun/terraform-provider-alicloud resource_alicloud_nlb_load_balancer.go,
resource_alicloud_nlb_server_group.go, resource_alicloud_nlb_server_group_server_attachment.go,
resource_alicloud_nlb_listener.go.
"""

from ipaddress import AddressValueError, IPv4Address
from typing import Any

from ..provider import Call
from ..world import CloudError, Record
from .bridge import FILLED, FIXED, PLAIN, Attr, BridgedKind, Doc, find, lookup, not_found, one_of, whole
from .vpc import free_addresses

_NAME = r"^[a-zA-Z\u4e00-\u9fa5][-.\w\u4e00-\u9fa5]{1,127}$"
_NAME_HINT = "2 to 128 characters, which must start with a letter"
_FEWEST_ZONES, _MOST_ZONES = 2, 10


class LoadBalancer(BridgedKind):
    """A Network Load Balancer."""

    token = "alicloud:nlb/loadBalancer:LoadBalancer"
    prefix = "nlb"
    attrs = {
        "addressIpVersion": one_of("Ipv4", "DualStack", replaces=True, computed=True),
        "addressType": one_of("Internet", "Intranet"),
        "bandwidthPackageId": FILLED,
        "crossZoneEnabled": FILLED,
        "deletionProtectionEnabled": FILLED,
        "loadBalancerName": Attr(pattern=_NAME, hint=_NAME_HINT),
        "loadBalancerType": one_of("Network", "Gateway", "Inner", replaces=True, computed=True),
        "resourceGroupId": FILLED,
        "securityGroupIds": Attr(computed=True, is_set=True),
        "vpcId": FIXED,
        "zoneMappings": Attr(
            is_set=True,
            nested={"zoneId": PLAIN, "vswitchId": PLAIN, "allocationId": FILLED, "privateIpv4Address": FILLED},
        ),
    }

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        region = doc["_region"]
        if lookup(call.world, "Network", doc["vpcId"], region) is None:
            raise not_found("ResourceNotFound.vpc", "VPC", doc["vpcId"])
        mappings: list[Doc] = list(doc["zoneMappings"])
        zones = [str(mapping["zoneId"]) for mapping in mappings]
        # CreateLoadBalancer, ZoneMappings: "You must add at least two zones. You can add a maximum of 10 zones."
        if not _FEWEST_ZONES <= len(set(zones)) <= _MOST_ZONES or len(set(zones)) < len(zones):
            raise CloudError(
                "IllegalParamSize.ZoneMappings",
                f"A load balancer needs {_FEWEST_ZONES} to {_MOST_ZONES} zones, each once, not {', '.join(zones)}.",
            )
        before = {entry["zoneId"]: entry for entry in (old or {}).get("zoneMappings") or ()}
        doc["zoneMappings"] = [self._mapping(call, doc, mapping, before) for mapping in mappings]
        if old is None:
            # An EIP for each zone is made with a load balancer that faces the Internet.
            doc["_addresses"] = [f"198.19.255.{call.world.next('alicloud:nlb-eip')}" for _ in mappings]
        private = [str(mapping["privateIpv4Address"]) for mapping in doc["zoneMappings"]]
        if doc["addressType"] == "Intranet":
            doc["_addresses"] = private
        doc |= {"status": "Active", "loadBalancerBusinessStatus": "Normal"}
        doc["dnsName"] = (old or {}).get("dnsName") or f"{id}.{region}.nlb.aliyuncsslb.com"
        for key, value in (
            ("loadBalancerType", "Network"),
            ("addressIpVersion", "Ipv4"),
            ("crossZoneEnabled", True),
            ("bandwidthPackageId", ""),
            ("resourceGroupId", "rg-lab"),
            ("createTime", "2026-01-01T00:00:00Z"),
            ("regionId", region),
        ):
            doc.setdefault(key, value)

    def _mapping(self, call: Call, doc: Doc, mapping: Doc, before: dict[str, Doc]) -> Doc:
        vswitch = lookup(call.world, "Switch", mapping["vswitchId"], doc["_region"])
        if vswitch is None or vswitch.doc["vpcId"] != doc["vpcId"]:
            raise not_found("ResourceNotFound.vswitch", "vSwitch", mapping["vswitchId"])
        if vswitch.doc["zoneId"] != mapping["zoneId"]:
            raise CloudError(
                "InvalidParam.ZoneMappings",
                f"The vSwitch {vswitch.id} is in {vswitch.doc['zoneId']}, not in {mapping['zoneId']}.",
            )
        known = before.get(mapping["zoneId"], {})
        address = mapping.get("privateIpv4Address") or known.get("privateIpv4Address")
        return {
            **mapping,
            "privateIpv4Address": address or free_addresses(call.world, vswitch, 1)[0],
            "status": "Active",
        }

    def _before_delete(self, call: Call, record: Record) -> None:
        if record.doc.get("deletionProtectionEnabled"):
            raise CloudError("OperationDenied.DeleteProtection", f"{record.id} has deletion protection.")


class ServerGroup(BridgedKind):
    """Servers behind listeners."""

    token = "alicloud:nlb/serverGroup:ServerGroup"
    prefix = "sgp"
    attrs = {
        "addressIpVersion": one_of("DualStack", "Ipv4", replaces=True, computed=True),
        "anyPortEnabled": Attr(replaces=True, computed=True),
        "connectionDrainEnabled": FILLED,
        "connectionDrainTimeout": whole(10, 900, computed=True),
        "healthCheck": Attr(
            computed=True,
            nested={
                "healthCheckInterval": whole(0, 50, computed=True),
                "unhealthyThreshold": whole(2, 10, computed=True),
                "healthyThreshold": whole(2, 10, computed=True),
                "healthCheckConnectTimeout": whole(0, 300, computed=True),
                "healthCheckConnectPort": whole(0, 65535, computed=True),
                "healthCheckType": one_of("TCP", "HTTP", "UDP", computed=True),
            },
        ),
        "preserveClientIpEnabled": FILLED,
        "protocol": one_of("TCP", "UDP", "TCPSSL", replaces=True, computed=True),
        "resourceGroupId": FILLED,
        "scheduler": one_of("Wrr", "Rr", "Qch", "Tch", "Sch", "Wlc", computed=True),
        "serverGroupName": Attr(pattern=_NAME, hint=_NAME_HINT),
        "serverGroupType": one_of("Instance", "Ip", replaces=True, computed=True),
        "vpcId": FIXED,
    }

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        if lookup(call.world, "Network", doc["vpcId"], doc["_region"]) is None:
            raise not_found("ResourceNotFound.vpc", "VPC", doc["vpcId"])
        for key, value in (
            ("serverGroupType", "Instance"),
            ("protocol", "TCP"),
            ("scheduler", "Wrr"),
            ("addressIpVersion", "Ipv4"),
            ("anyPortEnabled", False),
            ("connectionDrainEnabled", False),
            ("resourceGroupId", "rg-lab"),
        ):
            doc.setdefault(key, value)
        doc.setdefault("preserveClientIpEnabled", doc["serverGroupType"] == "Instance")
        doc |= {"status": "Available", "regionId": doc["_region"]}

    def _before_delete(self, call: Call, record: Record) -> None:
        if used := find(call.world, "Listener", serverGroupId=record.id):
            raise CloudError("ResourceInUse.serverGroup", f"The server group {record.id} is used by {used[0].id}.")


class ServerGroupServerAttachment(BridgedKind):
    """A server of a group."""

    token = "alicloud:nlb/serverGroupServerAttachment:ServerGroupServerAttachment"
    attrs = {
        "serverGroupId": FIXED,
        "serverId": FIXED,
        "serverType": one_of("Ecs", "Eni", "Eci", "Ip", replaces=True),
        "serverIp": Attr(replaces=True, computed=True),
        "port": whole(1, 65535, replaces=True, computed=True),
        "weight": whole(0, 100, computed=True),
        "description": PLAIN,
    }

    def _id(self, call: Call, doc: Doc) -> str:
        return ":".join(str(doc[key]) for key in ("serverGroupId", "serverId", "serverType", "port"))

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        group = lookup(call.world, "ServerGroup", doc["serverGroupId"], doc["_region"])
        if group is None:
            raise not_found("ResourceNotFound.serverGroup", "server group", doc["serverGroupId"])
        by_address = group.doc["serverGroupType"] == "Ip"
        if by_address != (doc["serverType"] == "Ip"):
            raise CloudError(
                "Mismatch.ServerType",
                f"The server type {doc['serverType']} does not fit the group's, {group.doc['serverGroupType']}.",
            )
        if by_address:
            _verify_address(doc["serverId"])
            # AddServersToServerGroup: of a group of addresses, both are the address.
            if doc.setdefault("serverIp", doc["serverId"]) != doc["serverId"]:
                raise CloudError("InvalidParam.ServerIp", f"{doc['serverIp']} is not the address {doc['serverId']}.")
        if old is None and lookup(call.world, self.kind, id) is not None:
            raise CloudError("Conflict.BackendServer", f"The server {id} is in the group already.")
        doc.setdefault("weight", 100)
        doc |= {"status": "Available"}


def _verify_address(value: Any) -> None:
    try:
        IPv4Address(str(value))
    except AddressValueError:
        raise CloudError("InvalidParam.ServerId", f"{value} is no IPv4 address.") from None


class Listener(BridgedKind):
    """A port of a load balancer."""

    token = "alicloud:nlb/listener:Listener"
    prefix = "lsn"
    attrs = {
        "alpnEnabled": FILLED,
        "caEnabled": FILLED,
        "cps": whole(0, 1000000),
        "idleTimeout": whole(1, 900, computed=True),
        "listenerDescription": Attr(length=(2, 256)),
        "listenerPort": whole(0, 65535, replaces=True),
        "listenerProtocol": one_of("TCP", "UDP", "TCPSSL", replaces=True),
        "loadBalancerId": FIXED,
        "mss": whole(0, 1500),
        "proxyProtocolEnabled": FILLED,
        "secSensorEnabled": FILLED,
        "securityPolicyId": FILLED,
        "serverGroupId": PLAIN,
        "status": one_of("Stopped", "Running", computed=True),
    }

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        region = doc["_region"]
        balancer = lookup(call.world, "LoadBalancer", doc["loadBalancerId"], region)
        if balancer is None:
            raise not_found("ResourceNotFound.loadBalancer", "load balancer", doc["loadBalancerId"])
        group = lookup(call.world, "ServerGroup", doc["serverGroupId"], region)
        if group is None:
            raise not_found("ResourceNotFound.serverGroup", "server group", doc["serverGroupId"])
        if group.doc["vpcId"] != balancer.doc["vpcId"]:
            raise CloudError("Mismatch.VpcId", f"{group.id} and {balancer.id} are in different VPCs.")
        if group.doc["protocol"] != doc["listenerProtocol"]:
            raise CloudError("Mismatch.Protocol", f"{group.id} takes {group.doc['protocol']} alone.")
        for other in find(call.world, "Listener", loadBalancerId=balancer.id, listenerPort=doc["listenerPort"]):
            if other.id != id:
                raise CloudError("ResourceAlreadyExist.listener", f"{other.id} has the port {doc['listenerPort']}.")
        for key, value in (
            ("idleTimeout", 900),
            ("alpnEnabled", False),
            ("caEnabled", False),
            ("proxyProtocolEnabled", False),
            ("secSensorEnabled", False),
            ("securityPolicyId", ""),
            ("status", "Running"),
        ):
            doc.setdefault(key, value)
        doc["regionId"] = region

    def _id(self, call: Call, doc: Doc) -> str:
        # CreateListener answers "lsn-...@<port>".
        return f"{call.world.new_id(self.prefix)}@{doc['listenerPort']}"
