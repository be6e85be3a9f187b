"""What every image of a stack has in common: one schematic, one Talos version, one factory."""

from hybrid_talos.arch import Arch
from hybrid_talos.image_assets import disk_assets
from hybrid_talos.image_inputs import ImageFileArgs, MetaValueArgs, OverlayArgs, SecureBootArgs
from hybrid_talos.talos_image import Platform, TalosImageArgs

from .settings import Settings
from .settings_image import SecureBoot


def image_args(settings: Settings, platform: Platform, arch: Arch | None = None) -> TalosImageArgs:
    """Return the inputs of an image for one platform; the caller adds where a cloud keeps it."""
    image, machine = settings.image, arch or settings.image.arch
    args: TalosImageArgs = {
        "platform": platform,
        "talos_version": settings.cluster.talos_version,
        "factory_url": image.factory_url,
        "extensions": list(image.extensions),
        "extra_kernel_args": list(image.extra_kernel_args),
        "meta": [MetaValueArgs(key=item.key, value=item.value) for item in image.meta],
        "arch": machine,
    }
    if image.factory_ca is not None:
        args["factory_ca"] = image.factory_ca
    if image.proxy is not None:
        args["proxy"] = image.proxy
    if image.secure_boot is not None:
        args["secure_boot"] = _secure_boot(image.secure_boot)
    # Boards are among the machines that exist; an image of a cloud has no boot loader of theirs.
    if image.overlay is not None and platform is Platform.METAL:
        overlay = image.overlay
        args["overlay"] = OverlayArgs(name=overlay.name, image=overlay.image, options=overlay.options)
    if file := image.files.get(f"{platform}-{machine}"):
        args["image_file"] = ImageFileArgs(location=file.location, sha256=file.sha256)
    assets = disk_assets(platform, machine, secure_boot=image.is_secure_boot)
    if pins := {name: image.compressed_sha256[name] for name in assets if name in image.compressed_sha256}:
        args["compressed_sha256"] = pins
    return args


def _secure_boot(asked: SecureBoot) -> SecureBootArgs:
    args = SecureBootArgs(enabled=asked.enabled, well_known_certificates=asked.well_known_certificates)
    if asked.enroll_keys is not None:
        args["enroll_keys"] = asked.enroll_keys
    return args
