"""A cluster's life by this program's own work: the real talosctl, on nodes that speak the real Talos API."""

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyrage
import pytest
import yaml
from hybrid_talos import (
    change_gate,
    cluster_health,
    cluster_work,
    etcd_members,
    etcd_membership,
    kubernetes_upgrade,
    life_props,
    rotation_gate,
    rotation_record,
    talos_upgrade,
)
from hybrid_talos.talos_calls import Machine
from hybrid_talos.talosctl_run import find_talosctl
from hybrid_talos.work_provider import WorkError
from talos_cluster import CONTROL_PLANES, QUICK, WORKERS, Cluster

from lab import tools
from lab.talos.nodes import Timings

pytestmark = pytest.mark.real

SCHEMATIC = "ab" * 32
NEW = f"factory.talos.dev/installer/{SCHEMATIC}:v1.13.1"
SLOW: Timings = {"stop": 500, "boot": 1500}
"""So long that talosctl, which looks again after a second, finds a reboot still going on."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put talosctl on PATH, and wait for seconds where servers take minutes."""
    folder = tools.provide().talosctl.path.parent
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(cluster_work, "PAUSE", 0.2)
    limits = cluster_work.Limits(gate=6, boot=30, upgrade=60, kubernetes=120, health=30, lost=3)
    monkeypatch.setattr(life_props, "Limits", lambda: limits)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of three control planes and two workers, born by talosctl."""
    cluster = Cluster(tmp_path, tools.provide().talosctl.path, timings=QUICK)
    with cluster.nodes:
        cluster.up()
        cluster.nodes.timings(**SLOW)
        yield cluster
        assert cluster.nodes.unimplemented() == []


@pytest.fixture(scope="module")
def identity() -> Any:
    return pyrage.x25519.Identity.generate()


def machine(cluster: Cluster, name: str) -> dict[str, str]:
    return {"name": name, "address": cluster.nodes.address(name), "endpoint": cluster.nodes.endpoint(name)}


@pytest.fixture
def shared(cluster: Cluster, identity: Any, tmp_path: Path) -> dict[str, Any]:
    context = yaml.safe_load((cluster.folder / "talosconfig").read_text())["contexts"]["demo"]
    return {
        "members": [machine(cluster, name) for name in CONTROL_PLANES],
        "client_configuration": {
            "caCertificate": context["ca"],
            "clientCertificate": context["crt"],
            "clientKey": context["key"],
        },
        "kubernetes_server": cluster.nodes.kubernetes_endpoint,
        "drain_minutes": 1,
        "snapshots": {
            "cluster": "demo",
            "directory": str(tmp_path / "snapshots"),
            "recipients": [str(identity.to_public())],
        },
    }


def upgrade_props(cluster: Cluster, shared: dict[str, Any], name: str, version: str, image: str) -> dict[str, Any]:
    own = {"role": "worker" if name.startswith("worker") else "controlplane", "version": version}
    return {**shared, **machine(cluster, name), **own, "installer_image": image, "kubernetes_version": "1.35.4"}


def upgrade(cluster: Cluster, shared: dict[str, Any], name: str) -> None:
    old = upgrade_props(cluster, shared, name, "1.13.0", "ghcr.io/siderolabs/installer:v1.13.0")
    talos_upgrade.update(old, upgrade_props(cluster, shared, name, "1.13.1", NEW))


def upgraded(cluster: Cluster) -> list[str]:
    """Return the machines that booted another Talos, in order."""
    return [event.node for event in cluster.nodes.events(kind="upgraded")]


def wanted(cluster: Cluster, *names: str) -> cluster_health.Wanted:
    return cluster_health.Wanted(
        [Machine.of(machine(cluster, name)) for name in names],
        talos_upgrade.Target("1.13.0", "ghcr.io/siderolabs/installer:v1.13.0"),
        control_planes=True,
        nodes_ready=True,
    )


def member_props(cluster: Cluster, shared: dict[str, Any], name: str) -> dict[str, Any]:
    role = "worker" if name.startswith("worker") else "controlplane"
    return {**shared, **machine(cluster, name), "role": role, "teardown": False}


def test_three_control_planes_and_two_workers_are_upgraded_one_after_the_other(
    cluster: Cluster, shared: dict[str, Any], identity: Any, tmp_path: Path
) -> None:
    cluster.workload("web", 4)
    for name in (*CONTROL_PLANES, *WORKERS):
        upgrade(cluster, shared, name)
        others = [n for n in cluster.nodes.nodes().values() if n.name != name]
        assert all(node.ready for node in others)
    nodes = cluster.nodes.nodes()
    assert {(node.talos, node.schematic) for node in nodes.values()} == {("v1.13.1", SCHEMATIC)}
    assert upgraded(cluster) == [*CONTROL_PLANES, *WORKERS]
    assert {node.spec.unschedulable for node in cluster.kubernetes().list_node().items} <= {None, False}

    snapshots = sorted((tmp_path / "snapshots").iterdir())
    assert len(snapshots) >= 1
    assert all(path.name.startswith("demo-") and path.name.endswith(".db.age") for path in snapshots)
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in snapshots)
    assert len(pyrage.decrypt(snapshots[0].read_bytes(), [identity])) > 512

    # Again, as after a run that was killed before it could record anything.
    for name in (*CONTROL_PLANES, *WORKERS):
        upgrade(cluster, shared, name)
    assert upgraded(cluster) == [*CONTROL_PLANES, *WORKERS]


def test_an_upgrade_whose_answer_is_lost_is_found_to_have_worked(cluster: Cluster, shared: dict[str, Any]) -> None:
    cluster.nodes.fault("lose", "Reboot", "cp-2")
    upgrade(cluster, shared, "cp-2")
    node = cluster.nodes.node("cp-2")
    assert (node.talos, node.ready) == ("v1.13.1", True)
    assert upgraded(cluster) == ["cp-2"]


def test_a_control_plane_does_not_go_down_while_another_one_is_ill(cluster: Cluster, shared: dict[str, Any]) -> None:
    cluster.nodes.trouble("cp-3", etcdDown=True)
    with pytest.raises(WorkError) as refused:
        upgrade(cluster, shared, "cp-1")
    assert "cp-3" in str(refused.value)
    assert "1 of 3 would work" in str(refused.value)
    assert upgraded(cluster) == []


def test_a_machine_that_falls_back_to_its_old_talos_stops_the_upgrade(cluster: Cluster, shared: dict[str, Any]) -> None:
    cluster.nodes.trouble("cp-1", upgradeFails="disk is broken")
    with pytest.raises(WorkError) as failed:
        upgrade(cluster, shared, "cp-1")
    assert "1.13.0" in str(failed.value)
    cluster.nodes.trouble("cp-1", upgradeFails="")
    upgrade(cluster, shared, "cp-1")
    assert cluster.nodes.node("cp-1").talos == "v1.13.1"


def test_a_budget_that_lets_no_pod_go_stops_the_upgrade_and_leaves_the_machine_as_it_was(
    cluster: Cluster, shared: dict[str, Any]
) -> None:
    cluster.workload("web", 2)
    cluster.budget("web", 2)
    name = cluster.pods("web")[0].spec.node_name
    short = {**shared, "drain_minutes": 0.05}
    with pytest.raises(WorkError) as held:
        upgrade(cluster, short, name)
    assert "default/web" in str(held.value)
    assert upgraded(cluster) == []
    assert not cluster.kubernetes().read_node(name).spec.unschedulable


def test_kubernetes_is_upgraded_by_talosctl(cluster: Cluster, shared: dict[str, Any]) -> None:
    kubernetes_upgrade.update({**shared, "version": "1.35.4"}, {**shared, "version": "1.36.0"})
    assert {node.kubelet for node in cluster.nodes.nodes().values()} == {"ghcr.io/siderolabs/kubelet:v1.36.0"}


def test_a_control_plane_leaves_and_another_one_comes(cluster: Cluster, shared: dict[str, Any]) -> None:
    etcd_members.delete(member_props(cluster, shared, "cp-1"))
    cluster.wait("maintenance", "cp-1")
    assert cluster.members("cp-2") == ["cp-2", "cp-3"]
    with life_props.cluster_of(shared) as known, known.nodes() as nodes:
        assert nodes.status("cp-1") is None
    # The bootstrap member is nothing special any more: it joins as a new one.
    cluster.apply_first("cp-1")
    cluster.wait_ready()
    with life_props.cluster_of(shared) as known:
        cluster_health.wait_until_healthy(known, wanted(cluster, *CONTROL_PLANES))
    assert cluster.members("cp-2") == list(CONTROL_PLANES)
    assert sum(n.counts["bootstraps"] for n in cluster.nodes.nodes().values()) == 1


def test_two_removals_at_once_happen_one_after_the_other_and_the_second_is_refused(
    cluster: Cluster, shared: dict[str, Any]
) -> None:
    errors: list[WorkError] = []

    def remove(name: str) -> None:
        try:
            etcd_members.delete(member_props(cluster, shared, name))
        except WorkError as error:
            errors.append(error)

    threads = [threading.Thread(target=remove, args=(name,)) for name in ("cp-2", "cp-3")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 1
    assert "a cluster of 3 keeps 2 at least" in str(errors[0])
    (etcd,) = cluster.nodes.etcds()
    assert etcd.quorum
    assert len(etcd.voters) == 2


def test_a_dead_member_is_taken_out_so_that_a_new_one_can_join(cluster: Cluster, shared: dict[str, Any]) -> None:
    cluster.nodes.power_off("cp-3")
    new = {**shared, "members": [machine(cluster, "cp-1"), machine(cluster, "cp-2"), machine(cluster, "worker-1")]}
    etcd_membership.update(shared, new)
    assert cluster.members("cp-1") == ["cp-1", "cp-2"]
    # And its own removal, later in the same run, only has to forget it.
    etcd_members.delete(member_props(cluster, shared, "cp-3"))
    assert "cp-3" not in [node.metadata.name for node in cluster.kubernetes().list_node().items]


def test_a_machine_that_works_and_is_not_reached_is_not_taken_for_dead(
    cluster: Cluster, shared: dict[str, Any]
) -> None:
    cluster.nodes.fault("hang", "Version", "cp-3", times=0)
    with pytest.raises(WorkError) as refused:
        etcd_members.delete(member_props(cluster, shared, "cp-3"))
    assert "it is not dead" in str(refused.value)
    assert cluster.members("cp-1") == list(CONTROL_PLANES)


def test_a_worker_is_drained_wiped_and_forgotten(cluster: Cluster, shared: dict[str, Any]) -> None:
    cluster.workload("web", 4)
    etcd_members.delete(member_props(cluster, shared, "worker-1"))
    cluster.wait("maintenance", "worker-1")
    assert len(cluster.pods("web")) == 4
    assert {pod.spec.node_name for pod in cluster.pods("web")} == {"worker-2"}


def test_health_says_which_member_lacks_what(cluster: Cluster, shared: dict[str, Any]) -> None:
    cluster.nodes.trouble("cp-2", kubeletDown=True)
    cluster.nodes.trouble("cp-3", etcdDown=True)
    with life_props.cluster_of(shared) as known:
        cluster.nodes.wait("ill", lambda n: not n["cp-2"].ready and not n["cp-3"].ready)
        found = cluster_health.problems(known, wanted(cluster, *CONTROL_PLANES))
    text = "\n".join(found)
    assert "cp-1" not in text
    assert "cp-2: kubelet" in text
    assert "cp-3" in text
    assert "etcd" in text


def test_the_gate_waits_for_a_member_that_reboots(cluster: Cluster, shared: dict[str, Any]) -> None:
    cluster.nodes.power_cycle("cp-1")
    with life_props.cluster_of(shared) as known:
        patient = replace(known, limits=replace(known.limits, gate=60))
        change_gate.gate(
            patient,
            Machine.of(machine(cluster, "cp-2")),
            control_plane=True,
            before=[Machine.of(machine(cluster, "cp-1"))],
            reboots=True,
        )
    assert cluster.nodes.node("cp-1").ready


def test_no_secret_is_in_arguments_errors_or_files(
    cluster: Cluster, shared: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = tmp_path / "words"
    path = find_talosctl()[0]
    spy = tmp_path / "bin" / "talosctl"
    spy.parent.mkdir()
    # What it was called with, and what it finds in the environment.
    spy.write_text(f'#!/bin/sh\necho "$@" >> {words}\nenv >> {words}\nexec {path} "$@"\n')
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{spy.parent}{os.pathsep}{os.environ['PATH']}")
    cluster.nodes.trouble("cp-3", etcdDown=True)
    with pytest.raises(WorkError) as refused:
        upgrade(cluster, shared, "cp-1")
    seen = words.read_text() + str(refused.value)
    assert "/proc/self/fd/" in seen
    for secret in shared["client_configuration"].values():
        assert secret[:60] not in seen


def rotation_steps(tokens: str) -> dict[str, Any]:
    return {"talos_authority": {"generation": 0, "stage": "finish"}, "join_tokens": {"generation": 1, "stage": tokens}}


def test_the_end_of_a_rotation_deletes_the_old_bootstrap_token(cluster: Cluster, shared: dict[str, Any]) -> None:
    api = cluster.kubernetes()
    for name in ("bootstrap-token-aaaaaa", "bootstrap-token-bbbbbb"):
        api.create_namespaced_secret("kube-system", {"metadata": {"name": name}, "stringData": {"id": name}})
    machines = [machine(cluster, name) for name in (*CONTROL_PLANES, *WORKERS)]
    props = {**shared, "machines": machines, "token": "bbbbbb", "check_configuration": shared["client_configuration"]}
    issued = {**props, "steps": rotation_steps("issue"), "old_token": "aaaaaa"}
    rotation_record.update(issued, {**props, "steps": rotation_steps("finish"), "old_token": ""})
    left = {secret.metadata.name for secret in api.list_namespaced_secret("kube-system").items}
    assert ("bootstrap-token-aaaaaa" in left, "bootstrap-token-bbbbbb" in left) == (False, True)


def test_a_rotation_asks_every_machine_before_any_is_changed(cluster: Cluster, shared: dict[str, Any]) -> None:
    bundle = yaml.safe_load((cluster.folder / "secrets.yaml").read_text())
    token = bundle["secrets"]["bootstraptoken"].partition(".")[0]
    before = cluster.configs()
    # Of a set that no machine knows.
    props = {**shared, "steps": rotation_steps("finish"), "authority": "", "token": "zzzzzz"}
    with pytest.raises(WorkError) as held:
        rotation_gate.update({**props, "steps": rotation_steps("issue")}, props)
    for name in (*CONTROL_PLANES, *WORKERS):
        assert f"{name} has the old join tokens" in str(held.value)
    assert cluster.configs() == before
    rotation_gate.update({**props, "steps": rotation_steps("issue")}, {**props, "token": token})
