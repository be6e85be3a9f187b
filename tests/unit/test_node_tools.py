"""The tools from npm: what is missing is said in one message, and a failed installation leaves nothing behind."""

from pathlib import Path

import pytest

from lab import node_tools
from lab.tool_builds import ToolsMissing


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    # Those of this machine must not be found instead.
    found = node_tools.shutil.which
    monkeypatch.setattr(node_tools.shutil, "which", lambda name: found(name, path=str(folder)))
    monkeypatch.setenv("HYBRID_TALOS_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.mark.usefixtures("path")
def test_without_node_it_says_where_to_get_it() -> None:
    with pytest.raises(ToolsMissing, match=r"Node\.js 18 or newer with npm.*nodejs\.org"):
        node_tools.provide()


def test_an_old_node_is_named(path: Path) -> None:
    program(path, "node", "echo v16.20.2")
    program(path, "npm", "exit 0")
    with pytest.raises(ToolsMissing, match=r"newer is needed; .*/node is v16\.20\.2"):
        node_tools.provide()


def test_what_npm_says_is_passed_on_and_nothing_is_left(path: Path, tmp_path: Path) -> None:
    program(path, "node", "echo v20.1.0")
    program(path, "npm", "touch half; echo 'no such package' >&2; exit 1")
    said: list[str] = []
    with pytest.raises(ToolsMissing, match="no such package"):
        node_tools.provide(said.append)
    assert len(said) == 1
    assert [entry.name for entry in (tmp_path / "cache").iterdir()] == ["node-tools.lock"]


def test_what_was_installed_is_used_again(path: Path) -> None:
    program(path, "node", "echo v20.1.0")
    program(
        path,
        "npm",
        'case "$*" in *--ignore-scripts*) ;; *) exit 1 ;; esac; '
        "mkdir -p node_modules/azurite/dist/src/blob && touch node_modules/azurite/dist/src/blob/main.js",
    )
    said: list[str] = []
    first = node_tools.provide(said.append)
    assert first.azurite.exists()
    assert first.azcopy is None
    program(path, "npm", "exit 1")
    assert node_tools.provide(said.append) == first
    assert len(said) == 1


def test_the_pins_name_no_server() -> None:
    lock = (node_tools.PINS / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert '"integrity"' in lock
