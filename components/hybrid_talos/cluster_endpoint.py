"""The address at which clients and machines reach the Kubernetes API, and what each kind of it demands."""

import re
from collections.abc import Sequence
from enum import StrEnum
from ipaddress import IPv4Address, IPv4Network
from typing import Any, NotRequired, TypedDict

import pulumi
from pydantic import Field, model_validator

from ._contract import BadInputs, Shape
from .machine import MachineShape


class EndpointKind(StrEnum):
    """What stands behind the address of the Kubernetes API."""

    DNS = "dns"
    """A name with the addresses of all control planes."""
    LOAD_BALANCER = "loadBalancer"
    """A load balancer before the control planes, that exists already."""
    VIP = "vip"
    """An address that the control planes, all in one subnet, pass among themselves."""


class EndpointArgs(TypedDict):
    """Where clients and machines reach the Kubernetes API."""

    host: pulumi.Input[str]
    """Host name or IPv4 address, without scheme, port and path. A name for kind `dns`, an address for kind `vip`; of
    a load balancer it may be an output."""
    kind: EndpointKind
    """`dns`: a name with a record for each control plane. `loadBalancer`: one that exists, before all control planes.
    `vip`: an address that the control planes hand to each other, on one network segment outside any cloud."""
    port: NotRequired[int]
    """TCP port, 1 to 65535. Default 6443."""
    interface: NotRequired[str]
    """For kind `vip`: the link that carries the address, such as `enp1s0`. Left out, each control plane must have
    exactly one physical Ethernet link, and that one is taken."""
    allow_member_address: NotRequired[bool]
    """Accept the address of one control plane as the endpoint of several: without that machine there is no API.
    Default false."""
    check_dns: NotRequired[bool]
    """Whether a name is looked up before the machines get it: one of kind `dns` must lead to the control planes alone,
    one of a load balancer must exist. Set false where the name is known to the machines only. Default true."""
    record_id: NotRequired[pulumi.Input[str]]
    """Id of the DNS record of `host`, when the same program makes it: the look-up comes after it and waits longer."""


_NAME = re.compile(
    r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*"
)


def is_address(host: str) -> bool:
    """Return whether ``host`` is an IPv4 address."""
    try:
        IPv4Address(host)
    except ValueError:
        return False
    return True


def host_problem(host: str) -> str | None:
    """Return why ``host`` is neither a host name nor an IPv4 address, or None.

    Certificates hold names and addresses alone: a scheme, port or path in one makes it match nothing.
    """
    numeric = re.fullmatch(r"[0-9.]+", host) is not None
    if is_address(host) or (not numeric and _NAME.fullmatch(host)):
        return None
    return "must be a host name or an IPv4 address alone, without scheme, port and path"


API_PORT = 6443
"""Port of the Kubernetes API on a control plane unless told otherwise (siderolabs/talos, DefaultControlPlanePort)."""


class EndpointShape(Shape):
    """The checked form of EndpointArgs."""

    host: Any
    kind: EndpointKind
    port: int = Field(default=6443, ge=1, le=65535)
    interface: str | None = Field(default=None, min_length=1)
    allow_member_address: bool = False
    check_dns: bool = True
    record_id: Any = None

    @model_validator(mode="after")
    def _host_fits_kind(self) -> "EndpointShape":
        if self.interface is not None and self.kind is not EndpointKind.VIP:
            raise ValueError("interface: only for kind vip")
        if not isinstance(self.host, str):
            if self.kind is not EndpointKind.LOAD_BALANCER:
                raise ValueError(
                    f"host: must be plain text for kind {self.kind}; only a load balancer's may be an output"
                )
            return self
        problem = host_problem(self.host)
        if problem:
            raise ValueError(f"host: {problem}")
        if self.kind is EndpointKind.DNS and is_address(self.host):
            raise ValueError("host: kind dns takes a name; for an address use kind loadBalancer or vip")
        if self.kind is EndpointKind.VIP and not is_address(self.host):
            raise ValueError("host: kind vip takes the IPv4 address that the control planes share")
        return self

    @property
    def local_port(self) -> int:
        """Return the port that the control planes themselves listen on: only a load balancer can have another."""
        return API_PORT if self.kind is EndpointKind.LOAD_BALANCER else self.port

    @property
    def name_to_check(self) -> str | None:
        """Return the name that is to be looked up, or None where there is none or it is not wanted."""
        if not self.check_dns or not isinstance(self.host, str) or is_address(self.host):
            return None
        return self.host

    @property
    def vip(self) -> str | None:
        """Return the address that the control planes share, or None for other kinds."""
        return str(self.host) if self.kind is EndpointKind.VIP else None


def endpoint_problems(
    endpoint: EndpointShape,
    members: Sequence[MachineShape],
    node_subnets: Sequence[IPv4Network] = (),
    taken: Sequence[tuple[str, IPv4Network]] = (),
) -> list[str]:
    """Return what is wrong with an endpoint for these control planes."""
    if not isinstance(endpoint.host, str):
        return []
    problems: list[str] = []
    owner = next((member.name for member in members if endpoint.host in member.addresses), None)
    if owner and endpoint.kind is EndpointKind.VIP:
        problems.append(f"{endpoint.host} is the address of {owner} itself; a VIP is one that no machine has")
    elif owner and len(members) > 1 and not endpoint.allow_member_address:
        problems.append(
            f"{endpoint.host} is the address of {owner} alone: without it there is no API, although "
            f"{len(members)} control planes run. Use a load balancer, a name or a VIP, or set allow_member_address"
        )
    if endpoint.vip is not None:
        problems += _vip_problems(IPv4Address(endpoint.vip), members, node_subnets, taken)
    return problems


def _vip_problems(
    vip: IPv4Address,
    members: Sequence[MachineShape],
    node_subnets: Sequence[IPv4Network],
    taken: Sequence[tuple[str, IPv4Network]],
) -> list[str]:
    problems = [f"{vip} is in the range of the {owner} ({network})" for owner, network in taken if vip in network]
    addresses = [vip, *(IPv4Address(member.address) for member in members)]
    # Held by answering ARP: machines of another segment never see who has the address (siderolabs/talos website,
    # "Virtual (shared) IP").
    if node_subnets and not any(all(address in subnet for address in addresses) for subnet in node_subnets):
        problems.append(
            f"kind vip needs {vip} and all control planes in one subnet, and none of node_subnets "
            f"({', '.join(map(str, node_subnets))}) holds them all; use a load balancer or a name"
        )
    return problems


def url(host: str, port: int) -> str:
    """Return the address of the Kubernetes API; BadInputs when ``host``, known only now, is no host."""
    problem = host_problem(host)
    if problem:
        raise BadInputs(f"endpoint.host: {problem}")
    return f"https://{host}:{port}"
