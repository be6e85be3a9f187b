"""Snapshots of etcd in a folder."""

import os
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .snapshot_store import Kept, is_snapshot
from .work_provider import WorkError

_CHUNK = 1 << 20
_DRAFT_SECONDS = 24 * 3600


class FolderStore:
    """A folder that only this user reads; made when the first snapshot comes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def where(self) -> str:
        """Return the folder."""
        return str(self._folder)

    def put(self, name: str, content: Iterator[bytes]) -> None:
        """Write a file beside its place, and link it there once it is whole and on the disk."""
        path = self._folder / name
        draft = self._folder / f".{name}.{os.getpid()}.draft"
        with self._errors("written to"):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._forget_drafts()
            try:
                with open(draft, "wb", opener=_private) as file:
                    for chunk in content:
                        file.write(chunk)
                    file.flush()
                    os.fsync(file.fileno())
                # Unlike a rename, this leaves alone what is there.
                os.link(draft, path)
            except FileExistsError:
                raise WorkError(f"{path} is there already. Next: run the command again") from None
            finally:
                draft.unlink(missing_ok=True)
            self._sync()

    def get(self, name: str) -> Generator[bytes, None, None]:
        """Read a file."""
        with self._errors("read"), (self._folder / name).open("rb") as file:
            yield from iter(lambda: file.read(_CHUNK), b"")

    def names(self) -> list[Kept]:
        """List the folder."""
        with self._errors("read"):
            if not self._folder.exists():
                return []
            return [
                Kept(entry.name, entry.stat().st_size)
                for entry in sorted(self._folder.iterdir())
                if entry.is_file() and is_snapshot(entry.name)
            ]

    def remove(self, name: str) -> None:
        """Delete a file."""
        with self._errors("written to"):
            (self._folder / name).unlink(missing_ok=True)

    def _forget_drafts(self) -> None:
        """Delete what runs that were killed have left behind, which is encrypted and of no use."""
        for draft in self._folder.glob(".*.db.age.*.draft"):
            with suppress(OSError):
                if draft.stat().st_mtime < time.time() - _DRAFT_SECONDS:
                    draft.unlink()

    def _sync(self) -> None:
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WorkError(
                f"{error.filename or self._folder} cannot be {what}: {error.strerror}. Next: see that the folder "
                "exists, is yours and has free space, or name another one"
            ) from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_EXCL, 0o600)
