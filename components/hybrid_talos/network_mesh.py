"""The WireGuard mesh that joins the locations of a cluster."""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import NotRequired, TypedDict

import pulumi
from pydantic import Field, model_validator

from ._contract import Shape, check
from .address_plan import PlainRange
from .cni import Cni
from .kilo import IMAGE, KiloAgent, deploy_kilo
from .kilo_alerts import watch_kilo
from .manifests import KUBE_SYSTEM, after, object_base
from .mesh_checks import problems
from .mesh_location import MeshLocation
from .mesh_plan import (
    ANYWHERE,
    KUBEPRISM_PORT,
    KUBESPAN_PORT,
    PAIRS,
    Granularity,
    MeshKind,
    MeshPlan,
    Place,
    locations,
    parse_endpoint,
)

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class MeshLocationArgs(TypedDict):
    """A place whose machines share a network."""

    cidrs: Sequence[str]
    """Ranges of the machines' own addresses in this location, IPv4."""
    public_endpoint: NotRequired[str]
    """Where the other locations reach this one over UDP: a host or host:port. With a port, the machines listen on
    that port. With granularity `location` it must lead to the location's leader, which is the ready machine whose
    name sorts first; with `full`, to any one of the machines. Not needed where every machine has an address of its
    own that the others reach, and then not announced, unless the location is a single address (a /32)."""
    behind_nat: NotRequired[bool]
    """True when nobody outside can send to the machines first, as behind a NAT gateway. Default false. Two such
    locations cannot be joined. A cloud machine with a public address of its own is not behind NAT in this sense."""
    exposed_cidrs: NotRequired[Sequence[str]]
    """Further ranges of this location that the other locations can reach through it, such as a load balancer's.
    Only with Kilo and granularity `location`."""
    path_mtu: NotRequired[int]
    """Largest packet, in bytes, that the machines' interface carries. Default 1500; Talos sets 1400 on Azure."""


class MeshMonitoringArgs(TypedDict):
    """Who watches Kilo's agents."""

    labels: NotRequired[Mapping[str, str]]
    """Labels by which that Prometheus picks its monitors and rules, such as `release: kube-prometheus-stack`. Default:
    none beside the library's own."""


class NetworkMeshArgs(TypedDict):
    """Inputs of NetworkMesh."""

    kind: MeshKind
    """What joins the locations: Kilo as a DaemonSet, or KubeSpan, a part of Talos. Never both: they use one port."""
    pod_cidr: str
    """Range of the pods, IPv4."""
    service_cidr: str
    """Range of the services, IPv4."""
    locations: Mapping[str, MeshLocationArgs]
    """The locations by name; a name is a DNS label. All pools in one network share one location."""
    cni: NotRequired[Cni]
    """The pod network that the cluster runs. Default Flannel, as Talos ships it."""
    granularity: NotRequired[Granularity]
    """Kilo only: tunnels between all machines (`full`, for Flannel) or between one leader for each location
    (`location`, for Cilium). Default: the one that works with the pod network; the other is refused."""
    cidr: NotRequired[str]
    """Kilo only: range of the mesh's own addresses, a /24 or larger. Default 10.4.0.0/16."""
    peer_cidr: NotRequired[str]
    """Kilo only: range of the addresses of peers outside of the cluster, which MeshPeers makes: the firewalls let it in
    where the mesh's own traffic comes out. Apart from every other range. Default: no peers."""
    port: NotRequired[int]
    """UDP port of the mesh, 1 to 65535. Default 51820; KubeSpan knows no other."""
    persistent_keepalive: NotRequired[int]
    """Kilo only: seconds between the packets that keep an address translation open, 0 to 65535. Default 20. 0 is
    refused where a location depends on it."""
    mtu: NotRequired[int]
    """MTU of the tunnels in bytes, 1280 or more. Default: Kilo takes each machine's own path less WireGuard's 80;
    KubeSpan takes the smallest path of all locations less 80."""
    api_endpoint: NotRequired[str]
    """Kilo only: where the agent finds the Kubernetes API, as an https URL that works before the mesh does. Default:
    KubePrism on the machine itself, `https://127.0.0.1:7445`."""
    namespace: NotRequired[str]
    """Kilo only: namespace of the agent. Default: one of its own, named for the component, where privileged pods are
    admitted. With `kube-system` none is made."""
    image: NotRequired[str]
    """Kilo only: image of the agent, version 0.7.0 or later. Default `docker.io/squat/kilo:0.7.0`."""
    monitoring: NotRequired[MeshMonitoringArgs]
    """Kilo only: have Prometheus watch the agents. The definitions of its operator (PodMonitor, PrometheusRule) must be
    in the cluster. Default: nobody watches."""
    deploy: NotRequired[bool]
    """Whether Kilo is deployed. Default true. False where the cluster has it already, or before there is a
    cluster: then the locations are only computed. In a program of another language than Python a component answers
    only when all that it makes is there: ask a first mesh without Kilo for the locations that the control planes
    need, and let a second one with the same inputs deploy it."""


class _Location(Shape):
    cidrs: tuple[PlainRange, ...] = Field(min_length=1)
    public_endpoint: str | None = None
    behind_nat: bool = False
    exposed_cidrs: tuple[PlainRange, ...] = ()
    path_mtu: int = Field(default=1500, ge=1360, le=9216)


class _Monitoring(Shape):
    labels: Mapping[str, str] = Field(default_factory=dict)


class _Shape(Shape):
    kind: MeshKind
    pod_cidr: PlainRange
    service_cidr: PlainRange
    locations: Mapping[str, _Location] = Field(min_length=1)
    cni: Cni = Cni.FLANNEL
    granularity: Granularity | None = None
    cidr: PlainRange = IPv4Network("10.4.0.0/16")
    peer_cidr: PlainRange | None = None
    port: int = Field(default=KUBESPAN_PORT, ge=1, le=65535)
    persistent_keepalive: int = Field(default=20, ge=0, le=65535)
    mtu: int | None = Field(default=None, ge=1280, le=9136)
    api_endpoint: str = Field(default=f"https://127.0.0.1:{KUBEPRISM_PORT}", pattern=r"^https://[^\s/?#@]+$")
    namespace: str | None = Field(default=None, pattern=rf"^{_DNS_LABEL.pattern}$")
    image: str = Field(default=IMAGE, pattern=r"^\S+$")
    monitoring: _Monitoring | None = None
    deploy: bool = True

    @model_validator(mode="after")
    def _works(self) -> "_Shape":
        found = [
            f"locations.{name}: a name must be a DNS label: lower-case letters, digits and hyphens"
            for name in self.locations
            if not _DNS_LABEL.fullmatch(name)
        ]
        if self.cidr.prefixlen > 24:
            found.append("cidr: must be a /24 or larger, since every peer needs an address")
        for name, location in self.locations.items():
            try:
                parse_endpoint(location.public_endpoint or "placeholder", self.port)
            except ValueError as error:
                found.append(f"locations.{name}.public_endpoint: {error}")
        if self.monitoring is not None and self.kind is not MeshKind.KILO:
            found.append("monitoring: watches Kilo's agents, and KubeSpan has none: remove it")
        found = found or problems(self.plan())
        if found:
            raise ValueError("; ".join(found))
        return self

    def plan(self) -> MeshPlan:
        """Return the inputs as the planner takes them."""
        kilo = self.kind is MeshKind.KILO
        return MeshPlan(
            kind=self.kind,
            cni=self.cni,
            # KubeSpan always joins machine with machine.
            granularity=(self.granularity or PAIRS[self.cni]) if kilo else Granularity.FULL,
            cidr=self.cidr,
            peers=self.peer_cidr,
            port=self.port,
            keepalive=self.persistent_keepalive,
            mtu=self.mtu,
            pod_cidr=self.pod_cidr,
            service_cidr=self.service_cidr,
            places=tuple(
                Place(
                    name=name,
                    cidrs=one.cidrs,
                    endpoint=parse_endpoint(one.public_endpoint, self.port) if one.public_endpoint else None,
                    behind_nat=one.behind_nat,
                    exposed=one.exposed_cidrs,
                    path_mtu=one.path_mtu,
                )
                for name, one in sorted(self.locations.items())
            ),
        )


class NetworkMesh(pulumi.ComponentResource):
    """The mesh between the locations of a cluster: what it asks of their machines and firewalls, and its agent.

    Refuses, before anything is made, ranges that overlap, locations that cannot reach each other, and pairs of
    pod network and granularity that do not work. It opens no firewall itself: the pools do, from `locations`.
    """

    locations: pulumi.Output[Mapping[str, MeshLocation]]
    """What the mesh asks of each location, by name: machine-config patch, node annotations, firewall."""
    wireguard_port: pulumi.Output[int]
    """UDP port of the mesh, where a location's own endpoint says no other."""

    def __init__(
        self,
        name: str,
        args: NetworkMeshArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        owner = f"NetworkMesh '{name}'"
        shape = check(owner, args, NetworkMeshArgs, _Shape)
        deploys = shape.deploy and shape.kind is MeshKind.KILO
        base = object_base(owner, name) if deploys else name
        super().__init__("hybrid-talos:index:NetworkMesh", name, {}, opts)

        plan = shape.plan()
        if deploys:
            agent = KiloAgent(
                base=base,
                namespace=shape.namespace or f"{base}-kilo",
                own_namespace=shape.namespace != KUBE_SYSTEM,
                image=shape.image,
                api_endpoint=shape.api_endpoint,
            )
            child = pulumi.ResourceOptions(parent=self)
            namespace = deploy_kilo(name, plan, agent, child)
            if shape.monitoring is not None:
                # Both stand in the agent's namespace.
                there = after(child, *namespace)
                watch_kilo(name, base, agent.namespace, plan.granularity, shape.monitoring.labels, there)

        found = locations(plan)
        open_ones = [place for place, location in found.items() if str(ANYWHERE) in location["firewall_sources"]]
        if open_ones and len(found) > 1:
            pulumi.log.info(
                f"the mesh's UDP port of {', '.join(open_ones)} is open to any source, since not all others have "
                "addresses that are known beforehand",
                self,
            )
        self.locations = pulumi.Output.from_input(found)
        self.wireguard_port = pulumi.Output.from_input(plan.port)
        self.register_outputs({"locations": self.locations, "wireguardPort": self.wireguard_port})
