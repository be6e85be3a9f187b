"""Grants that open a managed disk: its states, the address that a grant gives, and who may write there.

Sources: learn.microsoft.com "Upload a VHD to Azure or copy a managed disk to another region" (virtual-machines/linux/
disks-upload-vhd-to-managed-disk-cli), REST API "Disks - Grant Access", "Disks - Revoke Access" and "Disks - Get",
DiskState; Azure/azure-cli#10192 (a disk that is still open for upload).
"""

import secrets
import time
import urllib.parse
from typing import Any

from ..world import CloudError, Record, World
from .blob_store import Blob
from .records import PACKAGE, Doc, name_of

ACTIONS = {"beginGetAccess": "grant", "endGetAccess": "revoke"}
"""Actions of the API on a disk, and what a planned fault calls them."""
_CONTAINER, _BLOB = "upload", "disk"


def blob_of(world: World, disk: Doc) -> Blob:
    """Return where the bytes of an upload disk lie."""
    return Blob(world, f"md-{disk['uniqueId']}", _CONTAINER, _BLOB)


def act(world: World, disk: Record, action: str, body: Doc, blob_url: str) -> str | None:
    """Grant or revoke; return the address that a grant gives."""
    if action == "beginGetAccess":
        return _grant(world, disk, body, blob_url)
    _revoke(world, disk)
    return None


def _grant(world: World, disk: Record, body: Doc, blob_url: str) -> str:
    access, seconds = body.get("access"), int(body.get("durationInSeconds") or 0)
    state = disk.doc["diskState"]
    if seconds <= 0:
        raise CloudError("InvalidParameter", "The value of parameter 'durationInSeconds' is out of range.")
    if access == "Write" and state not in ("ReadyToUpload", "ActiveUpload"):
        raise CloudError(
            "OperationNotAllowed",
            f"Write access to disk {name_of(disk.id)} in state '{state}' cannot be granted: only a disk that was made "
            "for upload takes it.",
        )
    if access == "Read" and state not in ("Unattached", "Reserved", "ActiveSAS"):
        raise CloudError("OperationNotAllowed", f"Disk {name_of(disk.id)} in state '{state}' cannot be read.")
    if access not in ("Read", "Write"):
        raise CloudError("InvalidParameter", f"The value '{access}' of parameter 'access' is not known.")
    signature = secrets.token_urlsafe(32)
    grant = {"signature": signature, "ends": time.time() + seconds, "access": access}
    state = "ActiveUpload" if access == "Write" else "ActiveSAS"
    world.put(PACKAGE, disk.kind, disk.id, {**disk.doc, "diskState": state, "_grant": grant})
    query = urllib.parse.urlencode({"sv": "2018-03-28", "sr": "b", "sp": "w" if access == "Write" else "r"})
    return f"{blob_url}/{blob_of(world, disk.doc).id}?{query}&sig={signature}"


def _revoke(world: World, disk: Record) -> None:
    # Without a grant there is nothing to do, and that is no error.
    if disk.doc["diskState"] in ("ActiveUpload", "ActiveSAS"):
        left = {key: value for key, value in disk.doc.items() if key != "_grant"}
        world.put(PACKAGE, disk.kind, disk.id, {**left, "diskState": "Unattached"})


def may_write(world: World, account: str, query: dict[str, str]) -> bool:
    """Say whether the signature in an address opens that disk for writing."""
    for record in world.find(PACKAGE, "Disk"):
        if f"md-{record.doc['uniqueId']}" == account:
            grant: dict[str, Any] = record.doc.get("_grant") or {}
            given = query.get("sig", "")
            return (
                grant.get("access") == "Write"
                and secrets.compare_digest(given.encode(), str(grant["signature"]).encode())
                and time.time() < grant["ends"]
            )
    return False
