"""Where the image of an Azure pool is kept: the typed inputs and their checks."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

import pulumi
from pydantic import Field

from ._contract import Shape
from .arch import Arch
from .azure_cloud import ADDRESSES, AzureEnvironment
from .azure_image_names import region_key
from .azure_image_resources import AzureAccess


class PrincipalType(StrEnum):
    """What kind of identity a role is given to."""

    SERVICE_PRINCIPAL = "ServicePrincipal"
    """An application or a managed identity, as in a pipeline."""
    USER = "User"
    """A person."""
    GROUP = "Group"
    """A group of either."""


class AzureImageStore(StrEnum):
    """What the image becomes on Azure."""

    GALLERY = "gallery"
    """A version in a compute gallery, made of a page blob: any architecture, any number of regions, Secure Boot."""
    MANAGED_IMAGE = "managedImage"
    """A managed image, made of a disk that is written page by page: one region, amd64, no storage account."""


class AzureEndpoints(TypedDict):
    """Where Azure is reached, for private endpoints; a national cloud only needs `environment`."""

    blob: NotRequired[str]
    """Blob endpoint, with `{account}` in place of the storage account's name. Default: what the account says."""
    resource_manager: NotRequired[str]
    """Azure Resource Manager, such as `https://management.chinacloudapi.cn`. Default: that of `environment`."""
    authority: NotRequired[str]
    """Host that gives tokens, such as `login.chinacloudapi.cn`. Default: that of `environment`."""


class AzureImageArgs(TypedDict):
    """Where the image of an Azure pool is kept."""

    resource_group_name: pulumi.Input[str]
    """Resource group for the image and all that it takes."""
    location: str
    """Region of all of it, such as `westeurope`."""
    store: NotRequired[AzureImageStore]
    """What the image becomes. Default: `gallery`."""
    subscription_id: NotRequired[pulumi.Input[str]]
    """Subscription of the resource group. Required for a managed image; for a gallery it is the provider's."""
    replica_regions: NotRequired[Sequence[str]]
    """More regions whose pools boot this image; for a gallery alone. Default: none."""
    retain: NotRequired[int]
    """Older images that are kept, newest first, beside those that a machine, a scale set or its model uses: to
    those pools can go back without an upload. Default: 1."""
    uploader_principal_id: NotRequired[pulumi.Input[str]]
    """Object id of the identity that runs Pulumi: it is given the right to write blobs in the account. Left
    out, that right must be there already. A managed image does not need it."""
    uploader_principal_type: NotRequired[PrincipalType]
    """Kind of that identity. Default: a service principal."""
    signing_certificate: NotRequired[str]
    """PEM text of the certificate that a Secure Boot image is signed with, which machines are told to trust.
    Default: the factory's, which it serves."""
    environment: NotRequired[AzureEnvironment]
    """Which of Microsoft's clouds. Default: `public`."""
    endpoints: NotRequired[AzureEndpoints]
    """Addresses that are not those of the environment."""
    tags: NotRequired[pulumi.Input[Mapping[str, pulumi.Input[str]]]]
    """Tags for every resource."""


class EndpointsShape(Shape):
    """Plain half of AzureEndpoints."""

    blob: str | None = Field(default=None, pattern=r"^https://")
    resource_manager: str | None = Field(default=None, pattern=r"^https://")
    authority: str | None = Field(default=None, pattern=r"^[A-Za-z0-9.:-]+$")


class AzureShape(Shape):
    """Plain half of AzureImageArgs; the fields of type Any are Inputs, which are not looked at."""

    resource_group_name: Any
    location: str = Field(min_length=1)
    store: AzureImageStore = AzureImageStore.GALLERY
    subscription_id: Any = None
    replica_regions: tuple[str, ...] = ()
    retain: int = Field(default=1, ge=0)
    uploader_principal_id: Any = None
    uploader_principal_type: PrincipalType = PrincipalType.SERVICE_PRINCIPAL
    signing_certificate: str | None = Field(default=None, pattern=r"^\s*-----BEGIN CERTIFICATE-----")
    environment: AzureEnvironment = AzureEnvironment.PUBLIC
    endpoints: EndpointsShape = EndpointsShape()
    tags: Any = None

    def problem(self, arch: Arch, *, secure_boot: bool) -> str | None:
        """Return why this store cannot hold that image; None when it can."""
        if self.store is AzureImageStore.GALLERY:
            return None
        other = "leave azure.store out for a gallery, which can"
        if arch is not Arch.AMD64:
            # Azure/azure-cli#21264.
            return f"azure.store: a managed image is for x64 machines only, not {arch.value}; {other}"
        if secure_boot:
            # learn.microsoft.com "Trusted Launch for Azure virtual machines", unsupported features.
            return f"azure.store: machines of a managed image cannot use Secure Boot; {other}"
        if beyond := [region for region in self.regions if region != region_key(self.location)]:
            return (
                f"azure.replica_regions: a managed image is in {region_key(self.location)} alone, not in "
                f"{', '.join(beyond)}; {other}"
            )
        if self.subscription_id is None:
            return "azure.subscription_id: required for a managed image"
        return None

    @property
    def regions(self) -> tuple[str, ...]:
        """Every region that the image can be booted in, in one spelling."""
        return tuple(dict.fromkeys(region_key(region) for region in (self.location, *self.replica_regions)))

    @property
    def authority(self) -> str | None:
        """The host that gives tokens; None for the public cloud's own."""
        if self.endpoints.authority is not None or self.environment is AzureEnvironment.PUBLIC:
            return self.endpoints.authority
        return ADDRESSES[self.environment].authority

    @property
    def access(self) -> AzureAccess:
        """How the custom resources reach Azure."""
        return {
            "environment": self.environment.value,
            "resource_manager": self.endpoints.resource_manager,
            "authority": self.endpoints.authority,
        }
