"""Resource groups.

Source: learn.microsoft.com "Azure Resource Manager resource group and resource deletion"
(azure-resource-manager/management/delete-resource-group): deleting a group deletes everything in it.
"""

from collections.abc import Iterable

from ..provider import Call
from ..sdk_schema import Problem
from ..world import CloudError, Record, World
from . import names
from .arm import ArmKind
from .blob_store import remove_below
from .records import PACKAGE, Doc, below, group_of, name_of, referrers


class ResourceGroup(ArmKind):
    """A resource group."""

    token = "azure-native:resources:ResourceGroup"
    arm_type = "Microsoft.Resources/resourceGroups"
    api_version = "2024-03-01"
    name_input = "resourceGroupName"
    name_rule = names.RESOURCE_GROUP
    # pulumi/pulumi-azure-native provider/pkg/gen/replacement.go, and every part of a resource's path.
    replace_on = frozenset({"location", "resourceGroupName"})

    def check(self, call: Call, inputs: Doc) -> Iterable[Problem]:
        """Check the name's characters too: the API's specification gives the provider a pattern for it."""
        yield from super().check(call, inputs)
        name = inputs.get("resourceGroupName")
        if isinstance(name, str) and not all(c.isascii() and (c.isalnum() or c in "-_.()") for c in name):
            yield Problem("resourceGroupName", r"'resourceGroupName' does not match expression '^[-\w\._\(\)]+$'")

    def id_of(self, call: Call, inputs: Doc) -> str:
        """Return the group's id."""
        return self._group_id(call, inputs["resourceGroupName"])

    def _names_in(self, id: str, outputs: Doc) -> Doc:
        return {"resourceGroupName": name_of(id)}

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        return {"properties": {"provisioningState": "Succeeded"}}

    def _before_delete(self, call: Call, record: Record) -> None:
        for inside in below(call.world, record.id):
            users = [user for user in referrers(call.world, inside.id, record.id) if group_of(user)]
            # Alerts and role assignments may point at what is gone; networks that others use may not go.
            if users and inside.kind in ("Subnet", "NetworkSecurityGroup", "NatGateway", "PublicIPAddress"):
                raise CloudError(
                    "ResourceGroupDeletionBlocked",
                    f"Deletion of resource group '{name_of(record.id)}' failed as resources with identifiers "
                    f"'{inside.id}' could not be deleted: it is in use by {users[0]}.",
                )

    def _remove(self, world: World, record: Record) -> None:
        for inside in below(world, record.id):
            world.remove(PACKAGE, inside.kind, inside.id)
            world.event(PACKAGE, "delete", inside.kind, inside.id, "with its resource group")
            if inside.kind == "StorageAccount":
                remove_below(world, name_of(inside.id))
        super()._remove(world, record)
