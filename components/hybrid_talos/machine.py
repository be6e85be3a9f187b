"""Machines that exist: what control plane and static workers take for each, and the rules all of them keep."""

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Any, NotRequired, TypedDict

import pulumi
from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from ._contract import Shape
from .address_plan import parse_network
from .install_disk import DiskSelectorArgs, DiskSelectorShape, disk_path
from .machine_links import LinkArgs, LinkShape, link_problems
from .node_template import Taint, TaintArgs, TaintShape, checked_taints


class MachineArgs(TypedDict):
    """A machine that exists, booted from a Talos image and waiting for its configuration."""

    name: str
    """Host name and node name: lower-case letters, digits and `-`, at most 63. A machine under another name counts
    as another machine: the old one is reset. So never rename; remove the machine, then add it."""
    address: str
    """IPv4 address of the machine in its location's network; its node is known by it."""
    public_address: NotRequired[str]
    """IPv4 address at which operators and this program reach the machine, where it is not `address`."""
    install_disk: NotRequired[str]
    """Path of the disk that Talos is installed on; everything on it is lost. Default `/dev/sda`."""
    install_disk_selector: NotRequired[DiskSelectorArgs]
    """What that disk is like, in place of its path, which can change with the next boot."""
    links: NotRequired[Sequence[LinkArgs]]
    """Network links: addresses, bonds, VLANs. Left out, every physical link takes an address by DHCP. Needs a config
    contract of 1.12 or later."""
    labels: NotRequired[Mapping[str, str]]
    """Labels of the node."""
    annotations: NotRequired[Mapping[str, str]]
    """Annotations of the node."""
    taints: NotRequired[Sequence[TaintArgs]]
    """Taints of the node. A worker registers with them; on a node that is there already they change nothing."""
    config_patches: NotRequired[Sequence[pulumi.Input[str]]]
    """Further Talos patches (YAML, strategic merge) for this machine alone. What the other inputs say wins over them.
    Treated as secrets."""


def _name(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", value):
        raise ValueError(
            "must be lower-case letters, digits and -, with a letter or digit at both ends, at most 63 (RFC 1123)"
        )
    return value


def _address(value: str) -> str:
    try:
        return str(IPv4Address(value))
    except ValueError:
        raise ValueError("must be an IPv4 address, such as 192.0.2.11") from None


def _network(value: Any) -> Any:
    return parse_network(value) if isinstance(value, str) else value


Name = Annotated[str, AfterValidator(_name)]
"""A name that can be a host name."""
Address = Annotated[str, AfterValidator(_address)]
"""An IPv4 address as text."""
Network = Annotated[IPv4Network, BeforeValidator(_network)]
"""An IPv4 range without host bits."""
Patches = tuple[Any, ...]
"""Patches: inputs, so not looked at."""


class MachineShape(Shape):
    """The checked form of MachineArgs."""

    name: Name
    address: Address
    public_address: Address | None = None
    install_disk: Annotated[str, AfterValidator(disk_path)] | None = None
    install_disk_selector: DiskSelectorShape | None = None
    links: tuple[LinkShape, ...] = ()
    labels: Mapping[str, str] = Field(default_factory=dict)
    annotations: Mapping[str, str] = Field(default_factory=dict)
    taints: tuple[TaintShape, ...] = ()
    config_patches: Patches = ()

    @field_validator("taints")
    @classmethod
    def _taints_that_a_node_can_have(cls, taints: tuple[TaintShape, ...]) -> tuple[TaintShape, ...]:
        checked_taints(taints)
        return taints

    @model_validator(mode="after")
    def _one_disk(self) -> "MachineShape":
        if self.install_disk is not None and self.install_disk_selector is not None:
            raise ValueError("install_disk and install_disk_selector exclude each other: give one")
        return self

    @property
    def checked_taints(self) -> tuple[Taint, ...]:
        """Return the taints in their one order."""
        return checked_taints(self.taints)

    @property
    def reached_at(self) -> str:
        """Return the address at which this program talks to the machine's Talos API."""
        return self.public_address or self.address

    @property
    def addresses(self) -> tuple[str, ...]:
        """Return all addresses of the machine."""
        return (self.address,) if self.public_address in (None, self.address) else (self.address, self.reached_at)


def machine_problems(
    machines: Sequence[MachineShape],
    node_subnets: Sequence[IPv4Network] = (),
    taken: Iterable[tuple[str, IPv4Network]] = (),
) -> list[str]:
    """Return what is wrong with machines taken together: names and addresses that stand twice or lie outside.

    A machine outside ``node_subnets`` would find no address for its kubelet and never join; one inside a range of
    ``taken`` (pods, services; each with the name of its owner) loses that address.
    """
    problems: list[str] = []
    owners: dict[str, str] = {}
    names: set[str] = set()
    for machine in machines:
        if machine.name in names:
            problems.append(f"{machine.name} stands twice")
        names.add(machine.name)
        for address in machine.addresses:
            if address in owners:
                problems.append(f"{machine.name} and {owners[address]} have the same address {address}")
            owners.setdefault(address, machine.name)
        problems += [f"{machine.name}: {problem}" for problem in link_problems(machine.links, machine.address)]
    ranges = list(taken)
    for machine in machines:
        own = IPv4Address(machine.address)
        if node_subnets and not any(own in subnet for subnet in node_subnets):
            listed = ", ".join(map(str, node_subnets))
            problems.append(
                f"{machine.name} has the address {own}, which is in none of node_subnets ({listed}), so its "
                "kubelet would find no address"
            )
        problems += [
            f"{machine.name} has the address {own}, which is in the range of the {owner} ({network})"
            for owner, network in ranges
            if own in network
        ]
    return problems
