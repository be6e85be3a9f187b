"""The compositions: plain functions from settings and secrets to a stack's outputs."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .outputs import Outputs
    from .secrets import Secrets
    from .settings import Settings

Composition = Callable[["Settings", "Secrets"], "Outputs"]


def _composition(name: str) -> Composition:
    """Return the function ``build`` of a module; its cloud's SDK is imported only when it is called."""

    def build(settings: "Settings", secrets: "Secrets") -> "Outputs":
        import_module(f"{__name__}.ceilings").say_ceilings(settings)
        built: Outputs = import_module(f"{__name__}.{name}").build(settings, secrets)
        if settings.addresses is not None:
            built = import_module(f"{__name__}.ranges").with_ranges(settings, built)
        if settings.mesh is not None and settings.mesh.peers is not None:
            built = import_module(f"{__name__}.peers").with_peers(settings, built)
        return built

    return build


COMPOSITIONS: Mapping[str, Composition] = {
    "cluster": _composition("cluster"),
    "azure-burst": _composition("azure_burst"),
    "aliyun-burst": _composition("aliyun_burst"),
    "hybrid": _composition("hybrid"),
}
"""The compositions by the name that `hybrid-talos:stack` gives."""
