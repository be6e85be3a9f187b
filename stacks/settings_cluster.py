"""The settings of the cluster itself and of its mesh."""

from collections.abc import Mapping
from ipaddress import IPv4Network
from typing import Annotated, Any
from urllib.parse import urlsplit

from hybrid_talos.certificates import certificate
from hybrid_talos.cni import Cni
from hybrid_talos.mesh_plan import Granularity, MeshKind
from hybrid_talos.registries import registry_host
from hybrid_talos.versions import newest_contract
from hybrid_talos.versions import text as minor_text
from pydantic import AfterValidator, BeforeValidator, Field

from .settings_base import (
    Contract,
    Host,
    HostPort,
    Name,
    Network,
    Patch,
    Section,
    TrustedUrl,
    Url,
    Version,
    form,
)
from .settings_endpoint import Endpoint
from .settings_life import Rotation, Snapshots, Upgrade
from .settings_machines import Machine
from .settings_site import ComponentImages, Registry, Site


class Location(Section):
    """A place whose machines reach each other without the mesh."""

    name: Name
    """Name of the place in the mesh."""
    cidrs: tuple[Network, ...] = Field(min_length=1)
    """Ranges of the addresses of its machines."""
    public_endpoint: HostPort | None = None
    """Host, or host:port, at which the other locations reach its WireGuard port; left out behind NAT."""


class OtherLocation(Section):
    """A location that another stack builds."""

    cidrs: tuple[Network, ...] = Field(min_length=1)
    """Ranges of the addresses of its machines."""
    public_endpoint: HostPort | None = None
    """Host, or host:port, of its WireGuard port; left out behind NAT."""


def _contract_of(data: dict[str, Any]) -> str:
    return minor_text(newest_contract(data["talos_version"]))


_REGISTRY = form(
    r"\*|[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?", "be the host of a registry, such as docker.io"
)


def _https(value: str) -> str:
    if not value.startswith("https://") or urlsplit(value).path:
        raise ValueError("must have the form https://host:port, without a path")
    return value


class ClusterEndpoints(Section):
    """Addresses that this program itself connects to in place of the cluster's own."""

    kubernetes: Annotated[TrustedUrl, AfterValidator(_https)] | None = None
    """Where to ask whether the Kubernetes API is ready, as https://host:port; its certificate is the endpoint's."""
    talos: Mapping[
        str,
        Annotated[str, form(r"[0-9]{1,3}(\.[0-9]{1,3}){3}(:[0-9]{1,5})?", "be an IPv4 address, or address:port")],
    ] = {}
    """Where to reach the Talos API of machines in place of publicAddress or address, by their address: a tunnel."""
    nameserver: (
        Annotated[
            str,
            form(r"[0-9]{1,3}(\.[0-9]{1,3}){3}(:[0-9]{1,5})?", "be the address of a name server, or address:port"),
        ]
        | None
    ) = None
    """Name server to ask for the endpoint's name; left out, those of the machine where Pulumi runs."""


class ClusterSettings(Section):
    """The cluster: what it is called, which versions it runs, and the machines that exist."""

    name: Name
    """Name of the cluster; part of the names of its resources."""
    talos_version: Version
    """Version of Talos that the machines run."""
    kubernetes_version: Version
    """Version of Kubernetes that the cluster runs."""
    config_contract: Contract = Field(default_factory=_contract_of)
    """Talos minor whose form the generated configs have. Write it down and leave it when Talos is upgraded."""
    endpoint: Endpoint
    """Where the Kubernetes API is reached."""
    pod_cidr: Network = IPv4Network("10.244.0.0/16")
    """Range of the pods; each node takes a /24 of it."""
    service_cidr: Network = IPv4Network("10.96.0.0/12")
    """Range of the services."""
    control_planes: tuple[Machine, ...] = ()
    """Control planes: an odd number of machines that exist."""
    workers: tuple[Machine, ...] = ()
    """Workers that exist."""
    allow_single_member: bool = False
    """Accept one control plane, which is not highly available."""
    protect: bool = True
    """Refuse to delete the secrets and the record of the bootstrap, which cannot be made again."""
    location: Location | None = None
    """The place of the machines that exist."""
    registry_mirrors: Mapping[Annotated[str, _REGISTRY], Annotated[tuple[Url, ...], Field(min_length=1)]] = {}
    """Mirrors to ask before each registry, by the registry's host; one that goes on after /v2/ is used as it is."""
    mirror_fallback: bool = True
    """Ask a registry itself when no mirror of it has an image; false where it cannot be reached."""
    registries: Mapping[Annotated[str, AfterValidator(registry_host)], Registry] = {}
    """Logins and certificates of registries and mirrors, by host, or host:port, as in their addresses."""
    component_images: ComponentImages | None = None
    """Images of Kubernetes, where another distribution of Talos has its own."""
    trusted_roots: tuple[Annotated[str, AfterValidator(certificate)], ...] = ()
    """Certificates (PEM) of further authorities that all machines trust."""
    site: Site | None = None
    """What the network around the machines that exist asks of them: name servers, clocks, a proxy."""
    endpoints: ClusterEndpoints = ClusterEndpoints()
    """Addresses that this program itself connects to, where they are not the cluster's own."""
    api_ready_minutes: int = Field(default=15, ge=1, le=60)
    """Minutes to wait for the Kubernetes API of a cluster that was just started."""
    upgrade: Upgrade = Upgrade()
    """How machines that exist are upgraded, changed and removed."""
    snapshots: Snapshots | None = None
    """Where snapshots of etcd go before each upgrade and removal; without it upgrades are refused."""
    rotation: Rotation | None = None
    """How far the rotations of authority and tokens are; left out as long as there was none."""
    cert_sans: tuple[Host, ...] = ()
    """Further names and addresses for the certificates of the Talos and Kubernetes APIs."""
    config_patches: tuple[Patch, ...] = ()
    """Talos patches for every machine that exists; the keys here win over them. A pool has its own."""


def _seconds(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError(  # noqa: TRY004 - pydantic turns only ValueError into a problem
            "must be a whole number of seconds without quotes and unit, such as 20: the agent reads 20s as 0"
        )
    return value


def _mtu(value: Any) -> Any:
    return None if value == "auto" else value


def _granularity_of(data: dict[str, Any]) -> Granularity:
    return Granularity.LOCATION if data["cni"] is Cni.CILIUM else Granularity.FULL


class MeshSettings(Section):
    """The WireGuard mesh between the locations."""

    kind: MeshKind = MeshKind.KILO
    """kilo, or Talos's own kubespan."""
    cni: Cni = Cni.FLANNEL
    """The network of the pods: flannel or cilium. Not for kubespan, which runs with Talos's default, flannel."""
    granularity: Granularity = Field(default_factory=_granularity_of)
    """full with flannel, location with cilium. Not for kubespan."""
    cidr: Network = IPv4Network("10.4.0.0/16")
    """Range of the mesh's own addresses. Not for kubespan."""
    port: int = Field(default=51820, ge=1, le=65535)
    """UDP port of WireGuard."""
    persistent_keepalive: Annotated[int, BeforeValidator(_seconds)] = Field(default=20, ge=0, le=65535)
    """Seconds between packets that keep a NAT's mapping open; 0 for never. Not for kubespan."""
    mtu: Annotated[int | None, BeforeValidator(_mtu)] = Field(default=None, ge=1280, le=8920)
    """Bytes of the largest packet inside the tunnel; left out, or auto, to take it from the machine's interface."""
    locations: Mapping[Name, OtherLocation] = {}
    """Locations that other stacks build, by name: their ranges must be known to all."""
