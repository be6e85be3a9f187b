"""Machines outside of the cluster that join Kilo's mesh: administrators' computers, and places without nodes."""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Any, NotRequired, TypedDict

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from ._contract import Shape, check
from .address_plan import PlainRange
from .kilo_nodes import KiloNodes
from .manifests import after, labels, managed, object_base
from .mesh_plan import Granularity, parse_endpoint
from .peer_checks import peer_problems
from .wireguard import Interface, Remote, checked_key, client_file
from .wireguard_key import WireGuardKey


class MeshPeerArgs(TypedDict):
    """A machine outside of the cluster that joins the mesh."""

    address: str
    """Its own address in the mesh, inside of `cidr`."""
    public_key: NotRequired[str]
    """Its WireGuard public key, when its private one is to stay with it; the file then says where that belongs.
    Default: a key pair is made once and kept, encrypted, in the state."""
    preshared: NotRequired[bool]
    """Whether a symmetric key on top is made and used. Everybody who may read Peers in the cluster can read it. Default
    false."""
    endpoint: NotRequired[str]
    """Where the cluster's machines can call it, as host:port, when it can be called. Default: it calls first."""
    routed_cidrs: NotRequired[Sequence[str]]
    """Further ranges, IPv4, that are reached through it, as those of a place without nodes. Default: none."""


class MeshPeersArgs(TypedDict):
    """Inputs of MeshPeers."""

    cidr: str
    """Range of the peers' addresses, IPv4: the one that NetworkMesh was given as `peer_cidr`."""
    peers: Mapping[str, MeshPeerArgs]
    """The peers by name, at most 20 lower-case letters, digits and hyphens."""
    kubeconfig: pulumi.Input[str]
    """Credentials with which the public keys of the cluster's machines are read. Treated as a secret."""
    granularity: NotRequired[Granularity]
    """The mesh's own. Default: `full`."""
    service_cidr: NotRequired[str]
    """Range of the services, for peers that call them; they are reached through the first machine of the file that can
    be called. Default: no services."""
    dns: NotRequired[Sequence[str]]
    """Name servers for the peers' files, such as the cluster's own, which needs `service_cidr`. Default: none."""
    mtu: NotRequired[int]
    """MTU for the peers' files in bytes, 1280 to 1420. Default 1320, which also fits through Azure."""
    persistent_keepalive: NotRequired[int]
    """Seconds between the packets that keep a peer's tunnels open, 1 to 65535. Default 20; Kilo keeps the endpoint at
    which it met a peer only for those that have one."""
    connect_to: NotRequired[str]
    """An `https://host:port` to connect to in place of the kubeconfig's server. Default: none."""
    ready_minutes: NotRequired[int]
    """Minutes to wait until Kilo's agent has described every control plane, 1 to 60. Default 10."""


def _endpoint(text: str) -> str:
    parsed = parse_endpoint(text, 0)
    if parsed.port == 0:
        raise ValueError("must be host:port, such as wg.example.com:51820")
    return str(parsed)


class _Peer(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    address: IPv4Address
    public_key: Annotated[str, AfterValidator(checked_key)] | None = None
    preshared: bool = False
    endpoint: Annotated[str, AfterValidator(_endpoint)] | None = None
    routed_cidrs: tuple[PlainRange, ...] = ()


class _Shape(Shape):
    cidr: PlainRange
    peers: Mapping[str, _Peer] = Field(min_length=1)
    granularity: Granularity = Granularity.FULL
    service_cidr: PlainRange | None = None
    dns: tuple[IPv4Address, ...] = Field(default=(), max_length=3)
    mtu: int = Field(default=1320, ge=1280, le=1420)
    persistent_keepalive: int = Field(default=20, ge=1, le=65535)
    connect_to: str | None = Field(default=None, pattern=r"^https://[^\s/?#@]+$")
    ready_minutes: int = Field(default=10, ge=1, le=60)

    @model_validator(mode="after")
    def _apart(self) -> "_Shape":
        found = peer_problems(
            self.cidr, {name: (peer.address, peer.public_key, peer.routed_cidrs) for name, peer in self.peers.items()}
        )
        if self.service_cidr is not None:
            theirs = [self.cidr, *(cidr for peer in self.peers.values() for cidr in peer.routed_cidrs)]
            if any(cidr.overlaps(self.service_cidr) for cidr in theirs):
                found.append(("service_cidr", f"{self.service_cidr} overlaps what leads to the peers"))
        if found:
            raise ValueError("; ".join(f"{where}: {problem}" for where, problem in found))
        return self


class MeshPeers(pulumi.ComponentResource):
    """Administrators' machines, and others outside of the cluster, as Peers of Kilo, with a WireGuard file for each.

    A file names every machine, or every location's leader, that the cluster has when `up` or a refresh runs; hand it
    out again when those have changed.
    """

    client_files: pulumi.Output[Mapping[str, str]]
    """The files by the peer's name, for `wg-quick` or an application of WireGuard. Secret: they hold private keys."""

    def __init__(self, name: str, args: MeshPeersArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        owner = f"MeshPeers '{name}'"
        shape = check(owner, args, MeshPeersArgs, _Shape)
        base = object_base(owner, name)
        super().__init__("hybrid-talos:index:MeshPeers", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)

        nodes = KiloNodes(
            f"{name}-machines",
            kubeconfig=args["kubeconfig"],
            connect_to=shape.connect_to,
            granularity=shape.granularity.value,
            minutes=shape.ready_minutes,
            opts=child,
        )
        files: dict[str, pulumi.Output[str]] = {}
        for peer_name, peer in sorted(shape.peers.items()):
            keys = None
            if peer.public_key is None or peer.preshared:
                keys = WireGuardKey(f"{name}-{peer_name}-key", opts=child)
            own_key = keys if peer.public_key is None else None
            preshared = keys.preshared_key if keys is not None and peer.preshared else None
            kubernetes.apiextensions.CustomResource(
                f"{name}-{peer_name}",
                api_version="kilo.squat.ai/v1alpha1",
                kind="Peer",
                metadata={"name": f"{base}-{peer_name}", "labels": managed(labels("kilo-peer", base))},
                spec=_spec(shape, peer, own_key.public_key if own_key is not None else str(peer.public_key), preshared),
                # Machines that Kilo has described tell that the definition of Peers is there.
                opts=after(child, nodes),
            )
            files[peer_name] = _file(shape, peer, nodes, own_key, preshared)

        self.client_files = pulumi.Output.secret(pulumi.Output.all(**files))
        self.register_outputs({"clientFiles": self.client_files})


def _spec(
    shape: _Shape, peer: _Peer, public_key: pulumi.Input[str], preshared: pulumi.Output[str] | None
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "allowedIPs": [f"{peer.address}/32", *(str(cidr) for cidr in sorted(peer.routed_cidrs))],
        "publicKey": public_key,
        "persistentKeepalive": shape.persistent_keepalive,
    }
    if preshared is not None:
        spec["presharedKey"] = preshared
    if peer.endpoint is not None:
        endpoint = parse_endpoint(peer.endpoint, 0)
        kind = "dns" if endpoint.address is None else "ip"
        spec["endpoint"] = {"dnsOrIP": {kind: endpoint.host}, "port": endpoint.port}
    return spec


def _file(
    shape: _Shape, peer: _Peer, nodes: KiloNodes, own: WireGuardKey | None, preshared: pulumi.Output[str] | None
) -> pulumi.Output[str]:
    def render(known: dict[str, Any]) -> str:
        interface = Interface(str(peer.address), known["private"], [str(one) for one in shape.dns], shape.mtu)
        tunnels = with_services(remotes_of(known["remotes"]), shape.service_cidr)
        return client_file(interface, tunnels, shape.persistent_keepalive, known["preshared"])

    made: pulumi.Output[str] = pulumi.Output.all(
        private=own.private_key if own is not None else None, preshared=preshared, remotes=nodes.remotes
    ).apply(render)
    return made


def remotes_of(found: Sequence[Mapping[str, Any]]) -> list[Remote]:
    """Return tunnels from the plain form that the state keeps them in."""
    # What is nothing is left out on the way through the engine.
    return [Remote(one["name"], one["public_key"], tuple(one["allowed_ips"]), one.get("endpoint")) for one in found]


def with_services(remotes: Sequence[Remote], services: IPv4Network | None) -> list[Remote]:
    """Return tunnels of which the first that can be called leads to the services too: one range has one tunnel."""
    first = next((remote for remote in remotes if remote.endpoint is not None), None)
    if services is None or first is None:
        return list(remotes)
    extended = Remote(first.name, first.public_key, (*first.allowed_ips, str(services)), first.endpoint)
    return [extended if remote is first else remote for remote in remotes]
