"""RAM: users, roles, policies, attachments, access keys.

Sources: alibabacloud.com API pages CreatePolicy, DeletePolicy, AttachPolicyToUser, AttachPolicyToRole, CreateUser,
DeleteUser, CreateRole, CreateAccessKey; aliyun/terraform-provider-alicloud resource_alicloud_ram_*.go.
"""

import json
import re
from typing import Any

from ..provider import Call
from ..world import CloudError, Record, World
from . import names
from .accounts import has_role, has_user
from .bridge import (
    ACCOUNT,
    FIXED,
    PACKAGE,
    PLAIN,
    Attr,
    BridgedKind,
    Doc,
    find,
    lookup,
    not_found,
    one_of,
    whole,
)
from .ram_documents import verify_document

_MOST_VERSIONS = 5
_MOST_KEYS = 2
_SYSTEM_POLICIES = re.compile(r"(Aliyun[A-Za-z0-9]+|AdministratorAccess|ReadOnlyAccess)")


def _equal_json(text: Any) -> Any:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (TypeError, ValueError):
        return text


class Policy(BridgedKind):
    """A custom policy; every change of its document is a version."""

    token = "alicloud:ram/policy:Policy"
    global_ = True
    attrs = {
        "policyDocument": Attr(computed=True, is_json=True, conflicts=("document", "statements")),
        "policyName": Attr(computed=True, replaces=True, conflicts=("name",)),
        "rotateStrategy": one_of("None", "DeleteOldestNonDefaultVersionWhenLimitExceeded"),
        "name": Attr(replaces=True, computed=True),
        "version": one_of("1"),
        "document": Attr(computed=True, is_json=True),
        "statements": Attr(computed=True, is_set=True),
        "description": PLAIN,
    }

    def comparable(self, call: Call, inputs: Doc) -> Doc:
        """Compare documents by what they say, not by how they are written."""
        documents = {key: _equal_json(inputs[key]) for key in ("policyDocument", "document") if key in inputs}
        return super().comparable(call, inputs) | documents

    def _id(self, call: Call, doc: Doc) -> str:
        name = doc.get("policyName") or doc.get("name")
        return str(name or f"tf-{call.world.next('alicloud:policy'):08d}")

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        # CreatePolicy, parameter PolicyName: 1 to 128 letters, digits and hyphens.
        if re.fullmatch(r"[A-Za-z0-9-]{1,128}", id) is None:
            raise CloudError("InvalidParameter.PolicyName.InvalidChars", f"The policy name '{id}' is not valid.")
        if old is None and call.world.get(PACKAGE, self.kind, id) is not None:
            raise CloudError("EntityAlreadyExists.Policy", f"The policy already exists: {id}.")
        names.verify_description("InvalidParameter.Description", doc.get("description"), 1, 1024)
        document = doc.get("policyDocument") or doc.get("document")
        verify_document("MalformedPolicyDocument", document)
        versions = int(old["_versions"]) if old else 1
        if old is not None and _equal_json(document) != _equal_json(old["policyDocument"]):
            if versions >= _MOST_VERSIONS and doc.get("rotateStrategy") in (None, "None"):
                raise CloudError("LimitExceeded.Policy.Version", f"A policy has at most {_MOST_VERSIONS} versions.")
            versions = min(versions + 1, _MOST_VERSIONS)
            doc["_newest"] = int(old["_newest"]) + 1
        newest = doc.setdefault("_newest", 1)
        doc |= {"_versions": versions, "policyName": id, "name": id, "policyDocument": document, "document": document}
        doc |= {"type": "Custom", "defaultVersion": f"v{newest}", "versionId": f"v{newest}"}
        doc.setdefault("createTime", "2026-01-01T00:00:00Z")
        doc.setdefault("statements", [])

    def _answer(self, call: Call, id: str, doc: Doc) -> Doc:
        return super()._answer(call, id, doc) | {"attachmentCount": len(_attachments(call.world, id))}

    def _before_delete(self, call: Call, record: Record) -> None:
        found = _attachments(call.world, record.id)
        if found and not record.doc.get("force"):
            raise CloudError("DeleteConflict.Policy.User", f"The policy is attached: {', '.join(r.id for r in found)}.")
        for attachment in found:
            call.world.remove(PACKAGE, attachment.kind, attachment.id)


def _attachments(world: World, policy: str) -> list[Record]:
    return [
        record
        for kind in ("UserPolicyAttachment", "RolePolicyAttachment")
        for record in find(world, kind, policyName=policy, policyType="Custom")
    ]


def _verify_policy(world: World, doc: Doc) -> None:
    name = str(doc["policyName"])
    known = (
        lookup(world, "Policy", name) is not None
        if doc["policyType"] == "Custom"
        else _SYSTEM_POLICIES.fullmatch(name) is not None
    )
    if not known:
        raise not_found("EntityNotExist.Policy", f"{doc['policyType']} policy", name)


class _Attachment(BridgedKind):
    global_ = True
    middle: str
    owner: str

    def _id(self, call: Call, doc: Doc) -> str:
        return ":".join((self.middle, doc["policyName"], doc["policyType"], doc[self.owner]))

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        _verify_policy(call.world, doc)
        self._verify_owner(call.world, str(doc[self.owner]))
        if old is None and call.world.get(PACKAGE, self.kind, id) is not None:
            raise CloudError(f"EntityAlreadyExists.{self.kind}", f"The policy is attached already: {id}.")

    def _verify_owner(self, world: World, name: str) -> None:
        raise NotImplementedError


class UserPolicyAttachment(_Attachment):
    """A policy of a user."""

    token = "alicloud:ram/userPolicyAttachment:UserPolicyAttachment"
    middle, owner = "user", "userName"
    attrs = {"policyName": FIXED, "policyType": one_of("System", "Custom", replaces=True), "userName": FIXED}

    def _verify_owner(self, world: World, name: str) -> None:
        if not has_user(world, name):
            raise not_found("EntityNotExist.User", "user", name)


class RolePolicyAttachment(_Attachment):
    """A policy of a role."""

    token = "alicloud:ram/rolePolicyAttachment:RolePolicyAttachment"
    middle, owner = "role", "roleName"
    attrs = {"policyName": FIXED, "policyType": one_of("System", "Custom", replaces=True), "roleName": FIXED}

    def _verify_owner(self, world: World, name: str) -> None:
        if not has_role(world, name):
            raise not_found("EntityNotExist.Role", "role", name)


class User(BridgedKind):
    """A RAM user."""

    token = "alicloud:ram/user:User"
    generated_name = "name"
    global_ = True
    attrs = {"comments": Attr(length=(0, 128)), "name": PLAIN}

    def _id(self, call: Call, doc: Doc) -> str:
        return str(doc["name"])

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        # CreateUser, parameter UserName: 1 to 64 letters, digits, periods, underscores and hyphens.
        if re.fullmatch(r"[A-Za-z0-9._-]{1,64}", str(doc["name"])) is None:
            raise CloudError("InvalidParameter.UserName.InvalidChars", f"The user name '{doc['name']}' is not valid.")
        if old is None and has_user(call.world, id):
            raise CloudError("EntityAlreadyExists.User", f"The user already exists: {id}.")

    def _before_delete(self, call: Call, record: Record) -> None:
        used = [
            *find(call.world, "UserPolicyAttachment", userName=record.id),
            *find(call.world, "AccessKey", userName=record.id),
        ]
        if used and not record.doc.get("force"):
            what = "Policy" if used[0].kind == "UserPolicyAttachment" else "AccessKey"
            raise CloudError(f"DeleteConflict.User.{what}", f"The user {record.id} still has {used[0].id}.")
        for each in used:
            call.world.remove(PACKAGE, each.kind, each.id)


class Role(BridgedKind):
    """A RAM role."""

    token = "alicloud:ram/role:Role"
    global_ = True
    attrs = {
        "assumeRolePolicyDocument": Attr(computed=True, is_json=True, conflicts=("document", "ramUsers", "services")),
        "maxSessionDuration": whole(3600, 43200, computed=True),
        "roleName": Attr(computed=True, replaces=True, conflicts=("name",)),
        "name": Attr(replaces=True, computed=True),
        "document": Attr(computed=True, is_json=True),
        "version": one_of("1"),
        "ramUsers": Attr(computed=True, is_set=True),
        "services": Attr(computed=True, is_set=True),
    }

    def comparable(self, call: Call, inputs: Doc) -> Doc:
        """Compare documents by what they say, not by how they are written."""
        documents = {key: _equal_json(inputs[key]) for key in ("assumeRolePolicyDocument", "document") if key in inputs}
        return super().comparable(call, inputs) | documents

    def _id(self, call: Call, doc: Doc) -> str:
        return str(doc.get("roleName") or doc.get("name") or f"tf-{call.world.next('alicloud:role'):08d}")

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        if re.fullmatch(r"[A-Za-z0-9.-]{1,64}", id) is None:
            raise CloudError("InvalidParameter.RoleName.InvalidChars", f"The role name '{id}' is not valid.")
        if old is None and has_role(call.world, id):
            raise CloudError("EntityAlreadyExists.Role", f"The role already exists: {id}.")
        document = doc.get("assumeRolePolicyDocument") or doc.get("document")
        verify_document("MalformedPolicyDocument", document, trust=True)
        doc |= {"roleName": id, "name": id, "assumeRolePolicyDocument": document, "document": document}
        doc |= {"arn": f"acs:ram::{ACCOUNT}:role/{id.lower()}"}
        doc.setdefault("roleId", f"{call.world.next('alicloud:roleId'):018d}")
        doc.setdefault("maxSessionDuration", 3600)
        doc.setdefault("createTime", "2026-01-01T00:00:00Z")
        doc.setdefault("ramUsers", [])
        doc.setdefault("services", [])

    def _before_delete(self, call: Call, record: Record) -> None:
        found = find(call.world, "RolePolicyAttachment", roleName=record.id)
        if found and not record.doc.get("force"):
            raise CloudError("DeleteConflict.Role.Policy", f"The role {record.id} still has {found[0].id}.")
        for each in found:
            call.world.remove(PACKAGE, each.kind, each.id)


class AccessKey(BridgedKind):
    """A key of a RAM user."""

    token = "alicloud:ram/accessKey:AccessKey"
    global_ = True
    secret_outputs = frozenset({"secret"})
    attrs = {
        "status": one_of("Active", "Inactive", computed=True),
        "userName": FIXED,
        "secretFile": FIXED,
        "pgpKey": FIXED,
    }

    def _id(self, call: Call, doc: Doc) -> str:
        return f"LTAIlab{call.world.next('alicloud:key'):017d}"

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        user = doc.get("userName")
        if user is not None and not has_user(call.world, str(user)):
            raise not_found("EntityNotExist.User", "user", user)
        if old is None and len(find(call.world, self.kind, userName=user)) >= _MOST_KEYS:
            raise CloudError("LimitExceeded.User.AccessKey", f"A user has at most {_MOST_KEYS} access keys.")
        doc.setdefault("status", "Active")
        doc.setdefault("createTime", "2026-01-01T00:00:00Z")
        doc |= {"secret": f"lab-access-key-secret-{id[-6:]}", "keyFingerprint": "", "encryptedSecret": ""}
