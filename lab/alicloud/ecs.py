"""Security groups, their rules and prefix lists.

Sources: alibabacloud.com API pages CreateSecurityGroup, AuthorizeSecurityGroup, DeleteSecurityGroup, CreatePrefixList,
DeletePrefixList and "Security group rules" (limits); aliyun/terraform-provider-alicloud
resource_alicloud_security_group.go, resource_alicloud_security_group_rule.go, resource_alicloud_ecs_prefix_list.go.
"""

import re
from ipaddress import IPv6Network, ip_network

from ..provider import Call
from ..world import CloudError, Record, World
from . import names
from .bridge import FILLED, FIXED, PLAIN, Attr, BridgedKind, Doc, find, lookup, not_found, one_of, whole

MOST_RULES = 1000
"""Rules of all security groups of a network interface together; one with a prefix list counts as many as that list may
have entries (alibabacloud.com "Security group rules", "Overview of prefix lists")."""
_ALL_PORTS = "-1/-1"


class SecurityGroup(BridgedKind):
    """A security group; its rules are resources of their own."""

    token = "alicloud:ecs/securityGroup:SecurityGroup"
    prefix = "sg"
    attrs = {
        "innerAccessPolicy": one_of("Accept", "Drop", computed=True, conflicts=("innerAccess",)),
        "resourceGroupId": FILLED,
        "securityGroupName": FILLED,
        "securityGroupType": one_of("normal", "enterprise", replaces=True, computed=True),
        "vpcId": Attr(replaces=True, computed=True),
        "name": FILLED,
        "innerAccess": FILLED,
    }

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        names.verify_name("InvalidSecurityGroupName.Malformed", doc.get("securityGroupName"))
        names.verify_description("InvalidSecurityGroupDiscription.Malformed", doc.get("description"))
        names.verify_tags(doc.get("tags"))
        if doc.get("vpcId") and lookup(call.world, "Network", doc["vpcId"], doc["_region"]) is None:
            raise not_found("InvalidVpcId.NotFound", "VPC", doc["vpcId"])
        kind = doc.setdefault("securityGroupType", "normal")
        if kind == "enterprise" and doc.get("innerAccessPolicy") == "Accept":
            # ModifySecurityGroupPolicy: not for advanced security groups.
            raise CloudError("OperationDenied", "An enterprise security group cannot let its members reach each other.")
        if doc.get("innerAccess") is not None:
            doc.setdefault("innerAccessPolicy", "Accept" if doc["innerAccess"] else "Drop")
        doc.setdefault("innerAccessPolicy", "Drop" if kind == "enterprise" else "Accept")
        doc["innerAccess"] = doc["innerAccessPolicy"] == "Accept"
        doc.setdefault("name", doc.get("securityGroupName", ""))
        doc.setdefault("securityGroupName", doc["name"])
        doc.setdefault("vpcId", "")
        doc.setdefault("resourceGroupId", "rg-lab")
        doc.setdefault("createTime", "2026-01-01T00:00:00Z")

    def _before_delete(self, call: Call, record: Record) -> None:
        for instance in find(call.world, "instance"):
            if record.id in instance.doc["securityGroupIds"]:
                raise CloudError(
                    "DependencyViolation", f"There is still instance(s) in the specified security group: {instance.id}."
                )
        for rule in find(call.world, "SecurityGroupRule", sourceSecurityGroupId=record.id):
            if rule.doc["securityGroupId"] != record.id:
                raise CloudError(
                    "DependencyViolation", f"The security group is named by a rule of {rule.doc['securityGroupId']}."
                )
        # The rules go with their group.
        for rule in find(call.world, "SecurityGroupRule", securityGroupId=record.id):
            call.world.remove("alicloud", "SecurityGroupRule", rule.id)


class SecurityGroupRule(BridgedKind):
    """One rule of a security group."""

    token = "alicloud:ecs/securityGroupRule:SecurityGroupRule"
    prefix = "sgr"
    at_least_one = (("cidrIp", "ipv6CidrIp", "sourceSecurityGroupId", "prefixListId"),)
    attrs = {
        "securityGroupId": FIXED,
        "type": one_of("ingress", "egress", replaces=True),
        "ipProtocol": one_of("tcp", "udp", "icmp", "icmpv6", "gre", "all", replaces=True),
        "policy": one_of("accept", "drop", replaces=True, default="accept"),
        "priority": whole(1, 100, replaces=True, default=1),
        "cidrIp": FIXED,
        "ipv6CidrIp": Attr(replaces=True, conflicts=("cidrIp",)),
        "sourceSecurityGroupId": Attr(replaces=True, conflicts=("cidrIp",)),
        "sourceGroupOwnerAccount": FIXED,
        "sourceGroupOwnerId": FIXED,
        "prefixListId": Attr(replaces=True, computed=True),
        "portRange": Attr(replaces=True, default=_ALL_PORTS),
        "nicType": one_of("internet", "intranet", replaces=True, computed=True),
        "description": PLAIN,
    }

    def _id(self, call: Call, doc: Doc) -> str:
        # resource_alicloud_security_group_rule.go: all that makes the rule is its id.
        source = doc.get("cidrIp") or doc.get("sourceSecurityGroupId") or doc.get("ipv6CidrIp", "").replace(":", "_")
        parts = [
            doc["securityGroupId"],
            doc["type"],
            doc["ipProtocol"],
            doc["portRange"],
            doc.get("nicType", "intranet"),
        ]
        parts += [source, doc["policy"], str(doc["priority"])]
        return ":".join(parts if source else [*parts, doc.get("prefixListId", "")])

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        world, region = call.world, doc["_region"]
        group = lookup(world, "SecurityGroup", doc["securityGroupId"], region)
        if group is None:
            raise not_found("InvalidSecurityGroupId.NotFound", "security group", doc["securityGroupId"])
        self._verify_ports(doc)
        if doc.get("nicType") == "internet" and (group.doc["vpcId"] or doc.get("sourceSecurityGroupId")):
            raise CloudError(
                "InvalidNicType",
                "When security group in the vpc or authorizing permission for source/destination security group, the "
                "nic_type must be 'intranet'.",
            )
        names.verify_description("InvalidSecurityGroupRuleDescription.Malformed", doc.get("description"), 1, 512)
        self._verify_peer(world, group, doc)
        if old is None:
            # The cloud takes a rule that exists already and keeps the one (AuthorizeSecurityGroup succeeds then).
            others = [rule for rule in find(world, self.kind, securityGroupId=group.id) if rule.id != id]
            used = sum(rule_weight(world, rule.doc) for rule in others)
            if used + rule_weight(world, doc) > MOST_RULES:
                raise CloudError(
                    "AuthorizationLimitExceed",
                    f"The limit of authorization records in the security group reaches: {MOST_RULES}; a rule "
                    "with a prefix "
                    "list counts as many as the list may have entries.",
                )
        doc.setdefault("nicType", "intranet" if group.doc["vpcId"] else "internet")
        doc.setdefault("prefixListId", "")
        doc.setdefault("securityGroupRuleId", world.new_id("sgr"))

    def _verify_ports(self, doc: Doc) -> None:
        ports = str(doc["portRange"])
        if doc["ipProtocol"] not in ("tcp", "udp"):
            if ports != _ALL_PORTS:
                raise CloudError(
                    "InvalidIpProtocol.Malformed",
                    "'icmp', 'gre' and 'all' only support port range '-1/-1'. Please correct it and try again.",
                )
            return
        match = re.fullmatch(r"(\d{1,5})/(\d{1,5})", ports)
        if match is None or not 1 <= int(match[1]) <= int(match[2]) <= 65535:
            raise CloudError(
                "InvalidIpProtocol.Malformed",
                f"'tcp' and 'udp' can support port range: [1, 65535], as first/last; {ports} is not valid.",
            )

    def _verify_peer(self, world: World, group: Record, doc: Doc) -> None:
        region = group.doc["_region"]
        if doc.get("cidrIp"):
            text = str(doc["cidrIp"])
            # AuthorizeSecurityGroup takes one address without a mask too.
            names.parse_cidr("InvalidSourceCidrIp.Malformed", text if "/" in text else f"{text}/32")
        if doc.get("sourceSecurityGroupId"):
            source = lookup(world, "SecurityGroup", doc["sourceSecurityGroupId"], region)
            if source is None:
                raise not_found("InvalidSourceGroupId.NotFound", "security group", doc["sourceSecurityGroupId"])
            if source.id == group.id:
                raise CloudError(
                    "InvalidParamter.Conflict",
                    "The specified SecurityGroupId should be different from the SourceGroupId.",
                )
            if source.doc["vpcId"] != group.doc["vpcId"]:
                raise CloudError(
                    "InvalidSourceGroupId.Mismatch",
                    "Specified security group and source group are not in the same VPC.",
                )
        elif doc.get("prefixListId") and lookup(world, "EcsPrefixList", doc["prefixListId"], region) is None:
            raise not_found("InvalidPrefixListId.NotFound", "prefix list", doc["prefixListId"])


def rule_weight(world: World, rule: Doc) -> int:
    """Return how much a rule counts towards the group's limit."""
    found = lookup(world, "EcsPrefixList", rule.get("prefixListId"))
    return int(found.doc["maxEntries"]) if found else 1


class EcsPrefixList(BridgedKind):
    """A list of ranges that rules name."""

    token = "alicloud:ecs/ecsPrefixList:EcsPrefixList"
    prefix = "pl"
    attrs = {
        "addressFamily": one_of("IPv4", "IPv6", replaces=True),
        "maxEntries": whole(1, 200, replaces=True),
        "entries": Attr(most=200, is_set=True),
        "prefixListName": PLAIN,
        "description": PLAIN,
    }

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        name = doc["prefixListName"]
        names.verify_name("InvalidPrefixListName.Malformed", name)
        if not name or name.startswith(("com.aliyun", "com.alibabacloud")):
            raise CloudError("InvalidPrefixListName.Malformed", f"The prefix list name '{name}' is not valid.")
        names.verify_description("InvalidDescription.Malformed", doc.get("description"))
        entries = [str(entry.get("cidr", "")) for entry in doc["entries"]]
        if len(entries) > int(doc["maxEntries"]):
            raise CloudError(
                "LimitExceed.PrefixListEntry", f"{len(entries)} entries, and the prefix list takes {doc['maxEntries']}."
            )
        if len(set(entries)) < len(entries):
            raise CloudError("InvalidParameter.EntryCidr.Duplicated", "The entries of a prefix list must be different.")
        for entry in doc["entries"]:
            names.verify_description("InvalidEntryDescription.Malformed", entry.get("description"), 2, 32)
        for text in entries:
            try:
                network = ip_network(text)
            except ValueError:
                raise CloudError("InvalidEntryCidr.Malformed", f"The CIDR block '{text}' is not valid.") from None
            if isinstance(network, IPv6Network) != (doc["addressFamily"] == "IPv6"):
                raise CloudError("InvalidEntryCidr.Malformed", f"'{text}' is no {doc['addressFamily']} CIDR block.")

    def _before_delete(self, call: Call, record: Record) -> None:
        if found := find(call.world, "SecurityGroupRule", prefixListId=record.id):
            raise CloudError(
                "DependencyViolation.PrefixListAssociation",
                f"The prefix list is used by security group {found[0].doc['securityGroupId']}.",
            )
