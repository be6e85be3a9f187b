from ipaddress import IPv4Network

import pytest
from hybrid_talos.allotment import allotted, collisions, slots
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = st.text(st.characters(min_codepoint=45, max_codepoint=122), min_size=1, max_size=30)
SUPERNETS = st.builds(
    lambda number, prefix: IPv4Network((number >> (32 - prefix) << (32 - prefix), prefix)),
    st.integers(0, 2**32 - 1),
    st.integers(8, 24),
)


@settings(deadline=None)
@given(SUPERNETS, st.integers(0, 8), NAMES)
def test_a_range_lies_in_its_supernet_and_has_its_size(supernet: IPv4Network, more: int, name: str) -> None:
    prefix = supernet.prefixlen + more
    network = allotted(supernet, prefix, name)
    assert network.subnet_of(supernet)
    assert network.prefixlen == prefix


@settings(deadline=None)
@given(st.sets(NAMES, min_size=1, max_size=40), NAMES)
def test_another_name_moves_nothing_and_none_that_is_gone_does(names: set[str], other: str) -> None:
    supernet = IPv4Network("10.64.0.0/10")

    def ranges(found: set[str]) -> dict[str, IPv4Network]:
        return {name: allotted(supernet, 20, name) for name in found}

    before = ranges(names)
    assert ranges(names | {other}).items() >= before.items()
    assert before.items() >= ranges(names - {other}).items()


@settings(deadline=None)
@given(st.sets(NAMES, max_size=60), st.integers(0, 6))
def test_names_without_a_collision_never_overlap(names: set[str], more: int) -> None:
    supernet = IPv4Network("10.2.0.0/16")
    prefix = 16 + more
    found = collisions(supernet, prefix, names)
    ranges = [allotted(supernet, prefix, name) for name in names]
    # As many collisions as names that come to a range which is not their own alone.
    assert len(found) == len(ranges) - len(set(ranges))


@settings(deadline=None)
@given(st.sets(NAMES, min_size=2, max_size=40), st.integers(1, 6))
def test_the_ranges_that_are_offered_solve_every_collision(names: set[str], more: int) -> None:
    supernet = IPv4Network("10.2.0.0/16")
    prefix = 16 + more
    found = collisions(supernet, prefix, names)
    if any(one.free is None for one in found):
        assert len(names) > slots(supernet, prefix) - 1
        return
    written = {one.second: one.free for one in found if one.free is not None}
    assert collisions(supernet, prefix, names - written.keys(), written) == []
    assert len(set(written.values())) == len(written)


def test_the_ranges_of_a_name_are_those_of_every_release() -> None:
    # Literals on purpose: a change here moves the networks of whoever uses it.
    assert str(allotted(IPv4Network("10.128.0.0/10"), 16, "azure/westeurope")) == "10.171.0.0/16"
    assert str(allotted(IPv4Network("10.2.0.0/16"), 24, "workers")) == "10.2.108.0/24"


def test_a_range_that_was_written_down_is_in_the_way_and_named() -> None:
    supernet = IPv4Network("10.2.0.0/16")
    taken = {"by-hand": allotted(supernet, 24, "workers")}
    (found,) = collisions(supernet, 24, ["workers"], taken)
    assert str(found) == (
        f"by-hand and workers both come to {taken['by-hand']}: for the one that is not made yet write down a free "
        f"range, {found.free}"
    )


def test_a_full_supernet_says_so() -> None:
    (found, *_) = collisions(IPv4Network("10.2.0.0/24"), 24, ["a", "b"])
    assert found.free is None
    assert "use a larger supernet" in str(found)


@pytest.mark.parametrize("prefix", [15, 33])
def test_a_supernet_that_is_too_small_is_refused(prefix: int) -> None:
    assert slots(IPv4Network("10.2.0.0/16"), prefix) == 0
    with pytest.raises(ValueError, match="has no room"):
        allotted(IPv4Network("10.2.0.0/16"), prefix, "a")
