"""How talosctl is run: found, checked, its credentials given through memory, ended in time, errors without secrets."""

import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import IO, cast

import yaml

from .secret_file import secret_file
from .talos_calls import NotOfThisCluster, Say, TalosError, Unreachable
from .versions import KUBERNETES_OF_TALOS, Minor, Version, minor, parse, text
from .work_provider import WorkError

OLDEST = "1.13.0"
"""The first with the calls that upgrades use here (siderolabs/talos `cmd/talosctl`, `LifecycleService`)."""

_INSTALL = (
    'install talosctl (docs.siderolabs.com, "Install talosctl"; releases of siderolabs/talos) where Pulumi runs, '
    "and see that it is on PATH"
)
_LINE = 400


@lru_cache(maxsize=8)
def _version_of(path: str, _changed: float) -> Version:
    """Return the version of a binary; asked once for each file."""
    try:
        done = subprocess.run(
            [path, "version", "--client", "--short"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        raise WorkError(f"talosctl at {path} does not run. Next: {_INSTALL}") from None
    found = re.search(r"v?(\d+\.\d+\.\d+(?:-(?:alpha|beta|rc)\.\d+)?)", done.stdout)
    if done.returncode or found is None:
        raise WorkError(f"talosctl at {path} does not tell its version. Next: {_INSTALL}")
    return parse(found[1])


def find_talosctl(environ: Mapping[str, str] | None = None) -> tuple[str, Version]:
    """Return the path and version of the talosctl on PATH; WorkError, with what to install, when there is none."""
    env = os.environ if environ is None else environ
    path = shutil.which("talosctl", path=env.get("PATH"))
    if path is None:
        raise WorkError(f"talosctl is needed and not on PATH. Next: {_INSTALL}, version {OLDEST} or newer")
    version = _version_of(path, os.stat(path).st_mtime)
    if version < parse(OLDEST):
        raise WorkError(
            f"talosctl {version.major}.{version.minor}.{version.patch} at {path} is too old: {OLDEST} or newer is "
            f"needed. Next: {_INSTALL}"
        )
    return path, version


def newest_kubernetes(talosctl: Version) -> Minor:
    """Return the newest Kubernetes minor to which a talosctl can upgrade."""
    known = KUBERNETES_OF_TALOS.get((talosctl.major, talosctl.minor))
    return max(last for _, last in KUBERNETES_OF_TALOS.values()) if known is None else known[1]


def check_kubernetes(talosctl: Version, kubernetes: str) -> None:
    """Raise WorkError when this talosctl cannot upgrade to a version of Kubernetes."""
    newest = newest_kubernetes(talosctl)
    if minor(kubernetes) > newest:
        wanted = next(
            (text(talos) for talos, (_, last) in sorted(KUBERNETES_OF_TALOS.items()) if last >= minor(kubernetes)),
            "newer",
        )
        raise WorkError(
            f"talosctl {talosctl.major}.{talosctl.minor} upgrades Kubernetes to {text(newest)} at most, not to "
            f"{kubernetes}. Next: {_INSTALL}, version {wanted}"
        )


def talosconfig(credentials: Mapping[str, str], endpoints: Sequence[str]) -> str:
    """Return a talosconfig with one context."""
    return yaml.safe_dump(
        {
            "context": "cluster",
            "contexts": {
                "cluster": {
                    "endpoints": list(endpoints),
                    "ca": credentials["caCertificate"],
                    "crt": credentials["clientCertificate"],
                    "key": credentials["clientKey"],
                }
            },
        }
    )


# gRPC's own codes, as talosctl prints them.
_NOT_OURS = re.compile(
    r"x509: certificate signed by unknown authority|authentication handshake failed|tls: |x509: |"
    r"not implemented in maintenance mode|code = Unauthenticated"
)
_GONE = re.compile(
    r"code = (Unavailable|DeadlineExceeded|Canceled)|connection refused|no route to host|i/o timeout|"
    r"context deadline exceeded|connection reset|EOF"
)


# talosctl quotes what it cannot read. Digests and schematics (hexadecimal) may be shown.
_SECRETS = (
    re.compile(r"-----BEGIN [^-]*PRIVATE KEY-----.*"),
    re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b"),
    re.compile(r"(?![0-9a-f]{40,}\b)[A-Za-z0-9+/_]{40,}={0,2}"),
)


class Talosctl:
    """Runs talosctl with one cluster's credentials."""

    def __init__(self, credentials: Mapping[str, str], *, lock: int | None = None) -> None:
        """Find talosctl. ``lock`` is the descriptor of a lock that a talosctl which outlives this process keeps."""
        self.path, self.version = find_talosctl()
        self._credentials = credentials
        self._lock = lock

    def run(self, words: Sequence[str], *, endpoints: Sequence[str], node: str, seconds: float) -> str:
        """Return what a command prints; raise TalosError when it fails, or does not end in time."""
        return self._run(words, endpoints, node, seconds, None)

    def follow(
        self,
        words: Sequence[str],
        *,
        endpoints: Sequence[str],
        node: str,
        seconds: float,
        say: Say,
        descriptors: tuple[int, ...] = (),
    ) -> str:
        """Run a command that takes long, and hand each line of its progress to ``say``.

        ``descriptors`` are open files that its words name, and that it inherits.
        """
        return self._run(words, endpoints, node, seconds, say, descriptors)

    def insecure(
        self, words: Sequence[str], *, endpoint: str, seconds: float, descriptors: tuple[int, ...] = ()
    ) -> str:
        """Run a command against a machine in maintenance mode, which takes no credentials."""
        return self._finish([self.path, "-n", endpoint, *words, "--insecure"], descriptors, seconds, None)

    def _run(
        self,
        words: Sequence[str],
        endpoints: Sequence[str],
        node: str,
        seconds: float,
        say: Say | None,
        descriptors: tuple[int, ...] = (),
    ) -> str:
        with secret_file(talosconfig(self._credentials, endpoints)) as file:
            command = [self.path, "--talosconfig", file.path, "-e", ",".join(endpoints), "-n", node, *words]
            return self._finish(command, (*file.descriptors, *descriptors), seconds, say)

    def _finish(self, command: Sequence[str], descriptors: tuple[int, ...], seconds: float, say: Say | None) -> str:
        passed = descriptors if self._lock is None or say is None else (*descriptors, self._lock)
        # Nothing of the user's own Talos setup may be taken in place of what is given here.
        env = {name: value for name, value in os.environ.items() if name not in ("TALOSCONFIG", "TALOS_HOME")}
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=passed,
            env=env,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            late = threading.Event()

            def end() -> None:
                late.set()
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

            timer = threading.Timer(seconds, end)
            timer.start()
            try:
                out, error = (_Reader(cast(IO[str], stream), say) for stream in (process.stdout, process.stderr))
                process.wait()
                printed, complaint = out.text(), error.text()
            finally:
                timer.cancel()
        if late.is_set():
            raise Unreachable(f"talosctl {_name(command)} did not end within {seconds:.0f} s")
        if process.returncode:
            raise self._error(command, complaint or printed)
        return printed

    def _error(self, command: Sequence[str], complaint: str) -> TalosError:
        reason = self._clean(complaint)
        message = f"talosctl {_name(command)}: {reason}"
        if _NOT_OURS.search(complaint):
            return NotOfThisCluster(message)
        if _GONE.search(complaint):
            return Unreachable(message)
        return TalosError(message)

    def _clean(self, complaint: str) -> str:
        """Return the last lines of an error, short, and without anything that is a secret."""
        # It adds how it is used to every error with a word such as "command" or "flag" in it.
        told = re.split(r"^Usage:$", complaint, maxsplit=1, flags=re.MULTILINE)[0]
        lines = [line.strip() for line in told.splitlines() if line.strip() and not line.startswith("WARNING")]
        reason = " ".join(lines[-3:])
        for secret in self._credentials.values():
            reason = reason.replace(secret, "[secret]")
        for pattern in _SECRETS:
            reason = pattern.sub("[secret]", reason)
        return reason[-_LINE:] if reason else "failed without a message"


class _Reader:
    """Reads a stream of a process to its end in a thread, and hands lines on."""

    def __init__(self, stream: IO[str], say: Say | None) -> None:
        self._lines: list[str] = []
        self._say = say
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._lines.append(line)
            if self._say is not None and line.strip():
                self._say(line.strip()[:_LINE])

    def text(self) -> str:
        self._thread.join()
        return "".join(self._lines)


def _name(command: Sequence[str]) -> str:
    """Return a command without its connection: what a person needs to know of it."""
    shown: list[str] = []
    words = iter(command[1:])
    for word in words:
        if word in ("--talosconfig", "-e"):
            next(words)
        elif word == "-n":
            shown += ["-n", next(words)]
        else:
            shown.append(word)
    return " ".join(shown)
