"""``python -m stacks.boot_media Pulumi.prod.yaml``: what boots the machines of a rack, before there is a cluster.

Tells the image factory of the schematic in the settings, and prints where ISO, PXE script, disk image and installer
are. Of the settings it reads `image` and `cluster.talosVersion` alone.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from hybrid_talos import factory_schematic
from hybrid_talos.image_assets import image_url, installer_ref, iso_url, pxe_url
from hybrid_talos.image_inputs import MetaShape, OverlayShape, SecureBootShape, image_schematic
from hybrid_talos.schematic import current_extensions, schematic_id
from hybrid_talos.work_provider import WorkError
from pydantic import ValidationError

from .settings_base import Section, Version
from .settings_errors import SettingsError, problems_of
from .settings_image import ImageSettings

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


class _Cluster(Section):
    talos_version: Version


class _Part(Section):
    """The part of the settings that boot media are made of."""

    cluster: _Cluster
    image: ImageSettings = ImageSettings()


def read(path: Path) -> _Part:
    """Return that part of a stack's configuration file.

    Raises:
        SettingsError: naming every key that is wrong, or why the file cannot be read.
    """
    try:
        config = (yaml.safe_load(path.read_text()) or {}).get("config") or {}
        settings = config.get("hybrid-talos:settings") or {}
        cluster = settings.get("cluster") or {}
    except (OSError, yaml.YAMLError, AttributeError):
        raise SettingsError([f"{path}: is no readable configuration of a stack, such as Pulumi.dev.yaml"]) from None
    part: dict[str, Any] = {"cluster": {}}
    if isinstance(cluster, dict) and "talosVersion" in cluster:
        part["cluster"]["talosVersion"] = cluster["talosVersion"]
    if "image" in settings:
        part["image"] = settings["image"]
    try:
        return _Part.model_validate_json(json.dumps(part, default=str))
    except ValidationError as error:
        raise SettingsError(map(str, problems_of(_Part, error))) from None


def schematic_of(image: ImageSettings) -> str:
    """Return the canonical YAML of the schematic of machines that exist, the same as that of their TalosImage."""
    return image_schematic(
        current_extensions(image.extensions),
        image.extra_kernel_args,
        [MetaShape(key=item.key, value=item.value) for item in image.meta],
        SecureBootShape.model_validate(image.secure_boot.model_dump() if image.secure_boot else {"enabled": False}),
        OverlayShape.model_validate(image.overlay.model_dump()) if image.overlay else None,
    )


def media(part: _Part) -> dict[str, str]:
    """Return where the boot media are, by what they are called."""
    image, version = part.image, part.cluster.talos_version
    factory, arch, secure = image.factory_url, image.arch.value, image.is_secure_boot
    found = schematic_id(schematic_of(image))
    return {
        "schematic": found,
        "iso": iso_url(factory, found, version, arch, secure_boot=secure),
        "pxe": pxe_url(factory, found, version, arch, secure_boot=secure),
        "disk": image_url(factory, found, version, f"metal-{arch}{'-secureboot' if secure else ''}.raw.zst"),
        "installer": image.installer_image or installer_ref(factory, "metal", found, version, secure_boot=secure),
    }


@app.command()
def main(
    settings: Annotated[Path, typer.Argument(help="Configuration of the stack.")] = Path("Pulumi.dev.yaml"),
) -> None:
    """Tell the factory of the schematic, and print where ISO, PXE script, disk image and installer are."""
    try:
        part = read(settings)
        image = part.image
        factory_schematic.create(
            {
                "factory_url": image.factory_url,
                "factory_ca": image.factory_ca,
                "proxy": image.proxy,
                "schematic": schematic_of(image),
                "extensions": current_extensions(image.extensions),
                "overlay": image.overlay.name if image.overlay else None,
                "talos_version": part.cluster.talos_version,
            }
        )
    except (SettingsError, WorkError) as error:
        typer.echo(f"boot_media: {error}", err=True)
        raise typer.Exit(1) from None
    for name, where in media(part).items():
        typer.echo(f"{name:<10} {where}")


if __name__ == "__main__":
    app()
