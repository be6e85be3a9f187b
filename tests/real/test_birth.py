"""A cluster's birth by this program's own work: the real talosctl, on machines that speak the real Talos API."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hybrid_talos import etcd_bootstrap, life_props
from hybrid_talos.talos_calls import Machine as Known
from hybrid_talos.work_provider import WorkError
from talos_cluster import CONTROL_PLANES, Cluster

from lab import tools
from lab.places import ROOT
from lab.talos.nodes import Machine, TalosNodes
from stacks.settings_machines import Machine as MachineSettings

pytestmark = pytest.mark.real


@pytest.fixture(autouse=True)
def _talosctl_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tools.provide().talosctl.path.parent
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Cluster]:
    """Three control planes with their configuration, and nothing started."""
    cluster = Cluster(tmp_path, tools.provide().talosctl.path, CONTROL_PLANES)
    with cluster.nodes:
        cluster.wait("maintenance")
        cluster.generate()
        cluster.apply_first(*CONTROL_PLANES)
        yield cluster
        assert cluster.nodes.unimplemented() == []


def props(cluster: Cluster, first: str = "cp-1", members: tuple[str, ...] = CONTROL_PLANES) -> dict[str, Any]:
    context = yaml.safe_load((cluster.folder / "talosconfig").read_text())["contexts"]["demo"]

    def machine(name: str) -> dict[str, str]:
        return {"name": name, "address": cluster.nodes.address(name), "endpoint": cluster.nodes.endpoint(name)}

    return {
        "first": machine(first),
        "members": [machine(name) for name in members],
        "client_configuration": {
            "caCertificate": context["ca"],
            "clientCertificate": context["crt"],
            "clientKey": context["key"],
        },
    }


def bootstraps(cluster: Cluster) -> dict[str, int]:
    return {
        name: node.counts["bootstraps"] for name, node in cluster.nodes.nodes().items() if node.counts["bootstraps"]
    }


def test_a_cluster_is_started_while_its_machines_still_install(empty: Cluster) -> None:
    etcd_bootstrap.create(props(empty, "cp-2"))
    empty.wait_ready()
    assert bootstraps(empty) == {"cp-2": 1}
    assert len(empty.nodes.etcds()) == 1


def test_a_bootstrap_whose_answer_is_lost_is_adopted(empty: Cluster) -> None:
    empty.wait("running")
    empty.nodes.fault("lose", "Bootstrap")
    etcd_bootstrap.create(props(empty))
    # A run that was killed before it recorded that, and a list in which another machine comes first.
    etcd_bootstrap.create(props(empty, "cp-1", ("cp-3", "cp-2", "cp-1")))
    empty.wait_ready()
    assert bootstraps(empty) == {"cp-1": 1}
    assert len(empty.nodes.etcds()) == 1


def test_a_cluster_that_somebody_started_by_hand_is_adopted(empty: Cluster) -> None:
    empty.wait("running")
    empty.do("bootstrap", nodes=["cp-3"])
    empty.wait_ready()
    etcd_bootstrap.create(props(empty, "cp-1"))
    assert bootstraps(empty) == {"cp-3": 1}


def test_a_machine_that_dies_while_it_starts_the_cluster_is_gone_on_from(empty: Cluster) -> None:
    empty.wait("running")
    empty.nodes.fault("die", "Bootstrap")
    etcd_bootstrap.create(props(empty))
    empty.wait_ready()
    assert len(empty.nodes.etcds()) == 1


def test_machines_of_another_cluster_are_left_alone(empty: Cluster, tmp_path: Path) -> None:
    empty.wait("running")
    stranger = Cluster(tmp_path / "other", empty.talosctl, ("cp-1",))
    (tmp_path / "other").mkdir(exist_ok=True)
    stranger.generate(stranger=True)
    wrong = props(empty) | {"client_configuration": props(stranger, members=("cp-1",))["client_configuration"]}
    with pytest.raises(WorkError, match="was not started within 0 minutes"):
        _in_no_time(wrong)
    assert bootstraps(empty) == {}


def _in_no_time(given: dict[str, Any]) -> None:
    with life_props.cluster_of(given) as cluster:
        etcd_bootstrap.start(cluster, Known.of(given["first"]), seconds=0)


def discover(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "stacks.discover", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[TalosNodes]:
    """Two machines in maintenance mode, one of them with more than one disk."""
    disks = [
        {
            "path": "/dev/sda",
            "size": 480 * 10**9,
            "model": "SAMSUNG MZ7LH480",
            "serial": "S45PNA0M1",
            "transport": "sata",
        },
        {"path": "/dev/sdb", "size": 32 * 10**9, "model": "Stick", "serial": "S1", "transport": "usb"},
    ]
    with TalosNodes(tmp_path / "fleet", [Machine("a", disks=disks), Machine("b")]) as nodes:
        nodes.wait("maintenance", lambda n: all(each.phase == "maintenance" and each.online for each in n.values()))
        yield nodes


def test_discover_prints_machines_as_settings(rack: TalosNodes) -> None:
    first, second = rack.endpoint("a"), rack.endpoint("b")
    done = discover(first, second, "--prefix", "cp")
    assert done.returncode == 0, done.stderr
    entries = yaml.safe_load(done.stdout)
    machines = [MachineSettings.model_validate_json(json.dumps(entry)) for entry in entries]
    assert [(m.name, str(m.address), m.install_disk) for m in machines] == [
        ("cp-1", first, "/dev/sda"),
        ("cp-2", second, "/dev/sda"),
    ]
    assert 'installDiskSelector: {serial: "S45PNA0M1"}' in done.stdout
    assert "# disk: /dev/sdb  32 GB" in done.stdout
    assert machines[0].links == ()
    assert "# link: eth0" in done.stdout
    assert "SAMSUNG" in done.stderr
    assert rack.unimplemented() == []


def test_discover_writes_the_addresses_of_now_as_static_ones(rack: TalosNodes) -> None:
    at = rack.endpoint("a")
    done = discover(at, "--static")
    assert done.returncode == 0, done.stderr
    (entry,) = yaml.safe_load(done.stdout)
    machine = MachineSettings.model_validate_json(json.dumps(entry))
    assert [(link.name, link.addresses) for link in machine.links] == [("eth0", (f"{at}/24",))]
    # The fake machines have no routes, and talosctl prints none.
    assert all("RouteStatuses" in line for line in rack.unimplemented())


def test_discover_says_what_is_wrong_with_a_machine_and_shows_the_others(empty: Cluster) -> None:
    empty.wait("running")
    configured, nobody = empty.nodes.endpoint("cp-1"), "127.255.255.1"
    done = discover(configured, nobody)
    assert done.returncode == 1
    text = " ".join(done.stderr.split())
    assert f"{configured} is not in maintenance mode: it has a configuration already" in text
    assert f"{nobody} does not answer" in text
    assert "Traceback" not in text
    assert done.stdout == ""


def test_discover_needs_talosctl_and_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "must be an IPv4 address" in discover("cp-1.example.com").stderr
    monkeypatch.setenv("PATH", "/nowhere")
    done = discover("127.0.0.1")
    assert done.returncode == 2
    assert "talosctl is needed and not on PATH" in " ".join(done.stderr.split())
