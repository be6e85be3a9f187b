"""Machines that wait in maintenance mode although they were given a configuration: their installation failed.

Talos keeps a configuration on the disk that it installs to. When there is none, it boots again without
(siderolabs/talos `v1alpha1_sequencer.go`), and no waiting helps.
"""

from collections.abc import Iterable

from .cluster_work import Cluster
from .talos_calls import Machine
from .work_provider import WorkError

SECONDS = 120.0
"""How long a machine may wait so: one that has just got its configuration still answers for a moment."""


class FellBack(WorkError):
    """A machine fell back into maintenance mode."""


class MaintenanceWatch:
    """Sees since when machines wait in maintenance mode."""

    def __init__(self, cluster: Cluster) -> None:
        """``cluster`` tells the time."""
        self._cluster = cluster
        self._since: dict[str, float] = {}

    def look(self, waiting: Iterable[Machine]) -> None:
        """Take note of the machines that wait now; FellBack, with the likely cause, when some did for too long."""
        now = self._cluster.clock()
        found = {machine.address: machine for machine in waiting}
        self._since = {address: self._since.get(address, now) for address in found}
        late = [found[address] for address, since in sorted(self._since.items()) if now - since >= SECONDS]
        if not late:
            return
        names = ", ".join(f"{machine.name} at {machine.address}" for machine in late)
        raise FellBack(
            f"{names}: waits in maintenance mode again after its configuration was applied, so Talos could not be "
            "installed, or was wiped since. Most likely no disk is what installDisk or installDiskSelector says, or "
            "the installer image cannot be pulled; its console tells. Next: compare its disks "
            f"(`python -m stacks.discover {late[0].address}`), correct the settings, and run `pulumi up` again"
        )
