"""Storage accounts and their containers.

Sources: learn.microsoft.com "Storage account overview" (storage/common/storage-account-overview), "Prevent Shared Key
authorization", "Remediate anonymous read access to blob data"; lengths of names from Azure/azure-rest-api-specs
storage 2024-01-01 (parameters accountName 3-24, containerName 3-63).
"""

from ..provider import Call
from ..world import CloudError, Record, World
from . import names
from .arm import ArmKind
from .blob_store import remove_below
from .records import PACKAGE, Doc, below, name_of


class StorageAccount(ArmKind):
    """A storage account; its name is the account's name everywhere in Azure."""

    token = "azure-native:storage:StorageAccount"
    arm_type = "Microsoft.Storage/storageAccounts"
    api_version = "2024-01-01"
    name_input = "accountName"
    name_rule = names.STORAGE_ACCOUNT
    lengths = {"accountName": (3, 24)}
    longest_tag_name = 128
    # pulumi/pulumi-azure-native provider/pkg/gen/replacement.go.
    replace_on = frozenset({"resourceGroupName", "accountName", "isHnsEnabled", "location"})
    schema_defaults = {
        "enableHttpsTrafficOnly": True,
        "minimumTlsVersion": "TLS1_0",
        "allowBlobPublicAccess": False,
    }

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        if old is None and any(
            name_of(r.id) == inputs["accountName"] for r in call.world.find(PACKAGE, "StorageAccount")
        ):
            raise CloudError(
                "StorageAccountAlreadyTaken", f"The storage account named {inputs['accountName']} is already taken."
            )
        if inputs["kind"] == "BlobStorage" and inputs.get("accessTier") is None:
            raise CloudError("InvalidRequestPropertyValue", "accessTier is required where kind is BlobStorage.")
        if old is not None and (old["kind"], inputs["kind"]) not in (
            (old["kind"], old["kind"]),
            ("Storage", "StorageV2"),
        ):
            raise CloudError(
                "AccountPropertyCannotBeUpdated", f"The property 'kind' of {id} cannot be changed from {old['kind']}."
            )

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        name, location = inputs["accountName"], doc["location"]
        domain = "core.chinacloudapi.cn" if location.startswith("china") else "core.windows.net"
        tier = {} if inputs["kind"] in ("Storage", "BlockBlobStorage") else {"accessTier": doc.get("accessTier", "Hot")}
        return tier | {
            "sku": {**inputs["sku"], "tier": "Premium" if inputs["sku"]["name"].startswith("Premium") else "Standard"},
            "primaryEndpoints": {
                service: f"https://{name}.{service}.{domain}/" for service in ("blob", "dfs", "file", "queue", "table")
            },
            "primaryLocation": location,
            "statusOfPrimary": "available",
            "privateEndpointConnections": [],
        }

    def _remove(self, world: World, record: Record) -> None:
        remove_below(world, name_of(record.id))
        for container in below(world, record.id):
            world.remove(PACKAGE, container.kind, container.id)
        super()._remove(world, record)


class BlobContainer(ArmKind):
    """A container of blobs. It may be deleted with blobs in it, and takes them along."""

    token = "azure-native:storage:BlobContainer"
    arm_type = "Microsoft.Storage/storageAccounts/blobServices/containers"
    api_version = "2024-01-01"
    name_input = "containerName"
    parents = ("accountName",)
    naming = "copy"
    name_rule = names.CONTAINER
    located = False
    lengths = {"accountName": (3, 24), "containerName": (3, 63)}
    replace_on = frozenset({"resourceGroupName", "accountName", "containerName"})

    def id_of(self, call: Call, inputs: Doc) -> str:
        """Return the container's id: it stands below the account's one blob service, ``default``."""
        group = self._group_id(call, inputs["resourceGroupName"])
        if call.world.get(PACKAGE, "ResourceGroup", group) is None:
            raise CloudError(
                "ResourceGroupNotFound", f"Resource group '{inputs['resourceGroupName']}' could not be found."
            )
        account = f"{group}/providers/Microsoft.Storage/storageAccounts/{inputs['accountName']}"
        parent = self._parent(call, account, ["storageAccounts", "blobServices", "containers"])
        return f"{parent}/blobServices/default/containers/{inputs['containerName']}"

    def _names_in(self, id: str, outputs: Doc) -> Doc:
        account, _, container = id.partition("/blobServices/default/containers/")
        return super()._names_in(id, outputs) | {
            "accountName": name_of(account),
            "containerName": container,
        }

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        account = call.world.get(PACKAGE, "StorageAccount", id.split("/blobServices/", 1)[0]) or {}
        if inputs.get("publicAccess", "None") != "None" and not account.get("allowBlobPublicAccess"):
            raise CloudError("PublicAccessNotPermitted", "Public access is not permitted on this storage account.")

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        return {
            "etag": f'"0x8DC{call.world.next("etag"):012X}"',
            "hasImmutabilityPolicy": False,
            "hasLegalHold": False,
            "deleted": False,
            "leaseState": "Available",
            "leaseStatus": "Unlocked",
            "publicAccess": doc.get("publicAccess", "None"),
        }

    def _remove(self, world: World, record: Record) -> None:
        account, _, container = record.id.partition("/blobServices/default/containers/")
        remove_below(world, name_of(account), container)
        super()._remove(world, record)
