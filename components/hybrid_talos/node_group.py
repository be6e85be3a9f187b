"""What a worker pool tells the Cluster Autoscaler about itself."""

from collections.abc import Mapping, Sequence
from typing import TypedDict


class NodeGroup(TypedDict):
    """A group of machines that the Cluster Autoscaler grows and shrinks."""

    cloud: str
    """The cloud that the group lives in: `azure` or `aliyun`."""
    name: str
    """Its name for the autoscaler: the scale set's on Azure, the scaling group's id on Alibaba Cloud."""
    min_size: int
    """Fewest machines of the group."""
    max_size: int
    """Most machines of the group."""
    labels: Mapping[str, str]
    """Labels that every node of the group registers with."""
    taints: Sequence[str]
    """Taints that every node of the group registers with, as `key=value:Effect`."""
