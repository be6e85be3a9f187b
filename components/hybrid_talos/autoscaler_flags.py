"""Which flags the Cluster Autoscaler of a version has, and what is wrong with a flag that somebody wants. Pure."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .autoscaler_flag_table import FLAGS
from .versions import Minor, text


@dataclass(frozen=True)
class Flag:
    """A flag of the autoscaler, without its dashes."""

    name: str
    kind: str
    """`text`, `bool`, `int`, `float`, `duration`, or `list`, which may be given several times."""
    first: Minor
    """The oldest supported minor that has it."""
    last: Minor
    """The newest supported minor that has it."""
    help: str
    """What the autoscaler itself says about it."""

    def within(self, version: Minor) -> bool:
        """Return whether the autoscaler of a minor version has it."""
        return self.first <= version <= self.last


def _minor(value: str) -> Minor:
    major, _, rest = value.partition(".")
    return int(major), int(rest)


def _parsed(table: str) -> dict[str, Flag]:
    found: dict[str, Flag] = {}
    for line in table.splitlines():
        name, kind, first, last, words = line.split("|", 4)
        found[name] = Flag(name, kind, _minor(first), _minor(last), words)
    return found


KNOWN: Mapping[str, Flag] = _parsed(FLAGS)
"""Every flag of every supported version, by name."""

SUCCESSORS: Mapping[str, str] = {
    "max-empty-bulk-delete": "--max-scale-down-parallelism",
    "parallel-drain": "nothing: nodes are always drained in parallel, as far as --max-drain-parallelism lets them",
    "scale-down-delay": "--scale-down-delay-after-add or --scale-down-unneeded-time",
    "ignore-taint": "--startup-taint",
    "scale-down-enabled": "nothing: it is always on; the annotation "
    "cluster-autoscaler.kubernetes.io/scale-down-disabled=true keeps a node",
    "cluster-snapshot-parallelism": "--predicate-parallelism",
    "node-autoprovisioning-enabled": "nothing: it was for GKE alone",
    "max-autoprovisioned-node-group-count": "nothing: it was for GKE alone",
    "gce-expander-ephemeral-storage-support": "nothing: it is always on, and for GCE alone",
}
"""What took the place of flags that are removed or deprecated.

Source: their help texts, and the changes of kubernetes/autoscaler `config/flags/flags.go` between the tags.
`scale-down-delay` never was a flag, and stands in public examples.
"""

DEPRECATED: Mapping[str, Minor] = {
    "ignore-taint": (1, 29),
    "scale-down-enabled": (1, 35),
    "cluster-snapshot-parallelism": (1, 35),
}
"""Flags that still exist but warn, by the first minor with their successor."""

_FORMS = {
    "bool": (re.compile(r"true|false"), "true or false"),
    "int": (re.compile(r"-?\d{1,18}"), "a whole number"),
    "float": (re.compile(r"-?\d{1,15}(\.\d{1,15})?"), "a number, such as 0.5"),
    "duration": (
        re.compile(r"0|(\d{1,9}(\.\d{1,9})?(ns|us|ms|s|m|h))+"),
        "a duration with its unit, such as 90s, 10m or 1h30m",
    ),
    "list": (re.compile(r"[^\s,]+(,[^\s,]+)*"), "one value, or several with commas and no blanks"),
}


def flag_problems(extra: Mapping[str, str], version: Minor, owned: Mapping[str, str]) -> list[str]:
    """Return what is wrong with flags by name, one line each, for the autoscaler of a minor version.

    ``owned`` says, for each flag that this library sets itself, what to use instead. Values are never repeated.
    """
    found: list[str] = []
    for name in sorted(extra):
        problem = _problem(name, extra[name], version, owned)
        if problem:
            found.append(f"extra_args.{name}: {problem}")
    return found


def _problem(name: str, value: str, version: Minor, owned: Mapping[str, str]) -> str | None:
    if name.startswith("-"):
        return "must be named without its dashes"
    if name in owned:
        return f"is not for extra_args: {owned[name]}"
    flag = KNOWN.get(name)
    if flag is None or not flag.within(version):
        return _missing(name, flag, version)
    since = DEPRECATED.get(name)
    if since is not None and version >= since:
        return f"is deprecated since {text(since)}; its successor is {SUCCESSORS[name]}"
    if flag.kind == "text":
        return "must not have white space around it" if value != value.strip() or not value else None
    form, words = _FORMS[flag.kind]
    return None if form.fullmatch(value) else f"must be {words}"


def _missing(name: str, flag: Flag | None, version: Minor) -> str:
    """Say why a version has no such flag; it would end with `unknown flag` at each start."""
    there = f"Cluster Autoscaler {text(version)} has no such flag"
    if flag is not None and flag.first > version:
        return f"{there}: it came with {text(flag.first)}; remove it"
    if name in SUCCESSORS:
        gone = f", {text(flag.last)} was the last" if flag is not None else ""
        return f"{there}{gone}; its successor is {SUCCESSORS[name]}"
    if flag is not None:
        return f"{there}, {text(flag.last)} was the last: remove it"
    near = difflib.get_close_matches(name, [known for known in KNOWN if KNOWN[known].within(version)], 1)
    return f"{there}: {f'did you mean {near[0]}?' if near else 'remove it'}"


def missing_problems(names: Iterable[str], version: Minor) -> list[str]:
    """Return a line for each flag that inputs of their own ask for and the autoscaler of a minor version lacks."""
    return [f"--{name}: {_missing(name, KNOWN[name], version)}" for name in names if not KNOWN[name].within(version)]


def rendered(flags: Mapping[str, str], lists: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the arguments of a process, sorted; flags of ``lists`` come once for each value."""
    single = [f"--{name}={value}" for name, value in flags.items()]
    return sorted([*single, *(f"--{name}={value}" for name, many in lists.items() for value in many)])


def split(extra: Mapping[str, str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return single flags, and the values of those that may come several times."""
    lists = {name: value.split(",") for name, value in extra.items() if KNOWN[name].kind == "list"}
    return {name: value for name, value in extra.items() if name not in lists}, lists


def flags_page() -> str:
    """Return the documentation of all flags, as Markdown."""
    lines = [
        "# Flags of the autoscaler",
        "",
        "Every flag of every supported Cluster Autoscaler, as `extraArgs` takes it: the name without dashes, the",
        "value as text. A flag that the version for your Kubernetes does not have is refused in the preview. Where",
        "there is a setting of its own in [Settings](settings.md), use that. `make docs` writes this page anew",
        "from a table that is read out of the autoscaler's sources.",
        "",
        "| flag | value | versions | what it says about itself |",
        "|---|---|---|---|",
    ]
    for flag in KNOWN.values():
        words = flag.help.replace("<", "&lt;").replace(">", "&gt;")
        if flag.name in SUCCESSORS:
            words = f"**Instead: {SUCCESSORS[flag.name]}.** {words}"
        lines.append(f"| `{flag.name}` | {flag.kind} | {text(flag.first)} to {text(flag.last)} | {words} |")
    return "\n".join(lines) + "\n"
