"""Custom resources that put an image where a cloud can make a machine image of it.

The providers here are shells whose module and names stand in every state that has one: they are never
renamed or moved, and hold no code (docs/adr/0001-custom-resources.md). The work is in azure_page_blob and
factory_schematic. This module is imported by Pulumi's dynamic provider and must stay light.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, NotRequired, TypedDict

import pulumi
from pulumi import dynamic

from .work_provider import WorkProvider


class ImageSource(TypedDict):
    """Where an upload takes its image from. All plain, so that a preview knows what will be uploaded."""

    factory_url: str
    """The Image Factory."""
    factory_ca: NotRequired[str | None]
    """PEM text of one more certificate authority to trust for the factory."""
    proxy: NotRequired[str | None]
    """HTTP proxy to the factory, without credentials."""
    schematic: str
    """Canonical YAML of the schematic."""
    extensions: Sequence[str]
    """Its system extensions."""
    talos_version: str
    """Talos release, with or without a leading `v`."""
    secure_boot: bool
    """Whether the image is one for Secure Boot."""
    content: str
    """What names the content beside release, platform, architecture and Secure Boot (image_assets.content_name): the
    schematic's id, or the digest of an image file."""
    assets: Sequence[str]
    """File names that the factory may serve the image under, most wanted first."""
    compressed_sha256: NotRequired[Mapping[str, str]]
    """SHA-256 that an asset must have, packed as it comes; when there are any, no other asset is asked for."""
    system_disk_gb: NotRequired[int | None]
    """Size in GiB of the smallest system disk that boots the image; a larger image is refused."""
    image_file: NotRequired[Mapping[str, str] | None]
    """A file to take instead, as `location` and `sha256`; the factory is then not asked."""


class AzurePageBlobProvider(WorkProvider):
    """Shell of AzurePageBlob."""

    work: ClassVar[str] = "azure_page_blob"


class FactorySchematicProvider(WorkProvider):
    """Shell of FactorySchematic."""

    work: ClassVar[str] = "factory_schematic"


class FactorySchematic(dynamic.Resource, module="image", name="FactorySchematic"):
    """A schematic that the factory was sent, so that machines get installers and boot media of it."""

    def __init__(
        self,
        name: str,
        *,
        factory_url: str,
        factory_ca: str | None,
        proxy: str | None,
        schematic: str,
        extensions: Sequence[str],
        overlay: str | None,
        talos_version: str,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Send the canonical YAML ``schematic``; ``extensions`` and ``overlay`` are the names in it."""
        props = {
            "factory_url": factory_url,
            "factory_ca": factory_ca,
            "proxy": proxy,
            "schematic": schematic,
            "extensions": extensions,
            "overlay": overlay,
            "talos_version": talos_version,
        }
        super().__init__(FactorySchematicProvider(), name, props, opts)


class AzurePageBlob(dynamic.Resource, module="image", name="AzurePageBlob"):
    """A VHD from the factory in a page blob. Named for its content: other content is another blob."""

    blob: pulumi.Output[str]
    """Name of the blob, known when the blob is complete."""
    size: pulumi.Output[float]
    """Bytes of the VHD, footer included."""
    asset: pulumi.Output[str]
    """File name of the asset that the image came from."""
    sha256: pulumi.Output[str]
    """SHA-256 of what was downloaded, packed as it came."""

    def __init__(
        self,
        name: str,
        *,
        account: pulumi.Input[str],
        container: pulumi.Input[str],
        blob: str,
        endpoint: pulumi.Input[str],
        source: ImageSource,
        authority: str | None = None,
        role_is_new: bool = False,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Upload ``source`` to ``blob``.

        ``endpoint`` is the blob endpoint of the account, or a pattern of it with `{account}`; ``authority``
        the login host of a national cloud. ``role_is_new`` waits up to ten minutes until the identity may
        write.
        """
        props = {
            **source,
            "account": account,
            "container": container,
            "blob": blob,
            "endpoint": endpoint,
            "authority": authority,
            "role_is_new": role_is_new,
            "size": None,
            "asset": None,
            "sha256": None,
        }
        super().__init__(AzurePageBlobProvider(), name, props, opts)
