"""The custom resources of a cluster's life, in the order that docs/adr/0002-order-of-a-clusters-life.md gives them.

The providers here are shells whose module and names stand in every state that has one: they are never renamed or moved,
and hold no code (docs/adr/0001-custom-resources.md). This module is imported by Pulumi's dynamic provider and must stay
light.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, TypedDict

import pulumi
from pulumi import dynamic

from .work_provider import WorkProvider


class ControlPlaneMember(TypedDict):
    """A control plane as other machines of the cluster need to know it."""

    name: str
    """Name of its node."""
    address: str
    """Its own address."""
    endpoint: str
    """Address at which this program reaches its Talos API."""


class MembershipProvider(WorkProvider):
    """Shell of Membership."""

    work: ClassVar[str] = "etcd_membership"


class TalosUpgradeProvider(WorkProvider):
    """Shell of TalosUpgrade."""

    work: ClassVar[str] = "talos_upgrade"


class KubernetesUpgradeProvider(WorkProvider):
    """Shell of KubernetesUpgrade."""

    work: ClassVar[str] = "kubernetes_upgrade"


class MemberProvider(WorkProvider):
    """Shell of Member."""

    work: ClassVar[str] = "etcd_members"


class ClusterHealthProvider(WorkProvider):
    """Shell of ClusterHealth."""

    work: ClassVar[str] = "cluster_health"


Props = Mapping[str, Any]


def _props(shared: Props, own: Props) -> dict[str, Any]:
    # What `check` fills in must be there from the start.
    return {**shared, **own, "plan": None}


class Membership(dynamic.Resource, module="cluster", name="Membership"):
    """The list of control planes: refuses a step that loses quorum, and takes dead members out that are not wanted."""

    def __init__(self, name: str, shared: Props, opts: pulumi.ResourceOptions) -> None:
        """``shared`` are the properties that all resources of a cluster have."""
        super().__init__(MembershipProvider(), name, _props(shared, {}), opts)


class TalosUpgrade(dynamic.Resource, module="cluster", name="TalosUpgrade"):
    """Brings one machine to a version of Talos when that changes; does nothing when it is made."""

    def __init__(self, name: str, shared: Props, own: Props, opts: pulumi.ResourceOptions) -> None:
        """``own`` has the machine, `role`, `version`, `installer_image`, `kubernetes_version` and `after`."""
        super().__init__(TalosUpgradeProvider(), name, _props(shared, own), opts)


class KubernetesUpgrade(dynamic.Resource, module="cluster", name="KubernetesUpgrade"):
    """Brings Kubernetes to a version when that changes; does nothing when it is made."""

    def __init__(self, name: str, shared: Props, own: Props, opts: pulumi.ResourceOptions) -> None:
        """``own`` has `version` and `images`."""
        super().__init__(KubernetesUpgradeProvider(), name, _props(shared, own), opts)


class Member(dynamic.Resource, module="cluster", name="Member"):
    """A machine's place in the cluster: the gate before each configuration, and the removal of the machine."""

    def __init__(self, name: str, shared: Props, own: Props, opts: pulumi.ResourceOptions) -> None:
        """``own`` has the machine, `role`, `configuration`, `boot_configuration`, `before` and `teardown`."""
        super().__init__(MemberProvider(), name, _props(shared, own), opts)


class ClusterHealth(dynamic.Resource, module="cluster", name="ClusterHealth"):
    """Waits until all machines work, when it is made and after each change."""

    def __init__(self, name: str, shared: Props, own: Props, opts: pulumi.ResourceOptions) -> None:
        """``own`` has `machines`, `role`, `version`, `installer_image`, `configuration` and `nodes_ready`."""
        super().__init__(ClusterHealthProvider(), name, {**shared, **own}, opts)


def described(name: str, address: str, endpoint: str) -> ControlPlaneMember:
    """Return a machine as these resources take it."""
    return {"name": name, "address": address, "endpoint": endpoint}


def members_of(machines: Sequence[Any]) -> list[ControlPlaneMember]:
    """Return machines (MachineShape) as these resources take them, by name."""
    return [described(m.name, m.address, m.reached_at) for m in sorted(machines, key=lambda m: m.name)]
