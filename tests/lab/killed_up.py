"""An `up` that is ended with SIGKILL, the engine and all that it started with it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lab_folder import ROOT, Lab


def descendants(process: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, ValueError, IndexError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found


def kill_up(lab: Lab, when: Callable[[], bool]) -> None:
    """Run ``up``, and kill it as soon as ``when`` says so."""
    command = [sys.executable, "-m", "lab", "up", "--yes", "--skip-preview", "--stack", lab.stack]
    command += ["-C", str(lab.program)] if lab.program is not None else []
    command += ["--config-file", str(lab.config_file)]
    environment = {**os.environ, "HYBRID_TALOS_LAB": str(lab.folder)}
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=quiet, stderr=quiet)
    end = time.monotonic() + 300
    try:
        while not when():
            assert process.poll() is None, "it ended before it could be killed"
            assert time.monotonic() < end
            time.sleep(0.02)
    finally:
        for one in descendants(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        process.wait()
    # As the CLI says: the lock of the killed run is taken away by hand.
    lab.run("cancel", "--yes")
