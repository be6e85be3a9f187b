"""Starts a fleet of fake Talos nodes, and looks at it and breaks it as tests want.

The nodes are `lab/tools/talos-nodes`, one process for all of a fleet. They speak the real machine API, so that the real
talosctl applies configs, bootstraps, upgrades and resets them. What is simulated: the machines themselves; etcd (its
members, quorum and snapshots, as a model); that a worker gets its certificate by trustd of a control plane; and the
Kubernetes of the cluster, with an API that keeps objects, nodes and pods but checks no fields and no roles; and, where
Kilo's DaemonSet has a pod, what Kilo's agent writes on the Node.
Listening is on loopback only: every node has an address of its own in a random 127.x.y.0/24, with Talos' port 50000
and, on control planes, Kubernetes' 6443. At 127.x.y.10:6443 is a load balancer for the latter.
"""

import contextlib
import json
import random
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, TypeVar, Unpack

from lab.real_tools import find_or_build
from lab.tool_builds import TALOS_NODES

PORT = 50000
"""Of apid: what talosctl adds to an endpoint without a port."""

KUBERNETES_PORT = 6443
FIRST = 11
"""The last byte of the first node's address; the balancer's is one less."""

FaultKind = Literal["slow", "hang", "refuse", "lose", "die", "perish"]
"""What a call meets: an answer late, no answer, a refusal, an answer that is lost on its way although all was done, the
machine's end before anything was done (of a stream: after some messages), or its end after all was done."""

_PATIENCE = 30.0
_T = TypeVar("_T")


class NodesError(Exception):
    """The fleet could not be started, or does not answer."""


@dataclass(frozen=True)
class Machine:
    """A machine before anybody touches it: in maintenance mode, with Talos on a USB stick or, if installed, on disk."""

    name: str
    address: str = ""
    """By which clients name it (``talosctl --nodes``); its loopback address if empty."""
    talos: str = "v1.13.0"
    installed: bool = False
    memory_mib: int = 8192
    disks: Sequence[dict[str, Any]] = ()
    """Each with ``path`` and ``size`` in bytes, and perhaps ``model``, ``serial``, ``wwid``, ``uuid``, ``modalias``,
    ``busPath``, ``transport``, ``readonly``, ``rotational``. One of 64 GiB, ``/dev/sda``, if there are none."""
    links: Sequence[dict[str, Any]] = ()
    """Each with ``name``, ``mac``, ``addresses`` (with prefix length), and perhaps ``driver``, ``up``. One ``eth0``
    with the machine's address if there are none."""


class Timings(TypedDict, total=False):
    """How long things take, in milliseconds; see internal/fleet/spec.go of the nodes for what each is."""

    install: int
    stop: int
    boot: int
    services: int
    join: int
    promote: int
    pull: int
    installer: int
    leave: int
    etcd: int
    kubernetes: int


class Trouble(TypedDict, total=False):
    """What is broken on a node until it is set right again."""

    etcdDown: bool
    kubeletDown: bool
    kubernetesDown: bool
    diskFull: bool
    upgradeFails: str
    noPull: bool
    timeUnsynced: bool
    diagnostic: str
    dark: bool
    bootStuck: bool


@dataclass(frozen=True)
class Node:
    """A node as it is now. Configs are shown by their digests: the first 12 hex digits of their SHA-256."""

    name: str
    address: str
    endpoint: str
    phase: Literal["off", "booting", "maintenance", "installing", "running", "stopping"]
    stage: str
    ready: bool
    unmet: dict[str, str]
    online: bool
    role: Literal["", "controlplane", "worker"]
    hostname: str
    cluster: str
    config: str
    persisted: str
    bootID: str  # noqa: N815 - as the control API writes it
    uuid: str
    installed: bool
    talos: str
    image: str
    schematic: str
    kubelet: str
    etcd: str
    member: str
    etcdState: str  # noqa: N815
    pulled: list[str]
    meta: dict[str, str]
    trouble: Trouble
    counts: dict[str, int]
    """applies, bootstraps, recoveries, boots, reboots, upgrades, resets, leaves, snapshots."""


@dataclass(frozen=True)
class Member:
    """An etcd member."""

    id: str
    node: str
    name: str
    learner: bool
    leader: bool


@dataclass(frozen=True)
class Etcd:
    """An etcd cluster. Two of one Talos cluster are what a second bootstrap makes."""

    id: str
    cluster: str
    origin: str
    """The digest of the snapshot that it was restored from, or nothing."""
    quorum: bool
    members: tuple[Member, ...]

    @property
    def voters(self) -> tuple[Member, ...]:
        """Return the members that count for the quorum."""
        return tuple(member for member in self.members if not member.learner)


@dataclass(frozen=True)
class Event:
    """A line of the fleet's log: a call, its answer, or what happened to a machine."""

    n: int
    time: str
    node: str
    kind: str
    """``call``, ``answer``, ``unimplemented``, ``phase``, ``bootstrap``, ``upgraded``, ``etcd``, ..."""
    method: str = ""
    of: int = 0
    """Of an answer: the number of its call."""
    code: str = ""
    text: str = ""
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def call(self) -> str:
        """Return the method without its service: ``ApplyConfiguration``."""
        return self.method.rpartition("/")[2]


def _of(kind: type[_T], record: dict[str, Any]) -> _T:
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: value for name, value in record.items() if name in names})


def _free_network(count: int) -> str:
    """Return the first three bytes of a loopback network where the first addresses have the port free."""
    for _ in range(100):
        prefix = f"127.{random.randint(16, 250)}.{random.randint(1, 250)}"
        with contextlib.ExitStack() as probes:
            try:
                for number in range(count):
                    probe = probes.enter_context(socket.socket())
                    probe.bind((f"{prefix}.{number + FIRST}", PORT))
            except OSError:
                continue
        return prefix
    raise NodesError(f"no loopback network has port {PORT} free")


def _described(known: dict[str, Any], machines: Sequence[Machine]) -> dict[str, Any]:
    """Return the description of a fleet with these machines too: those that are known stay where they are."""
    nodes: dict[str, dict[str, Any]] = {node["name"]: node for node in known.get("nodes", [])}
    fresh = [each for each in machines if each.name not in nodes]
    if nodes:
        prefix = known["balancer"].rpartition(":")[0].rpartition(".")[0]
        first = 1 + max(int(node["listen"].rpartition(":")[0].rpartition(".")[2]) for node in nodes.values())
    else:
        prefix, first = _free_network(len(machines)), FIRST
    for number, each in enumerate(fresh, start=first):
        nodes[each.name] = {
            "name": each.name,
            "address": each.address or f"{prefix}.{number}",
            "listen": f"{prefix}.{number}:{PORT}",
            "talos": each.talos,
            "installed": each.installed,
            "memoryMiB": each.memory_mib,
            "disks": list(each.disks),
            "links": list(each.links),
        }
    return {
        **known,
        "nodes": list(nodes.values()),
        "timings": known.get("timings", {}),
        "balancer": f"{prefix}.{FIRST - 1}:{KUBERNETES_PORT}",
    }


class TalosNodes:
    """A fleet. What it is stands in its folder: a fleet that was stopped or killed comes back as it was."""

    def __init__(
        self,
        folder: Path,
        machines: Sequence[Machine] = (),
        *,
        timings: Timings | None = None,
        reachable_kubeconfig: bool = False,
        binary: Path | None = None,
    ) -> None:
        """Describe a fleet, add machines to the one that the folder holds, or with no machines take that as it is.

        Args:
            folder: Where it keeps its state.
            machines: The machines, which get loopback addresses when their names are new.
            timings: How long things take; those not given are quick.
            reachable_kubeconfig: Whether the nodes' kubeconfigs name the balancer instead of the cluster's endpoint:
                for settings whose endpoint leads nowhere here.
            binary: The program; found or built if not given.
        """
        self.folder = folder
        self.binary = binary or find_or_build((TALOS_NODES,))[TALOS_NODES.name]
        self.process: subprocess.Popen[str] | None = None
        self._control = ""
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        description = folder / "fleet.json"
        if machines:
            folder.mkdir(parents=True, exist_ok=True)
            known = json.loads(description.read_text()) if description.exists() else {}
            spec = _described(known, machines)
            if timings is not None:
                spec["timings"] = {**spec["timings"], **timings}
            spec["kubeconfigServer"] = f"https://{spec['balancer']}" if reachable_kubeconfig else ""
            description.write_text(json.dumps(spec, indent=1))
        read = json.loads(description.read_text())
        self._nodes: list[dict[str, Any]] = read["nodes"]
        self.kubernetes_endpoint = f"https://{read['balancer']}"
        """Where the Kubernetes API is found as long as a control plane serves it."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start the process; it ends by itself when this one does."""
        log = (self.folder / "process.log").open("a")
        with log:
            self.process = subprocess.Popen(
                [str(self.binary), "-folder", str(self.folder), "-until-stdin-closes"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise NodesError(f"the fake nodes did not start:\n{(self.folder / 'process.log').read_text()[-2000:]}")
        self._control = json.loads(line)["control"]

    def stop(self) -> None:
        """End the process, which keeps the fleet as it is."""
        self._end(kill=False)

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        self._end(kill=True)

    def _end(self, *, kill: bool) -> None:
        process, self.process = self.process, None
        if process is None:
            return
        if kill:
            process.kill()
        else:
            process.terminate()
        process.wait(timeout=_PATIENCE)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    # Where a client finds the nodes.

    def endpoint(self, name: str) -> str:
        """Return the loopback address of a node's apid, on the port that talosctl takes by itself."""
        return self._listen(name).rpartition(":")[0]

    def address(self, name: str) -> str:
        """Return the address by which clients name a node to any other."""
        return str(self._spec(name)["address"])

    def _listen(self, name: str) -> str:
        return str(self._spec(name)["listen"])

    def _spec(self, name: str) -> dict[str, Any]:
        return next(node for node in self._nodes if node["name"] == name)

    # How they are.

    def nodes(self) -> dict[str, Node]:
        """Return all nodes, by name."""
        return {each["name"]: _of(Node, each) for each in self._ask("GET", "/nodes")}

    def node(self, name: str) -> Node:
        """Return one node."""
        return self.nodes()[name]

    def etcds(self) -> list[Etcd]:
        """Return the etcd clusters, oldest first."""
        return [
            Etcd(
                id=each["id"],
                cluster=each["cluster"],
                origin=each["from"],
                quorum=each["quorum"],
                members=tuple(_of(Member, member) for member in each["members"]),
            )
            for each in self._ask("GET", "/etcd")
        ]

    def events(self, after: int = 0, kind: str = "", method: str = "", node: str = "") -> list[Event]:
        """Return the log's lines behind number ``after``, of one kind, method (without its service) or node."""
        found = (_of(Event, each) for each in self._ask("GET", f"/events?after={after}"))
        return [
            each for each in found if kind in ("", each.kind) and method in ("", each.call) and node in ("", each.node)
        ]

    def unimplemented(self, after: int = 0) -> list[str]:
        """Return what clients asked for that the fake nodes do not have: a test fails if there is any."""
        return [f"{each.node}: {each.method}: {each.text}" for each in self.events(after, kind="unimplemented")]

    def wait(self, what: str, look: Callable[[dict[str, Node]], bool], patience: float = _PATIENCE) -> dict[str, Node]:
        """Return the nodes once they are as ``look`` wants them."""
        end = time.monotonic() + patience
        while True:
            nodes = self.nodes()
            if look(nodes):
                return nodes
            if time.monotonic() > end:
                states = "\n".join(f"{n.name}: {n.phase} {n.stage} {n.unmet} {n.etcdState}" for n in nodes.values())
                raise NodesError(f"not {what} after {patience:.0f} s:\n{states}")
            time.sleep(0.05)

    # How they break.

    def fault(
        self,
        kind: FaultKind,
        method: str = "*",
        node: str = "*",
        *,
        times: int = 1,
        skip: int = 0,
        delay: int = 0,
        code: str = "Unavailable",
        text: str = "refused by the test",
        after: int = 0,
        boot: bool = True,
    ) -> int:
        """Let the next calls of a method (a pattern, such as ``Etcd*``) meet a fault; return its number.

        Args:
            kind: What happens.
            method: The method without its service.
            node: A node's name, or ``*``.
            times: How many calls meet it; 0 for all.
            skip: How many go through first.
            delay: Of ``slow``: milliseconds.
            code: Of ``refuse``: the gRPC code.
            text: Of ``refuse``: the message.
            after: Of ``die``: how many messages of a stream are sent first.
            boot: Of ``die`` and ``perish``: whether the machine comes up again.
        """
        body = {"kind": kind, "method": method, "node": node, "times": times, "skip": skip, "delay": delay}
        body |= {"code": code, "text": text, "after": after, "boot": boot}
        return int(self._ask("POST", "/faults", body)["id"])

    def heal(self, fault: int = 0) -> None:
        """Take a fault away, or all."""
        self._ask("DELETE", f"/faults?id={fault}")

    def trouble(self, name: str, **trouble: Unpack[Trouble]) -> None:
        """Break or repair something on a node."""
        self._ask("PUT", f"/nodes/{name}/trouble", dict(trouble))

    def timings(self, **timings: Unpack[Timings]) -> None:
        """Change how long things take."""
        self._ask("PUT", "/timings", dict(timings))

    def power_cycle(self, name: str) -> None:
        """Cut a machine's power and give it back: it boots with another boot ID."""
        self._ask("POST", f"/nodes/{name}/reboot")

    def power_off(self, name: str) -> None:
        """Cut a machine's power."""
        self._ask("POST", f"/nodes/{name}/off")

    def power_on(self, name: str) -> None:
        """Start a machine that is off."""
        self._ask("POST", f"/nodes/{name}/on")

    def replace(self, name: str) -> None:
        """Put a new machine in place of one: nothing on its disks."""
        self._ask("POST", f"/nodes/{name}/replace")

    def lose_etcd(self, name: str) -> None:
        """Empty a node's etcd data directory behind its back."""
        self._ask("POST", f"/nodes/{name}/lose-etcd")

    def _ask(self, verb: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self._control}{path}", data, method=verb)  # noqa: S310 - loopback
        try:
            with self._opener.open(request, timeout=_PATIENCE) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise NodesError(f"{verb} {path}: {json.load(error)['error']}") from None
        except OSError as error:
            raise NodesError(f"{verb} {path}: {error}") from None
