"""A Talos image for one platform, from the Image Factory: named by its content, ready to be booted."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NotRequired, TypedDict

import pulumi
from pydantic import Field, field_validator, model_validator

from ._contract import Shape, check
from .aliyun_image import AliyunImageArgs, AliyunShape, build_aliyun_image
from .arch import Arch
from .azure_image import AzureImageArgs, AzureShape, build_azure_image, image_regions
from .image_upload import ImageSource
from .schematic import (
    EXTENSION_PATTERN,
    RENAMED_EXTENSIONS,
    VERSION_PATTERN,
    asset_name,
    current_extensions,
    installer_ref,
    iso_url,
    platform_problem,
    pxe_url,
    schematic_id,
    schematic_yaml,
)


class Platform(StrEnum):
    """Where the image boots."""

    METAL = "metal"
    """Machines that exist: nothing is uploaded, only references are given."""
    AZURE = "azure"
    """Azure scale sets."""
    ALIBABACLOUD = "alibabacloud"
    """Alibaba Cloud scaling groups."""


class TalosImageArgs(TypedDict):
    """Inputs of TalosImage."""

    platform: Platform
    """Where the image boots."""
    talos_version: str
    """Talos release, such as `1.14.0`, with or without a leading `v`."""
    factory_url: NotRequired[str]
    """Image Factory. Default: `https://factory.talos.dev`."""
    factory_ca: NotRequired[str]
    """PEM text of a certificate authority to trust for the factory, beside the usual ones."""
    extensions: NotRequired[Sequence[str]]
    """System extensions, such as `siderolabs/drbd`. Their order does not matter. Default: none."""
    extra_kernel_args: NotRequired[Sequence[str]]
    """Kernel arguments, in order. Default: none."""
    arch: NotRequired[Arch]
    """CPU architecture. Default: amd64."""
    compressed_sha256: NotRequired[str]
    """SHA-256 that the download must have, packed as the factory serves it. The factory publishes none: take
    it from the `sha256` of the upload resource of a first run."""
    azure: NotRequired[AzureImageArgs]
    """Where the image is kept on Azure. Required for platform azure, refused for any other."""
    aliyun: NotRequired[AliyunImageArgs]
    """Where the image is kept on Alibaba Cloud. Required for platform alibabacloud, refused for any other."""


class _Shape(Shape):
    platform: Platform
    talos_version: str = Field(pattern=VERSION_PATTERN)
    factory_url: str = Field(default="https://factory.talos.dev", pattern=r"^https?://[^/\s]+(/\S*)?$")
    factory_ca: str | None = None
    extensions: tuple[str, ...] = ()
    extra_kernel_args: tuple[str, ...] = ()
    arch: Arch = Arch.AMD64
    compressed_sha256: str | None = Field(default=None, pattern=r"^[0-9a-fA-F]{64}$")
    azure: AzureShape | None = None
    aliyun: AliyunShape | None = None

    @field_validator("extensions")
    @classmethod
    def _named_as_extensions(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not re.match(EXTENSION_PATTERN, name):
                raise ValueError(f"'{name}' is no extension; expected a name such as siderolabs/drbd")
        return names

    @field_validator("extra_kernel_args")
    @classmethod
    def _one_line_each(cls, arguments: tuple[str, ...]) -> tuple[str, ...]:
        schematic_yaml((), arguments)
        return arguments

    @model_validator(mode="after")
    def _fits_platform(self) -> "_Shape":
        for platform, block in ((Platform.AZURE, self.azure), (Platform.ALIBABACLOUD, self.aliyun)):
            key = "azure" if platform is Platform.AZURE else "aliyun"
            if self.platform is platform and block is None:
                raise ValueError(f"{key}: required for platform {platform.value}")
            if self.platform is not platform and block is not None:
                raise ValueError(f"{key}: belongs to platform {platform.value}, not {self.platform.value}")
        if problem := platform_problem(self.platform, self.arch, self.talos_version):
            raise ValueError(problem)
        return self


class TalosImage(pulumi.ComponentResource):
    """A Talos image that one platform's machines boot.

    The schematic's id is computed from the inputs, so a preview shows what will be uploaded, and compared with
    the factory's answer at deployment. Image and upload are named by content: the same release, schematic and
    architecture is uploaded once; other content is a new image beside the old one, which is deleted after the
    pools have moved.

    On Azure the VHD goes into a private storage account and becomes a version in a compute gallery. The
    identity that runs Pulumi needs, in the resource group, write and delete for Microsoft.Storage/storageAccounts
    and Microsoft.Compute/galleries, and the role `Storage Blob Data Contributor` on the account, since shared
    keys are off; `azure.uploader_principal_id` grants that role (which takes the right to assign roles).

    On Alibaba Cloud the qcow2 goes into a private OSS bucket and is imported. The identity needs OSS put, get,
    list, tag and delete on that bucket, ecs:ImportImage, ecs:DescribeImages, ecs:DescribeTasks and
    ecs:DeleteImage; the account needs the service role AliyunECSImageImportDefaultRole. One TalosImage serves one
    region, that of the provider it is given.
    """

    schematic_id: pulumi.Output[str]
    """Id of the schematic: the digest of what the image is made of."""
    image_id: pulumi.Output[str]
    """Id that pools boot from: a gallery image version on Azure, a custom image on Alibaba Cloud; empty for metal."""
    image_ids: pulumi.Output[Mapping[str, str]]
    """The same for each region that has the image."""
    installer_image: pulumi.Output[str]
    """Image that installs or upgrades machines to this release with this schematic."""
    iso_url: pulumi.Output[str]
    """ISO that boots a machine of the rack that has no Talos yet."""
    pxe_url: pulumi.Output[str]
    """iPXE script that does the same over the network."""

    def __init__(self, name: str, args: TalosImageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        shape = check(f"TalosImage '{name}'", args, TalosImageArgs, _Shape)
        super().__init__("hybrid-talos:index:TalosImage", name, {}, opts)
        for old in sorted(set(shape.extensions) & RENAMED_EXTENSIONS.keys()):
            pulumi.log.warn(f"extensions: {old} is called {RENAMED_EXTENSIONS[old]} today; that is used", self)

        extensions = current_extensions(shape.extensions)
        schematic = schematic_yaml(extensions, shape.extra_kernel_args)
        identity, version = schematic_id(schematic), shape.talos_version.removeprefix("v")
        source = ImageSource(
            factory_url=shape.factory_url,
            factory_ca=shape.factory_ca,
            schematic=schematic,
            extensions=extensions,
            talos_version=version,
            asset=asset_name(shape.platform, shape.arch),
            compressed_sha256=shape.compressed_sha256,
        )
        regions: tuple[str, ...] = ()
        image_id = pulumi.Output.from_input("")
        if shape.azure is not None:
            image_id = build_azure_image(name, shape.azure, shape.arch, source, self)
            regions = image_regions(shape.azure)
        elif shape.aliyun is not None:
            image_id = build_aliyun_image(name, shape.aliyun, shape.arch, source, self)
            regions = (shape.aliyun.region,)

        self.schematic_id = pulumi.Output.from_input(identity)
        self.image_id = image_id
        self.image_ids = image_id.apply(lambda found: dict.fromkeys(regions, found))
        factory = shape.factory_url
        self.installer_image = pulumi.Output.from_input(installer_ref(factory, shape.platform, identity, version))
        self.iso_url = pulumi.Output.from_input(iso_url(factory, identity, version, shape.arch))
        self.pxe_url = pulumi.Output.from_input(pxe_url(factory, identity, version, shape.arch))
        self.register_outputs(
            {
                "schematicId": self.schematic_id,
                "imageId": self.image_id,
                "imageIds": self.image_ids,
                "installerImage": self.installer_image,
                "isoUrl": self.iso_url,
                "pxeUrl": self.pxe_url,
            }
        )
