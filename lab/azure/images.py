"""Disks, managed images and galleries.

Sources: learn.microsoft.com "Store and share images in an Azure Compute Gallery" (virtual-machines/
azure-compute-gallery: source in the version's own region, replicas, generations, architecture), docstrings of
pulumi_azure_native.compute, microsoft/AzureStorageExplorer#3029 (upload sizes), Azure/azure-cli#10192 (disk that is
still open for upload), Azure/azure-cli#21264 (no Arm64 managed images).
"""

from collections.abc import Mapping
from typing import Any

from ..provider import Call
from ..world import CloudError, Record, World
from . import disk_access, names
from .arm import ArmKind
from .blob_store import find_by_uri
from .records import Doc, below, dig, lookup, name_of, reference_id, refuse_change, refuse_nested
from .vhd import FOOTER, MIB, verify_vhd

_SMALLEST_UPLOAD = 20 * MIB + FOOTER
_LARGEST_UPLOAD = (32 << 40) + FOOTER
_MOST_REPLICAS = 100
GIB = 1 << 30


def _size_from_blob(call: Call, uri: str, account_id: Any, location: str, owner: str) -> int:
    """Return the virtual size of a VHD in a page blob of the same region."""
    blob, account = find_by_uri(call.world, uri, account_id, owner)
    if account.doc["location"] != location:
        raise CloudError(
            "InvalidParameter",
            f"The storage account {account.id} is in {account.doc['location']}; {owner} in {location} can only be made "
            "from a source in its own region.",
        )
    return verify_vhd(blob, uri)


def _whole_gib(size: int) -> int:
    return -(-size // GIB)


class Disk(ArmKind):
    """A managed disk."""

    token = "azure-native:compute:Disk"
    arm_type = "Microsoft.Compute/disks"
    api_version = "2024-03-02"
    name_input = "diskName"
    name_rule = names.DISK
    # The location is read and create only in the common types of Azure/azure-rest-api-specs (TrackedResource).
    replace_on = frozenset({"resourceGroupName", "diskName", "location"})

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        refuse_change(old, doc, "creationData", "creationData")
        refuse_change(old, doc, "hyperVGeneration")
        names.verify_zones(inputs.get("zones"), doc["location"], name_of(id), most=1)
        option = inputs["creationData"]["createOption"]
        if option == "Empty" and inputs.get("diskSizeGB") is None:
            raise CloudError("InvalidParameter", "Required parameter 'disk.diskSizeGB' is missing (null).")
        if option == "Upload":
            self._upload_size(inputs["creationData"].get("uploadSizeBytes"))
        if old is not None and int(doc.get("diskSizeGB") or old["diskSizeGB"]) < int(old["diskSizeGB"]):
            raise CloudError("OperationNotAllowed", f"Disk {name_of(id)} cannot be made smaller.")

    def _upload_size(self, size: Any) -> None:
        if size is None or not _SMALLEST_UPLOAD <= int(size) <= _LARGEST_UPLOAD:
            raise CloudError(
                "InvalidParameter",
                f"The value '{size}' of parameter 'uploadSizeBytes' is out of range. It must be between "
                f"{_SMALLEST_UPLOAD} and {_LARGEST_UPLOAD} bytes.",
            )
        if (int(size) - FOOTER) % MIB:
            raise CloudError(
                "BadRequest",
                f"The upload size in bytes {size} - 512 bytes for the VHD footer ({int(size) - FOOTER} in this case) "
                "must be a multiple of MiB.",
            )

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        if old is not None:
            kept = {key: old[key] for key in ("diskSizeBytes", "diskState", "uniqueId", "_grant") if key in old}
            return kept | {"diskSizeGB": doc.get("diskSizeGB", old["diskSizeGB"])}
        creation = inputs["creationData"]
        option = creation["createOption"]
        size = int(inputs.get("diskSizeGB") or 0) * GIB
        if option == "Import":
            if not creation.get("sourceUri") or not creation.get("storageAccountId"):
                raise CloudError(
                    "InvalidParameter",
                    "Required parameter 'disk.creationData.sourceUri' or 'disk.creationData.storageAccountId' is "
                    "missing (null).",
                )
            size = max(
                size,
                _size_from_blob(call, creation["sourceUri"], creation["storageAccountId"], doc["location"], id),
            )
        elif option == "Upload":
            size = int(creation["uploadSizeBytes"]) - FOOTER
        elif option == "Copy":
            source = lookup(call.world, "Disk", creation.get("sourceResourceId"))
            if source is None:
                raise CloudError("NotFound", f"Disk {creation.get('sourceResourceId')} is not found.")
            size = max(size, int(source.doc["diskSizeBytes"]))
        made: Doc = {
            "diskSizeBytes": size,
            "diskSizeGB": inputs.get("diskSizeGB") or _whole_gib(size),
            "diskState": "ReadyToUpload" if option == "Upload" else "Unattached",
            "uniqueId": call.world.new_id("disk"),
        }
        if option == "Upload":
            disk_access.blob_of(call.world, made).create(size + FOOTER, {"settings": {}, "metadata": {}})
        return made

    def _before_delete(self, call: Call, record: Record) -> None:
        if record.doc["diskState"] in ("ActiveUpload", "ActiveSAS"):
            raise CloudError(
                "OperationNotAllowed",
                f"There is currently an active shared access signature (SAS) on disk {name_of(record.id)}. Call "
                "EndGetAccess before attempting this operation.",
            )

    def _remove(self, world: World, record: Record) -> None:
        disk_access.blob_of(world, record.doc).remove()
        super()._remove(world, record)


class Image(ArmKind):
    """A managed image: one region, x64 only."""

    token = "azure-native:compute:Image"
    arm_type = "Microsoft.Compute/images"
    api_version = "2024-11-01"
    name_input = "imageName"
    name_rule = names.IMAGE
    replace_on = frozenset({"resourceGroupName", "imageName", "location"})
    schema_defaults = {"hyperVGeneration": "V1"}

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        refuse_change(old, doc, "storageProfile", "image.storageProfile")
        refuse_change(old, doc, "hyperVGeneration", "image.hyperVGeneration")
        disk = dig(inputs, "storageProfile.osDisk")
        if not isinstance(disk, Mapping):
            raise CloudError("InvalidParameter", "Required parameter 'image.storageProfile.osDisk' is missing (null).")
        if sum(bool(disk.get(key)) for key in ("blobUri", "managedDisk", "snapshot")) != 1:
            raise CloudError(
                "InvalidParameter",
                "The OS disk of an image is made from exactly one of blobUri, managedDisk and snapshot.",
            )
        if disk.get("osState") != "Generalized":
            raise CloudError(
                "InvalidParameter", "The value of parameter 'osState' of a managed image must be Generalized."
            )

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        if old is not None:
            return {"_sizeGB": old["_sizeGB"]}
        disk = inputs["storageProfile"]["osDisk"]
        if uri := disk.get("blobUri"):
            # An image names no account: the blob's address does.
            account = next(
                (
                    r.id
                    for r in call.world.find("azure-native", "StorageAccount")
                    if r.doc["name"] in (uri.split("/")[2].split(".")[0], uri.split("/")[3])
                ),
                uri,
            )
            return {"_sizeGB": _whole_gib(_size_from_blob(call, uri, account, doc["location"], id))}
        source = image_disk(call, reference_id(disk.get("managedDisk") or disk.get("snapshot")), doc["location"], id)
        if (source.doc.get("supportedCapabilities") or {}).get("architecture") == "Arm64":
            raise CloudError(
                "BadRequest", "Managed images of CPU architecture 'Arm64' are not supported; use a gallery."
            )
        return {"_sizeGB": _whole_gib(int(source.doc["diskSizeBytes"]))}


def image_disk(call: Call, id: Any, location: str, owner: str) -> Record:
    """Return the disk that an image is made from; raise CloudError when it is not ready or elsewhere."""
    disk = lookup(call.world, "Disk", id)
    if disk is None:
        raise CloudError("NotFound", f"Disk {id} is not found.")
    if disk.doc["location"] != location:
        raise CloudError("InvalidParameter", f"Disk {id} is in {disk.doc['location']}, but {owner} is in {location}.")
    if disk.doc["diskState"] != "Unattached":
        raise CloudError(
            "OperationNotAllowed",
            f"Disk {name_of(disk.id)} is in state '{disk.doc['diskState']}'; revoke access to it before an image is "
            "made of it.",
        )
    if dig(disk.doc, "creationData.createOption") == "Upload":
        verify_vhd(disk_access.blob_of(call.world, disk.doc), f"of disk {name_of(disk.id)}")
    return disk


class Gallery(ArmKind):
    """A compute gallery."""

    token = "azure-native:compute:Gallery"
    arm_type = "Microsoft.Compute/galleries"
    api_version = "2024-03-03"
    name_input = "galleryName"
    name_rule = names.GALLERY
    replace_on = frozenset({"resourceGroupName", "galleryName", "location"})

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        unique = old["identifier"] if old else {"uniqueName": call.world.new_id("gallery")}
        return {"identifier": unique}

    def _before_delete(self, call: Call, record: Record) -> None:
        refuse_nested(call.world, record)


class GalleryImage(ArmKind):
    """An image definition: what all its versions have in common."""

    token = "azure-native:compute:GalleryImage"
    arm_type = "Microsoft.Compute/galleries/images"
    api_version = "2024-03-03"
    name_input = "galleryImageName"
    parents = ("galleryName",)
    naming = "copy"
    name_rule = names.GALLERY_IMAGE
    replace_on = frozenset({"resourceGroupName", "galleryName", "galleryImageName", "location"})
    schema_defaults = {"hyperVGeneration": "V1", "architecture": "x64"}

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        for path in ("identifier", "osType", "osState", "hyperVGeneration", "architecture"):
            refuse_change(old, doc, path, f"galleryImage.properties.{path}")
        if doc["architecture"] == "Arm64" and doc["hyperVGeneration"] != "V2":
            raise CloudError(
                "InvalidParameter", "CPU architecture 'Arm64' is supported with hypervisor generation V2 only."
            )
        for key, longest in (("publisher", 128), ("offer", 64), ("sku", 64)):
            if not 0 < len(inputs["identifier"][key]) <= longest:
                raise CloudError("InvalidParameter", f"identifier.{key} must have 1 to {longest} characters.")
        for other in below(call.world, id.rsplit("/images/", 1)[0], "GalleryImage"):
            if other.id.lower() != id.lower() and other.doc["identifier"] == inputs["identifier"]:
                raise CloudError(
                    "Conflict", f"Another image definition has the same publisher, offer and sku: {other.id}."
                )

    def _before_delete(self, call: Call, record: Record) -> None:
        refuse_nested(call.world, record)


class GalleryImageVersion(ArmKind):
    """One version of an image, replicated to regions."""

    token = "azure-native:compute:GalleryImageVersion"
    arm_type = "Microsoft.Compute/galleries/images/versions"
    api_version = "2024-03-03"
    name_input = "galleryImageVersionName"
    parents = ("galleryName", "galleryImageName")
    naming = "copy"
    name_rule = names.GALLERY_IMAGE_VERSION
    replace_on = frozenset(
        {"resourceGroupName", "galleryName", "galleryImageName", "galleryImageVersionName", "location"}
    )

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        refuse_change(old, doc, "storageProfile.osDiskImage.source", "galleryImageVersion.properties.storageProfile")
        refuse_change(old, doc, "storageProfile.source", "galleryImageVersion.properties.storageProfile.source.id")
        if any(int(part) > (1 << 31) - 1 for part in inputs["galleryImageVersionName"].split(".")):
            raise CloudError("InvalidParameter", "The numbers of a gallery image version must fit 32-bit integers.")
        regions = [self._region(region) for region in dig(inputs, "publishingProfile.targetRegions") or ()]
        if len(set(regions)) < len(regions):
            raise CloudError("InvalidParameter", "The target regions of a gallery image version must not repeat.")
        if regions and doc["location"] not in regions:
            raise CloudError(
                "InvalidParameter",
                f"The target regions {', '.join(regions)} of gallery image version {id} must include its own location "
                f"'{doc['location']}'.",
            )

    def _region(self, region: Mapping[str, Any]) -> str:
        count = region.get("regionalReplicaCount")
        if count is not None and not 1 <= int(count) <= _MOST_REPLICAS:
            raise CloudError("InvalidParameter", f"A region takes 1 to {_MOST_REPLICAS} replicas, not {count}.")
        return names.verify_location(region["name"], self.arm_type)

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        regions = [names.normalise_location(r["name"]) for r in dig(inputs, "publishingProfile.targetRegions") or ()]
        notes: Doc = {"_regions": regions or [doc["location"]]}
        if old is not None:
            return notes | {"_sizeGB": old["_sizeGB"], "storageProfile": old["storageProfile"]}
        definition = lookup(call.world, "GalleryImage", id.rsplit("/versions/", 1)[0])
        assert definition is not None  # the parent was found before
        size = self._source_size(call, id, inputs, doc, definition)
        profile = {**inputs["storageProfile"]}
        profile["osDiskImage"] = {**(profile.get("osDiskImage") or {}), "sizeInGB": size}
        return notes | {"_sizeGB": size, "storageProfile": profile}

    def _source_size(self, call: Call, id: str, inputs: Doc, doc: Doc, definition: Record) -> int:
        whole = reference_id(dig(inputs, "storageProfile.source"))
        disk = dig(inputs, "storageProfile.osDiskImage.source") or {}
        if bool(whole) == bool(disk):
            raise CloudError(
                "InvalidParameter",
                "A gallery image version is made from exactly one of storageProfile.source and "
                "storageProfile.osDiskImage.source.",
            )
        if whole:
            image = lookup(call.world, "Image", whole)
            if image is None or image.doc["location"] != doc["location"]:
                raise CloudError(
                    "InvalidParameter", f"The source image {whole} was not found in the location {doc['location']}."
                )
            self._same_generation(definition, image.doc["hyperVGeneration"], whole)
            return int(image.doc["_sizeGB"])
        if uri := disk.get("uri"):
            if not disk.get("storageAccountId"):
                raise CloudError(
                    "InvalidParameter",
                    "Required parameter 'storageProfile.osDiskImage.source.storageAccountId' is missing (null).",
                )
            return _whole_gib(_size_from_blob(call, uri, disk["storageAccountId"], doc["location"], id))
        source = image_disk(call, disk.get("id"), doc["location"], id)
        self._same_generation(definition, source.doc.get("hyperVGeneration", "V1"), source.id)
        return _whole_gib(int(source.doc["diskSizeBytes"]))

    def _same_generation(self, definition: Record, generation: str, source: str) -> None:
        if definition.doc["hyperVGeneration"] != generation:
            raise CloudError(
                "InvalidParameter",
                f"The resource with id '{source}' has a different Hypervisor generation ['{generation}'] than the "
                "parent "
                f"gallery image Hypervisor generation ['{definition.doc['hyperVGeneration']}'].",
            )
