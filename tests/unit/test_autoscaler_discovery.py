"""Scale sets that are found by tags: what the autoscaler's own reading of its flag finds among the pools' tags."""

import pulumi
import pytest
from autoscaler_program import aliyun, azure, container, group, on_azure, refusal
from hybrid_talos.autoscaler_tags import discovery_flag
from test_azure_worker_pool import refused, scale_set

TAGS = {"cluster-autoscaler-enabled": "true", "cluster-autoscaler-name": "demo"}


def selector(flag):
    """Return what a definition selects by, read as kubernetes/autoscaler `azure_autodiscovery.go` does (1.36.1)."""
    discoverer, words = flag.split(":")
    assert discoverer == "label"
    pairs = [word.split("=") for word in words.split(",")]
    assert all(len(pair) == 2 and all(pair) for pair in pairs)
    return {name: value for name, value in pairs if name not in ("min", "max")}


def finds(flag, tags):
    wanted = selector(flag)
    return bool(wanted) and all(tags.get(name) == value for name, value in wanted.items())


def flags(made):
    return [flag for flag in container(made)["args"] if flag.startswith("--node")]


def test_the_flag_finds_a_pool_with_the_same_tags_and_its_bounds_and_no_other():
    (flag,) = flags(on_azure(cloud=azure(discovery_tags=TAGS)))
    name, _, definition = flag.partition("=")
    assert name == "--node-group-auto-discovery"
    tags = scale_set(discovery_tags=TAGS).inputs["tags"]
    assert finds(definition, tags)
    # Without both bounds in its tags it would be left out.
    assert int(tags["min"]) <= int(tags["max"])
    assert not finds(definition, scale_set().inputs["tags"])
    assert not finds(definition, scale_set(discovery_tags={**TAGS, "cluster-autoscaler-name": "other"}).inputs["tags"])


def test_pools_that_come_and_go_and_their_sizes_leave_the_pod_alone():
    def said(groups):
        made = on_azure(groups=groups, cloud=azure(discovery_tags=dict(reversed(TAGS.items()))))
        return container(made)["args"]

    one = {"a": pulumi.Output.from_input(group("a-vmss"))}
    two = {"a": pulumi.Output.from_input(group("a-vmss", most=7)), "b": pulumi.Output.from_input(group("b-vmss"))}
    assert said(one) == said(two)


def test_groups_are_checked_although_none_is_named():
    words = refusal(azure=azure(discovery_tags=TAGS), node_groups={"w": group("asg", "aliyun")})
    assert "is a group of aliyun" in words


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ({}, "at least one"),
        ({"a:b": "c"}, "only letters"),
        ({"a": "b,c"}, "only letters"),
        ({"a": "b=c"}, "only letters"),
        ({"a": ""}, "only letters"),
        ({"a": "b\n"}, "only letters"),
        ({"Min": "1"}, "bound of the pool"),
    ],
)
def test_tags_that_the_flag_cannot_say_are_refused(tags, said):
    words = refusal(azure=azure(discovery_tags=tags))
    assert "azure.discovery_tags" in words
    assert said in words
    if tags:
        refused(said, discovery_tags=tags)


def test_gateways_are_not_found():
    refused("not for gateways", discovery_tags=TAGS, gateway=True, min_size=2, max_size=2)


def test_a_tag_of_everything_is_not_one_to_find_pools_by():
    refused("stands in tags too", discovery_tags=TAGS, tags={"cluster-autoscaler-name": "x"})


def test_where_there_is_no_discovery_it_is_refused():
    assert "manifests alone" in refusal(azure=azure(discovery_tags=TAGS), deployment="cozystackPackage")
    assert "discovery_tags" in refusal(azure=None, aliyun=aliyun(discovery_tags=TAGS))


def test_order_of_tags_says_nothing():
    assert discovery_flag(TAGS) == discovery_flag(dict(reversed(TAGS.items())))
