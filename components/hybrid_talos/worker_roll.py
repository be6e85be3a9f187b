"""The custom resource that lists a pool's stale nodes, and replaces them at an `up` that is to do so.

The provider here is a shell whose module and name stand in every state that has one: it is never renamed or moved, and
holds no code (docs/adr/0001-custom-resources.md). This module is imported by Pulumi's dynamic provider and must stay
light.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import pulumi
from pulumi import dynamic

from .work_provider import WorkProvider


class WorkerRollProvider(WorkProvider):
    """Shell of WorkerRoll."""

    work: ClassVar[str] = "worker_roll_work"


class WorkerRoll(dynamic.Resource, module="workers", name="Roll"):
    """Lists the nodes of one pool that are made of something else than new ones; with `on_up`, replaces them."""

    stale: pulumi.Output[list[str] | None]
    """Names of the stale nodes, sorted; None while the cluster could not be asked."""

    def __init__(self, name: str, props: Mapping[str, Any], opts: pulumi.ResourceOptions) -> None:
        """``props`` are those of worker_roll_work.py, without what it finds out."""
        found = {"stale": None, "outdated": None, "held": None}
        super().__init__(
            WorkerRollProvider(),
            name,
            {**props, **found},
            # Names of nodes are no secret, although they were learned by one.
            pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(additional_secret_outputs=["kubeconfig"])),
        )
