"""A closed site on the real engine: mirrors with logins, a proxy, links by hand, another distribution of Talos."""

import json
from pathlib import Path

import pytest
import yaml
from lab_folder import ROOT, Lab

pytestmark = pytest.mark.lab

GOOD = ROOT / "tests" / "settings" / "good" / "cluster-closed-site.yaml"
REGISTRY = "registry-password-MARKER"
PROXY = "proxy-password-MARKER"


def test_a_closed_site_comes_up_and_its_passwords_are_nowhere_in_clear(tmp_path: Path) -> None:
    document = yaml.safe_load(GOOD.read_text())
    path = tmp_path / "Pulumi.closed.yaml"
    path.write_text(
        yaml.safe_dump(
            {"config": {"hybrid-talos:stack": "cluster", "hybrid-talos:settings": document["settings"]}},
            sort_keys=False,
        )
    )
    lab = Lab(tmp_path / "lab", "closed", path)
    run = lab.run("preview", code=None)
    assert run.code != 0
    for key in ("registryPasswords", "proxyPassword"):
        assert f"pulumi config set --secret hybrid-talos:{key}" in run.text
    # As the page for it says.
    where = 'hybrid-talos:registryPasswords["mirror.example.com:5000"]'
    lab.run("config", "set", "--secret", "--path", where, REGISTRY)
    lab.run("config", "set", "--secret", "hybrid-talos:proxyPassword", PROXY)
    assert REGISTRY not in path.read_text()

    run = lab.up()
    state = json.dumps(lab.state())
    events = lab.run("preview", "--diff", "--json").out
    for text in (run.text, state, events):
        assert REGISTRY not in text
        assert PROXY not in text
    assert "image-metal" not in state, "no schematic where an installer is given"
    # The configurations have them, each as the real talosctl takes it.
    machines = lab.world().find("talos", "machine")
    assert sorted(machine.doc["hostname"] for machine in machines) == ["cp-1", "cp-2", "cp-3", "worker-1"]
    shown = lab.run("stack", "export", "--show-secrets").out
    assert REGISTRY in shown
    assert PROXY in shown
    assert lab.changes() == {}
