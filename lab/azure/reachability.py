"""Whether a worker in a scale set could join: a plan whose traffic cannot get through is refused.

Azure itself would create such a set; its machines would only never become nodes. Sources besides those of
lab/reachability.py: learn.microsoft.com "Default outbound access in Azure" and "Public IP addresses" (a Standard
address is closed unless a network security group opens it).
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
from .egress import routes_of
from .network import network_of, spaces, subnet_prefixes
from .records import Doc, dig, lookup, name_of, reference_id
from .security import Rule, deciding_rule, rules_of


@dataclass(frozen=True)
class Path:
    """The network around one network interface of a scale set."""

    subnet: Record
    network: Sequence[IPv4Network]
    groups: Sequence[tuple[str, Sequence[Rule]]]
    """Security groups on the subnet and on the interface, each with its rules in order."""
    public: bool
    inside: str
    """An address of the subnet."""

    def closed_by(self, *, inbound: bool, protocol: str, other: str, port: int) -> str | None:
        """Return what stops a packet from or to ``other``, or None when it gets through."""
        source, destination = (other, self.inside) if inbound else (self.inside, other)
        for group, rules in self.groups:
            rule = deciding_rule(
                rules,
                inbound=inbound,
                protocol=protocol,
                source=source,
                destination=destination,
                port=port,
                network=self.network,
            )
            if not rule.allow:
                return f"rule {rule.name} of network security group {group}"
        return None


def _paths(world: World, inputs: Doc) -> Iterator[Path]:
    for nic in dig(inputs, "virtualMachineProfile.networkProfile.networkInterfaceConfigurations") or ():
        for config in nic.get("ipConfigurations") or ():
            subnet = lookup(world, "Subnet", reference_id(config.get("subnet")))
            if subnet is None:
                continue
            ids = (reference_id(subnet.doc.get("networkSecurityGroup")), reference_id(nic.get("networkSecurityGroup")))
            groups = [record for id in ids if (record := lookup(world, "NetworkSecurityGroup", id))]
            yield Path(
                subnet,
                spaces(network_of(world, subnet.id)),
                [(name_of(group.id), rules_of(world, group)) for group in groups],
                config.get("publicIPAddressConfiguration") is not None,
                str(subnet_prefixes(subnet.doc, subnet.id)[0][4]),
            )


def verify_reachable(world: World, inputs: Doc, custom_data: bytes | None) -> None:
    """Raise CloudError ``LabUnreachable`` when a Talos worker of this scale set could never join its cluster."""
    needs = read_machine_config(custom_data)
    if needs is None:
        return
    for path in _paths(world, inputs):
        _verify_way_out(world, path, needs)
        _verify_apid_closed(path)
        if needs.mesh:
            _verify_mesh(world, path, needs)
        _verify_from_control_plane(world, path, needs)


def _unreachable(message: str) -> NoReturn:
    raise CloudError("LabUnreachable", f"The machines of this scale set could never join the cluster: {message}")


def _verify_way_out(world: World, path: Path, needs: Needs) -> None:
    subnet = name_of(path.subnet.id)
    target = needs.target
    table = lookup(world, "RouteTable", reference_id(path.subnet.doc.get("routeTable")))
    for route in routes_of(world, table) if table else ():
        if route.get("addressPrefix") == "0.0.0.0/0" and route.get("nextHopType") == "None":
            _unreachable(f"{target} is out of reach, as a route of subnet {subnet} drops all outbound traffic.")
    gateway = lookup(world, "NatGateway", reference_id(path.subnet.doc.get("natGateway")))
    translated = gateway is not None and bool(
        gateway.doc.get("publicIpAddresses") or gateway.doc.get("publicIpPrefixes")
    )
    if not path.public and not translated and path.subnet.doc.get("defaultOutboundAccess") is False:
        _unreachable(
            f"TCP from subnet {subnet} to {target} has no way out: the machines have no public IP addresses, the "
            "subnet "
            "has no NAT gateway with a public address, and defaultOutboundAccess is false. Give the subnet a NAT "
            "gateway, "
            "or the machines public addresses."
        )
    host = needs.api_host if is_address(needs.api_host) else ON_THE_INTERNET
    if blocker := path.closed_by(inbound=False, protocol="Tcp", other=host, port=needs.api_port):
        _unreachable(
            f"TCP from subnet {subnet} to {target} is denied by {blocker}. Add an outbound rule that allows TCP port "
            f"{needs.api_port} to it."
        )


def _verify_apid_closed(path: Path) -> None:
    if path.groups and path.closed_by(inbound=True, protocol="Tcp", other=ON_THE_INTERNET, port=APID) is None:
        raise CloudError(
            "LabUnreachable",
            "The Talos API must not be open to the world: the network security group of subnet "
            f"{name_of(path.subnet.id)} "
            f"allows TCP port {APID} from the Internet. Allow it from the control planes' node, pod and mesh ranges "
            "only.",
        )


def _verify_mesh(world: World, path: Path, needs: Needs) -> None:
    subnet = name_of(path.subnet.id)
    if not path.public:
        # Behind NAT a machine must speak first and keep its mapping open; nothing from outside finds it otherwise.
        if not needs.keepalive:
            _unreachable(
                f"the machines in subnet {subnet} have no public IP addresses, so the mesh cannot reach them from "
                "outside, "
                f"and their configuration has no {KILO}persistent-keepalive annotation. Add the annotation (seconds, "
                "as "
                "text), or give them public addresses."
            )
        return
    port = mesh_port(world, needs)
    ports = [port] if port else _udp_ports(path)
    if not any(_open_from_outside(path, each) for each in ports):
        wanted = port or WIREGUARD
        groups = ", ".join(group for group, _ in path.groups) or "none at all"
        _unreachable(
            f"UDP port {wanted} of the mesh ({needs.mesh}) is not allowed inbound from the other locations to subnet "
            f"{subnet} (network security groups: {groups}). Add an inbound rule that allows UDP port {wanted} from the "
            "peers' addresses, and let the scale set depend on it."
        )


def _udp_ports(path: Path) -> list[int]:
    """Return the ports that could be the mesh's when its port is not known: the default, and those rules name."""
    named = {
        int(text.split("-")[0])
        for _, rules in path.groups
        for rule in rules
        if rule.inbound and rule.allow and rule.protocol in ("Udp", "*")
        for text in rule.ports
        if text != "*"
    }
    return [WIREGUARD, *sorted(named.difference(OVERLAYS))]


def _open_from_outside(path: Path, port: int) -> bool:
    """Say whether any source outside the virtual network may send UDP to a port; without a group none may."""
    sources = {ON_THE_INTERNET}
    for _, rules in path.groups:
        for rule in rules:
            sources |= {first for text in rule.sources if (first := first_address(text))}
    outside = [s for s in sources if not any(ip_address(s) in space for space in path.network)]
    return bool(path.groups) and any(
        path.closed_by(inbound=True, protocol="Udp", other=source, port=port) is None for source in outside
    )


def _verify_from_control_plane(world: World, path: Path, needs: Needs) -> None:
    sources = inside_sources(world, needs)
    if not path.groups:
        return
    subnet = name_of(path.subnet.id)
    for port, service, use in SERVICES:
        for address, what in sources.items():
            if blocker := path.closed_by(inbound=True, protocol="Tcp", other=address, port=port):
                _unreachable(
                    f"TCP port {port} of {service} in subnet {subnet} is closed to {what} ({address}) by {blocker}, so "
                    f"{use}. Add an inbound rule that allows TCP ports {APID} and {KUBELET} from the control planes' "
                    "node, "
                    "pod and mesh ranges, and let the scale set depend on it."
                )
