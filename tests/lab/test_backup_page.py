"""docs/backup-and-restore.md: its commands, run as they stand there on a stack in the lab that loses all it has."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyrage
import pytest
from cluster_alone import cluster_alone
from lab_folder import ROOT, Lab

from lab import tools
from lab.places import Places
from lab.session import environment
from lab.talos.nodes import TalosNodes

PAGE = (ROOT / "docs" / "backup-and-restore.md").read_text()


def commands() -> list[str]:
    """Return the commands of the page, in their order."""
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    return [line.strip().removeprefix("$ ") for block in blocks for line in block.splitlines() if "$ " in line]


@pytest.fixture(scope="module")
def up(folder: Path) -> Lab:
    lab = cluster_alone(folder)
    lab.up()
    return lab


@pytest.fixture
def nodes(up: Lab) -> Iterator[TalosNodes]:
    """The machines of the lab, which answer between its commands too."""
    with TalosNodes(Places(up.folder).lab / "fleet") as nodes:
        nodes.wait("ready", lambda n: all(each.ready for each in n.values() if each.role == "controlplane"))
        yield nodes


def test_the_commands_of_the_page(up: Lab, nodes: TalosNodes, tmp_path: Path) -> None:
    # The commands are run where the project is; what they write stays here.
    shutil.copy(ROOT / "Pulumi.yaml", tmp_path)
    identity = pyrage.x25519.Identity.generate()
    env = environment(Places(up.folder), tools.provide()) | {
        "TMPDIR": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PYTHONPATH": str(ROOT),
    }

    def run(command: str) -> Any:
        words = shlex.split(command.replace("age1...", str(identity.to_public())))
        done = subprocess.run(
            [sys.executable, *words[1:]],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done

    keygen, take, listed, prune, restore, preview = commands()
    assert keygen == "age-keygen -o key.txt"
    (tmp_path / "key.txt").write_text(str(identity))

    stack = up.stack
    name = run(take.replace("prod", stack)).stdout.strip()
    assert run(listed).stdout.startswith(f"{name}\t")
    run(prune.replace("prod", name.rpartition("-")[0]))
    assert (tmp_path / "backups" / name).exists()

    planes = [each.name for each in nodes.nodes().values() if each.role == "controlplane"]
    assert len(planes) == 3
    before = nodes.nodes()
    for plane in planes:
        nodes.replace(plane)
    nodes.wait("maintenance", lambda n: all(n[plane].phase == "maintenance" and n[plane].online for plane in planes))
    done = run(restore.replace("prod", stack))
    assert done.stderr.count("gets the configuration that it had") == 3
    assert "etcd runs again, with " in done.stderr
    after = nodes.nodes()
    assert {plane: after[plane].config for plane in planes} == {plane: before[plane].config for plane in planes}
    assert sum(after[plane].counts["recoveries"] for plane in planes) == 1
    assert [etcd.id for etcd in nodes.etcds() if etcd.origin and etcd.quorum] == [nodes.etcds()[-1].id]

    assert preview == "pulumi preview"
    assert nodes.unimplemented() == []
    # The lab's own commands start them.
    nodes.stop()
    assert up.changes() == {}
