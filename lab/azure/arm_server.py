"""Azure Resource Manager for Microsoft.Compute, on loopback: what azure-mgmt-compute asks for about images and disks.

The same records and rules as the simulated provider's: a disk that is made here is seen there.

Sources: learn.microsoft.com "Azure REST API reference" (rest/api/compute: Disks, Images, Gallery Images, Gallery Image
Versions, Virtual Machine Scale Sets, Usage), "Track asynchronous Azure operations" (azure-resource-manager/management/
async-operations), "Common error codes" (azure-resource-manager/troubleshooting/common-deployment-errors).

A planned fault can strike ``create``, ``update``, ``read`` and ``delete`` of a type, ``grant`` and ``revoke`` of
``Disk``, and ``scale``, ``remove`` and ``upgrade`` of ``VirtualMachineScaleSet``.
"""

import json
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import sdk_schema
from ..http_base import Handler, LoopbackServer
from ..provider import Call
from ..world import CloudError, LostAnswer, Record, World
from . import disk_access, scale_set_actions
from .arm import ArmKind
from .blobs import BlobServer
from .identity import accepts
from .instances import KIND as INSTANCE
from .package import PACKAGE as PROVIDER
from .records import PACKAGE, Doc, below, lookup, outputs
from .usages import usages

AUDIENCES = (
    "https://management.azure.com",
    "https://management.chinacloudapi.cn",
    "https://management.core.usgovcloudapi.net",
)
_PROVIDER = "Microsoft.Compute"
_SETS = "virtualMachineScaleSets"
_TYPES = {
    "disks": "Disk",
    "images": "Image",
    "galleries/images": "GalleryImage",
    "galleries/images/versions": "GalleryImageVersion",
}
_LISTED = {**_TYPES, _SETS: "VirtualMachineScaleSet"}
# What stands beside `properties` in a resource (Azure/azure-rest-api-specs common types); all else stands inside.
_ENVELOPE = ("id", "name", "type", "location", "tags", "sku", "zones", "identity", "plan", "managedBy", "etag")
_ACTIONS = {"disks": disk_access.ACTIONS, _SETS: scale_set_actions.ACTIONS}
_OWN_NOTES = ("azureApiVersion",)
_STATUS = {
    "ResourceNotFound": 404,
    "ResourceGroupNotFound": 404,
    "ParentResourceNotFound": 404,
    "NotFound": 404,
    "AuthorizationFailed": 403,
    "OperationNotAllowed": 409,
    "CannotDeleteResource": 409,
    "Conflict": 409,
    "InternalError": 500,
}
_TOKENS = {token.rpartition(":")[2]: token for token in PROVIDER.kinds}


class ArmServer(LoopbackServer):
    """Serves the compute resources of a world at ``url``; ``blobs`` is where upload disks are written to.

    What takes Azure a while is answered with 202 and an address to ask at, unless ``at_once`` is set.
    """

    def __init__(self, world: World, blobs: BlobServer, *, at_once: bool = False) -> None:
        shared = {"world": world, "blobs": blobs, "server_url": self._url, "at_once": at_once, "results": {}}
        super().__init__(type("_Handler", (_Arm,), shared))

    def _url(self) -> str:
        return self.url


@dataclass(frozen=True)
class _Path:
    """What a request is about."""

    subscription: str
    group: str
    type: str
    names: tuple[str, ...]
    action: str
    query: dict[str, str]

    @property
    def id(self) -> str:
        """The resource's id, or that of what its list is in."""
        types = self.type.split("/")
        pairs = [f"{type_}/{name}" for type_, name in zip(types, self.names, strict=False)]
        start = f"/subscriptions/{self.subscription}"
        if self.group:
            start += f"/resourceGroups/{self.group}"
        return "/".join([start, "providers", _PROVIDER, *pairs])


class _Arm(Handler):
    world: World
    blobs: BlobServer
    server_url: Callable[[], str]
    at_once: bool
    results: dict[str, Any]
    """Answers of operations that were begun, by the address to ask at."""

    def do_GET(self) -> None:
        self._serve(self._get)

    def do_PUT(self) -> None:
        self._serve(self._put)

    def do_PATCH(self) -> None:
        self._serve(self._patch)

    def do_POST(self) -> None:
        self._serve(self._post)

    def do_DELETE(self) -> None:
        self._serve(self._delete)

    def _serve(self, work: Callable[[_Path, Doc], None]) -> None:
        body = self.body()
        try:
            scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
            if scheme != "Bearer" or not any(accepts(self.world, token, audience) for audience in AUDIENCES):
                self._answer(401, _error("InvalidAuthenticationToken", "The access token is invalid."))
                return
            if self.path in self.results and self.command == "GET":
                self._answer(200, self.results.pop(self.path))
                return
            if (path := self._parse()) is None:
                self._answer(404, _error("InvalidResourceType", f"The lab does not know {self.path.split('?')[0]}."))
                return
            work(path, json.loads(body) if body else {})
        except CloudError as error:
            status = _STATUS.get(error.code, 400)
            self._answer(status, _error(error.code, error.message))
        except LostAnswer:
            self.close_connection = True

    def _parse(self) -> _Path | None:
        parts = urllib.parse.urlsplit(self.path)
        words = [urllib.parse.unquote(word) for word in parts.path.strip("/").split("/")]
        lower = [word.lower() for word in words]
        if lower[0] != "subscriptions" or "providers" not in lower:
            return None
        at = lower.index("providers")
        group = words[3] if at == 4 and lower[2] == "resourcegroups" else ""
        if len(words) < at + 3 or lower[at + 1] != _PROVIDER.lower() or (at == 4) != bool(group):
            return None
        rest = words[at + 2 :]
        types, names = rest[0::2], rest[1::2]
        action = ""
        if len(types) > 1 and len(types) > len(names) and types[-1] in _ACTIONS.get(types[0], ()):
            action = types.pop()
        return _Path(words[1], group, "/".join(types), tuple(names), action, dict(urllib.parse.parse_qsl(parts.query)))

    # -- operations -------------------------------------------------------------------------------------------

    def _get(self, path: _Path, _body: Doc) -> None:
        if len(path.names) < len(path.type.split("/")):
            self._list(path)
            return
        kind = _LISTED.get(path.type) or self._kind(path)
        self.world.strike("read", _TOKENS[kind])
        record = lookup(self.world, kind, path.id)
        if record is None:
            raise _not_found(path)
        self._answer(200, envelope(record.id, record.doc))

    def _list(self, path: _Path) -> None:
        if path.type == "virtualMachineScaleSets/virtualMachines":
            items = [instance(r.id, r.doc) for r in below(self.world, path.id, INSTANCE)]
        elif path.type == "locations/usages":
            items = usages(self.world, path.subscription, path.names[0])
        elif path.type == "virtualMachines":
            items = []  # the lab has no machines outside of scale sets
        elif (kind := _LISTED.get(path.type)) is not None:
            if path.names and lookup(self.world, _parent(path), path.id) is None:
                raise _not_found(path)
            inside = path.id.split("/providers/")[0] if not path.names else path.id
            self.world.strike("list", _TOKENS[kind])
            items = [envelope(r.id, r.doc) for r in below(self.world, inside, kind)]
        else:
            raise CloudError("InvalidResourceType", f"The lab does not list {path.type}.")
        self._answer(200, {"value": items})

    def _put(self, path: _Path, body: Doc) -> None:
        kind = self._arm_kind(path)
        flat = {**{k: v for k, v in body.items() if k != "properties"}, **body.get("properties", {})}
        inputs = {"resourceGroupName": path.group, **self._names(kind, path), **flat}
        self._write(kind, path, inputs, _problems(kind, inputs))

    def _patch(self, path: _Path, body: Doc) -> None:
        if path.type == _SETS:
            self._patch_set(path, body)
            return
        kind = self._arm_kind(path)
        record = lookup(self.world, kind.kind, path.id)
        if record is None:
            raise _not_found(path)
        schema = sdk_schema.resource(kind.token)
        assert schema is not None  # every simulated type has one
        now = {key: value for key, value in record.doc.items() if key in schema.inputs}
        flat = {**{k: v for k, v in body.items() if k != "properties"}, **body.get("properties", {})}
        inputs = {"resourceGroupName": path.group, **self._names(kind, path), **now, **flat}
        # A patch gives a part; what the record holds beside it has outputs in it.
        found = [problem for problem in _problems(kind, flat) if not problem.reason.startswith("missing")]
        self._write(kind, path, inputs, found)

    def _write(self, kind: ArmKind, path: _Path, inputs: Doc, found: list[sdk_schema.Problem]) -> None:
        if found:
            raise CloudError("BadRequest", "; ".join(f"{p.path}: {p.reason}" for p in found))
        call = Call(self.world, {"subscriptionId": path.subscription}, f"::{path.names[-1]}")
        old = lookup(self.world, kind.kind, path.id)
        operation = "create" if old is None else "update"
        lost = self.world.strike(operation, kind.token)
        if old is None:
            id, _ = kind.create(call, inputs)
        else:
            id = old.id
            kind.update(call, id, old.doc, inputs)
        self.world.event(PACKAGE, operation, kind.token, id)
        if lost:
            raise LostAnswer
        doc = self.world.get(PACKAGE, kind.kind, id)
        shown = envelope(id, doc or {})
        if kind.kind == "Disk":
            self._answer_later(shown)
        else:
            self._answer(201 if old is None else 200, shown)

    def _delete(self, path: _Path, _body: Doc) -> None:
        kind = self._arm_kind(path)
        record = lookup(self.world, kind.kind, path.id)
        if record is None:
            self._answer(204)
            return
        lost = self.world.strike("delete", kind.token)
        kind.delete(Call(self.world, {"subscriptionId": path.subscription}), record.id, record.doc)
        self.world.event(PACKAGE, "delete", kind.token, record.id)
        if lost:
            raise LostAnswer
        self._answer(200)

    def _scale_set(self, path: _Path) -> Record:
        record = lookup(self.world, "VirtualMachineScaleSet", path.id)
        if record is None:
            raise _not_found(path)
        return record

    def _patch_set(self, path: _Path, body: Doc) -> None:
        self._scale_set(path)
        lost = self.world.strike("scale", _TOKENS["VirtualMachineScaleSet"])
        try:
            with self.world.transaction():
                record = self._scale_set(path)
                doc = scale_set_actions.patch(self.world, record, body, self.headers.get("If-Match"))
        except scale_set_actions.Changed:
            self._answer(412, _error("PreconditionFailed", "The precondition given in If-Match is not met."))
            return
        self.world.event(PACKAGE, "scale", record.kind, record.id, str(doc["sku"]["capacity"]))
        if lost:
            raise LostAnswer
        self._answer_async(envelope(record.id, doc))

    def _post_set(self, path: _Path, body: Doc) -> None:
        self._scale_set(path)
        lost = self.world.strike(scale_set_actions.ACTIONS[path.action], _TOKENS["VirtualMachineScaleSet"])
        with self.world.transaction():
            scale_set_actions.act(self.world, self._scale_set(path), path.action, body)
        if lost:
            raise LostAnswer
        self._answer_later(None)

    def _post(self, path: _Path, body: Doc) -> None:
        if path.type == _SETS and path.action:
            self._post_set(path, body)
            return
        record = lookup(self.world, "Disk", path.id) if path.type == "disks" and path.action else None
        if record is None:
            raise _not_found(path)
        operation = disk_access.ACTIONS[path.action]
        lost = self.world.strike(operation, _TOKENS["Disk"])
        with self.world.transaction():
            address = disk_access.act(self.world, record, path.action, body, self.blobs.url)
        self.world.event(PACKAGE, operation, _TOKENS["Disk"], record.id)
        if lost:
            raise LostAnswer
        if address is None:
            self._answer(200)
        else:
            self._answer_later({"accessSAS": address})

    # -- helpers ----------------------------------------------------------------------------------------------

    def _kind(self, path: _Path) -> str:
        kind = _TYPES.get(path.type)
        if kind is None:
            raise CloudError("InvalidResourceType", f"The lab does not serve {path.type} here.")
        return kind

    def _arm_kind(self, path: _Path) -> ArmKind:
        kind = PROVIDER.kinds[_TOKENS[self._kind(path)]]
        assert isinstance(kind, ArmKind)
        return kind

    @staticmethod
    def _names(kind: ArmKind, path: _Path) -> Doc:
        return dict(zip((*kind.parents, kind.name_input), path.names, strict=True))

    def _answer_later(self, content: Any) -> None:
        if self.at_once:
            self._answer(200, content)
            return
        where = f"/operations/{self.world.next('arm-operation')}"
        self.results[where] = content
        self.answer(202, {"Location": self.server_url() + where, "Retry-After": "1"})

    def _answer_async(self, content: Doc) -> None:
        """Answer with what is under way, and an address that tells its state, as to changes of what is there."""
        if self.at_once:
            self._answer(200, content)
            return
        where = f"/operations/{self.world.next('arm-operation')}"
        self.results[where] = {"status": "Succeeded"}
        content = {**content, "properties": {**content["properties"], "provisioningState": "Updating"}}
        headers = {"Azure-AsyncOperation": self.server_url() + where, "Retry-After": "1"}
        self.answer(200, {"Content-Type": "application/json", **headers}, json.dumps(content).encode())

    def _answer(self, status: int, content: Any = None) -> None:
        body = b"" if content is None else json.dumps(content).encode()
        self.answer(status, {"Content-Type": "application/json"}, body)


def envelope(id: str, doc: Doc) -> Doc:
    """Return a record as Resource Manager shows it: what is the type's own stands under ``properties``."""
    shown = {key: value for key, value in outputs(doc).items() if key not in _OWN_NOTES}
    top = {key: value for key, value in shown.items() if key in _ENVELOPE}
    inner = {key: value for key, value in shown.items() if key not in _ENVELOPE}
    return {**top, "id": id, "properties": inner}


def instance(id: str, doc: Doc) -> Doc:
    """Return a machine of a scale set as Resource Manager shows it."""
    return {
        "id": id,
        "name": doc["name"],
        "instanceId": doc["instanceId"],
        "location": doc["location"],
        "properties": {
            "provisioningState": doc["provisioningState"],
            "latestModelApplied": doc["latestModelApplied"],
            "storageProfile": {"imageReference": {"id": doc["image"]}},
        },
    }


def _problems(kind: ArmKind, inputs: Doc) -> list[sdk_schema.Problem]:
    schema = sdk_schema.resource(kind.token)
    assert schema is not None  # every simulated type has one
    return sdk_schema.problems(schema, inputs)


def _parent(path: _Path) -> str:
    return {"galleries/images": "Gallery", "galleries/images/versions": "GalleryImage"}.get(path.type, "")


def _not_found(path: _Path) -> CloudError:
    name = "/".join([f"{_PROVIDER}/{path.type}", *path.names])
    return CloudError("ResourceNotFound", f"The Resource '{name}' under resource group '{path.group}' was not found.")


def _error(code: str, message: str) -> Doc:
    return {"error": {"code": code, "message": message}}
