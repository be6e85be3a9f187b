import re

import yaml
from autoscaler_program import container, group, on_azure, opened, pod
from hybrid_talos.autoscaler_manifests import priorities_text
from hybrid_talos.autoscaler_watch import alerts
from hybrid_talos.sample_workload import tolerations
from pulumi import Output

TWO = {key: group(f"{key}-vmss") for key in ("cheap", "dear")}


def with_priorities(**changes):
    groups = {key: Output.from_input(one) for key, one in TWO.items()}
    return on_azure(groups=groups, expander="priority", priorities={"cheap": 20, "dear": 10}, **changes)


def best(text, options):
    """Choose as kubernetes/autoscaler `expander/priority/priority.go` does; None when it would not filter at all."""
    parsed = yaml.safe_load(text)
    assert all(isinstance(number, int) for number in parsed)
    found = {
        name: [n for n, patterns in parsed.items() for one in patterns if re.search(one, name)] for name in options
    }
    top = max((max(numbers) for numbers in found.values() if numbers), default=None)
    return None if top is None else [name for name in options if top in found[name]]


def test_the_autoscaler_reads_the_order_of_groups_from_the_map():
    made = with_priorities()
    config = made.one("-priorities").inputs
    text = config["data"]["priorities"]
    assert best(text, ["cheap-vmss", "dear-vmss"]) == ["cheap-vmss"]
    assert best(text, ["dear-vmss"]) == ["dear-vmss"]
    # A name within another is not meant.
    assert best(text, ["very-cheap-vmss", "cheap-vmss-2"]) is None
    assert config["metadata"]["name"] == "cluster-autoscaler-priority-expander"
    assert "--expander=priority" in container(made)["args"]


def test_priorities_match_names_that_hold_signs_of_patterns():
    assert best(priorities_text({"a": 1}, {"a": "a.b+c"}), ["a.b+c", "aXb+c"]) == ["a.b+c"]


def test_with_priorities_everything_lies_in_a_namespace_of_its_own():
    made = with_priorities()
    space = made.one("-namespace").inputs["metadata"]
    assert space["name"] == "autoscaler-azure"
    assert space["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    placed = {
        found.inputs["metadata"]["namespace"] for found in made.found if "namespace" in found.inputs.get("metadata", {})
    }
    assert placed == {"autoscaler-azure"}
    assert "--namespace=autoscaler-azure" in container(made)["args"]
    (subject,) = made.one("cluster-binding").inputs["subjects"]
    assert subject["namespace"] == "autoscaler-azure"
    rights = [rule for rule in made.one("autoscaler-role").inputs["rules"] if rule.get("resourceNames")]
    assert ["get"] in [r["verbs"] for r in rights if r["resourceNames"] == ["cluster-autoscaler-priority-expander"]]
    needs = {urn.rsplit("::", 1)[1] for urn in made.one("-deployment").dependencies}
    assert {"autoscaler-namespace", "autoscaler-priorities", "autoscaler-credentials"} <= needs


def test_without_priorities_there_is_no_namespace():
    assert not {"kubernetes:core/v1:Namespace", "kubernetes:core/v1:ConfigMap"} & set(on_azure().types())


def test_replicas_stand_on_control_planes_of_their_own():
    made = on_azure(pod={"replicas": 2, "priority_class": "critical", "memory_limit": "2Gi", "cpu_request": "200m"})
    spec = opened(made.one("-deployment").inputs["spec"])
    assert spec["replicas"] == 2
    (spread,) = pod(made)["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    assert spread["whenUnsatisfiable"] == "DoNotSchedule"
    assert spread["labelSelector"] == spec["selector"]
    assert pod(made)["priorityClassName"] == "critical"
    assert container(made)["resources"] == {
        "requests": {"cpu": "200m", "memory": "300Mi"},
        "limits": {"memory": "2Gi"},
    }
    assert "topologySpreadConstraints" not in pod(on_azure())


def test_a_mirror_gets_the_tag_of_the_kubernetes_version():
    made = on_azure(image_repository="mirror.example.com:5000/k8s/cluster-autoscaler")
    assert container(made)["image"] == "mirror.example.com:5000/k8s/cluster-autoscaler:v1.36.1"


def test_prometheus_is_told_only_when_asked_for():
    assert not any("monitoring.coreos.com" in kind for kind in on_azure().types())
    made = on_azure(monitoring={"labels": {"release": "prometheus"}})
    service, monitor = made.one("-metrics").inputs, made.one("-monitor").inputs
    port = service["spec"]["ports"][0]
    assert port["targetPort"] in {one["name"] for one in container(made)["ports"]}
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == port["name"]
    assert service["spec"]["selector"] == opened(made.one("-deployment").inputs["spec"])["selector"]["matchLabels"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    assert "release" not in service["metadata"]["labels"]
    assert made.one("-alerts").type == "kubernetes:monitoring.coreos.com/v1:PrometheusRule"


# metrics/metrics.go at 1.36.1, in the namespace cluster_autoscaler.
METRICS = {
    "cluster_autoscaler_last_activity",
    "cluster_autoscaler_cluster_safe_to_autoscale",
    "cluster_autoscaler_failed_scale_ups_total",
    "cluster_autoscaler_unschedulable_pods_count",
    "cluster_autoscaler_old_unregistered_nodes_removed_count",
}


def test_alerts_are_about_metrics_that_there_are_and_about_one_autoscaler():
    rules = alerts("autoscaler-azure", "kube-system")
    assert {name for rule in rules for name in re.findall(r"cluster_autoscaler_\w+", rule["expr"])} == METRICS
    assert all('job="autoscaler-azure"' in rule["expr"] for rule in rules)
    assert all(rule["annotations"]["description"] for rule in rules)


def test_the_sample_workload_needs_machines_of_its_pool_alone():
    labels = {"hybrid-talos.dev/pool": "azure-workers"}
    groups = {
        "w": Output.from_input({**group("vmss"), "labels": labels, "taints": ["example.com/only=burst:NoSchedule"]})
    }
    made = on_azure(groups=groups, sample_workload={"node_group": "w", "replicas": 3, "cpu": "1"})
    sample = made.one("-sample").inputs
    spec = sample["spec"]["template"]["spec"]
    assert sample["spec"]["replicas"] == 3
    assert spec["nodeSelector"] == labels
    assert spec["tolerations"] == [
        {"key": "example.com/only", "operator": "Equal", "value": "burst", "effect": "NoSchedule"}
    ]
    (apart,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert spec["containers"][0]["resources"]["requests"]["cpu"] == "1"
    # `up` would else wait for machines.
    assert sample["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"
    assert spec["securityContext"]["runAsNonRoot"] is True


def test_taints_without_a_value_are_tolerated_too():
    assert tolerations(["a=:NoExecute"]) == [{"key": "a", "operator": "Equal", "value": "", "effect": "NoExecute"}]
