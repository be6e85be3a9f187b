"""Where snapshots are kept: names, addresses, folders."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hybrid_talos.snapshot_azure import AzureStore, Container
from hybrid_talos.snapshot_folder import FolderStore
from hybrid_talos.snapshot_oss import OssStore
from hybrid_talos.snapshot_place import store_at
from hybrid_talos.snapshot_store import Kept, is_snapshot, name_of, of_cluster, prune
from hybrid_talos.work_provider import WorkError

ONE, TWO, THREE = (f"demo-2026010{day}T000000Z.db.age" for day in (1, 2, 3))


def broken() -> Iterator[bytes]:
    yield b"half"
    raise WorkError("not whole")


def test_names_sort_by_time_and_say_of_which_cluster() -> None:
    name = name_of("demo-20260101", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    assert name == "demo-20260101-20260102T030405Z.db.age"
    assert (Kept(name, 1).cluster, Kept(name, 1).time) == ("demo-20260101", "20260102T030405Z")
    assert not is_snapshot("demo-20260102T030405Z.db")
    kept = [Kept(each, 1) for each in (TWO, THREE, name, ONE)]
    assert [one.name for one in of_cluster(kept, "demo")] == [THREE, TWO, ONE]


def test_a_folder_keeps_whole_snapshots_alone(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    store = FolderStore(folder)
    assert store.names() == []
    store.put(ONE, iter([b"one", b"two"]))
    assert (folder / ONE).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(WorkError, match="not whole"):
        store.put(TWO, broken())
    with pytest.raises(WorkError, match="is there already"):
        store.put(ONE, iter([b"other"]))
    assert b"".join(store.get(ONE)) == b"onetwo"
    assert [path.name for path in folder.iterdir()] == [ONE]
    assert store.names() == [Kept(ONE, 6)]
    with pytest.raises(WorkError, match="No such file"):
        list(store.get(TWO))


def test_what_a_killed_run_left_is_forgotten_after_a_day(tmp_path: Path) -> None:
    old, fresh = (tmp_path / f".{ONE}.{pid}.draft" for pid in (1, 2))
    for path in (old, fresh):
        path.write_text("x")
    os.utime(old, (0, 0))
    FolderStore(tmp_path).put(TWO, iter([b"x"]))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([fresh.name, TWO])


def test_the_newest_stay(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    for name in (TWO, ONE, THREE, "other-20260101T000000Z.db.age"):
        store.put(name, iter([b"x"]))
    assert prune(store, "demo", 2) == [ONE]
    assert prune(store, "demo", 2) == []
    assert len(store.names()) == 3
    with pytest.raises(ValueError, match="0"):
        prune(store, "demo", 0)


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkError, match=r"file.* cannot be written to: Not a directory"):
        FolderStore(tmp_path / "file" / "backups").put(ONE, iter([b"x"]))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "https://acc.blob.core.windows.net/backups",
            Container("https://acc.blob.core.windows.net", "acc", "backups", ""),
        ),
        (
            "https://acc.blob.core.chinacloudapi.cn/backups/a/b/",
            Container("https://acc.blob.core.chinacloudapi.cn", "acc", "backups", "a/b/"),
        ),
        (
            "https://127.0.0.1:10000/devstoreaccount1/backups",
            Container("https://127.0.0.1:10000/devstoreaccount1", "devstoreaccount1", "backups", ""),
        ),
    ],
)
def test_addresses_of_azure(url: str, expected: Container) -> None:
    assert Container.of(url) == expected


def test_every_kind_of_place_has_its_store() -> None:
    assert isinstance(store_at("backups"), FolderStore)
    assert isinstance(store_at("https://acc.blob.core.windows.net/backups/prod"), AzureStore)
    assert store_at("https://acc.blob.core.windows.net/backups/prod").where.endswith("windows.net/backups/prod")
    assert isinstance(store_at("oss://backups/prod", "cn-hangzhou"), OssStore)
    assert store_at("oss://backups/prod/", "cn-hangzhou").where == "oss://backups/prod"


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("https://acc.blob.core.windows.net", "must be a folder, https://"),
        ("http://acc.blob.core.windows.net/backups", "must be a folder, https://"),
        ("https://acc.blob.core.windows.net/backups?sv=2024&sig=MARKER", "without a query"),
        ("s3://bucket", "must be a folder, https://"),
        ("oss://Bad_Bucket", "must be a bucket of OSS"),
        ("oss://backups", "--oss-region"),
    ],
)
def test_what_is_no_place_is_refused(place: str, problem: str) -> None:
    with pytest.raises(WorkError, match=problem) as caught:
        store_at(place)
    assert "MARKER" not in str(caught.value)


def test_credentials_of_oss_go_nowhere_in_clear() -> None:
    with pytest.raises(WorkError, match="must begin with https://"):
        store_at("oss://backups", "cn-hangzhou", "http://oss.example.com")
