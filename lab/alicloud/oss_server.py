"""OSS on loopback: what alibabacloud_oss_v2 asks for when it uploads an image.

Sources: alibabacloud.com OSS "PutObject", "GetObject", "HeadObject", "DeleteObject", "Multipart upload operations",
"PutObjectTagging", "ListObjectsV2", "Error codes"; alibabacloud_oss_v2/models. The bucket stands in the path, or
before the
host's name as in ``<bucket>.localhost``. Buckets are those of the lab's cloud.

A planned fault can strike ``create`` (PutObject, CompleteMultipartUpload), ``update`` (UploadPart), ``read``
(GetObject,
HeadObject) and ``delete`` of the kind ``BucketObject``.
"""

import base64
import binascii
import hashlib
import re
import urllib.parse
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any, ClassVar
from xml.sax.saxutils import escape

from ..http_base import Handler, LoopbackServer
from ..world import CloudError, LostAnswer, World
from .bridge import PACKAGE, Doc, lookup
from .oss_store import Store

_TOKEN = f"{PACKAGE}:oss/bucketObject:BucketObject"
_SMALLEST_PART = 100 * 1024
_MOST_PARTS = 10_000
_LARGEST = 5 << 30
_MOST_TAGS = 10
_BLOCK = 1 << 20
_KEPT = ("content-type", "content-encoding", "cache-control", "content-disposition", "content-language", "expires")


class _Refusal(Exception):
    """An answer that says no."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


_NO_UPLOAD = _Refusal(
    404,
    "NoSuchUpload",
    "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or "
    "completed.",
)


def _no_key() -> _Refusal:
    return _Refusal(404, "NoSuchKey", "The specified key does not exist.")


@dataclass(frozen=True)
class _Target:
    bucket: str
    key: str
    query: dict[str, str]


class OssServer(LoopbackServer):
    """Serves the objects of the buckets in a world; bytes lie in ``<world.folder>/oss``."""

    def __init__(self, world: World) -> None:
        super().__init__(type("_OssHandler", (_OssHandler,), {"world": world, "store": Store(world)}))


class _OssHandler(Handler):
    world: World
    store: Store

    _OPERATIONS: ClassVar[dict[str, tuple[tuple[str, str], ...]]] = {
        "PUT": (("uploadId", "_upload_part"), ("tagging", "_put_tags"), ("", "_put_object")),
        "POST": (("uploads", "_begin"), ("uploadId", "_complete")),
        "GET": (("uploadId", "_list_parts"), ("tagging", "_get_tags"), ("", "_get_object")),
        "HEAD": (("", "_head_object"),),
        "DELETE": (("uploadId", "_abort"), ("tagging", "_delete_tags"), ("", "_delete_object")),
    }

    def do_PUT(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_GET(self) -> None:
        self._handle()

    def do_HEAD(self) -> None:
        self._handle()

    def do_DELETE(self) -> None:
        self._handle()

    # -- frame ------------------------------------------------------------------------------------------------

    def _handle(self) -> None:
        self._draft: Path | None = None
        try:
            self._receive()
            self._operation()
        except _Refusal as refusal:
            self._refuse(refusal)
        except CloudError as error:
            self._refuse(_Refusal(503, "ServiceUnavailable" if error.code == "NoStock" else error.code, error.message))
        except LostAnswer:
            self.close_connection = True
        finally:
            if self._draft is not None:
                self._draft.unlink(missing_ok=True)

    def _receive(self) -> None:
        """Write the request's body to a file, so that a large one takes no memory."""
        left = int(self.headers.get("Content-Length") or 0)
        chunked = "chunked" in (self.headers.get("Transfer-Encoding") or "")
        if not left and not chunked:
            return
        self._draft = self.store.draft()
        with self._draft.open("wb") as out:
            while chunked:
                left = int(self.rfile.readline().split(b";")[0], 16)
                self._copy(left, out)
                self.rfile.readline()
                if not left:
                    return
            self._copy(left, out)

    def _copy(self, left: int, out: Any) -> None:
        while left > 0:
            block = self.rfile.read(min(left, _BLOCK))
            if not block:
                self.close_connection = True
                raise _Refusal(400, "RequestTimeout", "The body ended early.")
            out.write(block)
            left -= len(block)

    def _operation(self) -> None:
        target = self._target()
        if not self.headers.get("Authorization", "").startswith("OSS"):
            raise _Refusal(403, "AccessDenied", "Anonymous access is forbidden for this operation.")
        if not target.bucket:
            raise _Refusal(405, "MethodNotAllowed", "The lab's OSS does not list buckets.")
        if lookup(self.world, "Bucket", target.bucket) is None:
            raise _Refusal(404, "NoSuchBucket", "The specified bucket does not exist.")
        if not target.key:
            self._on_bucket(target)
            return
        for marker, name in self._OPERATIONS[self.command]:
            if not marker or marker in target.query:
                operation: Callable[[_Target], None] = getattr(self, name)
                operation(target)
                return
        raise _Refusal(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")

    def _target(self) -> _Target:
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        path = urllib.parse.unquote(parts.path).removeprefix("/")
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
        if re.fullmatch(r"[\d.]+|localhost|\[.*\]", host) is None and "." in host:
            return _Target(host.split(".")[0], path, query)
        bucket, _, key = path.partition("/")
        return _Target(bucket, key, query)

    def _refuse(self, refusal: _Refusal) -> None:
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<Error><Code>{refusal.code}</Code><Message>{escape(refusal.message)}</Message>"
            f"<RequestId>{self._request_id()}</RequestId><HostId>127.0.0.1</HostId></Error>"
        ).encode()
        headers = {"Content-Type": "application/xml", **self._common()}
        if self.command == "HEAD":
            # OSS "Error codes": an answer to HEAD has no body, so the error stands in a header.
            headers["x-oss-err"] = base64.b64encode(body).decode()
        self.answer(refusal.status, headers, body)

    def _request_id(self) -> str:
        return f"{self.world.next('oss-request'):024X}"

    def _common(self) -> dict[str, str]:
        return {"x-oss-request-id": self._request_id(), "x-oss-server-time": "1", "Server": "AliyunOSS"}

    def _xml(self, root: str, inner: str) -> None:
        body = f'<?xml version="1.0" encoding="UTF-8"?>\n<{root}>{inner}</{root}>'.encode()
        self.answer(200, {"Content-Type": "application/xml", **self._common()}, body)

    def _document(self) -> ET.Element:
        text = self._draft.read_bytes() if self._draft is not None else b""
        if b"<!" in text:
            raise _Refusal(400, "MalformedXML", "The XML you provided was not well-formed.")
        try:
            return ET.fromstring(text)  # noqa: S314 - no declarations, and only the lab's own clients
        except ET.ParseError:
            raise _Refusal(400, "MalformedXML", "The XML you provided was not well-formed.") from None

    def _body(self) -> Path:
        if self._draft is None:
            self._draft = self.store.draft()
            self._draft.touch()
        wanted = self.headers.get("Content-MD5")
        if wanted:
            digest = hashlib.md5(usedforsecurity=False)
            with self._draft.open("rb") as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
            try:
                good = base64.b64decode(wanted, validate=True) == digest.digest()
            except binascii.Error:
                good = False
            if not good:
                raise _Refusal(400, "InvalidDigest", "The Content-MD5 you specified is not valid.")
        if self._draft.stat().st_size > _LARGEST:
            raise _Refusal(400, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed object size.")
        return self._draft

    # -- the bucket -------------------------------------------------------------------------------------------

    def _on_bucket(self, target: _Target) -> None:
        if self.command == "GET" and "uploads" in target.query:
            self._list_uploads(target)
        elif self.command == "GET" and target.query.get("list-type") == "2":
            self._list_objects(target)
        elif self.command == "GET" and "location" in target.query:
            bucket = lookup(self.world, "Bucket", target.bucket)
            self._xml("LocationConstraint", escape(str(bucket.doc["location"])) if bucket else "")
        else:
            raise _Refusal(405, "MethodNotAllowed", "The lab makes and changes buckets through the provider only.")

    def _list_uploads(self, target: _Target) -> None:
        after = (target.query.get("key-marker", ""), target.query.get("upload-id-marker", ""))
        most = int(target.query.get("max-uploads") or 1000)
        found = [
            record
            for record in self.store.uploads(target.bucket, target.query.get("prefix", ""))
            if (record.doc["key"], record.id) > after
        ]
        shown = found[:most]
        inner = "".join(
            f"<Upload><Key>{escape(r.doc['key'])}</Key><UploadId>{r.id}</UploadId>"
            "<Initiated>2026-01-01T00:00:00.000Z</Initiated></Upload>"
            for r in shown
        )
        if len(found) > most:
            inner += f"<NextKeyMarker>{escape(shown[-1].doc['key'])}</NextKeyMarker>"
            inner += f"<NextUploadIdMarker>{shown[-1].id}</NextUploadIdMarker>"
        more = str(len(found) > most).lower()
        self._xml(
            "ListMultipartUploadsResult",
            f"<Bucket>{target.bucket}</Bucket><MaxUploads>{most}</MaxUploads><IsTruncated>{more}</IsTruncated>{inner}",
        )

    def _list_objects(self, target: _Target) -> None:
        after = target.query.get("continuation-token") or target.query.get("start-after", "")
        most = int(target.query.get("max-keys") or 100)
        found = [r for r in self.store.objects(target.bucket, target.query.get("prefix", "")) if r.doc["key"] > after]
        shown = found[:most]
        inner = "".join(
            f"<Contents><Key>{escape(r.doc['key'])}</Key><ETag>&quot;{r.doc['etag']}&quot;</ETag><Size>{r.doc['size']}</Size>"
            "<Type>Normal</Type><StorageClass>Standard</StorageClass>"
            "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
            for r in shown
        )
        if len(found) > most:
            inner += f"<NextContinuationToken>{escape(shown[-1].doc['key'])}</NextContinuationToken>"
        more = str(len(found) > most).lower()
        self._xml(
            "ListBucketResult",
            f"<Name>{target.bucket}</Name><MaxKeys>{most}</MaxKeys><IsTruncated>{more}</IsTruncated>"
            f"<KeyCount>{len(shown)}</KeyCount>{inner}",
        )

    # -- objects ----------------------------------------------------------------------------------------------

    def _settings(self) -> Doc:
        headers = {name.lower(): value for name, value in self.headers.items()}
        kept = {name: value for name, value in headers.items() if name in _KEPT or name.startswith("x-oss-meta-")}
        return {"settings": kept, "modified": formatdate(usegmt=True)}

    def _existing(self, target: _Target) -> Doc:
        doc = self.store.object(target.bucket, target.key)
        if doc is None:
            raise _no_key()
        return doc

    def _put_object(self, target: _Target) -> None:
        forbid = (self.headers.get("x-oss-forbid-overwrite") or "").lower() == "true"
        if forbid and self.store.object(target.bucket, target.key) is not None:
            raise _Refusal(
                409, "FileAlreadyExists", "The object you specified already exists and can not be overwritten."
            )
        if len(target.key.encode()) > 1023:
            raise _Refusal(400, "InvalidObjectName", "The length of an object name must be 1 to 1023 bytes.")
        tags = dict(urllib.parse.parse_qsl(self.headers.get("x-oss-tagging") or ""))
        lost = self.world.strike("create", _TOKEN)
        doc = self.store.put(target.bucket, target.key, self._body(), {**self._settings(), "tags": tags})
        self.world.event(PACKAGE, "create", "object", f"{target.bucket}/{target.key}")
        if lost:
            raise LostAnswer
        headers = {"ETag": f'"{doc["etag"]}"', "x-oss-hash-crc64ecma": doc["crc64"]}
        self.answer(200, {**self._common(), **headers})

    def _headers(self, doc: Doc) -> dict[str, str]:
        kind = "Multipart" if "-" in doc["etag"] else "Normal"
        return {
            **self._common(),
            "content-type": "application/octet-stream",
            **doc["settings"],
            "ETag": f'"{doc["etag"]}"',
            "Last-Modified": doc["modified"],
            "Accept-Ranges": "bytes",
            "x-oss-object-type": kind,
            "x-oss-storage-class": "Standard",
            "x-oss-hash-crc64ecma": doc["crc64"],
            **({"x-oss-tagging-count": str(len(doc["tags"]))} if doc["tags"] else {}),
        }

    def _head_object(self, target: _Target) -> None:
        doc = self._existing(target)
        self.world.strike("read", _TOKEN)
        self.answer(200, {**self._headers(doc), "Content-Length": str(doc["size"])})

    def _get_object(self, target: _Target) -> None:
        doc = self._existing(target)
        self.world.strike("read", _TOKEN)
        size = int(doc["size"])
        given = self.headers.get("Range")
        found = self._range(given, size) if given else None
        first, last = found or (0, size - 1)
        length = last + 1 - first
        headers = {**self._headers(doc), "Content-Length": str(length)}
        if found:
            headers["Content-Range"] = f"bytes {first}-{last}/{size}"
        self.answer(206 if found else 200, headers)
        while length > 0:
            block = self.store.read(target.bucket, target.key, first, min(length, _BLOCK))
            self.wfile.write(block)
            first, length = first + len(block), length - len(block)

    def _range(self, text: str, size: int) -> tuple[int, int] | None:
        """Return the wanted part; None for a range that OSS does not understand, which it takes for no range."""
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", text.strip())
        if match is None or not (match[1] or match[2]):
            return None
        if not match[1]:
            return max(size - int(match[2]), 0), size - 1
        first, last = int(match[1]), min(int(match[2] or size - 1), size - 1)
        if first >= size or first > last:
            # OSS "GetObject": the standard behaviour only when the client asks for it; otherwise all is sent.
            if (self.headers.get("x-oss-range-behavior") or "").lower() == "standard":
                raise _Refusal(416, "InvalidRange", "The requested range cannot be satisfied.")
            return None
        return first, last

    def _delete_object(self, target: _Target) -> None:
        lost = self.world.strike("delete", _TOKEN)
        if self.store.remove(target.bucket, target.key):
            self.world.event(PACKAGE, "delete", "object", f"{target.bucket}/{target.key}")
        if lost:
            raise LostAnswer
        self.answer(204, self._common())

    # -- tags -------------------------------------------------------------------------------------------------

    def _put_tags(self, target: _Target) -> None:
        self._existing(target)
        tags: dict[str, str] = {}
        for tag in self._document().iter("Tag"):
            key, value = tag.findtext("Key") or "", tag.findtext("Value") or ""
            if not 1 <= len(key) <= 128 or len(value) > 256 or key in tags:
                raise _Refusal(400, "InvalidTag", f"The tag '{key}' is not valid.")
            tags[key] = value
        if len(tags) > _MOST_TAGS:
            raise _Refusal(400, "InvalidTag", f"An object has at most {_MOST_TAGS} tags.")
        self.store.set_tags(target.bucket, target.key, tags)
        self.answer(200, self._common())

    def _get_tags(self, target: _Target) -> None:
        tags = self._existing(target)["tags"]
        inner = "".join(f"<Tag><Key>{escape(k)}</Key><Value>{escape(v)}</Value></Tag>" for k, v in sorted(tags.items()))
        self._xml("Tagging", f"<TagSet>{inner}</TagSet>")

    def _delete_tags(self, target: _Target) -> None:
        self._existing(target)
        self.store.set_tags(target.bucket, target.key, {})
        self.answer(204, self._common())

    # -- multipart uploads ------------------------------------------------------------------------------------

    def _begin(self, target: _Target) -> None:
        tags = dict(urllib.parse.parse_qsl(self.headers.get("x-oss-tagging") or ""))
        id = self.store.begin(target.bucket, target.key, {**self._settings(), "tags": tags})
        self._xml(
            "InitiateMultipartUploadResult",
            f"<Bucket>{target.bucket}</Bucket><Key>{escape(target.key)}</Key><UploadId>{id}</UploadId>",
        )

    def _upload(self, target: _Target) -> Doc:
        doc = self.store.upload(target.query["uploadId"])
        if doc is None or (doc["bucket"], doc["key"]) != (target.bucket, target.key):
            raise _NO_UPLOAD
        return doc

    def _upload_part(self, target: _Target) -> None:
        self._upload(target)
        text = target.query.get("partNumber", "")
        if not text.isdigit() or not 1 <= int(text) <= _MOST_PARTS:
            raise _Refusal(
                400, "InvalidArgument", f"Part number must be an integer between 1 and {_MOST_PARTS}, inclusive."
            )
        lost = self.world.strike("update", _TOKEN)
        part = self.store.add_part(target.query["uploadId"], int(text), self._body())
        if part is None:
            raise _NO_UPLOAD
        if lost:
            raise LostAnswer
        self.answer(200, {**self._common(), "ETag": f'"{part["etag"]}"', "x-oss-hash-crc64ecma": part["crc64"]})

    def _list_parts(self, target: _Target) -> None:
        doc = self._upload(target)
        after = int(target.query.get("part-number-marker") or 0)
        most = int(target.query.get("max-parts") or 1000)
        found = sorted((int(number), part) for number, part in doc["parts"].items() if int(number) > after)
        shown = found[:most]
        inner = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>&quot;{part['etag']}&quot;</ETag><Size>{part['size']}</Size>"
            f"<HashCrc64ecma>{part['crc64']}</HashCrc64ecma><LastModified>2026-01-01T00:00:00.000Z</LastModified></Part>"
            for number, part in shown
        )
        if len(found) > most:
            inner += f"<NextPartNumberMarker>{shown[-1][0]}</NextPartNumberMarker>"
        self._xml(
            "ListPartsResult",
            f"<Bucket>{target.bucket}</Bucket><Key>{escape(target.key)}</Key><UploadId>{target.query['uploadId']}</UploadId>"
            f"<MaxParts>{most}</MaxParts><IsTruncated>{str(len(found) > most).lower()}</IsTruncated>{inner}",
        )

    def _complete(self, target: _Target) -> None:
        doc = self._upload(target)
        named: list[tuple[int, str]] = []
        for part in self._document().iter("Part"):
            number = part.findtext("PartNumber") or ""
            if not number.isdigit():
                raise _Refusal(400, "MalformedXML", "The XML you provided was not well-formed.")
            named.append((int(number), (part.findtext("ETag") or "").strip('"').upper()))
        if not named:
            raise _Refusal(400, "MalformedXML", "The XML you provided was not well-formed.")
        if [number for number, _ in named] != sorted({number for number, _ in named}):
            raise _Refusal(400, "InvalidPartOrder", "The list of parts was not in ascending order.")
        for index, etag in named:
            known = doc["parts"].get(str(index))
            if known is None or known["etag"] != etag:
                raise _Refusal(
                    400,
                    "InvalidPart",
                    "One or more of the specified parts could not be found or the specified entity tag might "
                    "not have matched "
                    "the part's entity tag.",
                )
        for index, _ in named[:-1]:
            if int(doc["parts"][str(index)]["size"]) < _SMALLEST_PART:
                raise _Refusal(400, "EntityTooSmall", "Your proposed upload smaller than the minimum allowed size.")
        lost = self.world.strike("create", _TOKEN)
        saved = self.store.complete(target.query["uploadId"], [number for number, _ in named])
        self.world.event(PACKAGE, "create", "object", f"{target.bucket}/{target.key}")
        if lost:
            raise LostAnswer
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>\n<CompleteMultipartUploadResult>'
            f"<Bucket>{target.bucket}</Bucket><Key>{escape(target.key)}</Key><ETag>&quot;{saved['etag']}&quot;</ETag>"
            "</CompleteMultipartUploadResult>"
        ).encode()
        headers = {"Content-Type": "application/xml", **self._common(), "x-oss-hash-crc64ecma": saved["crc64"]}
        self.answer(200, headers, body)

    def _abort(self, target: _Target) -> None:
        self._upload(target)
        self.store.abort(target.query["uploadId"])
        self.answer(204, self._common())
