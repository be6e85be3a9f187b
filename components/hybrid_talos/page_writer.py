"""The pages of a disk, written many at once in bounded memory, with checkpoints that a later run can go on from.

A checkpoint says: every page that ends at or below this offset is written, and this is the digest of those
pages. A run that goes on from it reads the same image again from its beginning, writes none of those pages, and
compares the digest of what it has read when it gets there. So nothing is taken on trust: neither that the server
still serves the same image, nor that this code still cuts it into the same pages.
"""

import hashlib
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from .disk_image import MIB, Page

WORKERS = 8
# Pages that are held at once, of up to 4 MiB each: those under way, and as many as keep the workers from waiting.
_HELD = WORKERS + 2
# Pages that the reading is ahead of the oldest that is not written yet: what a slow one costs is checkpoints.
_AHEAD = 4 * WORKERS
_CHECKPOINT_EVERY = 64 * MIB
_PLACE = struct.Struct(">QQ")


class SourceChanged(Exception):
    """The image is not the one that the pages before the checkpoint came from; everything must be written anew."""


@dataclass(frozen=True)
class Checkpoint:
    """How far an earlier run came."""

    end: int
    """Every page below this offset is written."""
    digest: str
    """SHA-256 over the place and content of those pages."""


def write_pages(
    pages: Iterable[Page],
    write: Callable[[int, bytes], object],
    *,
    prepare: Callable[[int], None] = lambda _: None,
    resume: Checkpoint | None = None,
    save: Callable[[Checkpoint], None] | None = None,
    checkpoint_every: int = _CHECKPOINT_EVERY,
    workers: int = WORKERS,
) -> int:
    """Write ``pages``, which come in order, and return the bytes that were written.

    ``write`` is called from many threads; ``prepare`` from this one, with the end of each page that is about to
    be written. ``save`` gets a checkpoint now and then. The first error stops the reading, waits for what is
    under way, and is raised. Raises SourceChanged when ``resume`` does not fit the image.
    """
    chain = _Chain()
    sent = saved = 0
    # Only the digests wait for a page that takes long; others are read and written meanwhile.
    pending: deque[tuple[Future[bytes], int, int]] = deque()
    room = threading.Semaphore(_HELD)
    errors: list[BaseException] = []

    def settle(most: int) -> None:
        while pending and (len(pending) > most or pending[0][0].done()):
            future, offset, length = pending.popleft()
            chain.add(offset, length, future.result())

    def submit(job: Callable[[int, bytes], bytes], offset: int, data: bytes) -> None:
        def run() -> bytes:
            try:
                return job(offset, data)
            except BaseException as error:
                errors.append(error)
                raise
            finally:
                room.release()

        room.acquire()
        if errors:
            raise errors[0]
        pending.append((pool.submit(run), offset, len(data)))

    def written(offset: int, data: bytes) -> bytes:
        write(offset, data)
        return _digest(offset, data)

    unproved = resume
    with ThreadPoolExecutor(workers) as pool:
        try:
            for offset, data in pages:
                if unproved is not None and offset >= unproved.end:
                    settle(0)
                    chain.compare(unproved)
                    unproved = None
                if unproved is not None:
                    submit(_digest, offset, data)
                else:
                    prepare(offset + len(data))
                    submit(written, offset, data)
                    sent += len(data)
                settle(_AHEAD)
                if save is not None and unproved is None and chain.bytes - saved >= checkpoint_every:
                    save(chain.checkpoint())
                    saved = chain.bytes
            settle(0)
            if unproved is not None:
                chain.compare(unproved)
        except BaseException:
            for future, _, _ in pending:
                future.cancel()
            raise
    return sent


class _Chain:
    """The digest of all pages so far, in order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self.end = 0
        self.bytes = 0

    def add(self, offset: int, length: int, digest: bytes) -> None:
        self._hash.update(_PLACE.pack(offset, length) + digest)
        self.end = offset + length
        self.bytes += length

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self.end, self._hash.hexdigest())

    def compare(self, other: Checkpoint) -> None:
        if self.checkpoint() != other:
            raise SourceChanged


def _digest(_offset: int, data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
