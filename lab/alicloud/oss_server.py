"""OSS on loopback: what alibabacloud_oss_v2 asks for when it uploads an image.

Sources: alibabacloud.com OSS "PutObject", "GetObject", "HeadObject", "DeleteObject", "Multipart upload operations",
"PutObjectTagging", "ListObjectsV2", "Error codes"; alibabacloud_oss_v2/models. The bucket stands in the path, or
before the
host's name as in ``<bucket>.localhost``. Buckets are those of the lab's cloud.

A planned fault can strike ``create`` (PutObject, CompleteMultipartUpload), ``update`` (UploadPart), ``read``
(GetObject,
HeadObject) and ``delete`` of the kind ``BucketObject``.
"""

import re
import urllib.parse
from xml.sax.saxutils import escape

from ..http_base import LoopbackServer
from ..world import LostAnswer, World
from .bridge import PACKAGE, Doc, lookup
from .oss_handler import BLOCK, TOKEN, Refusal, Target
from .oss_multipart import MultipartHandler
from .oss_store import Store

_MOST_TAGS = 10


def _no_key() -> Refusal:
    return Refusal(404, "NoSuchKey", "The specified key does not exist.")


class OssServer(LoopbackServer):
    """Serves the objects of the buckets in a world; bytes lie in ``<world.folder>/oss``."""

    def __init__(self, world: World) -> None:
        super().__init__(type("_ObjectHandler", (_ObjectHandler,), {"world": world, "store": Store(world)}))


class _ObjectHandler(MultipartHandler):
    # -- the bucket -------------------------------------------------------------------------------------------

    def _on_bucket(self, target: Target) -> None:
        if self.command == "GET" and "uploads" in target.query:
            self._list_uploads(target)
        elif self.command == "GET" and target.query.get("list-type") == "2":
            self._list_objects(target)
        elif self.command == "GET" and "location" in target.query:
            bucket = lookup(self.world, "Bucket", target.bucket)
            self._xml("LocationConstraint", escape(str(bucket.doc["location"])) if bucket else "")
        else:
            raise Refusal(405, "MethodNotAllowed", "The lab makes and changes buckets through the provider only.")

    def _list_objects(self, target: Target) -> None:
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

    def _existing(self, target: Target) -> Doc:
        doc = self.store.object(target.bucket, target.key)
        if doc is None:
            raise _no_key()
        return doc

    def _put_object(self, target: Target) -> None:
        self._check_overwrite(target)
        if len(target.key.encode()) > 1023:
            raise Refusal(400, "InvalidObjectName", "The length of an object name must be 1 to 1023 bytes.")
        tags = dict(urllib.parse.parse_qsl(self.headers.get("x-oss-tagging") or ""))
        lost = self.world.strike("create", TOKEN)
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

    def _head_object(self, target: Target) -> None:
        doc = self._existing(target)
        self.world.strike("read", TOKEN)
        self.answer(200, {**self._headers(doc), "Content-Length": str(doc["size"])})

    def _get_object(self, target: Target) -> None:
        doc = self._existing(target)
        self.world.strike("read", TOKEN)
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
            block = self.store.read(target.bucket, target.key, first, min(length, BLOCK))
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
                raise Refusal(416, "InvalidRange", "The requested range cannot be satisfied.")
            return None
        return first, last

    def _delete_object(self, target: Target) -> None:
        lost = self.world.strike("delete", TOKEN)
        if self.store.remove(target.bucket, target.key):
            self.world.event(PACKAGE, "delete", "object", f"{target.bucket}/{target.key}")
        if lost:
            raise LostAnswer
        self.answer(204, self._common())

    # -- tags -------------------------------------------------------------------------------------------------

    def _put_tags(self, target: Target) -> None:
        self._existing(target)
        tags: dict[str, str] = {}
        for tag in self._document().iter("Tag"):
            key, value = tag.findtext("Key") or "", tag.findtext("Value") or ""
            if not 1 <= len(key) <= 128 or len(value) > 256 or key in tags:
                raise Refusal(400, "InvalidTag", f"The tag '{key}' is not valid.")
            tags[key] = value
        if len(tags) > _MOST_TAGS:
            raise Refusal(400, "InvalidTag", f"An object has at most {_MOST_TAGS} tags.")
        self.store.set_tags(target.bucket, target.key, tags)
        self.answer(200, self._common())

    def _get_tags(self, target: Target) -> None:
        tags = self._existing(target)["tags"]
        inner = "".join(f"<Tag><Key>{escape(k)}</Key><Value>{escape(v)}</Value></Tag>" for k, v in sorted(tags.items()))
        self._xml("Tagging", f"<TagSet>{inner}</TagSet>")

    def _delete_tags(self, target: Target) -> None:
        self._existing(target)
        self.store.set_tags(target.bucket, target.key, {})
        self.answer(204, self._common())
