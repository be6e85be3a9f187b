"""One change of a cluster at a time, in this process, in others on this machine, and across a run that was killed."""

import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .talos_calls import Say
from .work_provider import WorkError

_PAUSE = 1.0
_SAY_EVERY = 30


@contextmanager
def cluster_lock(
    authority: str,
    say: Say,
    *,
    seconds: float = 4 * 3600,
    folder: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[int]:
    """Hold the lock of the cluster with this ``authority`` (its certificate); yield the lock's descriptor.

    A child that gets the descriptor keeps the lock until it ends, even when this process is killed.
    """
    name = f"hybrid-talos-{hashlib.sha256(authority.encode()).hexdigest()[:16]}.lock"
    path = (folder or Path(tempfile.gettempdir())) / f"{os.getuid()}-{name}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        start, tries = clock(), 0
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if clock() - start >= seconds:
                    raise WorkError(
                        f"another change of this cluster has not ended within {seconds / 3600:.0f} hours. Next: see "
                        "whether a talosctl of an earlier run is still there, end it, and run `pulumi up` again"
                    ) from None
                if tries % _SAY_EVERY == 0:
                    say("waiting for another change of this cluster to end")
                tries += 1
                sleep(_PAUSE)
        yield descriptor
    finally:
        # Closes the lock too, unless a child still holds it.
        os.close(descriptor)
