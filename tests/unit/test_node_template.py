import re

import pytest
from hybrid_talos import node_template as nt
from hybrid_talos.autoscaler_tags import alibaba_template_tags, azure_tags
from hypothesis import given
from hypothesis import strategies as st

PREFIX = "k8s.io_cluster-autoscaler_node-template_"


def decode_azure(tags):
    """Read tags as the autoscaler does (kubernetes/autoscaler cloudprovider/azure/azure_template.go)."""
    labels, taints = {}, set()
    for name, value in tags.items():
        pieces = name.split(f"{PREFIX}label_")
        if len(pieces) > 1 and pieces[1]:
            labels[pieces[1].replace("_", "/").replace("~2", "_")] = value
        pieces = name.split(f"{PREFIX}taint_")
        if len(pieces) > 1 and re.search("(.*):(?:NoSchedule|NoExecute|PreferNoSchedule)", value):
            text, effect = value.split(":", 1)
            taints.add((pieces[1].replace("_", "/").replace("~2", "_"), text, effect))
    return labels, taints


names = st.from_regex(r"\A[A-Za-z0-9]([-A-Za-z0-9_.]{0,20}[A-Za-z0-9])?\Z")
keys = st.one_of(names, st.tuples(st.sampled_from(["example.com", "a-b.example.org"]), names).map("/".join))
effects = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])


@given(
    labels=st.dictionaries(keys, names, max_size=8),
    taints=st.dictionaries(keys, st.tuples(names, effects), max_size=8),
)
def test_the_azure_autoscaler_reads_back_exactly_what_nodes_register_with(labels, taints):
    lowered = [key.lower() for key in labels]
    lowered_taints = [key.lower() for key in taints]
    if len(set(lowered)) < len(lowered) or len(set(lowered_taints)) < len(lowered_taints):
        return
    template = nt.node_template(
        "azure", "workers", labels, [nt.Taint(k, *v) for k, v in taints.items()], "westeurope-1"
    )
    read_labels, read_taints = decode_azure(azure_tags(template, 0, 10, {}))
    first, second = nt.config_patches(template)
    kubelet = second.get("machine", {}).get("kubelet", {}).get("extraConfig", {}).get("registerWithTaints", [])
    assert read_labels == {**first["machine"]["nodeLabels"], "topology.kubernetes.io/zone": "westeurope-1"}
    assert read_taints == {(t["key"], t["value"], t["effect"]) for t in kubelet}


def test_every_pool_has_a_label_that_tells_it_from_all_others():
    label = "hybrid-talos.dev/pool"
    pools = [
        (cloud, name) for cloud in ("azure", "aliyun") for name in ("w", "azure-w", "aliyun-w", "alibaba-w", "azure.w")
    ]
    values = [nt.node_template(cloud, name, {}, []).labels[label] for cloud, name in pools]
    assert len(set(values)) == len(pools)
    assert dict(zip(pools, values, strict=True))["azure", "azure-w"] == "azure-w"
    assert dict(zip(pools, values, strict=True))["aliyun", "aliyun-w"] == "alibaba-w"
    assert all(nt.label_problem(label, value) is None for value in values)


def test_the_pools_label_can_be_a_tag_on_alibaba():
    for name in ("aliyun-w", "w"):
        alibaba_template_tags(nt.node_template("aliyun", name, {}, []), 0)


def test_a_pool_cannot_take_the_label_of_another():
    with pytest.raises(ValueError, match="is set by the pool itself, to azure-a"):
        nt.node_template("azure", "azure-a", {"hybrid-talos.dev/pool": "azure-b"}, [])


@pytest.mark.parametrize("name", ["-a", "a b", "x" * 60, ""])
def test_a_pool_name_that_is_no_label_value_is_refused(name):
    with pytest.raises(ValueError, match=r"label hybrid-talos\.dev/pool"):
        nt.node_template("azure", name, {}, [])


@pytest.mark.parametrize(
    "key",
    ["example.com/tier", "tier", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
     "node.kubernetes.io/tier", "kubelet.kubernetes.io/tier", "x.node.kubernetes.io/tier", "cluster.x-k8s.io/tier"],
)  # fmt: skip
def test_labels_that_a_node_may_set(key):
    assert nt.label_problem(key, "v") is None


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("node-role.kubernetes.io/worker", "from a control plane"),
        ("kubernetes.io/x", "NodeRestriction"),
        ("node-restriction.kubernetes.io/x", "NodeRestriction"),
        ("k8s.io/x", "NodeRestriction"),
        ("kubernetes.io/hostname", "set by the kubelet"),
        ("node.kubernetes.io/instance-type", "set by the kubelet"),
        ("Upper.example.com/x", "DNS name"),
        ("example.com/", "1 to 63"),
        ("x" * 64, "1 to 63"),
        ("-x", "1 to 63"),
        ("ex ample", "1 to 63"),
    ],
)
def test_labels_that_a_node_may_not_set(key, said):
    assert said in nt.label_problem(key, "")


@pytest.mark.parametrize("value", ["x" * 64, "-x", "x-", "a b", "ä"])
def test_label_values_have_a_form(value):
    assert "63" in nt.label_problem("tier", value)


def test_taints_are_sorted_and_a_pair_stands_once():
    a, b = (nt.TaintShape(key=key, value="1", effect="NoSchedule") for key in "ab")
    assert [str(taint) for taint in nt.checked_taints([b, a])] == ["a=1:NoSchedule", "b=1:NoSchedule"]
    with pytest.raises(ValueError, match="twice: a:NoSchedule"):
        nt.checked_taints([a, nt.TaintShape(key="a", value="2", effect="NoSchedule")])


def template(labels=None, taints=(), zone=None, cloud="azure"):
    return nt.node_template(cloud, f"{cloud}-w", labels or {}, [nt.Taint(*taint) for taint in taints], zone)


def test_azure_tags_carry_bounds_and_the_users_own():
    tags = azure_tags(template(), 2, 5, {"team": "x"})
    assert tags == {
        "min": "2",
        "max": "5",
        "team": "x",
        f"{PREFIX}label_hybrid-talos.dev_pool": "azure-w",
    }


def test_the_users_zone_label_wins_over_the_platforms():
    tags = azure_tags(template({"topology.kubernetes.io/zone": "azure"}, zone="westeurope-1"), 0, 1, {})
    assert tags[f"{PREFIX}label_topology.kubernetes.io_zone"] == "azure"


@pytest.mark.parametrize(
    ("labels", "taints", "own", "said"),
    [
        ({f"l{n}": "" for n in range(48)}, (), {}, "51 tags of the scale set, and Azure takes 50"),
        ({}, [("k", "", "NoSchedule"), ("k", "", "NoExecute")], {}, "one for each key"),
        ({"Tier": "a", "tier": "b"}, (), {}, "upper and lower case"),
        ({}, (), {"MIN": "1"}, "read by the autoscaler"),
        ({}, (), {f"{PREFIX}label_x": "1"}, "read by the autoscaler"),
        ({}, (), {"a/b": "1"}, "none of"),
        ({}, (), {"azure-x": "1"}, "keeps for itself"),
        ({}, (), {"a": "x" * 257}, "more than 256"),
    ],
)
def test_what_azure_tags_cannot_say_is_refused(labels, taints, own, said):
    with pytest.raises(ValueError, match=said):
        azure_tags(template(labels, taints), 0, 1, own)


def test_alibaba_tags_are_the_labels_as_they_are():
    tags = alibaba_template_tags(template({"example.com/a_b": "1"}, zone="cn-hangzhou-h", cloud="aliyun"), 0)
    assert tags == {
        "example.com/a_b": "1",
        "hybrid-talos.dev/pool": "alibaba-w",
        "topology.kubernetes.io/zone": "cn-hangzhou-h",
    }


@pytest.mark.parametrize(
    ("labels", "taints", "said"),
    [
        ({f"{'x' * 60}.example.com/tier": "1"}, (), "1 to 64 characters"),
        ({"aliyun.com/x": "1"}, (), "own tags"),
        ({"x": "aliyun"}, (), "not begin with"),
        ({f"l{n}": "" for n in range(20)}, (), "21 tags, and Alibaba Cloud takes 20"),
        ({}, [("k", "", "NoSchedule")], "min_size 0"),
    ],
)
def test_what_alibaba_tags_cannot_say_is_refused(labels, taints, said):
    with pytest.raises(ValueError, match=said):
        alibaba_template_tags(template(labels, taints, cloud="aliyun"), 0)


def test_a_pool_on_alibaba_that_is_never_empty_may_have_taints():
    alibaba_template_tags(template(taints=[("k", "v", "NoSchedule")], cloud="aliyun"), 1)
