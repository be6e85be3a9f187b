"""Finds the real tools that the lab runs, or has them built from their Go modules.

The tools are the Pulumi CLI, its Python language host with the two scripts beside it, and talosctl. Those on
PATH are used when they are new enough; else they are built once into a cache folder outside the checkout. The lab's
machines, a program of our own, are always built. This module needs nothing but Python's own library, so that the
builds can run while the virtual environment is still being filled: ``python3 -m lab.tools``.
"""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.tool_builds import (
    LANGUAGE_HOST,
    MODULES,
    PULUMI,
    TALOS_NODES,
    TALOSCTL,
    Build,
    Builder,
    ToolsMissing,
    built,
    pinned_version,
    watcher,
)

MINIMUM_PULUMI = (3, 272, 0)
"""The Python SDK of requirements.txt is 3.272.0; an older engine may lack what it asks for."""

MINIMUM_TALOSCTL = (1, 13, 0)
"""The Talos library that pulumiverse-talos 0.8.1 embeds (pulumiverse/pulumi-talos provider/go.mod)."""

MINIMUM_GO = (1, 26, 6)
"""What the CLI's go.mod asks for. Go 1.21 and later fetches a newer Go by itself unless told not to."""

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")


@dataclass(frozen=True)
class Tool:
    """A tool that was found."""

    name: str
    path: Path
    version: str
    origin: str
    """``PATH`` or ``built``."""


@dataclass(frozen=True)
class Tools:
    """The tools of one run."""

    pulumi: Tool
    language_host: Tool
    talosctl: Tool

    @property
    def folders(self) -> tuple[Path, ...]:
        """Return the folders that must come first on PATH, in order."""
        folders = (self.pulumi.path.parent, self.language_host.path.parent, self.talosctl.path.parent)
        return tuple(dict.fromkeys(folders))

    @property
    def all(self) -> tuple[Tool, ...]:
        """Return every tool."""
        return (self.pulumi, self.language_host, self.talosctl)


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return where built tools are kept: $HYBRID_TALOS_CACHE, else the user's cache folder."""
    env = os.environ if environ is None else environ
    if own := env.get("HYBRID_TALOS_CACHE"):
        return Path(own).expanduser().absolute()
    base = env.get("XDG_CACHE_HOME") or ""
    # A relative path there is to be ignored (XDG Base Directory Specification).
    root = Path(base) if os.path.isabs(base) else Path(env.get("HOME") or Path.home()) / ".cache"
    return root / "hybrid-talos"


def parse_version(text: str) -> tuple[int, int, int] | None:
    """Return the first version in a tool's answer, or None."""
    found = _VERSION.search(text)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def _ask(command: Sequence[str | Path], folder: Path | None = None, **extra: str) -> str | None:
    """Return what a command prints, or None when it does not run or fails."""
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=folder,
            env={**os.environ, **extra},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def pulumi_version(path: Path) -> str:
    """Return what ``pulumi version`` says, or an empty text."""
    return (_ask([path, "version"], PULUMI_SKIP_UPDATE_CHECK="true") or "").strip()


def talosctl_version(path: Path) -> str:
    """Return the version that talosctl says it is, or an empty text."""
    found = _VERSION.search(_ask([path, "version", "--client"]) or "")
    return "" if found is None else found[0]


def find_pulumi_on_path() -> tuple[Tool, Tool] | None:
    """Return pulumi and its Python language host from PATH, when they are new enough and complete.

    They are used together only: an engine and a language host of different releases are nobody's tested pair.
    """
    where = shutil.which("pulumi")
    if where is None:
        return None
    path = Path(where)
    text = pulumi_version(path)
    version = parse_version(text)
    if version is None or version < MINIMUM_PULUMI:
        return None
    beside = [path.parent, path.resolve().parent]
    search = os.pathsep.join([*map(str, beside), os.environ.get("PATH", "")])
    host = shutil.which("pulumi-language-python", path=search)
    scripts = [shutil.which(Path(s).name, path=search) for s in LANGUAGE_HOST.scripts]
    if host is None or None in scripts:
        return None
    return Tool("pulumi", path, text, "PATH"), Tool("pulumi-language-python", Path(host), text, "PATH")


def find_talosctl_on_path() -> Tool | None:
    """Return talosctl from PATH, when it is new enough."""
    where = shutil.which("talosctl")
    if where is None:
        return None
    text = talosctl_version(Path(where))
    version = parse_version(text)
    if version is None or version < MINIMUM_TALOSCTL:
        return None
    return Tool("talosctl", Path(where), text, "PATH")


def go_version(modules: Path = MODULES) -> str | None:
    """Return the version of the Go that would build (``go1.26.8``), or None when there is none that can.

    It is asked inside a tool's module, where a Go that is too old either fetches a newer one or fails.
    """
    if shutil.which("go") is None:
        return None
    text = (_ask(["go", "env", "GOVERSION"], modules / PULUMI.module) or "").strip()
    version = parse_version(text.removeprefix("go") + ".0")
    return text if version is not None and version >= MINIMUM_GO else None


def missing_message(names: Sequence[str]) -> str:
    """Return the one message that says what to install."""
    go = ".".join(map(str, MINIMUM_GO))
    pulumi = ".".join(map(str, MINIMUM_PULUMI))
    talosctl = ".".join(map(str, MINIMUM_TALOSCTL))
    have = _ask(["go", "env", "GOVERSION"]) if shutil.which("go") else None
    found = f"the Go found is {have.strip()}, which is too old and cannot fetch a newer one" if have else "no Go found"
    return (
        f"The lab needs {' and '.join(names)}: not on PATH (or too old), and {found}.\n"
        f"Install Go {go} or newer (https://go.dev/dl/), and the lab builds them by itself;\n"
        f"or install the tools: pulumi >= {pulumi} with its Python language host "
        f"(https://www.pulumi.com/docs/install/)\n"
        f"and talosctl >= {talosctl} (https://docs.siderolabs.com/talos/)."
    )


def _together(pulumi: Path, host: Path) -> dict[str, Path]:
    """Return pulumi and its language host in one folder, as they are shipped: elsewhere the engine warns of them."""
    names = hashlib.sha256(f"{pulumi.parent.name} {host.parent.name}".encode()).hexdigest()[:16]
    folder = pulumi.parent.parent / f"engine-{names}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".engine-") as made:
            draft = Path(made) / "out"
            draft.mkdir()
            for file in (pulumi, *host.parent.iterdir()):
                try:
                    os.link(file, draft / file.name)
                except OSError:  # a file system without hard links
                    shutil.copy2(file, draft / file.name)
            with contextlib.suppress(OSError):  # another process was first
                draft.rename(folder)
    return {PULUMI.name: folder / pulumi.name, LANGUAGE_HOST.name: folder / host.name}


def say_to_stderr(line: str) -> None:
    """Print a line of progress where it does not mix with what a command gives out."""
    print(line, file=sys.stderr, flush=True)


def provide(say: Callable[[str], None] = say_to_stderr, modules: Path = MODULES) -> Tools:
    """Return the tools, building those that are not there.

    Raises:
        ToolsMissing: a tool is not on PATH, was not built before, and cannot be built.
    """
    on_path = find_pulumi_on_path()
    talosctl = find_talosctl_on_path()
    wanted = [*([] if on_path else [PULUMI, LANGUAGE_HOST]), *([] if talosctl else [TALOSCTL])]
    cache = cache_folder()
    go = go_version(modules)
    have = {build.name: built(build, go, cache, modules) for build in (*wanted, TALOS_NODES)}
    paths = {name: path for name, path in have.items() if path is not None}
    lacking = [build for build in wanted if build.name not in paths]
    if lacking and go is None:
        raise ToolsMissing(missing_message([build.name for build in lacking]))
    # Without Go, only a lab with machines in its settings asks for them.
    if go is not None and TALOS_NODES.name not in paths:
        lacking.append(TALOS_NODES)
    if lacking and go is not None:
        cache.mkdir(parents=True, exist_ok=True)
        for build in lacking:
            version = pinned_version(build, modules)
            say(f"building {build.name} {version} with {go}: usually {build.usually} on 2 cores, once")
        paths |= Builder(lacking, go, cache, modules, say).run(watcher())

    if not on_path:
        paths |= _together(paths[PULUMI.name], paths[LANGUAGE_HOST.name])

    def made(build: Build) -> Tool:
        return Tool(build.name, paths[build.name], pinned_version(build, modules), "built")

    pulumi, host = on_path or (made(PULUMI), made(LANGUAGE_HOST))
    return Tools(pulumi=pulumi, language_host=host, talosctl=talosctl or made(TALOSCTL))


def main() -> int:
    """Find or build the tools and print their versions; return the exit status."""
    try:
        tools = provide()
    except ToolsMissing as error:
        say_to_stderr(str(error))
        return 1
    except KeyboardInterrupt:
        return 130
    for tool in tools.all:
        print(f"{tool.name} {tool.version} ({tool.origin}: {tool.path})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
