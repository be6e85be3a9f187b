"""Puts the gate of a change right before the change, as a hook of the engine."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, cast

import pulumi

from .cluster_life import ControlPlaneMember

Hook = Callable[[pulumi.ResourceHookArgs], Coroutine[Any, Any, None]]


def gates(
    machine: ControlPlaneMember,
    *,
    role: str,
    shared: Mapping[str, Any],
    before: Sequence[ControlPlaneMember],
) -> pulumi.ResourceHookBinding:
    """Return hooks for a machine's ConfigurationApply: it waits until the machine may be changed.

    ``shared`` are the properties that all resources of the cluster have; ``before`` are machines that are changed just
    before this one.
    """

    async def first(change: pulumi.ResourceHookArgs) -> None:
        if role == "controlplane":
            await _off_the_loop(_first, shared, machine, _boot(await _known(change.new_inputs)))

    async def again(change: pulumi.ResourceHookArgs) -> None:
        reboots = _boot(await _known(change.old_inputs)) != _boot(await _known(change.new_inputs))
        await _off_the_loop(_again, shared, machine, role, list(before), reboots)

    return pulumi.ResourceHookBinding(before_create=[cast(Any, first)], before_update=[cast(Any, again)])


async def _known(value: Any) -> Any:
    """Return what outputs hold, nested ones too; a deployment knows all of them by now."""
    return await pulumi.Output.from_input(value).future()


def _boot(inputs: Any) -> str:
    from .boot_configuration import digests  # noqa: PLC0415 - of no use to a preview

    given = inputs or {}
    return digests(
        str(given.get("machineConfigurationInput") or ""), [str(p) for p in given.get("configPatches") or ()]
    ).boot


async def _off_the_loop(work: Callable[..., None], shared: Mapping[str, Any], *arguments: Any) -> None:
    """Wait in a thread, so that the program can go on declaring what does not depend on this."""
    await asyncio.to_thread(work, dict(await _known(shared)), *arguments)


def _first(shared: dict[str, Any], machine: ControlPlaneMember, boot: str) -> None:
    from . import change_gate, life_props  # noqa: PLC0415 - heavy, and of no use to a preview
    from .talos_calls import Machine  # noqa: PLC0415

    with life_props.cluster_of({**shared, **machine}) as cluster:
        change_gate.first_gate(cluster, Machine.of(machine), boot)


def _again(
    shared: dict[str, Any],
    machine: ControlPlaneMember,
    role: str,
    before: list[ControlPlaneMember],
    reboots: bool,
) -> None:
    from . import change_gate, life_props  # noqa: PLC0415 - heavy, and of no use to a preview
    from .talos_calls import Machine  # noqa: PLC0415

    control_plane = role == "controlplane"
    with life_props.cluster_of({**shared, **machine}, alone=control_plane) as cluster:
        change_gate.gate(
            cluster,
            Machine.of(machine),
            control_plane=control_plane,
            before=[Machine.of(other) for other in before],
            reboots=reboots,
        )
