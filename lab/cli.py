"""The command line of the lab: ``python -m lab <pulumi words>``, and a few words of its own."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from . import dns_server, overlay
from .places import ROOT, Places, places
from .session import Session, environment, exclusive
from .tool_builds import ToolsMissing
from .tools import Tools, provide
from .tools import main as tools_main
from .words import TAKES_CONFIG_FILE, Words, parse, short_name, stack_of_file

DEFAULT_STACK = "dev"

HELP = """\
usage: python -m lab <pulumi words>     run the real Pulumi CLI on this program, in the lab
       python -m lab cloud ls|set|fail|reset
                                        show the simulated clouds, change them behind Pulumi's back,
                                        plan faults, empty them (each with --help)
       python -m lab demo               preview, up, outputs, and a second preview without a change
       python -m lab tools              find or build the real tools, and print their versions

The words go to pulumi unchanged; its exit status comes back. Three things are added:
  --stack        is dev unless given, chosen with `stack select` or in $PULUMI_STACK; with --config-file alone
                 it is the stack of that file's name. A stack that has a configuration file is made when missing.
  --config-file  may stand with every verb. Plans read a copy in which the lab's own image factory, blob storage,
                 OSS and Kubernetes API stand in the place of the real ones; `config` works on the file itself.
  state          lies in .lab in the checkout, or in $HYBRID_TALOS_LAB; the passphrase is hybrid-talos-lab unless
                 $PULUMI_CONFIG_PASSPHRASE is set.
examples:
  python -m lab preview
  python -m lab up --yes
  python -m lab preview --stack dev --config-file Pulumi.dev.yaml --json
  python -m lab help                    pulumi's own help
"""


class LabError(Exception):
    """A command that cannot be carried out; the message says why."""


def say(line: str) -> None:
    """Print a line of the lab's own; standard output belongs to pulumi."""
    print(line, file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line; return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        match words:
            case [] | ["-h"] | ["--help"]:
                print(HELP, end="")
                return 0
            case ["cloud", *rest]:
                from .cloud import app  # noqa: PLC0415 - loads what only these commands need

                app(rest, prog_name="python -m lab cloud", standalone_mode=True)
                return 0
            case ["demo", *rest]:
                from .demo import demo  # noqa: PLC0415

                return demo(rest)
            case ["tools"]:
                return tools_main()
            case ["tools", *_]:
                raise LabError("`tools` takes no further words")
            case _:
                return run(words)
    except (LabError, ToolsMissing, ValueError) as error:
        say(f"lab: {error}")
        return 2
    except KeyboardInterrupt:
        return 130


def run(words: Sequence[str]) -> int:
    """Run the Pulumi CLI in the lab; return its exit status."""
    given = parse(words)
    where = places()
    tools = provide(say)
    if not given.verb or given.help:
        return call([str(tools.pulumi.path), *words], environment(where, tools))
    return Command(given, where, tools).run()


class Command:
    """One call of the Pulumi CLI."""

    def __init__(self, words: Words, where: Places, tools: Tools) -> None:
        self.words = words
        self.places = where
        self.tools = tools
        self.environment = environment(where, tools)
        self.start = Path(words.cwd or ".").absolute()
        self.folder = overlay.project_folder(self.start)
        self.project = None if self.folder is None else overlay.project_name(self.folder)
        self.own_file = self._own_file()
        self.stack = self._stack()
        self.file = self.own_file
        if self.file is None and self.folder is not None:
            self.file = overlay.stack_file(self.folder, short_name(self.stack))

    def run(self) -> int:
        """Run it; return the exit status."""
        words = self.words
        if words.verb == "config" and words.sub == "refresh":
            raise LabError("`config refresh` would write the lab's addresses into your file")
        if not words.engine:
            if words.verb in TAKES_CONFIG_FILE or (words.verb, words.sub) == ("stack", "import"):
                self._make_stack()
            return call(self._command(self.own_file), self.environment)
        with exclusive(self.places, words.verb, say):
            self._banner()
            self._make_stack()
            with Session(self.places, self.tools, say) as session, self._kept_file():
                file = None if self.file is None else self._overlaid(session, self.file)
                return call(self._command(file), session.environment | {"PULUMI_STACK": self.stack})

    def _own_file(self) -> Path | None:
        if self.words.config_file is None:
            return None
        path = self.start / self.words.config_file
        if not path.is_file():
            raise LabError(f"there is no configuration file {self.words.config_file}")
        return path

    def _stack(self) -> str:
        if self.words.stack is not None:
            return self.words.stack
        if named := os.environ.get("PULUMI_STACK"):
            return named
        if self.own_file is not None:
            return stack_of_file(self.own_file)
        return self._selected() or DEFAULT_STACK

    def _selected(self) -> str | None:
        """Return the stack chosen with ``stack select`` (pulumi/pulumi pkg/workspace/workspace.go)."""
        if self.folder is None or self.project is None:
            return None
        path = str((self.folder / "Pulumi.yaml").resolve())
        digest = hashlib.sha1(path.encode()).hexdigest()  # noqa: S324 - the engine's own way to name the file
        try:
            settings = json.loads(
                (self.places.home / "workspaces" / f"{self.project}-{digest}-workspace.json").read_text()
            )
        except (OSError, ValueError):
            return None
        stacks = [name for name in (settings.get("stacks") or {}).values() if isinstance(name, str)]
        name = settings.get("stack") or (stacks[0] if len(stacks) == 1 else None)
        return short_name(name) if isinstance(name, str) else None

    def _exists(self) -> bool:
        folder = self.places.state / ".pulumi" / "stacks" / str(self.project)
        return any((folder / f"{short_name(self.stack)}.json{ending}").exists() for ending in ("", ".gz"))

    def _make_stack(self) -> None:
        """Make the stack when it is missing and has a configuration file.

        It is made in a project of its own, so that the engine writes its salt into a copy of the file.
        """
        if self.project is None or self.file is None or self._exists():
            return
        name = short_name(self.stack)
        self.places.run.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.places.run, prefix="init-") as made:
            project = Path(made)
            (project / "Pulumi.yaml").write_text(f"name: {self.project}\nruntime: python\n")
            shutil.copyfile(self.file, project / f"Pulumi.{name}.yaml")
            done = subprocess.run(
                [str(self.tools.pulumi.path), "stack", "init", name, "--no-select", "--non-interactive"],
                cwd=project,
                env={key: value for key, value in self.environment.items() if key != "PULUMI_STACK"},
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode != 0:
            raise LabError(f"stack {name} could not be made:\n{(done.stderr or done.stdout).strip()}")
        say(f"lab: made stack {name}")

    def _overlaid(self, session: Session, file: Path) -> Path:
        given = file.read_text()
        for name, members in overlay.names_to_make(given).items():
            dns_server.by_hand(session.world, name, members)
        talos = session.answer_for(overlay.machines_of(given))
        text = overlay.overlay(
            given,
            factory_url=session.factory_url,
            arm_url=session.arm_url,
            blob_url=session.blob_url,
            oss_url=session.oss_url,
            rpc_url=session.rpc_url,
            kubernetes_url=session.kubernetes_of(talos),
            nameserver=session.nameserver,
            talos=talos,
        )
        self.places.run.mkdir(parents=True, exist_ok=True)
        path = self.places.run / f"Pulumi.{short_name(self.stack)}.yaml"
        path.write_text(text)
        return path

    def _command(self, file: Path | None) -> list[str]:
        words = list(self.words.rest)
        end = words.index("--") if "--" in words else len(words)
        added: list[str] = []
        if self.words.stack is not None:
            added += ["--stack", self.words.stack]
        elif self.words.verb != "stack" or self.words.sub in ("", "output", "export", "import", "history", "graph"):
            self.environment["PULUMI_STACK"] = self.stack
        if file is not None and self.words.verb in TAKES_CONFIG_FILE:
            added += ["--config-file", str(file)]
        if (self.words.verb, self.words.sub) in (("stack", "rm"), ("stack", "remove"), ("stack", "delete")):
            # The configuration file may be committed, and is not the lab's to delete.
            added += [] if "--preserve-config" in words else ["--preserve-config"]
        return [str(self.tools.pulumi.path), *words[:end], *added, *words[end:]]

    def _kept_file(self) -> "_KeptFile":
        return _KeptFile(self.file if "--remove" in self.words.rest else None)

    def _banner(self) -> None:
        tools = self.tools
        shown = self.places.lab.relative_to(ROOT) if self.places.lab.is_relative_to(ROOT) else self.places.lab
        azurite = "; Azurite (page blobs of Azure)" if self.places.azurite.is_dir() else ""
        say(
            f"lab: real: pulumi {tools.pulumi.version}, the Python program, talosctl {tools.talosctl.version} "
            f"(every secret, config and patch){azurite}\n"
            "lab: simulated on 127.0.0.1: Azure, Alibaba Cloud, the Talos machines, Kubernetes, the image factory\n"
            f"lab: stack {self.stack}, state in {shown}; no account is used, nothing leaves this machine"
        )


class _KeptFile:
    """Puts a configuration file back that ``destroy --remove`` deletes with the stack."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.data = b"" if path is None else path.read_bytes()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        if self.path is not None and not self.path.exists():
            self.path.write_bytes(self.data)


def call(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Run a child to its end, hand signals on, and return its exit status (128 + n when signal n ended it)."""
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def forward(number: int, frame: FrameType | None) -> Any:
        if number == signal.SIGINT and _foreground():
            return  # the terminal has sent it to the child as well, and a second one would end it at once
        if child is None:
            early.append(number)
        elif child.poll() is None:
            child.send_signal(number)

    former = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        child = subprocess.Popen(list(command), env=dict(env))
        for number in early:
            child.send_signal(number)
        status = child.wait()
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
    return 128 - status if status < 0 else status


def _foreground() -> bool:
    """Say whether this process stands in the foreground of a terminal, which signals all of its group."""
    try:
        with open("/dev/tty", "rb") as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False
