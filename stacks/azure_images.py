"""The images of the Azure pools: one for each architecture, and of managed images one for each region too."""

from collections.abc import Mapping

import pulumi
from hybrid_talos.arch import Arch
from hybrid_talos.azure_image_inputs import AzureEndpoints, AzureImageArgs, AzureImageStore
from hybrid_talos.azure_worker_pool import DISK_GB
from hybrid_talos.talos_image import Platform, TalosImage
from pulumi_azure_native import resources

from .images import image_args
from .settings import AzureSettings, Settings


class AzureImages:
    """What the pools boot."""

    def __init__(
        self, settings: Settings, azure: AzureSettings, by_place: Mapping[tuple[Arch, str], TalosImage]
    ) -> None:
        self._settings = settings
        self._azure = azure
        self._by_place = by_place

    def of(self, arch: Arch, region: str) -> TalosImage:
        """Return the image of an architecture in a region."""
        return self._by_place[arch, region]

    def ids(self) -> dict[str, pulumi.Output[str]]:
        """Return the ids as the stack gives them: by region, and by architecture where it is not the usual one."""
        found = {}
        for (arch, region), image in self._by_place.items():
            if self._azure.image.store is AzureImageStore.GALLERY and region != self._azure.location:
                continue
            usual = arch is self._settings.image.arch
            found[f"azure/{region}" if usual else f"azure/{region}/{arch}"] = image.image_id
        return found


def build_azure_images(
    settings: Settings,
    azure: AzureSettings,
    group: resources.ResourceGroup,
    tags: Mapping[str, str],
    opts: pulumi.ResourceOptions,
) -> AzureImages:
    """Build the images that the settings' pools boot."""
    places = sorted({(settings.arch_of(pool), azure.location_of(pool)) for pool in azure.pools})
    built: dict[tuple[Arch, str], TalosImage] = {}
    if azure.image.store is AzureImageStore.MANAGED_IMAGE:
        for arch, region in places:
            suffix = "" if region == azure.location else f"-{region}"
            args = _args(settings, azure, group, tags, region)
            disk = _smallest_disk(settings, azure, arch, region)
            built[arch, region] = _image(f"image-azure{suffix}", settings, arch, disk, args, opts)
        return AzureImages(settings, azure, built)
    # Every pool may need it where it is, and a version must be in the region that it was made in.
    regions = sorted({region for _, region in places} | {azure.location})
    for arch in sorted({arch for arch, _ in places}):
        name = "image-azure" if arch is settings.image.arch else f"image-azure-{arch}"
        args = _args(settings, azure, group, tags, azure.location)
        args["replica_regions"] = [region for region in regions if region != azure.location]
        image = _image(name, settings, arch, _smallest_disk(settings, azure, arch), args, opts)
        built |= dict.fromkeys(((arch, region) for region in regions), image)
    return AzureImages(settings, azure, built)


def _image(
    name: str, settings: Settings, arch: Arch, disk: int, args: AzureImageArgs, opts: pulumi.ResourceOptions
) -> TalosImage:
    common = image_args(settings, Platform.AZURE, arch)
    return TalosImage(name, {**common, "system_disk_gb": disk, "azure": args}, opts)


def _smallest_disk(settings: Settings, azure: AzureSettings, arch: Arch, region: str | None = None) -> int:
    """Return the GiB of the smallest system disk among the pools that boot an image."""
    return min(
        pool.os_disk_size_gb or DISK_GB
        for pool in azure.pools
        if settings.arch_of(pool) is arch and region in (None, azure.location_of(pool))
    )


def _args(
    settings: Settings,
    azure: AzureSettings,
    group: resources.ResourceGroup,
    tags: Mapping[str, str],
    region: str,
) -> AzureImageArgs:
    image = azure.image
    args: AzureImageArgs = {
        "resource_group_name": group.name,
        "location": region,
        "store": image.store,
        "retain": settings.image.retain,
        "environment": azure.environment,
        "endpoints": azure_endpoints(azure),
        "tags": tags,
    }
    if image.store is AzureImageStore.MANAGED_IMAGE:
        args["subscription_id"] = azure.subscription_id
    if image.uploader_principal_id is not None:
        args["uploader_principal_id"] = image.uploader_principal_id
        args["uploader_principal_type"] = image.uploader_principal_type
    if image.signing_certificate is not None:
        args["signing_certificate"] = image.signing_certificate
    return args


def azure_endpoints(azure: AzureSettings) -> AzureEndpoints:
    """Return the addresses that the settings give; empty for those of the environment."""
    endpoints: AzureEndpoints = {}
    if azure.endpoints.blob is not None:
        endpoints["blob"] = azure.endpoints.blob
    if azure.endpoints.resource_manager is not None:
        endpoints["resource_manager"] = azure.endpoints.resource_manager
    return endpoints
