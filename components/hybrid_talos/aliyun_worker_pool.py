"""Talos workers on Alibaba Cloud that the Cluster Autoscaler grows and shrinks.

Creates a scaling group with its configuration, a vSwitch in each zone, a security group and a way out. Deliberately
creates no VPC (pools share one), no load balancer, no launch template (the autoscaler cannot read one) and no lifecycle
hook, which would hold machines back with nobody to let them go.
"""

import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Annotated, Any, NotRequired, TypedDict

import pulumi
from pulumi_alicloud import ess
from pydantic import Field, field_validator, model_validator

from ._contract import BadInputs, check
from .aliyun_disk import SYSTEM_DISK_GB, AliyunDiskCategory, AliyunZonePolicy
from .aliyun_instance_types import instance_type_problems
from .aliyun_machine import instance_types, public_address, spot_settings
from .aliyun_network import MOST_RANGES, RESERVED_ADDRESSES, aliyun_network
from .autoscaler_tags import alibaba_tag_problems, alibaba_template_tags
from .machine_stamp import PLACEHOLDER, stamp_of, stamped_config, stamped_tags, template_stamped
from .mesh_location import MeshLocation
from .node_group import NodeGroup
from .node_template import NodeTemplate, TaintArgs, node_template
from .pool_config import pool_config
from .pool_inputs import Cidr, PoolShape, SpotArgs, checked_diagnosis
from .talos_yaml import Document
from .user_data import ALIBABA, fit
from .versions import FIRST_TALOS_WITH_ALIBABA, supports_alibaba

GROUP_NAME = 36
"""Characters of the pool's name in the name of its scaling group, which may have 64 with the network's id."""
DISK_GB = 64
"""Default size of the machines' system disk in GiB."""


class AliyunWorkerPoolArgs(TypedDict):
    """Inputs of AliyunWorkerPool."""

    region: str
    """Region, such as `cn-hangzhou`: that of the provider, the image and every zone."""
    vpc_id: pulumi.Input[str]
    """VPC that the pool's vSwitches are made in."""
    zones: Mapping[str, str]
    """Zones of the region, each with the IPv4 range of its vSwitch. Several are safer: one may run out of stock."""
    vswitch_ids: NotRequired[Mapping[str, pulumi.Input[str]]]
    """vSwitches that exist, one for each of `zones` and with the range given there. Their way out to the Internet is
    then their owner's affair. Default: the pool makes its own."""
    zone_policy: NotRequired[AliyunZonePolicy]
    """How the pool spreads over its zones; a change replaces the group with all its machines. Default: `BALANCE`."""
    instance_types: Sequence[str]
    """ECS instance types, most wanted first, at most 10. All have the same CPUs and memory: the autoscaler plans with
    the first one."""
    min_size: int
    """Fewest machines of the pool, 0 to 2000."""
    max_size: int
    """Most machines of the pool, 1 to 2000."""
    image_id: pulumi.Input[str]
    """Custom image that boots Talos, in this region; TalosImage gives one."""
    machine_config: pulumi.Input[str]
    """Talos worker configuration of the cluster. Treated as a secret."""
    talos_version: str
    """Talos version of the image, 1.14 or later: earlier ones do not know Alibaba Cloud."""
    experimental_metal: NotRequired[bool]
    """True for an image that was made with `aliyun.experimental_metal`, which also earlier versions have. Its machines
    tell no provider id. Default false."""
    vpc_cidr: NotRequired[pulumi.Input[str]]
    """IPv4 range of the VPC, whose machines may then reach the Talos API, the kubelet and the CNI here. Needed as soon
    as pools share a VPC. Default: the ranges of `zones` only."""
    mesh_location: NotRequired[pulumi.Input[MeshLocation]]
    """What the mesh asks of this location; NetworkMesh gives it. Default: no mesh."""
    public_ips: NotRequired[bool]
    """Whether each machine has a public address of its own, as a mesh over the Internet needs. Default: false, all
    machines go out through one NAT gateway."""
    labels: NotRequired[Mapping[str, str]]
    """Labels of the nodes, besides the one that tells the pool from all others; keys of at most 64 characters."""
    taints: NotRequired[Sequence[TaintArgs]]
    """Taints of the nodes; only with `min_size` of at least 1."""
    spot: NotRequired[SpotArgs]
    """Use preemptible machines. Default: pay-as-you-go machines."""
    system_disk_category: NotRequired[AliyunDiskCategory]
    """Kind of the system disk, one that the instance types take. Default: `cloud_essd`."""
    system_disk_size_gb: NotRequired[int]
    """Size of the system disk in GiB, 20 to 500. Default: 64."""
    data_disk_sizes_gb: NotRequired[Sequence[int]]
    """Sizes in GiB, 20 to 32768, of further disks of the same kind, up to 16, that go with their machine. Talos uses
    them through a UserVolumeConfig among `config_patches`. Default: none."""
    role_name: NotRequired[str]
    """RAM role of the machines. Every pod on them can use it, through the metadata service. Default: none."""
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
    """Tags of the pool's group and network. Not of its machines: the autoscaler reads their tags as node labels."""


MOST_MACHINES = 2000
"""Machines of a scaling group (aliyun/terraform-provider-alicloud `resource_alicloud_ess_scaling_group.go`)."""
LONGEST_NAME = 40
"""Leaves room for the longest suffix of a child in the 128 characters of most names, and keeps names readable."""


class _Shape(PoolShape):
    region: str
    experimental_metal: bool = False
    zones: Mapping[str, Cidr] = Field(min_length=1)
    instance_types: tuple[str, ...] = Field(min_length=1, max_length=10)
    max_size: int = Field(ge=1, le=MOST_MACHINES)
    system_disk_category: AliyunDiskCategory = AliyunDiskCategory.CLOUD_ESSD
    system_disk_size_gb: int = Field(default=DISK_GB, ge=SYSTEM_DISK_GB[0], le=SYSTEM_DISK_GB[1])
    data_disk_sizes_gb: tuple[Annotated[int, Field(ge=20, le=32768)], ...] = Field(default=(), max_length=16)
    zone_policy: AliyunZonePolicy = AliyunZonePolicy.BALANCE
    # RAM role names: letters, digits, hyphens (alibabacloud.com, CreateRole).
    role_name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]{1,64}$")
    talos_api_allowed_cidrs: tuple[Cidr, ...] = Field(default=(), max_length=MOST_RANGES)

    @field_validator("talos_api_allowed_cidrs")
    @classmethod
    def _not_everybody(cls, ranges: tuple[IPv4Network, ...]) -> tuple[IPv4Network, ...]:
        return checked_diagnosis(ranges)

    @field_validator("region")
    @classmethod
    def _region_name(cls, region: str) -> str:
        if not re.fullmatch(r"[a-z]{2}-[a-z]+(?:-[a-z0-9]+)*", region, re.ASCII):
            raise ValueError("must be the id of a region, such as cn-hangzhou")
        return region

    @model_validator(mode="after")
    def _knows_the_platform(self) -> "_Shape":
        if not self.experimental_metal and not supports_alibaba(self.talos_version):
            raise ValueError(
                f"talos_version: Talos {self.talos_version} does not know Alibaba Cloud: {FIRST_TALOS_WITH_ALIBABA} is "
                "the first that does"
            )
        return self

    @field_validator("instance_types")
    @classmethod
    def _types_of_one_shape(cls, types: tuple[str, ...]) -> tuple[str, ...]:
        problems = instance_type_problems(types)
        if problems:
            raise ValueError("; ".join(problems))
        return types

    @field_validator("tags")
    @classmethod
    def _tags_that_alibaba_takes(cls, tags: Mapping[str, str]) -> Mapping[str, str]:
        problems = [problem.removeprefix("tags: ") for problem in alibaba_tag_problems(tags)]
        if problems:
            raise ValueError("; ".join(problems))
        return tags

    @model_validator(mode="after")
    def _fits_together(self) -> "_Shape":
        problems = [
            f"zones: {zone} is not in region {self.region}"
            for zone in self.zones
            # A zone is its region and a letter: cn-hangzhou-h, but ap-southeast-1a (Alibaba Cloud, Regions and zones).
            if not re.fullmatch(rf"{re.escape(self.region)}-?[a-z]", zone)
        ]
        ranges = list(self.zones.items())
        problems += [
            f"zones: the ranges of {zone} and {other} overlap"
            for place, (zone, cidr) in enumerate(ranges)
            for other, other_cidr in ranges[place + 1 :]
            if cidr.overlaps(other_cidr)
        ]
        problems += [
            f"zones: the range of {zone} must have 16 to 29 bits"
            for zone, cidr in ranges
            if not 16 <= cidr.prefixlen <= 29
        ]
        # The NAT gateway takes an address too.
        room = sum(cidr.num_addresses - RESERVED_ADDRESSES for _, cidr in ranges) - (not self.public_ips)
        if self.max_size > room:
            problems.append(f"max_size is {self.max_size}, and the ranges of zones have room for {max(room, 0)}")
        if problems:
            raise ValueError("; ".join(problems))
        return self


class AliyunWorkerPool(pulumi.ComponentResource):
    """A scaling group of Talos workers on Alibaba Cloud.

    The number of machines belongs to the autoscaler: later updates leave it alone. A changed image or configuration
    reaches new machines only; existing ones keep theirs until they are replaced.
    """

    scaling_group_id: pulumi.Output[str]
    """Id of the scaling group, as the autoscaler addresses it."""
    node_group: pulumi.Output[NodeGroup]
    """What ClusterAutoscaler takes to grow and shrink the pool."""
    template_hash: pulumi.Output[str]
    """Hash of what new machines are made of, the value of their label `hybrid-talos.dev/template`; a node with another
    one is stale."""

    def __init__(self, name: str, args: AliyunWorkerPoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        owner = f"AliyunWorkerPool '{name}'"
        shape = check(owner, args, AliyunWorkerPoolArgs, _Shape)
        template, tags, tags_stamped = _template(owner, name, shape)
        super().__init__("hybrid-talos:index:AliyunWorkerPool", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        mesh = args.get("mesh_location")
        if shape.gateway and mesh is None:
            raise BadInputs(f"{owner}: mesh_location is required with gateway: without a mesh there is nothing to lead")
        ranges = {zone: str(cidr) for zone, cidr in shape.zones.items()}
        given = args.get("vswitch_ids")
        if given is not None and set(given) != set(ranges):
            raise BadInputs(f"{owner}: vswitch_ids must name the zones that zones names: {', '.join(sorted(ranges))}")
        if len(ranges) == 1:
            pulumi.log.warn(f"{owner}: has one zone, and cannot grow while that is out of stock", self)

        net = aliyun_network(
            owner,
            name,
            vpc_id=args["vpc_id"],
            vpc_cidr=args.get("vpc_cidr"),
            zones=ranges,
            vswitch_ids=given,
            mesh=mesh,
            talos_api_allowed_cidrs=[str(found) for found in shape.talos_api_allowed_cidrs],
            public_ips=shape.public_ips,
            tags=shape.tags,
            child=child,
        )
        self.scaling_group = ess.ScalingGroup(
            f"{name}-group",
            # Names are unique in a region, so a group that was made by an update whose answer was lost is never made
            # twice. The network's id tells the groups of two clusters apart.
            scaling_group_name=pulumi.Output.concat(name[:GROUP_NAME], "-", args["vpc_id"]),
            # The autoscaler does not read these two: they are a limit of the cloud's own.
            min_size=shape.min_size,
            max_size=shape.max_size,
            vswitch_ids=net.vswitch_ids,
            # From the start, also with one zone: another policy later would replace the group.
            multi_az_policy=shape.zone_policy.value,
            # A machine that is only stopped would come back with the state of an old Node.
            scaling_policy="release",
            health_check_type="ECS",
            tags=shape.tags,
            opts=pulumi.ResourceOptions.merge(
                child,
                # The Cluster Autoscaler owns the number of machines. It is never set here, and what a refresh finds
                # must not be planned away.
                pulumi.ResourceOptions(
                    ignore_changes=["desired_capacity"],
                    # Two groups of one name cannot exist at once.
                    delete_before_replace=True,
                ),
            ),
        )

        def documents(values: dict[str, Any]) -> list[Document]:
            found = pool_config(
                owner,
                values["base"],
                template,
                subnets=list(ranges.values()),
                talos_version=shape.talos_version,
                mesh_patch=values["mesh"]["config_patch"] if values["mesh"] else "",
                gateway=shape.gateway,
                patches=values["patches"],
            )
            # Here as well, since the image of a first preview is not known.
            fitted = fit(owner, stamped_config(found, PLACEHOLDER), ALIBABA)
            if fitted.tight:
                # Only here is the size known.
                pulumi.log.warn(
                    f"{owner}: user data has {fitted.size:,} bytes, above the {ALIBABA.comfortable:,} that older "
                    "editions of Alibaba Cloud's documentation allow",
                    self,
                )
            return found

        def user_data(values: dict[str, Any]) -> tuple[str, str]:
            machine = {**_machine(shape), "group": values["group"]}
            stamp = stamp_of(values["documents"], values["image"], machine)
            return fit(owner, stamped_config(values["documents"], stamp), ALIBABA).encoded, stamp

        config: pulumi.Output[list[Document]] = pulumi.Output.all(
            base=args["machine_config"], mesh=mesh, patches=list(args.get("config_patches", []))
        ).apply(documents)
        made: pulumi.Output[tuple[str, str]] = pulumi.Output.all(
            documents=config, image=args["image_id"], group=net.security_group_id
        ).apply(user_data)
        # It is made of secrets, and tells nothing of them.
        self.template_hash = pulumi.Output.unsecret(made.apply(lambda both: both[1]))
        secret: pulumi.Output[str] = pulumi.Output.secret(made.apply(lambda both: both[0]))
        ess.ScalingConfiguration(
            f"{name}-machine",
            scaling_group_id=self.scaling_group.id,
            # The autoscaler reads the active configuration only.
            active=True,
            enable=True,
            # The last configuration of a group cannot be deleted otherwise.
            force_delete=True,
            image_id=args["image_id"],
            **instance_types(shape.instance_types),
            **spot_settings(shape.spot, shape.instance_types),
            **public_address(shape.public_ips),
            security_group_id=net.security_group_id,
            # The hardening agent expects an ordinary distribution.
            security_enhancement_strategy="Deactive",
            system_disk_category=shape.system_disk_category.value,
            system_disk_size=shape.system_disk_size_gb,
            data_disks=[
                ess.ScalingConfigurationDataDiskArgs(category=shape.system_disk_category.value, size=size)
                for size in shape.data_disk_sizes_gb
            ]
            or None,
            role_name=shape.role_name,
            # Already base64: the provider encodes only what is not, and a plain text may happen to look encoded.
            user_data=secret,
            # Talos reads its configuration and its instance id there.
            http_endpoint="enabled",
            # Every one of them is a label in the autoscaler's template, hence none of the user's tags.
            tags=stamped_tags(tags, tags_stamped, self.template_hash),
            opts=pulumi.ResourceOptions.merge(
                child,
                pulumi.ResourceOptions(
                    # The provider does not mark it, and it comes back from the cloud.
                    additional_secret_outputs=["user_data"],
                    # It starts the group: a machine that boots before it can get out, or be reached, never joins.
                    depends_on=net.ready,
                ),
            ),
        )

        self.scaling_group_id = self.scaling_group.id
        self.node_group = self.scaling_group.id.apply(
            lambda group_id: NodeGroup(
                cloud="aliyun",
                name=group_id,
                min_size=shape.min_size,
                max_size=shape.max_size,
                labels=template.all_labels,
                taints=template.taint_texts,
            )
        )
        self.register_outputs(
            {
                "scalingGroupId": self.scaling_group_id,
                "nodeGroup": self.node_group,
                "templateHash": self.template_hash,
            }
        )


def _machine(shape: _Shape) -> dict[str, Any]:
    """Return what of a machine, besides image and configuration, only a new one can have."""
    return {
        "types": list(shape.instance_types),
        "disk": [shape.system_disk_category.value, shape.system_disk_size_gb],
        "data": list(shape.data_disk_sizes_gb),
        "public": shape.public_ips,
        "role": shape.role_name,
    }


def _template(owner: str, name: str, shape: _Shape) -> tuple[NodeTemplate, dict[str, str], dict[str, str]]:
    """Return the pool's node template and the configuration's tags, without and with a place for the machines' hash.

    BadInputs when they cannot be.
    """
    problems: list[str] = []
    if len(name) > LONGEST_NAME:
        problems.append(
            f"the pool's name has {len(name)} characters, and {LONGEST_NAME} fit into the names of its resources"
        )
    # Talos and the cloud controller take the zone's id as it is; the autoscaler's template has no zone of its own.
    zone = next(iter(shape.zones)) if len(shape.zones) == 1 else None
    try:
        template = node_template("aliyun", name, shape.labels, shape.checked_taints, zone)
        tags = alibaba_template_tags(template, shape.min_size)
        tags_stamped = alibaba_template_tags(template_stamped(template), shape.min_size)
    except ValueError as error:
        problems.append(str(error))
    if problems:
        raise BadInputs(f"{owner}: " + "; ".join(problems))
    return template, tags, tags_stamped
