"""Secrets for programs that read them from a path: held in memory, never on a disk or in an argument."""

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class SecretFile:
    """A path that yields a secret each time it is opened. ``descriptors`` must be passed on to a child process."""

    def __init__(self, path: str, descriptors: tuple[int, ...] = ()) -> None:
        self.path = path
        self.descriptors = descriptors


@contextmanager
def secret_file(content: str) -> Iterator[SecretFile]:
    """Yield a path from which this process and its children read ``content``, as often as they like."""
    if hasattr(os, "memfd_create"):
        with _memory(content) as file:
            yield file
    else:
        with pipe_file(content) as file:
            yield file


@contextmanager
def _memory(content: str) -> Iterator[SecretFile]:
    descriptor = os.memfd_create("secret")
    try:
        data = content.encode()
        while data:
            data = data[os.write(descriptor, data) :]
        # Opened through /proc it starts at the beginning each time, whatever others read.
        yield SecretFile(f"/proc/self/fd/{descriptor}", (descriptor,))
    finally:
        os.close(descriptor)


@contextmanager
def pipe_file(content: str) -> Iterator[SecretFile]:
    """Yield a named pipe that serves ``content``: what systems without anonymous memory files have (macOS).

    The pipe's name lies in a folder of the user's own; what goes through it touches no disk.
    """
    folder = Path(tempfile.mkdtemp(prefix="hybrid-talos-"))
    path, fresh = folder / "secret", folder / "next"
    ended = threading.Event()

    def serve() -> None:
        while True:
            # Waits for a reader.
            with path.open("w") as writer:
                if ended.is_set():
                    return
                # Whoever opens the path from now on gets a pipe of its own, and not the end of this one.
                os.mkfifo(fresh, 0o600)
                fresh.replace(path)
                with suppress(BrokenPipeError):
                    writer.write(content)
                    writer.flush()

    try:
        os.mkfifo(path, 0o600)
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        yield SecretFile(str(path))
        ended.set()
        # Wakes the writer that waits for a reader.
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        server.join(timeout=5)
    finally:
        ended.set()
        shutil.rmtree(folder, ignore_errors=True)
