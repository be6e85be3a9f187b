"""Talos workers on Azure that the Cluster Autoscaler grows and shrinks.

Creates a scale set with its own subnet, security group and way out. Deliberately creates no virtual network (pools
share one), no load balancer, no machine extension and no way in from the Internet but the mesh's port.
"""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_azure_native import compute
from pydantic import Field, field_validator, model_validator

from ._contract import BadInputs, Shape, check
from .arch import Arch
from .autoscaler_tags import azure_tag_problems, azure_tags, discovery_problems
from .azure_capacity import CapacityGuardArgs, capacity_guard
from .azure_cloud import AzureEnvironment
from .azure_machine import UNUSED_SSH_KEY, machine_profile
from .azure_network import MOST_PUBLIC_ADDRESSES, RESERVED_ADDRESSES, azure_network
from .azure_sizes import (
    AzureDiskType,
    EphemeralDisk,
    SystemDisk,
    is_arm_size,
    machine_problems,
    size_problems,
)
from .machine_stamp import PLACEHOLDER, stamp_of, stamped_config, stamped_tags, template_stamped
from .mesh_location import MeshLocation
from .node_group import NodeGroup
from .node_template import NodeTemplate, TaintArgs, node_template
from .pool_config import pool_config
from .pool_inputs import Cidr, PoolShape, SpotArgs, checked_diagnosis
from .talos_yaml import Document
from .user_data import AZURE, fit


class AzureWorkerPoolArgs(TypedDict):
    """Inputs of AzureWorkerPool."""

    resource_group_name: pulumi.Input[str]
    """Resource group of the scale set and its network. The autoscaler's rights are given on it, so it should hold
    nothing but pools."""
    location: str
    """Azure region, such as `westeurope`. The image must be there too."""
    virtual_network_name: NotRequired[pulumi.Input[str]]
    """Virtual network, in the same resource group, that the pool's subnet is made in. Required unless `subnet_id` names
    one."""
    subnet_cidr: str
    """IPv4 range of the pool's own subnet, inside the virtual network's. Azure keeps five of its addresses."""
    subnet_id: NotRequired[pulumi.Input[str]]
    """Subnet that exists and has the range `subnet_cidr`, by its Azure resource id, in the pool's region. Its way out
    to the Internet is then its owner's affair; the machines get the pool's security group themselves. Default: the
    pool makes its own."""
    vm_size: str
    """Size of the machines, such as `Standard_D2s_v3`. The autoscaler must know it to grow the pool from zero."""
    min_size: int
    """Fewest machines of the pool, 0 or more. Also how many there are at first."""
    max_size: int
    """Most machines of the pool: up to 600, and up to 16 with `public_ips`."""
    image_id: pulumi.Input[str]
    """Image that boots Talos, in this region; TalosImage gives one."""
    machine_config: pulumi.Input[str]
    """Talos worker configuration of the cluster. Treated as a secret."""
    talos_version: str
    """Talos version of the image, such as `1.14.0`."""
    mesh_location: NotRequired[pulumi.Input[MeshLocation]]
    """What the mesh asks of this location; NetworkMesh gives it. Default: no mesh."""
    public_ips: NotRequired[bool]
    """Whether each machine has a public address of its own, as a mesh over the Internet needs. Sixteen addresses are
    reserved and paid for. Default: false, all machines go out through one NAT gateway."""
    labels: NotRequired[Mapping[str, str]]
    """Labels of the nodes, besides the one that tells the pool from all others."""
    taints: NotRequired[Sequence[TaintArgs]]
    """Taints of the nodes, one effect for each key."""
    zones: NotRequired[Sequence[str]]
    """Availability zones, such as `["1", "2"]`; for other zones make another pool. Default: none, Azure decides."""
    spot: NotRequired[SpotArgs]
    """Use spot machines. Azure fixes this when the scale set is made. Default: regular machines."""
    arch: NotRequired[Arch]
    """Processor architecture of the image, checked against `vm_size`. Default: `amd64`."""
    os_disk_size_gb: NotRequired[int]
    """Size of the machines' disk in GiB, 16 to 4095, which the autoscaler takes for ephemeral storage. Default: 64;
    required with `ephemeral_os_disk`, where it must fit into that disk of the size."""
    os_disk_type: NotRequired[AzureDiskType]
    """Kind of the machines' disk; fixed when the scale set is made. Default: `StandardSSD_LRS`."""
    ephemeral_os_disk: NotRequired[EphemeralDisk]
    """Keep the machines' disk on their host: faster and free of charge, and gone with the machine. Default: a managed
    disk."""
    secure_boot: NotRequired[bool]
    """Whether the machines boot with Secure Boot and a virtual TPM (Trusted Launch): `image_id` must then be an image
    for it, of a TalosImage with `secure_boot`. Default: false."""
    accelerated_networking: NotRequired[bool]
    """Whether the machines' network bypasses the host. Default: false."""
    talos_api_allowed_cidrs: NotRequired[Sequence[str]]
    """IPv4 ranges outside that may reach the machines' Talos API (TCP 50000) for diagnosis, each a /8 or smaller.
    Default: none."""
    gateway: NotRequired[bool]
    """Whether the machines lead their location in a mesh with leaders: the others reach the whole location through
    them. Their number is fixed, `min_size` equal to `max_size`, best 2 or more, and no autoscaler is told of them.
    Default: false."""
    config_patches: NotRequired[Sequence[pulumi.Input[str]]]
    """Talos strategic-merge patches, as YAML, merged into the configuration last."""
    tags: NotRequired[Mapping[str, str]]
    """Tags of every resource of the pool."""
    discovery_tags: NotRequired[Mapping[str, str]]
    """Tags of the scale set alone, by which an autoscaler with the same `discovery_tags` finds it. Not for gateways.
    Default: none, the autoscaler knows it by its name."""
    capacity_guard: NotRequired[CapacityGuardArgs]
    """Where the live number of machines is asked for, right before an update of the scale set, which is refused when
    the state knows another. Default: the public cloud."""
    ssh_public_key: NotRequired[pulumi.Input[str]]
    """Public key, in `ssh-rsa` form, that Azure demands for Linux machines. Talos runs no SSH server and ignores it.
    Default: a fixed key whose private half nobody has."""


MOST_MACHINES = 600
"""Machines of a scale set with an image of one's own (learn.microsoft.com, "Considerations for large scale sets")."""
DISK_GB = 64
"""Default size of the machines' disk in GiB."""
LONGEST_NAME = 40
"""Leaves room for the longest suffix of a child and the eight characters of autonaming in Azure's 64."""


class _Guard(Shape):
    environment: AzureEnvironment = AzureEnvironment.PUBLIC
    resource_manager: str | None = Field(default=None, pattern=r"^https://\S+$")


class _Shape(PoolShape):
    location: str = Field(min_length=1)
    subnet_cidr: Cidr
    vm_size: str
    max_size: int = Field(ge=1, le=MOST_MACHINES)
    zones: tuple[str, ...] = ()
    arch: Arch = Arch.AMD64
    os_disk_size_gb: int | None = Field(default=None, ge=16, le=4095)
    os_disk_type: AzureDiskType = AzureDiskType.STANDARD_SSD
    ephemeral_os_disk: EphemeralDisk | None = None
    secure_boot: bool = False
    accelerated_networking: bool = False
    capacity_guard: _Guard = _Guard()
    discovery_tags: Mapping[str, str] = Field(default_factory=dict)
    talos_api_allowed_cidrs: tuple[Cidr, ...] = ()

    @property
    def disk(self) -> SystemDisk:
        """The machines' disk."""
        return SystemDisk(self.os_disk_size_gb or DISK_GB, self.os_disk_type, self.ephemeral_os_disk)

    @field_validator("talos_api_allowed_cidrs")
    @classmethod
    def _not_everybody(cls, ranges: tuple[IPv4Network, ...]) -> tuple[IPv4Network, ...]:
        return checked_diagnosis(ranges)

    @field_validator("location")
    @classmethod
    def _one_form(cls, location: str) -> str:
        form = location.replace(" ", "").lower()
        if not re.fullmatch(r"[a-z][a-z0-9]*", form, re.ASCII):
            raise ValueError("must be the name of an Azure region, such as westeurope")
        return form

    @field_validator("vm_size")
    @classmethod
    def _size_name(cls, vm_size: str) -> str:
        if not re.fullmatch(r"(?:Standard|Basic)_[A-Z][A-Za-z0-9_-]*", vm_size, re.ASCII):
            raise ValueError("must be the name of a machine size, such as Standard_D2s_v3")
        return vm_size

    @field_validator("zones")
    @classmethod
    def _zone_numbers(cls, zones: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(zones)) < len(zones) or set(zones) - {"1", "2", "3"}:
            raise ValueError('must be different zones out of "1", "2" and "3"')
        return zones

    @model_validator(mode="after")
    def _found_by_an_autoscaler(self) -> "_Shape":
        problems = discovery_problems(self.discovery_tags) if self.discovery_tags else []
        if self.discovery_tags and self.gateway:
            problems.append("are not for gateways, whose number is fixed: remove them")
        if self.discovery_tags.keys() & self.tags.keys():
            problems.append("name a tag that stands in tags too: remove it there")
        if problems:
            raise ValueError("discovery_tags: " + "; ".join(problems))
        return self

    @field_validator("tags")
    @classmethod
    def _tags_that_azure_takes(cls, tags: Mapping[str, str]) -> Mapping[str, str]:
        problems = [problem.removeprefix("tags: ") for problem in azure_tag_problems(tags)]
        if problems:
            raise ValueError("; ".join(problems))
        return tags

    @model_validator(mode="after")
    def _fits_together(self) -> "_Shape":
        problems = size_problems(self.vm_size, self.min_size)
        if is_arm_size(self.vm_size) != (self.arch is Arch.ARM64):
            problems.append(f"vm_size {self.vm_size} cannot boot an image for {self.arch.value}, which arch says")
        problems += machine_problems(self.vm_size, self.disk, self.accelerated_networking)
        if self.ephemeral_os_disk is not None and self.os_disk_size_gb is None:
            problems.append(
                "os_disk_size_gb is required with ephemeral_os_disk: each size has another room for it "
                '(learn.microsoft.com, "Ephemeral OS disks for Azure VMs")'
            )
        if self.spot is not None and re.match(r"Standard_B\d", self.vm_size):
            # learn.microsoft.com, "Use Azure Spot Virtual Machines", limitations.
            problems.append(f"vm_size {self.vm_size} is of the B series, which Azure has no spot machines of")
        room = self.subnet_cidr.num_addresses - RESERVED_ADDRESSES
        if self.max_size > room:
            problems.append(
                f"max_size is {self.max_size}, and subnet_cidr {self.subnet_cidr} has room for {max(room, 0)}"
            )
        if self.public_ips and self.max_size > MOST_PUBLIC_ADDRESSES:
            problems.append(
                f"max_size is {self.max_size}, and with public_ips a pool can have {MOST_PUBLIC_ADDRESSES} machines, "
                "since an Azure public IP prefix holds no more: use several pools"
            )
        if problems:
            raise ValueError("; ".join(problems))
        return self


class AzureWorkerPool(pulumi.ComponentResource):
    """A scale set of Talos workers on Azure.

    The number of machines belongs to the autoscaler: later updates leave it alone, provided that they start from a
    refreshed state, since Azure takes the whole scale set with every update. A changed image or configuration reaches
    new machines only; existing ones keep theirs until they are replaced.
    """

    scale_set_name: pulumi.Output[str]
    """Name of the scale set, as the autoscaler addresses it."""
    scale_set_id: pulumi.Output[str]
    """Azure resource id of the scale set."""
    node_group: pulumi.Output[NodeGroup]
    """What ClusterAutoscaler takes to grow and shrink the pool."""
    template_hash: pulumi.Output[str]
    """Hash of what new machines are made of, the value of their label `hybrid-talos.dev/template`; a node with another
    one is stale."""

    def __init__(self, name: str, args: AzureWorkerPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        owner = f"AzureWorkerPool '{name}'"
        shape = check(owner, args, AzureWorkerPoolArgs, _Shape)
        template, tags, tags_stamped = _template(owner, name, shape)
        super().__init__("hybrid-talos:index:AzureWorkerPool", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        mesh = args.get("mesh_location")
        if shape.gateway and mesh is None:
            raise BadInputs(f"{owner}: mesh_location is required with gateway: without a mesh there is nothing to lead")
        subnet_id, virtual_network_name = args.get("subnet_id"), args.get("virtual_network_name")
        if (subnet_id is None) == (virtual_network_name is None):
            raise BadInputs(f"{owner}: one of virtual_network_name and subnet_id is required, and not both")

        net = azure_network(
            owner,
            name,
            resource_group_name=args["resource_group_name"],
            location=shape.location,
            virtual_network_name=virtual_network_name,
            subnet_cidr=str(shape.subnet_cidr),
            subnet_id=subnet_id,
            mesh=mesh,
            talos_api_allowed_cidrs=[str(found) for found in shape.talos_api_allowed_cidrs],
            public_ips=shape.public_ips,
            zonal=bool(shape.zones),
            tags=shape.tags,
            child=child,
        )

        def documents(values: dict[str, Any]) -> list[Document]:
            found = pool_config(
                owner,
                values["base"],
                template,
                subnets=[str(shape.subnet_cidr)],
                talos_version=shape.talos_version,
                mesh_patch=values["mesh"]["config_patch"] if values["mesh"] else "",
                gateway=shape.gateway,
                patches=values["patches"],
            )
            # Here as well, since the image of a first preview is not known.
            fit(owner, stamped_config(found, PLACEHOLDER), AZURE)
            return found

        def custom_data(values: dict[str, Any]) -> tuple[str, str]:
            stamp = stamp_of(values["documents"], values["image"], _machine(shape))
            return fit(owner, stamped_config(values["documents"], stamp), AZURE).encoded, stamp

        config: pulumi.Output[list[Document]] = pulumi.Output.all(
            base=args["machine_config"], mesh=mesh, patches=list(args.get("config_patches", []))
        ).apply(documents)
        made: pulumi.Output[tuple[str, str]] = pulumi.Output.all(documents=config, image=args["image_id"]).apply(
            custom_data
        )
        # It is made of secrets, and tells nothing of them.
        self.template_hash = pulumi.Output.unsecret(made.apply(lambda both: both[1]))

        self.scale_set = compute.VirtualMachineScaleSet(
            f"{name}-scale-set",
            resource_group_name=args["resource_group_name"],
            location=shape.location,
            # Said outright: the autoscaler's code fails on a set that does not say.
            orchestration_mode="Uniform",
            # Surplus machines would join the cluster and then vanish.
            overprovision=False,
            # True would end at 100 machines, and cannot come back once it was false.
            single_placement_group=False,
            # Talos machines are replaced, never upgraded in place.
            upgrade_policy=compute.UpgradePolicyArgs(mode=compute.UpgradeMode.MANUAL),
            sku=compute.SkuArgs(name=shape.vm_size, tier="Standard", capacity=float(shape.min_size)),
            zones=list(shape.zones) or None,
            tags=stamped_tags(tags, tags_stamped, self.template_hash),
            virtual_machine_profile=machine_profile(
                name,
                image_id=args["image_id"],
                custom_data=pulumi.Output.secret(made.apply(lambda both: both[0])),
                ssh_public_key=args.get("ssh_public_key", UNUSED_SSH_KEY),
                disk=shape.disk,
                spot=shape.spot,
                subnet_id=net.subnet_id,
                security_group_id=net.security_group_id,
                public_ip_prefix_id=net.public_ip_prefix_id,
                accelerated_networking=shape.accelerated_networking,
                secure_boot=shape.secure_boot,
            ),
            opts=pulumi.ResourceOptions.merge(
                child,
                pulumi.ResourceOptions(
                    # The Cluster Autoscaler owns the number of machines; the rest of the sku is ours. That of gateways
                    # is fixed.
                    ignore_changes=[] if shape.gateway else ["sku.capacity"],
                    # Ignoring means sending what the state knows, which may be old where nobody refreshes.
                    hooks=None
                    if shape.gateway
                    else pulumi.ResourceHookBinding(before_update=[capacity_guard(args.get("capacity_guard", {}))]),
                    # The provider copies the configuration from the inputs into the state without marking it.
                    additional_secret_outputs=["virtual_machine_profile"],
                ),
            ),
        )

        self.scale_set_name = self.scale_set.name
        self.scale_set_id = self.scale_set.id
        self.node_group = self.scale_set.name.apply(
            lambda real_name: NodeGroup(
                cloud="azure",
                name=real_name,
                min_size=shape.min_size,
                max_size=shape.max_size,
                labels=template.all_labels,
                taints=template.taint_texts,
            )
        )
        self.register_outputs(
            {
                "scaleSetName": self.scale_set_name,
                "scaleSetId": self.scale_set_id,
                "nodeGroup": self.node_group,
                "templateHash": self.template_hash,
            }
        )


def _machine(shape: _Shape) -> dict[str, Any]:
    """Return what of a machine, besides image and configuration, only a new one can have, or one that restarts."""
    disk = shape.disk
    return {
        "size": shape.vm_size,
        "disk": [disk.size_gb, disk.kind.value, disk.ephemeral.value if disk.ephemeral is not None else None],
        "accelerated": shape.accelerated_networking,
        "public": shape.public_ips,
        # Left out rather than false: machines that have none of it are what they were.
        **({"secure_boot": True} if shape.secure_boot else {}),
    }


def _template(owner: str, name: str, shape: _Shape) -> tuple[NodeTemplate, dict[str, str], dict[str, str]]:
    """Return the pool's node template and the scale set's tags, without and with a place for the hash of its machines.

    BadInputs when they cannot be.
    """
    problems: list[str] = []
    if len(name) > LONGEST_NAME:
        problems.append(
            f"the pool's name has {len(name)} characters, and {LONGEST_NAME} fit into the names of its resources"
        )
    # As Talos and the autoscaler name the zones of Azure.
    zone = f"{shape.location}-{shape.zones[0]}" if len(shape.zones) == 1 else None
    try:
        template = node_template("azure", name, shape.labels, shape.checked_taints, zone)
        bounds = (shape.min_size, shape.max_size)
        own = {**shape.tags, **shape.discovery_tags}
        tags = azure_tags(template, *bounds, own)
        tags_stamped = azure_tags(template_stamped(template), *bounds, own)
    except ValueError as error:
        problems.append(str(error))
    if problems:
        raise BadInputs(f"{owner}: " + "; ".join(problems))
    return template, tags, tags_stamped
