"""The settings of machines that exist: disks, network links, labels and taints."""

from typing import Annotated, Any

from hybrid_talos.install_disk import DiskType, disk_size
from hybrid_talos.machine_links import BondMode, hardware_address, interface_address
from pydantic import AfterValidator, Field

from .settings_base import Address, HostName, Network, Patch, Section, form
from .settings_labels import Labels, Taint

LinkName = Annotated[str, form(r"[A-Za-z0-9._-]{1,15}", "be the name of a link, such as enp1s0")]
"""The name of a network link."""

_Pattern = Annotated[str, form(r"\S(.*\S)?", "be text, in which * stands for anything")]


class DiskSelector(Section):
    """What a disk is like; all that is given must fit."""

    size: Annotated[str, AfterValidator(disk_size)] | None = None
    """Size, or a comparison with one, such as ">= 100GB"."""
    type: DiskType | None = None
    """ssd, hdd, nvme or sd."""
    model: _Pattern | None = None
    """Model; * stands for anything."""
    serial: _Pattern | None = None
    """Serial number; * stands for anything."""
    wwid: _Pattern | None = None
    """World-wide id; * stands for anything."""
    uuid: _Pattern | None = None
    """UUID; * stands for anything."""
    modalias: _Pattern | None = None
    """Alias of its kernel module; * stands for anything."""
    bus_path: _Pattern | None = None
    """Place on the bus, such as /pci0000:00/*; * stands for anything."""


class Bond(Section):
    """Links that act as one."""

    links: tuple[LinkName, ...] = Field(min_length=1)
    """Names of the links."""
    mode: BondMode
    """802.3ad where the switch speaks LACP, else active-backup, or another mode of the kernel."""
    miimon: int = Field(default=100, ge=1, le=10000)
    """Milliseconds between looks at the links."""
    up_delay: int = Field(default=200, ge=0, le=600000)
    """Milliseconds before a link that came back is used; a multiple of miimon."""
    down_delay: int = Field(default=200, ge=0, le=600000)
    """Milliseconds before a link that went is left; a multiple of miimon."""
    lacp_fast: bool = False
    """For 802.3ad: a packet each second rather than every 30."""
    hash_policy: Annotated[str, form(r"layer2|layer2\+3|layer3\+4", "be layer2, layer2+3 or layer3+4")] | None = None
    """For 802.3ad and balance-xor: what traffic is spread by."""


class Vlan(Section):
    """A VLAN on another link."""

    parent: LinkName
    """Name of the link that carries it."""
    id: int = Field(ge=1, le=4094)
    """Number of the VLAN."""


class Route(Section):
    """A route through a link."""

    gateway: Address | None = None
    """Address of the router; left out, the destination is on the link itself."""
    destination: Network | None = None
    """Range that the route leads to; left out, everything."""
    metric: int | None = Field(default=None, ge=1, le=4294967295)
    """Rank of the route; the lowest is taken."""


class Link(Section):
    """A network link. Once a machine has one here, only the links that stand here get addresses."""

    name: LinkName
    """Name of the link: its own, or one of your own for a bond, a VLAN or together with macAddress."""
    mac_address: Annotated[str, AfterValidator(hardware_address)] | None = None
    """Permanent hardware address of the link that gets this name."""
    dhcp: bool = False
    """Whether the link takes an address by DHCP."""
    addresses: tuple[Annotated[str, AfterValidator(interface_address)], ...] = ()
    """Static IPv4 addresses with their prefix length, such as 192.0.2.11/24."""
    routes: tuple[Route, ...] = ()
    """Static routes through the link."""
    mtu: int | None = Field(default=None, ge=576, le=65535)
    """Bytes of the largest packet."""
    bond: Bond | None = None
    """Makes the link a bond of others."""
    vlan: Vlan | None = None
    """Makes the link a VLAN on another."""


class Machine(Section):
    """A machine that exists and waits for its configuration."""

    name: HostName
    """Host name, which is also the node's name."""
    address: Address
    """IPv4 address of the machine in its location."""
    public_address: Address | None = None
    """IPv4 address at which operators and this program reach the machine, where it is not `address`."""
    install_disk: Annotated[str, form(r"/dev/\S+", "be the path of a disk, such as /dev/sda")] | None = None
    """Path of the disk that Talos is installed on; everything on it is lost. Left out, /dev/sda."""
    install_disk_selector: DiskSelector | None = None
    """What that disk is like, in place of its path, which can change with the next boot."""
    links: tuple[Link, ...] = ()
    """Network links; left out, every physical link takes an address by DHCP."""
    labels: Labels = {}
    """Labels of the node."""
    annotations: dict[str, str] = {}
    """Annotations of the node."""
    taints: tuple[Taint, ...] = ()
    """Taints that the node registers with."""
    config_patches: tuple[Patch, ...] = ()
    """Talos patches for this machine alone; its other keys win over them."""


def link_args(link: Link) -> dict[str, Any]:
    """Return a link as the components take it."""
    return link.model_dump(mode="json", exclude_none=True, exclude_defaults=True) | {"name": link.name}


def disk_args(selector: DiskSelector) -> dict[str, Any]:
    """Return a disk selector as the components take it."""
    return selector.model_dump(mode="json", exclude_none=True)
