"""The Talos API of a cluster through talosctl: which words it takes, and how its answers are read.

Answers are read as JSON where talosctl has it (`version --json`, `get -o json`). `etcd members`, `etcd status` and
`service` print tables alone (talosctl 1.13); their cells are found by where the words of the header stand, since cells
may be empty and may hold spaces.
"""

import json
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from .talos_calls import (
    EtcdMember,
    KubernetesImages,
    Machine,
    MachineStatus,
    NodeStatus,
    NotOfThisCluster,
    Say,
    Service,
    TalosError,
    Unreachable,
)
from .talosctl_run import Talosctl, check_kubernetes
from .versions import normalise_version

T = TypeVar("T")

_LOOK = 10.0
"""Seconds for a call that only looks."""
_WORK = 120.0
"""Seconds for a call that changes something and does not wait for its end."""


class TalosctlApi:
    """The Talos API of one cluster."""

    def __init__(self, credentials: Mapping[str, str], members: Sequence[Machine], *, lock: int | None = None) -> None:
        """``members`` are the control planes, through which a machine is reached that is not reached directly."""
        self._run = Talosctl(credentials, lock=lock)
        self._members = members

    def version(self, machine: Machine) -> str:
        """Return the version of Talos that runs, without `v`."""
        out = self._ask(machine, ["version", "--json"])
        try:
            return normalise_version(str(json.loads(out)["version"]["tag"]))
        except (ValueError, KeyError, TypeError):
            raise TalosError(f"{machine.name} does not tell its version of Talos") from None

    def in_maintenance(self, machine: Machine) -> bool:
        """Return whether the machine waits for its first configuration."""
        try:
            self._run.insecure(["version", "--json"], endpoint=machine.endpoint, seconds=_LOOK)
        except TalosError as error:
            # Answered, but knows less than with a configuration.
            return "maintenance" in str(error) or "code = Unimplemented" in str(error)
        return True

    def configuration(self, machine: Machine) -> str:
        """Return the configuration that the machine runs with. Secret."""
        out = self._ask(machine, ["get", "machineconfig", "v1alpha1", "-o", "json"])
        try:
            return str(json.loads(out)["spec"])
        except (ValueError, KeyError, TypeError):
            # Without the cause, which would quote it.
            raise TalosError(f"{machine.name} does not tell its configuration") from None

    def schematic(self, machine: Machine) -> str:
        """Return the Image Factory's schematic that the machine runs; empty when there is none.

        The factory adds an extension of that name to each image (siderolabs/image-factory
        `internal/schematic`); its version is the schematic's ID.
        """
        for spec in self._resources(machine, "extensions"):
            metadata = spec.get("metadata", {})
            if metadata.get("name") == "schematic":
                return str(metadata.get("version", ""))
        return ""

    def status(self, machine: Machine) -> MachineStatus:
        """Return the machine's own view of itself."""
        for spec in self._resources(machine, "machinestatus"):
            status = spec.get("status") or {}
            unmet = [(str(c.get("name")), str(c.get("reason"))) for c in status.get("unmetConditions") or ()]
            return MachineStatus(str(spec.get("stage")), bool(status.get("ready")), unmet)
        return MachineStatus("unknown", False)

    def services(self, machine: Machine) -> Sequence[Service]:
        """Return the services."""
        rows = table(self._ask(machine, ["service"]), ["SERVICE", "STATE", "HEALTH", "LAST CHANGE"])
        return [Service(row["SERVICE"], row["STATE"], row["HEALTH"]) for row in rows]

    def node(self, machine: Machine) -> NodeStatus | None:
        """Return the machine's Node, or None while it has none."""
        for spec in self._resources(machine, "nodestatus"):
            return NodeStatus(str(spec.get("nodename")), bool(spec.get("nodeReady")), not spec.get("unschedulable"))
        return None

    def bootstrap(self, machine: Machine) -> None:
        """Start the cluster's etcd on a control plane; an error when it has data already."""
        self._change(machine, ["bootstrap"], _WORK)

    def etcd_members(self, machine: Machine) -> Sequence[EtcdMember]:
        """Return etcd's list of members as this member sees it; an error without quorum."""
        rows = table(self._ask(machine, ["etcd", "members"]), ["ID", "HOSTNAME", "PEER URLS", "CLIENT URLS", "LEARNER"])
        return [
            EtcdMember(row["ID"], row["HOSTNAME"], _host(row["PEER URLS"]), row["LEARNER"] == "true") for row in rows
        ]

    def etcd_problem(self, machine: Machine) -> str:
        """Return what this machine's own member complains of, or an empty text when it works with a leader."""
        (row, *_) = table(self._ask(machine, ["etcd", "status"]), ["MEMBER", "LEADER", "LEARNER", "ERRORS"]) or [{}]
        if not row:
            return "etcd does not tell its state"
        if not row["LEADER"].strip("0"):
            return "etcd has no leader"
        return row["ERRORS"]

    def snapshot(self, machine: Machine, recipients: Sequence[str]) -> Generator[bytes, None, None]:
        """Take etcd's snapshot and yield it, encrypted for public keys of age; raises at its end if it is not whole."""
        from .snapshot_stream import encrypted_snapshot  # noqa: PLC0415 - loads a library that few calls need

        ends = self._reach(machine, lambda ends: self._that_answer(machine, ends))
        return encrypted_snapshot(self._run, replace(machine, endpoint=",".join(ends)), recipients)

    def upgrade(self, machine: Machine, image: str, seconds: float, say: Say) -> None:
        """Install another Talos and reboot into it; return when the machine runs again."""
        words = ["upgrade", "--image", image, "--drain=false", "--wait", "--timeout", f"{seconds:.0f}s"]
        # Pods are evicted before, with the cluster's budgets and limits that this program knows.
        self._follow(machine, words, seconds + 60, say)

    def upgrade_kubernetes(
        self, machine: Machine, version: str, images: KubernetesImages, server: str | None, seconds: float, say: Say
    ) -> None:
        """Bring all of Kubernetes to a version."""
        check_kubernetes(self._run.version, version)
        words = ["upgrade-k8s", "--to", version, "--with-docs=false", "--with-examples=false"]
        if server is not None:
            words += ["--endpoint", server]
        for flag, image in sorted(images.flags.items()):
            words += [f"--{flag}", image]

        def shown(line: str) -> None:
            # The rest of what it prints are differences of manifests, and some of those hold tokens.
            if re.match(r"(> |< |updating |discovered |automatically )", line):
                say(line)

        self._follow(machine, words, seconds, shown)

    def leave_etcd(self, machine: Machine) -> None:
        """Let a machine leave etcd."""
        self._change(machine, ["etcd", "leave"], 360)

    def remove_etcd_member(self, via: Machine, member_id: str) -> None:
        """Take a dead member out of etcd."""
        self._change(via, ["etcd", "remove-member", member_id], _WORK)

    def reset(self, machine: Machine, *, graceful: bool) -> None:
        """Wipe the machine and reboot it into maintenance mode; return when the reset has begun."""
        self._change(machine, ["reset", f"--graceful={str(graceful).lower()}", "--reboot", "--wait=false"], _WORK)

    def kubeconfig(self, machine: Machine) -> str:
        """Return credentials of a Kubernetes administrator."""
        return self._ask(machine, ["kubeconfig", "-", "--merge=false"])

    def _resources(self, machine: Machine, kind: str) -> list[dict[str, Any]]:
        """Return the specs of a machine's resources of a kind."""
        out = self._ask(machine, ["get", kind, "-o", "json"])
        decoder, specs, at = json.JSONDecoder(), [], 0
        try:
            # One object after the other, not a list.
            while at < len(out.rstrip()):
                found, at = decoder.raw_decode(out, at + len(out[at:]) - len(out[at:].lstrip()))
                specs.append(dict(found["spec"]))
        except (ValueError, KeyError, TypeError):
            raise TalosError(f"{machine.name} answers `get {kind}` with something that is not understood") from None
        return specs

    def _ask(self, machine: Machine, words: Sequence[str]) -> str:
        return self._reach(
            machine, lambda ends: self._run.run(words, endpoints=ends, node=machine.address, seconds=_LOOK)
        )

    def _change(self, machine: Machine, words: Sequence[str], seconds: float) -> str:
        # Looked for first, so that a change is asked for once: an answer that is lost may belong to work that is done.
        ends = self._reach(machine, lambda ends: self._that_answer(machine, ends))
        return self._run.follow(words, endpoints=ends, node=machine.address, seconds=seconds, say=lambda _: None)

    def _follow(self, machine: Machine, words: Sequence[str], seconds: float, say: Say) -> str:
        ends = self._reach(machine, lambda ends: self._that_answer(machine, ends))
        return self._run.follow(words, endpoints=ends, node=machine.address, seconds=seconds, say=say)

    def _that_answer(self, machine: Machine, ends: Sequence[str]) -> Sequence[str]:
        self._run.run(["version", "--json"], endpoints=ends, node=machine.address, seconds=_LOOK)
        return ends

    def _reach(self, machine: Machine, call: Callable[[Sequence[str]], T]) -> T:
        """Call a machine directly, and through the control planes when that does not get there."""
        others = [member.endpoint for member in self._members if member.endpoint != machine.endpoint]
        try:
            return call([machine.endpoint])
        except NotOfThisCluster:
            # It answered for itself: nobody else knows better.
            raise
        except Unreachable:
            if not others:
                raise
            return call(others)


def table(printed: str, columns: Iterable[str]) -> list[dict[str, str]]:
    """Return the rows of a table of talosctl, the named columns of each; TalosError when the header has not all."""
    lines = [line for line in printed.splitlines() if line.strip()]
    if not lines:
        return []
    # Cells are at least three spaces apart (Go's text/tabwriter, padding 3).
    heads = [(found.start(), found[0]) for found in re.finditer(r"\S+(?: \S+)*", lines[0])]
    missing = set(columns) - {name for _, name in heads}
    if missing:
        raise TalosError(f"talosctl prints a table without {', '.join(sorted(missing))}: its version is not known here")
    ends = [start for start, _ in heads[1:]] + [None]
    return [
        {name: line[start:end].strip() for (start, name), end in zip(heads, ends, strict=True)} for line in lines[1:]
    ]


def _host(urls: str) -> str:
    """Return the host of the first of a member's addresses."""
    return urlsplit(urls.split(",", maxsplit=1)[0]).hostname or ""
