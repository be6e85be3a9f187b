"""What HAControlPlane takes, and the checks on the plain half of it."""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Annotated, Any, NotRequired, TypedDict
from urllib.parse import urlsplit

import pulumi
from pydantic import AfterValidator, Field, field_validator, model_validator

from . import control_plane_config as config
from ._contract import Shape
from .address_plan import check_ranges
from .certificates import certificate
from .cluster_endpoint import EndpointArgs, EndpointShape, endpoint_problems, host_problem
from .cluster_life import ControlPlaneMember, described
from .cluster_patches import Common
from .cni import Cni
from .life_inputs import SnapshotArgs, SnapshotShape, UpgradeArgs, UpgradeShape
from .machine import Address, MachineArgs, MachineShape, Name, Network, Patches, machine_problems
from .machine_config import has_documents
from .machine_links import carrier
from .mesh_location import MeshLocation
from .registries import (
    ComponentImagesArgs,
    ComponentImagesShape,
    Mirrors,
    RegistryArgs,
    RegistryHost,
    RegistryShape,
    mirror_problems,
)
from .rotation import RotationArgs, RotationShape
from .site import SiteArgs, SiteShape
from .versions import check_contract, check_pair, minor, newest_contract, normalise_version
from .versions import text as minor_text


class ControlPlaneEndpoints(TypedDict):
    """Addresses that this program itself connects to in place of the cluster's own."""

    kubernetes: NotRequired[str]
    """Where to ask whether the Kubernetes API is ready, as `https://host:port`: a private route, a tunnel. Whatever
    answers there must have a certificate for the host of `endpoint`. Left out, that endpoint itself is asked.
    Kubeconfigs always name the endpoint."""
    talos: NotRequired[Mapping[str, str]]
    """Where to reach the Talos API of control planes in place of `public_address` or `address`, by a machine's
    `address`: a tunnel, as an IPv4 address or `address:port`. The machines' certificates must hold it: see
    `cert_sans`."""
    nameserver: NotRequired[str]
    """Name server to ask for the endpoint's name, as `address` or `address:port`. Left out, those of the machine where
    Pulumi runs."""


class HAControlPlaneArgs(TypedDict):
    """Inputs of HAControlPlane."""

    cluster_name: str
    """Name of the cluster: lower-case letters, digits and `-`, at most 63. Also the context of the talosconfig."""
    talos_version: str
    """Version of Talos that the machines run, such as `1.14.0`."""
    kubernetes_version: str
    """Version of Kubernetes that the cluster runs, such as `1.36.3`; one that this Talos supports."""
    endpoint: EndpointArgs
    """Where clients and machines reach the Kubernetes API."""
    control_planes: Sequence[MachineArgs]
    """The control planes, an odd number. The first starts the cluster at its birth; later the order decides only in
    which order they are configured."""
    installer_image: pulumi.Input[str]
    """Image that the machines install Talos from; TalosImage.installer_image gives one."""
    config_contract: NotRequired[str]
    """Talos minor, such as `1.13`, whose form generated configurations have; never above the machines' Talos, nor
    above 1.13, the newest that the Talos provider knows. Left out, the newest possible at the cluster's birth is
    chosen, recorded, and stays when Talos is upgraded."""
    pod_cidr: NotRequired[str]
    """Range of the pods. Default `10.244.0.0/16`."""
    service_cidr: NotRequired[str]
    """Range of the services. Default `10.96.0.0/12`."""
    node_subnets: NotRequired[Sequence[str]]
    """Ranges of the machines' own addresses: kubelet and etcd take none outside them. Left out, any is taken."""
    location: NotRequired[pulumi.Input[MeshLocation]]
    """The machines' place in the mesh; one of NetworkMesh.locations."""
    cni: NotRequired[Cni]
    """Pod network. Talos installs flannel itself; for cilium it installs none. Default flannel."""
    cert_sans: NotRequired[Sequence[pulumi.Input[str]]]
    """Further names and addresses for the certificates of the Talos and Kubernetes APIs. The endpoint and all
    addresses of the control planes are always in them."""
    registry_mirrors: NotRequired[Mapping[str, Sequence[str]]]
    """Mirrors, as `http://` or `https://` URLs in the order to try, by registry host; for workers too. One whose
    address goes on after `/v2/` is used as it stands."""
    mirror_fallback: NotRequired[bool]
    """Whether a registry itself is asked when no mirror of it has an image. Set false where it cannot be reached.
    Default true."""
    registries: NotRequired[Mapping[str, RegistryArgs]]
    """Credentials and certificates of registries and mirrors, by `host` or `host:port` as it stands in their
    addresses; for workers too."""
    component_images: NotRequired[ComponentImagesArgs]
    """Images of Kubernetes, where another distribution of Talos has its own. Default: those that Talos chooses."""
    trusted_roots: NotRequired[Sequence[str]]
    """Certificates (PEM) of further authorities that the machines trust; for workers too."""
    site: NotRequired[SiteArgs]
    """What the network around the control planes asks of them: name servers, clocks, a proxy."""
    config_patches: NotRequired[Sequence[pulumi.Input[str]]]
    """Further Talos patches (YAML, strategic merge) for every control plane. What the other inputs say wins over
    them. Treated as secrets."""
    allow_single_member: NotRequired[bool]
    """Accept one control plane, which is not highly available. Default false."""
    cloud_controller: NotRequired[bool]
    """Whether a cloud controller, such as TalosCloudController, initialises nodes and approves the certificates of
    kubelets. With true and none running, nodes stay tainted. Default true."""
    endpoints: NotRequired[ControlPlaneEndpoints]
    """Addresses that this program itself connects to in place of the cluster's own."""
    api_ready_minutes: NotRequired[int]
    """How long to wait for the Kubernetes API after the cluster was started: 1 to 60 minutes. Default 15."""
    upgrade: NotRequired[UpgradeArgs]
    """How control planes are upgraded, changed and removed; `parallelism` does not count for them."""
    snapshots: NotRequired[SnapshotArgs]
    """Where snapshots of etcd go before each upgrade and removal. Without it an upgrade is refused, unless
    `upgrade.snapshot` is false."""
    rotation: NotRequired[RotationArgs]
    """How far the rotations of the Talos authority and of the join tokens are. One step at a time; what is finished
    stays here."""
    protect: NotRequired[bool]
    """Whether Pulumi refuses to delete the secrets and the record of the bootstrap, which cannot be made again.
    Default true. To take the cluster down, set false and run `pulumi up` before `pulumi destroy`: from then on a
    machine that goes is reset without leaving etcd, which the last ones could not do. A machine removed while this
    is true leaves etcd first."""


def _https(value: str) -> str:
    try:
        parts = urlsplit(value)
        fine = parts.scheme == "https" and bool(parts.hostname) and (parts.port or 1) > 0 and "@" not in parts.netloc
    except ValueError:
        fine = False
    if not fine or parts.path.rstrip("/") or parts.query or parts.fragment or any(sign.isspace() for sign in value):
        raise ValueError("must have the form https://host:port, without a path")
    return value.rstrip("/")


def _nameserver(value: str) -> str:
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){3}(:[0-9]{1,5})?", value):
        raise ValueError("must be the IPv4 address of a name server, or address:port")
    return value


def _at(value: str) -> str:
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,3}){3}(:[0-9]{1,5})?", value):
        raise ValueError("must be an IPv4 address, or address:port")
    return value


class EndpointsShape(Shape):
    """The checked form of ControlPlaneEndpoints."""

    kubernetes: Annotated[str, AfterValidator(_https)] | None = None
    talos: Mapping[Address, Annotated[str, AfterValidator(_at)]] = Field(default_factory=dict)
    nameserver: Annotated[str, AfterValidator(_nameserver)] | None = None


class HAControlPlaneShape(Shape):
    """The checked, plain half of HAControlPlaneArgs."""

    cluster_name: Name
    talos_version: str
    kubernetes_version: str
    endpoint: EndpointShape
    control_planes: tuple[MachineShape, ...]
    config_contract: str | None = None
    pod_cidr: Network = IPv4Network("10.244.0.0/16")
    service_cidr: Network = IPv4Network("10.96.0.0/12")
    node_subnets: tuple[Network, ...] = ()
    cni: Cni = Cni.FLANNEL
    cert_sans: tuple[Any, ...] = ()
    registry_mirrors: Mirrors = Field(default_factory=dict)
    mirror_fallback: bool = True
    registries: Mapping[RegistryHost, RegistryShape] = Field(default_factory=dict)
    component_images: ComponentImagesShape | None = None
    trusted_roots: tuple[Annotated[str, AfterValidator(certificate)], ...] = ()
    site: SiteShape = SiteShape()
    config_patches: Patches = ()
    allow_single_member: bool = False
    cloud_controller: bool = True
    endpoints: EndpointsShape = EndpointsShape()
    api_ready_minutes: Annotated[int, Field(ge=1, le=60)] = 15
    upgrade: UpgradeShape = UpgradeShape()
    snapshots: SnapshotShape | None = None
    rotation: RotationShape = RotationShape()
    protect: bool = True

    @property
    def common(self) -> Common:
        """Return what every machine of the cluster is told."""
        return Common(
            pod_cidr=str(self.pod_cidr),
            service_cidr=str(self.service_cidr),
            kubernetes_version=self.kubernetes_version,
            cloud_controller=self.cloud_controller,
            mirrors=self.registry_mirrors,
            mirror_fallback=self.mirror_fallback,
            registries=self.registries,
            trusted_roots=self.trusted_roots,
            images=self.component_images,
        )

    @property
    def known_members(self) -> list[ControlPlaneMember]:
        """Return the control planes as other resources need to know them, by name."""
        ordered = sorted(self.control_planes, key=lambda member: member.name)
        return [described(member.name, member.address, self.talos_endpoint(member)) for member in ordered]

    def talos_endpoint(self, member: MachineShape) -> str:
        """Return where this program reaches the Talos API of a control plane."""
        return self.endpoints.talos.get(member.address, member.reached_at)

    @property
    def own_names(self) -> list[str]:
        """Return what the machines reach without a proxy, beside the endpoint."""
        members = sorted(self.control_planes, key=lambda member: member.name)
        addresses = [address for member in members for address in member.addresses]
        return [*addresses, *map(str, self.node_subnets), str(self.pod_cidr), str(self.service_cidr)]

    def vip_link(self, member: MachineShape) -> str | None:
        """Return the link on which a control plane carries the VIP, or None for its only physical one."""
        return self.endpoint.interface or carrier(member.links, member.address)

    @field_validator("talos_version", "kubernetes_version", "config_contract")
    @classmethod
    def _version(cls, value: str | None) -> str | None:
        return value if value is None else normalise_version(value)

    @field_validator("cert_sans")
    @classmethod
    def _names(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        problems = [host_problem(name) for name in value if isinstance(name, str)]
        for problem in filter(None, problems):
            raise ValueError(problem)
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> "HAControlPlaneShape":
        taken = (("pods", self.pod_cidr), ("services", self.service_cidr))
        problems = self._version_problems()
        quorum = config.quorum_problem(len(self.control_planes), self.allow_single_member)
        if quorum:
            problems.append(f"control_planes: {quorum}")
        problems += [
            f"control_planes: {problem}" for problem in machine_problems(self.control_planes, self.node_subnets, taken)
        ]
        problems += [
            f"endpoint: {problem}"
            for problem in endpoint_problems(self.endpoint, self.control_planes, self.node_subnets, taken)
        ]
        if not self._version_problems():
            problems += self._member_problems()
        problems += check_ranges(
            [
                ("pods", str(self.pod_cidr)),
                ("services", str(self.service_cidr)),
                *(("node_subnets", str(subnet)) for subnet in self.node_subnets),
            ]
        )
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _member_problems(self) -> list[str]:
        documents = has_documents(self.birth_contract)
        problems = [
            f"registry_mirrors: {problem}" for problem in mirror_problems(self.registry_mirrors, documents=documents)
        ]
        if not documents and any(member.links for member in self.control_planes):
            problems.append("control_planes: links need a config contract of 1.12 or later; use config_patches")
        for member in self.control_planes:
            keys = [taint.key for taint in member.taints]
            problems += [
                f"control_planes: {member.name}: taints: {key} stands twice, and a control plane has one for each key"
                for key in sorted({key for key in keys if keys.count(key) > 1})
            ]
            if self.endpoint.vip is not None and member.links and self.vip_link(member) is None:
                problems.append(
                    f"endpoint: interface: required, since {member.name} has several links with DHCP and none with "
                    f"the static address {member.address}"
                )
        return problems

    def _version_problems(self) -> list[str]:
        problem = check_pair(self.talos_version, self.kubernetes_version)
        if problem:
            return [f"kubernetes_version: {problem}"]
        if self.config_contract is None:
            # The newest one, for a cluster that is born now; one that was recorded is looked at when it is known.
            contract, key = minor_text(newest_contract(self.talos_version)), "kubernetes_version"
        else:
            contract, key = self.config_contract, "config_contract"
        problem = check_contract(contract, self.talos_version, self.kubernetes_version)
        return [f"{key}: {problem}"] if problem else []

    @property
    def birth_contract(self) -> str:
        """Return the contract for a cluster that is born now."""
        chosen = newest_contract(self.talos_version) if self.config_contract is None else minor(self.config_contract)
        return f"v{minor_text(chosen)}"
