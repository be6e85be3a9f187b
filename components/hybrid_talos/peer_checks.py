"""What keeps peers outside of the cluster from standing beside each other. Pure."""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,18}[a-z0-9])?")


def peer_problems(
    cidr: IPv4Network, peers: Mapping[str, tuple[IPv4Address, str | None, Sequence[IPv4Network]]]
) -> list[tuple[str, str]]:
    """Return where and why peers, of address, public key and routed ranges, cannot stand beside each other."""
    found: list[tuple[str, str]] = []
    addresses: dict[IPv4Address, str] = {}
    keys: dict[str, str] = {}
    ranges: list[tuple[str, IPv4Network]] = []
    for name, (address, key, routed) in sorted(peers.items()):
        if not _NAME.fullmatch(name):
            found.append(
                (f"peers.{name}", "a name has 1 to 20 lower-case letters, digits and hyphens and starts with a letter")
            )
        if address not in cidr:
            found.append((f"peers.{name}.address", f"{address} is not inside of the peers' range, {cidr}"))
        # Kilo gives what two peers claim to one of them, and drops it from the other.
        if (other := addresses.setdefault(address, name)) != name:
            found.append((f"peers.{name}.address", f"{address} is the address of {other} too: choose another"))
        if key is not None and (other := keys.setdefault(key, name)) != name:
            found.append((f"peers.{name}.public_key", f"is the key of {other} too: each machine has its own"))
        for network in routed:
            clash = next((who for who, seen in [("the peers", cidr), *ranges] if network.overlaps(seen)), None)
            if clash is not None:
                found.append((f"peers.{name}.routed_cidrs", f"{network} overlaps what leads to {clash}"))
            ranges.append((name, network))
    return found
