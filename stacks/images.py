"""What every image of a stack has in common: one schematic, one Talos version."""

from hybrid_talos.arch import Arch
from hybrid_talos.talos_image import Platform, TalosImageArgs

from .settings import Settings


def image_args(settings: Settings, platform: Platform, arch: Arch | None = None) -> TalosImageArgs:
    """Return the inputs of an image for one platform; the caller adds where a cloud keeps it."""
    args: TalosImageArgs = {
        "platform": platform,
        "talos_version": settings.cluster.talos_version,
        "factory_url": settings.image.factory_url,
        "extensions": list(settings.image.extensions),
        "extra_kernel_args": list(settings.image.extra_kernel_args),
        "arch": arch or settings.image.arch,
    }
    if settings.image.factory_ca is not None:
        args["factory_ca"] = settings.image.factory_ca
    return args
