"""Whether a worker of a scaling group could join: a configuration whose traffic cannot get through is refused.

Alibaba Cloud itself would take it; its machines would only never become nodes. Sources besides those of
lab/reachability.py: alibabacloud.com "Overview of security groups" (basic groups: nothing in but from their own
members, everything out; enterprise groups: nothing out either), "Security group rules" (lower numbers first, and drop
before accept at one number), "Use the SNAT feature of a NAT gateway".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_address
from typing import NoReturn

from ..reachability import (
    APID,
    KILO,
    KUBELET,
    ON_THE_INTERNET,
    OVERLAYS,
    SERVICES,
    WIREGUARD,
    Needs,
    first_address,
    inside_sources,
    is_address,
    mesh_port,
    read_machine_config,
)
from ..world import CloudError, Record, World
from .bridge import Doc, find, lookup
from .instances import security_groups
from .vpc import vswitch_range


@dataclass(frozen=True)
class Rule:
    """A rule of a security group as the traffic meets it."""

    ingress: bool
    accept: bool
    protocol: str
    first: int
    last: int
    ranges: tuple[IPv4Network, ...]
    priority: int

    def covers(self, *, ingress: bool, protocol: str, other: str, port: int) -> bool:
        """Say whether the rule is about a packet from or to ``other``."""
        return (
            self.ingress == ingress
            and self.protocol in ("all", protocol)
            and self.first <= port <= self.last
            and any(ip_address(other) in network for network in self.ranges)
        )


@dataclass(frozen=True)
class Surroundings:
    """The network around the machines of a configuration."""

    groups: Sequence[str]
    rules: Sequence[Rule]
    opens_out: bool
    """Whether what no rule is about may go out."""
    public: bool
    network: Sequence[IPv4Network]
    """The ranges of the VPC."""

    @property
    def names(self) -> str:
        """The security groups, in words."""
        return f"security group{'s' if len(self.groups) > 1 else ''} {', '.join(self.groups)}"

    def open(self, *, ingress: bool, protocol: str, other: str, port: int) -> bool:
        """Say whether a packet from or to ``other`` gets through; machines of one group are not meant."""
        for rule in self.rules:
            if rule.covers(ingress=ingress, protocol=protocol, other=other, port=port):
                return rule.accept
        return not ingress and self.opens_out


def rules_of(world: World, groups: Sequence[str]) -> list[Rule]:
    """Return the rules of security groups in the order in which they decide."""
    found = [
        _as_rule(world, record.doc)
        for group in groups
        for record in find(world, "SecurityGroupRule", securityGroupId=group)
    ]
    return sorted(found, key=lambda rule: (rule.priority, rule.accept))


def _as_rule(world: World, doc: Doc) -> Rule:
    first, last = (int(part) for part in str(doc["portRange"]).split("/"))
    if first < 0:
        first, last = 0, 65535
    ranges = tuple(network for text in _ranges(world, doc) if (network := _network(text)))
    return Rule(
        ingress=doc["type"] == "ingress",
        accept=doc["policy"] == "accept",
        protocol=doc["ipProtocol"],
        first=first,
        last=last,
        ranges=ranges,
        priority=int(doc["priority"]),
    )


def _ranges(world: World, doc: Doc) -> Iterator[str]:
    """Yield the ranges that a rule is about; a rule about another group is about no address that is known here."""
    if doc.get("cidrIp"):
        yield str(doc["cidrIp"])
    elif not doc.get("sourceSecurityGroupId") and (found := lookup(world, "EcsPrefixList", doc.get("prefixListId"))):
        yield from (str(entry["cidr"]) for entry in found.doc["entries"])


def _network(text: str) -> IPv4Network | None:
    try:
        return IPv4Network(text)
    except ValueError:
        return None


def verify_reachable(world: World, configuration: Doc, group: Record, user_data: bytes | None) -> None:
    """Raise CloudError ``LabUnreachable`` when a Talos worker of this configuration could never join its cluster."""
    needs = read_machine_config(user_data)
    vpc = lookup(world, "Network", group.doc["_vpc"])
    if needs is None or vpc is None:
        return
    groups = security_groups(configuration)
    kinds = {found.doc["securityGroupType"] for id in groups if (found := lookup(world, "SecurityGroup", id))}
    around = Surroundings(
        groups,
        rules_of(world, groups),
        opens_out="normal" in kinds,
        public=int(configuration.get("internetMaxBandwidthOut") or 0) > 0,
        network=[IPv4Network(text) for text in (vpc.doc["cidrBlock"], *vpc.doc["secondaryCidrBlocks"])],
    )
    _verify_way_out(world, around, needs, group)
    _verify_apid_closed(around)
    if needs.mesh:
        _verify_mesh(world, around, needs)
    _verify_from_control_plane(world, around, needs)


def _unreachable(message: str) -> NoReturn:
    raise CloudError("LabUnreachable", f"The machines of this scaling group could never join the cluster: {message}")


def _verify_way_out(world: World, around: Surroundings, needs: Needs, group: Record) -> None:
    inside = is_address(needs.api_host) and any(ip_address(needs.api_host) in space for space in around.network)
    for id in group.doc.get("vswitchIds") or ():
        vswitch = lookup(world, "Switch", id)
        if vswitch is not None and not around.public and not inside and not _translated(world, vswitch):
            _unreachable(
                f"TCP from vSwitch {id} ({vswitch.doc['cidrBlock']}) to {needs.target} has no way out: the machines "
                "have no public IP addresses (internet_max_bandwidth_out is 0), and no NAT gateway of the VPC has an "
                "SNAT entry for the vSwitch. Add an SNAT entry for it and let the configuration depend on it, or give "
                "the machines public addresses."
            )
    host = needs.api_host if is_address(needs.api_host) else ON_THE_INTERNET
    if not around.open(ingress=False, protocol="tcp", other=host, port=needs.api_port):
        _unreachable(
            f"TCP to {needs.target} is not allowed out by {around.names}. Add an egress rule that accepts TCP port "
            f"{needs.api_port} to it."
        )


def _translated(world: World, vswitch: Record) -> bool:
    """Say whether a NAT gateway of the VPC lets a vSwitch out."""
    tables = {gateway.doc["snatTableIds"] for gateway in find(world, "NatGateway", vpcId=vswitch.doc["vpcId"])}
    return any(
        entry.doc["snatTableId"] in tables and vswitch_range(vswitch).subnet_of(IPv4Network(entry.doc["sourceCidr"]))
        for entry in find(world, "SnatEntry")
    )


def _verify_apid_closed(around: Surroundings) -> None:
    if around.open(ingress=True, protocol="tcp", other=ON_THE_INTERNET, port=APID):
        raise CloudError(
            "LabUnreachable",
            f"The Talos API must not be open to the world: {around.names} accepts TCP port {APID} from the Internet. "
            "Accept it from the control planes' node, pod and mesh ranges only.",
        )


def _verify_mesh(world: World, around: Surroundings, needs: Needs) -> None:
    if not around.public:
        # Behind NAT a machine must speak first and keep its mapping open; nothing from outside finds it otherwise.
        if not needs.keepalive:
            _unreachable(
                "they have no public IP addresses, so the mesh cannot reach them from outside, and their "
                f"configuration has no {KILO}persistent-keepalive annotation. Add the annotation (seconds, as text), "
                "or give them public addresses."
            )
        return
    port = mesh_port(world, needs)
    # Not known where Kilo runs on a port of its own and is not there yet: any that a rule names for UDP will do.
    ports = [port] if port else [WIREGUARD, *_named_ports(around)]
    if not any(_open_from_outside(around, each) for each in ports):
        wanted = port or WIREGUARD
        _unreachable(
            f"UDP port {wanted} of the mesh ({needs.mesh}) is not accepted from the other locations by "
            f"{around.names}. Add an ingress rule that accepts UDP port {wanted} from the peers' addresses, and let "
            "the configuration depend on it."
        )


def _named_ports(around: Surroundings) -> list[int]:
    named = {
        rule.first for rule in around.rules if rule.ingress and rule.accept and rule.protocol == "udp" and rule.first
    }
    return sorted(named.difference(OVERLAYS))


def _open_from_outside(around: Surroundings, port: int) -> bool:
    """Say whether any source outside the VPC may send UDP to a port."""
    ranges = {str(network) for rule in around.rules for network in rule.ranges}
    sources = {ON_THE_INTERNET, *filter(None, map(first_address, ranges))}
    outside = [s for s in sources if not any(ip_address(s) in space for space in around.network)]
    return any(around.open(ingress=True, protocol="udp", other=source, port=port) for source in outside)


def _verify_from_control_plane(world: World, around: Surroundings, needs: Needs) -> None:
    sources = inside_sources(world, needs)
    for port, service, use in SERVICES:
        for address, what in sources.items():
            if not around.open(ingress=True, protocol="tcp", other=address, port=port):
                _unreachable(
                    f"TCP port {port} of {service} is closed to {what} ({address}) by {around.names}, so {use}. Add "
                    f"an ingress rule that accepts TCP ports {APID} and {KUBELET} from the control planes' node, pod "
                    "and mesh ranges, and let the configuration depend on it."
                )
