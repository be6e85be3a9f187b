"""The simulated Talos provider and its machines; the real talosctl makes every secret, config and patch."""

from .package import ACTIONS, PACKAGE

__all__ = ["ACTIONS", "PACKAGE"]
