"""The work of WireGuardKey: make keys once."""

from typing import Any

from pulumi.dynamic import DiffResult

from .wireguard import new_preshared_key, new_private_key, public_key

Properties = dict[str, Any]


def check(_news: Properties) -> dict[str, str]:
    """Return nothing: there are no inputs."""
    return {}


def diff(_olds: Properties, _news: Properties) -> DiffResult:
    """Return no change: keys that were handed out stay."""
    return DiffResult(changes=False, replaces=[])


def create(_props: Properties) -> tuple[str, Properties]:
    """Make the keys. The public one is the resource's id: it names the client everywhere."""
    private = new_private_key()
    public = public_key(private)
    return public, {"private_key": private, "public_key": public, "preshared_key": new_preshared_key()}


def read(props: Properties) -> Properties:
    """Return the keys as they are: they are nowhere else."""
    return props


def update(olds: Properties, _news: Properties) -> Properties:
    """Return the keys as they are."""
    return olds


def delete(_props: Properties) -> None:
    """Do nothing: the cluster forgets the client with its Peer."""
