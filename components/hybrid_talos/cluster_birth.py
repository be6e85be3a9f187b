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


class BirthMemberProvider(WorkProvider):
    """Shell of BirthMember."""

    work: ClassVar[str] = "birth_member"


class EtcdBootstrapProvider(WorkProvider):
    """Shell of EtcdBootstrap."""

    work: ClassVar[str] = "etcd_bootstrap"


class BirthMember(dynamic.Resource, module="cluster", name="BirthMember"):
    """Remembers which control plane starts the cluster: the first of the list at its birth, for ever."""

    member: pulumi.Output[Mapping[str, str]]
    """The machine: `name`, `address` and `endpoint`."""

    def __init__(self, name: str, *, member: Mapping[str, Any], opts: pulumi.ResourceOptions | None = None) -> None:
        """Record ``member``."""
        super().__init__(BirthMemberProvider(), name, {"member": dict(member)}, opts)


class EtcdBootstrap(dynamic.Resource, module="cluster", name="EtcdBootstrap"):
    """Starts etcd on one control plane, exactly once; finds a cluster that was started already."""

    def __init__(
        self,
        name: str,
        *,
        first: pulumi.Input[Mapping[str, Any]],
        members: Sequence[Mapping[str, Any]],
        client_configuration: pulumi.Input[Mapping[str, str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Start etcd on ``first``, unless one of ``members`` has it; each has `name`, `address` and `endpoint`."""
        props = {
            "first": first,
            "members": [dict(member) for member in members],
            "client_configuration": client_configuration,
        }
        super().__init__(EtcdBootstrapProvider(), name, props, opts)


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
