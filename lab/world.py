"""The state of the simulated clouds: one SQLite file that every process of the lab sees.

A record is one thing in a cloud (a scale set, a vSwitch, a Kubernetes object, a Talos machine), addressed by the
package that owns it, its kind and its id. Planned faults and the log of what was done stand beside the records, so
that a fault planned in one process strikes in the next, and a test can ask in which order things were made.
"""

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SCHEMA = """
CREATE TABLE IF NOT EXISTS records (
    package TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL, doc TEXT NOT NULL, seq INTEGER NOT NULL,
    PRIMARY KEY (package, kind, id)
);
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS events (
    n INTEGER PRIMARY KEY AUTOINCREMENT, package TEXT NOT NULL, op TEXT NOT NULL, kind TEXT NOT NULL,
    id TEXT NOT NULL, note TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS faults (
    n INTEGER PRIMARY KEY AUTOINCREMENT, op TEXT NOT NULL, kind TEXT NOT NULL, nth INTEGER NOT NULL,
    action TEXT NOT NULL, seconds REAL NOT NULL, message TEXT NOT NULL, seen INTEGER NOT NULL DEFAULT 0,
    done INTEGER NOT NULL DEFAULT 0
);
"""

ACTIONS = ("fail", "slow", "lost", "no-stock")
"""What a planned fault does: `fail` refuses the call, `slow` delays it, `lost` does the work in the cloud and then
loses the answer, `no-stock` refuses as a cloud does that has no machines of the wanted size."""

_SLOWEST = 600.0


class CloudError(Exception):
    """A refusal by a simulated cloud, worded as the real one words it: a code and a message."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class LostAnswer(Exception):
    """The cloud did the work, but its answer never reached the caller."""


@dataclass(frozen=True)
class Record:
    """One thing in a simulated cloud."""

    package: str
    kind: str
    id: str
    doc: dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """A planned fault and how often its call was seen."""

    n: int
    op: str
    kind: str
    nth: int
    action: str
    seconds: float
    message: str
    seen: int
    done: int


@dataclass(frozen=True)
class Event:
    """Something that was done in a simulated cloud."""

    n: int
    package: str
    op: str
    kind: str
    id: str
    note: str


class World:
    """The simulated clouds' state, kept in ``folder``; safe to open from several processes and threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = threading.RLock()
        self._db = sqlite3.connect(folder / "cloud.sqlite3", timeout=30, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.executescript(_SCHEMA)
        self._depth = 0

    def close(self) -> None:
        """Close the file; the state stays."""
        with self._lock:
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make several reads and writes one step: all of it happens, or nothing."""
        with self._lock:
            if self._depth:
                self._depth += 1
                try:
                    yield
                finally:
                    self._depth -= 1
                return
            self._db.execute("BEGIN IMMEDIATE")
            self._depth = 1
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            else:
                self._db.execute("COMMIT")
            finally:
                self._depth = 0

    def get(self, package: str, kind: str, id: str) -> dict[str, Any] | None:
        """Return a record's document, or None when the thing does not exist."""
        with self._lock:
            row = self._db.execute(
                "SELECT doc FROM records WHERE package=? AND kind=? AND id=?", (package, kind, id)
            ).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, package: str, kind: str, id: str, doc: dict[str, Any]) -> None:
        """Create a record or replace its document."""
        text = json.dumps(doc, sort_keys=True)
        with self.transaction():
            self._db.execute(
                "INSERT INTO records (package, kind, id, doc, seq) VALUES (?,?,?,?,?) "
                "ON CONFLICT (package, kind, id) DO UPDATE SET doc=excluded.doc",
                (package, kind, id, text, self.next("seq")),
            )

    def remove(self, package: str, kind: str, id: str) -> bool:
        """Remove a record; say whether it was there."""
        with self._lock:
            done = self._db.execute("DELETE FROM records WHERE package=? AND kind=? AND id=?", (package, kind, id))
            return done.rowcount > 0

    def find(self, package: str | None = None, kind: str | None = None, **where: Any) -> list[Record]:
        """Return the records of a package and kind whose documents hold all of ``where``, oldest first."""
        with self._lock:
            rows = self._db.execute(
                "SELECT package, kind, id, doc FROM records WHERE (?1 IS NULL OR package=?1) "
                "AND (?2 IS NULL OR kind=?2) ORDER BY seq",
                (package, kind),
            ).fetchall()
        records = [Record(p, k, i, json.loads(doc)) for p, k, i, doc in rows]
        return [r for r in records if all(r.doc.get(key) == value for key, value in where.items())]

    def next(self, name: str) -> int:
        """Return the next number of a named sequence, from 1."""
        with self.transaction():
            self._db.execute(
                "INSERT INTO counters (name, value) VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET value=value+1",
                (name,),
            )
            row = self._db.execute("SELECT value FROM counters WHERE name=?", (name,)).fetchone()
        return int(row[0])

    def new_id(self, prefix: str) -> str:
        """Return an id that no other thing of the lab has, such as ``vpc-lab00000001``."""
        return f"{prefix}-lab{self.next('id:' + prefix):08x}"

    def event(self, package: str, op: str, kind: str, id: str, note: str = "") -> None:
        """Write down something that was done. ``note`` never holds a secret."""
        with self._lock:
            self._db.execute(
                "INSERT INTO events (package, op, kind, id, note) VALUES (?,?,?,?,?)",
                (package, op, kind, id, note),
            )

    def events(self, after: int = 0) -> list[Event]:
        """Return what was done since event number ``after``, in order."""
        with self._lock:
            rows = self._db.execute(
                "SELECT n, package, op, kind, id, note FROM events WHERE n>? ORDER BY n", (after,)
            ).fetchall()
        return [Event(*row) for row in rows]

    def plan_fault(
        self, op: str, kind: str, action: str, nth: int = 1, seconds: float = 0.0, message: str = ""
    ) -> None:
        """Let the ``nth`` call from now of ``op`` (create, update, delete, read, invoke) on ``kind`` go wrong.

        ``kind`` is a type token or its last part (``VirtualMachineScaleSet``).
        """
        if action not in ACTIONS:
            raise ValueError(f"no such fault: {action!r}; known: {', '.join(ACTIONS)}")
        if nth < 1:
            raise ValueError("nth counts from 1")
        if not 0 <= seconds <= _SLOWEST:
            raise ValueError(f"seconds must be between 0 and {_SLOWEST:g}")
        with self._lock:
            self._db.execute(
                "INSERT INTO faults (op, kind, nth, action, seconds, message) VALUES (?,?,?,?,?,?)",
                (op, kind, nth, action, seconds, message),
            )

    def faults(self) -> list[Fault]:
        """Return all planned faults, struck or not."""
        with self._lock:
            rows = self._db.execute(
                "SELECT n, op, kind, nth, action, seconds, message, seen, done FROM faults ORDER BY n"
            ).fetchall()
        return [Fault(*row) for row in rows]

    def strike(self, op: str, token: str) -> bool:
        """Count a call and let a planned fault strike: raise, wait, or return True for an answer to lose."""
        short = token.rsplit(":", 1)[-1]
        struck: list[tuple[str, float, str]] = []
        with self.transaction():
            rows = self._db.execute(
                "SELECT n, nth, action, seconds, message, seen FROM faults "
                "WHERE done=0 AND op=? AND kind IN (?, ?) ORDER BY n",
                (op, token, short),
            ).fetchall()
            for n, nth, action, seconds, message, seen in rows:
                hit = seen + 1 == nth
                self._db.execute("UPDATE faults SET seen=seen+1, done=? WHERE n=?", (int(hit), n))
                if hit:
                    struck.append((action, seconds, message))
        for action, seconds, message in struck:
            if seconds:
                time.sleep(seconds)
            if action == "fail":
                raise CloudError("InternalError", message or f"planned fault: {op} of {short} fails")
            if action == "no-stock":
                raise CloudError("NoStock", message or f"no machine of the requested size is in stock for {short}")
        return any(action == "lost" for action, _, _ in struck)

    def reset(self) -> None:
        """Empty all clouds, faults and the log."""
        with self.transaction():
            for table in ("records", "counters", "events", "faults"):
                self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - fixed names
