"""The machines of a lab's settings as nodes that answer on loopback to the real talosctl.

The simulated Talos provider keeps what a cluster is in the world, as the other clouds do; what it applies and resets
there it applies and resets here too, with the real talosctl. What the program itself asks of machines, it asks these.
"""

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from lab.world import CloudError, World

from . import machines, talosctl
from .nodes import KUBERNETES_PORT, Machine, Node, TalosNodes
from .talosctl import Piped

_PATIENCE = 60.0
_PAUSE = 0.1


class Fleet:
    """The nodes of one lab, each known by the address of the machine that it stands for."""

    def __init__(self, world: World, folder: Path) -> None:
        self._world = world
        self._folder = folder
        self._nodes: TalosNodes | None = None
        self._lock = threading.Lock()
        self._under_way: set[str] = set()

    def hold(self, wanted: Mapping[str, Mapping[str, object] | None]) -> dict[str, str]:
        """Let machines exist, each with its address and disk; return where each answers, by its address.

        They are kept between commands, so that a machine is the same and answers at the same place in each.
        """
        if not wanted:
            return {}
        nodes = TalosNodes(
            self._folder,
            [
                Machine(address, address=address, disks=[dict(disk)] if disk else [])
                for address, disk in sorted(wanted.items())
            ],
        )
        nodes.start()
        self._nodes = nodes
        self._switch(sorted(wanted))
        return {address: nodes.endpoint(address) for address in wanted}

    @property
    def kubernetes(self) -> str:
        """Return where the Kubernetes API of the nodes is reached, as long as a control plane serves it."""
        assert self._nodes is not None
        return self._nodes.kubernetes_endpoint

    def kubernetes_of(self, addresses: Sequence[str]) -> str | None:
        """Return where one of these control planes serves the Kubernetes API, or None when none does now."""
        nodes = {} if self._nodes is None else self._nodes.nodes()
        found = (nodes[address] for address in addresses if address in nodes)
        serving = next((node for node in found if node.member and node.online and node.phase == "running"), None)
        return None if serving is None else f"{self._at(serving.name)}:{KUBERNETES_PORT}"

    def follow(self) -> None:
        """Let the world know of machines that were reset by talosctl, and not through the simulated provider."""
        with self._lock:
            nodes = {} if self._nodes is None else self._nodes.nodes()
            for record in self._world.find(machines.PACKAGE, "machine"):
                node = nodes.get(record.id)
                if node is None or record.id in self._under_way or node.config:
                    continue
                if node.phase not in ("off", "running"):
                    self._leave(record.id, record.doc)

    @contextmanager
    def configuring(self, address: str) -> Iterator[None]:
        """Hold a machine that gets its configuration: the world knows of it before the machine does."""
        with self._lock:
            self._under_way.add(address)
        try:
            yield
        finally:
            with self._lock:
                self._under_way.discard(address)

    def _leave(self, address: str, doc: Mapping[str, Any]) -> None:
        cluster = self._world.get(machines.PACKAGE, "cluster", doc["cluster_id"])
        if cluster is not None and address in cluster["voters"]:
            rest = [voter for voter in cluster["voters"] if voter != address]
            self._world.put(machines.PACKAGE, "cluster", doc["cluster_id"], {**cluster, "voters": rest})
        machines.reset(self._world, address, graceful=False, reboot=True)

    def stop(self) -> None:
        """End the nodes; they come back as they are."""
        if self._nodes is not None:
            self.follow()
        if self._nodes is not None:
            self._nodes.stop()
            self._nodes = None

    def node(self, address: str) -> Node | None:
        """Return a node as it is now, or None for a machine that is not held."""
        return None if self._nodes is None else self._nodes.nodes().get(address)

    def apply(self, address: str, text: str, client: Mapping[str, Any]) -> None:
        """Give a machine its configuration, as the Talos provider does: without credentials at first."""
        node = self._settled(address)
        if node is None:
            return
        if node.phase == "maintenance":
            self._run("apply-config", "--insecure", "-n", self._at(address), "-f", Piped(text))
            self._wait_for_configuration(address)
        else:
            self._run(*self._words(address, client), "apply-config", "-f", Piped(text))

    def _wait_for_configuration(self, address: str) -> None:
        end = time.monotonic() + _PATIENCE
        while (node := self.node(address)) is not None and not node.config and time.monotonic() < end:
            time.sleep(_PAUSE)

    def reset(self, address: str, client: Mapping[str, Any], *, graceful: bool) -> None:
        """Wipe a machine and let it boot into maintenance mode."""
        node = self._settled(address)
        if node is None or node.phase == "maintenance":
            return
        words = ("reset", f"--graceful={str(graceful).lower()}", "--reboot", "--wait=false")
        self._run(*self._words(address, client), *words)

    def started_on(self, addresses: Sequence[str]) -> str | None:
        """Return the first of some control planes that is a member of an etcd, or None when none is."""
        nodes = {} if self._nodes is None else self._nodes.nodes()
        return next((address for address in addresses if address in nodes and nodes[address].member), None)

    def _switch(self, addresses: Sequence[str]) -> None:
        """Switch machines on and off as they are in the world, where other commands do it."""
        assert self._nodes is not None
        nodes = self._nodes.nodes()
        for address in addresses:
            off = machines.machine(self._world, address)["stage"] == machines.OFF
            if off and nodes[address].phase != "off":
                self._nodes.power_off(address)
            elif not off and nodes[address].phase == "off":
                self._nodes.power_on(address)

    def _at(self, address: str) -> str:
        assert self._nodes is not None
        return self._nodes.endpoint(address)

    def _words(self, address: str, client: Mapping[str, Any]) -> tuple[str | Piped, ...]:
        context = {
            "endpoints": [self._at(address)],
            "ca": client["caCertificate"],
            "crt": client["clientCertificate"],
            "key": client["clientKey"],
        }
        config = yaml.safe_dump({"context": "lab", "contexts": {"lab": context}})
        return ("--talosconfig", Piped(config), "-e", self._at(address), "-n", address)

    def _settled(self, address: str) -> Node | None:
        """Return a node once it is between two boots, where it takes calls."""
        end = time.monotonic() + _PATIENCE
        while True:
            node = self.node(address)
            if node is None or (node.online and node.phase in ("maintenance", "running")):
                return node
            if node.phase == "off" or time.monotonic() >= end:
                raise CloudError(
                    "Unavailable",
                    f"connection error: dial tcp {address}:50000: connect: no route to host ({node.phase})",
                )
            time.sleep(_PAUSE)

    @staticmethod
    def _run(*words: str | Piped) -> None:
        try:
            talosctl.run(*words)
        except talosctl.TalosctlError as error:
            raise CloudError("Unavailable", str(error)) from None


_FLEETS: dict[Path, Fleet] = {}


def attach(world: World, folder: Path) -> Fleet:
    """Return the fleet that the simulated provider of a world works on from now on."""
    _FLEETS[world.folder] = fleet = Fleet(world, folder)
    return fleet


def detach(world: World) -> None:
    """End a world's fleet."""
    fleet = _FLEETS.pop(world.folder, None)
    if fleet is not None:
        fleet.stop()


def of(world: World) -> Fleet | None:
    """Return the fleet of a world, or None where the machines are in the world alone."""
    return _FLEETS.get(world.folder)
