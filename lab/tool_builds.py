"""Builds the tools of the lab from their Go modules into a cache folder, several side by side.

It needs nothing but Python's own library; where rich is installed, it draws the progress on a terminal.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

MODULES = Path(__file__).resolve().parent / "tools"
"""One small Go module per tool, or for tools that belong together: its go.mod and go.sum are the pins."""

_SDK = "github.com/pulumi/pulumi/sdk/v3"
_FLAGS = (
    *("-mod=readonly", "-trimpath", "-buildvcs=false"),
    # A third less time to compile: no debugger's tables, and only Go's own library is optimised.
    *("-gcflags=all=-N -l -dwarf=false", "-gcflags=std=-dwarf=false"),
)
_STILL_EVERY = 30.0
_OUTPUT_LINES = 30


class ToolsMissing(Exception):
    """A tool is neither at hand nor can it be built; the message says what to install."""


@dataclass(frozen=True)
class Build:
    """How one tool is built from its Go module under ``lab/tools``."""

    name: str
    module: str
    package: str
    pin: str
    usually: str
    ldflags: str = "-s -w"
    scripts: tuple[str, ...] = ()
    # Not in the key by their mere being there: what was built before stays good.
    embeds: tuple[str, ...] = field(default=(), repr=False)
    """Files of the module ``pin`` that are laid beside our own source, which embeds them."""

    @property
    def ours(self) -> bool:
        """Whether the main package is our own, in the module's folder."""
        return self.package.startswith(".")


PULUMI = Build(
    name="pulumi",
    module="pulumi",
    package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
    pin="github.com/pulumi/pulumi/pkg/v3",
    usually="3 to 5 minutes",
    # The linker sets what `pulumi version` says; without it that is nothing (pulumi/pulumi .goreleaser.yml).
    ldflags=f"-s -w -X {_SDK}/go/common/version.Version={{version}}",
)
LANGUAGE_HOST = Build(
    name="pulumi-language-python",
    module="language-python",
    package="github.com/pulumi/pulumi/sdk/v3/python/cmd/pulumi-language-python",
    pin=_SDK,
    usually="15 to 30 seconds",
    scripts=("python/cmd/pulumi-language-python-exec", "python/dist/pulumi-resource-pulumi-python"),
)
TALOSCTL = Build(
    name="talosctl",
    module="talosctl",
    package="github.com/siderolabs/talos/cmd/talosctl",
    pin="github.com/siderolabs/talos",
    usually="3 to 5 minutes",
)

TALOS_NODES = Build(
    name="talos-nodes",
    module="talos-nodes",
    package=".",
    pin="github.com/siderolabs/talos/pkg/machinery",
    usually="half a minute to 2 minutes",
)
"""The lab's machines. They are our own, so there is nothing to install."""


def pinned_version(build: Build, modules: Path = MODULES) -> str:
    """Return the version of a tool's main module in its go.mod."""
    text = (modules / build.module / "go.mod").read_text()
    found = re.search(rf"^(?:require|\s)\s*{re.escape(build.pin)} (v\S+)", text, re.MULTILINE)
    if found is None:
        raise ToolsMissing(f"{modules / build.module / 'go.mod'} does not pin {build.pin}")
    return found[1]


def build_key(build: Build, modules: Path = MODULES) -> str:
    """Return a short hash of all that decides what a build gives, but for the Go version."""
    digest = hashlib.sha256(repr((build, _FLAGS)).encode())
    # The scripts beside the language host come from the SDK that the CLI is pinned to.
    for module in sorted({build.module, *([PULUMI.module] if build.scripts else [])}):
        for name in ("go.mod", "go.sum"):
            digest.update((modules / module / name).read_bytes())
    if build.ours:
        digest.update(repr(build.embeds).encode())
        for path in sorted((modules / build.module).rglob("*.go")):
            digest.update(str(path.relative_to(modules)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def built(build: Build, go: str | None, cache: Path, modules: Path = MODULES) -> Path | None:
    """Return a tool that was built before from the same pins, or None. Without Go, any Go's build will do."""
    key = build_key(build, modules)
    folders = [cache / f"{build.name}-{key}-{go}"] if go else sorted(cache.glob(f"{build.name}-{key}-go*"))
    paths = [folder / build.name for folder in folders]
    return next((path for path in paths if os.access(path, os.X_OK)), None)


@contextmanager
def _locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a file lock, so that two processes never build the same tool at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Builder:
    """Builds several tools side by side: the last part of a Go build keeps one core only busy."""

    def __init__(
        self, builds: Sequence[Build], go: str, cache: Path, modules: Path, say: Callable[[str], None]
    ) -> None:
        self.builds = builds
        self.go = go
        self.cache = cache
        self.modules = modules
        self.say = say
        self.results: dict[str, Path | Exception] = {}
        self.processes: set[subprocess.Popen[str]] = set()
        self.stopped = False

    def run(self, watch: Callable[["Builder"], None]) -> dict[str, Path]:
        """Build all; raise the first failure."""
        modules = dict.fromkeys(build.module for build in self.builds)
        threads = [threading.Thread(target=self._one_by_one, args=(module,), daemon=True) for module in modules]
        for thread in threads:
            thread.start()
        try:
            watch(self)
        except BaseException:
            self.stopped = True
            for process in list(self.processes):
                _end(process)
            raise
        finally:
            for thread in threads:
                thread.join()
        paths: dict[str, Path] = {}
        for build in self.builds:
            result = self.results[build.name]
            if isinstance(result, Exception):
                raise result
            paths[build.name] = result
        return paths

    def _one_by_one(self, module: str) -> None:
        # Tools of one module are made of the same packages: at the same time, each would compile them all.
        for build in self.builds:
            if build.module == module:
                try:
                    self.results[build.name] = self._build(build)
                except Exception as error:  # noqa: BLE001 - handed to the caller's thread
                    self.results[build.name] = error

    def _build(self, build: Build) -> Path:
        lock = self.cache / f"{build.name}.lock"
        with _locked(lock, lambda: self.say(f"{build.name}: another process is building it; waiting")):
            # Another process may have finished it while this one waited.
            if (path := built(build, self.go, self.cache, self.modules)) is not None:
                return path
            final = self.cache / f"{build.name}-{build_key(build, self.modules)}-{self.go}"
            with tempfile.TemporaryDirectory(dir=self.cache, prefix=f".{build.name}-") as made:
                folder = Path(made) / "out"
                folder.mkdir()
                self._compile(build, folder)
                self._copy_scripts(build, folder)
                if final.exists():  # left incomplete by hand: what is complete was returned above
                    shutil.rmtree(final)
                folder.rename(final)
        return final / build.name

    def _compile(self, build: Build, folder: Path) -> None:
        version = pinned_version(build, self.modules)
        command = [
            *("go", "build"),
            *_FLAGS,
            f"-ldflags={build.ldflags.format(version=version)}",
            *("-o", str(folder / build.name), build.package),
        ]
        where = self.modules / build.module
        with tempfile.TemporaryDirectory(dir=self.cache, prefix=f".{build.name}-source-") as made:
            if build.embeds:
                # In a copy: what is embedded is large, other people's, and never part of the checkout.
                theirs = self._module_folder(build.pin, where)
                where = Path(shutil.copytree(where, Path(made) / build.module))
                for file in build.embeds:
                    shutil.copyfile(theirs / file, where / Path(file).name)
            self._go(command, where, f"building {build.name} {version}")

    def _module_folder(self, module: str, where: Path) -> Path:
        """Return where the module cache has a module, in the version that ``where`` pins; fetch it when it is new."""
        self._go(["go", "mod", "download", module], where, f"fetching {module}")
        found = self._go(["go", "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", module], where, f"finding {module}")
        return Path(found.strip())

    def _copy_scripts(self, build: Build, folder: Path) -> None:
        if not build.scripts:
            return
        source = self._module_folder(_SDK, self.modules / PULUMI.module)
        for script in build.scripts:
            target = folder / Path(script).name
            # The module cache is read-only: copy the content, not the mode.
            shutil.copyfile(source / script, target)
            target.chmod(0o755)

    def _go(self, command: Sequence[str], folder: Path, what: str) -> str:
        # The tools are pure Go: without cgo no C compiler is needed. A go.work above the checkout has no say.
        env = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": ""}
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A group of its own: Go leaves its compilers running when it is ended alone.
            start_new_session=True,
        )
        self.processes.add(process)
        if self.stopped:
            _end(process)
        out, err = process.communicate()
        self.processes.discard(process)
        if process.returncode != 0:
            tail = "\n".join((err or out).strip().splitlines()[-_OUTPUT_LINES:])
            raise ToolsMissing(f"{what} failed (go exited with {process.returncode}):\n{tail}")
        return out


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)


def _watch_plainly(builder: Builder) -> None:
    """Print a line when a build ends, and from time to time that it is still at work."""
    started = time.monotonic()
    said = started
    known: set[str] = set()
    while len(known) < len(builder.builds):
        time.sleep(0.2)
        now = time.monotonic()
        for name in [n for n in builder.results if n not in known]:
            known.add(name)
            failed = isinstance(builder.results[name], Exception)
            builder.say(f"{name}: {'failed' if failed else 'ready'} after {now - started:.0f} s")
            said = now
        if now - said >= _STILL_EVERY:
            said = now
            left = [b.name for b in builder.builds if b.name not in known]
            builder.say(f"still building {', '.join(left)} ({now - started:.0f} s)")


def _watch_with_rich(builder: Builder) -> None:
    from rich.console import Console  # noqa: PLC0415 - only where it is installed
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        tasks = {b.name: progress.add_task(f"{b.name} (usually {b.usually})", total=1) for b in builder.builds}
        while not progress.finished:
            time.sleep(0.1)
            for name, task in tasks.items():
                if name in builder.results:
                    progress.update(task, completed=1)


def watcher() -> Callable[[Builder], None]:
    """Return how progress is shown: drawn on a terminal where rich is installed, else in plain lines."""
    if not sys.stderr.isatty():
        return _watch_plainly
    try:
        import rich.progress  # noqa: F401, PLC0415
    except ImportError:
        return _watch_plainly
    return _watch_with_rich
