"""The settings of the mesh beside its locations: peers outside of the cluster, and who watches Kilo."""

from collections.abc import Mapping
from typing import Annotated

from hybrid_talos.wireguard import checked_key
from pydantic import AfterValidator, Field

from .settings_base import Address, HostPort, Network, Section, form
from .settings_cluster import MeshSettings as MeshOfLocations

PeerName = Annotated[
    str,
    form(
        r"[a-z]([a-z0-9-]*[a-z0-9])?",
        "start with a lower-case letter, hold only lower-case letters, digits and hyphens, and not end with a hyphen",
        20,
    ),
]
"""Name of a peer: part of the names of its objects."""


class Peer(Section):
    """A machine outside of the cluster that joins the mesh."""

    address: Address | None = None
    """Its address in the mesh, inside cidr; left out, it is derived from the name and stays."""
    public_key: Annotated[str, AfterValidator(checked_key)] | None = None
    """Its WireGuard public key; left out, a key pair is made once and kept, encrypted, in the state."""
    preshared: bool = False
    """Make and use a symmetric key on top, which everybody who may read Peers in the cluster can read."""
    endpoint: HostPort | None = None
    """Where the cluster's machines can call it, as a host, or host:port; left out when it calls first."""
    routed_cidrs: tuple[Network, ...] = ()
    """Further ranges that are reached through it, as those of a place without nodes."""


class Peers(Section):
    """Machines outside of the cluster that join the mesh. Only for kilo."""

    cidr: Network
    """Range of their addresses, apart from every other."""
    machines: Mapping[PeerName, Peer] = {}
    """The machines, by name; none in a stack that joins a cluster, where only the firewalls learn of cidr."""
    services: bool = False
    """Let them call the cluster's services, through the first machine of their file."""
    dns: tuple[Address, ...] = Field(default=(), max_length=3)
    """Name servers for their files; the cluster's own is the tenth address of serviceCidr and needs services."""
    mtu: int = Field(default=1320, ge=1280, le=1420)
    """Bytes of the largest packet inside their tunnels; the default fits through Azure too."""


class Monitoring(Section):
    """Alert rules and a monitor for Prometheus. Its operator's definitions must be in the cluster. Only for kilo."""

    labels: Mapping[
        Annotated[str, form(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?", "be the key of a label", 253)],
        Annotated[str, form(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", "be the value of a label", 63)],
    ] = {}
    """Labels by which that Prometheus picks rules and monitors, such as release: kube-prometheus-stack."""


class MeshSettings(MeshOfLocations):
    """The WireGuard mesh between the locations."""

    peers: Peers | None = None
    """Machines outside of the cluster, such as administrators' own, and a WireGuard file for each."""
    exposed_cidrs: Mapping[str, Annotated[tuple[Network, ...], Field(min_length=1)]] = {}
    """Further ranges that the others reach through a location, such as a load balancer's, by its name; with leaders."""
    monitoring: Monitoring | None = None
    """Alert rules on Kilo's metrics, where the operator of Prometheus is."""
