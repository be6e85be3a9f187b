"""The machines of the lab have the disks that their settings ask for."""

import pytest

from lab.overlay import machines_of
from lab.talos.hardware import disk_for


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        ({}, None),
        ({"installDisk": "/dev/nvme0n1"}, {"path": "/dev/nvme0n1"}),
        ({"installDiskSelector": {"size": ">= 100GB", "type": "nvme"}}, {"size": 10**11, "transport": "nvme"}),
        ({"installDiskSelector": {"size": "> 1TiB", "type": "hdd"}}, {"size": 2**40 + 1, "rotational": True}),
        ({"installDiskSelector": {"size": "< 480G"}}, {"size": 480 * 10**9 - 1}),
        (
            {"installDiskSelector": {"model": "SAMSUNG*", "busPath": "/pci0000:00/*"}},
            {"model": "SAMSUNG1", "busPath": "/pci0000:00/1"},
        ),
    ],
)
def test_the_disk_of_a_machine(machine: dict[str, object], expected: dict[str, object] | None) -> None:
    disk = disk_for(machine)
    assert disk == expected if expected is None else disk is not None and expected.items() <= disk.items()


def test_the_machines_of_a_configuration() -> None:
    text = """
config:
  hybrid-talos:settings:
    cluster:
      controlPlanes: [{name: a, address: 192.0.2.11}]
      workers: [{name: b, address: 192.0.2.21, installDisk: /dev/vda}]
"""
    found = machines_of(text)
    assert found["192.0.2.11"] is None
    assert (found["192.0.2.21"] or {})["path"] == "/dev/vda"
    assert machines_of("config: {}") == {}
