"""The order of the engine, in memory: creates and updates by their dependencies, then deletes in the reverse of those.

The resources are those of docs/adr/0002-order-of-a-clusters-life.md: for ours the real work modules run, for those of
the Talos provider what they do to a machine.
"""

import copy
import random
from dataclasses import dataclass, field, replace
from typing import Any

from hybrid_talos import (
    boot_configuration,
    change_gate,
    cluster_health,
    etcd_members,
    etcd_membership,
    kubernetes_upgrade,
    life_plan,
    life_props,
    talos_upgrade,
)
from hybrid_talos.talos_calls import Machine
from hybrid_talos.work_provider import WorkError
from life_world import Killed, World, configuration

Props = dict[str, Any]


class Refused(Exception):
    """A step that a preview refuses."""


@dataclass(frozen=True)
class Settings:
    """What a user writes."""

    control_planes: dict[str, str]
    workers: dict[str, str] = field(default_factory=dict)
    talos: str = "1.12.0"
    kubernetes: str = "1.34.0"
    config: str = "a"
    boot: str = "a"
    credentials: str = "first"
    protect: bool = True


@dataclass
class Resource:
    name: str
    kind: str
    inputs: Props
    after: tuple[str, ...] = ()
    outputs: Props = field(default_factory=dict)


OURS: dict[str, Any] = {
    "Membership": etcd_membership,
    "TalosUpgrade": talos_upgrade,
    "KubernetesUpgrade": kubernetes_upgrade,
    "Member": etcd_members,
    "ClusterHealth": cluster_health,
}


def program(settings: Settings) -> list[Resource]:
    """Return the resources in an order in which each comes after what it depends on."""
    members = [
        {"name": name, "address": address, "endpoint": address}
        for name, address in sorted(settings.control_planes.items())
    ]
    client = dict.fromkeys(("caCertificate", "clientCertificate", "clientKey"), settings.credentials)
    shared = {"members": members, "client_configuration": client, "snapshots": {"directory": "/x"}, "drain_minutes": 5}
    image = f"installer:v{settings.talos}"
    made = [Resource("secrets", "Secrets", {}), Resource("membership", "Membership", shared, ("secrets",))]

    def machines(role: str, given: dict[str, str], first: str) -> str:
        controls = role == "controlplane"
        turns = life_plan.after_which(list(given), 1)
        last = first
        for name, address in sorted(given.items()):
            own = {"name": name, "address": address, "endpoint": address, "role": role}
            upgrade = {**shared, **own, "version": settings.talos, "installer_image": image}
            upgrade |= {"kubernetes_version": settings.kubernetes, "after": turns[name]}
            made.append(Resource(f"{name}-talos", "TalosUpgrade", upgrade, (last,)))
            last = f"{name}-talos"
        if controls:
            props = {**shared, "version": settings.kubernetes}
            made.append(Resource("kubernetes", "KubernetesUpgrade", props, (last,)))
            last = "kubernetes"
        before: list[dict[str, str]] = []
        for name, address in sorted(given.items()):
            own = {"name": name, "address": address, "endpoint": address, "role": role}
            config = f"{settings.config}/{settings.kubernetes}/{image}"
            member = {**shared, **own, "configuration": f"{config}/{settings.boot}"}
            member |= {"boot_configuration": settings.boot, "teardown": not settings.protect}
            made.append(Resource(f"{name}-member", "Member", member, (last,)))
            apply = {**own, "config": config, "boot": settings.boot, "version": settings.talos}
            apply |= {"kubernetes": settings.kubernetes, "shared": shared, "before": list(before)}
            made.append(Resource(f"{name}-config", "Apply", apply, (f"{name}-member",)))
            last = f"{name}-config"
            before = [{"name": name, "address": address, "endpoint": address}]
            if controls and name == min(given):
                made.append(Resource("bootstrap", "Bootstrap", {"address": address}, (last,)))
        health = {**shared, "machines": [{"name": n, "address": a} for n, a in sorted(given.items())], "role": role}
        health |= {"version": settings.talos, "installer_image": image, "nodes_ready": True}
        health |= {"configuration": f"{settings.config}/{settings.boot}/{settings.kubernetes}"}
        made.append(Resource(f"{role}-health", "ClusterHealth", health, (last, "bootstrap")))
        return f"{role}-health"

    last = machines("controlplane", settings.control_planes, "membership")
    if settings.workers:
        machines("worker", settings.workers, last)
    return made


class Stack:
    """A stack's state, and `up` on it."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.state: dict[str, Resource] = {}
        self.did: list[tuple[str, str]] = []

    def preview(self, settings: Settings) -> dict[str, str]:
        """Return what an up would do, by name; raise Refused."""
        planned: dict[str, str] = {}
        wanted = program(settings)
        for resource in wanted:
            old = self.state.get(resource.name)
            self._check(resource, old)
            if old is None:
                planned[resource.name] = "create"
            elif (change := self._diff(resource, old)) != "same":
                planned[resource.name] = change
        for name in set(self.state) - {resource.name for resource in wanted}:
            planned[name] = "delete"
        return planned

    def up(self, settings: Settings) -> str:
        """Run; return `done`, or what stopped it. Raise Refused when a preview would."""
        self.preview(settings)
        wanted = program(settings)
        try:
            for resource in wanted:
                self._step(resource)
            self._delete({name: r for name, r in self.state.items() if name not in {w.name for w in wanted}})
        except Killed:
            return "killed"
        except WorkError as error:
            return f"failed: {error}"
        return "done"

    def _check(self, resource: Resource, old: Resource | None) -> None:
        work = OURS.get(resource.kind)
        if work is None:
            return
        problems = work.check(resource.inputs)
        if not problems and hasattr(work, "planned"):
            olds = copy.deepcopy(old.inputs) if old else {}
            resource.inputs, problems = work.planned(olds, resource.inputs)
        if problems:
            raise Refused("; ".join(problems.values()))

    def _diff(self, resource: Resource, old: Resource) -> str:
        if resource.kind in OURS:
            result = OURS[resource.kind].diff(old.outputs, resource.inputs)
            return "replace" if result.replaces else "update" if result.changes else "same"
        if resource.kind == "Apply":
            keys = ("address", "config", "boot")
            return "update" if any(resource.inputs[key] != old.inputs[key] for key in keys) else "same"
        # Secrets and Bootstrap ignore all changes.
        return "same"

    def _step(self, resource: Resource) -> None:
        old = self.state.get(resource.name)
        self._check(resource, old)
        if old is None:
            self._create(resource)
            return
        change = self._diff(resource, old)
        if change == "same":
            self.state[resource.name] = replace(resource, outputs=old.outputs)
            return
        self.did.append((change, resource.name))
        if change == "replace":
            self._work(old, "delete", old.outputs)
            del self.state[resource.name]
            self._create(resource)
            return
        if resource.kind in OURS:
            resource.outputs = OURS[resource.kind].update(copy.deepcopy(old.outputs), copy.deepcopy(resource.inputs))
        elif resource.kind == "Apply":
            self._gate(old.inputs, resource.inputs)
            self._apply(resource.inputs)
        self._flip()
        self.state[resource.name] = resource

    def _gate(self, old: Props, new: Props) -> None:
        """Run the hook that the engine runs before an update."""
        with life_props.cluster_of(new["shared"]) as cluster:
            change_gate.gate(
                cluster,
                Machine.of(new),
                control_plane=new["role"] == "controlplane",
                before=[Machine.of(machine) for machine in new["before"]],
                reboots=old["boot"] != new["boot"],
            )

    def _create(self, resource: Resource) -> None:
        self.did.append(("create", resource.name))
        if resource.kind in OURS:
            _, resource.outputs = OURS[resource.kind].create(copy.deepcopy(resource.inputs))
        elif resource.kind == "Apply":
            if resource.inputs["role"] == "controlplane":
                with life_props.cluster_of(resource.inputs["shared"]) as cluster:
                    boot = boot_configuration.digests(configuration(resource.inputs["boot"]), []).boot
                    change_gate.first_gate(cluster, Machine.of(resource.inputs), boot)
            self._apply(resource.inputs)
        elif resource.kind == "Bootstrap":
            self.world.bootstrap(resource.inputs["address"])
        elif resource.kind == "Secrets":
            resource.outputs = {"secret": self.rng.random()}
        self._flip()
        self.state[resource.name] = resource

    def _flip(self) -> None:
        """Be killed, sometimes, after the work is done and before it is recorded."""
        if self.rng.random() < self.world.faults.kill:
            raise Killed

    def _apply(self, inputs: Props) -> None:
        keys = ("address", "name", "role", "config", "boot", "version", "kubernetes")
        self.world.apply(*(inputs[key] for key in keys))

    def _work(self, resource: Resource, operation: str, props: Props) -> None:
        work = OURS.get(resource.kind)
        if work is not None:
            getattr(work, operation)(copy.deepcopy(props))

    def _delete(self, condemned: dict[str, Resource]) -> None:
        """Delete what the program lacks; those on which nothing condemned depends may go in any order."""
        while condemned:
            ready = sorted(n for n in condemned if not any(n in other.after for other in condemned.values()))
            name = self.rng.choice(ready)
            self.did.append(("delete", name))
            self._work(condemned[name], "delete", condemned[name].outputs)
            self._flip()
            del self.state[name]
            del condemned[name]
