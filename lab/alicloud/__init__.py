"""Alibaba Cloud in the lab: the provider's package, object storage, ECS, and what happens behind Pulumi's back."""

from ..cloud_actions import Action, delete_from
from ..world import CloudError, World
from .instances import evict, instances, scale
from .oss_server import OssServer
from .package import PACKAGE
from .rpc_server import RpcServer


def _scale(world: World, words: list[str]) -> str:
    if len(words) != 2 or not words[1].isdigit():
        raise CloudError("Usage", "scale SCALING_GROUP NUMBER")
    record = scale(world, words[0], int(words[1]))
    return f"{record.id} has {len(instances(world, record.id))} machines"


def _evict(world: World, words: list[str]) -> str:
    if len(words) != 1:
        raise CloudError("Usage", "evict MACHINE")
    return f"{evict(world, words[0]).id} was evicted"


ACTIONS: dict[str, Action] = {"scale": _scale, "evict": _evict, "delete": delete_from(PACKAGE.name)}
"""What can be done to the cloud behind Pulumi's back. Each takes words, returns what it did, or raises CloudError."""

__all__ = ["ACTIONS", "PACKAGE", "OssServer", "RpcServer", "evict", "scale"]
