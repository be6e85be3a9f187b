"""The Azure half of TalosImage: a gallery version by way of a page blob, or a managed image by way of a disk."""

import pulumi

from .azure_gallery_store import build_gallery_image
from .azure_image_inputs import AzureImageStore, AzureShape
from .azure_managed_store import build_managed_image
from .image_upload import ImageSource


def build_azure_image(
    name: str, shape: AzureShape, arch: str, source: ImageSource, parent: pulumi.Resource
) -> pulumi.Output[str]:
    """Declare the image's resources and return the id that pools boot from."""
    if shape.store is AzureImageStore.MANAGED_IMAGE:
        return build_managed_image(name, shape, source, parent)
    return build_gallery_image(name, shape, arch, source, parent)
