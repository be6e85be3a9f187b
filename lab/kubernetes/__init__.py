"""The simulated Kubernetes provider and the API of the clusters that the simulated Talos machines form."""

from .package import ACTIONS, PACKAGE

__all__ = ["ACTIONS", "PACKAGE"]
