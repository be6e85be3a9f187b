"""Network links of a machine that exists: static or DHCP addresses, routes, bonds and VLANs.

Documents of Talos 1.12 and later (siderolabs/talos `pkg/machinery/config/types/network/`); `machine.network` is
deprecated since.
"""

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Annotated, Any, NotRequired, TypedDict

from pydantic import AfterValidator, Field, model_validator

from ._contract import Shape
from .talos_yaml import Document


class BondMode(StrEnum):
    """How a bond spreads traffic over its links."""

    BALANCE_RR = "balance-rr"
    """One packet after the other."""
    ACTIVE_BACKUP = "active-backup"
    """One link at a time; needs nothing of the switch."""
    BALANCE_XOR = "balance-xor"
    """By hash; the switch must know."""
    BROADCAST = "broadcast"
    """Everything on every link."""
    LACP = "802.3ad"
    """LACP; the switch must speak it."""
    BALANCE_TLB = "balance-tlb"
    """Sends by load; needs nothing of the switch."""
    BALANCE_ALB = "balance-alb"
    """Sends and receives by load; needs nothing of the switch."""


class BondArgs(TypedDict):
    """Links that act as one."""

    links: Sequence[str]
    """Names of the links, physical ones or aliases of this machine's `links`."""
    mode: BondMode
    """How traffic is spread: `802.3ad` where the switch speaks LACP, else `active-backup`."""
    miimon: NotRequired[int]
    """Milliseconds between looks at the links. Default 100."""
    up_delay: NotRequired[int]
    """Milliseconds before a link that came back is used. Default 200."""
    down_delay: NotRequired[int]
    """Milliseconds before a link that went is left. Default 200."""
    lacp_fast: NotRequired[bool]
    """For 802.3ad: ask the switch for a packet each second rather than every 30. Default false."""
    hash_policy: NotRequired[str]
    """For 802.3ad and balance-xor: `layer2`, `layer2+3` or `layer3+4`. Default layer2, the kernel's."""


class VlanArgs(TypedDict):
    """A VLAN on another link."""

    parent: str
    """Name of the link that carries it."""
    id: int
    """Number of the VLAN, 1 to 4094."""


class RouteArgs(TypedDict):
    """A route through a link."""

    gateway: NotRequired[str]
    """IPv4 address of the router. Left out, the destination is on the link itself."""
    destination: NotRequired[str]
    """Range that the route leads to. Left out, everything: the default route."""
    metric: NotRequired[int]
    """Rank of the route; the lowest is taken. Default: the system's."""


class LinkArgs(TypedDict):
    """A network link of a machine. Once a machine has one here, only the links that stand here get addresses."""

    name: str
    """Name of the link: its own, such as `enp1s0`, one of your own for a bond or VLAN, or, with `mac_address`, one of
    your own that is no system's name."""
    mac_address: NotRequired[str]
    """Permanent hardware address of the link that gets this name; for machines whose links have names of chance."""
    dhcp: NotRequired[bool]
    """Whether the link takes an IPv4 address by DHCP. Default false."""
    addresses: NotRequired[Sequence[str]]
    """Static IPv4 addresses with their prefix length, such as `192.0.2.11/24`."""
    routes: NotRequired[Sequence[RouteArgs]]
    """Static routes through the link."""
    mtu: NotRequired[int]
    """Bytes of the largest packet. Default: the system's, usually 1500."""
    bond: NotRequired[BondArgs]
    """Makes the link a bond of others."""
    vlan: NotRequired[VlanArgs]
    """Makes the link a VLAN on another."""


def link_name(value: str) -> str:
    """Return the name of a link; ValueError when the kernel would take it for none."""
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,15}", value) or value in (".", ".."):
        raise ValueError("must be the name of a link, such as enp1s0: at most 15 letters, digits, ., _ or -")
    return value


def hardware_address(value: str) -> str:
    """Return a hardware address in the form that Talos prints; ValueError when it is none."""
    if not re.fullmatch(r"[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}", value):
        raise ValueError("must be a hardware address, such as 02:00:5e:10:00:01")
    return value.lower().replace("-", ":")


def interface_address(value: str) -> str:
    """Return an address with its prefix length; ValueError when it is none."""
    try:
        found = IPv4Interface(value)
    except ValueError:
        found = None
    if found is None or "/" not in value:
        raise ValueError("must be an IPv4 address with its prefix length, such as 192.0.2.11/24")
    return str(found)


def _address(value: str) -> str:
    try:
        return str(IPv4Address(value))
    except ValueError:
        raise ValueError("must be an IPv4 address, such as 192.0.2.1") from None


def _network(value: str) -> str:
    try:
        return str(IPv4Network(value))
    except ValueError:
        raise ValueError("must be an IPv4 range without host bits, such as 198.51.100.0/24") from None


LinkName = Annotated[str, AfterValidator(link_name)]
"""The name of a link."""


class BondShape(Shape):
    """The checked form of BondArgs."""

    links: tuple[LinkName, ...] = Field(min_length=1)
    mode: BondMode
    miimon: int = Field(default=100, ge=1, le=10000)
    up_delay: int = Field(default=200, ge=0, le=600000)
    down_delay: int = Field(default=200, ge=0, le=600000)
    lacp_fast: bool = False
    hash_policy: Annotated[str, Field(pattern=r"^(layer2|layer2\+3|layer3\+4)$")] | None = None

    @model_validator(mode="after")
    def _fits_mode(self) -> "BondShape":
        if self.lacp_fast and self.mode is not BondMode.LACP:
            raise ValueError("lacp_fast: only for mode 802.3ad")
        if self.hash_policy is not None and self.mode not in (BondMode.LACP, BondMode.BALANCE_XOR):
            raise ValueError("hash_policy: only for modes 802.3ad and balance-xor")
        # The kernel rounds delays down to whole multiples (kernel.org "Linux Ethernet Bonding Driver HOWTO").
        if self.up_delay % self.miimon or self.down_delay % self.miimon:
            raise ValueError("up_delay and down_delay must be whole multiples of miimon")
        return self


class VlanShape(Shape):
    """The checked form of VlanArgs."""

    parent: LinkName
    id: int = Field(ge=1, le=4094)


class RouteShape(Shape):
    """The checked form of RouteArgs."""

    gateway: Annotated[str, AfterValidator(_address)] | None = None
    destination: Annotated[str, AfterValidator(_network)] | None = None
    metric: int | None = Field(default=None, ge=1, le=4294967295)

    @model_validator(mode="after")
    def _leads_somewhere(self) -> "RouteShape":
        if self.gateway is None and self.destination is None:
            raise ValueError("needs a gateway, a destination or both")
        return self

    def document(self) -> dict[str, Any]:
        """Return the route as Talos takes it; the default route has no destination."""
        found = self.model_dump(exclude_none=True)
        if found.get("destination") == "0.0.0.0/0":
            del found["destination"]
        return found


class LinkShape(Shape):
    """The checked form of LinkArgs."""

    name: LinkName
    mac_address: Annotated[str, AfterValidator(hardware_address)] | None = None
    dhcp: bool = False
    addresses: tuple[Annotated[str, AfterValidator(interface_address)], ...] = ()
    routes: tuple[RouteShape, ...] = ()
    mtu: int | None = Field(default=None, ge=576, le=65535)
    bond: BondShape | None = None
    vlan: VlanShape | None = None

    @model_validator(mode="after")
    def _is_one_thing(self) -> "LinkShape":
        given = [key for key in ("mac_address", "bond", "vlan") if getattr(self, key) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} exclude each other")
        return self

    @property
    def has_address(self) -> bool:
        """Return whether the link gets an address."""
        return self.dhcp or bool(self.addresses)

    def carries(self, address: str) -> bool:
        """Return whether an address is one of the link's static ones."""
        return any(entry.partition("/")[0] == address for entry in self.addresses)

    def documents(self) -> Iterator[Document]:
        """Yield the documents that make the link what it is."""
        if self.mac_address is not None:
            # A bond or VLAN on top has the same current address; the permanent one is of the card alone.
            match = f'mac(link.permanent_addr) == "{self.mac_address}"'
            yield _document("LinkAliasConfig", name=self.name, selector={"match": match})
        common: dict[str, Any] = {"name": self.name}
        if self.addresses:
            common["addresses"] = [{"address": address} for address in self.addresses]
        if self.routes:
            common["routes"] = [route.document() for route in self.routes]
        if self.mtu is not None:
            common["mtu"] = self.mtu
        if self.bond is not None:
            yield _document("BondConfig", **common, **_bond(self.bond))
        elif self.vlan is not None:
            yield _document("VLANConfig", **common, parent=self.vlan.parent, vlanID=self.vlan.id)
        else:
            yield _document("LinkConfig", **common, up=True)
        if self.dhcp:
            yield _document("DHCPv4Config", name=self.name)


def _document(kind: str, **values: Any) -> Document:
    return {"apiVersion": "v1alpha1", "kind": kind, **values}


def _bond(bond: BondShape) -> dict[str, Any]:
    found: dict[str, Any] = {
        "links": list(bond.links),
        "bondMode": str(bond.mode),
        "miimon": bond.miimon,
        "updelay": bond.up_delay,
        "downdelay": bond.down_delay,
    }
    if bond.hash_policy is not None:
        found["xmitHashPolicy"] = bond.hash_policy
    if bond.mode is BondMode.LACP:
        found["lacpRate"] = "fast" if bond.lacp_fast else "slow"
    return found


def link_problems(links: Sequence[LinkShape], address: str) -> list[str]:
    """Return what is wrong with the links of one machine, whose node has ``address``."""
    if not links:
        return []
    names = [link.name for link in links]
    problems = [f"links: {name} stands twice" for name in sorted({name for name in names if names.count(name) > 1})]
    known = {link.name: link for link in links}
    enslaved: dict[str, str] = {}
    for link in links:
        for member in link.bond.links if link.bond is not None else ():
            if member in enslaved:
                problems.append(f"links: {member} is in the bonds {enslaved[member]} and {link.name}")
            enslaved[member] = link.name
            if member == link.name or (member in known and (known[member].bond or known[member].vlan)):
                problems.append(f"links: the bond {link.name} holds {member}, which is no physical link")
            elif member in known and known[member].has_address:
                problems.append(f"links: {member} has an address and is in the bond {link.name}: give it to the bond")
        if link.vlan is not None and link.vlan.parent == link.name:
            problems.append(f"links: the VLAN {link.name} is its own parent")
    # One document about a link ends DHCP on all that have none (siderolabs/talos `pkg/machinery/config/container/`,
    # RunDefaultDHCPOperators).
    if not any(link.dhcp or link.carries(address) for link in links):
        problems.append(
            f"links: none has the address {address} or takes one by DHCP, so the machine would not be reached any "
            "more: once one link stands here, the others get no address"
        )
    return problems


def link_documents(links: Sequence[LinkShape]) -> list[Document]:
    """Return the documents of all links of a machine, by name, so that another order plans nothing."""
    return [document for link in sorted(links, key=lambda link: link.name) for document in link.documents()]


def carrier(links: Sequence[LinkShape], address: str) -> str | None:
    """Return the link that has ``address``: statically, or as the only one with DHCP; None when that is not known."""
    static = [link.name for link in links if link.carries(address)]
    dynamic = [link.name for link in links if link.dhcp]
    return static[0] if static else dynamic[0] if len(dynamic) == 1 else None
