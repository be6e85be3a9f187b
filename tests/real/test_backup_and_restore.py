"""Snapshots of etcd and the way back, by the commands: the real talosctl on nodes that speak the real Talos API."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyrage
import pytest
from hybrid_talos.snapshot_stream import encrypted_snapshot
from hybrid_talos.talosctl_run import Talosctl
from hybrid_talos.work_provider import WorkError
from talos_cluster import CONTROL_PLANES, QUICK, Cluster

from lab import tools
from lab.places import ROOT
from stacks import cluster_access

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def identity() -> Any:
    return pyrage.x25519.Identity.generate()


@pytest.fixture
def key(identity: Any, tmp_path: Path) -> Path:
    path = tmp_path / "key.txt"
    path.write_text(f"# public key: {identity.to_public()}\n{identity}\n")
    return path


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three control planes and a worker with a pod, born by talosctl."""
    cluster = Cluster(tmp_path, tools.provide().talosctl.path, (*CONTROL_PLANES, "worker-1"), timings=QUICK)
    with cluster.nodes:
        cluster.up()
        cluster.workload("web", replicas=1)
        yield cluster
        assert cluster.nodes.unimplemented() == []


@pytest.fixture
def environment(cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    """What the commands run with; what they leave behind lies in folders of the test's own."""
    for folder in ("temporary", "state"):
        (tmp_path / folder).mkdir()
    return {
        "PATH": f"{cluster.talosctl.parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path / "temporary"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }


# The pauses of a real cluster, made short: everything else is the command as it is.
QUICKER = (
    "import sys\n"
    "from hybrid_talos import cluster_work, etcd_recovery\n"
    "cluster_work.PAUSE = etcd_recovery.PAUSE = 0.2\n"
    "quick = dict(gate=6, boot=60, health=60, lost=3)\n"
    "original = cluster_work.Cluster.__init__\n"
    "def init(self, *a, **k):\n"
    "    k.setdefault('limits', cluster_work.Limits(**quick))\n"
    "    original(self, *a, **k)\n"
    "cluster_work.Cluster.__init__ = init\n"
    "from stacks import {module}\n"
    "sys.argv[0] = '{module}'\n"
    "{module}.app()\n"
)


def command(module: str, *words: str) -> list[str]:
    return [sys.executable, "-c", QUICKER.format(module=module), *words]


def run(
    environment: dict[str, str], module: str, *words: str, code: int | None = 0
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(module, *words), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert code is None or done.returncode == code, done.stderr
    return done


def take(cluster: Cluster, environment: dict[str, str], identity: Any, *words: str) -> str:
    config = str(cluster.folder / "talosconfig")
    place = str(cluster.folder / "backups")
    done = run(
        environment, "backup", "take", place, "--talosconfig", config, "--age", str(identity.to_public()), *words
    )
    return done.stdout.strip()


def restore(
    cluster: Cluster, environment: dict[str, str], key: Path, *words: str, code: int = 0
) -> subprocess.CompletedProcess[str]:
    where = (str(cluster.folder / "backups"), "--talosconfig", str(cluster.folder / "talosconfig"))
    return run(environment, "restore", *where, "--identity", str(key), *words, code=code)


def lose_everything(cluster: Cluster) -> None:
    """Put new machines in the place of all control planes, and give them the configurations that those had."""
    for name in CONTROL_PLANES:
        cluster.nodes.replace(name)
    cluster.wait("maintenance", *CONTROL_PLANES)
    cluster.apply_first(*CONTROL_PLANES)
    cluster.wait("running", *CONTROL_PLANES)


def recoveries(cluster: Cluster) -> dict[str, int]:
    found = {name: node.counts["recoveries"] for name, node in cluster.nodes.nodes().items()}
    return {name: count for name, count in found.items() if count}


def pod_is_there(cluster: Cluster) -> bool:
    cluster.nodes.wait("pods", lambda _: len(cluster.pods("web")) == 1)
    return True


def test_all_control_planes_are_lost_and_the_cluster_comes_back(
    cluster: Cluster, environment: dict[str, str], identity: Any, key: Path, tmp_path: Path
) -> None:
    name = take(cluster, environment, identity)
    path = tmp_path / "backups" / name
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes().startswith(b"age-encryption.org/v1\n")
    assert [each.name for each in (tmp_path / "backups").iterdir()] == [name]
    lose_everything(cluster)

    done = restore(cluster, environment, key)
    assert "etcd runs again, with cp-1, cp-2, cp-3" in done.stderr
    cluster.wait_ready()
    cluster.do("health", "--wait-timeout", "60s", nodes=["cp-1"])
    assert pod_is_there(cluster)
    assert recoveries(cluster) == {"cp-1": 1}
    assert len(cluster.nodes.etcds()[-1].origin) == 64
    # Of the cluster's lock, and of nothing else.
    assert [path.suffix for path in (tmp_path / "temporary").iterdir()] == [".lock"]
    assert list((tmp_path / "state" / "hybrid-talos").iterdir()) == []


def test_a_cluster_that_lives_is_left_alone(
    cluster: Cluster, environment: dict[str, str], identity: Any, key: Path
) -> None:
    take(cluster, environment, identity)
    (before,) = cluster.nodes.etcds()
    refused = restore(cluster, environment, key, code=1)
    assert "etcd lives (3 of 3 members work, and a quorum is 2)" in refused.stderr

    for name in ("cp-1", "cp-2"):
        cluster.nodes.power_off(name)
    refused = restore(cluster, environment, key, code=1)
    assert "may have data of the old etcd" in refused.stderr
    addresses = [cluster.nodes.address(name) for name in ("cp-1", "cp-2")]
    refused = restore(cluster, environment, key, *(f"--gone={address}" for address in addresses), code=1)
    assert "without a quorum" in refused.stderr
    assert recoveries(cluster) == {}
    assert [etcd.id for etcd in cluster.nodes.etcds()] == [before.id]
    for name in ("cp-1", "cp-2"):
        cluster.nodes.power_on(name)
    cluster.wait_ready()


def test_what_is_left_of_etcd_is_wiped_when_that_is_asked_for(
    cluster: Cluster, environment: dict[str, str], identity: Any, key: Path
) -> None:
    take(cluster, environment, identity)
    cluster.nodes.replace("cp-1")
    cluster.nodes.replace("cp-2")
    cluster.wait("maintenance", "cp-1", "cp-2")
    cluster.apply_first("cp-1", "cp-2")
    cluster.wait("running", "cp-1", "cp-2")
    config = cluster.nodes.node("cp-3").config

    done = restore(cluster, environment, key, "--discard", "--onto", cluster.nodes.address("cp-2"))
    assert f"{cluster.nodes.address('cp-3')}: wiping what it has of etcd" in done.stderr
    cluster.wait_ready()
    assert pod_is_there(cluster)
    assert recoveries(cluster) == {"cp-2": 1}
    assert cluster.nodes.node("cp-3").config == config


@pytest.mark.parametrize("method", ["EtcdRecover", "Bootstrap", "EtcdMemberList"])
def test_a_restore_that_is_killed_is_gone_on_with(
    cluster: Cluster, environment: dict[str, str], identity: Any, key: Path, tmp_path: Path, method: str
) -> None:
    take(cluster, environment, identity)
    lose_everything(cluster)
    cluster.nodes.fault("slow", method, times=1, delay=4000)
    seen = len(cluster.nodes.events())
    where = (str(tmp_path / "backups"), "--talosconfig", str(cluster.folder / "talosconfig"))
    words = command("restore", *where, "--identity", str(key))
    with subprocess.Popen(words, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL) as process:
        cluster.nodes.wait("called", lambda _: bool(cluster.nodes.events(after=seen, method=method)))
        process.send_signal(signal.SIGKILL)
    # A talosctl that outlives the command holds the cluster's lock, and the next run waits for its end.
    restore(cluster, environment, key)
    cluster.wait_ready()
    assert pod_is_there(cluster)
    restored = [etcd for etcd in cluster.nodes.etcds() if etcd.origin]
    assert len(restored) == 1
    assert sum(recoveries(cluster).values()) == 1
    assert not list(Path("/dev/shm").glob("hybrid-talos-*"))


@pytest.mark.parametrize("kind", ["lose", "die"])
def test_a_bootstrap_whose_answer_is_lost_is_found(
    cluster: Cluster, environment: dict[str, str], identity: Any, key: Path, kind: Any
) -> None:
    take(cluster, environment, identity)
    lose_everything(cluster)
    cluster.nodes.fault(kind, "Bootstrap", times=1)
    restore(cluster, environment, key)
    cluster.wait_ready()
    assert pod_is_there(cluster)
    assert len([etcd for etcd in cluster.nodes.etcds() if etcd.origin]) == 1


def test_keys_and_snapshots_that_do_not_fit_are_refused_before_a_machine_is_asked(
    cluster: Cluster, environment: dict[str, str], identity: Any, key: Path, tmp_path: Path
) -> None:
    name = take(cluster, environment, identity)
    lose_everything(cluster)
    other = tmp_path / "other.txt"
    other.write_text(str(pyrage.x25519.Identity.generate()))
    seen = len(cluster.nodes.events())
    assert "is encrypted for other keys" in restore(cluster, environment, other, code=1).stderr
    path = tmp_path / "backups" / name
    whole = path.read_bytes()
    for content in (whole[:-100], whole[:-1] + bytes([whole[-1] ^ 1]), b"not age at all"):
        path.write_bytes(content)
        assert "damaged" in restore(cluster, environment, key, code=1).stderr
    # Encrypted well, and no snapshot.
    path.write_bytes(pyrage.encrypt(b"x" * 5120, [identity.to_public()]))
    assert "ends without etcd's digest" in restore(cluster, environment, key, code=1).stderr
    path.write_bytes(pyrage.encrypt(b"x" * (5120 + 32), [identity.to_public()]))
    assert "does not match etcd's own digest" in restore(cluster, environment, key, code=1).stderr
    assert cluster.nodes.events(after=seen, kind="call") == []


def test_a_snapshot_that_breaks_off_is_not_kept(
    cluster: Cluster, environment: dict[str, str], identity: Any, tmp_path: Path
) -> None:
    cluster.nodes.fault("die", "EtcdSnapshot", after=1)
    words = ("--talosconfig", str(cluster.folder / "talosconfig"), "--age", str(identity.to_public()))
    done = run(environment, "backup", "take", str(tmp_path / "backups"), *words, code=1)
    assert "etcd snapshot" in done.stderr
    assert list((tmp_path / "backups").iterdir()) == []
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_talosctl_that_says_nothing_of_a_cut_is_found_out(
    cluster: Cluster, identity: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The digest tells, whatever talosctl says."""
    liar = tmp_path / "bin" / "talosctl"
    liar.parent.mkdir()
    liar.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = version ] && exec {cluster.talosctl} "$@"\n'
        'for path in "$@"; do :; done\nhead -c 5152 /dev/zero > "$path.part"\n'
    )
    liar.chmod(0o755)
    monkeypatch.setenv("PATH", f"{liar.parent}{os.pathsep}{os.environ['PATH']}")
    found = cluster_access.of_talosconfig((cluster.folder / "talosconfig").read_text())
    with pytest.raises(WorkError, match="does not match etcd's own digest"):
        list(encrypted_snapshot(Talosctl(found.credentials), found.members[0], [str(identity.to_public())]))


def test_nothing_of_a_snapshot_or_a_key_is_in_arguments_or_files(
    cluster: Cluster, environment: dict[str, str], identity: Any, key: Path, tmp_path: Path
) -> None:
    words = tmp_path / "words"
    spy = tmp_path / "bin" / "talosctl"
    spy.parent.mkdir()
    # What it is called with, what it finds in the environment, and every file that there is meanwhile.
    spy.write_text(
        f'#!/bin/sh\necho "$@" >> {words}\nenv >> {words}\n'
        f"find {tmp_path}/temporary /dev/shm -type f -newer {key} -exec cat {{}} + >> {words} 2>/dev/null\n"
        f'exec {cluster.talosctl} "$@"\n'
    )
    spy.chmod(0o755)
    environment["PATH"] = f"{spy.parent}:{environment['PATH']}"
    take(cluster, environment, identity)
    lose_everything(cluster)
    done = restore(cluster, environment, key)
    seen = words.read_text(errors="replace") + done.stderr
    access = cluster_access.of_talosconfig((cluster.folder / "talosconfig").read_text())
    assert "bootstrap --recover-from /proc/self/fd/" in seen
    assert "etcd snapshot" in seen
    for secret in (*access.credentials.values(), str(identity)):
        assert secret[:60] not in seen
    assert "/registry/" not in seen


def test_old_snapshots_go_and_those_of_other_clusters_stay(
    cluster: Cluster, environment: dict[str, str], identity: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    others = ["demo-20200101T000000Z.db.age", "demo-two-20200101T000000Z.db.age", "notes.txt"]
    for name in others:
        (folder / name).write_text("x")
    newest = take(cluster, environment, identity, "--keep", "1")
    assert sorted(path.name for path in folder.iterdir()) == sorted([newest, *others[1:]])
    listed = run(environment, "backup", "list", str(folder)).stdout.splitlines()
    assert [line.split("\t")[0] for line in listed] == [newest, others[1]]
