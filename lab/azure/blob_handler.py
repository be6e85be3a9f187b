"""The frame of the blob service: addresses, tokens, conditional headers and refusals.

Sources: learn.microsoft.com "Blob Service REST API" (rest/api/storageservices: Authorize with Microsoft Entra ID,
Specifying conditional headers for Blob service operations, Blob Storage error codes).
"""

import re
import urllib.parse
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from ..http_base import Handler
from ..world import CloudError, LostAnswer, World
from . import blob_leases, disk_access
from .azurite_store import AzuriteStore
from .blob_store import DISKS, KIND, PAGE, Blob, server_of
from .identity import STORAGE, accepts
from .records import PACKAGE, Doc, name_of

TOKEN = f"{PACKAGE}:storage:PageBlob"
"""What a planned fault names."""
_STRUCK = {("PUT", ""): "create", ("PUT", "page"): "update", ("GET", ""): "read", ("DELETE", ""): "delete"}
_LARGEST_BLOB = 8 << 40
_SETTINGS = {
    "content-type": "Content-Type",
    "content-encoding": "Content-Encoding",
    "content-language": "Content-Language",
    "content-md5": "Content-MD5",
    "cache-control": "Cache-Control",
    "content-disposition": "Content-Disposition",
}


class Refusal(Exception):
    """An answer that says no."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def _not_met() -> Refusal:
    return Refusal(412, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met.")


def not_found() -> Refusal:
    """Return the refusal of a request for a blob that is not there."""
    return Refusal(404, "BlobNotFound", "The specified blob does not exist.")


def _alignment(value: str) -> Refusal:
    return Refusal(400, "InvalidHeaderValue", f"The value {value} is not aligned to 512-byte pages.")


@dataclass(frozen=True)
class Target:
    """What a request is about."""

    account: str
    container: str
    blob: str
    query: dict[str, str]

    @property
    def operation(self) -> str:
        """What to do with it, such as ``page``; nothing for the blob itself."""
        return self.query.get("comp", "")


class BlobHandler(Handler):
    """Knows who may do what to which blob, and how to say no; subclasses do it."""

    world: World

    # -- frame ------------------------------------------------------------------------------------------------

    def serve(self, operations: dict[str, Any]) -> None:
        """Let the operation that the request names answer it, or refuse."""
        data = self.body()
        try:
            target = self._target()
            container = self._authorise(target)
            server = server_of(self.world, target.account)
            if isinstance(server, AzuriteStore):
                self._elsewhere(server, target, data)
                return
            if not target.blob:
                self._container(target, container)
                return
            operation = operations.get(target.operation)
            if operation is None:
                raise Refusal(400, "UnsupportedHttpVerb", f"The lab's blob storage does not know {target.query}.")
            operation(target, data)
        except Refusal as refusal:
            self._refuse(refusal)
        except CloudError as error:
            self._refuse(Refusal(503, "ServerBusy", error.message))
        except LostAnswer:
            self.close_connection = True

    def _refuse(self, refusal: Refusal) -> None:
        text = (
            '<?xml version="1.0" encoding="utf-8"?>'
            f"<Error><Code>{refusal.code}</Code><Message>{escape(refusal.message)}</Message></Error>"
        )
        headers = {
            "Content-Type": "application/xml",
            "x-ms-error-code": refusal.code,
            **self.common(),
            **refusal.headers,
        }
        self.answer(refusal.status, headers, text.encode())

    def common(self) -> dict[str, str]:
        """Return the headers of every answer."""
        return {
            "x-ms-request-id": f"lab-{self.world.next('blob-request'):08x}",
            "x-ms-version": self.headers.get("x-ms-version") or "2021-12-02",
        }

    def done(self, status: int, doc: Doc, **headers: str) -> None:
        """Answer that a change was made; ``doc`` is the blob as it is now."""
        extra = {name.replace("_", "-"): value for name, value in headers.items()}
        tags = {"ETag": doc["etag"], "Last-Modified": doc["lastModified"]}
        self.answer(status, {**self.common(), **tags, "x-ms-blob-sequence-number": str(doc["sequence"]), **extra})

    def _target(self) -> Target:
        parts = urllib.parse.urlsplit(self.path)
        names = urllib.parse.unquote(parts.path).lstrip("/").split("/", 2)
        names += [""] * (3 - len(names))
        query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        return Target(names[0], names[1], names[2], query)

    def _authorise(self, target: Target) -> Doc:
        """Return the container's record; refuse callers without a token of the lab's own for storage."""
        if target.account.startswith(DISKS):
            return self._authorise_disk(target)
        found = self.world.find(PACKAGE, "StorageAccount", name=target.account)
        if not found:
            raise Refusal(404, "ResourceNotFound", f"The account {target.account} does not exist.")
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        if scheme in ("SharedKey", "SharedKeyLite") or "sig" in target.query:
            if found[0].doc.get("allowSharedKeyAccess") is False:
                raise Refusal(
                    403,
                    "KeyBasedAuthenticationNotPermitted",
                    "Key based authentication is not permitted on this storage account.",
                )
            raise Refusal(403, "AuthenticationFailed", "The lab's accounts have no keys: use a token.")
        if scheme != "Bearer":
            raise Refusal(
                401,
                "NoAuthenticationInformation",
                "Server failed to authenticate the request. Please refer to the information in the www-authenticate "
                "header.",
                WWW_Authenticate=f"Bearer authorization_uri=https://login.lab resource_id={STORAGE}",
            )
        if not accepts(self.world, token, STORAGE):
            raise Refusal(
                401,
                "InvalidAuthenticationInfo",
                "Server failed to authenticate the request. The token is unknown, has run out or is for another "
                "resource.",
            )
        for record in self.world.find(PACKAGE, "BlobContainer"):
            if record.id.startswith(found[0].id + "/") and name_of(record.id) == target.container:
                return record.doc
        raise Refusal(404, "ContainerNotFound", "The specified container does not exist.")

    def _authorise_disk(self, target: Target) -> Doc:
        """Let a grant write pages of its disk, and do nothing else."""
        if not disk_access.may_write(self.world, target.account, target.query):
            raise Refusal(
                403,
                "AuthenticationFailed",
                "Server failed to authenticate the request. Make sure the value of Authorization header is formed "
                "correctly including the signature.",
            )
        if self.command != "PUT" or target.operation != "page":
            raise Refusal(
                403,
                "AuthorizationPermissionMismatch",
                "This request is not authorized to perform this operation using this permission.",
            )
        return {}

    def _container(self, target: Target, container: Doc) -> None:
        if self._lists(target):
            self._list(target)
            return
        self.answer(200, {**self.common(), "ETag": container["etag"], "x-ms-lease-state": "available"})

    def _lists(self, target: Target) -> bool:
        """Say whether the blobs of a container are asked for, or what there is to say of it; refuse all else."""
        if self.command in ("GET", "HEAD") and target.query.get("restype") == "container":
            if self.command == "GET" and target.operation == "list":
                return True
            if not target.operation:
                return False
        raise Refusal(400, "UnsupportedHttpVerb", "Containers are made and listed through Resource Manager here.")

    # -- blobs that another server keeps ----------------------------------------------------------------------

    def _elsewhere(self, server: AzuriteStore, target: Target, data: bytes) -> None:
        """Hand the request on, and note which blobs there are."""
        if not target.blob:
            self._lists(target)
        op = _STRUCK.get((self.command, target.operation))
        lost = op is not None and self.world.strike(op, TOKEN)
        query = urllib.parse.urlsplit(self.path).query
        where = target.account, target.container, target.blob
        answer = server.ask(self.command, where, query, dict(self.headers.items()), data)
        try:
            self._note(target, answer.status)
            if lost:
                raise LostAnswer
            if "content-length" in answer.headers:
                self.answer(answer.status, answer.headers)
                for part in answer.response.stream(1 << 20):
                    self.wfile.write(part)
            else:
                self.answer(answer.status, answer.headers, answer.response.read())
        finally:
            answer.response.drain_conn()
            answer.response.release_conn()

    def _note(self, target: Target, status: int) -> None:
        blob = Blob(self.world, target.account, target.container, target.blob)
        if (self.command, target.operation, status) == ("PUT", "", 201):
            self.world.put(PACKAGE, KIND, blob.id, {"keptBy": "Azurite"})
            self.world.event(PACKAGE, "create", "blob", blob.id)
        elif (self.command, target.operation, status) == ("DELETE", "", 202):
            self.world.remove(PACKAGE, KIND, blob.id)
            self.world.event(PACKAGE, "delete", "blob", blob.id)

    def _list(self, target: Target) -> None:
        start = f"{target.account}/{target.container}/"
        items = "".join(
            f"<Blob><Name>{escape(record.id.removeprefix(start))}</Name><Properties>"
            f"<Content-Length>{record.doc['size']}</Content-Length><BlobType>PageBlob</BlobType></Properties></Blob>"
            for record in self.world.find(PACKAGE, KIND)
            if record.id.startswith(start + target.query.get("prefix", ""))
        )
        body = f'<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>{items}</Blobs></EnumerationResults>'
        self.answer(200, {**self.common(), "Content-Type": "application/xml"}, body.encode())

    # -- conditions -------------------------------------------------------------------------------------------

    def existing(self, target: Target) -> tuple[Blob, Doc]:
        """Return a blob that must be there and meet the conditions of the request."""
        blob = Blob(self.world, target.account, target.container, target.blob)
        doc = blob.record()
        self.conditions(doc)
        if doc is None:
            raise not_found()
        return blob, doc

    def conditions(self, doc: Doc | None) -> None:
        """Refuse when a blob, or none, does not meet the conditional headers."""
        match, none_match = self.headers.get("If-Match"), self.headers.get("If-None-Match")
        if match and (doc is None or match not in ("*", doc["etag"])):
            raise _not_met()
        if none_match and doc is not None and none_match in ("*", doc["etag"]):
            if self.command in ("GET", "HEAD"):
                raise Refusal(304, "ConditionNotMet", "The blob has not changed.")
            if none_match == "*":
                raise Refusal(409, "BlobAlreadyExists", "The specified blob already exists.")
            raise _not_met()
        try:
            blob_leases.verify(doc, self.headers.get("x-ms-lease-id"), writing=self.command in ("PUT", "DELETE"))
        except blob_leases.LeaseRefused as error:
            raise Refusal(error.status, error.code, error.message) from None

    def number(self, header: str) -> int:
        """Return a header that must be a whole number."""
        text = self.headers.get(header) or ""
        if not text.isdigit():
            raise Refusal(400, "MissingRequiredHeader", f"The header {header} must be a whole number.")
        return int(text)

    def byte_range(self, header: str, size: int) -> tuple[int, int]:
        """Return the first and last byte that a range names; a range past the end is cut there."""
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", header)
        if match is None:
            raise Refusal(400, "InvalidHeaderValue", f"The range {header} is not understood.")
        first, last = int(match[1]), int(match[2] or size - 1)
        if first >= size or last < first:
            raise Refusal(416, "InvalidRange", "The range specified is invalid for the current size of the resource.")
        return first, min(last, size - 1)

    def blob_size(self) -> int:
        """Return the size in bytes that the request asks for: whole pages."""
        size = self.number("x-ms-blob-content-length")
        if size % PAGE:
            raise _alignment(str(size))
        if size > _LARGEST_BLOB:
            raise Refusal(400, "InvalidHeaderValue", f"A page blob has at most {_LARGEST_BLOB} bytes.")
        return size

    def named(self, prefix: str) -> dict[str, str]:
        """Return the headers that begin with a prefix, without it."""
        return {n[len(prefix) :].lower(): v for n, v in self.headers.items() if n.lower().startswith(prefix)}

    def settings(self) -> dict[str, str]:
        """Return the HTTP headers that the blob is to be served with."""
        given = self.named("x-ms-blob-")
        return {_SETTINGS[name]: value for name, value in given.items() if name in _SETTINGS and value}
