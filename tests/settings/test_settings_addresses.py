"""Ranges that settings leave out: each follows from its name, and no other name moves it."""

import re
from copy import deepcopy
from ipaddress import IPv4Network
from typing import Any

import pytest
from documents import HERE, read_good
from hypothesis import given, settings
from hypothesis import strategies as st

from stacks.settings import SettingsError, load
from stacks.settings_addresses import with_addresses

SUPERNET = IPv4Network("10.128.0.0/10")


def document(azure: list[dict[str, Any]], aliyun: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """Return settings whose pools write no range down; ``azure`` and ``aliyun`` say what else they are."""
    found = deepcopy(read_good(HERE / "good" / "hybrid.yaml").settings)
    found["cluster"]["podCidr"] = "10.16.0.0/12"
    found["addresses"] = {"supernet": str(SUPERNET)}
    del found["azure"]["vnetCidr"], found["aliyun"]["vpcCidr"]
    machine = {key: found["azure"]["pools"][0][key] for key in ("vmSize", "maxSize", "publicIps")}
    found["azure"]["pools"] = [{**machine, **pool} for pool in azure]
    group = {key: found["aliyun"]["pools"][0][key] for key in ("instanceTypes", "maxSize", "publicIps")}
    found["aliyun"]["pools"] = [{**group, "zones": {"cn-hangzhou-h": "auto"}, **pool} for pool in aliyun]
    return {**found, **changes}


def ranges(found: dict[str, Any]) -> dict[str, IPv4Network]:
    """Return every range of the clouds by what it is for."""
    loaded = load("hybrid", found)
    assert loaded.azure is not None
    assert loaded.aliyun is not None
    named = {f"azure {net.region}": net.cidr for net in loaded.azure.networks()}
    named |= {f"aliyun {net.region}": net.cidr for net in loaded.aliyun.networks()}
    named |= {f"azure pool {pool.name}": pool.subnet_cidr for pool in loaded.azure.pools}
    named |= {f"aliyun {pool.name} {zone}": cidr for pool in loaded.aliyun.pools for zone, cidr in pool.zones.items()}
    return named


def refused(found: dict[str, Any]) -> str:
    with pytest.raises(SettingsError) as caught:
        load("hybrid", found)
    return str(caught.value)


def test_everything_that_is_left_out_is_allotted() -> None:
    found = ranges(document([{"name": "a"}, {"name": "b"}], [{"name": "a"}]))
    assert len(found) == len(set(found.values())) == 5
    assert all(network.subnet_of(SUPERNET) for network in found.values())
    assert found["azure westeurope"].prefixlen == found["aliyun cn-hangzhou"].prefixlen == 16
    assert found["azure pool a"].prefixlen == found["aliyun a cn-hangzhou-h"].prefixlen == 24
    assert found["azure pool a"].subnet_of(found["azure westeurope"])


NAMES = st.sets(st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(NAMES, NAMES, NAMES, st.randoms())
def test_pools_that_come_and_go_move_no_other(kept: set[str], gone: set[str], new: set[str], random: Any) -> None:
    def state(names: set[str]) -> dict[str, IPv4Network]:
        pools = [{"name": name} for name in sorted(names)]
        random.shuffle(pools)
        # What collides is refused, with a range to write down; nobody is moved for it.
        _, problems = with_addresses(document(pools, pools))
        assert all("both come to" in problem.text for problem in problems)
        return {} if problems else ranges(document(pools, pools))

    before, after = state(kept | gone), state(kept | new)
    assert all(after[name] == before[name] for name in before.keys() & after.keys())


def test_regions_have_networks_of_their_own_and_pools_of_one_region_share_it() -> None:
    pools = [{"name": "a"}, {"name": "b", "location": "North Europe"}, {"name": "c", "location": "northeurope"}]
    found = ranges(document(pools, [{"name": "a"}]))
    assert found["azure northeurope"] != found["azure westeurope"]
    assert found["azure pool c"].subnet_of(found["azure northeurope"])
    alone = ranges(document([{"name": "a"}], [{"name": "a"}]))
    assert alone.items() <= found.items()


def test_a_region_keeps_its_network_whether_it_is_the_sections_own() -> None:
    there = ranges(document([{"name": "a"}, {"name": "b", "location": "northeurope"}], [{"name": "a"}]))
    moved = document([{"name": "a", "location": "westeurope"}, {"name": "b"}], [{"name": "a"}])
    moved["azure"]["location"] = "northeurope"
    assert ranges(moved) == there


def test_a_range_that_is_written_down_stays() -> None:
    found = document([{"name": "a", "subnetCidr": "10.2.7.0/24"}, {"name": "b"}], [{"name": "a"}])
    found["azure"]["vnetCidr"] = "10.2.0.0/16"
    named = ranges(found)
    assert named["azure westeurope"] == IPv4Network("10.2.0.0/16")
    assert named["azure pool a"] == IPv4Network("10.2.7.0/24")
    assert named["azure pool b"].subnet_of(named["azure westeurope"])


def collision() -> tuple[str, str, IPv4Network]:
    """Return two names of pools that come to one subnet, and that subnet."""
    seen: dict[IPv4Network, str] = {}
    for number in range(400):
        found = document([{"name": f"p{number}"}], [{"name": "a"}])
        filled, _ = with_addresses(found)
        subnet = IPv4Network(filled["azure"]["pools"][0]["subnetCidr"])
        if subnet in seen:
            return seen[subnet], f"p{number}", subnet
        seen[subnet] = f"p{number}"
    raise AssertionError("400 names have 256 subnets to themselves")


def test_a_collision_is_refused_with_a_range_that_solves_it() -> None:
    one, other, subnet = collision()
    message = refused(document([{"name": one}, {"name": other}], [{"name": "a"}]))
    assert f"both come to {subnet}" in message
    free = message.split("free range, ")[1].split()[0]
    solved = document([{"name": one}, {"name": other, "subnetCidr": free}], [{"name": "a"}])
    assert ranges(solved)[f"azure pool {one}"] == subnet


def test_a_range_that_was_written_down_where_another_is_allotted_is_refused() -> None:
    one, _, subnet = collision()
    pools = [{"name": one}, {"name": "hand", "subnetCidr": str(subnet)}]
    assert f"hand and {one} both come to {subnet}" in refused(document(pools, [{"name": "a"}]))


def test_nothing_else_may_lie_in_the_supernet() -> None:
    found = document([{"name": "a"}], [{"name": "a"}])
    found["cluster"]["podCidr"] = "10.144.0.0/16"
    message = refused(found)
    assert (
        "addresses.supernet: 10.128.0.0/10 (supernet of the clouds' networks) overlaps 10.144.0.0/16 (pods" in message
    )


def test_networks_of_other_stacks_may_and_are_left_free() -> None:
    theirs = ranges(document([{"name": "a"}], [{"name": "a"}]))["azure westeurope"]
    found = document([{"name": "a"}], [{"name": "a"}])
    found["mesh"]["locations"] = {"elsewhere": {"cidrs": ["10.190.0.0/16"]}}
    found["mesh"]["granularity"], found["mesh"]["cni"] = "location", "cilium"
    assert ranges(found)["azure westeurope"] == theirs
    found["mesh"]["locations"] = {"elsewhere": {"cidrs": [str(theirs)]}}
    assert f"location elsewhere and azure/westeurope both come to {theirs}" in refused(found)


@pytest.mark.parametrize(
    ("addresses", "words"),
    [
        ({"supernet": "10.128.0.0/20"}, "azure.vnetCidr: addresses.supernet has no room for a /16"),
        ({"supernet": "10.128.0.1/10"}, "addresses.supernet"),
        ({"supernet": "10.128.0.0/10", "networkPrefix": 24, "subnetPrefix": 20}, "has no room for a /20"),
        ({"supernet": "10.128.0.0/10", "networkPrefix": 30}, "addresses.networkPrefix"),
        ({"supernet": "10.128.0.0/10", "subnetPrefix": "24"}, "addresses.subnetPrefix"),
        ({}, "addresses.supernet"),
        ("10.128.0.0/10", "addresses"),
    ],
)
def test_a_supernet_that_does_not_do_is_named(addresses: Any, words: str) -> None:
    assert words in refused(document([{"name": "a"}], [{"name": "a"}], addresses=addresses))


def test_a_subnet_that_exists_has_its_own_range() -> None:
    subnet = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/g/providers/Microsoft.Network"
    pool = {"name": "a", "subnetId": f"{subnet}/virtualNetworks/v/subnets/s"}
    assert "azure.pools[0].subnetCidr: is required" in refused(document([pool], [{"name": "a"}]))


def test_without_a_supernet_everything_is_written_down() -> None:
    found = document([{"name": "a"}], [{"name": "a"}])
    del found["addresses"]
    message = refused(found)
    for path in ("azure.vnetCidr", "azure.pools[0].subnetCidr", "aliyun.vpcCidr", "aliyun.pools[0].zones"):
        assert path in message


@pytest.mark.parametrize("broken", [None, [], 5, {"pools": 5}, {"pools": [5]}, {"location": 5, "pools": [{"name": 5}]}])
def test_settings_that_are_none_are_left_to_the_other_rules(broken: Any) -> None:
    found = {**document([{"name": "a"}], [{"name": "a"}]), "azure": broken, "aliyun": broken}
    assert re.match(r"\d+ problems? in the settings", refused(found))
