"""A Talos image for one platform, from the Image Factory: named by its content, ready to be booted."""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, NotRequired, TypedDict

import pulumi
from pydantic import Field, field_validator, model_validator

from ._contract import Shape, check
from .aliyun_image import build_aliyun_image
from .aliyun_image_inputs import METAL_CONFIG, AliyunImageArgs, AliyunShape
from .arch import Arch
from .azure_image import build_azure_image
from .azure_image_inputs import AzureImageArgs, AzureShape
from .image_assets import (
    VERSION_PATTERN,
    disk_assets,
    file_problem,
    installer_ref,
    iso_url,
    metal_assets,
    platform_problem,
    pxe_url,
)
from .image_inputs import (
    SERVER_PATTERN,
    SHA256_PATTERN,
    ImageFileArgs,
    ImageFileShape,
    MetaShape,
    MetaValueArgs,
    OverlayArgs,
    OverlayShape,
    SecureBootArgs,
    SecureBootShape,
    image_schematic,
)
from .image_upload import FactorySchematic, ImageSource
from .schematic import EXTENSION_PATTERN, RENAMED_EXTENSIONS, current_extensions, schematic_id, schematic_yaml


class Platform(StrEnum):
    """Where the image boots."""

    METAL = "metal"
    """Machines that exist: nothing is uploaded, the factory is told of the schematic, and references are given."""
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
    proxy: NotRequired[str]
    """HTTP proxy on the way to the factory, such as `http://proxy.example.com:3128`, without credentials: those belong
    into HTTPS_PROXY, which is used when this is left out."""
    extensions: NotRequired[Sequence[str]]
    """System extensions, such as `siderolabs/drbd`. Their order does not matter. Default: none."""
    extra_kernel_args: NotRequired[Sequence[str]]
    """Kernel arguments, in order. Default: none."""
    meta: NotRequired[Sequence[MetaValueArgs]]
    """Initial values of Talos' META partition, in order. Default: none."""
    secure_boot: NotRequired[SecureBootArgs]
    """Secure Boot; not on Alibaba Cloud, for which Talos has no such image. Default: off."""
    overlay: NotRequired[OverlayArgs]
    """Overlay of a single-board computer; for metal alone. Default: none."""
    arch: NotRequired[Arch]
    """CPU architecture. Default: amd64."""
    compressed_sha256: NotRequired[Mapping[str, str]]
    """SHA-256 that a download must have, packed as the factory serves it, by the asset's file name such as
    `azure-amd64.vhd.zst`. Only assets that are pinned are then asked for. The factory publishes no digest: take both
    from `asset` and `sha256` of the upload resource of a first run. Default: any."""
    image_file: NotRequired[ImageFileArgs]
    """An image that is there already; the factory is then not asked for one. Not for metal. Default: none."""
    system_disk_gb: NotRequired[int]
    """Size in GiB of the smallest system disk that is to boot the image: a larger image is refused, and nothing of it
    kept. Not for metal. Default: any."""
    azure: NotRequired[AzureImageArgs]
    """Where the image is kept on Azure. Required for platform azure, refused for any other."""
    aliyun: NotRequired[AliyunImageArgs]
    """Where the image is kept on Alibaba Cloud. Required for platform alibabacloud, refused for any other."""


class _Shape(Shape):
    platform: Platform
    talos_version: str = Field(pattern=VERSION_PATTERN)
    factory_url: str = Field(default="https://factory.talos.dev", pattern=SERVER_PATTERN)
    factory_ca: str | None = None
    proxy: str | None = Field(default=None, pattern=SERVER_PATTERN)
    extensions: tuple[str, ...] = ()
    extra_kernel_args: tuple[str, ...] = ()
    meta: tuple[MetaShape, ...] = ()
    secure_boot: SecureBootShape = SecureBootShape(enabled=False)
    overlay: OverlayShape | None = None
    arch: Arch = Arch.AMD64
    compressed_sha256: Mapping[str, Annotated[str, Field(pattern=SHA256_PATTERN)]] = {}
    image_file: ImageFileShape | None = None
    system_disk_gb: int | None = Field(default=None, ge=1)
    azure: AzureShape | None = None
    aliyun: AliyunShape | None = None

    @property
    def on_metal(self) -> bool:
        """Whether the metal image stands in for that of the platform."""
        return self.aliyun is not None and self.aliyun.experimental_metal

    @property
    def assets(self) -> tuple[str, ...]:
        """File names that the factory may serve the image under."""
        if self.on_metal:
            return metal_assets(self.arch)
        return disk_assets(self.platform, self.arch, secure_boot=self.secure_boot.enabled)

    @property
    def kernel_args(self) -> tuple[str, ...]:
        """Kernel arguments of the image."""
        return (*self.extra_kernel_args, METAL_CONFIG) if self.on_metal else self.extra_kernel_args

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
        if problem := platform_problem(
            self.platform,
            self.arch,
            self.talos_version,
            secure_boot=self.secure_boot.enabled,
            on_metal=self.on_metal,
        ):
            raise ValueError(problem)
        if self.azure and (problem := self.azure.problem(self.arch, secure_boot=self.secure_boot.enabled)):
            raise ValueError(problem)
        if self.on_metal and any(argument.startswith("talos.config=") for argument in self.extra_kernel_args):
            raise ValueError("extra_kernel_args: talos.config is set by aliyun.experimental_metal; leave it out")
        if self.overlay is not None and self.platform is not Platform.METAL:
            raise ValueError(f"overlay: is for boards, which are platform metal, not {self.platform.value}")
        return self

    @model_validator(mode="after")
    def _source_fits_platform(self) -> "_Shape":
        assets = self.assets
        for name in sorted(self.compressed_sha256):
            if name not in assets:
                known = ", ".join(assets) or "none, for nothing is uploaded"
                raise ValueError(f"compressed_sha256: '{name}' is no asset of this image; there is {known}")
        if self.system_disk_gb is not None and self.platform is Platform.METAL:
            raise ValueError("system_disk_gb: nothing is uploaded for platform metal")
        if self.image_file is not None:
            if self.platform is Platform.METAL:
                raise ValueError("image_file: nothing is uploaded for platform metal")
            if self.compressed_sha256:
                raise ValueError("compressed_sha256: belongs to the factory's assets; image_file has its own sha256")
            if problem := file_problem(self.platform, self.image_file.location):
                raise ValueError(f"image_file.location: {problem}")
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

    On Alibaba Cloud the qcow2 goes through a private OSS bucket, from which it is imported and removed. The identity
    needs OSS put, get, list and delete on that bucket, ecs:ImportImage, DescribeImages, DeleteImage, TagResources,
    UntagResources and DescribeInstances, and ess:DescribeScalingConfigurations; the account needs the service role
    AliyunECSImageImportDefaultRole. One TalosImage serves one region, that of the provider it is given.
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
        schematic = image_schematic(extensions, shape.kernel_args, shape.meta, shape.secure_boot, shape.overlay)
        identity, version = schematic_id(schematic), shape.talos_version.removeprefix("v")
        secure, file = shape.secure_boot.enabled, shape.image_file
        source = ImageSource(
            factory_url=shape.factory_url,
            factory_ca=shape.factory_ca,
            proxy=shape.proxy,
            schematic=schematic,
            extensions=extensions,
            talos_version=version,
            secure_boot=secure,
            content=file.sha256.lower() if file else identity,
            assets=shape.assets,
            compressed_sha256=dict(shape.compressed_sha256),
            system_disk_gb=shape.system_disk_gb,
            image_file={"location": file.location, "sha256": file.sha256.lower()} if file else None,
        )
        regions: tuple[str, ...] = ()
        image_id = pulumi.Output.from_input("")
        if shape.azure is not None:
            image_id = build_azure_image(name, shape.azure, shape.arch, source, self)
            regions = shape.azure.regions
        elif shape.aliyun is not None:
            image_id = build_aliyun_image(name, shape.aliyun, shape.arch, source, self)
            regions = (shape.aliyun.region,)

        self.schematic_id = self._known_to_the_factory(name, shape, schematic, extensions)
        self.image_id = image_id
        self.image_ids = image_id.apply(lambda found: dict.fromkeys(regions, found))
        factory, arch = shape.factory_url, shape.arch
        booted = Platform.METAL if shape.on_metal else shape.platform
        self.installer_image = self.schematic_id.apply(
            lambda found: installer_ref(factory, booted, found, version, secure_boot=secure)
        )
        self.iso_url = self.schematic_id.apply(lambda found: iso_url(factory, found, version, arch, secure_boot=secure))
        self.pxe_url = self.schematic_id.apply(lambda found: pxe_url(factory, found, version, arch, secure_boot=secure))
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

    def _known_to_the_factory(
        self, name: str, shape: _Shape, schematic: str, extensions: tuple[str, ...]
    ) -> pulumi.Output[str]:
        """Return the schematic's id, known in a preview; what depends on it waits until the factory knows it too.

        An upload tells the factory by itself, if it asks it at all.
        """
        identity = schematic_id(schematic)
        if shape.platform is not Platform.METAL:
            return pulumi.Output.from_input(identity)
        told = FactorySchematic(
            f"{name}-schematic",
            factory_url=shape.factory_url,
            factory_ca=shape.factory_ca,
            proxy=shape.proxy,
            schematic=schematic,
            extensions=extensions,
            overlay=shape.overlay.name if shape.overlay else None,
            talos_version=shape.talos_version.removeprefix("v"),
            opts=pulumi.ResourceOptions(parent=self),
        )
        known: pulumi.Output[str] = told.urn.apply(lambda _: identity)
        return known
