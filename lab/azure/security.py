"""Network security groups: what Azure refuses in a rule, and which traffic the rules let through.

Sources: learn.microsoft.com "Azure network security groups overview" (virtual-network/
network-security-groups-overview: priorities, default rules, service tags), error codes from
hashicorp/terraform-provider-azurerm#5617, Azure/azure-powershell#4557 and
kubernetes-sigs/cloud-provider-azure#6775 (overlapping prefixes).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_address, ip_network
from typing import Any

from ..provider import Call
from ..world import CloudError, Record, World
from . import names
from .addresses import is_internet
from .arm import ArmKind
from .records import Doc, below, name_of, referrers

_ANY = ("*", "Any", "0.0.0.0/0")
_NO_TAG_IN_LIST = ("*", "virtualnetwork", "internet", "azureloadbalancer")
_MOST_RULES = 1000
_LONGEST_DESCRIPTION = 140


@dataclass(frozen=True)
class Rule:
    """A rule as the traffic meets it."""

    name: str
    priority: int
    inbound: bool
    allow: bool
    protocol: str
    sources: tuple[str, ...]
    destinations: tuple[str, ...]
    ports: tuple[str, ...]
    source_ports: tuple[str, ...] = ("*",)


def _default(name: str, priority: int, inbound: bool, allow: bool, source: str, destination: str) -> Rule:
    return Rule(name, priority, inbound, allow, "*", (source,), (destination,), ("*",))


DEFAULT_RULES = (
    _default("AllowVnetInBound", 65000, True, True, "VirtualNetwork", "VirtualNetwork"),
    _default("AllowAzureLoadBalancerInBound", 65001, True, True, "AzureLoadBalancer", "*"),
    _default("DenyAllInBound", 65500, True, False, "*", "*"),
    _default("AllowVnetOutBound", 65000, False, True, "VirtualNetwork", "VirtualNetwork"),
    _default("AllowInternetOutBound", 65001, False, True, "*", "Internet"),
    _default("DenyAllOutBound", 65500, False, False, "*", "*"),
)


def _many(rule: Mapping[str, Any], one: str, many: str) -> tuple[str, ...]:
    values = [str(value) for value in rule.get(many) or ()]
    if rule.get(one) not in (None, ""):
        values.insert(0, str(rule[one]))
    return tuple(values)


def as_rule(name: str, rule: Mapping[str, Any]) -> Rule:
    """Return a rule's inputs as a Rule."""
    return Rule(
        name,
        int(rule["priority"]),
        rule["direction"] == "Inbound",
        rule["access"] == "Allow",
        str(rule["protocol"]),
        _many(rule, "sourceAddressPrefix", "sourceAddressPrefixes"),
        _many(rule, "destinationAddressPrefix", "destinationAddressPrefixes"),
        _many(rule, "destinationPortRange", "destinationPortRanges"),
        _many(rule, "sourcePortRange", "sourcePortRanges"),
    )


def rules_of(world: World, group: Record) -> list[Rule]:
    """Return all rules of a security group in the order in which Azure tries them."""
    inline = [as_rule(str(rule.get("name")), rule) for rule in group.doc.get("securityRules") or ()]
    separate = [as_rule(name_of(r.id), r.doc) for r in below(world, group.id, "SecurityRule")]
    return sorted((*inline, *separate, *DEFAULT_RULES), key=lambda rule: rule.priority)


def deciding_rule(
    rules: Iterable[Rule],
    *,
    inbound: bool,
    protocol: str,
    source: str,
    destination: str,
    port: int,
    network: Sequence[IPv4Network],
) -> Rule:
    """Return the rule that decides about a packet: the first that matches; the defaults match everything."""
    return next(
        rule
        for rule in rules
        if rule.inbound == inbound
        and rule.protocol in ("*", protocol)
        and any(_covers_port(text, port) for text in rule.ports)
        and any(_covers(text, source, network) for text in rule.sources)
        and any(_covers(text, destination, network) for text in rule.destinations)
    )


def _covers_port(text: str, port: int) -> bool:
    if text == "*":
        return True
    first, _, last = text.partition("-")
    return int(first) <= port <= int(last or first)


def _covers(text: str, address: str, network: Sequence[IPv4Network]) -> bool:
    if text in _ANY:
        return True
    tag = text.lower()
    if tag == "internet":
        return is_internet(address, network)
    if tag == "virtualnetwork":
        return any(ip_address(address) in space for space in network)
    if tag == "azureloadbalancer":
        return address == "168.63.129.16"
    try:
        return ip_address(address) in ip_network(text, strict=False)
    except ValueError:
        return False  # another service tag: none of its addresses are in the lab


def verify_rule(id: str, rule: Mapping[str, Any]) -> None:
    """Raise CloudError for what Azure refuses in one rule."""
    priority = rule["priority"]
    if not 100 <= int(priority) <= 4096:
        raise CloudError(
            "SecurityRuleInvalidPriority",
            f"Security rule {id} has invalid Priority. Value provided: {priority}. Allowed range 100-4096.",
        )
    if len(rule.get("description") or "") > _LONGEST_DESCRIPTION:
        raise CloudError(
            "SecurityRuleDescriptionTooLong", f"The description of security rule {id} has more than 140 characters."
        )
    for side in ("source", "destination"):
        _verify_ports(id, side, rule)
        _verify_prefixes(id, side, rule)


def _verify_ports(id: str, side: str, rule: Mapping[str, Any]) -> None:
    ports = _many(rule, f"{side}PortRange", f"{side}PortRanges")
    if not ports:
        raise CloudError("SecurityRulePortRangeNotSpecified", f"Security rule {id} must specify {side}PortRange.")
    for text in ports:
        first, _, last = text.partition("-")
        numbers = [first, last or first]
        good = all(n.isdigit() and int(n) <= 65535 for n in numbers) and int(numbers[0]) <= int(numbers[1])
        if text != "*" and not good:
            raise CloudError(
                "SecurityRuleInvalidPortRange",
                f"Security rule {id} has invalid Port range. Value provided: {text}. Value should be an integer OR "
                "integer range with '-' delimiter. Valid range 0-65535.",
            )


def _verify_prefixes(id: str, side: str, rule: Mapping[str, Any]) -> None:
    one, many = rule.get(f"{side}AddressPrefix"), list(rule.get(f"{side}AddressPrefixes") or ())
    groups = rule.get(f"{side}ApplicationSecurityGroups")
    title = side.capitalize()
    if sum((one not in (None, ""), bool(many), bool(groups))) != 1:
        raise CloudError(
            "SecurityRuleAddressPrefixNotSpecified",
            f"Security rule {id} must specify exactly one of {title}AddressPrefix, {title}AddressPrefixes and "
            f"{title}ApplicationSecurityGroups.",
        )
    ranges: list[Any] = []
    for text in many or ([one] if one else []):
        if many and (text.lower() in _NO_TAG_IN_LIST):
            raise CloudError(
                "SecurityRuleParameterContainsUnsupportedValue",
                f"Security rule parameter {title}AddressPrefixes for rule with Id {id} cannot specify existing "
                f"VIRTUALNETWORK, INTERNET, AZURELOADBALANCER, '*' or system tags. Unsupported value used: {text}.",
            )
        if text[:1].isalpha() or text == "*":
            continue
        try:
            network = ip_network(text)
        except ValueError:
            raise CloudError(
                "SecurityRuleInvalidAddressPrefix",
                f"Security rule {id} has invalid Address prefix. Value provided: {text}",
            ) from None
        if other := next((r for r in ranges if r.version == network.version and r.overlaps(network)), None):
            raise CloudError(
                "OverlappingSubnetsNotPermittedInSecurityRule",
                f"Security rule parameter {title}AddressPrefix for rule with Id {id} cannot specify overlapping "
                f"address prefixes. Overlapping values: {other}, {network}.",
            )
        ranges.append(network)


def verify_together(group: str, rules: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Raise CloudError when two rules of a group have one priority and direction, or there are too many."""
    if len(rules) > _MOST_RULES:
        raise CloudError(
            "MaxSecurityRulesCountReached", f"Network security group {group} has more than {_MOST_RULES} rules."
        )
    seen: dict[tuple[int, str], str] = {}
    for name, rule in rules:
        key = (int(rule["priority"]), str(rule["direction"]))
        if key in seen:
            raise CloudError(
                "SecurityRuleConflict",
                f"Security rule {name} conflicts with rule {seen[key]}. Rules cannot have the same Priority and "
                "Direction.",
            )
        seen[key] = name


class NetworkSecurityGroup(ArmKind):
    """A network security group. Rules may stand in it or be resources of their own, but not both."""

    token = "azure-native:network:NetworkSecurityGroup"
    arm_type = "Microsoft.Network/networkSecurityGroups"
    api_version = "2024-05-01"
    name_input = "networkSecurityGroupName"
    name_rule = names.NETWORK
    location_required = False
    # The provider replaces on every part of the path; Network's specification marks no other input.
    replace_on = frozenset({"resourceGroupName", "networkSecurityGroupName"})

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        inline = [(str(rule.get("name")), rule) for rule in inputs.get("securityRules") or ()]
        for name, rule in inline:
            names.NETWORK.verify("security rule", name)
            verify_rule(f"{id}/securityRules/{name}", rule)
        if inputs.get("securityRules") is not None:
            # A PUT with rules is the whole list: rules made as resources of their own are dropped by it.
            for record in below(call.world, id, "SecurityRule"):
                call.world.remove(record.package, record.kind, record.id)
        verify_together(id, inline)

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        return {
            "resourceGuid": old["resourceGuid"] if old else call.world.new_id("guid"),
            "etag": f'W/"{call.world.next("etag")}"',
            "defaultSecurityRules": [
                {
                    "name": rule.name,
                    "priority": rule.priority,
                    "direction": "Inbound" if rule.inbound else "Outbound",
                    "access": "Allow" if rule.allow else "Deny",
                    "protocol": rule.protocol,
                    "sourceAddressPrefix": rule.sources[0],
                    "destinationAddressPrefix": rule.destinations[0],
                    "sourcePortRange": "*",
                    "destinationPortRange": "*",
                }
                for rule in DEFAULT_RULES
            ],
        }

    def _before_delete(self, call: Call, record: Record) -> None:
        if users := referrers(call.world, record.id):
            raise CloudError(
                "InUseNetworkSecurityGroupCannotBeDeleted",
                f"Network security group {record.id} cannot be deleted because it is in use by the following "
                f"resources: {', '.join(users)}. In order to delete the Network security group, remove the "
                "association with the resource(s).",
            )

    def _remove(self, world: World, record: Record) -> None:
        for rule in below(world, record.id):
            world.remove(rule.package, rule.kind, rule.id)
        super()._remove(world, record)


class SecurityRule(ArmKind):
    """A rule of a network security group."""

    token = "azure-native:network:SecurityRule"
    arm_type = "Microsoft.Network/networkSecurityGroups/securityRules"
    api_version = "2024-05-01"
    name_input = "securityRuleName"
    parents = ("networkSecurityGroupName",)
    naming = "copy"
    name_rule = names.NETWORK
    located = False
    replace_on = frozenset({"resourceGroupName", "networkSecurityGroupName", "securityRuleName"})

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        verify_rule(id, inputs)
        group = id.rsplit("/securityRules/", 1)[0]
        others = [
            (name_of(r.id), r.doc) for r in below(call.world, group, "SecurityRule") if r.id.lower() != id.lower()
        ]
        parent = call.world.get("azure-native", "NetworkSecurityGroup", group) or {}
        inline = [(str(rule.get("name")), rule) for rule in parent.get("securityRules") or ()]
        verify_together(group, [*others, *inline, (name_of(id), inputs)])

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        return {"etag": f'W/"{call.world.next("etag")}"'}
