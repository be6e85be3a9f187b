"""Azure Blob Storage for page blobs, on loopback: what azure-storage-blob asks for when it uploads a disk.

Sources: learn.microsoft.com "Blob Service REST API" (rest/api/storageservices: Put Blob, Put Page, Get Page Ranges,
Set Blob Properties, Set Blob Metadata, Lease Blob, Specifying conditional headers for Blob service operations, Blob
Storage error codes) and azure.storage.blob._generated of azure-storage-blob 12. The account stands in the path, as it
does in local emulators: ``/<account>/<container>/<blob>``. Accounts and containers are those of the lab's cloud.

A planned fault can strike ``create``, ``update``, ``read`` and ``delete`` of the kind ``PageBlob``; an ``update`` is
one page write.
"""

import re
from typing import Any

from ..http_base import LoopbackServer
from ..world import LostAnswer, World
from . import blob_leases
from .blob_handler import TOKEN, BlobHandler, Refusal, Target, not_found
from .blob_store import KIND, PAGE, Blob
from .records import PACKAGE, Doc

_LARGEST_WRITE = 4 << 20


class BlobServer(LoopbackServer):
    """Serves the page blobs of the accounts in a world, at ``<url>/<account>``."""

    def __init__(self, world: World) -> None:
        super().__init__(type("_Handler", (_PageBlobs,), {"world": world}))

    def account_url(self, account: str) -> str:
        """Return what a client takes as the account's address."""
        return f"{self.url}/{account}"


class _PageBlobs(BlobHandler):
    def do_PUT(self) -> None:
        self.serve(
            {
                "": self._put_blob,
                "page": self._put_page,
                "properties": self._set_properties,
                "metadata": self._set_metadata,
                "lease": self._lease,
            }
        )

    def do_GET(self) -> None:
        self.serve({"": self._get_blob, "pagelist": self._page_ranges, "metadata": self._get_properties})

    def do_HEAD(self) -> None:
        self.serve({"": self._get_properties, "metadata": self._get_properties})

    def do_DELETE(self) -> None:
        self.serve({"": self._delete_blob})

    # -- operations -------------------------------------------------------------------------------------------

    def _put_blob(self, target: Target, data: bytes) -> None:
        if self.headers.get("x-ms-blob-type") != "PageBlob":
            raise Refusal(400, "InvalidBlobType", "The lab's blob storage holds page blobs only.")
        if data:
            raise Refusal(400, "InvalidHeaderValue", "A page blob is made empty; its pages are written afterwards.")
        size = self.blob_size()
        blob = Blob(self.world, target.account, target.container, target.blob)
        before = blob.record()
        self.conditions(before)
        lost = self.world.strike("create", TOKEN)
        kept = {"lease": before["lease"]} if before is not None and before.get("lease") else {}
        doc = blob.create(size, {"settings": self.settings(), "metadata": self.named("x-ms-meta-"), **kept})
        self.world.event(PACKAGE, "create", "blob", blob.id)
        if lost:
            raise LostAnswer
        self.done(201, doc, x_ms_request_server_encrypted="true")

    def _put_page(self, target: Target, data: bytes) -> None:
        blob, doc = self.existing(target)
        text = self.headers.get("x-ms-range") or self.headers.get("Range") or ""
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", text)
        if match is None:
            raise Refusal(400, "InvalidHeaderValue", f"The range '{text}' is not understood.")
        first, length = int(match[1]), int(match[2]) + 1 - int(match[1])
        if first % PAGE or length % PAGE or length <= 0:
            raise Refusal(
                416, "InvalidPageRange", "The page range specified is invalid: it is not aligned to 512 bytes."
            )
        if first + length > doc["size"]:
            raise Refusal(416, "InvalidPageRange", "The page range specified is invalid: it goes past the end.")
        write = (self.headers.get("x-ms-page-write") or "").lower()
        if write == "update":
            if length > _LARGEST_WRITE:
                raise Refusal(413, "RequestBodyTooLarge", "A page write takes at most 4 MiB.")
            if len(data) != length:
                raise Refusal(400, "InvalidHeaderValue", f"The body has {len(data)} bytes, the range {length}.")
        elif write != "clear" or data:
            raise Refusal(400, "InvalidHeaderValue", "x-ms-page-write must be update, or clear without a body.")
        lost = self.world.strike("update", TOKEN)
        blob.write(first, data if write == "update" else None, length)
        doc = self._save(blob)
        if lost:
            raise LostAnswer
        self.done(201, doc)

    def _save(self, blob: Blob, **changes: Any) -> Doc:
        with self.world.transaction():
            doc = blob.record()
            if doc is None:  # deleted while this request was under way
                raise not_found()
            return blob.save(doc | changes)

    def _set_properties(self, target: Target, data: bytes) -> None:
        blob, doc = self.existing(target)
        changes: Doc = {}
        if self.headers.get("x-ms-blob-content-length") is not None:
            changes["size"] = self.blob_size()
            blob.resize(changes["size"])
        action = self.headers.get("x-ms-sequence-number-action")
        if action:
            given = int(self.headers.get("x-ms-blob-sequence-number") or 0)
            old = int(doc["sequence"])
            changes["sequence"] = {"max": max(old, given), "update": given, "increment": old + 1}[action]
        if not changes or self.settings():
            # Settings that the caller leaves out are cleared, unless only the size or sequence number changes.
            changes["settings"] = self.settings()
        self.done(200, self._save(blob, **changes))

    def _set_metadata(self, target: Target, data: bytes) -> None:
        blob, _ = self.existing(target)
        self.done(200, self._save(blob, metadata=self.named("x-ms-meta-")))

    def _lease(self, target: Target, data: bytes) -> None:
        blob = Blob(self.world, target.account, target.container, target.blob)
        with self.world.transaction():
            doc = blob.record()
            if doc is None:
                raise not_found()
            try:
                status, headers, lease = blob_leases.act(doc, self.headers)
            except blob_leases.LeaseRefused as error:
                raise Refusal(error.status, error.code, error.message) from None
            # A lease is no change of the blob: its ETag stays.
            self.world.put(PACKAGE, KIND, blob.id, {**doc, "lease": lease})
        tags = {"ETag": doc["etag"], "Last-Modified": doc["lastModified"]}
        self.answer(status, {**self.common(), **tags, **headers})

    def _properties(self, doc: Doc, length: int) -> dict[str, str]:
        return {
            **self.common(),
            "Content-Type": "application/octet-stream",
            **doc["settings"],
            **{f"x-ms-meta-{name}": value for name, value in doc["metadata"].items()},
            "Content-Length": str(length),
            "Accept-Ranges": "bytes",
            "ETag": doc["etag"],
            "Last-Modified": doc["lastModified"],
            "x-ms-blob-type": "PageBlob",
            "x-ms-blob-sequence-number": str(doc["sequence"]),
            "x-ms-lease-state": blob_leases.state(doc),
            "x-ms-lease-status": "locked" if blob_leases.state(doc) in ("leased", "breaking") else "unlocked",
            "x-ms-server-encrypted": "true",
        }

    def _get_properties(self, target: Target, data: bytes) -> None:
        _, doc = self.existing(target)
        self.answer(200, self._properties(doc, doc["size"] if self.command == "HEAD" else 0))

    def _get_blob(self, target: Target, data: bytes) -> None:
        blob, doc = self.existing(target)
        self.world.strike("read", TOKEN)
        size = doc["size"]
        text = self.headers.get("x-ms-range") or self.headers.get("Range")
        first, last = self.byte_range(text, size) if text else (0, size - 1)
        length = last + 1 - first
        headers = self._properties(doc, length)
        if text:
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        self.answer(206 if text else 200, headers)
        while length > 0:
            part = blob.read(first, min(length, _LARGEST_WRITE))
            self.wfile.write(part)
            first, length = first + len(part), length - len(part)

    def _page_ranges(self, target: Target, data: bytes) -> None:
        blob, doc = self.existing(target)
        if "prevsnapshot" in target.query:
            raise Refusal(400, "UnsupportedQueryParameter", "The lab's blob storage has no snapshots.")
        size = doc["size"]
        text = self.headers.get("x-ms-range") or self.headers.get("Range")
        found = ""
        if size:
            first, last = self.byte_range(text, size) if text else (0, size - 1)
            found = "".join(
                f"<PageRange><Start>{start}</Start><End>{end}</End></PageRange>"
                for start, end in blob.ranges(first, last)
            )
        body = f'<?xml version="1.0" encoding="utf-8"?><PageList>{found}</PageList>'.encode()
        headers = {
            **self.common(),
            "Content-Type": "application/xml",
            "ETag": doc["etag"],
            "Last-Modified": doc["lastModified"],
            "x-ms-blob-content-length": str(size),
        }
        self.answer(200, headers, body)

    def _delete_blob(self, target: Target, data: bytes) -> None:
        blob, _ = self.existing(target)
        lost = self.world.strike("delete", TOKEN)
        blob.remove()
        self.world.event(PACKAGE, "delete", "blob", blob.id)
        if lost:
            raise LostAnswer
        self.answer(202, self.common())
