"""Rules about the record and the load balancer that a stack makes for the Kubernetes API."""

from collections.abc import Iterable, Iterator
from ipaddress import AddressValueError, IPv4Address

from hybrid_talos.cluster_endpoint import EndpointKind

from .settings_endpoint import AzureAccount, Endpoint
from .settings_errors import Problem
from .settings_tree import Tree

_AT = "cluster.endpoint"


def rules(tree: Tree) -> Iterator[Iterable[Problem]]:
    """Return the rules, each to be asked on its own."""
    yield _host(tree)
    yield _record(tree)
    yield _zone(tree)
    yield _load_balancer(tree)
    yield _route(tree)
    yield _subscription(tree)


def is_address(host: str) -> bool:
    """Return whether a host is an IPv4 address."""
    try:
        IPv4Address(host)
    except AddressValueError:
        return False
    return True


def _host(tree: Tree) -> Iterator[Problem]:
    endpoint = tree.cluster.endpoint
    if endpoint.load_balancer is None:
        if endpoint.host is None:
            yield Problem(
                f"{_AT}.host",
                "is required: a host name or IPv4 address; only with cluster.endpoint.loadBalancer it may be left out",
            )
        return
    if endpoint.kind is not EndpointKind.LOAD_BALANCER:
        yield Problem(f"{_AT}.loadBalancer", "is for kind loadBalancer alone: remove it, or set the kind")
    if endpoint.host is None:
        return
    if is_address(endpoint.host):
        yield Problem(
            f"{_AT}.host", "leave it out: the load balancer that the stack makes gets its address from the cloud"
        )
    elif endpoint.record is None and endpoint.check_dns:
        yield Problem(
            f"{_AT}.host",
            "a name for the load balancer that the stack makes needs a record: set cluster.endpoint.record, or set "
            "cluster.endpoint.checkDns to false and make it yourself once the address is known",
        )


def _record(tree: Tree) -> Iterator[Problem]:
    endpoint = tree.cluster.endpoint
    record = endpoint.record
    if record is None:
        return
    if (record.azure is None) == (record.aliyun is None):
        yield Problem(f"{_AT}.record", "give one of azure and aliyun")
    if endpoint.host is None or is_address(endpoint.host):
        yield Problem(f"{_AT}.record", "needs a name as cluster.endpoint.host")
    if endpoint.kind is EndpointKind.LOAD_BALANCER and endpoint.load_balancer is None:
        yield Problem(
            f"{_AT}.record",
            "is for kind dns, or for a load balancer that this stack makes: a record for another one stays where that "
            "is looked after",
        )


def _zone(tree: Tree) -> Iterator[Problem]:
    endpoint = tree.cluster.endpoint
    record = endpoint.record
    if record is None or endpoint.host is None:
        return
    for key, zone in (
        ("azure.zone", record.azure.zone if record.azure is not None else None),
        ("aliyun.domain", record.aliyun.domain if record.aliyun is not None else None),
    ):
        if zone is None:
            continue
        if not endpoint.host.endswith(f".{zone}"):
            yield Problem(f"{_AT}.record.{key}", f"{endpoint.host} is no name in {zone}")


def _load_balancer(tree: Tree) -> Iterator[Problem]:
    made = tree.cluster.endpoint.load_balancer
    if made is None:
        return
    if (made.azure is None) == (made.aliyun is None):
        yield Problem(f"{_AT}.loadBalancer", "give one of azure and aliyun")
    if made.azure is not None and made.azure.subnet_id is not None:
        network = made.azure.subnet_id.rpartition("/subnets/")[0]
        if network.lower() != made.azure.vnet_id.lower():
            yield Problem(f"{_AT}.loadBalancer.azure.subnetId", "is a subnet of another network than vnetId")


def _route(tree: Tree) -> Iterator[Problem]:
    endpoint = tree.cluster.endpoint
    if endpoint.load_balancer is None or endpoint.private_route or (tree.azure is None and tree.aliyun is None):
        return
    if endpoint.load_balancer.internal:
        yield Problem(
            f"{_AT}.loadBalancer",
            "is an internal one, and machines of pools need the API before the mesh is up: make it a public one, or "
            "set cluster.endpoint.privateRoute to true if a route exists already",
        )


def _accounts(endpoint: Endpoint) -> Iterator[tuple[str, AzureAccount]]:
    if endpoint.record is not None and endpoint.record.azure is not None:
        yield f"{_AT}.record.azure", endpoint.record.azure
    if endpoint.load_balancer is not None and endpoint.load_balancer.azure is not None:
        yield f"{_AT}.loadBalancer.azure", endpoint.load_balancer.azure


def _subscription(tree: Tree) -> Iterator[Problem]:
    for path, account in _accounts(tree.cluster.endpoint):
        if account.subscription_id is None and tree.azure is None:
            yield Problem(f"{path}.subscriptionId", "is required where there is no section azure to take it from")
