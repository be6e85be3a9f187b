"""Multipart uploads of the lab's OSS.

Sources: alibabacloud.com OSS "InitiateMultipartUpload", "UploadPart", "CompleteMultipartUpload",
"AbortMultipartUpload", "ListParts", "ListMultipartUploads".
"""

import urllib.parse
from xml.sax.saxutils import escape

from ..world import LostAnswer
from .bridge import PACKAGE, Doc
from .oss_handler import TOKEN, OssHandler, Refusal, Target

_SMALLEST_PART = 100 * 1024
_MOST_PARTS = 10_000
_NO_UPLOAD = Refusal(
    404,
    "NoSuchUpload",
    "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or "
    "completed.",
)


class MultipartHandler(OssHandler):
    """Answers what concerns uploads in parts."""

    def _list_uploads(self, target: Target) -> None:
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

    def _begin(self, target: Target) -> None:
        tags = dict(urllib.parse.parse_qsl(self.headers.get("x-oss-tagging") or ""))
        id = self.store.begin(target.bucket, target.key, {**self._settings(), "tags": tags})
        self._xml(
            "InitiateMultipartUploadResult",
            f"<Bucket>{target.bucket}</Bucket><Key>{escape(target.key)}</Key><UploadId>{id}</UploadId>",
        )

    def _upload(self, target: Target) -> Doc:
        doc = self.store.upload(target.query["uploadId"])
        if doc is None or (doc["bucket"], doc["key"]) != (target.bucket, target.key):
            raise _NO_UPLOAD
        return doc

    def _upload_part(self, target: Target) -> None:
        self._upload(target)
        text = target.query.get("partNumber", "")
        if not text.isdigit() or not 1 <= int(text) <= _MOST_PARTS:
            raise Refusal(
                400, "InvalidArgument", f"Part number must be an integer between 1 and {_MOST_PARTS}, inclusive."
            )
        lost = self.world.strike("update", TOKEN)
        part = self.store.add_part(target.query["uploadId"], int(text), self._body())
        if part is None:
            raise _NO_UPLOAD
        if lost:
            raise LostAnswer
        self.answer(200, {**self._common(), "ETag": f'"{part["etag"]}"', "x-oss-hash-crc64ecma": part["crc64"]})

    def _list_parts(self, target: Target) -> None:
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

    def _complete(self, target: Target) -> None:
        doc = self._upload(target)
        self._check_overwrite(target)
        named: list[tuple[int, str]] = []
        for part in self._document().iter("Part"):
            number = part.findtext("PartNumber") or ""
            if not number.isdigit():
                raise Refusal(400, "MalformedXML", "The XML you provided was not well-formed.")
            named.append((int(number), (part.findtext("ETag") or "").strip('"').upper()))
        if not named:
            raise Refusal(400, "MalformedXML", "The XML you provided was not well-formed.")
        if [number for number, _ in named] != sorted({number for number, _ in named}):
            raise Refusal(400, "InvalidPartOrder", "The list of parts was not in ascending order.")
        for index, etag in named:
            known = doc["parts"].get(str(index))
            if known is None or known["etag"] != etag:
                raise Refusal(
                    400,
                    "InvalidPart",
                    "One or more of the specified parts could not be found or the specified entity tag might "
                    "not have matched "
                    "the part's entity tag.",
                )
        for index, _ in named[:-1]:
            if int(doc["parts"][str(index)]["size"]) < _SMALLEST_PART:
                raise Refusal(400, "EntityTooSmall", "Your proposed upload smaller than the minimum allowed size.")
        lost = self.world.strike("create", TOKEN)
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

    def _abort(self, target: Target) -> None:
        self._upload(target)
        self.store.abort(target.query["uploadId"])
        self.answer(204, self._common())
