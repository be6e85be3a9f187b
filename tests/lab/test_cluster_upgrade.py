"""Upgrades of a cluster on the real engine, by the real talosctl on nodes that speak the real Talos API."""

import pyrage
import pytest
from cluster_settings import IDENTITY, NEW, ClusterLab, plans, refusal

pytestmark = pytest.mark.lab

ORDER = [
    "control-plane-cp-1-talos",
    "control-plane-cp-2-talos",
    "control-plane-cp-3-talos",
    "control-plane-kubernetes",
    "control-plane-cp-1-config",
    "control-plane-cp-2-config",
    "control-plane-cp-3-config",
    "control-plane-health",
    "workers-worker-1-talos",
    "workers-worker-2-talos",
    "workers-worker-1-config",
    "workers-worker-2-config",
    "workers-health",
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ClusterLab:
    return ClusterLab(tmp_path_factory.mktemp("upgrade"))


def test_a_new_cluster_is_up_and_then_nothing_changes(cluster: ClusterLab) -> None:
    lab = cluster.of()
    lab.up()
    assert lab.changes() == {}
    nodes = cluster.nodes()
    assert {node.talos for node in nodes.values()} == {"v1.12.7"}
    assert all(node.ready for node in nodes.values())
    assert not list(cluster.folder.glob("snapshots/*"))


def test_a_step_that_skips_a_minor_is_refused_with_the_way(cluster: ClusterLab) -> None:
    said = refusal(cluster.trying(talosVersion="1.14.0"))
    assert "Talos 1.12.7 -> 1.14.0 skips 1.13" in said
    assert "set the newest 1.13 first" in said


def test_a_step_back_is_refused(cluster: ClusterLab) -> None:
    assert "goes back by a minor" in refusal(cluster.trying(kubernetesVersion="1.33.0"))


def test_an_upgrade_without_a_place_for_snapshots_is_refused(cluster: ClusterLab) -> None:
    said = refusal(cluster.trying(**NEW, snapshots=None))
    assert "cluster.snapshots" in said
    assert "cluster.upgrade.snapshot: false" in said


def test_the_preview_tells_what_is_upgraded_and_in_which_order(cluster: ClusterLab) -> None:
    found = plans(cluster.trying(**NEW))
    assert found["control-plane-cp-1-talos"] == "Talos 1.12.7 -> 1.13.0, drained within 1 minutes"
    assert found["control-plane-cp-2-talos"] == "Talos 1.12.7 -> 1.13.0, after cp-1, drained within 1 minutes"
    assert found["workers-worker-2-talos"] == "Talos 1.12.7 -> 1.13.0, after worker-1, drained within 1 minutes"
    assert found["control-plane-kubernetes"].startswith("Kubernetes 1.34.1 -> 1.35.4: control planes one after the")
    assert found["control-plane-cp-1-member"] == "another configuration, without a reboot"


def test_talos_then_kubernetes_then_configurations_and_workers_last(cluster: ClusterLab) -> None:
    lab = cluster.of(**NEW)
    run = lab.up()
    seen = [(run.text.find(f"{name} updating"), name) for name in ORDER]
    assert all(at >= 0 for at, _ in seen), seen
    assert [name for _, name in sorted(seen)] == ORDER
    nodes = cluster.nodes()
    assert {(node.talos, node.kubelet.rpartition(":")[2]) for node in nodes.values()} == {("v1.13.0", "v1.35.4")}
    assert {node.counts["upgrades"] for node in nodes.values()} == {1}
    assert all(node.ready for node in nodes.values())
    taken = sorted(cluster.snapshots.iterdir())
    assert taken
    assert len(pyrage.decrypt(taken[0].read_bytes(), [IDENTITY])) > 512
    assert lab.changes() == {}


def test_no_secret_stands_in_the_state(cluster: ClusterLab) -> None:
    state = cluster.of().state()
    ours = [found for found in state if "pulumi-python:dynamic/cluster" in found["type"]]
    assert len(ours) > 15
    for found in ours:
        for properties in (found["inputs"], found["outputs"]):
            assert "PRIVATE KEY" not in str(properties)
            given = properties.get("client_configuration")
            # The engine's mark of an encrypted value.
            assert given is None or "4dabf18193072939515e22adb298388d" in given
