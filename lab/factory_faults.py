"""Faults of the lab's factory: what a test, or a person, plans to go wrong with the next downloads.

A plan is a file in the factory's folder, so that one process plans and the server in another one carries it out:

    python -m lab.factory_faults .lab/factory break 'azure-*' --after 5000000 --times 2
"""

import argparse
import fcntl
import fnmatch
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

ACTIONS = {
    "break": "the connection breaks after so many bytes",
    "truncate": "the image ends after so many bytes, as if that were all",
    "corrupt": "64 bytes from there on are others",
    "html": "an HTML page comes in place of the image",
    "busy": "the answer is 503",
    "missing": "the answer is 404",
    "pause": "nothing comes for four seconds after so many bytes: long enough for a line that says how far it is",
}
"""What can go wrong."""


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong, with the assets whose names fit a pattern, so many times."""

    action: str
    asset: str = "*"
    after: int = 0
    times: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be done."""
        if self.action not in ACTIONS:
            raise ValueError(f"no such fault: {self.action!r}; known: {', '.join(ACTIONS)}")
        if self.after < 0 or self.times < 1:
            raise ValueError("after counts bytes from 0, and times from 1")


def plan(folder: Path, *faults: Fault) -> None:
    """Let these go wrong with downloads from the factory in ``folder``, after those that were planned before."""
    with _planned(folder) as planned:
        planned.extend(faults)


def take(folder: Path, asset: str) -> Fault | None:
    """Return what goes wrong with this download, and count it."""
    with _planned(folder) as planned:
        for index, fault in enumerate(planned):
            if fnmatch.fnmatchcase(asset, fault.asset):
                if fault.times > 1:
                    planned[index] = replace(fault, times=fault.times - 1)
                else:
                    del planned[index]
                return fault
    return None


@contextmanager
def _planned(folder: Path) -> Iterator[list[Fault]]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "faults.json").open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        planned = [Fault(**item) for item in json.loads(text or "[]")]
        yield planned
        file.seek(0)
        file.truncate()
        json.dump([asdict(fault) for fault in planned], file)


def main() -> None:
    """Plan a fault from the command line."""
    parser = argparse.ArgumentParser(prog="python -m lab.factory_faults", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the factory's folder, such as .lab/factory")
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument("asset", nargs="?", default="*", help="pattern of file names, such as 'azure-*'")
    parser.add_argument("--after", type=int, default=0, help="bytes of a connection before it happens")
    parser.add_argument("--times", type=int, default=1)
    given = parser.parse_args()
    try:
        plan(given.folder, Fault(given.action, given.asset, given.after, given.times))
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
