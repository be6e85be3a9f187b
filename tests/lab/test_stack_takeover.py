"""A cluster that was made by hand comes under management: no machine sees a change, a reboot or another bootstrap."""

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from handmade_cluster import CONTROL_PLANES, WORKERS, HandmadeCluster, settings
from hybrid_talos.talos_calls import Machine
from lab_folder import ROOT, Lab, Run

from lab import dns_server, overlay, tools
from lab.places import Places
from lab.session import Session
from lab.talos import fleet
from lab.talos.nodes import Node
from stacks import takeover_files
from stacks.export import documents
from stacks.secrets_bundle import secret_texts
from stacks.stack_state import read_state
from stacks.takeover_machines import Looker, Planned

pytestmark = pytest.mark.lab

ADDRESSES = [*CONTROL_PLANES.values(), *WORKERS.values()]
# What `talosctl gen config` writes for a worker and this program leaves to Talos.
INSTALL = "machine: {install: {wipe: false, grubUseUKICmdline: true}}"


@dataclass
class Site:
    """A lab whose machines run a cluster that Pulumi knows nothing of."""

    lab: Lab
    session: Session
    handmade: HandmadeCluster
    folder: Path
    config: Path
    temp: Path
    talos: dict[str, str]
    """Where each machine answers."""

    def run(self, *words: str, code: int | None = 0) -> Run:
        done = subprocess.run(
            words,
            cwd=ROOT,
            env={**self.session.environment, "TMPDIR": str(self.temp)},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        run = Run(done.returncode, done.stdout, done.stderr)
        assert code in (None, run.code), f"{words}: {run.text[-8000:]}"
        return run

    def pulumi(self, *words: str) -> Run:
        more = () if words[0] == "stack" else ("--config-file", str(self.config))
        return self.run("pulumi", *words, "--stack", "taken", *more, "--non-interactive")

    def takeover(self, *words: str, code: int) -> Run:
        given = words or ("--secrets", str(self.handmade.secrets), "--talosconfig", str(self.handmade.talosconfig))
        command = (sys.executable, "-m", "stacks.takeover", "--stack", "taken", "--config-file", str(self.config))
        return self.run(*command, *given, code=code)

    def write_settings(self, patch: str | None) -> None:
        """Write the configuration with the lab's addresses: a first draft, or one with a patch for the worker."""
        document = yaml.safe_load(self.lab_file.read_text())
        given = document["config"]["hybrid-talos:settings"]
        if patch is None:
            # The image factory's, as long as nobody has looked.
            del given["image"]
        else:
            given["cluster"]["workers"][0]["configPatches"] = [patch]
        text = yaml.safe_dump(document)
        session = self.session
        self.config.write_text(
            overlay.overlay(
                text,
                factory_url=session.factory_url,
                arm_url=session.arm_url,
                blob_url=session.blob_url,
                oss_url=session.oss_url,
                rpc_url=session.rpc_url,
                kubernetes_url=session.kubernetes_url,
                nameserver=session.nameserver,
                talos=self.talos,
            )
        )

    @property
    def lab_file(self) -> Path:
        assert self.lab.config_file is not None
        return self.lab.config_file

    def nodes(self) -> dict[str, Node]:
        held = fleet.of(self.session.world)
        assert held is not None
        found = {address: held.node(address) for address in ADDRESSES}
        return {address: node for address, node in found.items() if node is not None}

    def wait(self) -> None:
        """Wait until the machines have booted, which they do with each session."""
        end = time.monotonic() + 60
        while not all(node.ready for node in self.nodes().values()):
            assert time.monotonic() < end, self.nodes()
            time.sleep(0.1)

    def configs(self) -> dict[str, list[Any]]:
        """Return what the machines run, by the word of their administrator's own talosctl."""
        found = {}
        for address in ADDRESSES:
            words = ("-e", self.talos[address], "-n", address, "get", "machineconfig", "v1alpha1", "-o", "json")
            found[address] = list(yaml.safe_load_all(json.loads(self.handmade.do(*words))["spec"]))
        return found

    def secrets(self) -> list[str]:
        bundle = yaml.safe_load(self.handmade.secrets.read_text())
        context = yaml.safe_load(self.handmade.talosconfig.read_text())["contexts"]["demo"]
        texts = [*secret_texts(bundle), context["key"]]
        return texts + [base64.b64decode(text).decode() for text in texts if text.startswith("LS0t")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("takeover")
    found = tools.provide()
    handmade = HandmadeCluster(folder / "by-hand", folder / "lab" / "fleet", found.talosctl.path)
    with handmade.nodes:
        handmade.make()
    file = folder / "Pulumi.taken.yaml"
    file.write_text(yaml.safe_dump({"config": {"hybrid-talos:stack": "cluster", "hybrid-talos:settings": settings()}}))
    lab = Lab(folder / "lab", "taken", file)
    # Makes the stack, empty.
    lab.run("config", "set", "hybrid-talos:stack", "cluster")
    (folder / "temp").mkdir()
    with Session(Places(folder / "lab"), found) as session:
        talos = session.answer_for(dict.fromkeys(ADDRESSES))
        site = Site(lab, session, handmade, folder, folder / "overlaid.yaml", folder / "temp", talos)
        for name, members in overlay.names_to_make(file.read_text()).items():
            dns_server.by_hand(session.world, name, members)
        site.write_settings(None)
        site.wait()
        yield site


@pytest.fixture(autouse=True)
def _talosctl_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tools.provide().talosctl.path.parent
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_a_cluster_made_by_hand_is_taken_over_untouched(site: Site) -> None:
    nodes, configs = site.nodes(), site.configs()
    assert {node.phase for node in nodes.values()} == {"running"}

    first = site.takeover(code=1)
    assert "cp-1 (192.0.2.11): 1 would change\n  machine.install.image: runs registry.example.com/" in first.out
    assert "worker-1 (192.0.2.21): 3 would change\n" in first.out
    assert "  machine.install.wipe: runs False, settings give (absent)\n" in first.out
    assert "Nothing was changed on any machine" in first.err
    assert site.nodes() == nodes, "a look changed a machine"
    state = site.pulumi("stack", "export").out
    assert "control-plane-secrets" in state

    site.write_settings(INSTALL)
    second = site.takeover(code=0)
    assert second.out.count("nothing would change") == len(ADDRESSES)
    assert "are in stack" not in second.out, "the secrets were put there a second time"
    assert site.nodes() == nodes

    up = site.pulumi("up", "--yes", "--skip-preview")
    assert "the cluster was started before, and is taken as it is" in up.text
    after = site.nodes()
    for address, node in nodes.items():
        assert (after[address].bootID, after[address].uuid) == (node.bootID, node.uuid)
        for count in ("bootstraps", "recoveries", "boots", "reboots", "upgrades", "resets", "leaves"):
            assert after[address].counts[count] == node.counts[count], (address, count)
    assert sum(node.counts["bootstraps"] for node in after.values()) == 1
    assert site.configs() == configs, "a machine has another configuration"
    assert json.loads(site.pulumi("preview", "--json").out)["changeSummary"].keys() == {"same"}

    # The state is the cluster's own, and what is exported of it is what came in.
    exported = documents(read_state(site.pulumi("stack", "export", "--show-secrets").out))
    assert exported["secrets.sops.yaml"] == yaml.safe_load(site.handmade.secrets.read_text())

    managed = site.takeover(code=2)
    assert "manages the cluster already" in managed.err

    shown = [first.text, second.text, up.text, state, site.pulumi("stack", "export").out]
    kept = [path for path in (site.folder / "lab" / "state").rglob("*") if path.is_file()]
    assert kept
    for secret in site.secrets():
        assert all(secret not in text for text in shown)
        assert all(secret.encode() not in path.read_bytes() for path in kept)
    assert list(site.temp.glob("hybrid-talos-*")) == []


def test_files_of_another_cluster_are_refused_before_anything_is_put_into_the_stack(site: Site, tmp_path: Path) -> None:
    other, config = tmp_path / "secrets.yaml", tmp_path / "talosconfig"
    site.handmade.do("gen", "secrets", "--output-file", str(other))
    words = ("gen", "config", "demo", "https://other.example.com:6443", "--with-secrets", str(other))
    site.handmade.do(*words, "--output-types", "talosconfig", "--output", str(config))
    before = site.pulumi("stack", "export").out
    refused = site.takeover("--secrets", str(other), "--talosconfig", str(config), code=2)
    assert refused.err.startswith("takeover: cp-1 (192.0.2.11) does not take the talosconfig: ")
    assert "Next: see that the files are those of this cluster" in refused.err
    assert site.pulumi("stack", "export").out == before


def test_members_that_the_settings_do_not_have_are_found(site: Site) -> None:
    handmade = takeover_files.read(site.handmade.secrets, site.handmade.talosconfig)
    one = Planned(Machine("cp-1", "192.0.2.11", site.talos["192.0.2.11"]), "", [], control_plane=True)
    assert Looker(handmade.credentials, [one], []).strangers() == ["cp-2 (192.0.2.12)", "cp-3 (192.0.2.13)"]


def test_a_machine_that_does_not_answer_is_named_and_the_others_are_looked_at(site: Site) -> None:
    handmade = takeover_files.read(site.handmade.secrets, site.handmade.talosconfig)
    nobody = Planned(Machine("cp-9", "192.0.2.99", "127.0.0.1:9"), "", [], control_plane=True)
    verdict = Looker(handmade.credentials, [nobody], []).look(nobody, "1.13.0")
    assert not verdict.fine
    assert "192.0.2.99" in verdict.problem
