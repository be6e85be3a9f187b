"""Where the lab keeps page blobs: a sparse file for the bytes, a second one that marks written pages, a record.

The files lie in ``<world folder>/blobs/<account>/<container>``; everything else about a blob is in its record. A lab
may keep the blobs of its storage accounts in another server instead (``keep_in``); upload disks stay here.
"""

import os
import re
import threading
import urllib.parse
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any, Protocol

from ..world import CloudError, Record, World
from .records import PACKAGE, lookup

PAGE = 512
KIND = "blob"
DISKS = "md-"
"""Where the name of the account begins with this, the blob is an upload disk."""
_lock = threading.Lock()


class Server(Protocol):
    """A server that keeps blobs in the lab's place; each is named by account, container and name."""

    def size(self, where: tuple[str, str, str]) -> int:
        """Return the bytes of a blob."""

    def read(self, where: tuple[str, str, str], offset: int, length: int) -> bytes:
        """Return a part of a blob."""

    def remove(self, where: tuple[str, str, str]) -> None:
        """Delete a blob; one that is gone already is no error."""


_servers: dict[Path, Server] = {}


def keep_in(world: World, server: Server | None) -> None:
    """Let a server keep the blobs of a world's storage accounts, or the lab itself again."""
    if server is None:
        _servers.pop(world.folder, None)
    else:
        _servers[world.folder] = server


def server_of(world: World, account: str) -> Server | None:
    """Return the server that keeps an account's blobs; None when the lab does."""
    return None if account.startswith(DISKS) else _servers.get(world.folder)


def key(account: str, container: str, name: str) -> str:
    """Return the id of a blob's record."""
    return f"{account}/{container}/{name}"


class Blob:
    """One page blob."""

    def __init__(self, world: World, account: str, container: str, name: str) -> None:
        self.world = world
        self.id = key(account, container, name)
        self._names = account, container, name
        self._server = server_of(world, account)
        folder = world.folder / "blobs" / account / container
        self.path = folder / urllib.parse.quote(name, safe="")
        self._pages = folder / (self.path.name + "#pages")

    def record(self) -> dict[str, Any] | None:
        """Return what is known of the blob, or None when it is not there."""
        return self.world.get(PACKAGE, KIND, self.id)

    def create(self, size: int, doc: dict[str, Any]) -> dict[str, Any]:
        """Make the blob, empty, or make it anew; ``size`` is in bytes, whole pages."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        for path, length in ((self.path, size), (self._pages, size // PAGE)):
            with path.open("wb") as file:
                file.truncate(length)
        return self.save({**doc, "size": size, "sequence": 0})

    def save(self, doc: dict[str, Any]) -> dict[str, Any]:
        """Write the record down with a new ETag."""
        tag = f'"0x8DC{self.world.next("blob-etag"):012X}"'
        now = doc | {"etag": tag, "lastModified": formatdate(usegmt=True)}
        self.world.put(PACKAGE, KIND, self.id, now)
        return now

    def resize(self, size: int) -> None:
        """Cut the blob or let it grow; new pages read as zero."""
        os.truncate(self.path, size)
        os.truncate(self._pages, size // PAGE)

    def write(self, offset: int, data: bytes | None, length: int) -> None:
        """Write ``data`` at ``offset``, or clear ``length`` bytes there when there is no data."""
        with _lock, self.path.open("r+b") as file, self._pages.open("r+b") as pages:
            file.seek(offset)
            file.write(bytes(length) if data is None else data)
            pages.seek(offset // PAGE)
            pages.write((b"\0" if data is None else b"\1") * (length // PAGE))

    def size(self) -> int:
        """Return the bytes of the blob."""
        return self.path.stat().st_size if self._server is None else self._server.size(self._names)

    def read(self, offset: int, length: int) -> bytes:
        """Return a part of the blob."""
        if self._server is not None:
            return self._server.read(self._names, offset, length)
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(length)

    def ranges(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the written ranges between two offsets, last byte included, as Azure counts them."""
        start = first // PAGE
        with self._pages.open("rb") as pages:
            pages.seek(start)
            marks = pages.read(last // PAGE + 1 - start)
        for match in re.finditer(b"\1+", marks):
            yield (start + match.start()) * PAGE, (start + match.end()) * PAGE - 1

    def remove(self) -> None:
        """Delete the blob."""
        if self._server is not None:
            self._server.remove(self._names)
        self.world.remove(PACKAGE, KIND, self.id)
        for path in (self.path, self._pages):
            path.unlink(missing_ok=True)


def remove_below(world: World, account: str, container: str | None = None) -> None:
    """Delete all blobs of an account or container."""
    prefix = f"{account}/{container}/" if container else f"{account}/"
    for record in world.find(PACKAGE, KIND):
        if record.id.startswith(prefix):
            Blob(world, *record.id.split("/", 2)).remove()


def find_by_uri(world: World, uri: str, storage_account_id: Any, owner: str) -> tuple[Blob, Record]:
    """Return a blob and the record of its account; raise CloudError as Azure does when there is none.

    The URI names the account in its host (``https://acct.blob...``) or, as local servers do, in its path.
    """
    parts = urllib.parse.urlsplit(uri)
    path = urllib.parse.unquote(parts.path).lstrip("/")
    host = parts.hostname or ""
    account = lookup(world, "StorageAccount", storage_account_id)
    if account is None:
        raise CloudError(
            "InvalidParameter", f"The storage account {storage_account_id} that {owner} names was not found."
        )
    name = account.doc["name"]
    if ".blob." in host:
        path = f"{host.split('.')[0]}/{path}"
    if path.count("/") < 2 or path.split("/", 1)[0] != name:
        raise CloudError("InvalidParameter", f"The blob {uri} is not in storage account {name}.")
    blob = Blob(world, *path.split("/", 2))
    if blob.record() is None:
        raise CloudError("InvalidParameter", f"The source blob {uri} of {owner} does not exist.")
    return blob, account
