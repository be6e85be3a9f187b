"""Snapshots as streams: what passes through, what is whole, and what ends when nobody reads any more."""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyrage
import pytest
from hybrid_talos.snapshot_check import SnapshotCheck
from hybrid_talos.snapshot_key import identities_of, plain_snapshot
from hybrid_talos.snapshot_stream import encrypted_snapshot, recipients_of
from hybrid_talos.talos_calls import Machine
from hybrid_talos.talosctl_run import Talosctl
from hybrid_talos.work_provider import WorkError
from hypothesis import given
from hypothesis import strategies as st

CP = Machine("cp-1", "192.0.2.11", "192.0.2.11")
CREDENTIALS = {"caCertificate": "Y2E=", "clientCertificate": "Y3J0", "clientKey": "a2V5"}


def snapshot(pages: int, fill: bytes = b"etcd") -> bytes:
    database = (fill * 128 * pages)[: 512 * pages]
    return database + hashlib.sha256(database).digest()


@pytest.fixture
def identity() -> Any:
    return pyrage.x25519.Identity.generate()


@pytest.fixture
def talosctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Talosctl]:
    """Make a talosctl whose `etcd snapshot` is a script; `$path` is where it is to write."""

    def made(script: str) -> Talosctl:
        program = tmp_path / "bin" / "talosctl"
        program.parent.mkdir()
        program.write_text(
            f'#!/bin/sh\n[ "$1" = version ] && echo Client v1.13.0 && exit 0\nfor path in "$@"; do :; done\n{script}\n'
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        return Talosctl(CREDENTIALS)

    return made


# As talosctl ends after it has written everything to a pipe.
FSYNC = 'echo "error: failed to fsync: sync $path.part: invalid argument" >&2; exit 1'


@given(st.integers(2, 40), st.lists(st.integers(1, 700), min_size=1))
def test_a_whole_snapshot_is_whole_however_it_is_cut(pages: int, cuts: list[int]) -> None:
    data, check, at = snapshot(pages), SnapshotCheck(), 0
    for cut in [*cuts, len(data)]:
        check.add(data[at : at + cut])
        at += cut
    assert check.problem() is None
    assert check.size == len(data)
    assert check.digest == hashlib.sha256(data[:-32]).hexdigest()


@given(st.integers(2, 9), st.data())
def test_a_part_of_a_snapshot_or_a_changed_one_is_not(pages: int, data: st.DataObject) -> None:
    whole = snapshot(pages)
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
    for damaged in (whole[:at], changed):
        check = SnapshotCheck()
        check.add(damaged)
        assert check.problem() is not None


def test_a_snapshot_goes_through_encrypted(
    tmp_path: Path, identity: Any, talosctl: Callable[[str], Talosctl], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "plain").write_bytes(snapshot(3000))
    runs = talosctl(f'cat {tmp_path}/plain > "$path.part"\n{FSYNC}')
    sealed = list(encrypted_snapshot(runs, CP, [str(identity.to_public())]))
    assert pyrage.decrypt(b"".join(sealed), [identity]) == snapshot(3000)
    with plain_snapshot("it", iter(sealed), [identity]) as plain:
        assert Path(plain.path).read_bytes() == snapshot(3000)
        assert plain.digest == hashlib.sha256(snapshot(3000)[:-32]).hexdigest()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(plain.descriptors[0])


def test_talosctl_that_explains_itself_is_understood(
    tmp_path: Path, identity: Any, talosctl: Callable[[str], Talosctl]
) -> None:
    """Its errors are followed by its usage when they hold certain words, such as those of a path."""
    (tmp_path / "plain").write_bytes(snapshot(10))
    usage = r'printf "%s\n" "Usage:" "  talosctl etcd snapshot <path> [flags]" "Flags:" "  -h, --help" >&2; exit 1'
    runs = talosctl(f'cat {tmp_path}/plain > "$path.part"\n{FSYNC.removesuffix("; exit 1")}\n{usage}')
    assert list(encrypted_snapshot(runs, CP, [str(identity.to_public())]))


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        (f'head -c 1000 {{plain}} > "$path.part"\n{FSYNC}', "ends without etcd's digest"),
        (f'head -c 1056 {{plain}} > "$path.part"\n{FSYNC}', "does not match etcd's own digest"),
        ('cat {plain} > "$path.part"\necho "error: rpc error: code = Unavailable" >&2; exit 1', "code = Unavailable"),
        ("echo 'error: no talosconfig' >&2; exit 1", "no talosconfig"),
        ("exit 0", "ends without etcd's digest"),
    ],
)
def test_what_is_not_whole_raises_at_its_end(
    tmp_path: Path, identity: Any, talosctl: Callable[[str], Talosctl], script: str, problem: str
) -> None:
    (tmp_path / "plain").write_bytes(snapshot(10))
    with pytest.raises(WorkError, match=problem):
        list(encrypted_snapshot(talosctl(script.format(plain=tmp_path / "plain")), CP, [str(identity.to_public())]))


def test_no_more_is_taken_than_is_read_and_an_end_in_the_middle_ends_talosctl(
    tmp_path: Path, identity: Any, talosctl: Callable[[str], Talosctl]
) -> None:
    """The snapshot has no end, so that nothing of this could be held in memory."""
    ended = tmp_path / "ended"
    runs = talosctl(f'trap "" PIPE\ncat /dev/zero > "$path.part" 2>/dev/null\necho yes > {ended}\nexit 1')
    stream = encrypted_snapshot(runs, CP, [str(identity.to_public())])
    for _ in range(100):
        assert len(next(stream)) <= 1 << 16
    assert not ended.exists()
    stream.close()
    assert ended.read_text() == "yes\n"


def test_keys_that_are_none_are_refused_without_being_shown(tmp_path: Path) -> None:
    with pytest.raises(WorkError, match="a recipient is needed"):
        recipients_of([])
    with pytest.raises(WorkError, match="recipient 1 must be a public key of age") as caught:
        recipients_of(["AGE-SECRET-KEY-1MARKER"])
    assert "MARKER" not in str(caught.value)
    file = tmp_path / "key"
    with pytest.raises(WorkError, match="No such file"):
        identities_of(file)
    file.write_text("# none\n\n")
    with pytest.raises(WorkError, match="holds no private key"):
        identities_of(file)
    file.write_text("# one\nAGE-SECRET-KEY-1MARKER\n")
    with pytest.raises(WorkError, match="line 2: is no private key") as caught:
        identities_of(file)
    assert "MARKER" not in str(caught.value)


def test_an_error_of_the_store_is_told_as_it_is(identity: Any) -> None:
    def pieces() -> Iterator[bytes]:
        yield pyrage.encrypt(b"x", [identity.to_public()])[:20]
        raise WorkError("the connection broke")

    with pytest.raises(WorkError, match="the connection broke"), plain_snapshot("it", pieces(), [identity]):
        pass


def test_without_memory_files_nothing_is_decrypted(identity: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with pytest.raises(WorkError, match="on Linux alone"), plain_snapshot("it", iter([b""]), [identity]):
        pass
