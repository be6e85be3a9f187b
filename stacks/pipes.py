"""Pipes with a name, for programs that write secrets to a path of their own choice of none but a file."""

import os
import select
import shutil
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def received(run: Callable[[str], T]) -> tuple[T, bytes]:
    """Return what ``run`` returned, and what was written to the path that it was given: in memory, on no disk."""
    folder = Path(tempfile.mkdtemp(prefix="hybrid-talos-"))
    try:
        path = folder / "secret"
        os.mkfifo(path, 0o600)
        # Both ends, so that nobody waits for the other to open it, and there is no end before all is read.
        descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        parts: list[bytes] = []
        ended = threading.Event()

        def drain() -> None:
            with suppress(BlockingIOError):
                while part := os.read(descriptor, 1 << 16):
                    parts.append(part)

        def read() -> None:
            while not ended.is_set():
                if select.select([descriptor], [], [], 0.1)[0]:
                    drain()

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            result = run(str(path))
        finally:
            ended.set()
            reader.join()
            drain()
            os.close(descriptor)
        return result, b"".join(parts)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
