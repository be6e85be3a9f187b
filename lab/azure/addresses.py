"""Address ranges: how Azure reads them, and which addresses it hands out.

Sources: learn.microsoft.com "Azure Virtual Network frequently asked questions" (virtual-network/
virtual-networks-faq: ranges that cannot be used, five reserved addresses a subnet, smallest subnet /29).
The lab's public addresses come from 198.18.0.0/15, which RFC 2544 sets aside for tests, so they are nobody's.
"""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, ip_address, ip_network
from typing import Any

from ..world import CloudError, World
from .records import PACKAGE

_FORBIDDEN = tuple(
    map(IPv4Network, ("224.0.0.0/4", "255.255.255.255/32", "127.0.0.0/8", "169.254.0.0/16", "168.63.129.16/32"))
)
_PRIVATE = tuple(
    map(
        IPv4Network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8"),
    )
)
_RESERVED_AT_START = 4
_LONGEST_SUBNET_PREFIX = 29


def parse_prefix(text: Any, owner: str) -> IPv4Network:
    """Return an IPv4 range in CIDR notation; raise CloudError as Azure does for anything else."""
    try:
        network = ip_network(str(text), strict=False)
    except ValueError:
        network = None
    if not isinstance(network, IPv4Network) or "/" not in str(text):
        raise CloudError(
            "InvalidAddressPrefixFormat",
            f"Address prefix {text} of resource {owner} is not formatted correctly. It should follow CIDR notation, "
            "for example 10.0.0.0/24.",
        )
    if str(network) != str(text):
        raise CloudError(
            "InvalidCIDRNotation",
            f"The address prefix {text} in resource {owner} has an invalid CIDR notation. For the given prefix "
            f"length, the address prefix should be {network}.",
        )
    return network


def network_ranges(prefixes: Iterable[Any], owner: str) -> list[IPv4Network]:
    """Return a virtual network's ranges; raise CloudError for one that Azure does not let a network have."""
    ranges: list[IPv4Network] = []
    for text in prefixes:
        network = parse_prefix(text, owner)
        if any(network.overlaps(forbidden) for forbidden in _FORBIDDEN):
            raise CloudError(
                "AddressPrefixNotAllowed", f"Address prefix {network} of resource {owner} is reserved by Azure."
            )
        if other := next((r for r in ranges if r.overlaps(network)), None):
            raise CloudError(
                "OverlappingAddressPrefixes", f"Address prefixes {other} and {network} of {owner} overlap."
            )
        ranges.append(network)
    return ranges


def subnet_fits(ranges: Sequence[IPv4Network], network: str, name: str, outer: Sequence[IPv4Network]) -> None:
    """Raise CloudError when a subnet is too small or outside its virtual network."""
    for inner in ranges:
        if inner.prefixlen > _LONGEST_SUBNET_PREFIX:
            raise CloudError(
                "NetcfgInvalidSubnet",
                f"Subnet '{name}' is not valid in virtual network '{network}': {inner} is "
                f"smaller than /{_LONGEST_SUBNET_PREFIX}.",
            )
        if not any(inner.subnet_of(space) for space in outer):
            raise CloudError(
                "NetcfgSubnetRangeOutsideVnet",
                f"Subnet '{name}' is not valid because its IP address range is outside the IP address range of "
                f"virtual network '{network}'.",
            )


def free_private(ranges: Sequence[IPv4Network], used: Iterable[str], count: int, subnet: str) -> list[str]:
    """Return ``count`` free addresses of a subnet, lowest first: its first four and its last are Azure's own."""
    taken = set(used)
    found: list[str] = []
    for network in ranges:
        for offset in range(_RESERVED_AT_START, network.num_addresses - 1):
            if len(found) == count:
                return found
            address = str(network[offset])
            if address not in taken:
                found.append(address)
    if len(found) < count:
        raise CloudError(
            "SubnetIsFull",
            f"Subnet {subnet} with address prefix {', '.join(map(str, ranges))} does not have enough capacity for "
            f"{count} IP addresses.",
        )
    return found


def new_public_address(world: World) -> str:
    """Return a public address that nothing else in the lab has."""
    return str(IPv4Address("198.18.0.0") + world.next(f"{PACKAGE}:public-address"))


def new_public_prefix(world: World, length: int) -> str:
    """Return a public range that nothing else in the lab has; ``length`` is 28 to 31."""
    block = 16 * (world.next(f"{PACKAGE}:public-prefix") - 1)
    return str(IPv4Network((int(IPv4Address("198.19.0.0")) + block, length)))


def is_internet(address: str, network: Iterable[IPv4Network]) -> bool:
    """Say whether Azure's tag ``Internet`` covers an address: a public one, outside the virtual network."""
    ip = ip_address(address)
    if not isinstance(ip, IPv4Address):
        return False
    return not any(ip in space for space in (*_PRIVATE, *network))
