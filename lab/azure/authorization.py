"""Custom roles and their assignments.

Sources: learn.microsoft.com "Azure custom roles" (role-based-access-control/custom-roles), "Troubleshoot Azure RBAC"
(role-based-access-control/troubleshooting: replication delay, limits, codes), docstrings of
pulumi_azure_native.authorization.
"""

import re

from ..provider import Call
from ..world import CloudError, Record
from . import names
from .arm import ArmKind
from .records import PACKAGE, Doc, lookup, name_of, subscription

# learn.microsoft.com "Azure built-in roles": those that clusters commonly assign.
BUILT_IN_ROLES = {
    "8e3af657-a8ff-443c-a75c-2fe8c4bcb635": "Owner",
    "b24988ac-6180-42a0-ab88-20f7382dd24c": "Contributor",
    "acdd72a7-3385-48ef-bd42-f606fba81ae7": "Reader",
    "9980e02c-c2be-4d73-94e8-173b1dc7cf3c": "Virtual Machine Contributor",
    "4d97b98b-1d4f-4787-a291-c67834d212e7": "Network Contributor",
    "f1a07417-d97a-45cb-824c-7a7467783830": "Managed Identity Operator",
    "ba92f5b4-2d11-453d-a403-e96b0029c9fe": "Storage Blob Data Contributor",
    "b7e6dc6d-f1e8-4753-8033-0f276bb0955b": "Storage Blob Data Owner",
}
_ACTION = re.compile(r"\*|(?:\*|[A-Za-z][\w.]*)(?:/[\w.*-]+)+")
_LONGEST_ROLE_NAME = 128


def _scope(call: Call, text: str) -> str:
    """Return a scope without its last slash; raise CloudError when what it names is not there."""
    scope = "/" + text.strip("/")
    parts = scope.strip("/").split("/")
    if parts[0].lower() == "subscriptions" and len(parts) >= 2:
        if not names.is_guid(parts[1]):
            raise CloudError("InvalidSubscriptionId", f"The subscription identifier '{parts[1]}' is malformed.")
        if len(parts) == 2:
            return scope
        group = "/" + "/".join(parts[:4])
        if lookup(call.world, "ResourceGroup", group) is None:
            raise CloudError("ResourceGroupNotFound", f"Resource group '{parts[-1]}' could not be found.")
        if len(parts) > 4 and not any(r.id.lower() == scope.lower() for r in call.world.find(PACKAGE)):
            raise CloudError("ResourceNotFound", f"The resource {scope} was not found.")
        return scope
    if scope.lower().startswith("/providers/microsoft.management/managementgroups/") or scope == "/":
        return scope
    raise CloudError("MissingSubscription", f"The scope '{text}' is not one of a subscription, group or resource.")


class RoleDefinition(ArmKind):
    """A custom role."""

    token = "azure-native:authorization:RoleDefinition"
    arm_type = "Microsoft.Authorization/roleDefinitions"
    api_version = "2022-05-01-preview"
    name_input = "roleDefinitionId"
    naming = "uuid"
    name_rule = names.GUID
    located = False
    replace_on = frozenset({"scope", "roleDefinitionId"})

    def id_of(self, call: Call, inputs: Doc) -> str:
        """Return the role's id, which Azure gives below the subscription whatever the scope was."""
        scope = _scope(call, inputs["scope"])
        base = f"/subscriptions/{subscription(call)}" if scope.lower().startswith("/subscriptions/") else ""
        return f"{base}/providers/Microsoft.Authorization/roleDefinitions/{inputs['roleDefinitionId']}"

    def _names_in(self, id: str, outputs: Doc) -> Doc:
        return {"roleDefinitionId": name_of(id), "scope": (outputs.get("assignableScopes") or ["/"])[0]}

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        name = inputs.get("roleName")
        if not name or len(name) > _LONGEST_ROLE_NAME:
            raise CloudError("RoleDefinitionNameInvalid", "A custom role needs a name of 1 to 128 characters.")
        for other in call.world.find(PACKAGE, "RoleDefinition"):
            if other.id.lower() != id.lower() and other.doc["roleName"].lower() == name.lower():
                raise CloudError(
                    "RoleDefinitionWithSameNameExists",
                    "A custom role with the same name already exists in this directory. Use a different name",
                )
        if name in BUILT_IN_ROLES.values():
            raise CloudError("RoleDefinitionWithSameNameExists", f"'{name}' is the name of a built-in role.")
        for permission in inputs.get("permissions") or ():
            for key in ("actions", "notActions", "dataActions", "notDataActions"):
                for action in permission.get(key) or ():
                    if not _ACTION.fullmatch(action):
                        raise CloudError(
                            "InvalidActionOrNotAction",
                            f"'{action}' does not match any of the actions supported by the providers.",
                        )
        for scope in inputs.get("assignableScopes") or ():
            _scope(call, scope)

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        return {
            "roleType": "CustomRole",
            "assignableScopes": list(inputs.get("assignableScopes") or [inputs["scope"]]),
            "permissions": inputs.get("permissions") or [],
        }

    def _before_delete(self, call: Call, record: Record) -> None:
        for assignment in call.world.find(PACKAGE, "RoleAssignment"):
            if name_of(assignment.doc["roleDefinitionId"]).lower() == name_of(record.id).lower():
                raise CloudError(
                    "RoleDefinitionHasAssignments",
                    f"There are existing role assignments referencing role (code: RoleDefinitionHasAssignments): "
                    f"{assignment.id}.",
                )


class RoleAssignment(ArmKind):
    """A role given to a principal in a scope."""

    token = "azure-native:authorization:RoleAssignment"
    arm_type = "Microsoft.Authorization/roleAssignments"
    api_version = "2022-04-01"
    name_input = "roleAssignmentName"
    naming = "uuid"
    name_rule = names.GUID
    located = False
    # pulumi/pulumi-azure-native provider/pkg/gen/replacement.go: principalId and scope.
    replace_on = frozenset({"scope", "roleAssignmentName", "principalId"})

    def id_of(self, call: Call, inputs: Doc) -> str:
        """Return the assignment's id, below its scope."""
        scope = _scope(call, inputs["scope"]).rstrip("/")
        return f"{scope}/providers/Microsoft.Authorization/roleAssignments/{inputs['roleAssignmentName']}"

    def _names_in(self, id: str, outputs: Doc) -> Doc:
        scope, _, name = id.partition("/providers/Microsoft.Authorization/roleAssignments/")
        return {"scope": scope or "/", "roleAssignmentName": name}

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        principal, role = inputs["principalId"], name_of(inputs["roleDefinitionId"]).lower()
        if not names.is_guid(principal):
            raise CloudError("InvalidPrincipalId", f"A valid principal ID must be provided: '{principal}' is no GUID.")
        self._role_exists(call, role, id)
        if old is not None and name_of(old["roleDefinitionId"]).lower() != role:
            raise CloudError(
                "RoleAssignmentUpdateNotPermitted",
                "Tenant ID, application ID, principal ID, and scope are not allowed to be updated.",
            )
        for other in call.world.find(PACKAGE, "RoleAssignment"):
            same = (other.doc["principalId"], name_of(other.doc["roleDefinitionId"]).lower())
            if other.id.lower() != id.lower() and same == (principal, role) and _scope_of(other.id) == _scope_of(id):
                raise CloudError("RoleAssignmentExists", "The role assignment already exists.")
        self._principal_known(call, principal, inputs)

    def _role_exists(self, call: Call, role: str, id: str) -> None:
        if role in BUILT_IN_ROLES:
            return
        for definition in call.world.find(PACKAGE, "RoleDefinition"):
            if name_of(definition.id).lower() == role:
                scopes = [scope.rstrip("/").lower() for scope in definition.doc["assignableScopes"]]
                if not any(_scope_of(id) == scope or _scope_of(id).startswith(scope + "/") for scope in scopes):
                    raise CloudError(
                        "RoleDefinitionNotAssignableAtScope",
                        f"The role {definition.doc['roleName']} cannot be assigned at {_scope_of(id)}; its assignable "
                        f"scopes are {', '.join(definition.doc['assignableScopes'])}.",
                    )
                return
        raise CloudError(
            "RoleDefinitionDoesNotExist", f"The specified role definition with ID '{role}' does not exist."
        )

    def _principal_known(self, call: Call, principal: str, inputs: Doc) -> None:
        """Be as slow as the directory is with an identity that was just made, once."""
        for identity in call.world.find(PACKAGE, "UserAssignedIdentity", principalId=principal):
            if not identity.doc.get("_replicated") and inputs.get("principalType") is None:
                raise CloudError(
                    "PrincipalNotFound",
                    f"Principal {principal} does not exist in the directory. Check that you have the correct principal "
                    "ID. If you are creating this principal and then immediately assigning a role, this error might be "
                    "related to a replication delay. In this case, set the role assignment principalType property to a "
                    "value, such as ServicePrincipal, User, or Group.",
                )

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        return {"principalType": inputs.get("principalType") or "ServicePrincipal"}


def _scope_of(id: str) -> str:
    return id.partition("/providers/Microsoft.Authorization/roleAssignments/")[0].lower()
