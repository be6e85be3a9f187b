"""Files that only their owner reads, there whole or not at all."""

import os
import tempfile
from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Write a file with the mode 0600 in the place of what is there.

    Another reader, and whoever comes after a crash, finds the old content or the new one.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # With the mode 0600 from the start.
    descriptor, draft = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
