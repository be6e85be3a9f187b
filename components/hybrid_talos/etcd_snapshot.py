"""Snapshots of etcd: taken through talosctl, encrypted with age before they touch a disk."""

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyrage

from .talos_calls import Machine, Talos
from .work_provider import WorkError

_MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory


@dataclass(frozen=True)
class Target:
    """Where snapshots go."""

    cluster: str
    directory: Path
    recipients: Sequence[str]
    """Public keys (age) of those who may read them."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Target":
        """Return the target that properties of a resource describe."""
        return cls(str(given["cluster"]), Path(str(given["directory"])).expanduser(), list(given["recipients"]))


def recipient_problem(recipient: str) -> str | None:
    """Return why a text is no public key of age, or None."""
    try:
        pyrage.x25519.Recipient.from_str(recipient)
    except pyrage.RecipientError:
        return "must be a public key of age, such as `age-keygen` prints it (age1...)"
    return None


def take(
    talos: Talos, machine: Machine, target: Target, now: Callable[[], datetime] = lambda: datetime.now(UTC)
) -> Path:
    """Take a snapshot from a member of etcd, and return the encrypted file.

    What talosctl writes, which holds every Secret of the cluster, lies in memory where the system has a file system
    there, else in a folder that only this user reads, and is deleted at once.
    """
    recipients = [pyrage.x25519.Recipient.from_str(recipient) for recipient in target.recipients]
    in_memory = _MEMORY if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="hybrid-talos-", dir=in_memory) as folder:
        plain = Path(folder, "snapshot")
        talos.snapshot(machine, plain)
        path = target.directory / f"{target.cluster}-{now():%Y%m%dT%H%M%SZ}.db.age"
        try:
            target.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = path.with_name(f".{path.name}.{os.getpid()}")
            with plain.open("rb") as reader, open(draft, "wb", opener=_private) as writer:
                pyrage.encrypt_io(reader, writer, recipients)
            draft.replace(path)
        except OSError as error:
            raise WorkError(
                f"the snapshot of etcd cannot be written to {target.directory}: {error.strerror}. Next: free space "
                "there or name another folder (cluster.snapshots.directory)"
            ) from None
    return path


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
