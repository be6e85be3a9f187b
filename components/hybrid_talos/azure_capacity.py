"""The guard of a scale set's capacity: an update never goes out with a number of machines that is no longer true.

Azure takes the whole scale set with every update, the number of machines among it, and the engine sends the number
that the state knows. Where the autoscaler has changed it since, that would throw machines away.
"""

from collections.abc import Callable
from typing import Any, NotRequired, TypedDict

import pulumi

from .azure_cloud import AzureEnvironment


class CapacityGuardArgs(TypedDict):
    """How the live number of machines is asked for."""

    environment: NotRequired[AzureEnvironment]
    """Which of Microsoft's clouds. Default: `public`."""
    resource_manager: NotRequired[str]
    """Address of Azure Resource Manager. Default: that of the environment."""


class StaleCapacityError(Exception):
    """The state and Azure disagree about the number of machines."""


def capacity_guard(where: CapacityGuardArgs) -> Callable[[pulumi.ResourceHookArgs], None]:
    """Return a hook that refuses an update of a scale set whose number of machines has changed since the state.

    It runs right before the update, never in a preview, and reads one scale set with the credentials of the deployment.
    """

    def guard(change: pulumi.ResourceHookArgs) -> None:
        sent = _capacity(change.new_inputs)
        live = _live_capacity(change.id, where)
        if sent is not None and live is not None and sent != live:
            raise StaleCapacityError(
                f"the scale set {change.id.rpartition('/')[2]} has {live} machines, and this update would set {sent}: "
                "the state is older than what the autoscaler did. Nothing was changed; run `pulumi up --refresh`"
            )

    return guard


def _capacity(properties: Any) -> int | None:
    sku = (properties or {}).get("sku") or {}
    capacity = sku.get("capacity")
    return None if capacity is None else int(capacity)


def _live_capacity(scale_set_id: str, where: CapacityGuardArgs) -> int | None:
    """Return how many machines the scale set has; None when it is gone, which the update itself then says."""
    # Here, since a preview has no use for Azure's client.
    from .azure_resource_manager import (  # noqa: PLC0415
        MACHINES,
        arm_errors,
        compute_client,
        found,
        parse_id,
    )

    target = parse_id(scale_set_id)
    with arm_errors(scale_set_id), compute_client(dict(where), target.subscription) as client:
        scale_set = found(client.virtual_machine_scale_sets.get, target.resource_group, target.names[-1], **MACHINES)
    return _capacity(scale_set)
