"""The fake Talos nodes, held against the real talosctl."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from talos_cluster import CONTROL_PLANES, QUICK, WORKERS, Cluster

from lab import tools
from lab.talos.nodes import Machine, NodesError, TalosNodes, Timings

pytestmark = pytest.mark.real

SLOW: Timings = {"stop": 500, "boot": 1500}
"""So long that talosctl, which looks again after a second, finds a reboot still going on."""

INSTALLER = "factory.talos.dev/installer/" + "ab" * 32 + ":v1.13.1"


@pytest.fixture(scope="module")
def talosctl() -> Path:
    return tools.provide().talosctl.path


@pytest.fixture
def empty(tmp_path: Path, talosctl: Path) -> Iterator[Cluster]:
    """Machines in maintenance mode."""
    cluster = Cluster(tmp_path, talosctl, timings=QUICK)
    with cluster.nodes:
        cluster.wait("maintenance")
        yield cluster
        assert cluster.nodes.unimplemented() == []


@pytest.fixture
def cluster(tmp_path: Path, talosctl: Path) -> Iterator[Cluster]:
    """A cluster of three control planes and two workers, born by talosctl."""
    cluster = Cluster(tmp_path, talosctl, timings=QUICK)
    with cluster.nodes:
        cluster.up()
        yield cluster
        assert cluster.nodes.unimplemented() == []


def test_a_cluster_is_born_upgraded_and_reset(empty: Cluster) -> None:
    empty.up()
    assert empty.run("health", "--wait-timeout", "60s", nodes=["cp-1"]).code == 0
    assert empty.members("cp-2") == list(CONTROL_PLANES)
    assert sum(n.counts["bootstraps"] for n in empty.nodes.nodes().values()) == 1

    empty.nodes.timings(**SLOW)
    for name in (*CONTROL_PLANES, *WORKERS):
        before = empty.nodes.node(name).bootID
        empty.do("upgrade", "--image", INSTALLER, "--drain=false", "--wait", "--timeout", "100s", nodes=[name])
        after = empty.nodes.node(name)
        assert (after.talos, after.schematic) == ("v1.13.1", "ab" * 32)
        assert after.bootID != before
        empty.do("health", "--wait-timeout", "60s", nodes=["cp-1"])

    for name in (*WORKERS, "cp-3"):
        empty.do("reset", "--graceful", "--reboot", "--wait", "--timeout", "100s", nodes=[name])
    assert empty.members("cp-1") == ["cp-1", "cp-2"]
    empty.wait("maintenance", *WORKERS, "cp-3")
    assert empty.nodes.node("cp-3").config == ""


def test_maintenance_mode_shows_disks_links_and_addresses_and_no_more(empty: Cluster) -> None:
    at = empty.nodes.endpoint("cp-1")
    assert "/24" in empty.do("get", "addresses", "--insecure", "-n", at)
    assert "eth0" in empty.do("get", "links", "--insecure", "-n", at)
    assert "64 GiB" in empty.do("get", "disks", "--insecure", "-n", at)
    assert "v1.13.0" in empty.do("version", "--insecure", "-n", at)
    # In Talos 1.13 everybody is a reader there: nobody may reset.
    assert "not authorized" in empty.run("reset", "--insecure", "--wait=false", "-n", at).text


def test_a_config_that_talos_refuses_is_refused(empty: Cluster) -> None:
    empty.generate()
    text = (empty.folder / "worker.yaml").read_text()
    (empty.folder / "worker.yaml").write_text(text + "---\napiVersion: v1alpha1\nkind: NoSuchConfig\n")
    ran = empty.run("apply-config", "--insecure", "-f", "worker.yaml", nodes=["worker-1"])
    assert ran.code != 0
    assert "NoSuchConfig" in ran.text
    assert empty.nodes.node("worker-1").phase == "maintenance"


def test_a_disk_that_is_not_there_ends_in_maintenance_mode_again(empty: Cluster) -> None:
    empty.generate()
    disk = "machine: {install: {disk: /dev/nvme0n1}}"
    empty.do("apply-config", "--insecure", "-f", "worker.yaml", "-p", disk, nodes=["worker-1"])
    empty.nodes.wait("booted", lambda n: n["worker-1"].counts["boots"] == 2)
    assert empty.nodes.node("worker-1").phase == "maintenance"
    failed = empty.nodes.events(kind="install failed")
    assert [each.text for each in failed] == ['disk "/dev/nvme0n1" not found']


def test_only_one_bootstrap_and_only_on_a_control_plane(cluster: Cluster) -> None:
    assert "AlreadyExists" in cluster.run("bootstrap", nodes=["cp-1"]).text
    assert "AlreadyExists" in cluster.run("bootstrap", nodes=["cp-2"]).text
    assert "only available on control plane nodes" in cluster.run("bootstrap", nodes=["worker-1"]).text
    assert len(cluster.nodes.etcds()) == 1


def test_a_second_bootstrap_before_the_join_tears_the_cluster_apart(empty: Cluster) -> None:
    empty.nodes.timings(join=60_000)
    empty.generate()
    empty.apply_first("cp-1", "cp-2")
    empty.wait("running", "cp-1", "cp-2")
    for name in ("cp-1", "cp-2"):
        empty.do("bootstrap", nodes=[name])
    assert len(empty.nodes.etcds()) == 2


def test_strangers_are_refused(cluster: Cluster) -> None:
    cluster.do("gen", "secrets", "-o", "other.yaml")
    words = ("--with-secrets", "other.yaml", "-t", "talosconfig", "-o", "other")
    cluster.do("gen", "config", "other", "https://192.0.2.10:6443", *words)
    ran = cluster.run("--talosconfig", "other", "-e", cluster.nodes.endpoint("cp-1"), "version", nodes=["cp-1"])
    assert ran.code != 0
    assert "certificate" in ran.text
    # Without a certificate it is the connection that ends, with the one error or another.
    assert cluster.run("version", "--insecure", nodes=["cp-1"]).code != 0


def test_a_role_allows_what_it_allows(cluster: Cluster) -> None:
    cluster.do("config", "new", "reader", "--roles", "os:reader", nodes=["cp-1"])
    reader = ("--talosconfig", "reader", "-e", cluster.nodes.endpoint("cp-1"))
    assert cluster.run(*reader, "etcd", "status", nodes=["cp-1"]).code == 0
    assert "not authorized" in cluster.run(*reader, "reboot", "--wait=false", nodes=["cp-1"]).text
    assert "not authorized" in cluster.run(*reader, "get", "machineconfig", nodes=["cp-1"]).text


def test_configs_are_applied_in_the_mode_that_talos_would_choose(cluster: Cluster) -> None:
    def apply(patch: str, *words: str) -> str:
        ran = cluster.run("patch", "machineconfig", "-p", patch, *words, nodes=["worker-1"])
        return ran.text

    before = cluster.nodes.node("worker-1")
    label = "machine: {nodeLabels: {example.com/rack: a}}"
    files = "machine: {files: [{content: x, path: /var/x, permissions: 0o600, op: create}]}"

    assert "without a reboot" in apply(label, "--dry-run")
    assert "with a reboot" in apply(files, "--dry-run")
    assert cluster.nodes.node("worker-1").config == before.config

    assert "without a reboot" in apply(label)
    assert "can't be applied in immediate mode" in apply(files, "--mode", "no-reboot")
    assert "Staged" in apply(files, "--mode", "staged")
    now = cluster.nodes.node("worker-1")
    assert (now.bootID, now.config != now.persisted) == (before.bootID, True)

    assert "with a reboot" in apply(files, "--mode", "auto")
    cluster.nodes.wait("rebooted", lambda n: n["worker-1"].bootID != before.bootID and n["worker-1"].ready)
    now = cluster.nodes.node("worker-1")
    assert now.config == now.persisted


def test_a_config_on_trial_goes_away_again(cluster: Cluster) -> None:
    before = cluster.nodes.node("worker-1").config
    label = "machine: {nodeLabels: {example.com/rack: a}}"
    words = ("-p", label, "--mode", "try", "--timeout", "2s")
    assert "automatically reverted" in cluster.run("patch", "machineconfig", *words, nodes=["worker-1"]).text
    assert cluster.nodes.node("worker-1").config != before
    cluster.nodes.wait("reverted", lambda n: n["worker-1"].config == before)


def test_etcd_without_quorum_answers_as_etcd_does(cluster: Cluster) -> None:
    cluster.nodes.power_off("cp-3")
    assert cluster.run("etcd", "members", nodes=["cp-1"]).code == 0
    # A member that runs may not go when only two of three are there.
    assert "unhealthy cluster" in cluster.run("etcd", "leave", nodes=["cp-2"]).text
    cluster.nodes.power_off("cp-2")
    assert "no leader" in cluster.run("etcd", "members", nodes=["cp-1"]).text
    assert "no leader" in cluster.run("etcd", "status", nodes=["cp-1"]).text
    assert cluster.run("health", "--wait-timeout", "2s", nodes=["cp-1"]).code != 0
    cluster.nodes.power_on("cp-2")
    cluster.nodes.wait("back", lambda n: n["cp-2"].etcdState == "Running")
    assert cluster.members("cp-1") == list(CONTROL_PLANES)


def test_a_member_leaves_and_a_dead_one_is_removed(cluster: Cluster) -> None:
    cluster.do("etcd", "leave", nodes=["cp-3"])
    assert cluster.members("cp-1") == ["cp-1", "cp-2"]
    # Two can lose none: with one of them dark there is no quorum to remove it with.
    cluster.nodes.power_cycle("cp-3")
    cluster.wait_ready()
    assert cluster.members("cp-1") == list(CONTROL_PLANES)
    cluster.nodes.replace("cp-3")
    cluster.wait("maintenance", "cp-3")
    dead = next(m.id for m in cluster.nodes.etcds()[0].members if m.name == "cp-3")
    cluster.do("etcd", "remove-member", dead, nodes=["cp-1"])
    assert cluster.members("cp-1") == ["cp-1", "cp-2"]
    cluster.apply_first("cp-3")
    cluster.wait_ready()
    assert cluster.members("cp-1") == list(CONTROL_PLANES)


def test_a_cluster_comes_back_from_a_snapshot(cluster: Cluster) -> None:
    out = cluster.do("etcd", "snapshot", "db.snapshot", nodes=["cp-2"])
    assert "etcd snapshot saved" in out
    for name in CONTROL_PLANES:
        cluster.nodes.replace(name)
    cluster.wait("maintenance", *CONTROL_PLANES)
    cluster.apply_first(*CONTROL_PLANES)
    cluster.wait("running", *CONTROL_PLANES)

    # As with Talos, talosctl succeeds: it is the node's etcd that does not start.
    damaged = bytearray((cluster.folder / "db.snapshot").read_bytes())
    damaged[-1] ^= 1
    (cluster.folder / "damaged").write_bytes(damaged)
    cluster.do("bootstrap", "--recover-from", "damaged", nodes=["cp-3"])
    cluster.nodes.wait("failed", lambda n: n["cp-3"].etcdState == "Failed")
    assert "sha256" in cluster.do("service", "etcd", nodes=["cp-3"])

    assert "recovering from snapshot" in cluster.do("bootstrap", "--recover-from", "db.snapshot", nodes=["cp-3"])
    cluster.wait_ready()
    newest = cluster.nodes.etcds()[-1]
    assert len(newest.origin) == 64
    assert [member.name for member in newest.voters][0] == "cp-3"


def test_the_last_member_cannot_leave(tmp_path: Path, talosctl: Path) -> None:
    single = Cluster(tmp_path, talosctl, names=["cp-1"])
    with single.nodes:
        single.up()
        assert "not enough started members" in single.run("etcd", "leave", nodes=["cp-1"]).text
        single.do("reset", "--graceful", "--wait=false", nodes=["cp-1"])
        single.nodes.wait("failed", lambda _: bool(single.nodes.events(kind="sequence failed")))
        assert single.nodes.node("cp-1").phase == "running"
        single.do("reset", "--graceful=false", "--reboot", "--wait=false", nodes=["cp-1"])
        single.wait("maintenance")


def test_a_member_that_lost_its_data_joins_anew(cluster: Cluster) -> None:
    before = cluster.nodes.node("cp-2").member
    cluster.nodes.lose_etcd("cp-2")
    cluster.nodes.wait("joined", lambda n: n["cp-2"].member not in ("", before) and n["cp-2"].ready)
    cluster.wait_ready()
    assert cluster.members("cp-1") == list(CONTROL_PLANES)
    assert len(cluster.nodes.etcds()) == 1


def test_a_node_that_the_network_does_not_reach_is_unavailable_and_no_member(cluster: Cluster) -> None:
    cluster.nodes.trouble("cp-3", dark=True)
    assert "refused" in cluster.run("-e", cluster.nodes.endpoint("cp-1"), "version", nodes=["cp-3"]).text
    assert "unhealthy cluster" in cluster.run("etcd", "leave", nodes=["cp-2"]).text
    boot = cluster.nodes.node("cp-3").bootID
    cluster.nodes.trouble("cp-3", dark=False)
    cluster.wait_ready()
    assert cluster.nodes.node("cp-3").bootID == boot


def test_a_full_disk_raises_etcds_alarm(cluster: Cluster) -> None:
    assert "NOSPACE" not in cluster.do("etcd", "alarm", "list", nodes=["cp-1"])
    cluster.nodes.trouble("cp-2", diskFull=True)
    assert "NOSPACE" in cluster.do("etcd", "alarm", "list", nodes=["cp-1"])
    ran = cluster.run("upgrade", "--image", INSTALLER, "--drain=false", nodes=["cp-2"])
    assert "no space left on device" in ran.text


def test_a_worker_waits_for_a_control_plane_that_signs_its_certificate(empty: Cluster) -> None:
    empty.generate()
    empty.apply_first("worker-1")
    empty.nodes.wait("running", lambda n: n["worker-1"].phase == "running")
    assert not empty.nodes.node("worker-1").online
    empty.apply_first("cp-1")
    empty.wait("running", "cp-1", "worker-1")
    assert "v1.13.0" in empty.do("-e", empty.nodes.endpoint("cp-1"), "version", nodes=["worker-1"])


def test_calls_meet_the_faults_that_wait_for_them(cluster: Cluster) -> None:
    nodes = cluster.nodes
    nodes.fault("refuse", "EtcdMemberList", "cp-1", code="Unavailable", text="try later")
    assert "try later" in cluster.run("etcd", "members", nodes=["cp-1"]).text
    assert cluster.run("etcd", "members", nodes=["cp-1"]).code == 0

    nodes.fault("hang", "EtcdMemberList", "cp-1")
    with pytest.raises(subprocess.TimeoutExpired):
        cluster.run("etcd", "members", nodes=["cp-1"], timeout=2)

    nodes.fault("slow", "EtcdMemberList", "cp-1", delay=200)
    assert cluster.run("etcd", "members", nodes=["cp-1"]).code == 0

    # The answer is lost, and all was done.
    nodes.fault("lose", "EtcdLeaveCluster", "cp-3")
    assert cluster.run("etcd", "leave", nodes=["cp-3"]).code != 0
    assert cluster.members("cp-1") == ["cp-1", "cp-2"]


def test_a_node_that_dies_in_the_middle_comes_back_with_another_boot_id(cluster: Cluster) -> None:
    before = cluster.nodes.node("cp-2")
    cluster.nodes.fault("die", "EtcdSnapshot", "cp-2", after=1)
    ran = cluster.run("etcd", "snapshot", "cut.snapshot", nodes=["cp-2"])
    assert ran.code != 0
    assert not (cluster.folder / "cut.snapshot").exists()
    cluster.wait_ready()
    after = cluster.nodes.node("cp-2")
    assert after.bootID != before.bootID
    assert after.member == before.member


def test_an_upgrade_that_the_installer_refuses_changes_nothing(cluster: Cluster) -> None:
    cluster.nodes.trouble("worker-1", upgradeFails="no space left on device")
    before = cluster.nodes.node("worker-1")
    ran = cluster.run("upgrade", "--image", INSTALLER, "--drain=false", nodes=["worker-1"])
    assert ran.code != 0
    assert "exit code 1" in ran.text
    after = cluster.nodes.node("worker-1")
    assert (after.talos, after.bootID) == (before.talos, before.bootID)


def test_kubernetes_is_upgraded_by_talosctl(cluster: Cluster) -> None:
    plain = ("--with-docs=false", "--with-examples=false")
    before = {name: node.bootID for name, node in cluster.nodes.nodes().items()}
    cluster.do("upgrade-k8s", "--to", "1.36.0", *plain, nodes=["cp-1"], timeout=180)
    after = cluster.nodes.nodes()
    assert {node.kubelet for node in after.values()} == {"ghcr.io/siderolabs/kubelet:v1.36.0"}
    assert {name: node.bootID for name, node in after.items()} == before
    assert "registry.k8s.io/kube-apiserver:v1.36.0" in after["cp-3"].pulled
    for words in (("--server=false",), ()):
        cluster.do("health", "--wait-timeout", "60s", *words, nodes=["cp-1"])
    # The second run finds nothing to do.
    applies = {name: node.counts["applies"] for name, node in after.items()}
    assert " > update " not in cluster.do("upgrade-k8s", "--to", "1.36.0", *plain, nodes=["cp-1"], timeout=180)
    assert {name: node.config for name, node in cluster.nodes.nodes().items()} == {
        n.name: n.config for n in after.values()
    }
    assert all(node.counts["applies"] >= applies[name] for name, node in cluster.nodes.nodes().items())


def test_kubernetes_images_that_cannot_be_pulled_stop_the_upgrade_before_it_begins(cluster: Cluster) -> None:
    cluster.nodes.trouble("cp-2", noPull=True)
    before = cluster.configs()
    ran = cluster.run("upgrade-k8s", "--to", "1.36.0", nodes=["cp-1"])
    assert ran.code != 0
    assert "failed pre-pulling" in ran.text
    assert cluster.configs() == before


def test_both_authorities_are_rotated_by_talosctl(cluster: Cluster) -> None:
    words = ("--dry-run=false", "--with-docs=false", "--with-examples=false", "--output", "rotated")
    cluster.do("rotate-ca", *words, nodes=["cp-1"], timeout=180)
    assert "certificate" in cluster.run("version", nodes=["cp-1"]).text
    cluster.env["TALOSCONFIG"] = str(cluster.folder / "rotated")
    cluster.do("health", "--server=false", "--wait-timeout", "60s", nodes=["cp-1"])
    cluster.nodes.power_cycle("worker-1")
    cluster.wait_ready()
    assert "v1.13.0" in cluster.do("version", nodes=["worker-1"])


def test_a_node_is_drained_before_it_is_upgraded_and_open_after(cluster: Cluster) -> None:
    api = cluster.kubernetes()
    hog = api.list_node().items
    assert {node.metadata.name for node in hog} == {*CONTROL_PLANES, *WORKERS}
    cluster.workload("web", replicas=4)
    assert {pod.spec.node_name for pod in cluster.pods("web")} == set(WORKERS)

    cluster.nodes.timings(**SLOW)
    out = cluster.run("upgrade", "--image", INSTALLER, "--drain", "--timeout", "100s", nodes=["worker-1"])
    assert out.code == 0, out.text
    assert "node drained" in out.text
    assert not any(node.spec.unschedulable for node in api.list_node().items)
    assert {pod.spec.node_name for pod in cluster.pods("web")} == {"worker-2"}

    cluster.budget("web", min_available=4)
    ran = cluster.run("upgrade", "--image", INSTALLER, "--drain-timeout", "3s", "--timeout", "100s", nodes=["worker-2"])
    assert ran.code != 0
    assert cluster.nodes.node("worker-2").talos == "v1.13.0"


def test_a_reset_node_is_left_over_in_kubernetes(cluster: Cluster) -> None:
    cluster.nodes.timings(**SLOW)
    cluster.do("reset", "--graceful", "--reboot", "--wait", "--timeout", "100s", nodes=["worker-2"])
    ran = cluster.run("health", "--wait-timeout", "3s", nodes=["cp-1"])
    assert "unexpected nodes" in ran.text
    cluster.kubernetes().delete_node("worker-2")
    cluster.do("health", "--wait-timeout", "60s", nodes=["cp-1"])


def test_what_kubernetes_held_comes_back_with_the_snapshot(cluster: Cluster) -> None:
    cluster.workload("web", replicas=1)
    cluster.do("etcd", "snapshot", "db.snapshot", nodes=["cp-1"])
    for name in CONTROL_PLANES:
        cluster.nodes.replace(name)
    cluster.wait("maintenance", *CONTROL_PLANES)
    cluster.apply_first(*CONTROL_PLANES)
    cluster.wait("running", *CONTROL_PLANES)
    cluster.do("bootstrap", "--recover-from", "db.snapshot", nodes=["cp-2"])
    cluster.wait_ready()
    assert len(cluster.pods("web")) == 1


def test_a_fleet_that_was_killed_comes_back_as_it_was(cluster: Cluster) -> None:
    nodes = cluster.nodes
    before, etcds, lines = nodes.nodes(), nodes.etcds(), len(nodes.events())
    assert nodes.process is not None
    os.kill(nodes.process.pid, signal.SIGKILL)
    nodes.stop()
    with pytest.raises(NodesError):
        nodes.nodes()

    nodes.start()
    cluster.wait_ready()
    after = nodes.nodes()
    assert {name: node.bootID for name, node in after.items()} == {name: node.bootID for name, node in before.items()}
    assert {name: node.config for name, node in after.items()} == {name: node.config for name, node in before.items()}
    assert [e.members for e in nodes.etcds()] == [e.members for e in etcds]
    assert len(nodes.events()) >= lines
    assert cluster.members("cp-1") == list(CONTROL_PLANES)


def test_kubernetes_answers_as_long_as_etcd_has_quorum(cluster: Cluster) -> None:
    api = cluster.kubernetes()
    cluster.nodes.power_off("cp-1")
    assert len(api.list_node().items) == len(cluster.names)
    cluster.nodes.power_off("cp-2")
    with pytest.raises(Exception, match=r"timed out|refused|reset|closed|Max retries"):
        api.list_node(_request_timeout=5)


def test_two_fleets_run_side_by_side(cluster: Cluster, tmp_path: Path, talosctl: Path) -> None:
    other = Cluster(tmp_path / "other", talosctl, names=["cp-1"])
    with other.nodes:
        other.up()
        assert other.members("cp-1") == ["cp-1"]
    assert cluster.members("cp-1") == list(CONTROL_PLANES)


def test_a_call_for_what_they_do_not_have_is_seen(tmp_path: Path, talosctl: Path) -> None:
    single = Cluster(tmp_path, talosctl, names=["cp-1"])
    with single.nodes:
        single.up()
        assert "Unimplemented" in single.run("netstat", nodes=["cp-1"]).text
        assert [line.split(": ")[1] for line in single.nodes.unimplemented()] == ["/machine.MachineService/Netstat"]


def test_a_folder_says_what_the_fleet_is(cluster: Cluster) -> None:
    cluster.nodes.stop()
    again = TalosNodes(cluster.nodes.folder, binary=cluster.nodes.binary)
    with again:
        assert set(again.nodes()) == {*CONTROL_PLANES, *WORKERS}
        assert again.endpoint("cp-1") == cluster.nodes.endpoint("cp-1")
    more = TalosNodes(cluster.nodes.folder, [Machine("cp-1"), Machine("worker-3")], binary=cluster.nodes.binary)
    with more:
        more.wait("there", lambda n: n["worker-3"].phase == "maintenance" and n["cp-1"].phase == "running")
        assert more.endpoint("cp-1") == cluster.nodes.endpoint("cp-1")
        assert len(set(map(more.endpoint, more.nodes()))) == 6
    cluster.nodes.start()
