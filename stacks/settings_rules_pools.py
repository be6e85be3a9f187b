"""Rules about the pools: names, sizes, subnets, zones, machine types, labels and taints."""

import re
from collections.abc import Iterable, Iterator

from hybrid_talos.address_plan import ALIYUN_RESERVED, AZURE_RESERVED, room
from hybrid_talos.aliyun_instance_types import instance_type_problems
from hybrid_talos.arch import Arch
from hybrid_talos.autoscaler_tags import alibaba_tag_problems, azure_tags
from hybrid_talos.azure_cloud import AzureEnvironment
from hybrid_talos.azure_sizes import SystemDisk, is_arm_size, machine_problems, size_problems
from hybrid_talos.machine_stamp import template_stamped
from hybrid_talos.node_template import Taint as NodeTaint
from hybrid_talos.node_template import node_template
from hybrid_talos.pool_inputs import WIDEST_DIAGNOSIS

from .settings_aliyun import AliyunPool, AliyunSettings
from .settings_autoscaler import discovery_tags
from .settings_azure import AzurePool, AzureSettings
from .settings_base import part
from .settings_errors import Problem
from .settings_labels import Taint
from .settings_reach import public_ips
from .settings_tree import Tree

AZURE_MOST = 600
"""Most machines of a scale set with an image of one's own (learn.microsoft.com, "Working with large scale sets")."""

AZURE_MOST_PUBLIC = 16
"""Addresses of Azure's biggest public IP prefix (learn.microsoft.com, "Public IP address prefix")."""

ALIYUN_MOST = 2000
"""Most machines of a scaling group (pulumi-alicloud `ess.ScalingGroup`)."""


def rules(tree: Tree) -> Iterator[Iterable[Problem]]:
    """Return the rules, each to be asked on its own."""
    if tree.azure is not None:
        yield _azure_region(tree.azure)
        pools = part(tree.azure, lambda a: a.pools) or ()
        yield _azure_subnets(tree.azure)
        yield _names("azure", [part(pool, lambda p: p.name) for pool in pools])
        for index, pool in enumerate(pools):
            path = f"azure.pools[{index}]"
            yield _sizes(path, pool, AZURE_MOST, "a scale set with an image of its own")
            yield _azure_subnet(path, pool)
            yield _azure_public(path, tree, tree.azure, pool)
            yield _azure_zones(path, pool)
            yield _azure_size(path, pool)
            yield _azure_arch(path, tree, pool)
            yield _azure_machine(path, pool)
            yield _diagnosis(path, pool)
            yield _twice(path, part(pool, lambda p: p.taints) or ())
            yield _azure_tags(path, tree, tree.azure, pool)
    if tree.aliyun is not None:
        groups = part(tree.aliyun, lambda a: a.pools) or ()
        yield _names("aliyun", [part(group, lambda p: p.name) for group in groups])
        yield _aliyun_arch(tree)
        yield _aliyun_vpcs(tree.aliyun)
        for index, group in enumerate(groups):
            path = f"aliyun.pools[{index}]"
            yield _sizes(path, group, ALIYUN_MOST, "a scaling group")
            yield _aliyun_room(path, group)
            yield _aliyun_vswitches(path, group)
            yield _aliyun_zones(path, tree.aliyun, group)
            yield _aliyun_types(path, group)
            yield _aliyun_switches(path, group)
            yield _diagnosis(path, group)
            yield _twice(path, part(group, lambda p: p.taints) or ())
            yield _aliyun_taints(path, group)
            yield _aliyun_tags(path, tree.aliyun, group)


def _names(cloud: str, names: list[str | None]) -> Iterator[Problem]:
    first: dict[str, int] = {}
    for index, name in enumerate(names):
        if name is not None and first.setdefault(name, index) != index:
            yield Problem(
                f"{cloud}.pools[{index}].name",
                f"{name} is the name of two pools; the other is {cloud}.pools[{first[name]}]",
            )


def _sizes(path: str, pool: AzurePool | AliyunPool, most: int, what: str) -> Iterator[Problem]:
    if pool.min_size > pool.max_size:
        yield Problem(
            f"{path}.minSize", f"{pool.min_size} is above maxSize, {pool.max_size}: swap them or raise maxSize"
        )
    if pool.max_size > most:
        yield Problem(f"{path}.maxSize", f"{pool.max_size} is more than {most}, the most that {what} can have")


def _twice(path: str, taints: tuple[Taint, ...]) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        pair = (taint.key, taint.effect)
        if pair in seen:
            yield Problem(f"{path}.taints[{index}]", f"{taint.key} stands here twice with the effect {taint.effect}")
        seen.add(pair)


def _taints(pool: AzurePool | AliyunPool) -> list[NodeTaint]:
    """Return the taints as the library has them; one that stands twice is the business of another rule."""
    found = {(taint.key, taint.effect): NodeTaint(taint.key, taint.value, taint.effect.value) for taint in pool.taints}
    return list(found.values())


_SNAKE = re.compile("_([a-z])")


def _camel(error: str) -> str:
    """Return a message of the library with the settings' own names of keys."""
    return re.sub(r"\b[a-z]+(?:_[a-z]+)+\b", lambda word: _SNAKE.sub(lambda at: at[1].upper(), word[0]), error)


def _diagnosis(path: str, pool: AzurePool | AliyunPool) -> Iterator[Problem]:
    for index, cidr in enumerate(pool.talos_api_allowed_cidrs):
        if cidr.prefixlen < WIDEST_DIAGNOSIS:
            yield Problem(
                f"{path}.talosApiAllowedCidrs[{index}]",
                f"{cidr} is too wide: the Talos API is never open to the whole Internet; expected a prefix of "
                f"/{WIDEST_DIAGNOSIS} or longer",
            )


# Azure


def _azure_region(section: AzureSettings) -> Iterator[Problem]:
    regions = [("azure.location", part(section, lambda s: s.location))]
    regions += [
        (f"azure.pools[{index}].location", part(pool, lambda p: p.location))
        for index, pool in enumerate(part(section, lambda s: s.pools) or ())
    ]
    for path, region in regions:
        if region is None:
            continue
        if region.startswith("china"):
            home = AzureEnvironment.CHINA
        elif region.startswith(("usgov", "usdod")):
            home = AzureEnvironment.US_GOVERNMENT
        else:
            home = AzureEnvironment.PUBLIC
        if home is not section.environment:
            yield Problem(
                path,
                f"{region} is a region of the environment {home}, not {section.environment}: see azure.environment",
            )


def _azure_subnet(path: str, pool: AzurePool) -> Iterator[Problem]:
    subnet = pool.subnet_cidr
    fits = room([subnet], AZURE_RESERVED)
    if subnet.prefixlen > 29:
        yield Problem(f"{path}.subnetCidr", f"{subnet} is too small for Azure: a subnet is a /29 or larger")
    elif fits < pool.max_size:
        yield Problem(
            f"{path}.subnetCidr",
            f"{subnet} has room for {fits} machines (Azure keeps {AZURE_RESERVED} addresses), but maxSize is "
            f"{pool.max_size}: use a larger range or a smaller maxSize",
        )


def _azure_public(path: str, tree: Tree, section: AzureSettings, pool: AzurePool) -> Iterator[Problem]:
    if pool.max_size > AZURE_MOST_PUBLIC and public_ips(tree.mesh, section, pool):
        why = "publicIps is true" if pool.public_ips else "no gateway pool serves its network"
        yield Problem(
            f"{path}.maxSize",
            f"{pool.max_size} is more than {AZURE_MOST_PUBLIC}, the most with public addresses in one pool, and "
            f"{why}: use several pools, add a gateway pool, or set publicIps to false where nobody has to call them",
        )


def _azure_subnets(section: AzureSettings) -> Iterator[Problem]:
    """Pools of one network are all in subnets of the stack's own network, or all in subnets that exist."""
    pools = {pool.name: pool for pool in section.pools}
    for net in section.networks():
        given = [name for name in net.pools if pools[name].subnet_id is not None]
        if given and len(given) < len(net.pools):
            yield Problem(
                "azure.pools",
                f"{', '.join(given)} name a subnetId and others of the network {net.cidr} do not: give it to all of "
                "them, or another vnetCidr",
            )


def _azure_zones(path: str, pool: AzurePool) -> Iterator[Problem]:
    if len(set(pool.zones)) < len(pool.zones):
        yield Problem(f"{path}.zones", "names a zone twice: each once")


def _azure_size(path: str, pool: AzurePool) -> Iterator[Problem]:
    for problem in size_problems(pool.vm_size, pool.min_size):
        yield Problem(f"{path}.vmSize", _camel(problem.removeprefix("vm_size ")))


def _azure_machine(path: str, pool: AzurePool) -> Iterator[Problem]:
    size = pool.os_disk_size_gb
    if pool.ephemeral_os_disk is not None and size is None:
        yield Problem(f"{path}.osDiskSizeGb", "is required with ephemeralOsDisk: each VM size has another room for it")
    disk = SystemDisk(size or 0, pool.os_disk_type, pool.ephemeral_os_disk)
    for problem in machine_problems(pool.vm_size, disk, pool.accelerated_networking):
        yield Problem(path, _camel(problem))


def _azure_arch(path: str, tree: Tree, pool: AzurePool) -> Iterator[Problem]:
    machine = Arch.ARM64 if is_arm_size(pool.vm_size) else Arch.AMD64
    image = tree.image.arch if pool.arch is None else pool.arch
    if machine is not image:
        source = "image.arch" if pool.arch is None else f"{path}.arch"
        yield Problem(
            f"{path}.vmSize",
            f"{pool.vm_size} is a machine with {machine} and cannot boot an image for {image} ({source}): change "
            "one of them",
        )


def _azure_tags(path: str, tree: Tree, section: AzureSettings, pool: AzurePool) -> Iterator[Problem]:
    scaler = tree.autoscaler.azure if tree.autoscaler is not None else None
    found = scaler is not None and scaler.discovery and not pool.gateway
    own = {**section.tags, **(discovery_tags(tree.cluster.name) if found else {})}
    try:
        template = node_template("azure", pool.name, pool.labels, _taints(pool))
        azure_tags(template_stamped(template), pool.min_size, pool.max_size, own)
    except ValueError as error:
        yield Problem(path, _camel(str(error)))


# Alibaba Cloud


def _aliyun_arch(tree: Tree) -> Iterator[Problem]:
    if tree.image.arch is not Arch.AMD64:
        yield Problem(
            "image.arch",
            "arm64 is not for pools on Alibaba Cloud, which imports images for x86_64 alone: write amd64 here, and "
            "arch: arm64 at the Azure pools that want it",
        )


def _aliyun_room(path: str, pool: AliyunPool) -> Iterator[Problem]:
    fits = room(pool.zones.values(), ALIYUN_RESERVED)
    if fits < pool.max_size:
        yield Problem(
            f"{path}.zones",
            f"have room for {fits} machines (Alibaba Cloud keeps {ALIYUN_RESERVED} addresses of each range), but "
            f"maxSize is {pool.max_size}: use larger ranges or a smaller maxSize",
        )


def _aliyun_vswitches(path: str, pool: AliyunPool) -> Iterator[Problem]:
    for zone, cidr in pool.zones.items():
        if not 16 <= cidr.prefixlen <= 29:
            yield Problem(f"{path}.zones.{zone}", f"{cidr} must have a prefix from /16 to /29, as vSwitches have")


def _aliyun_zones(path: str, section: AliyunSettings, pool: AliyunPool) -> Iterator[Problem]:
    region = section.region_of(pool)
    for zone in pool.zones:
        # cn-hangzhou-h, but ap-southeast-1a.
        if not re.fullmatch(re.escape(region) + "-?[a-z]", zone, re.ASCII):
            yield Problem(
                f"{path}.zones.{zone}",
                f"{zone} is no zone of the region {region}: its id begins with that of the region",
            )


def _aliyun_types(path: str, pool: AliyunPool) -> Iterator[Problem]:
    for problem in instance_type_problems(pool.instance_types):
        yield Problem(f"{path}.instanceTypes", problem)


def _aliyun_switches(path: str, pool: AliyunPool) -> Iterator[Problem]:
    if pool.vswitch_ids and set(pool.vswitch_ids) != set(pool.zones):
        yield Problem(
            f"{path}.vswitchIds", f"must name the zones that {path}.zones names: {', '.join(sorted(pool.zones))}"
        )
    if pool.vswitch_ids and pool.vpc_id is None:
        yield Problem(f"{path}.vpcId", "is required with vswitchIds: the VPC that they are in")


def _aliyun_vpcs(section: AliyunSettings) -> Iterator[Problem]:
    """Pools of one network are in one VPC: all in the stack's own, or all in the one that exists."""
    pools = {pool.name: pool for pool in section.pools}
    for net in section.networks():
        found = sorted({pools[name].vpc_id or "the stack's own" for name in net.pools})
        if len(found) > 1:
            yield Problem(
                "aliyun.pools",
                f"{', '.join(net.pools)} share the network {net.cidr} but not the VPC ({', '.join(found)}): give "
                "all of them the same vpcId, or another vpcCidr",
            )


def _aliyun_taints(path: str, pool: AliyunPool) -> Iterator[Problem]:
    if pool.taints and pool.min_size == 0:
        yield Problem(
            f"{path}.taints",
            "need a minSize of 1 or more on Alibaba Cloud: the autoscaler takes an empty pool there for untainted and "
            "would grow it for pods that do not tolerate them; set minSize, or use a label and node selectors",
        )


def _aliyun_tags(path: str, section: AliyunSettings, pool: AliyunPool) -> Iterator[Problem]:
    try:
        template = template_stamped(node_template("aliyun", pool.name, pool.labels, _taints(pool)))
    except ValueError as error:
        yield Problem(path, _camel(str(error)))
        return
    # Each label is a tag too: only so does the autoscaler know the labels of an empty pool.
    for problem in alibaba_tag_problems({**section.tags, **template.all_labels}, "labels"):
        yield Problem(f"{path}.labels", problem.removeprefix("labels: "))
