"""A roll against a real API server: what is held, drained and written down there, and what a killed roll leaves."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hybrid_talos import kubernetes_nodes, pool_roll
from hybrid_talos.kubernetes_nodes import KubernetesError, KubernetesNodes, nodes_of
from hybrid_talos.pool_nodes import HELD, SCALE_DOWN_DISABLED, KubernetesPoolNodes, LeaseJournal
from hybrid_talos.pool_roll import Instance, Pending, Progress, Roll, Rule
from kubelets import Kubelets
from kubernetes_cluster import Api, Cluster, wait_for

POOL, OLD, NEW = "azure-rolled", "0" * 16, "1" * 16
NAMESPACE = "roll"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/hybrid-talos-roll-{POOL}"


class Cloud:
    """Machines whose Nodes are on the real server."""

    def __init__(self, kubelets: Kubelets, api: Api, old: int) -> None:
        self.kubelets, self.api = kubelets, api
        self.names: list[str] = []
        self.count = 0
        for _ in range(old):
            self._add(OLD)

    def _add(self, stamp: str) -> None:
        name = f"rolled-{self.count}"
        self.count += 1
        labels = {"hybrid-talos.dev/pool": POOL, "hybrid-talos.dev/template": stamp, "test": "roll"}
        self.kubelets.add(name, labels)
        patch = {"spec": {"providerID": f"azure:///Test/{name}"}}
        self.api.call("PATCH", f"/api/v1/nodes/{name}", patch, kind="application/merge-patch+json")
        self.names.append(name)

    def instances(self) -> list[Instance]:
        return [Instance(name, f"azure:///test/{name}") for name in self.names]

    def size(self) -> int:
        return len(self.names)

    def least(self) -> int:
        return 0

    def grow(self, size: int, by: int, token: str) -> None:
        for _ in range(by):
            self._add(NEW)

    def remove(self, instance: str) -> None:
        assert not [pod for pod in self.api.items(PODS, fieldSelector=f"spec.nodeName={instance}")], "pods are left"
        self.names.remove(instance)
        # Its kubelet is gone with it; its Node is the roll's own affair.
        self.kubelets.nodes.discard(instance)

    def update(self, instance: str) -> None:
        raise AssertionError


@pytest.fixture
def place(cluster: Cluster, kubelets: Kubelets, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(kubernetes_nodes, "_PAUSE", 0.2)
    monkeypatch.setattr(pool_roll, "_PAUSE", 0.2)
    api = cluster.api()
    if api.find(f"/api/v1/namespaces/{NAMESPACE}") is None:
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        wait_for("account", lambda: api.find(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"))
    yield api
    for path in (BUDGETS, DEPLOYMENTS, PODS):
        api.clear(path)
    kubelets.remove(*[name for name in api.names("/api/v1/nodes") if name.startswith("rolled-")])
    if api.find(LEASE) is not None:
        api.call("DELETE", LEASE)


@pytest.fixture
def nodes(cluster: Cluster) -> Iterator[KubernetesNodes]:
    with nodes_of(cluster.admin_kubeconfig(), None) as found:
        yield found


def journal(nodes: KubernetesNodes, **more: Any) -> LeaseJournal:
    return LeaseJournal(nodes.api, POOL, lambda line: None, sleep=time.sleep, **more)


def held(api: Api) -> list[str]:
    """Return the Nodes that are held from the autoscaler, or cordoned."""
    found = api.items("/api/v1/nodes")
    return sorted(
        node["metadata"]["name"]
        for node in found
        if HELD in node["metadata"].get("annotations", {})
        or SCALE_DOWN_DISABLED in node["metadata"].get("annotations", {})
        or (node["metadata"]["name"].startswith("rolled-") and node["spec"].get("unschedulable"))
    )


def deploy(api: Api) -> None:
    container = {"name": "app", "image": "registry.example.com/app:1"}
    place = {"nodeSelector": {"test": "roll"}, "terminationGracePeriodSeconds": 0, "containers": [container]}
    template = {"metadata": {"labels": {"app": "a"}}, "spec": place}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    api.create(DEPLOYMENTS, {"metadata": {"name": "a"}, "spec": spec})
    wait_for("pods", lambda: api.get(f"{DEPLOYMENTS}/a")["status"].get("readyReplicas") == 2)
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    api.create(BUDGETS, {"metadata": {"name": "a"}, "spec": budget})
    wait_for("budget", lambda: api.get(f"{BUDGETS}/a").get("status", {}).get("expectedPods"))


def test_a_pool_is_rolled_and_nothing_is_left_behind(place: Api, nodes: KubernetesNodes, kubelets: Kubelets) -> None:
    cloud = Cloud(kubelets, place, 2)
    deploy(place)
    mine = KubernetesPoolNodes(nodes, POOL)
    seen: list[list[str]] = []
    drain = mine.drain

    def watched(name: str, seconds: float, **more: Any) -> None:
        seen.append(held(place))
        drain(name, seconds, **more)

    mine.drain = watched  # type: ignore[method-assign]
    done = Roll(Rule(POOL, NEW, 5, drain_seconds=60), cloud, mine, journal(nodes), lambda line: None).run()
    assert done == ["rolled-0", "rolled-1"]
    # While it drains, the whole pool is held, and no node of anybody else.
    assert set(seen[0]) == {"rolled-0", "rolled-1", "rolled-2"}
    assert held(place) == []
    left = [name for name in place.names("/api/v1/nodes") if name.startswith("rolled-")]
    assert left == ["rolled-2", "rolled-3"]
    lease = place.get(LEASE)
    assert not lease["spec"].get("holderIdentity")
    assert lease["metadata"]["annotations"]["hybrid-talos.dev/roll"] == '{"extra": 0, "pending": null}'


def test_a_hold_that_somebody_else_has_set_stays(place: Api, nodes: KubernetesNodes, kubelets: Kubelets) -> None:
    Cloud(kubelets, place, 2)
    theirs = {"metadata": {"annotations": {SCALE_DOWN_DISABLED: "true"}}}
    place.call("PATCH", "/api/v1/nodes/rolled-0", theirs, kind="application/merge-patch+json")
    mine = KubernetesPoolNodes(nodes, POOL)
    mine.nodes()
    mine.hold("rolled-0")
    mine.hold("rolled-1")
    mine.cordon("rolled-1")
    assert list(mine.let_go()) == ["rolled-1"]
    assert held(place) == ["rolled-0"]


def test_what_a_killed_roll_has_left_is_read_and_undone(place: Api, nodes: KubernetesNodes, kubelets: Kubelets) -> None:
    cloud = Cloud(kubelets, place, 1)
    killed = journal(nodes)
    with killed.held():
        killed.write(Progress(1, Pending(remove="rolled-9", node="rolled-9")))
        mine = KubernetesPoolNodes(nodes, POOL)
        mine.nodes()
        mine.hold("rolled-0")
        mine.cordon("rolled-0")
        # As if it were dead: nothing releases the lock. Another waits until it expires, and no longer.
        with pytest.raises(KubernetesError, match=r"another roll of azure-rolled is under way .*hybrid-talos-roll"):
            journal(nodes, patience=0)._take()
        later = journal(nodes, now=lambda: datetime.now(UTC) + timedelta(seconds=90))
        with later.held() as progress:
            assert progress == Progress(1, Pending(remove="rolled-9", node="rolled-9"))
            with pytest.raises(KubernetesError, match="has taken over"):
                killed.write(Progress())
    assert mine.held() == ["rolled-0"]
    Roll(Rule(POOL, NEW, 5), cloud, KubernetesPoolNodes(nodes, POOL), journal(nodes), lambda line: None).run()
    assert held(place) == []


CHILD = """
import sys, time
from hybrid_talos.kubernetes_nodes import nodes_of
from hybrid_talos.pool_nodes import KubernetesPoolNodes, LeaseJournal
with nodes_of(sys.stdin.read(), None) as nodes:
    journal = LeaseJournal(nodes.api, "azure-rolled", print, sleep=time.sleep)
    with journal.held():
        mine = KubernetesPoolNodes(nodes, "azure-rolled")
        mine.nodes()
        mine.hold("rolled-0")
        mine.cordon("rolled-0")
        print("held", flush=True)
        time.sleep(600)
"""


def test_a_process_that_is_killed_leaves_a_lock_that_expires(
    place: Api, cluster: Cluster, nodes: KubernetesNodes, kubelets: Kubelets
) -> None:
    cloud = Cloud(kubelets, place, 1)
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(cluster.admin_kubeconfig())
        child.stdin.close()
        assert child.stdout.readline() == "held\n"
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    assert held(place) == ["rolled-0"]
    after = journal(nodes, now=lambda: datetime.now(UTC) + timedelta(seconds=90))
    Roll(Rule(POOL, NEW, 5), cloud, KubernetesPoolNodes(nodes, POOL), after, lambda line: None).run()
    assert held(place) == []
    assert cloud.names == ["rolled-1"]
