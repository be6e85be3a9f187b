"""Machines that exist, and the network around them, as the components take them."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from hybrid_talos.life_inputs import UpgradeArgs
from hybrid_talos.machine import MachineArgs
from hybrid_talos.registries import ComponentImagesArgs, RegistryArgs
from hybrid_talos.rotation import RotationArgs
from hybrid_talos.site import SiteArgs

from .secrets import Secrets
from .settings import Settings
from .settings_life import Rotation, Upgrade
from .settings_machines import Machine, disk_args, link_args


def machine_args(machines: Sequence[Machine]) -> list[MachineArgs]:
    """Return machines as the components take them."""
    return [_machine(machine) for machine in machines]


def _machine(machine: Machine) -> MachineArgs:
    args: MachineArgs = {
        "name": machine.name,
        "address": str(machine.address),
        "labels": dict(sorted(machine.labels.items())),
        "annotations": dict(sorted(machine.annotations.items())),
        "taints": [{"key": t.key, "value": t.value, "effect": t.effect} for t in machine.taints],
        "config_patches": list(machine.config_patches),
    }
    if machine.public_address is not None:
        args["public_address"] = str(machine.public_address)
    if machine.install_disk is not None:
        args["install_disk"] = machine.install_disk
    if machine.install_disk_selector is not None:
        args["install_disk_selector"] = cast(Any, disk_args(machine.install_disk_selector))
    if machine.links:
        args["links"] = cast(Any, [link_args(link) for link in machine.links])
    return args


def site_args(settings: Settings, secrets: Secrets) -> SiteArgs | None:
    """Return what the network around the machines asks of them, or None when it asks nothing."""
    cluster = settings.cluster
    site = cluster.site
    if site is None:
        return None
    args: SiteArgs = {
        "nameservers": [str(address) for address in site.nameservers],
        "search_domains": list(site.search_domains),
        "ntp_servers": list(site.ntp_servers),
    }
    if site.proxy is not None:
        # All machines, so that workers reach control planes of other ranges too.
        own = [str(machine.address) for machine in (*cluster.control_planes, *cluster.workers)]
        args["proxy"] = {"url": site.proxy.url, "no_proxy": [*sorted(own), *site.proxy.no_proxy]}
        if site.proxy.username is not None and secrets.proxy_password is not None:
            args["proxy"]["username"] = site.proxy.username
            args["proxy"]["password"] = secrets.proxy_password
    return args


def upgrade_args(upgrade: Upgrade) -> UpgradeArgs:
    """Return how machines are upgraded, changed and removed."""
    return {
        "parallelism": upgrade.parallelism,
        "drain_minutes": upgrade.drain_minutes,
        "health_minutes": upgrade.health_minutes,
        "snapshot": upgrade.snapshot,
    }


def rotation_args(rotation: Rotation) -> RotationArgs:
    """Return how far the rotations of authority and tokens are."""
    found: RotationArgs = {}
    if rotation.talos_authority is not None:
        given = rotation.talos_authority
        found["talos_authority"] = {"generation": given.generation, "stage": given.stage}
    if rotation.join_tokens is not None:
        found["join_tokens"] = {"generation": rotation.join_tokens.generation, "stage": rotation.join_tokens.stage}
    return found


def registry_args(settings: Settings, secrets: Secrets) -> Mapping[str, RegistryArgs]:
    """Return the registries, each with its password."""
    found: dict[str, RegistryArgs] = {}
    for host, registry in sorted(settings.cluster.registries.items()):
        args: RegistryArgs = {}
        if registry.ca is not None:
            args["ca"] = registry.ca
        if registry.username is not None:
            args["username"] = registry.username
            args["password"] = secrets.registry_passwords[host]
        found[host] = args
    return found


def component_images(settings: Settings) -> ComponentImagesArgs | None:
    """Return where the images of Kubernetes come from, or None for Talos's own choice."""
    images = settings.cluster.component_images
    return None if images is None else cast(Any, images.model_dump(exclude_none=True))
