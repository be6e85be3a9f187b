"""Managed identities and the foreign tokens that they trust.

Sources: learn.microsoft.com "Manage user-assigned managed identities" (entra/identity/
managed-identities-azure-resources/manage-user-assigned-managed-identities) and "Important considerations and
restrictions for federated identity credentials" (entra/workload-id/workload-identity-federation-considerations).
"""

from ..provider import Call
from ..world import CloudError, Record
from . import names
from .arm import ArmKind
from .records import NO_SUBSCRIPTION, PACKAGE, Doc, below, lookup, name_of, stable_guid


class UserAssignedIdentity(ArmKind):
    """A managed identity."""

    token = "azure-native:managedidentity:UserAssignedIdentity"
    arm_type = "Microsoft.ManagedIdentity/userAssignedIdentities"
    api_version = "2023-01-31"
    name_input = "resourceName"
    name_rule = names.IDENTITY
    # The location is read and create only in the common types of Azure/azure-rest-api-specs (TrackedResource).
    replace_on = frozenset({"resourceGroupName", "resourceName", "location"})

    def _computed(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> Doc:
        if old is not None:
            return {key: old[key] for key in ("principalId", "clientId", "tenantId")} | {"_replicated": True}
        return {
            "principalId": stable_guid(call.world, f"{id}/principal"),
            "clientId": stable_guid(call.world, f"{id}/client"),
            "tenantId": call.config.get("tenantId") or NO_SUBSCRIPTION,
        }

    def read(self, call: Call, id: str, state: Doc) -> Doc | None:
        """Return the identity; a later run finds it in the whole directory."""
        record = lookup(call.world, self.kind, id)
        if record is not None and not record.doc.get("_replicated"):
            call.world.put(PACKAGE, self.kind, record.id, record.doc | {"_replicated": True})
        return super().read(call, id, state)

    def _before_delete(self, call: Call, record: Record) -> None:
        for credential in below(call.world, record.id):
            call.world.remove(PACKAGE, credential.kind, credential.id)


class FederatedIdentityCredential(ArmKind):
    """Trust of a managed identity in tokens of another issuer: 20 an identity, one audience each."""

    token = "azure-native:managedidentity:FederatedIdentityCredential"
    arm_type = "Microsoft.ManagedIdentity/userAssignedIdentities/federatedIdentityCredentials"
    api_version = "2023-01-31"
    name_input = "federatedIdentityCredentialResourceName"
    parents = ("resourceName",)
    naming = "copy"
    name_rule = names.FEDERATED_CREDENTIAL
    located = False
    replace_on = frozenset({"resourceGroupName", "resourceName", "federatedIdentityCredentialResourceName"})

    def _rules(self, call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
        identity = id.rsplit("/federatedIdentityCredentials/", 1)[0]
        others = [record for record in below(call.world, identity) if record.id.lower() != id.lower()]
        if len(others) >= 20:
            raise CloudError("BadRequest", "A managed identity can have at most 20 federated identity credentials.")
        if len(inputs["audiences"]) != 1:
            raise CloudError("BadRequest", "A federated identity credential takes exactly one audience.")
        if not str(inputs["issuer"]).startswith("https://") or any(c.isspace() for c in inputs["issuer"]):
            raise CloudError("BadRequest", f"The issuer '{inputs['issuer']}' must be an https URL.")
        for other in others:
            if (other.doc["issuer"], other.doc["subject"]) == (inputs["issuer"], inputs["subject"]):
                raise CloudError(
                    "Conflict",
                    f"Issuer and subject combination already exists for this Managed Identity: {name_of(other.id)}.",
                )
