"""Snapshots in OSS: the real client on the lab's server."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyrage
import pytest
from alibabacloud_credentials.utils import auth_util
from hybrid_talos import etcd_snapshot
from hybrid_talos.snapshot_oss import OssStore
from hybrid_talos.snapshot_store import Kept, prune
from hybrid_talos.work_provider import WorkError

from lab.alicloud import OssServer
from tests.lab.alicloud_cloud import BUCKET, Cloud
from tests.scripted_talosctl import CP, scripted_talosctl

ONE, TWO, THREE = (f"demo-2026010{day}T000000Z.db.age" for day in (1, 2, 3))
LARGE = random.Random(7).randbytes(20 << 20)
"""More than two parts."""


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OssServer]:
    for name, value in (("id", "LTAIlab"), ("secret", "lab")):
        # The library reads these once, when it is loaded.
        monkeypatch.setenv(f"ALIBABA_CLOUD_ACCESS_KEY_{name.upper()}", value)
        monkeypatch.setattr(auth_util, f"environment_access_key_{name}", value)
    with closing(Cloud(tmp_path)) as cloud:
        cloud.make(BUCKET, "backups", bucket="backups", forceDestroy=True)
        server = OssServer(cloud.world)
        server.start()
        yield server
        server.stop()


@pytest.fixture
def store(server: OssServer) -> OssStore:
    return OssStore("backups", "prod/", "cn-hangzhou", server.url)


def pieces(data: bytes, problem: str = "") -> Iterator[bytes]:
    for at in range(0, len(data), 1 << 16):
        yield data[at : at + (1 << 16)]
    if problem:
        raise WorkError(problem)


def test_large_and_small_snapshots_come_back_as_they_were(store: OssStore, server: OssServer) -> None:
    store.put(ONE, pieces(LARGE))
    store.put(TWO, pieces(b"small"))
    OssStore("backups", "", "cn-hangzhou", server.url).put(THREE, pieces(b"elsewhere"))
    assert b"".join(store.get(ONE)) == LARGE
    assert b"".join(store.get(TWO)) == b"small"
    assert store.names() == [Kept(ONE, len(LARGE)), Kept(TWO, 5)]
    assert prune(store, "demo", 1) == [ONE]
    assert [one.name for one in store.names()] == [TWO]
    store.remove(ONE)


def test_one_that_breaks_off_leaves_nothing(store: OssStore, tmp_path: Path) -> None:
    with pytest.raises(WorkError, match="not whole"):
        store.put(ONE, pieces(LARGE, "not whole"))
    with pytest.raises(WorkError, match="not whole"):
        store.put(ONE, pieces(b"", "not whole"))
    assert store.names() == []
    assert [path for path in (tmp_path / "oss").rglob("*") if path.is_file()] == []


def test_one_that_is_there_is_not_written_over(store: OssStore) -> None:
    store.put(ONE, pieces(b"first"))
    with pytest.raises(WorkError, match=r"oss://backups/prod/demo-.* is there already"):
        store.put(ONE, pieces(b"second"))
    assert b"".join(store.get(ONE)) == b"first"


def test_the_snapshot_before_a_risky_step_goes_there_encrypted(
    store: OssStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = pyrage.x25519.Identity.generate()
    talos, whole = scripted_talosctl(tmp_path, monkeypatch, LARGE)
    # Credentials go to https alone (test_snapshot_store), which the lab's server is not.
    name = etcd_snapshot.take(talos, CP, etcd_snapshot.Target("demo", store, [str(identity.to_public())]))
    assert [one.name for one in store.names()] == [name]
    assert pyrage.decrypt(b"".join(store.get(name)), [identity]) == whole


def test_what_is_not_there_is_named(store: OssStore, server: OssServer) -> None:
    with pytest.raises(WorkError, match="is not there \\(NoSuchKey\\)"):
        list(store.get(ONE))
    other = OssStore("elsewhere", "", "cn-hangzhou", server.url)
    with pytest.raises(WorkError, match="NoSuchBucket.*make the bucket"):
        other.put(ONE, pieces(b"x"))
