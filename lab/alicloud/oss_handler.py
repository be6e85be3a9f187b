"""How the lab's OSS reads requests and refuses them.

Sources: alibabacloud.com OSS "Common request headers", "Common response headers", "Error codes".
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

from ..http_base import Handler
from ..world import CloudError, LostAnswer, World
from .bridge import PACKAGE, Doc, lookup
from .oss_store import Store

TOKEN = f"{PACKAGE}:oss/bucketObject:BucketObject"
"""What planned faults name."""
BLOCK = 1 << 20
_LARGEST = 5 << 30
_KEPT = ("content-type", "content-encoding", "cache-control", "content-disposition", "content-language", "expires")


class Refusal(Exception):
    """An answer that says no."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Target:
    """What a request is about."""

    bucket: str
    key: str
    query: dict[str, str]


class OssHandler(Handler):
    """One connection: reads a request, finds who answers it, and words refusals as OSS does."""

    world: World
    store: Store

    _OPERATIONS: ClassVar[dict[str, tuple[tuple[str, str], ...]]] = {
        "PUT": (("uploadId", "_upload_part"), ("tagging", "_put_tags"), ("", "_put_object")),
        "POST": (("uploads", "_begin"), ("uploadId", "_complete")),
        "GET": (("uploadId", "_list_parts"), ("tagging", "_get_tags"), ("", "_get_object")),
        "HEAD": (("", "_head_object"),),
        "DELETE": (("uploadId", "_abort"), ("tagging", "_delete_tags"), ("", "_delete_object")),
    }

    def _handle(self) -> None:
        self._draft: Path | None = None
        try:
            self._receive()
            self._operation()
        except Refusal as refusal:
            self._refuse(refusal)
        except CloudError as error:
            self._refuse(Refusal(503, "ServiceUnavailable" if error.code == "NoStock" else error.code, error.message))
        except LostAnswer:
            self.close_connection = True
        finally:
            if self._draft is not None:
                self._draft.unlink(missing_ok=True)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle

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
            block = self.rfile.read(min(left, BLOCK))
            if not block:
                self.close_connection = True
                raise Refusal(400, "RequestTimeout", "The body ended early.")
            out.write(block)
            left -= len(block)

    def _operation(self) -> None:
        target = self._target()
        if not self.headers.get("Authorization", "").startswith("OSS"):
            raise Refusal(403, "AccessDenied", "Anonymous access is forbidden for this operation.")
        if not target.bucket:
            raise Refusal(405, "MethodNotAllowed", "The lab's OSS does not list buckets.")
        if lookup(self.world, "Bucket", target.bucket) is None:
            raise Refusal(404, "NoSuchBucket", "The specified bucket does not exist.")
        if not target.key:
            self._on_bucket(target)
            return
        for marker, name in self._OPERATIONS[self.command]:
            if not marker or marker in target.query:
                operation: Callable[[Target], None] = getattr(self, name)
                operation(target)
                return
        raise Refusal(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")

    def _target(self) -> Target:
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        path = urllib.parse.unquote(parts.path).removeprefix("/")
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0]
        if re.fullmatch(r"[\d.]+|localhost|\[.*\]", host) is None and "." in host:
            return Target(host.split(".")[0], path, query)
        bucket, _, key = path.partition("/")
        return Target(bucket, key, query)

    def _refuse(self, refusal: Refusal) -> None:
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
            raise Refusal(400, "MalformedXML", "The XML you provided was not well-formed.")
        try:
            return ET.fromstring(text)  # noqa: S314 - no declarations, and only the lab's own clients
        except ET.ParseError:
            raise Refusal(400, "MalformedXML", "The XML you provided was not well-formed.") from None

    def _body(self) -> Path:
        if self._draft is None:
            self._draft = self.store.draft()
            self._draft.touch()
        wanted = self.headers.get("Content-MD5")
        if wanted:
            digest = hashlib.md5(usedforsecurity=False)
            with self._draft.open("rb") as file:
                while block := file.read(BLOCK):
                    digest.update(block)
            try:
                good = base64.b64decode(wanted, validate=True) == digest.digest()
            except binascii.Error:
                good = False
            if not good:
                raise Refusal(400, "InvalidDigest", "The Content-MD5 you specified is not valid.")
        if self._draft.stat().st_size > _LARGEST:
            raise Refusal(400, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed object size.")
        return self._draft

    def _settings(self) -> Doc:
        headers = {name.lower(): value for name, value in self.headers.items()}
        kept = {name: value for name, value in headers.items() if name in _KEPT or name.startswith("x-oss-meta-")}
        return {"settings": kept, "modified": formatdate(usegmt=True)}

    def _check_overwrite(self, target: Target) -> None:
        """Refuse to put an object in the place of another when that was asked for."""
        forbid = (self.headers.get("x-oss-forbid-overwrite") or "").lower() == "true"
        if forbid and self.store.object(target.bucket, target.key) is not None:
            raise Refusal(
                409, "FileAlreadyExists", "The object you specified already exists and can not be overwritten."
            )

    def _on_bucket(self, target: Target) -> None:
        raise NotImplementedError
