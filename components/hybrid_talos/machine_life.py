"""Declares what stands around the configurations of machines: docs/adr/0002-order-of-a-clusters-life.md.

Control plane and static workers share it: upgrades before all configurations, a machine's place in the cluster before
its own, the gate right before it, health after all.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumiverse_talos as talos

from .cluster_gates import gates
from .cluster_life import ClusterHealth, ControlPlaneMember, KubernetesUpgrade, Member, Membership, TalosUpgrade
from .life_plan import after_which
from .machine import MachineShape

Apply = Callable[[str, pulumi.ResourceOptions], pulumi.Resource]
"""Declares the configuration of the machine with a name."""


def configuration_digests(base: pulumi.Input[str], own: Sequence[pulumi.Input[str]]) -> pulumi.Output[tuple[str, str]]:
    """Return the digests of a machine's configuration with its patches (boot_configuration.Digests).

    They tell nothing of what is in it, so they are no secrets.
    """

    def known(texts: Sequence[str]) -> tuple[str, str]:
        from .boot_configuration import digests  # noqa: PLC0415 - loads libraries that few programs need

        return digests(texts[0], texts[1:])

    return pulumi.Output.unsecret(pulumi.Output.all(base, *own).apply(known))


def configuration_apply(
    name: str,
    machine: MachineShape,
    client: pulumi.Input[Any],
    base: pulumi.Input[str],
    own: Sequence[pulumi.Input[str]],
    opts: pulumi.ResourceOptions,
) -> pulumi.Resource:
    """Declare that a machine gets a configuration with its ``own`` patches.

    When it goes, nothing happens to the machine: its Member drains it, takes it out of the cluster and resets it.
    """
    return talos.machine.ConfigurationApply(
        name,
        node=machine.address,
        endpoint=machine.reached_at,
        client_configuration=client,
        machine_configuration_input=base,
        config_patches=own,
        # Talos itself decides whether a change needs a reboot; the provider's own mode that avoids one asks for a form
        # of apply that a machine without configuration does not offer.
        apply_mode="auto",
        opts=pulumi.ResourceOptions.merge(
            opts, pulumi.ResourceOptions(additional_secret_outputs=["client_configuration", "machine_configuration"])
        ),
    )


@dataclass(frozen=True)
class Versions:
    """What the machines run."""

    talos: str | None
    """Version of Talos; None leaves machines as they were installed."""
    kubernetes: str
    installer_image: pulumi.Input[str]


@dataclass(frozen=True)
class Life:
    """The life of some machines of one cluster."""

    name: str
    """Name of the component."""
    role: str
    """`controlplane` or `worker`."""
    parent: pulumi.Resource
    shared: Mapping[str, Any]
    """Properties that all resources of the cluster have."""
    machines: Sequence[ControlPlaneMember]
    versions: Versions
    parallelism: int = 1
    teardown: bool = False

    def upgrades(
        self, images: Mapping[str, str] | None = None, after: Sequence[pulumi.Resource] = ()
    ) -> list[pulumi.Resource]:
        """Declare the upgrades, ``after`` others; return what the configurations wait for.

        With ``images``, a flag of `talosctl upgrade-k8s` to an image each, Kubernetes is upgraded as well.
        """
        made: dict[str, pulumi.Resource] = {}
        first = list(after)
        if self.role == "controlplane":
            first = [Membership(f"{self.name}-membership", self.shared, self._opts(first))]
        for machine, before in self._in_order():
            if self.versions.talos is None:
                break
            own = {
                **machine,
                "role": self.role,
                "version": self.versions.talos,
                "installer_image": self.versions.installer_image,
                "kubernetes_version": self.versions.kubernetes,
                "after": before,
            }
            made[machine["name"]] = TalosUpgrade(
                f"{self.name}-{machine['name']}-talos",
                self.shared,
                own,
                self._opts([made[before]] if before is not None else first),
            )
        # All of the last ones: with some at once, each ends a chain.
        done = [*first, *made.values()]
        if images is None:
            return done
        props = {"version": self.versions.kubernetes, "images": dict(images)}
        return [KubernetesUpgrade(f"{self.name}-kubernetes", self.shared, props, self._opts(done))]

    def configured(
        self, apply: Apply, digests: Mapping[str, pulumi.Input[Any]], after: Sequence[pulumi.Resource]
    ) -> list[pulumi.Resource]:
        """Declare each machine's place in the cluster and its configuration, one after the other or some at once.

        ``digests`` are of the configurations, by the machines' names (boot_configuration.Digests).
        """
        made: dict[str, pulumi.Resource] = {}
        by_name = {machine["name"]: machine for machine in self.machines}
        for machine, before in self._in_order():
            name = machine["name"]
            known = pulumi.Output.from_input(digests[name])
            own = {
                **machine,
                "role": self.role,
                "configuration": known.apply(lambda found: str(found[0])),
                "boot_configuration": known.apply(lambda found: str(found[1])),
                "teardown": self.teardown,
            }
            waits = [*after, *([made[before]] if before is not None else [])]
            member = Member(f"{self.name}-{name}-member", self.shared, own, self._opts(waits))
            hooks = gates(
                machine, role=self.role, shared=self.shared, before=[by_name[before]] if before is not None else []
            )
            # On the way down the configuration goes first, which does nothing, and then the machine.
            opts = pulumi.ResourceOptions(parent=self.parent, depends_on=[member, *waits], hooks=hooks)
            made[name] = apply(name, opts)
        return list(made.values())

    def health(
        self, digests: Mapping[str, pulumi.Input[Any]], after: Sequence[pulumi.Resource], *, nodes_ready: bool
    ) -> pulumi.Resource:
        """Declare the wait until all machines work."""
        ordered = [machine for machine, _ in self._in_order()]
        own = {
            "machines": ordered,
            "role": self.role,
            "version": self.versions.talos or "",
            "kubernetes_version": self.versions.kubernetes,
            "installer_image": self.versions.installer_image,
            "configuration": pulumi.Output.all(*(digests[machine["name"]] for machine in ordered)).apply(
                lambda found: [str(each[0]) for each in found]
            ),
            "nodes_ready": nodes_ready,
        }
        return ClusterHealth(f"{self.name}-health", self.shared, own, self._opts(after))

    def _in_order(self) -> list[tuple[ControlPlaneMember, str | None]]:
        """Return the machines by name, each with the one that it waits for."""
        turns = after_which([machine["name"] for machine in self.machines], self.parallelism)
        return [(machine, turns[machine["name"]]) for machine in sorted(self.machines, key=lambda m: m["name"])]

    def _opts(self, after: Sequence[pulumi.Resource]) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(
            parent=self.parent, depends_on=list(after), additional_secret_outputs=["client_configuration"]
        )
