"""Reads just enough of a Pulumi command line to know what it works on; everything else goes through unchanged."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_VALUED = frozenset(
    ["-C", "--cwd", "--color", "--memprofilerate", "--otel-traces", "--profiling", "--tracing", "-v", "--verbose"]
)
"""Flags of the CLI that may stand before the verb with a value of their own (``pulumi --help``)."""

ALIASES = {"pre": "preview", "update": "up", "down": "destroy", "dn": "destroy"}
"""Other names of verbs (``pulumi <verb> --help``)."""

ENGINE = frozenset(["destroy", "import", "preview", "refresh", "up"])
"""Verbs that let providers work, and so need the simulated clouds. Each takes ``--config-file``."""

TAKES_CONFIG_FILE = ENGINE | {"config"}
"""Verbs with a flag ``--config-file``."""

_STACK_FILE = re.compile(r"Pulumi\.(?P<stack>[A-Za-z0-9_.-]+)\.ya?ml")


@dataclass(frozen=True)
class Words:
    """A command line for the Pulumi CLI, taken apart."""

    rest: tuple[str, ...]
    """The words without ``--stack`` and ``--config-file``."""
    verb: str
    """The verb by its main name, or an empty text."""
    sub: str
    """The word right after the verb, when it is no flag."""
    stack: str | None
    config_file: str | None
    cwd: str | None
    help: bool

    @property
    def engine(self) -> bool:
        """Whether providers will be at work."""
        return self.verb in ENGINE and not self.help


def parse(words: Sequence[str]) -> Words:
    """Take a command line apart.

    Raises:
        ValueError: a flag that the lab reads stands last, without its value.
    """
    rest: list[str] = []
    names: list[str] = []
    taken: dict[str, str] = {}
    wants_help = False
    queue = list(words)
    while queue:
        word = queue.pop(0)
        if word == "--":
            rest += [word, *queue]
            break
        flag, has_value, value = word.partition("=")
        if flag in ("--stack", "--config-file") or (word.startswith("-s") and not word.startswith("--")):
            key = "config-file" if flag == "--config-file" else "stack"
            if word.startswith("-s") and not word.startswith("--") and word != "-s":
                taken[key] = word[2:].removeprefix("=")
            elif has_value:
                taken[key] = value
            elif queue:
                taken[key] = queue.pop(0)
            else:
                raise ValueError(f"{word} needs a value")
            continue
        if flag in ("-C", "--cwd"):
            if not has_value and not queue:
                raise ValueError(f"{word} needs a value")
            taken["cwd"] = value if has_value else queue[0]
        rest.append(word)
        if word in _VALUED and queue and (not names or word in ("-C", "--cwd")):
            rest.append(queue.pop(0))
        elif word in ("-h", "--help"):
            wants_help = True
        elif not word.startswith("-") and (not names or (len(names) == 1 and rest[-2:-1] == names)):
            names.append(word)
    verb = ALIASES.get(names[0], names[0]) if names else ""
    return Words(
        rest=tuple(rest),
        verb=verb,
        sub=names[1] if len(names) > 1 else "",
        stack=taken.get("stack"),
        config_file=taken.get("config-file"),
        cwd=taken.get("cwd"),
        help=wants_help or verb == "help",
    )


def stack_of_file(path: Path) -> str:
    """Return the stack that a configuration file stands for: that of its name, else one of its own."""
    if found := _STACK_FILE.fullmatch(path.name):
        return found["stack"]
    stem = re.sub(r"[^A-Za-z0-9-]+", "-", path.stem).strip("-") or "file"
    return f"{stem[:40]}-{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"


def short_name(stack: str) -> str:
    """Return a stack's own name without the organization and project before it."""
    return stack.rsplit("/", 1)[-1]
