"""Object storage on loopback, as far as alibabacloud_oss_v2 asks for it when it uploads an image.

Answers as help.aliyun.com describes InitiateMultipartUpload, UploadPart, CompleteMultipartUpload,
AbortMultipartUpload, ListMultipartUploads, PutObjectTagging, GetObjectTagging and DeleteObject.
"""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from http_stub import Answer, Request

_XML = {"Content-Type": "application/xml"}


@dataclass
class Oss:
    """Buckets of one test. ``strike`` sees every request first and may answer it itself."""

    buckets: set[str] = field(default_factory=lambda: {"images"})
    objects: dict[str, bytes] = field(default_factory=dict)
    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    authorizations: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)
    strike: Callable[[Request], Answer | None] = lambda _: None

    def respond(self, request: Request) -> Answer:
        self.authorizations.append(request.headers.get("Authorization", ""))
        _, bucket, key = (*request.path.split("/", 2), "")[:3]
        query = {name: values[0] for name, values in parse_qs(request.query, keep_blank_values=True).items()}
        self.operations.append(f"{request.method} {','.join(sorted(query))}")
        if struck := self.strike(request):
            return struck
        if bucket not in self.buckets:
            return error(404, "NoSuchBucket")
        if "uploadId" in query and query["uploadId"] not in self.uploads:
            return error(404, "NoSuchUpload")
        match request.method:
            case "GET" if "uploads" in query:
                found = "".join(
                    f"<Upload><Key>{self.keys[upload]}</Key><UploadId>{upload}</UploadId></Upload>"
                    for upload in self.uploads
                )
                return xml(f"<ListMultipartUploadsResult>{found}</ListMultipartUploadsResult>")
            case "POST" if "uploads" in query:
                upload = f"upload-{len(self.operations)}"
                self.uploads[upload], self.keys[upload] = {}, key
                return xml(
                    f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
                )
            case "PUT" if "uploadId" in query:
                self.uploads[query["uploadId"]][int(query["partNumber"])] = request.body
                return Answer(200, headers={"ETag": f'"{hashlib.md5(request.body).hexdigest()}"'})
            case "POST" if "uploadId" in query:
                parts = self.uploads.pop(query["uploadId"])
                named = [int(number) for number in re.findall(rb"<PartNumber>(\d+)<", request.body)]
                if named != sorted(named) or set(named) != set(parts):
                    return error(400, "InvalidPart")
                self.objects[key] = b"".join(parts[number] for number in named)
                self.tags.pop(key, None)
                return xml("<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>")
            case "DELETE" if "uploadId" in query:
                del self.uploads[query["uploadId"]]
                return Answer(204)
            case "PUT" if "tagging" in query:
                pairs = re.findall(rb"<Key>(.*?)</Key>\s*<Value>(.*?)</Value>", request.body)
                self.tags[key] = {name.decode(): value.decode() for name, value in pairs}
                return Answer(200)
            case "GET" if "tagging" in query and key in self.objects:
                tags = "".join(
                    f"<Tag><Key>{name}</Key><Value>{value}</Value></Tag>"
                    for name, value in self.tags.get(key, {}).items()
                )
                return xml(f"<Tagging><TagSet>{tags}</TagSet></Tagging>")
            case "DELETE":
                self.objects.pop(key, None)
                return Answer(204)
        return error(404, "NoSuchKey")


def xml(body: str) -> Answer:
    return Answer(200, f'<?xml version="1.0" encoding="UTF-8"?>{body}'.encode(), _XML)


def error(status: int, code: str) -> Answer:
    body = f"<Error><Code>{code}</Code><Message>no</Message><RequestId>1</RequestId></Error>"
    return Answer(status, f'<?xml version="1.0" encoding="UTF-8"?>{body}'.encode(), _XML)
