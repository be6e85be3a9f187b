"""How commands get at a cluster, and what they say when there is no way."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from stacks import backup, restore
from stacks.cluster_access import AccessError, access, of_state, of_talosconfig
from stacks.stack_state import StackState

CLIENT = {"ca": "Y2E=", "crt": "Y3J0", "key": "MARKER"}


def talosconfig(**more: Any) -> str:
    return yaml.safe_dump({"context": "demo", "contexts": {"demo": CLIENT | more}})


def test_control_planes_of_a_talosconfig_are_its_endpoints() -> None:
    found = of_talosconfig(talosconfig(endpoints=["192.0.2.1", "192.0.2.2:51000"], nodes=["10.0.0.1"]))
    assert [(m.address, m.endpoint) for m in found.members] == [
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.2", "192.0.2.2:51000"),
    ]
    found = of_talosconfig(talosconfig(endpoints=["192.0.2.1", "192.0.2.2"], nodes=["10.0.0.1", "10.0.0.2"]))
    assert [m.address for m in found.members] == ["10.0.0.1", "10.0.0.2"]
    assert "MARKER" not in repr(found)


def test_a_stack_knows_names_addresses_and_configurations() -> None:
    member = {"name": "cp-1", "address": "10.0.0.1", "endpoint": "192.0.2.1"}
    state = StackState(
        (
            {"type": "pulumi-python:dynamic/cluster:EtcdBootstrap", "inputs": {"members": [member]}},
            {
                "type": "talos:machine/configurationApply:ConfigurationApply",
                "outputs": {"node": "10.0.0.1", "machineConfiguration": "machine: {}"},
            },
        ),
        {"talosconfig": talosconfig(endpoints=["192.0.2.1"])},
    )
    found = of_state(state)
    assert [(m.name, m.address, m.endpoint) for m in found.members] == [("cp-1", "10.0.0.1", "192.0.2.1")]
    assert found.configurations == {"10.0.0.1": "machine: {}"}
    with pytest.raises(AccessError, match="no output talosconfig"):
        of_state(StackState((), {}))


@pytest.mark.parametrize("text", ["", "a: [", "context: demo", "key: MARKER", yaml.safe_dump({"context": "demo"})])
def test_what_is_no_talosconfig_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(AccessError, match="this is no talosconfig") as caught:
        of_talosconfig(text)
    assert "MARKER" not in str(caught.value)


def test_a_talosconfig_without_endpoints_leads_nowhere() -> None:
    with pytest.raises(AccessError, match="has no endpoints"):
        of_talosconfig(talosconfig())


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(AccessError, match="No such file"):
        access(None, str(tmp_path / "none"))
    with pytest.raises(AccessError, match="exclude each other"):
        access("prod", "-")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["take", "backups"], "a recipient is needed"),
        (["take", "backups", "--age", "AGE-SECRET-KEY-1MARKER"], "must be a public key of age"),
        (["take", "backups", "--recipients-file", "/nowhere"], "/nowhere cannot be read"),
        (["list", "oss://backups"], "needs the region"),
    ],
)
def test_bad_words_end_with_one_line(words: list[str], problem: str) -> None:
    ran = CliRunner().invoke(backup.app, words)
    assert ran.exit_code == 1
    assert problem in ran.output
    assert ran.output.count("\n") == 1
    assert "MARKER" not in ran.output


def test_a_restore_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOPS_AGE_KEY_FILE", raising=False)
    ran = CliRunner().invoke(restore.app, ["backups"])
    assert ran.exit_code == 1
    assert "--identity FILE, or SOPS_AGE_KEY_FILE" in ran.output
