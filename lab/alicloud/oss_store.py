"""Objects and multipart uploads of OSS: bytes in files below the lab's folder, all else in the world.

Sources: alibabacloud.com OSS "PutObject", "Multipart upload", "DeleteBucket"; CRC64 is ECMA-182 as in
alibabacloud_oss_v2.crc64.
"""

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from crcmod import mkCrcFun

from ..world import Record, World
from .bridge import PACKAGE

OBJECT, UPLOAD = "object", "upload"
Doc = dict[str, Any]
_BLOCK = 1 << 20
_crc64 = mkCrcFun(0x142F0E1EBA9EA3693, initCrc=0, xorOut=0xFFFFFFFFFFFFFFFF, rev=True)


def crc64(blocks: Iterable[bytes]) -> int:
    """Return the CRC64 (ECMA-182) of some bytes, as OSS states it."""
    value = 0
    for block in blocks:
        value = _crc64(block, value)
    return int(value)


class Store:
    """The objects of all buckets in a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.folder = world.folder / "oss"

    # -- objects ----------------------------------------------------------------------------------------------

    def object(self, bucket: str, key: str) -> Doc | None:
        """Return what is known of an object, or None."""
        return self.world.get(PACKAGE, OBJECT, f"{bucket}/{key}")

    def objects(self, bucket: str, prefix: str = "") -> list[Record]:
        """Return the objects of a bucket in the order of their keys."""
        found = [r for r in self.world.find(PACKAGE, OBJECT, bucket=bucket) if r.doc["key"].startswith(prefix)]
        return sorted(found, key=lambda record: record.doc["key"])

    def put(self, bucket: str, key: str, source: Path, settings: Doc) -> Doc:
        """Make an object of a file, which moves away; return its document."""
        digest, size, crc = _digest(source)
        return self._save(bucket, key, source, digest, size, crc, settings)

    def _save(self, bucket: str, key: str, source: Path, etag: str, size: int, crc: int, settings: Doc) -> Doc:
        target = self._file(bucket, key)
        target.parent.mkdir(parents=True, exist_ok=True)
        source.replace(target)
        doc = {
            "bucket": bucket,
            "key": key,
            "etag": etag.upper(),
            "size": size,
            "crc64": str(crc),
            "tags": {},
            **settings,
        }
        self.world.put(PACKAGE, OBJECT, f"{bucket}/{key}", doc)
        return doc

    def set_tags(self, bucket: str, key: str, tags: dict[str, str]) -> None:
        """Give an object tags in the place of those that it has."""
        doc = self.object(bucket, key)
        if doc is not None:
            self.world.put(PACKAGE, OBJECT, f"{bucket}/{key}", doc | {"tags": tags})

    def read(self, bucket: str, key: str, first: int, length: int) -> bytes:
        """Return some bytes of an object."""
        with self._file(bucket, key).open("rb") as file:
            file.seek(first)
            return file.read(length)

    def remove(self, bucket: str, key: str) -> bool:
        """Remove an object; say whether it was there."""
        gone = self.world.remove(PACKAGE, OBJECT, f"{bucket}/{key}")
        self._file(bucket, key).unlink(missing_ok=True)
        return gone

    def empty(self, bucket: str) -> None:
        """Remove all objects and uploads of a bucket."""
        for record in self.objects(bucket):
            self.remove(bucket, record.doc["key"])
        for record in self.uploads(bucket):
            self.abort(record.id)
        shutil.rmtree(self.folder / bucket, ignore_errors=True)

    def draft(self) -> Path:
        """Return the path of a new file that will be an object or a part."""
        folder = self.folder / ".drafts"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / self.world.new_id("draft")

    def _file(self, bucket: str, key: str) -> Path:
        return self.folder / bucket / hashlib.sha256(key.encode()).hexdigest()

    # -- multipart uploads ------------------------------------------------------------------------------------

    def begin(self, bucket: str, key: str, settings: Doc) -> str:
        """Begin a multipart upload; return its id."""
        id = f"{self.world.next('oss-upload'):032X}"
        self.world.put(PACKAGE, UPLOAD, id, {"bucket": bucket, "key": key, "settings": settings, "parts": {}})
        return id

    def upload(self, id: str) -> Doc | None:
        """Return what is known of an upload, or None."""
        return self.world.get(PACKAGE, UPLOAD, id)

    def uploads(self, bucket: str, prefix: str = "") -> list[Record]:
        """Return the uploads of a bucket that are under way."""
        found = [r for r in self.world.find(PACKAGE, UPLOAD, bucket=bucket) if r.doc["key"].startswith(prefix)]
        return sorted(found, key=lambda record: (record.doc["key"], record.id))

    def add_part(self, id: str, number: int, source: Path) -> Doc | None:
        """Take a file as a part of an upload; return the part, or None when the upload is gone."""
        digest, size, crc = _digest(source)
        part = {"etag": digest.upper(), "size": size, "crc64": str(crc)}
        with self.world.transaction():
            doc = self.upload(id)
            if doc is None:
                source.unlink(missing_ok=True)
                return None
            target = self._part(id, number)
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)
            parts = {**doc["parts"], str(number): part}
            self.world.put(PACKAGE, UPLOAD, id, {**doc, "parts": parts})
        return part

    def complete(self, id: str, numbers: list[int]) -> Doc:
        """Make the object of an upload's parts; return its document."""
        doc = self.upload(id) or {}
        draft, whole, crc, size = self.draft(), hashlib.md5(usedforsecurity=False), 0, 0
        with draft.open("wb") as out:
            for number in numbers:
                whole.update(bytes.fromhex(doc["parts"][str(number)]["etag"]))
                with self._part(id, number).open("rb") as part:
                    while block := part.read(_BLOCK):
                        crc = _crc64(block, crc)
                        size += len(block)
                        out.write(block)
        # OSS "CompleteMultipartUpload": the ETag is no MD5 of the content, and ends in the number of parts.
        etag = f"{whole.hexdigest()}-{len(numbers)}"
        with self.world.transaction():
            saved = self._save(doc["bucket"], doc["key"], draft, etag, size, int(crc), doc["settings"])
            self.abort(id)
        return saved

    def abort(self, id: str) -> None:
        """Forget an upload and its parts."""
        self.world.remove(PACKAGE, UPLOAD, id)
        shutil.rmtree(self._part(id, 0).parent, ignore_errors=True)

    def _part(self, id: str, number: int) -> Path:
        return self.folder / ".parts" / id / str(number)


def _digest(path: Path) -> tuple[str, int, int]:
    digest, size, crc = hashlib.md5(usedforsecurity=False), 0, 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
            crc = _crc64(block, crc)
    return digest.hexdigest(), size, int(crc)
