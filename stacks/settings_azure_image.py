"""The settings of what an image becomes on Azure."""

from typing import Annotated

from hybrid_talos.azure_image_inputs import AzureImageStore, PrincipalType
from hybrid_talos.certificates import certificate
from pydantic import AfterValidator

from .settings_base import Section, TrustedUrl, Uuid


def _blob(value: str) -> str:
    if "{account}" not in value:
        raise ValueError("must hold {account}, which stands for the storage account's name")
    return value


class AzureImage(Section):
    """What an image becomes on Azure, and who uploads it."""

    store: AzureImageStore = AzureImageStore.GALLERY
    """gallery: a version that is copied to the regions of the pools, by way of a page blob. managedImage: a managed
    image in each region, by way of a disk that is written page by page; amd64 alone, without Secure Boot."""
    uploader_principal_id: Uuid | None = None
    """Object id of the identity that runs Pulumi, which is then given the right to write blobs in the storage account;
    left out, it must have the role Storage Blob Data Contributor already. A managed image does not need it."""
    uploader_principal_type: PrincipalType = PrincipalType.SERVICE_PRINCIPAL
    """Kind of that identity: ServicePrincipal, User or Group."""
    signing_certificate: Annotated[str, AfterValidator(certificate)] | None = None
    """Certificate (PEM) that Secure Boot images are signed with; left out, it is asked of the factory."""


class AzureEndpoints(Section):
    """Addresses of Azure's services, where they are not the environment's usual ones."""

    blob: Annotated[TrustedUrl, AfterValidator(_blob)] | None = None
    """Blob storage, with {account} for the account, such as https://{account}.blob.core.chinacloudapi.cn."""
    resource_manager: TrustedUrl | None = None
    """Azure Resource Manager, such as https://management.chinacloudapi.cn; the Azure provider of Pulumi itself only
    knows `environment`."""
