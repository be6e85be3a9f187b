import re
from pathlib import Path

import pytest
from autoscaler_program import container, group, on_azure, refusal
from hybrid_talos.autoscaler_flags import DEPRECATED, KNOWN, SUCCESSORS, flag_problems, flags_page, split
from hybrid_talos.autoscaler_options import INSTEAD
from hybrid_talos.versions import AUTOSCALER_TAGS, text
from hypothesis import given
from hypothesis import strategies as st

NEWEST = max(AUTOSCALER_TAGS)


def flags(made):
    return container(made)["args"]


# What the versions have, counted in their sources by hand: declarations in main.go and config/flags/flags.go.
@pytest.mark.parametrize(
    ("version", "declared"), [("1.28", 94), ("1.30", 103), ("1.32", 116), ("1.33", 115), ("1.35", 125), ("1.36", 133)]
)
def test_the_table_has_as_many_flags_as_the_sources_declare(version, declared):
    minor = tuple(map(int, version.split(".")))
    own = [flag for flag in KNOWN.values() if flag.within(minor) and not flag.help.startswith("Of the libraries")]
    assert len(own) == declared


def test_every_flag_of_the_table_has_a_kind_and_a_meaning():
    assert {flag.kind for flag in KNOWN.values()} == {"text", "bool", "int", "float", "duration", "list"}
    for flag in KNOWN.values():
        assert flag.help, flag.name
        assert re.fullmatch("[a-z0-9-]+", flag.name)
        assert min(AUTOSCALER_TAGS) <= flag.first <= flag.last <= NEWEST


def test_every_flag_that_is_named_elsewhere_is_one():
    assert set(INSTEAD) <= set(KNOWN)
    assert set(DEPRECATED) <= set(SUCCESSORS)
    # Never was one; people write it all the same.
    assert set(SUCCESSORS) - set(KNOWN) == {"scale-down-delay"}
    for successor in re.findall(r"--([a-z-]+)", " ".join(SUCCESSORS.values())):
        assert KNOWN[successor].within(NEWEST)


@pytest.mark.parametrize("version", sorted(AUTOSCALER_TAGS))
def test_every_flag_that_a_version_lost_or_will_lose_names_what_to_do(version):
    for flag in KNOWN.values():
        if flag.last < version:
            (said,) = flag_problems({flag.name: "1"}, version, {})
            assert f"{text(flag.last)} was the last" in said
            assert "its successor is" in said


def said(name, value="1", version=NEWEST):
    return "".join(flag_problems({name: value}, version, INSTEAD))


def test_case_of_the_alibaba_example_a_removed_flag_is_refused_with_its_successor():
    assert "its successor is --max-scale-down-parallelism" in said("max-empty-bulk-delete", "50")
    assert said("max-empty-bulk-delete", "50", (1, 32)) == ""
    assert "its successor is --scale-down-delay-after-add" in said("scale-down-delay", "10m")
    assert "deprecated since 1.35" in said("scale-down-enabled", "true")
    assert said("scale-down-enabled", "true", (1, 34)) == ""


def test_unknown_and_later_flags_are_refused():
    assert "did you mean max-pod-eviction-time?" in said("max-pod-evicton-time", "2m")
    assert "no such flag: remove it" in said("zzzzzz")
    assert "it came with 1.36" in said("max-startup-time", "20m", (1, 35))
    assert "without its dashes" in said("--profiling", "true")


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("profiling", "true", "yes"),
        ("kube-client-burst", "20", "twenty"),
        ("kube-client-qps", "7.5", "7,5"),
        ("max-pod-eviction-time", "1h30m", "90"),
        ("gpu-total", "a:0:2,b:0:1", "a:0:2, b:0:1"),
        ("user-agent", "demo scaler", "demo "),
    ],
)
def test_values_have_the_form_of_their_flag(name, good, bad):
    assert said(name, good) == ""
    assert said(name, bad) != ""
    assert bad not in said(name, bad).split(":", 1)[1].replace("such as 90s", "")


def test_flags_that_the_component_sets_are_refused_with_the_input_to_use():
    assert "use scan_interval_seconds" in refusal(extra_args={"scan-interval": "20s"})
    assert "change min_size and max_size there" in refusal(extra_args={"nodes": "0:20:workers-vmss"})
    assert "which name exactly what the pools made" in refusal(extra_args={"node-group-auto-discovery": "label:a=b"})
    assert "leave it off" in refusal(extra_args={"enable-provisioning-requests": "true"})


def test_extra_flags_are_written_each_value_once():
    made = flags(on_azure(extra_args={"gpu-total": "b:0:1,a:0:2", "max-pod-eviction-time": "5m"}))
    assert [flag for flag in made if "gpu-total" in flag] == ["--gpu-total=a:0:2", "--gpu-total=b:0:1"]
    assert "--max-pod-eviction-time=5m" in made


def test_no_flag_stands_twice_and_each_is_one_of_the_version():
    made = flags(on_azure(scale_down={"unready_minutes": 30}, extra_args={"profiling": "true"}))
    names = [flag.removeprefix("--").split("=")[0] for flag in made]
    assert len(names) == len(set(names))
    assert all(KNOWN[name].within(NEWEST) for name in names)


TYPED = {
    "expander": "most-pods",
    "max_node_provision_minutes": 30,
    "scale_down_unneeded_minutes": 5,
    "scale_down_utilization_threshold": 0.3,
    "new_pod_scale_up_delay_seconds": 120,
    "balance_similar_node_groups": True,
    "balancing": {"ignored_labels": ["example.com/rack"]},
    "scale_down": {
        "delay_after_add_minutes": 1,
        "delay_after_delete_seconds": 2,
        "delay_after_failure_minutes": 3,
        "unready_minutes": 14,
        "gpu_utilization_threshold": 0.25,
        "max_graceful_termination_seconds": 600,
        "max_parallel": 5,
        "max_parallel_drains": 2,
        "keep_nodes_with_system_pods": False,
        "keep_nodes_with_local_storage": False,
        "keep_nodes_with_custom_controller_pods": False,
        "min_replica_count": 1,
        "evict_daemonsets_of_empty_nodes": True,
        "evict_daemonsets_of_used_nodes": False,
        "ignore_daemonsets_utilization": True,
    },
    "limits": {
        "max_nodes_total": 40,
        "max_cores_total": 200,
        "max_memory_gib_total": 800,
        "ok_unready_nodes": 5,
        "max_unready_percentage": 50,
    },
    "startup_taints": ["example.com/starting"],
    "status_taints": ["example.com/status"],
    "scan_interval_seconds": 20,
    "expendable_pods_priority_cutoff": -5,
    "log_level": 2,
}

EXPECTED = """
--balance-similar-node-groups=true
--balancing-ignore-label=example.com/rack
--balancing-ignore-label=hybrid-talos.dev/pool
--balancing-ignore-label=hybrid-talos.dev/template
--cores-total=0:200
--daemonset-eviction-for-empty-nodes=true
--daemonset-eviction-for-occupied-nodes=false
--enforce-node-group-min-size=true
--expander=most-pods
--expendable-pods-priority-cutoff=-5
--ignore-daemonsets-utilization=true
--max-drain-parallelism=2
--max-graceful-termination-sec=600
--max-node-provision-time=30m
--max-nodes-total=40
--max-scale-down-parallelism=5
--max-total-unready-percentage=50
--memory-total=0:800
--min-replica-count=1
--new-pod-scale-up-delay=120s
--ok-total-unready-count=5
--scale-down-delay-after-add=1m
--scale-down-delay-after-delete=2s
--scale-down-delay-after-failure=3m
--scale-down-gpu-utilization-threshold=0.25
--scale-down-unneeded-time=5m
--scale-down-unready-time=14m
--scale-down-utilization-threshold=0.3
--scan-interval=20s
--skip-nodes-with-custom-controller-pods=false
--skip-nodes-with-local-storage=false
--skip-nodes-with-system-pods=false
--startup-taint=example.com/starting
--status-taint=example.com/status
--v=2
""".splitlines()[1:]


def test_every_typed_input_becomes_its_flag():
    assert flags(on_azure(**TYPED))[4:-1] == EXPECTED


@pytest.mark.parametrize("version", sorted(AUTOSCALER_TAGS))
def test_typed_inputs_use_flags_of_every_version_or_say_which_is_missing(version):
    absent = [f.split("=")[0] for f in EXPECTED if not KNOWN[f[2:].split("=")[0]].within(version)]
    if not absent:
        on_azure(kubernetes_version=text(version), **TYPED)
        return
    message = refusal(kubernetes_version=text(version), **TYPED)
    for name in absent:
        assert f"{name}: Cluster Autoscaler {text(version)} has no such flag" in message
    assert version == (1, 28)


def test_balancing_leaves_out_what_differs_between_any_two_pools():
    assert "--balancing-ignore-label=hybrid-talos.dev/pool" in flags(on_azure(balance_similar_node_groups=True))
    by_label = flags(on_azure(balance_similar_node_groups=True, balancing={"labels": ["example.com/tier"]}))
    assert "--balancing-label=example.com/tier" in by_label
    assert not any("balancing-ignore-label" in flag for flag in by_label)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"balancing": {"labels": ["a"]}}, "needs balance_similar_node_groups"),
        ({"balancing": {"labels": ["a"], "ignored_labels": ["b"]}}, "exclude each other"),
        ({"expander": "priority"}, "needs priorities"),
        ({"priorities": {"w": 1}}, "needs priorities"),
        ({"expander": "priority", "priorities": {"x": 1}}, "must name each of node_groups"),
        ({"scale_down": {"max_parallel": 1, "max_parallel_drains": 2}}, "above max_parallel"),
        ({"scale_down": {"unready_minutes": 2}}, "scale_down.unready_minutes"),
        ({"startup_taints": ["a b"]}, "startup_taints"),
        ({"scan_interval_seconds": 1}, "scan_interval_seconds"),
        ({"limits": {"max_cores": 1}}, "limits.max_cores"),
        ({"pod": {"memory_limit": "lots"}}, "pod.memory_limit"),
        ({"pod": {"replicas": 4}}, "pod.replicas"),
        ({"image": "example.com/a/b:v1.36.1", "image_repository": "example.com/a/b"}, "image_repository: is of no use"),
        ({"image_repository": "example.com/a/b:v1"}, "image_repository"),
        ({"sample_workload": {"node_group": "x"}}, "none of node_groups"),
        ({"deployment": "cozystackPackage", "pod": {"replicas": 2}}, "for manifests alone"),
    ],
)
def test_choices_that_cannot_work_are_refused(changes, words):
    assert words in refusal(node_groups={"w": group("vmss")}, **changes)


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_flag_is_accepted_or_refused_in_words(name, value):
    problems = flag_problems({name: value}, NEWEST, INSTEAD)
    if not problems:
        single, lists = split({name: value})
        assert KNOWN[name].within(NEWEST)
        assert (name in single) != (name in lists)


def test_the_page_has_every_flag():
    page = flags_page()
    assert all(f"| `{name}` |" in page for name in KNOWN)
    written = (Path(__file__).parents[2] / "docs" / "autoscaler-flags.md").read_text()
    assert page == written, "run `make docs`"
    assert len(page.splitlines()) == len(KNOWN) + 9
