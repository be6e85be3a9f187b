"""The pod networks that the cluster can run."""

from enum import StrEnum


class Cni(StrEnum):
    """The pod network of the cluster."""

    FLANNEL = "flannel"
    CILIUM = "cilium"
