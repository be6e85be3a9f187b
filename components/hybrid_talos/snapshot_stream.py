"""A snapshot of etcd as a stream, from talosctl through age to where it is kept: in the clear on no disk.

talosctl writes to a path (siderolabs/talos cmd/talosctl/cmd/talos/etcd.go): `<path>.part`, which it then syncs to the
disk and renames. Here that path leads to a pipe. A pipe cannot be synced, which talosctl asks for once it has written
everything, so that one complaint is expected; whether everything came is told by the digest that etcd puts at the end.
"""

import os
import tempfile
import threading
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pyrage

from .snapshot_check import SnapshotCheck
from .talos_calls import Machine, TalosError
from .talosctl_run import Talosctl
from .work_provider import WorkError

CHUNK = 1 << 16
SECONDS = 1800.0
"""A database of etcd may have 8 GiB (etcd.io, "System limits")."""

_PIPE_COMPLAINT = "failed to fsync"
_END_SECONDS = 5.0


class _Checked:
    """What age reads: the snapshot from the pipe, and the check sees it too."""

    def __init__(self, descriptor: int, check: SnapshotCheck) -> None:
        self._descriptor = descriptor
        self._check = check

    def read(self, count: int = -1) -> bytes:
        data = os.read(self._descriptor, CHUNK if count < 0 else count)
        self._check.add(data)
        return data


class _Sealed:
    """What age writes to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, data: bytes) -> int:
        left = memoryview(data)
        while left:
            left = left[os.write(self._descriptor, left) :]
        return len(data)

    def flush(self) -> None:
        pass


class _Job:
    """Work in a thread of its own, with its error; ``descriptors`` are closed at its end."""

    def __init__(self, work: Callable[[], object], descriptors: Sequence[int]) -> None:
        self.error: BaseException | None = None
        self._work = work
        self._descriptors = descriptors
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - raised again where the stream is read
            self.error = error
        finally:
            for descriptor in self._descriptors:
                os.close(descriptor)

    def join(self, seconds: float | None = None) -> None:
        """Wait for the end."""
        self._thread.join(seconds)


def recipients_of(keys: Sequence[str]) -> list[Any]:
    """Return public keys of age as it takes them; WorkError that names the place of one that is none."""
    found = []
    for number, key in enumerate(keys, start=1):
        try:
            found.append(pyrage.x25519.Recipient.from_str(key.strip()))
        except pyrage.RecipientError:
            raise WorkError(
                f"recipient {number} must be a public key of age, such as `age-keygen -y key.txt` prints it (age1...)"
            ) from None
    if not found:
        raise WorkError("a recipient is needed: the public key of age (age1...) of whoever may read the snapshot")
    return found


def encrypted_snapshot(talosctl: Talosctl, machine: Machine, keys: Sequence[str]) -> Generator[bytes, None, None]:
    """Take a snapshot from a control plane and yield it, encrypted for the public ``keys``.

    Whoever keeps it must do so only once the stream has ended: it raises at its end when the snapshot is not whole.

    Raises:
        WorkError: the snapshot cannot be taken, or is not whole.
    """
    recipients = recipients_of(keys)
    check = SnapshotCheck()
    with tempfile.TemporaryDirectory(prefix="hybrid-talos-") as folder:
        path = Path(folder, "snapshot")
        plain, snapshot = os.pipe()
        sealed, writer = os.pipe()
        # A name alone lies on the disk.
        Path(f"{path}.part").symlink_to(f"/dev/fd/{snapshot}")
        taking = _Job(lambda: _take(talosctl, machine, path, snapshot), [snapshot])
        sealing = _Job(
            lambda: pyrage.encrypt_io(_Checked(plain, check), _Sealed(writer), recipients),  # type: ignore[arg-type]
            [plain, writer],
        )
        try:
            with open(sealed, "rb", buffering=0) as stream:
                while chunk := stream.read(CHUNK):
                    yield chunk
            for job in (sealing, taking):
                job.join()
            _raise_first(sealing, taking)
            problem = check.problem()
            if problem is not None:
                raise WorkError(f"the snapshot that {machine.name} sent {problem}. Next: take it again")
        finally:
            # Nobody reads any more, so both end, unless talosctl waits for a machine that says nothing.
            for job in (sealing, taking):
                job.join(_END_SECONDS)


def _take(talosctl: Talosctl, machine: Machine, path: Path, descriptor: int) -> None:
    try:
        talosctl.follow(
            ["etcd", "snapshot", str(path)],
            endpoints=[machine.endpoint],
            node=machine.address,
            seconds=SECONDS,
            say=lambda _: None,
            descriptors=(descriptor,),
        )
    except TalosError as error:
        if _PIPE_COMPLAINT not in str(error):
            raise


def _raise_first(sealing: _Job, taking: _Job) -> None:
    # With nobody to encrypt for it, talosctl fails too: the cause goes first.
    for job in (sealing, taking):
        if isinstance(job.error, WorkError):
            raise job.error
        if job.error is not None:
            raise WorkError(f"the snapshot could not be encrypted: {type(job.error).__name__}") from None
