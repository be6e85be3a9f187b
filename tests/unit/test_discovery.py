"""What is read of a machine in maintenance mode. The answers have the form of talosctl's JSON output
(siderolabs/talos `cmd/talosctl/cmd/talos/output/json.go`) and the fields of its resources (`pkg/machinery/resources/`).
"""

import json
from typing import Any

import pytest
import yaml

from stacks.discovery import NotUnderstoodError, look, resources, settings_of
from stacks.settings_machines import Machine as MachineSettings

DISKS: dict[str, dict[str, Any]] = {
    "sda": {"dev_path": "/dev/sda", "size": 480103981056, "transport": "sata", "model": "SAMSUNG MZ7LH480",
            "serial": "S45PNA0M1", "wwid": "naa.5002538e40a1b2c3", "sub_system": "/sys/class/block"},
    "nvme0n1": {"dev_path": "/dev/nvme0n1", "size": 960197124096, "transport": "nvme", "serial": "S64",
                "wwid": "eui.1"},
    "sdb": {"dev_path": "/dev/sdb", "size": 32000000000, "transport": "usb", "rotational": True, "serial": "S64"},
    "sr0": {"dev_path": "/dev/sr0", "size": 6000000000, "transport": "ata", "readonly": True, "cdrom": True},
    "loop0": {"dev_path": "/dev/loop0", "size": 75000000, "readonly": True},
    "dm-0": {"dev_path": "/dev/dm-0", "size": 75000000000},
    "sdc": {"dev_path": "/dev/sdc", "size": 1000000000, "transport": "sata"},
}  # fmt: skip
LINKS: dict[str, dict[str, Any]] = {
    "eno2": {"type": "ether", "kind": "", "hardwareAddr": "02:00:5e:10:00:02", "linkState": False},
    "eno1": {"type": "ether", "kind": "", "hardwareAddr": "02:00:5e:10:00:01", "permanentAddr": "02:00:5e:10:00:01",
             "linkState": True},
    "lo": {"type": "loopback", "kind": "", "linkState": True},
    "bond0": {"type": "ether", "kind": "bond", "linkState": False},
}  # fmt: skip
ADDRESSES: dict[str, dict[str, Any]] = {
    "eno1/192.0.2.11/24": {"address": "192.0.2.11/24", "linkName": "eno1", "family": "inet4"},
    "eno1/fe80::1/64": {"address": "fe80::1/64", "linkName": "eno1", "family": "inet6"},
    "lo/127.0.0.1/8": {"address": "127.0.0.1/8", "linkName": "lo", "family": "inet4"},
}
ROUTES: dict[str, dict[str, Any]] = {
    "inet4/192.0.2.1//1024": {"family": "inet4", "dst": "", "gateway": "192.0.2.1", "outLinkName": "eno1"},
    "inet4//192.0.2.0/24/1024": {"family": "inet4", "dst": "192.0.2.0/24", "gateway": "", "outLinkName": "eno1"},
}
PRINTED = {"disks": DISKS, "links": LINKS, "addresses": ADDRESSES, "routes": ROUTES}


def printed(kind: str) -> str:
    return "".join(
        json.dumps({"metadata": {"id": name}, "node": "192.0.2.11", "spec": spec}, indent=4) + "\n"
        for name, spec in PRINTED[kind].items()
    )


def test_only_what_talos_would_install_on_is_a_disk() -> None:
    machine = look("192.0.2.11", printed)
    assert [disk.path for disk in machine.disks] == ["/dev/nvme0n1", "/dev/sda", "/dev/sdb"]
    assert machine.disk is not None
    assert machine.disk.path == "/dev/nvme0n1"


def test_links_are_the_physical_ones_with_their_addresses() -> None:
    first, second = look("192.0.2.11", printed).links
    assert (first.name, first.up, first.addresses, first.gateway) == ("eno1", True, ("192.0.2.11/24",), "192.0.2.1")
    assert (second.name, second.up, second.addresses) == ("eno2", False, ())


@pytest.mark.parametrize("static", [True, False])
def test_what_is_printed_are_settings(static: bool) -> None:
    text = settings_of(look("192.0.2.11", printed), "cp-1", static=static)
    (entry,) = yaml.safe_load(text)
    machine = MachineSettings.model_validate_json(json.dumps(entry))
    assert (machine.name, str(machine.address), machine.install_disk) == ("cp-1", "192.0.2.11", "/dev/nvme0n1")
    links = [(link.name, link.addresses, [str(route.gateway) for route in link.routes]) for link in machine.links]
    assert links == ([("eno1", ("192.0.2.11/24",), ["192.0.2.1"])] if static else [])
    assert 'installDiskSelector: {wwid: "eui.1"}' in text
    assert "# disk: /dev/sda  480 GB  ssd  sata  SAMSUNG MZ7LH480  serial S45PNA0M1" in text
    assert "# link: eno2  02:00:5e:10:00:02  down" in text


def test_a_stick_is_taken_only_where_there_is_nothing_else() -> None:
    def only(kind: str) -> str:
        return printed(kind) if kind != "disks" else json.dumps({"metadata": {"id": "sdb"}, "spec": DISKS["sdb"]})

    machine = look("192.0.2.11", only)
    assert machine.disk is not None
    assert machine.disk.path == "/dev/sdb"


def test_a_machine_without_a_disk_says_so() -> None:
    text = settings_of(look("192.0.2.11", lambda kind: "" if kind == "disks" else printed(kind)), "cp-1", static=False)
    assert "# no disk of 5 GB or more was found" in text
    assert yaml.safe_load(text) == [{"name": "cp-1", "address": "192.0.2.11"}]


@pytest.mark.parametrize("text", ["no json", "{}", '{"metadata": {}}', '{"metadata": {"id": "a"}} {', "[1]"])
def test_other_answers_are_not_taken_for_resources(text: str) -> None:
    with pytest.raises(NotUnderstoodError):
        resources(text)
