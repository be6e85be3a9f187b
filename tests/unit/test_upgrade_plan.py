"""What a preview of an upgrade refuses because of the talosctl that is, or is not, on PATH."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hybrid_talos import kubernetes_upgrade, talos_upgrade

Tool = Callable[[str], None]

KUBERNETES = {"version": "1.36.2", "without_snapshot": True}
TALOS = {
    "version": "1.13.0",
    "kubernetes_version": "1.36.2",
    "installer_image": "installer:v1.13.0",
    "without_snapshot": True,
}


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Put a talosctl of some version on PATH, which tells it and does nothing else."""

    def make(version: str) -> None:
        path = tmp_path / "talosctl"
        path.write_text(f'#!/bin/sh\n[ "$2" = --client ] || exit 1\necho "Talos {version}"\n')
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return make


def kubernetes(**news: Any) -> dict[str, str]:
    return kubernetes_upgrade.planned(dict(KUBERNETES), {**KUBERNETES, **news})[1]


def talos(**news: Any) -> dict[str, str]:
    return talos_upgrade.planned(dict(TALOS), {**TALOS, **news})[1]


def test_a_kubernetes_that_talosctl_does_not_know_is_refused_with_the_one_that_does(tool: Tool) -> None:
    tool("v1.13.4")
    said = kubernetes(version="1.37.0")["version"]
    assert "talosctl 1.13 upgrades Kubernetes to 1.36 at most, not to 1.37.0" in said
    assert "version 1.14" in said
    tool("v1.14.0-rc.1")
    assert kubernetes(version="1.37.0") == {}


def test_talosctl_upgrades_to_a_newer_talos_than_its_own(tool: Tool) -> None:
    tool("v1.13.4")
    assert talos(version="1.14.0", installer_image="installer:v1.14.0") == {}


def test_without_a_talosctl_that_can_nothing_is_planned(tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    tool("v1.12.7")
    for refused in (talos(version="1.14.0"), talos(installer_image="other"), kubernetes(version="1.36.3")):
        assert "is too old: 1.13.0 or newer is needed" in refused["version"]
    monkeypatch.setenv("PATH", os.devnull)
    assert "talosctl is needed and not on PATH" in talos(version="1.14.0")["version"]
    # Where nothing is upgraded none is needed.
    assert talos() == kubernetes() == {}
