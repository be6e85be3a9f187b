"""Leases of blobs.

Source: learn.microsoft.com "Lease Blob" (rest/api/storageservices/lease-blob: actions, durations, outcomes of use by
lease state) and "Blob Storage error codes".
"""

import time
import uuid
from typing import Any

from .records import Doc

_SHORTEST, _LONGEST, _INFINITE = 15, 60, -1
_LONGEST_BREAK = 60


class LeaseRefused(Exception):
    """A lease that does not allow what was asked: status, code and message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def state(doc: Doc) -> str:
    """Return the state of a blob's lease: available, leased, expired, breaking or broken."""
    lease = doc.get("lease") or {}
    if not lease:
        return "available"
    if lease.get("breaks") is not None:
        return "broken" if time.time() >= lease["breaks"] else "breaking"
    return "leased" if lease["ends"] is None or time.time() < lease["ends"] else "expired"


def verify(doc: Doc | None, given: str | None, *, writing: bool) -> None:
    """Raise LeaseRefused unless a request with that lease id may go on."""
    if doc is None:
        return
    now, lease = state(doc), doc.get("lease") or {}
    if given is None:
        if writing and now in ("leased", "breaking"):
            raise LeaseRefused(
                412, "LeaseIdMissing", "There is currently a lease on the blob and no lease ID was specified."
            )
        return
    if now == "available":
        raise LeaseRefused(412, "LeaseNotPresentWithBlobOperation", "There is currently no lease on the blob.")
    if given.lower() != lease["id"]:
        raise LeaseRefused(
            412, "LeaseIdMismatchWithBlobOperation", "The lease ID specified did not match the lease ID for the blob."
        )
    if now in ("expired", "broken"):
        raise LeaseRefused(412, "LeaseLost", "A lease ID was specified, but the lease for the blob has expired.")


def act(doc: Doc, headers: Any) -> tuple[int, dict[str, str], Doc | None]:
    """Carry out a lease action; return status, headers and the lease as it is from then on."""
    action = (headers.get("x-ms-lease-action") or "").lower()
    given = (headers.get("x-ms-lease-id") or "").lower()
    now, lease = state(doc), dict(doc.get("lease") or {})
    if action == "acquire":
        return _acquire(headers, now, lease)
    if now == "available":
        raise LeaseRefused(409, "LeaseNotPresentWithLeaseOperation", "There is currently no lease on the blob.")
    if action == "break":
        return _break(headers, now, lease)
    if given != lease["id"]:
        raise LeaseRefused(
            409, "LeaseIdMismatchWithLeaseOperation", "The lease ID specified did not match the lease ID for the blob."
        )
    if action == "release":
        return 200, {}, None
    if action == "renew":
        if now in ("breaking", "broken"):
            raise LeaseRefused(409, "LeaseIsBrokenAndCannotBeRenewed", "The lease has been broken.")
        lease["ends"] = None if lease["seconds"] == _INFINITE else time.time() + lease["seconds"]
        return 200, {"x-ms-lease-id": lease["id"]}, lease
    raise LeaseRefused(400, "InvalidHeaderValue", f"The lab does not know the lease action '{action}'.")


def _acquire(headers: Any, now: str, lease: Doc) -> tuple[int, dict[str, str], Doc]:
    seconds = int(headers.get("x-ms-lease-duration") or 0)
    if seconds != _INFINITE and not _SHORTEST <= seconds <= _LONGEST:
        raise LeaseRefused(400, "InvalidHeaderValue", "A lease lasts 15 to 60 seconds, or -1 for ever.")
    wanted = (headers.get("x-ms-proposed-lease-id") or str(uuid.uuid4())).lower()
    if now in ("leased", "breaking") and wanted != lease["id"]:
        raise LeaseRefused(409, "LeaseAlreadyPresent", "There is already a lease present.")
    ends = None if seconds == _INFINITE else time.time() + seconds
    return 201, {"x-ms-lease-id": wanted}, {"id": wanted, "seconds": seconds, "ends": ends, "breaks": None}


def _break(headers: Any, now: str, lease: Doc) -> tuple[int, dict[str, str], Doc]:
    left = 0.0 if now in ("expired", "broken") else _LONGEST_BREAK
    if lease["ends"] is not None:
        left = max(0.0, lease["ends"] - time.time())
    if (period := headers.get("x-ms-lease-break-period")) is not None:
        left = min(left, int(period))
    return 202, {"x-ms-lease-time": str(int(left))}, {**lease, "breaks": time.time() + left}
