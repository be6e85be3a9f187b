"""Rules about the cluster: versions, members, machines and endpoint."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from ipaddress import AddressValueError, IPv4Address, IPv4Network

from hybrid_talos.cluster_endpoint import EndpointKind
from hybrid_talos.versions import autoscaler_tag, check_contract, check_pair, check_talos, supports_alibaba

from .settings_base import part
from .settings_errors import Problem
from .settings_rules_machines import machines
from .settings_tree import Tree

MOST_MEMBERS = 9
"""Above this, etcd only becomes slower: each write waits for half of the members."""

_PRIVATE = [IPv4Network(cidr) for cidr in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")]


def rules(tree: Tree) -> Iterator[Iterable[Problem]]:
    """Return the rules, each to be asked on its own."""
    yield _versions(tree)
    yield _alibaba_version(tree)
    yield _autoscaler_version(tree)
    yield _members(tree)
    yield _twice(tree)
    yield _places(tree)
    yield _endpoint(tree)
    yield _vip(tree)
    yield _reachable_endpoint(tree)
    yield _extensions(tree)


def _versions(tree: Tree) -> Iterator[Problem]:
    cluster = tree.cluster
    talos = cluster.talos_version
    if problem := check_talos(talos):
        yield Problem("cluster.talosVersion", problem)
        return
    kubernetes = cluster.kubernetes_version
    if problem := check_pair(talos, kubernetes):
        yield Problem("cluster.kubernetesVersion", problem)
    elif problem := check_contract(cluster.config_contract, talos, kubernetes):
        written = "config_contract" in cluster.model_fields_set
        yield Problem(f"cluster.{'configContract' if written else 'kubernetesVersion'}", problem)


def _alibaba_version(tree: Tree) -> Iterator[Problem]:
    if tree.aliyun is None:
        return
    if tree.aliyun.image.experimental_metal:
        # Without provider ids the autoscaler takes each machine for one that never joined, and deletes it.
        if tree.autoscaler is not None and tree.autoscaler.aliyun is not None:
            yield Problem(
                "aliyun.image.experimentalMetal",
                "such machines tell no provider id, so the autoscaler would delete them: take autoscaler.aliyun away "
                "and set minSize to the machines that you want, or use Talos 1.14",
            )
    elif not supports_alibaba(tree.cluster.talos_version):
        yield Problem(
            "cluster.talosVersion",
            f"pools on Alibaba Cloud need Talos 1.14 or later, not {tree.cluster.talos_version}: older ones have no "
            "image for its machines and give the nodes no id that the autoscaler knows (an experimental way around it, "
            "without autoscaler: aliyun.image.experimentalMetal)",
        )


def _autoscaler_version(tree: Tree) -> Iterator[Problem]:
    if tree.autoscaler is None:
        return
    try:
        autoscaler_tag(tree.cluster.kubernetes_version)
    except ValueError as error:
        yield Problem("cluster.kubernetesVersion", f"{error}, or remove autoscaler")


def _members(tree: Tree) -> Iterator[Problem]:
    count = len(tree.cluster.control_planes)
    quorum = count // 2 + 1
    if count > MOST_MEMBERS:
        yield Problem("cluster.controlPlanes", f"has {count} members: at most {MOST_MEMBERS} are sensible")
    elif count and count % 2 == 0:
        fewer = f"{count - 1} or {count + 1}" if count > 2 else "3"
        members = "1 member does" if count == 2 else f"{count - 1} members do"
        yield Problem(
            "cluster.controlPlanes",
            f"has {count} members, an even number: a quorum needs {quorum} of them ({count} / 2 + 1), so the loss of "
            f"{count - quorum} is survived, no more than {members}: use {fewer}",
        )
    elif count == 1 and not tree.cluster.allow_single_member:
        yield Problem(
            "cluster.controlPlanes",
            "has 1 member, which is not highly available: use 3, or set cluster.allowSingleMember to true",
        )


def _twice(tree: Tree) -> Iterator[Problem]:
    names: dict[str, list[str]] = defaultdict(list)
    addresses: dict[str, list[str]] = defaultdict(list)
    for path, machine in machines(tree):
        name = part(machine, lambda m: m.name)
        if name is not None:
            names[name].append(f"{path}.name")
        for key, address in (
            ("address", part(machine, lambda m: m.address)),
            ("publicAddress", part(machine, lambda m: m.public_address)),
        ):
            if address is not None and not any(place.startswith(path) for place in addresses[str(address)]):
                addresses[str(address)].append(f"{path}.{key}")
    for what, found in (("name", names), ("address", addresses)):
        for value, places in found.items():
            for place in places[1:]:
                yield Problem(place, f"{value} is the {what} of two machines; the other is {places[0]}")


def _places(tree: Tree) -> Iterator[Problem]:
    location = tree.cluster.location
    if location is None:
        return
    cidrs = location.cidrs
    for path, machine in machines(tree):
        address = part(machine, lambda m: m.address)
        if address is not None and not any(address in cidr for cidr in cidrs):
            yield Problem(
                f"{path}.address",
                f"{address} lies in none of cluster.location.cidrs ({', '.join(map(str, cidrs))}): correct it, or add "
                "its range there",
            )


def _address_of(host: str | None) -> IPv4Address | None:
    if host is None:
        return None
    try:
        return IPv4Address(host)
    except AddressValueError:
        return None


def _endpoint(tree: Tree) -> Iterator[Problem]:
    endpoint = tree.cluster.endpoint
    address = _address_of(endpoint.host)
    kind = endpoint.kind
    if kind is EndpointKind.DNS and address is not None:
        yield Problem("cluster.endpoint.host", "kind dns takes a name; for an address use kind loadBalancer or vip")
    if kind is EndpointKind.VIP and address is None and endpoint.host is not None:
        yield Problem(
            "cluster.endpoint.host", "kind vip takes the IPv4 address that the control planes share, not a name"
        )
    if endpoint.interface is not None and kind is not EndpointKind.VIP:
        yield Problem("cluster.endpoint.interface", "is for kind vip alone: remove it")
    if address is None:
        return
    members = tree.cluster.control_planes
    everyone = [*members, *tree.cluster.workers]
    anyone = next((machine.name for machine in everyone if address in {machine.address, machine.public_address}), None)
    owner = next((machine.name for machine in members if machine.name == anyone), None)
    if anyone is not None and owner is None:
        yield Problem(
            "cluster.endpoint.host", f"{address} is the address of the worker {anyone}, where no Kubernetes API runs"
        )
    elif owner is not None and kind is EndpointKind.VIP:
        yield Problem(
            "cluster.endpoint.host", f"{address} is the address of {owner} itself; a VIP is one that no machine has"
        )
    elif owner is not None and len(members) > 1 and not endpoint.allow_member_address:
        yield Problem(
            "cluster.endpoint.host",
            f"{address} is the address of {owner} alone: without it there is no API, although {len(members)} control "
            "planes run; use a load balancer, a name or a VIP, or set cluster.endpoint.allowMemberAddress to true",
        )


def _vip(tree: Tree) -> Iterator[Problem]:
    endpoint = tree.cluster.endpoint
    vip = _address_of(endpoint.host)
    if endpoint.kind is not EndpointKind.VIP or vip is None:
        return
    location = tree.cluster.location
    if location is None:
        yield Problem(
            "cluster.location", "is required with an endpoint of kind vip: the machines and the VIP must share a range"
        )
        return
    addresses = [vip, *(machine.address for machine in tree.cluster.control_planes)]
    # Held by answering ARP: machines of another segment never see who has the address (siderolabs/talos
    # website, "Virtual (shared) IP").
    if not any(all(address in cidr for address in addresses) for cidr in location.cidrs):
        yield Problem(
            "cluster.endpoint.kind",
            f"vip needs {vip} and all control planes in one network segment, and none of cluster.location.cidrs "
            f"({', '.join(map(str, location.cidrs))}) holds them all: use a load balancer or a name",
        )


def _reachable_endpoint(tree: Tree) -> Iterator[Problem]:
    endpoint = tree.cluster.endpoint
    address = _address_of(endpoint.host)
    if address is None or endpoint.private_route or (tree.azure is None and tree.aliyun is None):
        return
    if any(address in private for private in _PRIVATE):
        yield Problem(
            "cluster.endpoint.host",
            f"{address} is a private address, and machines of a cloud need the API before the mesh is up: use an "
            "address or name that they reach, or set cluster.endpoint.privateRoute to true if a route exists already",
        )


def _extensions(tree: Tree) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, extension in enumerate(tree.image.extensions):
        if extension in seen:
            yield Problem(f"image.extensions[{index}]", f"{extension} stands here twice")
        seen.add(extension)
