"""The pod networks that the cluster can run."""

from enum import StrEnum


class Cni(StrEnum):
    """The pod network of the cluster."""

    FLANNEL = "flannel"
    """Talos's default."""
    CILIUM = "cilium"
    """Cilium, installed by the user; Talos then deploys no network of its own."""
