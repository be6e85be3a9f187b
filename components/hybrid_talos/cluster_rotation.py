"""The custom resources of a rotation: one before all machines are changed, and one after.

The providers here are shells whose module and names stand in every state that has one: they are never renamed or moved,
and hold no code (docs/adr/0001-custom-resources.md). This module is imported by Pulumi's dynamic provider and must stay
light.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pulumi
from pulumi import dynamic

from .work_provider import WorkProvider


class RotationProvider(WorkProvider):
    """Shell of Rotation."""

    work: ClassVar[str] = "rotation_gate"


class RotationRecordProvider(WorkProvider):
    """Shell of RotationRecord."""

    work: ClassVar[str] = "rotation_record"


class Rotation(dynamic.Resource, module="cluster", name="Rotation"):
    """Stands before all changes of machines: refuses to begin a stage that not all machines are ready for."""

    def __init__(self, name: str, props: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        """``props`` are those that all resources of the cluster have, `steps`, `authority` and `token`."""
        super().__init__(RotationProvider(), name, {**props, "plan": None}, opts)


@dataclass(frozen=True)
class Rotating:
    """What a RotationRecord needs of a control plane."""

    props: Mapping[str, Any] = field(repr=False)
    protect: bool | None


class RotationRecord(dynamic.Resource, module="cluster", name="RotationRecord"):
    """Stands behind all changes of machines: sees that they took the stage, and records it as complete.

    From what it recorded a preview knows which stage may come next.
    """

    def __init__(
        self,
        name: str,
        rotating: Rotating,
        *,
        machines: Sequence[Mapping[str, Any]],
        opts: pulumi.ResourceOptions,
    ) -> None:
        """Ask ``machines``, control planes and static workers, each with `name`, `address` and `endpoint`."""
        props = {**rotating.props, "machines": [dict(machine) for machine in machines]}
        super().__init__(
            RotationRecordProvider(),
            name,
            props,
            pulumi.ResourceOptions.merge(
                opts,
                pulumi.ResourceOptions(
                    protect=rotating.protect,
                    additional_secret_outputs=["client_configuration", "check_configuration"],
                ),
            ),
        )
