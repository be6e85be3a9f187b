"""The custom resources of a cluster's birth.

The providers here are shells whose module and names stand in every state that has one: they are never renamed or moved,
and hold no code (docs/adr/0001-custom-resources.md). This module is imported by Pulumi's dynamic provider and must stay
light.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pulumi
from pulumi import dynamic

from .work_provider import WorkProvider


class EndpointCheckProvider(WorkProvider):
    """Shell of EndpointCheck."""

    work: ClassVar[str] = "endpoint_check"


class EndpointCheck(dynamic.Resource, module="cluster", name="EndpointCheck"):
    """Sees that the name of the Kubernetes API leads to the control planes, when it is made and after each change."""

    def __init__(
        self,
        name: str,
        *,
        host: str,
        kind: str,
        members: Sequence[Mapping[str, Any]],
        nameserver: str | None,
        record: pulumi.Input[str] | None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Look at ``host``; ``members`` have a `name` and `addresses`.

        ``nameserver`` is asked in place of this machine's own. ``record`` is the id of a record that the program
        made, which takes a while to be seen.
        """
        props = {
            "host": host,
            "kind": kind,
            "members": list(members),
            "nameserver": nameserver,
            "record": record,
            # A record that somebody else makes is there, or is not; one of the program's own takes a while to be seen.
            "minutes": 0.25 if record is None else 15,
        }
        super().__init__(EndpointCheckProvider(), name, props, opts)
