"""Azure Blob Storage for page blobs, on loopback: what azure-storage-blob asks for when it uploads a disk.

Sources: learn.microsoft.com "Blob Service REST API" (rest/api/storageservices: Put Blob, Put Page, Get Page Ranges,
Set Blob Properties, Set Blob Metadata, Specifying conditional headers for Blob service operations, Blob Storage error
codes) and azure.storage.blob._generated of azure-storage-blob 12. The account stands in the path, as it does in
local emulators: ``/<account>/<container>/<blob>``. Accounts and containers are those of the lab's cloud.

A planned fault can strike ``create``, ``update``, ``read`` and ``delete`` of the kind ``PageBlob``; an ``update`` is
one page write.
"""

import re
import urllib.parse
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from ..world import CloudError, LostAnswer, World
from .arm import PACKAGE, Doc, name_of
from .blob_store import PAGE, Blob
from .http_base import Handler, LoopbackServer
from .identity import STORAGE, accepts

_LARGEST_WRITE = 4 << 20
_LARGEST_BLOB = 8 << 40
_TOKEN = f"{PACKAGE}:storage:PageBlob"
_SETTINGS = {
    "content-type": "Content-Type",
    "content-encoding": "Content-Encoding",
    "content-language": "Content-Language",
    "content-md5": "Content-MD5",
    "cache-control": "Cache-Control",
    "content-disposition": "Content-Disposition",
}


class _Refusal(Exception):
    """An answer that says no."""

    def __init__(self, status: int, code: str, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


_NOT_MET = _Refusal(412, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met.")
_NOT_FOUND = _Refusal(404, "BlobNotFound", "The specified blob does not exist.")


def _alignment(value: str) -> _Refusal:
    return _Refusal(400, "InvalidHeaderValue", f"The value {value} is not aligned to 512-byte pages.")


@dataclass(frozen=True)
class _Target:
    account: str
    container: str
    blob: str
    query: dict[str, str]

    @property
    def operation(self) -> str:
        return self.query.get("comp", "")


class BlobServer(LoopbackServer):
    """Serves the page blobs of the accounts in a world, at ``<url>/<account>``."""

    def __init__(self, world: World) -> None:
        super().__init__(type("_BlobHandler", (_BlobHandler,), {"world": world}))

    def account_url(self, account: str) -> str:
        """Return what a client takes as the account's address."""
        return f"{self.url}/{account}"


class _BlobHandler(Handler):
    world: World

    def do_PUT(self) -> None:
        self._handle(
            {
                "": self._put_blob,
                "page": self._put_page,
                "properties": self._set_properties,
                "metadata": self._set_metadata,
            }
        )

    def do_GET(self) -> None:
        self._handle({"": self._get_blob, "pagelist": self._page_ranges, "metadata": self._get_properties})

    def do_HEAD(self) -> None:
        self._handle({"": self._get_properties, "metadata": self._get_properties})

    def do_DELETE(self) -> None:
        self._handle({"": self._delete_blob})

    # -- frame ------------------------------------------------------------------------------------------------

    def _handle(self, operations: dict[str, Any]) -> None:
        data = self.body()
        try:
            target = self._target()
            container = self._authorise(target)
            if not target.blob:
                self._container(target, container)
                return
            operation = operations.get(target.operation)
            if operation is None:
                raise _Refusal(400, "UnsupportedHttpVerb", f"The lab's blob storage does not know {target.query}.")
            operation(target, data)
        except _Refusal as refusal:
            self._refuse(refusal)
        except CloudError as error:
            self._refuse(_Refusal(503, "ServerBusy", error.message))
        except LostAnswer:
            self.close_connection = True

    def _refuse(self, refusal: _Refusal) -> None:
        text = (
            '<?xml version="1.0" encoding="utf-8"?>'
            f"<Error><Code>{refusal.code}</Code><Message>{escape(refusal.message)}</Message></Error>"
        )
        headers = {
            "Content-Type": "application/xml",
            "x-ms-error-code": refusal.code,
            **self._common(),
            **refusal.headers,
        }
        self.answer(refusal.status, headers, text.encode())

    def _common(self) -> dict[str, str]:
        return {
            "x-ms-request-id": f"lab-{self.world.next('blob-request'):08x}",
            "x-ms-version": self.headers.get("x-ms-version") or "2021-12-02",
        }

    def _done(self, status: int, doc: Doc, **headers: str) -> None:
        extra = {name.replace("_", "-"): value for name, value in headers.items()}
        tags = {"ETag": doc["etag"], "Last-Modified": doc["lastModified"]}
        self.answer(status, {**self._common(), **tags, "x-ms-blob-sequence-number": str(doc["sequence"]), **extra})

    def _target(self) -> _Target:
        parts = urllib.parse.urlsplit(self.path)
        names = urllib.parse.unquote(parts.path).lstrip("/").split("/", 2)
        names += [""] * (3 - len(names))
        query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        return _Target(names[0], names[1], names[2], query)

    def _authorise(self, target: _Target) -> Doc:
        """Return the container's record; refuse callers without a token of the lab's own for storage."""
        found = self.world.find(PACKAGE, "StorageAccount", name=target.account)
        if not found:
            raise _Refusal(404, "ResourceNotFound", f"The account {target.account} does not exist.")
        scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
        if scheme in ("SharedKey", "SharedKeyLite") or "sig" in target.query:
            if found[0].doc.get("allowSharedKeyAccess") is False:
                raise _Refusal(
                    403,
                    "KeyBasedAuthenticationNotPermitted",
                    "Key based authentication is not permitted on this storage account.",
                )
            raise _Refusal(403, "AuthenticationFailed", "The lab's accounts have no keys: use a token.")
        if scheme != "Bearer":
            raise _Refusal(
                401,
                "NoAuthenticationInformation",
                "Server failed to authenticate the request. Please refer to the information in the www-authenticate "
                "header.",
                WWW_Authenticate=f"Bearer authorization_uri=https://login.lab resource_id={STORAGE}",
            )
        if not accepts(self.world, token, STORAGE):
            raise _Refusal(
                401,
                "InvalidAuthenticationInfo",
                "Server failed to authenticate the request. The token is unknown, has run out or is for another "
                "resource.",
            )
        for record in self.world.find(PACKAGE, "BlobContainer"):
            if record.id.startswith(found[0].id + "/") and name_of(record.id) == target.container:
                return record.doc
        raise _Refusal(404, "ContainerNotFound", "The specified container does not exist.")

    def _container(self, target: _Target, container: Doc) -> None:
        if self.command not in ("GET", "HEAD") or target.query.get("restype") != "container" or target.operation:
            raise _Refusal(400, "UnsupportedHttpVerb", "Containers are made and listed through Resource Manager here.")
        self.answer(200, {**self._common(), "ETag": container["etag"], "x-ms-lease-state": "available"})

    # -- conditions -------------------------------------------------------------------------------------------

    def _existing(self, target: _Target) -> tuple[Blob, Doc]:
        blob = Blob(self.world, target.account, target.container, target.blob)
        doc = blob.record()
        self._conditions(doc)
        if doc is None:
            raise _NOT_FOUND
        return blob, doc

    def _conditions(self, doc: Doc | None) -> None:
        match, none_match = self.headers.get("If-Match"), self.headers.get("If-None-Match")
        if self.headers.get("x-ms-lease-id"):
            raise _Refusal(412, "LeaseNotPresentWithBlobOperation", "There is currently no lease on the blob.")
        if match and (doc is None or match not in ("*", doc["etag"])):
            raise _NOT_MET
        if none_match and doc is not None and none_match in ("*", doc["etag"]):
            if self.command in ("GET", "HEAD"):
                raise _Refusal(304, "ConditionNotMet", "The blob has not changed.")
            if none_match == "*":
                raise _Refusal(409, "BlobAlreadyExists", "The specified blob already exists.")
            raise _NOT_MET

    def _number(self, header: str) -> int:
        text = self.headers.get(header) or ""
        if not text.isdigit():
            raise _Refusal(400, "MissingRequiredHeader", f"The header {header} must be a whole number.")
        return int(text)

    def _range(self, header: str, size: int) -> tuple[int, int]:
        """Return the first and last byte that a range names; a range past the end is cut there."""
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", header)
        if match is None:
            raise _Refusal(400, "InvalidHeaderValue", f"The range {header} is not understood.")
        first, last = int(match[1]), int(match[2] or size - 1)
        if first >= size or last < first:
            raise _Refusal(416, "InvalidRange", "The range specified is invalid for the current size of the resource.")
        return first, min(last, size - 1)

    def _blob_size(self) -> int:
        size = self._number("x-ms-blob-content-length")
        if size % PAGE:
            raise _alignment(str(size))
        if size > _LARGEST_BLOB:
            raise _Refusal(400, "InvalidHeaderValue", f"A page blob has at most {_LARGEST_BLOB} bytes.")
        return size

    def _named(self, prefix: str) -> dict[str, str]:
        return {n[len(prefix) :].lower(): v for n, v in self.headers.items() if n.lower().startswith(prefix)}

    def _settings(self) -> dict[str, str]:
        given = self._named("x-ms-blob-")
        return {_SETTINGS[name]: value for name, value in given.items() if name in _SETTINGS and value}

    # -- operations -------------------------------------------------------------------------------------------

    def _put_blob(self, target: _Target, data: bytes) -> None:
        if self.headers.get("x-ms-blob-type") != "PageBlob":
            raise _Refusal(400, "InvalidBlobType", "The lab's blob storage holds page blobs only.")
        if data:
            raise _Refusal(400, "InvalidHeaderValue", "A page blob is made empty; its pages are written afterwards.")
        size = self._blob_size()
        blob = Blob(self.world, target.account, target.container, target.blob)
        self._conditions(blob.record())
        lost = self.world.strike("create", _TOKEN)
        doc = blob.create(size, {"settings": self._settings(), "metadata": self._named("x-ms-meta-")})
        self.world.event(PACKAGE, "create", "blob", blob.id)
        if lost:
            raise LostAnswer
        self._done(201, doc, x_ms_request_server_encrypted="true")

    def _put_page(self, target: _Target, data: bytes) -> None:
        blob, doc = self._existing(target)
        text = self.headers.get("x-ms-range") or self.headers.get("Range") or ""
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", text)
        if match is None:
            raise _Refusal(400, "InvalidHeaderValue", f"The range '{text}' is not understood.")
        first, length = int(match[1]), int(match[2]) + 1 - int(match[1])
        if first % PAGE or length % PAGE or length <= 0:
            raise _Refusal(
                416, "InvalidPageRange", "The page range specified is invalid: it is not aligned to 512 bytes."
            )
        if first + length > doc["size"]:
            raise _Refusal(416, "InvalidPageRange", "The page range specified is invalid: it goes past the end.")
        write = (self.headers.get("x-ms-page-write") or "").lower()
        if write == "update":
            if length > _LARGEST_WRITE:
                raise _Refusal(413, "RequestBodyTooLarge", "A page write takes at most 4 MiB.")
            if len(data) != length:
                raise _Refusal(400, "InvalidHeaderValue", f"The body has {len(data)} bytes, the range {length}.")
        elif write != "clear" or data:
            raise _Refusal(400, "InvalidHeaderValue", "x-ms-page-write must be update, or clear without a body.")
        lost = self.world.strike("update", _TOKEN)
        blob.write(first, data if write == "update" else None, length)
        doc = self._save(blob)
        if lost:
            raise LostAnswer
        self._done(201, doc)

    def _save(self, blob: Blob, **changes: Any) -> Doc:
        with self.world.transaction():
            doc = blob.record()
            if doc is None:  # deleted while this request was under way
                raise _NOT_FOUND
            return blob.save(doc | changes)

    def _set_properties(self, target: _Target, data: bytes) -> None:
        blob, doc = self._existing(target)
        changes: Doc = {}
        if self.headers.get("x-ms-blob-content-length") is not None:
            changes["size"] = self._blob_size()
            blob.resize(changes["size"])
        action = self.headers.get("x-ms-sequence-number-action")
        if action:
            given = int(self.headers.get("x-ms-blob-sequence-number") or 0)
            old = int(doc["sequence"])
            changes["sequence"] = {"max": max(old, given), "update": given, "increment": old + 1}[action]
        if not changes or self._settings():
            # Settings that the caller leaves out are cleared, unless only the size or sequence number changes.
            changes["settings"] = self._settings()
        self._done(200, self._save(blob, **changes))

    def _set_metadata(self, target: _Target, data: bytes) -> None:
        blob, _ = self._existing(target)
        self._done(200, self._save(blob, metadata=self._named("x-ms-meta-")))

    def _properties(self, doc: Doc, length: int) -> dict[str, str]:
        return {
            **self._common(),
            "Content-Type": "application/octet-stream",
            **doc["settings"],
            **{f"x-ms-meta-{name}": value for name, value in doc["metadata"].items()},
            "Content-Length": str(length),
            "Accept-Ranges": "bytes",
            "ETag": doc["etag"],
            "Last-Modified": doc["lastModified"],
            "x-ms-blob-type": "PageBlob",
            "x-ms-blob-sequence-number": str(doc["sequence"]),
            "x-ms-lease-state": "available",
            "x-ms-lease-status": "unlocked",
            "x-ms-server-encrypted": "true",
        }

    def _get_properties(self, target: _Target, data: bytes) -> None:
        _, doc = self._existing(target)
        self.answer(200, self._properties(doc, doc["size"] if self.command == "HEAD" else 0))

    def _get_blob(self, target: _Target, data: bytes) -> None:
        blob, doc = self._existing(target)
        self.world.strike("read", _TOKEN)
        size = doc["size"]
        text = self.headers.get("x-ms-range") or self.headers.get("Range")
        first, last = self._range(text, size) if text else (0, size - 1)
        length = last + 1 - first
        headers = self._properties(doc, length)
        if text:
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        self.answer(206 if text else 200, headers)
        while length > 0:
            part = blob.read(first, min(length, _LARGEST_WRITE))
            self.wfile.write(part)
            first, length = first + len(part), length - len(part)

    def _page_ranges(self, target: _Target, data: bytes) -> None:
        blob, doc = self._existing(target)
        if "prevsnapshot" in target.query:
            raise _Refusal(400, "UnsupportedQueryParameter", "The lab's blob storage has no snapshots.")
        size = doc["size"]
        text = self.headers.get("x-ms-range") or self.headers.get("Range")
        found = ""
        if size:
            first, last = self._range(text, size) if text else (0, size - 1)
            found = "".join(
                f"<PageRange><Start>{start}</Start><End>{end}</End></PageRange>"
                for start, end in blob.ranges(first, last)
            )
        body = f'<?xml version="1.0" encoding="utf-8"?><PageList>{found}</PageList>'.encode()
        headers = {
            **self._common(),
            "Content-Type": "application/xml",
            "ETag": doc["etag"],
            "Last-Modified": doc["lastModified"],
            "x-ms-blob-content-length": str(size),
        }
        self.answer(200, headers, body)

    def _delete_blob(self, target: _Target, data: bytes) -> None:
        blob, _ = self._existing(target)
        lost = self.world.strike("delete", _TOKEN)
        blob.remove()
        self.world.event(PACKAGE, "delete", "blob", blob.id)
        if lost:
            raise LostAnswer
        self.answer(202, self._common())
