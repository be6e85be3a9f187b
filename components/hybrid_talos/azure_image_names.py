"""Names of what an image becomes on Azure: unique where they must be, legal, and made of what the content is."""

import hashlib
import re


def region_key(location: str) -> str:
    """Return the one spelling of a region: `West Europe` and `westeurope` are the same."""
    return location.replace(" ", "").lower()


def short_hash(text: str, length: int) -> str:
    """Return the first hexadecimal digits of a digest, for names that must be unique and legal."""
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def gallery_name(name: str, resource_group: str) -> str:
    """Return a name for the gallery: letters, digits and underscores, unique in the subscription.

    Gallery names are unique per subscription and take no hyphens (learn.microsoft.com, Azure Compute Gallery).
    """
    slug = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:40]
    return f"talos_{slug}_{short_hash(f'{resource_group.lower()}/{name}', 8)}"


def account_name(gallery_id: str) -> str:
    """Return a name for the storage account: 24 lower-case letters and digits, unique in all of Azure.

    The id of the gallery holds subscription, resource group and gallery, so that two clusters never ask for
    the same name, and one cluster always asks for the same.
    """
    return f"talos{short_hash(gallery_id.lower(), 19)}"


def definition_name(arch: str, content: str, version: str, *, secure_boot: bool = False) -> str:
    """Return the image definition: one for each schematic or image file, and one for each pre-release.

    A version inside of it must be three numbers, and says the Talos release; `-rc.1` is not legal there.
    """
    stage = version.partition("-")[2]
    return f"talos-{arch}{'-secureboot' if secure_boot else ''}-{content[:12]}{'-' + stage if stage else ''}"


def version_name(version: str) -> str:
    """Return the version in its definition: three numbers (learn.microsoft.com, Azure Compute Gallery)."""
    return version.partition("-")[0]


def managed_image_name(name: str, location: str, content: str, version: str) -> str:
    """Return a name for a managed image, which is one for each component, region and content; at most 80 long."""
    return f"talos-{version}-{content[:12]}-{short_hash(f'{name}/{region_key(location)}', 8)}"
