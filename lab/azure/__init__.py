"""Azure in the lab: the provider's package, blob storage, managed identity, and what happens behind Pulumi's back."""

from ..cloud_actions import Action, delete_from
from ..world import CloudError, World
from .arm_server import ArmServer
from .blobs import BlobServer
from .identity import IdentityServer
from .instances import evict, scale
from .package import PACKAGE


def _scale(world: World, words: list[str]) -> str:
    if len(words) != 2 or not words[1].isdigit():
        raise CloudError("Usage", "scale SCALE_SET CAPACITY")
    record = scale(world, words[0], int(words[1]))
    return f"{record.id} has {record.doc['sku']['capacity']} machines"


def _evict(world: World, words: list[str]) -> str:
    if len(words) != 1:
        raise CloudError("Usage", "evict MACHINE")
    return f"{evict(world, words[0]).id} was evicted"


ACTIONS: dict[str, Action] = {"scale": _scale, "evict": _evict, "delete": delete_from(PACKAGE.name)}
"""What can be done to the cloud behind Pulumi's back. Each takes words, returns what it did, or raises CloudError."""

__all__ = ["ACTIONS", "PACKAGE", "ArmServer", "BlobServer", "IdentityServer", "evict", "scale"]
