"""How talosctl is called: found, checked, ended in time, its answers read, and no secret anywhere but in memory.

The programs here are scripts that stand for talosctl where it fails as they do; the real one is in tests/real.
"""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hybrid_talos.secret_file import pipe_file, secret_file
from hybrid_talos.talos_calls import NotOfThisCluster, TalosError, Unreachable
from hybrid_talos.talosctl_api import table
from hybrid_talos.talosctl_run import Talosctl, check_kubernetes, find_talosctl, talosconfig
from hybrid_talos.versions import parse
from hybrid_talos.work_provider import WorkError

KEY = "LS0tLS1CRUdJTiBFRDI1NTE5IFBSSVZBVEUgS0VZLS0tLS0K"
CREDENTIALS = {"caCertificate": "Y2E=", "clientCertificate": "Y3J0", "clientKey": KEY}

Script = Callable[[str], Path]


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    def make(body: str, version: str = "v1.13.0") -> Path:
        path = tmp_path / "talosctl"
        client = f'if [ "$2" = --client ]; then echo "Client:"; echo "Talos {version}"; exit 0; fi'
        path.write_text(f"#!/bin/sh\n{client}\n{body}\n")
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return path

    return make


def run(seconds: float = 30) -> str:
    return Talosctl(CREDENTIALS).run(["version"], endpoints=["192.0.2.1"], node="192.0.2.1", seconds=seconds)


def test_none_on_path_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WorkError, match="install talosctl") as error:
        find_talosctl()
    assert "1.13.0 or newer" in str(error.value)


def test_an_old_one_is_refused(script: Callable[[str, str], Path]) -> None:
    script("", "v1.12.4")
    with pytest.raises(WorkError, match=r"1\.12\.4 .* is too old"):
        find_talosctl()


def test_one_that_does_not_run_is_refused(script: Script) -> None:
    script("").write_text("no program")
    with pytest.raises(WorkError, match="does not run|does not tell"):
        find_talosctl()


def test_kubernetes_newer_than_talosctl_knows_is_refused() -> None:
    check_kubernetes(parse("1.13.0"), "1.36.3")
    with pytest.raises(WorkError, match=r"to 1\.36 at most, not to 1\.37\.0.*version 1\.14"):
        check_kubernetes(parse("1.13.0"), "1.37.0")


def test_the_credentials_come_through_a_path_that_can_be_read_again(script: Script) -> None:
    script('cat "$2"; cat "$2"; echo "$@"')
    printed = run()
    config = talosconfig(CREDENTIALS, ["192.0.2.1"])
    assert printed.startswith(config + config)
    assert KEY not in printed.removeprefix(config + config)


@pytest.mark.parametrize("content", ["short", "x" * 300_000])
def test_a_pipe_serves_each_reader_where_memory_files_are_missing(content: str) -> None:
    with pipe_file(content) as file:
        for _ in range(3):
            assert Path(file.path).read_text() == content
        assert subprocess.run(["cat", file.path], capture_output=True, text=True, check=True).stdout == content
    assert not Path(file.path).exists()


def test_a_memory_file_has_no_name_on_a_disk() -> None:
    with secret_file("secret") as file:
        assert "(deleted)" in os.readlink(file.path)
        assert Path(file.path).read_text() == "secret"


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("rpc error: code = Unavailable desc = connection refused", Unreachable),
        ("rpc error: code = DeadlineExceeded desc = context deadline exceeded", Unreachable),
        (
            "transport: authentication handshake failed: tls: failed to verify certificate: x509: signed",
            NotOfThisCluster,
        ),
        ("rpc error: code = Unimplemented desc = API is not implemented in maintenance mode", NotOfThisCluster),
        ("rpc error: code = FailedPrecondition desc = no", TalosError),
    ],
)
def test_errors_are_told_apart(script: Script, said: str, kind: type[TalosError]) -> None:
    script(f'echo "{said}" >&2; exit 1')
    with pytest.raises(TalosError) as error:
        run()
    assert type(error.value) is kind
    assert "talosctl -n 192.0.2.1 version" in str(error.value)
    assert "/proc" not in str(error.value)


def test_errors_show_no_secret(script: Script) -> None:
    token = "abcdef.0123456789abcdef"
    script(f'echo "cannot read {KEY} {token} {"Zz9" * 20} image@{"ab" * 32}" >&2; exit 1')
    with pytest.raises(TalosError) as error:
        run()
    text = str(error.value)
    assert KEY not in text
    assert token not in text
    assert "Zz9Zz9" not in text
    assert "ab" * 32 in text


def test_one_that_hangs_is_ended_with_its_children(script: Script, tmp_path: Path) -> None:
    script(f"sleep 300 & echo $! > {tmp_path}/child; wait")
    with pytest.raises(Unreachable, match="did not end within"):
        run(seconds=1)
    child = int((tmp_path / "child").read_text())
    status = Path(f"/proc/{child}/stat")
    # Gone, or dead and not yet collected by whoever inherited it.
    assert not status.exists() or status.read_text().split()[2] == "Z"


def test_lines_of_progress_are_handed_on(script: Script) -> None:
    script("echo one; echo two")
    lines: list[str] = []
    Talosctl(CREDENTIALS).follow(["upgrade"], endpoints=["192.0.2.1"], node="192.0.2.1", seconds=30, say=lines.append)
    assert lines == ["one", "two"]


def test_the_users_own_talosconfig_is_not_used(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALOSCONFIG", "/home/user/talosconfig")
    script("env")
    assert "TALOSCONFIG" not in run()


def test_a_table_is_read_by_its_header() -> None:
    printed = (
        "NODE        ID                 HOSTNAME   PEER URLS                 CLIENT URLS               LEARNER\n"
        "192.0.2.1   8e9e05c52164694d              https://192.0.2.12:2380                             true\n"
        "192.0.2.1   91bc3c398fb3c146   cp-1       https://192.0.2.11:2380   https://192.0.2.11:2379   false\n"
    )
    rows = table(printed, ["ID", "HOSTNAME", "LEARNER"])
    assert [(row["ID"], row["HOSTNAME"], row["LEARNER"]) for row in rows] == [
        ("8e9e05c52164694d", "", "true"),
        ("91bc3c398fb3c146", "cp-1", "false"),
    ]
    assert table("", ["ID"]) == []
    with pytest.raises(TalosError, match="without STATE"):
        table(printed, ["ID", "STATE"])
