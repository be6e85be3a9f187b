"""Azurite and azcopy from npm, for tests and benchmarks against real tools: ``python3 -m lab.node_tools``.

They are installed once into the cache folder, from the lock file in ``lab/tools/node``; no install script is run.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .tool_builds import ToolsMissing
from .tools import cache_folder, say_to_stderr

PINS = Path(__file__).resolve().parent / "tools" / "node"
MINIMUM_NODE = 18
_AZCOPY = "node_modules/@azure-tools/azcopy-linux/dist/bin/azcopy_linux_amd64"
_AZURITE = "node_modules/azurite/dist/src/blob/main.js"
_FILES = ("package.json", "package-lock.json", ".npmrc")


@dataclass(frozen=True)
class NodeTools:
    """Where the tools are."""

    node: Path
    azurite: Path
    """Script of Azurite's blob service, which ``node`` runs."""
    azcopy: Path | None
    """azcopy; None where npm has none (it has one for Linux on amd64)."""


def provide(say: Callable[[str], None] = say_to_stderr, pins: Path = PINS) -> NodeTools:
    """Return the tools, installing them when they are not there.

    Raises:
        ToolsMissing: Node.js or npm is missing, or the packages cannot be installed.
    """
    node = _node()
    key = hashlib.sha256(b"".join((pins / name).read_bytes() for name in _FILES)).hexdigest()[:16]
    folder = cache_folder() / f"node-tools-{key}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.parent / "node-tools.lock"):
            if not folder.exists():
                say("installing Azurite and azcopy from npm (once; usually a minute)")
                _install(pins, folder)
    azcopy = folder / _AZCOPY
    usable = azcopy.exists() and sys.platform == "linux" and platform.machine() == "x86_64"
    return NodeTools(node, folder / _AZURITE, azcopy if usable else None)


def _node() -> Path:
    found = shutil.which("node")
    if found is None or shutil.which("npm") is None:
        raise ToolsMissing(f"Node.js {MINIMUM_NODE} or newer with npm is needed (https://nodejs.org/)")
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    major = version.removeprefix("v").partition(".")[0]
    if not major.isdecimal() or int(major) < MINIMUM_NODE:
        raise ToolsMissing(f"Node.js {MINIMUM_NODE} or newer is needed; {found} is {version or 'broken'}")
    return Path(found)


def _install(pins: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".node-tools-") as made:
        draft = Path(made) / "out"
        draft.mkdir()
        for name in _FILES:
            shutil.copyfile(pins / name, draft / name)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        done = subprocess.run(command, cwd=draft, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not (draft / _AZURITE).exists():
            tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-10:])
            raise ToolsMissing(f"npm could not install Azurite and azcopy:\n{tail}")
        # npm's package of azcopy leaves the mode to an install script of its users.
        with contextlib.suppress(FileNotFoundError):
            (draft / _AZCOPY).chmod(0o755)
        draft.rename(folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> None:
    """Install the tools, and say where they are."""
    try:
        tools = provide()
    except ToolsMissing as missing:
        raise SystemExit(str(missing)) from None
    print(f"Azurite: {os.fspath(tools.azurite)}\nazcopy:  {tools.azcopy or 'none for this machine'}")


if __name__ == "__main__":
    main()
