"""Whether the machines of a scale set can boot its image.

Sources: redhat-developer/mapt#489 (generation), Azure/azure-cli#31234 (security type), learn.microsoft.com "Trusted
Launch for Azure virtual machines", "Create a VM from a generalized image version" (latest version in the region).
"""

from dataclasses import dataclass
from typing import Any

from ..world import CloudError, Record, World
from .records import Doc, below, dig, lookup, name_of
from .sizes import Size, parse_size

_MOST_OS_DISK_GB = 4095


@dataclass(frozen=True)
class BootImage:
    """What matters of an image when a machine boots from it."""

    id: str
    generation: str
    architecture: str
    size_gb: int
    trusted_launch: bool


def resolve(world: World, id: str, location: str) -> BootImage:
    """Return the image that an id means in a region; raise CloudError when there is none."""
    if image := lookup(world, "Image", id):
        if image.doc["location"] == location:
            return BootImage(image.id, image.doc["hyperVGeneration"], "x64", int(image.doc["_sizeGB"]), False)
    elif version := _version(world, id, location):
        definition = lookup(world, "GalleryImage", version.id.rsplit("/versions/", 1)[0])
        assert definition is not None  # a version does not outlive its definition
        features = {f.get("name"): str(f.get("value")) for f in definition.doc.get("features") or ()}
        return BootImage(
            version.id,
            definition.doc["hyperVGeneration"],
            definition.doc["architecture"],
            int(version.doc["_sizeGB"]),
            features.get("SecurityType", "").startswith("TrustedLaunch"),
        )
    if "/galleries/" in id.lower():
        raise CloudError(
            "GalleryImageNotFound",
            f"The gallery image {id} is not available in {location} region. Please contact image owner to replicate to "
            "this region, or change your requested region.",
        )
    raise CloudError("InvalidParameter", f"The Image '{id}' cannot be found in '{location}' region.")


def _version(world: World, id: str, location: str) -> Record | None:
    if version := lookup(world, "GalleryImageVersion", id):
        return version if location in version.doc["_regions"] else None
    if lookup(world, "GalleryImage", id) is None:
        return None
    here = [r for r in below(world, id, "GalleryImageVersion") if location in r.doc["_regions"]]
    here = [r for r in here if not dig(r.doc, "publishingProfile.excludeFromLatest")]
    return max(here, key=lambda r: [int(n) for n in name_of(r.id).split(".")], default=None)


def verify_image(world: World, inputs: Doc, location: str) -> BootImage:
    """Raise CloudError when the machines could not boot; return their image."""
    profile = inputs["virtualMachineProfile"]
    storage = profile.get("storageProfile") or {}
    reference: dict[str, Any] = storage.get("imageReference") or {}
    if not reference.get("id"):
        wanted = ":".join(str(reference.get(key)) for key in ("publisher", "offer", "sku", "version"))
        raise CloudError(
            "PlatformImageNotFound",
            f"The platform image '{wanted}' is not available. Verify that all fields in the storage profile are "
            "correct.",
        )
    image = resolve(world, reference["id"], location)
    size = parse_size(inputs["sku"]["name"])
    assert size is not None  # the size was checked before
    if image.generation not in size.generations:
        number = image.generation[1:]
        raise CloudError(
            "BadRequest",
            f"The selected VM size '{size.name}' cannot boot Hypervisor Generation '{number}'. If this was a Create "
            "operation please check that the Hypervisor Generation of the Image matches the Hypervisor Generation of "
            "the "
            f"selected VM Size. If this was an Update operation please select a Hypervisor Generation '{number}' VM "
            "Size. "
            "For more information, see https://aka.ms/azuregen2vm",
        )
    wants = "Arm64" if size.arm64 else "x64"
    if image.architecture != wants:
        raise CloudError(
            "BadRequest",
            f"Cannot create a VM of size '{size.name}' because this VM size only supports a CPU Architecture of "
            f"'{wants}', "
            f"but an image or disk with CPU Architecture '{image.architecture}' was given. Please check that the CPU "
            "Architecture of the image or disk is compatible with that of the VM size.",
        )
    _verify_disk(storage.get("osDisk") or {}, image)
    _verify_ephemeral(storage.get("osDisk") or {}, size)
    _verify_security(profile.get("securityProfile") or {}, image)
    return image


def _verify_disk(disk: dict[str, Any], image: BootImage) -> None:
    # Docstring of create_option: "The only allowed value is: FromImage."
    if disk.get("createOption") != "FromImage":
        raise CloudError("InvalidParameter", "The value of parameter 'osDisk.createOption' must be 'FromImage'.")
    given = disk.get("diskSizeGB")
    if given is not None and int(given) < image.size_gb:
        raise CloudError(
            "ResizeDiskError",
            f"The specified disk size {given} GB is smaller than the size of the corresponding disk in the VM image: "
            f"{image.size_gb} GB. This is not allowed. Please choose equal or greater size or do not specify an "
            "explicit "
            "size.",
        )
    if given is not None and int(given) > _MOST_OS_DISK_GB:
        raise CloudError("InvalidParameter", f"An OS disk has at most {_MOST_OS_DISK_GB} GB, not {given}.")


def _verify_ephemeral(disk: dict[str, Any], size: Size) -> None:
    """Refuse what "Ephemeral OS disks for Azure VMs" (learn.microsoft.com) names as not supported."""
    settings = disk.get("diffDiskSettings")
    if not settings:
        return
    if settings.get("option") != "Local":
        raise CloudError("InvalidParameter", "The value of parameter 'diffDiskSettings.option' must be 'Local'.")
    if disk.get("caching") != "ReadOnly":
        raise CloudError("InvalidParameter", "OS disk caching must be 'ReadOnly' for an ephemeral OS disk.")
    if (disk.get("managedDisk") or {}).get("storageAccountType") not in (None, "Standard_LRS"):
        raise CloudError("InvalidParameter", "The storage account type of an ephemeral OS disk must be Standard_LRS.")
    placement = settings.get("placement") or "CacheDisk"
    if placement not in size.ephemeral:
        raise CloudError(
            "NotSupported",
            f"OS disk of Ephemeral VM with size {size.name} is not allowed with placement {placement}: the size "
            "does not support it.",
        )


def _verify_security(security: dict[str, Any], image: BootImage) -> None:
    kind = security.get("securityType")
    if kind == "Standard":
        raise CloudError(
            "InvalidParameter",
            "The value 'Standard' is not available for property 'securityType' until the feature "
            "'UseStandardSecurityType' is registered for this subscription.",
        )
    if security.get("uefiSettings") and kind is None:
        raise CloudError("BadRequest", "uefiSettings can only be set together with securityType.")
    if kind == "TrustedLaunch" and not image.trusted_launch:
        raise CloudError(
            "BadRequest",
            f"Security type 'TrustedLaunch' is not supported for the image {image.id}: use a gallery image of "
            "generation "
            "V2 with the feature SecurityType=TrustedLaunch or TrustedLaunchSupported, or leave the security profile "
            "out.",
        )
    if kind == "ConfidentialVM":
        raise CloudError("BadRequest", f"The image {image.id} does not support security type 'ConfidentialVM'.")
