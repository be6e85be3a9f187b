"""Remembers a recovery that was begun: one that was killed is gone on with, not taken for a cluster that runs."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Begun:
    """A recovery that was begun on this computer."""

    snapshot: str
    """Digest of the snapshot."""
    machine: str
    """Address of the control plane that it went to."""


class RecoveryRecord:
    """The record of one cluster, by its authority (a certificate); it holds no secret."""

    def __init__(self, authority: str, environment: Mapping[str, str] | None = None) -> None:
        env = os.environ if environment is None else environment
        base = Path(env.get("XDG_STATE_HOME") or Path(env.get("HOME") or Path.home(), ".local", "state"))
        self._path = base / "hybrid-talos" / f"recovery-{hashlib.sha256(authority.encode()).hexdigest()[:16]}.json"

    def read(self) -> Begun | None:
        """Return the recovery that was begun and not ended, or None."""
        try:
            found = json.loads(self._path.read_text())
            return Begun(str(found["snapshot"]), str(found["machine"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, begun: Begun) -> None:
        """Record a recovery, before anything is asked of a machine."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        with open(draft, "w") as file:
            json.dump({"snapshot": begun.snapshot, "machine": begun.machine}, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self._path)

    def forget(self) -> None:
        """Forget the recovery, which has ended."""
        self._path.unlink(missing_ok=True)
