"""Cordon, drain by eviction, uncordon and delete: this program's own work on a real API server and real controllers."""

from collections.abc import Iterator
from typing import Any

import pytest
from hybrid_talos import kubernetes_nodes
from hybrid_talos.kubernetes_nodes import KubernetesError, KubernetesNodes, nodes_of
from kubelets import Kubelets
from kubernetes_cluster import Api, Cluster, free_port, wait_for

NAMESPACE = "drain"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
DAEMON_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
OLD, NEW = "drained", "spare"


def pod(app: str, node: str | None = None) -> dict[str, Any]:
    container = {"name": "app", "image": "registry.example.com/app:1"}
    place = {"nodeName": node} if node else {"nodeSelector": {"test": "drain"}}
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **place},
    }


@pytest.fixture(scope="module")
def namespace(cluster: Cluster, kubelets: Kubelets) -> Api:
    api = cluster.api()
    api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    wait_for("account", lambda: api.find(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"))
    return api


@pytest.fixture
def place(namespace: Api, kubelets: Kubelets) -> Iterator[Api]:
    """A machine to be drained, and nothing else yet."""
    kubelets.add(OLD, {"test": "drain"})
    yield namespace
    for path in (BUDGETS, DEPLOYMENTS, DAEMON_SETS, PODS):
        namespace.clear(path)
    wait_for("end of the pods", lambda: not namespace.names(PODS))
    kubelets.remove(OLD, NEW)


@pytest.fixture
def nodes(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesNodes]:
    monkeypatch.setattr(kubernetes_nodes, "_PAUSE", 0.2)
    # As for a cluster whose name leads elsewhere than its machines: this connects by address.
    with nodes_of(cluster.admin_kubeconfig(host="localhost"), cluster.url) as found:
        yield found


def deploy(api: Api, name: str, replicas: int) -> None:
    """Deploy pods and wait until all are ready."""
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": pod(name)}
    api.create(DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec})
    wait_for("pods", lambda: api.get(f"{DEPLOYMENTS}/{name}")["status"].get("readyReplicas") == replicas)


def budget(api: Api, app: str, least: int, name: str = "") -> None:
    """Give pods a budget and wait until the controller has counted them."""
    name = name or app
    spec = {"minAvailable": least, "selector": {"matchLabels": {"app": app}}}
    api.create(BUDGETS, {"metadata": {"name": name}, "spec": spec})
    wait_for("budget", lambda: api.get(f"{BUDGETS}/{name}").get("status", {}).get("expectedPods"))


def on(api: Api, node: str) -> set[str]:
    """Return the apps whose pods are on a machine."""
    found = api.items(PODS, fieldSelector=f"spec.nodeName={node}")
    return {one["metadata"]["labels"]["app"] for one in found}


def test_pods_move_and_the_budget_is_honoured(place: Api, nodes: KubernetesNodes, kubelets: Kubelets) -> None:
    deploy(place, "moving", 2)
    budget(place, "moving", 1)
    kubelets.add(NEW, {"test": "drain"})
    nodes.cordon(OLD)
    said: list[str] = []
    nodes.drain(OLD, 60, bare=False, say=said.append)
    assert on(place, OLD) == set()
    assert on(place, NEW) == {"moving"}
    # One of the two could go at once; the other had to wait for the first one's successor.
    assert "drain/moving-" in said[0].partition("held back: ")[2]


def test_a_budget_that_allows_nothing_stops_the_drain(place: Api, nodes: KubernetesNodes) -> None:
    deploy(place, "stuck", 1)
    budget(place, "stuck", 1)
    (before,) = place.names(PODS)
    nodes.cordon(OLD)
    with pytest.raises(KubernetesError, match=rf"not drained within .*drain/{before}: 429: .*needs 1 healthy pods"):
        nodes.drain(OLD, 1, bare=False, say=lambda line: None)
    assert place.names(PODS) == [before]


def test_two_budgets_for_one_pod_are_told(place: Api, nodes: KubernetesNodes) -> None:
    deploy(place, "twice", 1)
    budget(place, "twice", 0, "first")
    budget(place, "twice", 0, "second")
    with pytest.raises(KubernetesError, match="more than one PodDisruptionBudget"):
        nodes.drain(OLD, 1, bare=False, say=lambda line: None)


def test_pods_that_belong_to_the_machine_stay(place: Api, nodes: KubernetesNodes) -> None:
    place.create(DAEMON_SETS, {"metadata": {"name": "agent"}, "spec": agent("agent")})
    wait_for("agent", lambda: "agent" in on(place, OLD))
    static = pod("static", OLD)
    static["metadata"] |= {"name": "static", "annotations": {"kubernetes.io/config.mirror": "x"}}
    place.create(PODS, static)
    nodes.drain(OLD, 1, bare=True, say=lambda line: None)
    assert on(place, OLD) == {"agent", "static"}


def agent(name: str) -> dict[str, Any]:
    return {"selector": {"matchLabels": {"app": name}}, "template": pod(name)}


def test_a_pod_that_nobody_makes_anew_goes_only_when_asked(place: Api, nodes: KubernetesNodes) -> None:
    bare = pod("bare", OLD)
    place.create(PODS, {**bare, "metadata": {**bare["metadata"], "name": "bare"}})
    wait_for("pod", lambda: place.get(f"{PODS}/bare")["status"]["phase"] == "Running")
    nodes.drain(OLD, 1, bare=False, say=lambda line: None)
    assert on(place, OLD) == {"bare"}
    nodes.drain(OLD, 30, bare=True, say=lambda line: None)
    assert on(place, OLD) == set()


def test_only_what_was_cordoned_here_is_uncordoned(place: Api, nodes: KubernetesNodes) -> None:
    node = f"/api/v1/nodes/{OLD}"
    nodes.cordon(OLD)
    assert place.get(node)["spec"]["unschedulable"] is True
    nodes.uncordon(OLD)
    assert "unschedulable" not in place.get(node)["spec"]
    place.merge(node, {"spec": {"unschedulable": True}})
    nodes.cordon(OLD)
    nodes.uncordon(OLD)
    assert place.get(node)["spec"]["unschedulable"] is True


def test_a_node_that_is_gone_is_no_error(place: Api, nodes: KubernetesNodes, kubelets: Kubelets) -> None:
    kubelets.nodes.discard(OLD)
    nodes.delete(OLD)
    nodes.delete(OLD)
    nodes.cordon(OLD)
    nodes.uncordon(OLD)
    nodes.drain(OLD, 1, bare=True, say=lambda line: None)
    assert nodes.status(OLD) is None


def test_an_api_that_is_not_there_is_told_in_one_line(cluster: Cluster) -> None:
    with (
        nodes_of(cluster.admin_kubeconfig(port=free_port()), None) as found,
        pytest.raises(KubernetesError, match="the Kubernetes API is not reached .* Next: "),
    ):
        found.cordon(OLD)


def test_a_client_without_rights_is_told_what_the_api_says(cluster: Cluster) -> None:
    with (
        nodes_of(cluster.kubeconfig_of("nobody", "nobodies"), None) as found,
        pytest.raises(KubernetesError, match='403: nodes "x" is forbidden: User "nobody" cannot get resource "nodes"'),
    ):
        found.cordon("x")
