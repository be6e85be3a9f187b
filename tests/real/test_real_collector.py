"""The node collector as it stands in the cluster: its own script and settings, as a process, with its own token."""

import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hybrid_talos import node_collector_script as script
from kubelets import CONTROL_PLANE, Kubelets, conditions
from kubernetes_cluster import Api, Cluster, Refused, wait_for

pytestmark = pytest.mark.usefixtures("deployed")

NODES = "/api/v1/nodes"
POOL = "hybrid-talos.dev/pool"
ACCOUNT = "cloud-node-collector"
CHOSEN = {"key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule"}


class Collector:
    """Runs the collector as the cluster's CronJob would, on this machine."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        api = cluster.api()
        self.cluster = cluster
        job = api.get(f"/apis/batch/v1/namespaces/kube-system/cronjobs/{ACCOUNT}")
        pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        (mount,) = container["volumeMounts"]
        (volume,) = pod["volumes"]
        files = api.get(f"/api/v1/namespaces/kube-system/configmaps/{volume['configMap']['name']}")["data"]
        for name, text in files.items():
            (folder / name).write_text(text)
        # What a kubelet lays into the container.
        (folder / "token").touch(mode=0o600)
        (folder / "token").write_text(cluster.token("kube-system", pod["serviceAccountName"]))
        (folder / "ca.crt").write_bytes(cluster.ca.read_bytes())
        self.command = [word.replace(mount["mountPath"], str(folder)) for word in container["command"]]
        assert self.command[0] == "python3"
        self.command[0] = sys.executable
        self.environment = {one["name"]: one["value"] for one in container["env"]} | {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(cluster.port),
            "TOKEN_FOLDER": str(folder),
            "PATH": os.defpath,
        }

    def run(self, **environment: str) -> list[str]:
        """Run it once and return what it says."""
        done = subprocess.run(
            self.command,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return sorted(done.stdout.splitlines())


@pytest.fixture(scope="module")
def collector(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Collector:
    return Collector(cluster, tmp_path_factory.mktemp("collector"))


class Machines:
    """Nodes in any state; those that were made are taken away at the end."""

    def __init__(self, api: Api, kubelets: Kubelets) -> None:
        self.api = api
        self.kubelets = kubelets
        self.made: list[str] = []

    def alive(self, name: str, pool: str) -> None:
        """Add a node whose simulated kubelet reports."""
        self.kubelets.add(name, {POOL: pool})
        self.made.append(name)

    def silent(self, name: str, minutes: float, labels: dict[str, str], taints: tuple[Any, ...] = ()) -> None:
        """Add a node whose kubelet has been silent for so long, as the node controller writes it."""
        self.api.create(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {"taints": list(taints)}})
        self.made.append(name)
        since = (datetime.now(UTC) - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastHeartbeatTime": since,
            "lastTransitionTime": since,
        }
        self.api.merge(f"{NODES}/{name}/status", {"status": {"conditions": [ready]}})

    def there(self) -> set[str]:
        """Return which of those that were made are still there."""
        return set(self.made) & set(self.api.names(NODES))


@pytest.fixture
def machines(api: Api, kubelets: Kubelets) -> Iterator[Machines]:
    made = Machines(api, kubelets)
    yield made
    kubelets.remove(*made.made)


def test_exactly_the_nodes_whose_machine_is_gone_are_deleted(collector: Collector, machines: Machines) -> None:
    machines.alive("a-alive", "a")
    machines.silent("a-gone", 31, {POOL: "a"})
    machines.silent("a-brief", 29, {POOL: "a"})
    machines.silent("a-scaled-away", 6, {POOL: "a"}, (CHOSEN,))
    machines.silent("a-draining", 4, {POOL: "a"}, (CHOSEN,))
    # A whole pool that is silent may be cut off.
    machines.silent("b-cut-off", 23 * 60, {POOL: "b"})
    machines.silent("c-gone", 25 * 60, {POOL: "c"})
    # Nobody makes these again.
    machines.silent("worker-gone", 48 * 60, {})
    machines.silent("cp-gone", 48 * 60, {POOL: "a", CONTROL_PLANE: ""})
    before = machines.there()

    expected = {"a-gone", "a-scaled-away", "c-gone"}
    said = collector.run(DRY_RUN="true")
    assert {line.split()[3].rstrip(":") for line in said} == expected
    assert all(line.startswith("would delete node ") for line in said)
    assert machines.there() == before

    said = collector.run()
    assert {line.split()[2].rstrip(":") for line in said} == expected
    assert before - machines.there() == expected
    assert collector.run() == []


def test_a_machine_that_vanishes_is_found_by_what_the_node_controller_writes(
    collector: Collector, machines: Machines, kubelets: Kubelets, api: Api
) -> None:
    machines.alive("d-stays", "d")
    machines.alive("d-vanishes", "d")
    assert collector.run(GONE_SECONDS="0") == []
    kubelets.nodes.discard("d-vanishes")
    wait_for("silence", lambda: conditions(api.get(f"{NODES}/d-vanishes"))["Ready"] == "Unknown")
    assert collector.run() == []
    assert collector.run(GONE_SECONDS="0") == [
        "deleted node d-vanishes: silent while other nodes of its pool are ready"
    ]
    assert machines.there() == {"d-stays"}


def test_a_node_that_has_changed_since_it_was_read_stays(cluster: Cluster, machines: Machines, api: Api) -> None:
    machines.silent("e-gone", 60, {POOL: "e"})
    client = script.Api(cluster.url, cluster.token("kube-system", ACCOUNT), cluster.tls())
    (read,) = [node for node in client.nodes() if node["metadata"]["name"] == "e-gone"]
    api.merge(f"{NODES}/e-gone", {"metadata": {"annotations": {"changed": "since"}}})
    assert client.delete(read) is False
    assert machines.there() == {"e-gone"}
    (read,) = [node for node in client.nodes() if node["metadata"]["name"] == "e-gone"]
    assert client.delete(read) is True
    assert client.delete(read) is False


@pytest.mark.parametrize("labels", [{}, {CONTROL_PLANE: ""}, {POOL: "f", CONTROL_PLANE: ""}])
def test_admission_keeps_even_its_token_within_the_pools(
    cluster: Cluster, machines: Machines, labels: dict[str, str]
) -> None:
    machines.silent("f-protected", 60, labels)
    caller = cluster.account("kube-system", ACCOUNT)
    with pytest.raises(Refused, match="the collector deletes nodes of worker pools only"):
        caller.delete(f"{NODES}/f-protected")
    with pytest.raises(Refused):
        caller.delete(NODES)
    assert machines.there() == {"f-protected"}


def test_without_its_rights_it_fails_and_says_so(collector: Collector, cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(cluster.ca.read_bytes())
    (tmp_path / "token").write_text(cluster.token("kube-system", "demo-aliyun") + "x")
    with pytest.raises(AssertionError, match="401"):
        collector.run(TOKEN_FOLDER=str(tmp_path))


def test_a_job_of_it_is_made_and_admitted(api: Api) -> None:
    """Like `kubectl create job --from`: the real job controller makes the pod."""
    path = "/apis/batch/v1/namespaces/kube-system"
    template = api.get(f"{path}/cronjobs/{ACCOUNT}")["spec"]["jobTemplate"]
    api.create(f"{path}/jobs", {"metadata": {"name": "by-hand"}, "spec": template["spec"]})
    try:
        wait_for("pod", lambda: api.get(f"{path}/jobs/by-hand")["status"].get("active"))
    finally:
        api.delete(f"{path}/jobs/by-hand", {"propagationPolicy": "Background"})
