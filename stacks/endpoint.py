"""The address of the Kubernetes API, with the load balancer and the DNS record that the settings ask for."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
from hybrid_talos.cluster_endpoint import EndpointArgs

from .settings import Endpoint, Machine, Settings


@dataclass(frozen=True)
class Front:
    """A load balancer that this stack made."""

    host: pulumi.Output[str]
    """Its address, or the name that the cloud gave it."""
    is_name: bool
    """Whether ``host`` is a name."""


def endpoint_args(settings: Settings) -> EndpointArgs:
    """Return the endpoint as HAControlPlane takes it, and declare what the stack makes for it."""
    endpoint, members = settings.cluster.endpoint, settings.cluster.control_planes
    front = _front(settings)
    host: pulumi.Input[str] = front.host if front is not None and endpoint.host is None else endpoint.host or ""
    args: EndpointArgs = {
        "host": host,
        "port": endpoint.port,
        "kind": endpoint.kind,
        "allow_member_address": endpoint.allow_member_address,
        "check_dns": endpoint.check_dns,
    }
    if endpoint.interface is not None:
        args["interface"] = endpoint.interface
    record = _record(settings, endpoint, members, front)
    if record is not None:
        args["record_id"] = record
    return args


def _front(settings: Settings) -> Front | None:
    made = settings.cluster.endpoint.load_balancer
    # Each cloud's SDK is imported only where something of it is asked for.
    if made is not None and made.azure is not None:
        from .endpoint_azure import load_balancer as on_azure  # noqa: PLC0415

        return Front(on_azure(settings, made.azure), is_name=False)
    if made is not None and made.aliyun is not None:
        from .endpoint_aliyun import load_balancer as on_aliyun  # noqa: PLC0415

        return Front(on_aliyun(settings, made.aliyun), is_name=True)
    return None


def reached_at(members: Sequence[Machine]) -> dict[str, str]:
    """Return the addresses at which clients reach control planes, by the machines' names."""
    ordered = sorted(members, key=lambda member: member.name)
    return {member.name: str(member.public_address or member.address) for member in ordered}


def _record(
    settings: Settings, endpoint: Endpoint, members: Sequence[Machine], front: Front | None
) -> pulumi.Output[str] | None:
    record, host = endpoint.record, endpoint.host
    if record is None or host is None:
        return None
    # By the machine, so that another order or another member touches no other record.
    targets: dict[str, pulumi.Input[str]] = (
        {"load-balancer": front.host} if front is not None else {**reached_at(members)}
    )
    alias = front is not None and front.is_name
    if record.azure is not None:
        from .endpoint_azure import record as in_azure  # noqa: PLC0415

        return in_azure(settings, record.azure, host, targets, alias=alias)
    if record.aliyun is not None:
        from .endpoint_aliyun import record as in_aliyun  # noqa: PLC0415

        return in_aliyun(record.aliyun, host, targets, alias=alias)
    return None
