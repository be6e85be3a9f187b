"""What an image becomes on Alibaba Cloud, and where it is kept: the inputs of that half of TalosImage."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

import pulumi
from pydantic import Field

from ._contract import Shape
from .aliyun_image_resources import AliyunAccess

METAL_CONFIG = "talos.config=http://100.100.100.200/latest/user-data"
"""Kernel argument that lets the metal image read the user data of ECS (siderolabs/talos platform/metal/metal.go)."""


class BootMode(StrEnum):
    """How instances boot the image."""

    UEFI = "UEFI"
    """By UEFI, as current instance types do."""
    BIOS = "BIOS"
    """By BIOS, for instance types that know nothing else."""


class AliyunEndpoints(TypedDict):
    """Where Alibaba Cloud is reached. `{region}` in an address stands for the region."""

    oss: NotRequired[str]
    """Object storage. Default: the region's public endpoint."""
    ecs: NotRequired[str]
    """Elastic Compute Service. Default: the region's public endpoint."""
    ess: NotRequired[str]
    """Auto Scaling. Default: the region's public endpoint."""


class AliyunImageArgs(TypedDict):
    """Where the image of an Alibaba Cloud pool is kept."""

    region: str
    """Region of bucket and image, the one of the alicloud provider given to this component."""
    boot_mode: NotRequired[BootMode]
    """How instances boot. Default: UEFI."""
    experimental_metal: NotRequired[bool]
    """Take Talos' image for metal, which reads its configuration from ECS by a kernel argument: for Talos before 1.14.
    Experimental: such machines tell no provider id, so no autoscaler can manage them. Default: false."""
    retain: NotRequired[int]
    """Older images that are kept, newest first, beside those that something still uses. Default: 1."""
    endpoints: NotRequired[AliyunEndpoints]
    """Addresses that are not the region's public ones."""
    tags: NotRequired[pulumi.Input[Mapping[str, pulumi.Input[str]]]]
    """Tags for the bucket and the image."""


_ADDRESS = r"^https?://"


class EndpointsShape(Shape):
    """Plain half of AliyunEndpoints."""

    oss: str | None = Field(default=None, pattern=_ADDRESS)
    ecs: str | None = Field(default=None, pattern=_ADDRESS)
    ess: str | None = Field(default=None, pattern=_ADDRESS)


class AliyunShape(Shape):
    """Plain half of AliyunImageArgs; the fields of type Any are Inputs, which are not looked at."""

    region: str = Field(pattern=r"^[a-z]{2}-[a-z0-9-]+$")
    boot_mode: BootMode = BootMode.UEFI
    experimental_metal: bool = False
    retain: int = Field(default=1, ge=0)
    endpoints: EndpointsShape = EndpointsShape()
    tags: Any = None

    @property
    def access(self) -> AliyunAccess:
        """Where the custom resources reach Alibaba Cloud."""
        return AliyunAccess(oss=self.endpoints.oss, ecs=self.endpoints.ecs, ess=self.endpoints.ess)
