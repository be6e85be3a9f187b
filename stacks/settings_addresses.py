"""Ranges that the settings leave out and the program allots: each from its name alone, before anything is checked.

Why from the name: docs/adr/0003-allotted-ranges.md.
"""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from ipaddress import IPv4Network
from typing import Any, NamedTuple

from hybrid_talos.address_plan import parse_network
from hybrid_talos.allotment import allotted, collisions, slots
from pydantic import Field

from .settings_base import Network, Section
from .settings_errors import Problem

AUTO = "auto"
"""Stands in the place of a vSwitch's range that is to be allotted."""


class Addresses(Section):
    """Where ranges come from that are left out. A change here moves all of them, and replaces what has them."""

    supernet: Network
    """Range that nothing lies in but the clouds' networks: each region's own follows from its name."""
    network_prefix: int = Field(default=16, ge=12, le=24)
    """Length of the networks' prefix."""
    subnet_prefix: int = Field(default=24, ge=16, le=28)
    """Length of the prefix of subnets and vSwitches: each pool's, and zone's, own follows from its name."""


class _Wanted(NamedTuple):
    """A range to be allotted, or one that was written down."""

    name: str
    path: str
    holder: dict[str, Any]
    key: str
    """Where the range stands, or will stand, in ``holder``."""
    missing: bool

    @property
    def written(self) -> IPv4Network | None:
        """The range that was written down, if it is one."""
        return None if self.missing else _network(self.holder.get(self.key))


def _network(value: Any) -> IPv4Network | None:
    try:
        return parse_network(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _length(section: Mapping[str, Any], key: str, usual: int) -> int:
    value = section.get(key, usual)
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 32 else usual


def with_addresses(document: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Problem]]:
    """Return the settings with every range that they leave out, and why one could not be allotted.

    Settings without `addresses`, or with one that does not parse, are returned as they are.
    """
    section = document.get("addresses")
    supernet = _network(section.get("supernet")) if isinstance(section, Mapping) else None
    if supernet is None or not isinstance(section, Mapping):
        return document, []
    filled = deepcopy(dict(document))
    problems: list[Problem] = []
    networks = [*_networks(filled, "azure", "location", "vnetCidr"), *_networks(filled, "aliyun", "region", "vpcCidr")]
    problems += _allot(
        supernet, _length(section, "networkPrefix", 16), networks, "addresses.supernet", _elsewhere(document)
    )
    prefix = _length(section, "subnetPrefix", 24)
    for network, subnets in _subnets(filled):
        problems += _allot(network, prefix, subnets, f"the network {network}", {})
    return filled, problems


def _allot(
    supernet: IPv4Network, prefix: int, wanted: list[_Wanted], whose: str, others: Mapping[str, IPv4Network]
) -> Iterator[Problem]:
    """Fill the missing ranges in, and find those that cannot be; ``others`` are ranges of other stacks."""
    missing = [one for one in wanted if one.missing]
    if missing and not slots(supernet, prefix):
        yield Problem(missing[0].path, f"{whose} has no room for a /{prefix}: write down a range")
        return
    for one in missing:
        one.holder[one.key] = str(allotted(supernet, prefix, one.name))
    written = {**others, **{one.name: network for one in wanted if (network := one.written) is not None}}
    # Pools of one region share a name, and the network.
    paths = {one.name: one.path for one in reversed(missing)}
    for found in collisions(supernet, prefix, paths.keys(), written):
        yield Problem(paths[found.second], str(found))


def _elsewhere(document: Mapping[str, Any]) -> dict[str, IPv4Network]:
    """Return the ranges of locations that other stacks build."""
    mesh = document.get("mesh")
    locations = mesh.get("locations") if isinstance(mesh, Mapping) else None
    found: dict[str, IPv4Network] = {}
    for name, location in locations.items() if isinstance(locations, Mapping) else ():
        cidrs = location.get("cidrs") if isinstance(location, Mapping) else None
        for index, cidr in enumerate(cidrs if isinstance(cidrs, list) else []):
            if (network := _network(cidr)) is not None:
                found[f"location {name}" + (f" ({index})" if index else "")] = network
    return found


def _text(value: Any) -> str:
    """Return a region in the one form that names it: "West Europe" is westeurope."""
    return value.strip().replace(" ", "").lower() if isinstance(value, str) else ""


def _networks(document: dict[str, Any], cloud: str, region_key: str, key: str) -> list[_Wanted]:
    """Return the networks of a cloud: the section's own, and those of pools in other regions."""
    section = document.get(cloud)
    if not isinstance(section, dict) or not _text(section.get(region_key)):
        return []
    home = _text(section[region_key])
    found = {home: _Wanted(f"{cloud}/{home}", f"{cloud}.{key}", section, key, key not in section)}
    others: list[_Wanted] = []
    for index, pool in enumerate(_all(section)):
        region = _text(pool.get(region_key))
        path = f"{cloud}.pools[{index}].{key}"
        if key in pool:
            others.append(_Wanted(f"{cloud}/{pool.get('name')}", path, pool, key, missing=False))
        elif region and region != home:
            if region in found:
                # The first pool of a region gets the range from the allotment; the others have the same.
                others.append(_Wanted(f"{cloud}/{region}", path, pool, key, missing=True))
            else:
                found[region] = _Wanted(f"{cloud}/{region}", path, pool, key, missing=True)
    return [*found.values(), *others]


def _subnets(document: dict[str, Any]) -> Iterator[tuple[IPv4Network, list[_Wanted]]]:
    """Yield each network with the subnets in it."""
    azure, aliyun = document.get("azure"), document.get("aliyun")
    groups: dict[tuple[str, str, IPv4Network], list[_Wanted]] = {}
    for index, pool in enumerate(_all(azure)):
        network = _network(pool.get("vnetCidr") or _own(azure, "vnetCidr"))
        if network is None:
            continue
        # A subnet that exists has the range that it has.
        missing = "subnetCidr" not in pool and "subnetId" not in pool and isinstance(pool.get("name"), str)
        wanted = _Wanted(str(pool.get("name")), f"azure.pools[{index}].subnetCidr", pool, "subnetCidr", missing)
        region = _text(pool.get("location") or _own(azure, "location"))
        groups.setdefault(("azure", region, network), []).append(wanted)
    for index, pool in enumerate(_all(aliyun)):
        network = _network(pool.get("vpcCidr") or _own(aliyun, "vpcCidr"))
        zones = pool.get("zones")
        if network is None or not isinstance(zones, dict):
            continue
        region = _text(pool.get("region") or _own(aliyun, "region"))
        for zone in sorted(map(str, zones)):
            missing = zones.get(zone) == AUTO and not pool.get("vswitchIds")
            path = f"aliyun.pools[{index}].zones.{zone}"
            wanted = _Wanted(f"{pool.get('name')}/{zone}", path, zones, zone, missing)
            groups.setdefault(("aliyun", region, network), []).append(wanted)
    for (_, _, network), subnets in groups.items():
        yield network, subnets


def _all(section: Any) -> list[dict[str, Any]]:
    """Return the pools of a section under their numbers; what is none counts as an empty one."""
    pools = section.get("pools") if isinstance(section, dict) else None
    return [pool if isinstance(pool, dict) else {} for pool in pools] if isinstance(pools, list) else []


def _own(section: Any, key: str) -> Any:
    return section.get(key) if isinstance(section, dict) else None
