"""Peers outside of the cluster on the real engine: keys made once, files that stay, secrets that do not show."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_folder import Lab

pytestmark = pytest.mark.lab

KEPT = "dG9wIHNlY3JldCBwdWJsaWMga2V5IG9mIGJvYiAhISE="
"""A public key whose private half stays with its owner."""


def peers(**machines: Any) -> Any:
    """Return a change to the settings of a stack that builds a cluster alone, with peers."""

    def change(settings: dict[str, Any]) -> None:
        for section in ("azure", "aliyun", "autoscaler"):
            settings.pop(section, None)
        settings["mesh"]["peers"] = {"cidr": "10.5.0.0/24", "machines": machines, "services": True}

    return change


def stack(hybrid: Lab, path: Path, *, protect: bool = True, **machines: Any) -> Lab:
    def change(settings: dict[str, Any]) -> None:
        peers(**machines)(settings)
        settings["cluster"]["protect"] = protect

    lab = hybrid.with_settings(path, change)
    document = yaml.safe_load(path.read_text())
    document["config"]["hybrid-talos:stack"] = "cluster"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return lab


class TestPeers:
    """In order: each test goes on from the one before."""

    def test_files_are_handed_out_as_a_secret(self, hybrid: Lab, tmp_path: Path) -> None:
        lab = stack(hybrid, tmp_path / "Pulumi.dev.yaml", alice={}, bob={"address": "10.5.0.9", "publicKey": KEPT})
        assert {step["op"] for step in lab.preview()} == {"create"}
        lab.up()
        assert lab.outputs()["meshClients"] == "[secret]"
        files = lab.outputs(show_secrets=True)["meshClients"]
        assert set(files) == {"alice", "bob"}
        # Every machine is a tunnel of its own; the control planes are waited for, and the workers are met by a refresh.
        assert 3 <= files["alice"].count("[Peer]") == files["bob"].count("[Peer]") <= 5
        for _ in range(3):
            if files["alice"].count("[Peer]") < 5:
                lab.up()
                files = lab.outputs(show_secrets=True)["meshClients"]
        assert files["alice"].count("[Peer]") == files["bob"].count("[Peer]") == 5
        # The first one leads to the services too.
        assert files["alice"].count("10.96.0.0/16") == 1
        assert "Endpoint = 192.0.2.11:51820" in files["alice"]
        records = lab.world().find("kubernetes", "kilo.squat.ai/v1alpha1/Peer")
        found = {record.doc["metadata"]["name"]: record.doc for record in records}
        assert found["mesh-peers-bob"]["spec"]["publicKey"] == KEPT
        assert found["mesh-peers-bob"]["spec"]["allowedIPs"] == ["10.5.0.9/32"]
        private = next(line for line in files["alice"].splitlines() if line.startswith("PrivateKey"))
        state = json.dumps(lab.state())
        assert private.removeprefix("PrivateKey = ") not in state
        assert KEPT in state

    def test_nothing_changes_afterwards(self, hybrid: Lab, tmp_path: Path) -> None:
        lab = stack(hybrid, tmp_path / "Pulumi.dev.yaml", alice={}, bob={"address": "10.5.0.9", "publicKey": KEPT})
        before = lab.outputs(show_secrets=True)["meshClients"]
        assert lab.changes() == {}
        lab.up()
        assert lab.outputs(show_secrets=True)["meshClients"] == before

    def test_another_peer_moves_none_and_one_that_goes_takes_its_own_along(self, hybrid: Lab, tmp_path: Path) -> None:
        lab = stack(hybrid, tmp_path / "Pulumi.dev.yaml", alice={}, carol={})
        before = hybrid.outputs(show_secrets=True)["meshClients"]
        changes = {urn.rsplit("::", 1)[1]: op for urn, op in lab.changes().items()}
        changes = {name: op for name, op in changes.items() if not name.startswith("hybrid-talos-")}
        assert changes == {
            "mesh-peers-bob": "delete",
            "mesh-peers-carol": "create",
            "mesh-peers-carol-key": "create",
        }
        lab.up()
        after = lab.outputs(show_secrets=True)["meshClients"]
        assert set(after) == {"alice", "carol"}
        assert after["alice"] == before["alice"]

    def test_it_leaves_nothing(self, hybrid: Lab, tmp_path: Path) -> None:
        lab = stack(hybrid, tmp_path / "Pulumi.dev.yaml", protect=False, alice={}, carol={})
        lab.up()
        lab.destroy()
        assert lab.state() == []
        assert lab.world().find("kubernetes", "kilo.squat.ai/v1alpha1/Peer") == []
