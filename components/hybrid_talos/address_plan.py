"""Address ranges of a cluster that spans places: which claims collide, and how much room a range has.

Pure functions. Only IPv4: the clouds' scale sets and the mesh are given IPv4 ranges alone.
"""

from collections.abc import Collection, Iterable, Sequence
from ipaddress import AddressValueError, IPv4Network, NetmaskValueError
from itertools import combinations
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator

NODE_PREFIX = 24
"""Prefix length of the pod range of one node: kube-controller-manager's `--node-cidr-mask-size` for IPv4."""

AZURE_RESERVED = 5
"""Addresses of each subnet that Azure keeps: the first four and the last.

Source: learn.microsoft.com, Azure Virtual Network FAQ.
"""

ALIYUN_RESERVED = 4
"""Addresses of each vSwitch that Alibaba Cloud keeps: the first and the last three.

Source: alibabacloud.com, VPC documentation, "Create and manage a vSwitch".
"""

_EVERYWHERE = (
    ("this network", "0.0.0.0/8"),
    ("loopback", "127.0.0.0/8"),
    ("link-local addresses and the clouds' metadata services", "169.254.0.0/16"),
    ("multicast", "224.0.0.0/4"),
    ("reserved addresses", "240.0.0.0/4"),
)
_OF_CLOUD = {
    # Name servers, DHCP and health probes: learn.microsoft.com, "What is IP address 168.63.129.16?"
    "azure": (("the Azure platform's own address", "168.63.129.16/32"),),
    # Metadata 100.100.100.200, name servers 100.100.2.136 and .138: Alibaba Cloud's VPC documentation.
    "aliyun": (("Alibaba Cloud's own services", "100.64.0.0/10"),),
}


class Claim(NamedTuple):
    """A range and who wants it."""

    owner: str
    """Who wants the range, in words that stand in a message: `pods`, `location rack`."""
    network: IPv4Network
    """The range."""
    within: str | None = None
    """Owner of the range that this one is a part of, such as the network of a subnet; None for a range of its own."""
    setting: str = ""
    """Where the range was written down, for messages that point there; may be empty."""
    fixed: bool = False
    """True for ranges that nobody can move, such as loopback: two of these never conflict."""


class Conflict(NamedTuple):
    """Two claims that cannot both hold. ``second`` is the one to move when ``first`` is fixed."""

    first: Claim
    second: Claim

    def __str__(self) -> str:
        """Say which ranges of which owners are in each other's way."""
        where = f", {self.first.setting}" if self.first.setting else ""
        return (
            f"{self.second.network} ({self.second.owner}) overlaps {self.first.network} ({self.first.owner}{where}); "
            "choose ranges that do not touch"
        )


def parse_network(text: str) -> IPv4Network:
    """Return the range that ``text`` names; ValueError when it is none or has host bits set.

    A range with host bits is refused rather than trimmed, and the message says which range was probably meant.
    """
    if not text.rpartition("/")[2].isdecimal():
        raise ValueError("must be an IPv4 range with a prefix length, such as 10.2.0.0/16")
    try:
        return IPv4Network(text)
    except (AddressValueError, NetmaskValueError):
        raise ValueError("must be an IPv4 range such as 10.2.0.0/16") from None
    except ValueError:
        meant = IPv4Network(text, strict=False)
        raise ValueError(
            f"{text} is the address of a machine inside a range: write {meant} if that range is meant"
        ) from None


def _range(value: Any) -> IPv4Network:
    if not isinstance(value, str):
        raise ValueError("must be an IPv4 range such as 10.2.0.0/16")  # noqa: TRY004 - a problem, not a fault
    return parse_network(value)


PlainRange = Annotated[IPv4Network, BeforeValidator(_range)]
"""A range among a component's plain inputs, written as text."""


def reserved(clouds: Collection[str] = ()) -> list[Claim]:
    """Return the ranges that nothing of ours may use, given the clouds (`azure`, `aliyun`) that take part."""
    named = [*_EVERYWHERE, *(pair for cloud in sorted(clouds) for pair in _OF_CLOUD[cloud])]
    return [Claim(owner, IPv4Network(cidr), fixed=True) for owner, cidr in named]


def conflicts(claims: Sequence[Claim]) -> list[Conflict]:
    """Return every pair of claims that overlap, in the order of the claims.

    A claim with ``within`` is judged among its siblings alone: its parent's range stands for it everywhere
    else, and whether it really lies inside is `outside`'s question.
    """
    return [
        Conflict(first, second)
        for first, second in combinations(claims, 2)
        if not (first.fixed and second.fixed)
        and first.within == second.within
        and first.network.overlaps(second.network)
    ]


def outside(claims: Sequence[Claim]) -> list[tuple[Claim, Claim]]:
    """Return each claim that is not inside the range it says to be within, with that range."""
    owners = {claim.owner: claim for claim in claims}
    return [
        (claim, owners[claim.within])
        for claim in claims
        if claim.within in owners and not claim.network.subnet_of(owners[claim.within].network)
    ]


def check_ranges(ranges: Iterable[tuple[str, str]], clouds: Collection[str] = ()) -> list[str]:
    """Return a message for each pair of the named ranges that overlap, and for each that is no usable range.

    ``ranges`` are pairs of an owner and a CIDR; several pairs may name one owner. Ranges that the clouds
    (`azure`, `aliyun`) or the Internet protocols keep for themselves count too.
    """
    problems: list[str] = []
    claims = reserved(clouds)
    for owner, cidr in ranges:
        try:
            claims.append(Claim(owner, parse_network(cidr)))
        except ValueError as error:
            problems.append(f"{owner}: {error}")
    return problems + [str(conflict) for conflict in conflicts(claims)]


def room(networks: Iterable[IPv4Network], kept: int = 0) -> int:
    """Return how many machines fit into the networks, when each loses ``kept`` addresses to its cloud."""
    return sum(max(0, network.num_addresses - kept) for network in networks)


def node_room(pods: IPv4Network) -> int:
    """Return how many nodes a pod range can serve, each with a range of its own of `NODE_PREFIX`."""
    return 2 ** max(0, NODE_PREFIX - pods.prefixlen) if pods.prefixlen <= NODE_PREFIX else 0


def public_address(wanted: bool | None, *, mesh: bool, gateway: bool, served: bool) -> bool:
    """Return whether each machine of a pool has a public address; without one all leave through a NAT gateway.

    Args:
        wanted: what somebody said outright; None leaves it to the rule.
        mesh: whether the pool's location is one of a mesh, whose other locations call it.
        gateway: whether the pool's machines lead their location.
        served: whether the location has a pool of gateways, which are called in place of all others.
    """
    if wanted is not None:
        return wanted
    return mesh and (gateway or not served)
