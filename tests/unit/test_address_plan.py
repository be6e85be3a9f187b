from ipaddress import IPv4Network

import pytest
from hybrid_talos.address_plan import (
    Claim,
    check_ranges,
    conflicts,
    node_room,
    outside,
    parse_network,
    reserved,
    room,
)
from hypothesis import given
from hypothesis import strategies as st

networks = st.builds(
    lambda number, prefix: IPv4Network((number >> (32 - prefix) << (32 - prefix), prefix)),
    st.integers(0, 2**32 - 1),
    st.integers(1, 32),
)


def claim(owner: str, cidr: str, within: str | None = None, setting: str = "") -> Claim:
    return Claim(owner, IPv4Network(cidr), within, setting)


def test_a_range_is_read() -> None:
    assert parse_network("10.2.0.0/16") == IPv4Network("10.2.0.0/16")


def test_host_bits_are_refused_with_the_range_that_was_meant() -> None:
    with pytest.raises(ValueError, match=r"write 10\.2\.0\.0/24 if that range is meant"):
        parse_network("10.2.0.5/24")


@pytest.mark.parametrize(
    "text",
    ["", "10.9.0.0", "10.9.0.0/", "10.2.0.0/33", "10.2.0/16", "10.2.0.0/255.255.0.0", "fd00::/8", "x/8", "1/8/8"],
)
def test_what_is_no_range_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ValueError, match="must be an IPv4 range") as caught:
        parse_network(text)
    assert not text or text not in str(caught.value)


@given(networks, networks)
def test_two_ranges_conflict_exactly_when_they_share_an_address(one: IPv4Network, other: IPv4Network) -> None:
    shared = max(int(one[0]), int(other[0])) <= min(int(one[-1]), int(other[-1]))
    assert bool(conflicts([Claim("a", one), Claim("b", other)])) is shared


def test_a_conflict_names_both_ranges_both_owners_and_where_the_first_was_written() -> None:
    (found,) = conflicts(
        [claim("pods", "10.244.0.0/16", setting="cluster.podCidr"), claim("location rack", "10.244.7.0/24")]
    )
    assert str(found) == (
        "10.244.7.0/24 (location rack) overlaps 10.244.0.0/16 (pods, cluster.podCidr); choose ranges that do not touch"
    )


def test_a_subnet_inside_its_own_network_is_no_conflict() -> None:
    claims = [claim("vnet", "10.2.0.0/16"), claim("subnet", "10.2.0.0/24", "vnet")]
    assert conflicts(claims) == []
    assert outside(claims) == []


def test_subnets_are_judged_among_their_own_network() -> None:
    claims = [
        claim("vnet", "10.2.0.0/16"),
        claim("a", "10.2.0.0/24", "vnet"),
        claim("b", "10.2.0.0/25", "vnet"),
        claim("other", "10.3.0.0/16"),
        claim("c", "10.3.0.0/24", "other"),
    ]
    assert [(found.first.owner, found.second.owner) for found in conflicts(claims)] == [("a", "b")]


def test_a_subnet_outside_its_network_is_found_with_it() -> None:
    claims = [claim("vnet", "10.2.0.0/16"), claim("subnet", "10.9.0.0/24", "vnet"), claim("wide", "10.0.0.0/8", "vnet")]
    assert [(inner.owner, outer.owner) for inner, outer in outside(claims)] == [("subnet", "vnet"), ("wide", "vnet")]


def test_every_pair_is_compared() -> None:
    assert len(conflicts([claim(name, "10.0.0.0/8") for name in "abcd"])) == 6


def test_ranges_of_protocols_and_clouds_are_kept_free() -> None:
    assert check_ranges([("pods", "169.254.0.0/16")]) == [
        "169.254.0.0/16 (pods) overlaps 169.254.0.0/16 (link-local addresses and the clouds' metadata services); "
        "choose ranges that do not touch"
    ]
    for cidr in ("127.0.0.0/8", "224.0.0.0/8", "240.0.0.0/8", "0.0.0.0/8"):
        assert len(check_ranges([("pods", cidr)])) == 1, cidr
    mesh = [("mesh", "100.66.0.0/16")]
    assert check_ranges(mesh) == []
    assert check_ranges(mesh, ["azure"]) == []
    assert "Alibaba Cloud's own services" in check_ranges(mesh, ["aliyun"])[0]
    assert "Azure platform" in check_ranges([("rack", "168.63.129.0/24")], ["azure"])[0]


def test_kept_ranges_are_never_in_each_others_way() -> None:
    assert conflicts([*reserved(["azure", "aliyun"]), *reserved(["aliyun"])]) == []


def test_all_problems_of_named_ranges_come_together() -> None:
    problems = check_ranges([("pods", "10.244.0.0/16"), ("services", "nonsense"), ("rack", "10.244.7.0/24")])
    assert len(problems) == 2
    assert problems[0].startswith("services: must be an IPv4 range")
    assert "10.244.7.0/24 (rack) overlaps 10.244.0.0/16 (pods)" in problems[1]


def test_room_is_what_the_cloud_leaves() -> None:
    assert room([IPv4Network("10.2.0.0/28")], 5) == 11
    assert room([IPv4Network("10.3.0.0/28"), IPv4Network("10.3.1.0/28")], 4) == 24
    assert room([IPv4Network("10.3.0.0/31")], 4) == 0


@pytest.mark.parametrize(("cidr", "nodes"), [("10.244.0.0/16", 256), ("10.244.0.0/24", 1), ("10.244.0.0/25", 0)])
def test_each_node_takes_a_24_of_the_pods(cidr: str, nodes: int) -> None:
    assert node_room(IPv4Network(cidr)) == nodes
