"""What the machines of a cluster run, held against what the settings give; nothing here changes a machine."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from hybrid_talos._contract import BadInputs
from hybrid_talos.secret_file import pipe_file, secret_file
from hybrid_talos.talos_calls import Machine, NotOfThisCluster, TalosError
from hybrid_talos.talos_yaml import load
from hybrid_talos.talosctl_api import TalosctlApi
from hybrid_talos.talosctl_run import Talosctl, find_talosctl
from hybrid_talos.work_provider import WorkError

from .config_difference import differences

_SECONDS = 60.0


@dataclass(frozen=True)
class Planned:
    """A machine as the program would configure it."""

    machine: Machine
    base: str = field(repr=False)
    patches: Sequence[str] = field(repr=False)
    control_plane: bool


@dataclass
class Verdict:
    """What a machine says to its configuration."""

    name: str
    address: str
    problem: str = ""
    """Why it could not be looked at."""
    lines: list[str] = field(default_factory=list)
    """What is different."""
    reboots: bool = False

    @property
    def fine(self) -> bool:
        """Return whether nothing would change."""
        return not self.problem and not self.lines


def check_answers(credentials: Mapping[str, str], control_planes: Sequence[Machine]) -> None:
    """Raise WorkError unless a control plane answers to the credentials, and none says that they are not its own."""
    talosctl = TalosctlApi(credentials, ())
    silent: list[str] = []
    for machine in control_planes:
        try:
            talosctl.version(machine)
        except NotOfThisCluster as error:
            raise WorkError(
                f"{machine.name} ({machine.address}) does not take the talosconfig: {error}. Next: see that the files "
                "are those of this cluster, and that the machine runs"
            ) from None
        except TalosError as error:
            silent.append(str(error))
    if len(silent) == len(control_planes):
        raise WorkError(f"no control plane of the settings answers: {silent[0] if silent else 'there is none'}")


class Looker:
    """Looks at the machines of one cluster with its credentials."""

    def __init__(self, credentials: Mapping[str, str], planned: Sequence[Planned], hidden: Sequence[str]) -> None:
        """``hidden`` are texts that are never shown. Raises WorkError when there is no talosctl."""
        self._path, _ = find_talosctl()
        self._talosctl = Talosctl(credentials)
        self._planned = planned
        self._hidden = hidden
        self._api = TalosctlApi(credentials, [each.machine for each in planned if each.control_plane])

    def strangers(self) -> list[str]:
        """Return the members of etcd that are no control planes of the settings; TalosError when none answers."""
        planes = [each.machine for each in self._planned if each.control_plane]
        known = {name for machine in planes for name in (machine.address, machine.name)}
        members = self._api.etcd_members(planes[0])
        return sorted(
            f"{member.name} ({member.address})" for member in members if not {member.name, member.address} & known
        )

    def look(self, planned: Planned, talos_version: str) -> Verdict:
        """Return what would change on a machine: by its own word, and value by value."""
        machine = planned.machine
        verdict = Verdict(machine.name, machine.address)
        try:
            running = self._api.version(machine)
            if running != talos_version:
                verdict.lines.append(f"Talos: runs {running}, settings say {talos_version} (cluster.talosVersion)")
            generated = self._patched(planned)
            said = self._dry_run(machine, generated)
            if "No changes." in said:
                return verdict
            verdict.reboots = any(line.startswith("Applied configuration with a reboot") for line in said)
            found = differences(load(self._runs(machine)), load(generated), self._hidden)
            verdict.lines += map(str, found)
            if not found:
                verdict.lines.append("the machine sees a change that is not one of values, such as another order")
        except (TalosError, BadInputs) as error:
            verdict.problem = str(error)
        return verdict

    def _patched(self, planned: Planned) -> str:
        """Return the configuration of a machine as the Talos provider makes it: patched by the same library."""
        with ExitStack() as stack:
            files = [
                stack.enter_context(secret_file(text)) for text in (planned.base, *planned.patches) if text.strip()
            ]
            patching = [word for file in files[1:] for word in ("--patch", f"@{file.path}")]
            if not patching:
                return planned.base
            done = subprocess.run(
                [self._path, "machineconfig", "patch", files[0].path, *patching],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
                pass_fds=[descriptor for file in files for descriptor in file.descriptors],
            )
        if done.returncode:
            # Its message quotes the patches.
            raise TalosError("talosctl does not take the patches that the settings give")
        return done.stdout

    def _dry_run(self, machine: Machine, config: str) -> list[str]:
        """Return what a machine says it would do with a configuration. It holds secrets."""
        said: list[str] = []
        with pipe_file(config) as file:
            self._talosctl.follow(
                ["apply-config", "--dry-run", "--mode", "auto", "-f", file.path],
                endpoints=[machine.endpoint],
                node=machine.address,
                seconds=_SECONDS,
                say=said.append,
            )
        return said

    def _runs(self, machine: Machine) -> str:
        printed = self._talosctl.run(
            ["get", "machineconfig", "v1alpha1", "-o", "json"],
            endpoints=[machine.endpoint],
            node=machine.address,
            seconds=_SECONDS,
        )
        try:
            spec: Any = json.loads(printed)["spec"]
        except (ValueError, KeyError, TypeError):
            spec = None
        if not isinstance(spec, str):
            raise TalosError(f"{machine.name} does not show its configuration: is this an administrator's talosconfig?")
        return spec
