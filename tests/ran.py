"""What a command that a test ran printed, and how it ended."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass
class Run:
    """What one command printed, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All that it printed."""
        return self.out + self.err


def checked(done: subprocess.CompletedProcess[str], words: Sequence[str], code: int | None) -> Run:
    """Return a run after a look at how it ended; ``code=None`` takes any end."""
    run = Run(done.returncode, done.stdout, done.stderr)
    if code is not None:
        assert run.code == code, f"{' '.join(words)} ended with {run.code}:\n{run.text[-8000:]}"
    return run
