"""Talos workers on machines that exist."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict
from urllib.parse import urlsplit

import pulumi
from pydantic import Field, field_validator, model_validator

from . import cluster_patches as patches
from . import control_plane_config as config
from ._contract import BadInputs, Shape, check
from .cluster_life import ControlPlaneMember, described
from .life_inputs import UpgradeArgs, UpgradeShape, shared_props
from .machine import Address, MachineArgs, MachineShape, Name, Network, Patches, machine_problems
from .machine_config import has_environment_document, value_at
from .machine_life import Life, Versions, configuration_apply, configuration_digests
from .mesh_location import MeshLocation
from .node_template import label_problem
from .site import SiteArgs, SiteShape, secret_or_none
from .talos_yaml import load
from .versions import minor, normalise_version, text


class WorkerEndpoints(TypedDict):
    """Addresses that this program itself connects to in place of the machines' own."""

    kubernetes: NotRequired[str]
    """Where to reach the Kubernetes API, as `https://host:port`: HAControlPlane's `endpoints.kubernetes`."""
    talos: NotRequired[Mapping[str, str]]
    """Where to reach the Talos API of workers in place of `public_address` or `address`, by a machine's `address`: a
    tunnel, as an IPv4 address or `address:port`."""


class StaticWorkerPoolArgs(TypedDict):
    """Inputs of StaticWorkerPool."""

    workers: Sequence[MachineArgs]
    """The machines."""
    machine_config: pulumi.Input[str]
    """Configuration that every worker starts from: HAControlPlane.worker_machine_config. Treated as a secret."""
    client_configuration: pulumi.Input[Mapping[str, str]]
    """Credentials for the Talos API: HAControlPlane.client_configuration. Treated as a secret."""
    installer_image: pulumi.Input[str]
    """Image that the machines install Talos from; TalosImage.installer_image gives one."""
    node_subnets: NotRequired[Sequence[str]]
    """Ranges of the machines' own addresses: the kubelet takes none outside them. Left out, any is taken."""
    location: NotRequired[pulumi.Input[MeshLocation]]
    """The machines' place in the mesh; one of NetworkMesh.locations."""
    site: NotRequired[SiteArgs]
    """What the network around the workers asks of them: name servers, clocks, a proxy."""
    config_contract: NotRequired[str]
    """Talos minor, such as `1.13`, whose form `machine_config` has: HAControlPlane's `config_contract`. Needed with
    `site.proxy` alone."""
    config_patches: NotRequired[Sequence[pulumi.Input[str]]]
    """Further Talos patches (YAML, strategic merge) for every worker of the pool. What the other inputs say wins over
    them. Treated as secrets."""
    talos_version: NotRequired[str]
    """Version of Talos that the machines run: HAControlPlane's `talos_version`. Left out, machines stay at what they
    were installed with."""
    kubernetes_version: NotRequired[str]
    """Version of Kubernetes that the cluster runs; needed with `talos_version`."""
    control_planes: NotRequired[Sequence[ControlPlaneMember]]
    """The cluster's control planes, which give access to its Kubernetes API. Left out, workers are neither drained nor
    are their Nodes deleted."""
    endpoints: NotRequired[WorkerEndpoints]
    """Addresses that this program itself connects to in place of the machines' own."""
    upgrade: NotRequired[UpgradeArgs]
    """How workers are upgraded, changed and removed; `snapshot` does not count for them."""
    graceful_removal: NotRequired[bool]
    """Whether a worker that is removed is drained before it is reset. Default true. Set false, and run `pulumi up`,
    before the whole cluster is taken down: there is nowhere left to move pods to."""


class _ControlPlane(Shape):
    name: Name
    address: Address
    endpoint: str


class _Endpoints(Shape):
    kubernetes: str | None = None
    talos: Mapping[Address, str] = Field(default_factory=dict)


class _Shape(Shape):
    workers: tuple[MachineShape, ...] = Field(min_length=1)
    node_subnets: tuple[Network, ...] = ()
    site: SiteShape = SiteShape()
    config_contract: str | None = None
    config_patches: Patches = ()
    talos_version: str | None = None
    kubernetes_version: str | None = None
    control_planes: tuple[_ControlPlane, ...] = ()
    endpoints: _Endpoints = _Endpoints()
    upgrade: UpgradeShape = UpgradeShape()
    graceful_removal: bool = True

    @field_validator("talos_version", "kubernetes_version")
    @classmethod
    def _version(cls, value: str | None) -> str | None:
        return value if value is None else normalise_version(value)

    @property
    def members(self) -> list[ControlPlaneMember]:
        """Return the control planes as the resources of the workers' life take them, by name."""
        ordered = sorted(self.control_planes, key=lambda member: member.name)
        return [described(member.name, member.address, member.endpoint) for member in ordered]

    @property
    def machines(self) -> list[ControlPlaneMember]:
        """Return the workers as the resources of their life take them, by name."""
        ordered = sorted(self.workers, key=lambda worker: worker.name)
        return [described(w.name, w.address, self.endpoints.talos.get(w.address, w.reached_at)) for w in ordered]

    @field_validator("config_contract")
    @classmethod
    def _contract(cls, value: str | None) -> str | None:
        return value if value is None else text(minor(value))

    @property
    def own_names(self) -> list[str]:
        """Return what the workers reach without a proxy, beside what their configuration says."""
        workers = sorted(self.workers, key=lambda worker: worker.name)
        return [*(address for worker in workers for address in worker.addresses), *map(str, self.node_subnets)]

    @model_validator(mode="after")
    def _fit_together(self) -> "_Shape":
        if self.talos_version is not None and self.kubernetes_version is None:
            raise ValueError("kubernetes_version: required with talos_version, which runs some versions of it only")
        if self.site.proxy is not None and self.config_contract is None:
            raise ValueError("config_contract: required with site.proxy, which has another form in each")
        problems = [f"workers: {problem}" for problem in machine_problems(self.workers, self.node_subnets)]
        problems += [
            f"workers: {worker.name}: labels.{key}: {problem}"
            for worker in self.workers
            for key, value in sorted(worker.labels.items())
            if (problem := label_problem(key, value))
        ]
        if problems:
            raise ValueError("; ".join(problems))
        return self


def has_hostname_document(machine_config: str) -> bool:
    """Return whether a worker's configuration carries its host name in a document of its own.

    Raises BadInputs, without any of the text, when it is not a worker's configuration.
    """
    documents = load(machine_config, "machine_config")
    types = [value_at(document, "machine", "type") for document in documents if "kind" not in document]
    if types != ["worker"]:
        raise BadInputs(
            "machine_config: is not the configuration of a worker; HAControlPlane.worker_machine_config gives one"
        )
    return any(document.get("kind") == "HostnameConfig" for document in documents)


def cluster_names(machine_config: str) -> list[str]:
    """Return the cluster's own names and ranges out of a worker's configuration: nothing of it that is secret."""
    for document in load(machine_config, "machine_config"):
        if "kind" not in document:
            endpoint = urlsplit(str(value_at(document, "cluster", "controlPlane", "endpoint") or "")).hostname
            network = value_at(document, "cluster", "network") or {}
            ranges = [*(network.get("podSubnets") or ()), *(network.get("serviceSubnets") or ())]
            return [*([endpoint] if endpoint else ()), *map(str, ranges)]
    return []


class StaticWorkerPool(pulumi.ComponentResource):
    """Workers on machines that exist, each with its own name, disk and address, which join a cluster.

    They are upgraded, changed and removed some at a time, drained before each upgrade and removal.

    The machines must be booted from a Talos image and reachable from where Pulumi runs, over a network that is
    trusted: the first configuration goes to a machine that cannot prove yet who it is.
    """

    node_names: pulumi.Output[Sequence[str]]
    """Names of the nodes, in the order of the machines; there once all of them work."""

    def __init__(self, name: str, args: StaticWorkerPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        shape = check(f"StaticWorkerPool '{name}'", args, StaticWorkerPoolArgs, _Shape)
        super().__init__("hybrid-talos:index:StaticWorkerPool", name, {}, opts)

        base = pulumi.Output.secret(args["machine_config"])
        # Not a secret itself: whether one document is there. So previews still show what changes in the patches.
        by_document = pulumi.Output.unsecret(base.apply(has_hostname_document))
        client = pulumi.Output.secret(args["client_configuration"]).apply(config.provider_form)
        shared: list[pulumi.Input[str]] = []
        if "site" in args:
            shared.append(_site_patch(shape, by_document, base))
        if "location" in args:
            shared.append(pulumi.Output.from_input(args["location"]).apply(config.location_patch))

        of_worker = {
            worker.name: [
                # Typed inputs come after patches and win over them.
                *(pulumi.Output.secret(patch) for patch in (*shape.config_patches, *worker.config_patches)),
                *shared,
                _own_patch(by_document, worker, args["installer_image"], shape),
            ]
            for worker in shape.workers
        }
        by_name = {worker.name: worker for worker in shape.workers}
        life = Life(
            name=name,
            role="worker",
            parent=self,
            shared=shared_props(
                shape.upgrade,
                members=shape.members,
                client_configuration=client,
                kubernetes_server=shape.endpoints.kubernetes,
            ),
            machines=shape.machines,
            versions=Versions(shape.talos_version, shape.kubernetes_version or "", args["installer_image"]),
            parallelism=shape.upgrade.parallelism,
            teardown=not shape.graceful_removal,
        )

        def apply(worker: str, opts: pulumi.ResourceOptions) -> pulumi.Resource:
            return configuration_apply(
                f"{name}-{worker}-config", by_name[worker], client, base, of_worker[worker], opts
            )

        digests = {worker: configuration_digests(base, own) for worker, own in of_worker.items()}
        applied = life.configured(apply, digests, life.upgrades())
        healthy = life.health(digests, applied, nodes_ready=False)

        names = [worker.name for worker in shape.workers]
        # URNs are known in a preview, so this orders without hiding the names.
        self.node_names = pulumi.Output.all(healthy.urn, *(resource.urn for resource in applied)).apply(lambda _: names)
        self.register_outputs({"nodeNames": self.node_names})


def _site_patch(shape: _Shape, by_document: pulumi.Output[bool], base: pulumi.Output[str]) -> pulumi.Output[str]:
    # Names and ranges alone, so the patch is a secret only with a password in it.
    names = pulumi.Output.unsecret(base.apply(cluster_names))
    password = secret_or_none(shape.site.password)
    return pulumi.Output.all(documents=by_document, names=names, password=password).apply(
        lambda known: patches.render(
            shape.site.documents(
                documents=known["documents"],
                environment_document=has_environment_document(shape.config_contract or "1.12"),
                own=[*known["names"], *shape.own_names],
                password=known["password"],
            )
        )
    )


def _own_patch(
    by_document: pulumi.Output[bool], worker: MachineShape, installer_image: pulumi.Input[str], shape: _Shape
) -> pulumi.Output[str]:
    return pulumi.Output.all(by_document, installer_image).apply(
        lambda values: patches.render(
            patches.one_machine(
                worker,
                hostname_document=values[0],
                installer_image=values[1],
                # The base has no install section.
                generated_disk=False,
                node_subnets=[str(subnet) for subnet in shape.node_subnets],
            )
        )
    )
