"""A snapshot that is read again: decrypted into memory alone, checked, and handed to talosctl by a descriptor."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyrage

from .snapshot_check import SnapshotCheck
from .work_provider import WorkError

VARIABLE = "SOPS_AGE_KEY_FILE"
"""Where sops looks for the private keys of age (getsops/sops README, "Encrypting using age")."""


@dataclass(frozen=True)
class PlainSnapshot:
    """A snapshot in memory."""

    path: str
    """Of the memory, for a process that inherits the descriptor."""
    descriptors: tuple[int, ...]
    digest: str
    """SHA-256 of the database, in hexadecimal."""
    size: int


def identities_of(path: Path) -> list[Any]:
    """Return the private keys in a file of age; WorkError, which says nothing of them, when there is none."""
    try:
        lines = [line.strip() for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text"
        raise WorkError(f"the private key cannot be read from {path}: {reason}") from None
    found = []
    for number, line in enumerate(lines, start=1):
        if line and not line.startswith("#"):
            try:
                found.append(pyrage.x25519.Identity.from_str(line))
            except pyrage.IdentityError:
                raise WorkError(
                    f"{path}, line {number}: is no private key of age, such as `age-keygen` writes it "
                    "(AGE-SECRET-KEY-1...)"
                ) from None
    if not found:
        raise WorkError(f"{path} holds no private key of age")
    return found


class _Reader:
    """What age reads: pieces that come one after the other."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._left = b""
        self.error: Exception | None = None

    def read(self, count: int = -1) -> bytes:
        if not self._left:
            try:
                self._left = next(self._pieces, b"")
            except Exception as error:
                # age would hide what it is.
                self.error = error
                raise
        part = self._left if count < 0 else self._left[:count]
        self._left = self._left[len(part) :]
        return part


class _Writer:
    """What age writes to: memory, and the check sees it too."""

    def __init__(self, descriptor: int, check: SnapshotCheck) -> None:
        self._descriptor = descriptor
        self._check = check

    def write(self, data: bytes) -> int:
        self._check.add(data)
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]
        return len(data)

    def flush(self) -> None:
        pass


@contextmanager
def plain_snapshot(name: str, pieces: Iterator[bytes], identities: Sequence[Any]) -> Iterator[PlainSnapshot]:
    """Decrypt a snapshot into memory, which is gone with this process whatever ends it, and yield it once it is whole.

    talosctl looks into the database before it sends it, so all of it must be there.

    Raises:
        WorkError: it cannot be decrypted with these keys, or is damaged.
    """
    if not hasattr(os, "memfd_create"):
        raise WorkError(
            "a snapshot is restored on Linux alone, where it need not be written to a disk in clear. Next: run the "
            "command there, or in a container"
        )
    descriptor = os.memfd_create("snapshot")
    try:
        check, reader = SnapshotCheck(), _Reader(pieces)
        try:
            pyrage.decrypt_io(reader, _Writer(descriptor, check), identities)  # type: ignore[arg-type]
        except (pyrage.DecryptError, OSError) as error:
            if isinstance(reader.error, WorkError):
                raise reader.error from None
            if "No matching keys" in str(error):
                raise WorkError(
                    f"{name} is encrypted for other keys. Next: name the file with the private key of one of its "
                    f"recipients (--identity, or {VARIABLE})"
                ) from None
            raise WorkError(
                f"{name} is damaged, or was not encrypted with age ({error}). Next: take another one"
            ) from None
        problem = check.problem()
        if problem is not None:
            raise WorkError(f"{name} {problem}. Next: take another one")
        yield PlainSnapshot(f"/proc/self/fd/{descriptor}", (descriptor,), check.digest, check.size)
    finally:
        os.close(descriptor)
