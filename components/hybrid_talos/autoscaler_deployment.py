"""The forms in which the Cluster Autoscaler comes into a cluster."""

from enum import StrEnum


class AutoscalerDeployment(StrEnum):
    """How the autoscaler is put into the cluster."""

    MANIFESTS = "manifests"
    """As plain Kubernetes objects, on every cloud."""
    COZYSTACK_PACKAGE = "cozystackPackage"
    """As the package that Cozystack has for Azure."""
