"""A custom resource that is the key pair of a WireGuard client, made once and kept in the state.

The provider here is a shell whose module and name stand in every state that has one: it is never renamed or moved,
and holds no code (docs/adr/0001-custom-resources.md). The work is in wireguard_key_work. This module is imported by
Pulumi's dynamic provider and must stay light.
"""

from typing import ClassVar

import pulumi
from pulumi import dynamic

from .work_provider import WorkProvider


class WireGuardKeyProvider(WorkProvider):
    """Shell of WireGuardKey."""

    work: ClassVar[str] = "wireguard_key_work"


class WireGuardKey(dynamic.Resource, module="mesh", name="WireGuardKey"):
    """Keys of one client of the mesh, made when it is made and never again."""

    private_key: pulumi.Output[str]
    """The private key, secret."""
    public_key: pulumi.Output[str]
    """The public key that belongs to it."""
    preshared_key: pulumi.Output[str]
    """A symmetric key on top, secret."""

    def __init__(self, name: str, *, opts: pulumi.ResourceOptions | None = None) -> None:
        """Make the keys; to have others, replace the resource (`pulumi up --replace <urn>`)."""
        props = {"private_key": None, "public_key": None, "preshared_key": None}
        secret = pulumi.ResourceOptions(additional_secret_outputs=["private_key", "preshared_key"])
        super().__init__(WireGuardKeyProvider(), name, props, pulumi.ResourceOptions.merge(opts, secret))
