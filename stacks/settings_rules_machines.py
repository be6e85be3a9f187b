"""Rules about machines that exist and the network around them."""

import re
from collections.abc import Iterable, Iterator

from hybrid_talos._contract import problems_of
from hybrid_talos.cluster_endpoint import EndpointKind
from hybrid_talos.install_disk import DiskSelectorShape
from hybrid_talos.machine_config import has_documents
from hybrid_talos.machine_links import LinkShape, carrier, link_problems
from hybrid_talos.registries import mirror_problems
from pydantic import ValidationError

from .settings_base import part
from .settings_errors import Problem
from .settings_machines import Machine, disk_args, link_args
from .settings_tree import Tree


def machines(tree: Tree) -> Iterator[tuple[str, Machine]]:
    """Yield each machine that exists, with its path."""
    for key, found in (
        ("controlPlanes", part(tree, lambda t: t.cluster.control_planes)),
        ("workers", part(tree, lambda t: t.cluster.workers)),
    ):
        for index, machine in enumerate(found or ()):
            yield f"cluster.{key}[{index}]", machine


def rules(tree: Tree) -> Iterator[Iterable[Problem]]:
    """Return the rules, each to be asked on its own."""
    for path, machine in machines(tree):
        yield _disk(path, machine)
        yield _links(path, machine)
        yield _taints(path, machine)
    yield _contract(tree)
    yield _vip_link(tree)
    yield _mirrors(tree)
    yield _registries(tree)
    yield _installer(tree)


def _camel(text: str) -> str:
    return re.sub(r"\b[a-z]+(_[a-z]+)+\b", lambda found: re.sub("_(.)", lambda c: c[1].upper(), found[0]), text)


def _disk(path: str, machine: Machine) -> Iterator[Problem]:
    selector = machine.install_disk_selector
    if selector is None:
        return
    if machine.install_disk is not None:
        yield Problem(f"{path}.installDiskSelector", "installDisk names the disk already: give one of the two")
    try:
        DiskSelectorShape.model_validate(disk_args(selector))
    except ValidationError as error:
        for line in problems_of(error):
            yield Problem(f"{path}.installDiskSelector", _camel(line.removeprefix("inputs: ")))


def _links(path: str, machine: Machine) -> Iterator[Problem]:
    shapes: list[LinkShape] = []
    for index, link in enumerate(machine.links):
        try:
            shapes.append(LinkShape.model_validate(link_args(link)))
        except ValidationError as error:
            for line in problems_of(error):
                yield Problem(f"{path}.links[{index}]", _camel(line.removeprefix("inputs: ")))
    if len(shapes) == len(machine.links):
        for problem in link_problems(shapes, str(machine.address)):
            yield Problem(f"{path}.links", problem.removeprefix("links: "))


def _taints(path: str, machine: Machine) -> Iterator[Problem]:
    taints = machine.taints
    keys = [taint.key for taint in taints]
    for key in sorted({key for key in keys if keys.count(key) > 1}):
        same = {taint.effect for taint in taints if taint.key == key}
        if "controlPlanes" in path:
            yield Problem(f"{path}.taints", f"{key} stands twice, and a control plane has one taint for each key")
        elif len(same) < keys.count(key):
            yield Problem(f"{path}.taints", f"{key} stands twice with the same effect")


def _contract(tree: Tree) -> Iterator[Problem]:
    contract = tree.cluster.config_contract
    if has_documents(contract):
        return
    for path, machine in machines(tree):
        if part(machine, lambda m: m.links):
            yield Problem(
                f"{path}.links",
                f"need cluster.configContract 1.12 or later, not {contract}; write them as machine.network in "
                "configPatches",
            )


def _vip_link(tree: Tree) -> Iterator[Problem]:
    endpoint = tree.cluster.endpoint
    if endpoint.kind is not EndpointKind.VIP or endpoint.interface is not None:
        return
    for machine in tree.cluster.control_planes:
        links = [LinkShape.model_construct(**link_args(link)) for link in machine.links]
        if links and carrier(links, str(machine.address)) is None:
            yield Problem(
                "cluster.endpoint.interface",
                f"is required: {machine.name} has several links with DHCP and none with the static address "
                f"{machine.address}",
            )


def _mirrors(tree: Tree) -> Iterator[Problem]:
    documents = has_documents(tree.cluster.config_contract)
    for problem in mirror_problems(tree.cluster.registry_mirrors, documents=documents):
        yield Problem("cluster.registryMirrors", problem)
    if not tree.cluster.mirror_fallback and not tree.cluster.registry_mirrors:
        yield Problem("cluster.mirrorFallback", "is for registryMirrors, and there are none: remove it")


def _registries(tree: Tree) -> Iterator[Problem]:
    for host, registry in tree.cluster.registries.items():
        if registry.username is None and registry.ca is None:
            yield Problem(f'cluster.registries["{host}"]', "says nothing: give username, ca or both")


def _installer(tree: Tree) -> Iterator[Problem]:
    image = tree.image
    if image.installer_image is None or tree.azure is not None or tree.aliyun is not None:
        return
    schematic = {
        "extensions": image.extensions,
        "extraKernelArgs": image.extra_kernel_args,
        "meta": image.meta,
        "secureBoot": image.secure_boot,
        "overlay": image.overlay,
    }
    for key, given in schematic.items():
        if given:
            yield Problem(
                f"image.{key}", "has no effect with image.installerImage, which is installed as it is: remove one"
            )
