"""Writes the table of the autoscaler's flags anew, from a clone of kubernetes/autoscaler with its tags.

`python -m lab.autoscaler_flags <clone> > components/hybrid_talos/autoscaler_flag_table.py`
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from hybrid_talos.versions import AUTOSCALER_TAGS, Minor, text

_CALL = re.compile(
    r"(?:\bp?flag\.(?P<kind>String|Bool|Int|Duration|Float64|StringSlice)|(?P<many>multiStringFlag))\(\s*"
    r'(?:"(?P<name>[a-z0-9-]+)"|config\.(?P<constant>\w+))\s*,(?P<rest>.*)'
)
_KINDS = {"String": "text", "Bool": "bool", "Int": "int", "Duration": "duration", "Float64": "float"}
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')

# What the libraries within it add: component-base's leader election, logging and feature gates, and klog, whose
# underscores kube_flag.InitFlags turns into hyphens.
_OF_LIBRARIES = """
alsologtostderr bool
add-dir-header bool
feature-gates text
leader-elect bool
leader-elect-lease-duration duration
leader-elect-renew-deadline duration
leader-elect-resource-lock text
leader-elect-resource-name text
leader-elect-resource-namespace text
leader-elect-retry-period duration
log-backtrace-at text
log-dir text
log-file text
log-file-max-size int
log-flush-frequency duration
logging-format text
logtostderr bool
one-output bool
skip-headers bool
skip-log-headers bool
stderrthreshold text
v int
vmodule text
"""

_LIBRARY = "Of the libraries within it: leader election, logging, feature gates."
_BEHAVIOUR = "legacy-stderr-threshold-behavior"
_KLOG_WITH_BEHAVIOUR = 140


def _shown(clone: Path, tag: str, path: str) -> str:
    command = ["git", "-C", str(clone), "show", f"cluster-autoscaler-{tag.removeprefix('v')}:cluster-autoscaler/{path}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def flags_of(source: str, constants: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, kind and help of each flag that Go code declares."""
    joined = re.sub(r"\(\s*\n\s*", "(", source)
    joined = re.sub(r",\s*\n\s*", ", ", joined)
    joined = re.sub(r"\+\s*\n\s*", "+ ", joined)
    for found in map(_CALL.search, joined.splitlines()):
        if found is None:
            continue
        name = found["name"]
        if name is None:
            value = re.search(rf'\b{found["constant"]}\s*=\s*"([^"]+)"', constants)
            assert value is not None, found["constant"]
            name = value[1]
        kind = "list" if found["many"] or found["kind"] == "StringSlice" else _KINDS[found["kind"]]
        rest = found["rest"]
        if kind == "text" and rest.lstrip().startswith('"'):
            rest = _STRING.sub("", rest, count=1)
        words = " ".join("".join(re.findall(_STRING, rest)).replace('\\"', '"').split())
        yield name, kind, words.replace("|", "/")


def table(clone: Path, tags: Mapping[Minor, str]) -> dict[str, tuple[str, Minor, Minor, str]]:
    """Return kind, first and last minor, and the newest help of each flag."""
    known: dict[str, tuple[str, Minor, Minor, str]] = {}
    first, last = min(tags), max(tags)
    for minor, tag in sorted(tags.items()):
        source = _shown(clone, tag, "config/flags/flags.go") + _shown(clone, tag, "main.go")
        constants = _shown(clone, tag, "config/const.go") + _shown(clone, tag, "config/autoscaling_options.go")
        found = list(flags_of(source, constants))
        assert len(found) > 80, f"{tag}: found {len(found)} flags alone"
        for name, kind, help_text in found:
            since = known[name][1] if name in known else minor
            known[name] = (kind, since, minor, help_text)
        klog = re.search(r"k8s\.io/klog/v2 v2\.(\d+)", _shown(clone, tag, "go.mod"))
        assert klog is not None
        if int(klog[1]) >= _KLOG_WITH_BEHAVIOUR:
            since = known[_BEHAVIOUR][1] if _BEHAVIOUR in known else minor
            known[_BEHAVIOUR] = ("bool", since, minor, _LIBRARY)
    for line in _OF_LIBRARIES.strip().splitlines():
        name, kind = line.split()
        known[name] = (kind, first, last, _LIBRARY)
    return known


_HEAD = '''# ruff: noqa: E501
"""The flags of each supported Cluster Autoscaler: name, kind, first and last minor version, help.

Written by `python -m lab.autoscaler_flags`; do not edit. Source: kubernetes/autoscaler `cluster-autoscaler/main.go` and
`config/flags/flags.go` at the tags {tags};
component-base (leader election, logging, feature gates) and klog for the others.
"""

FLAGS = """\\
'''


def main() -> None:
    """Write the table to standard output."""
    known = table(Path(sys.argv[1]), AUTOSCALER_TAGS)
    out = [_HEAD.format(tags=", ".join(tag.removeprefix("v") for _, tag in sorted(AUTOSCALER_TAGS.items())))]
    for name, (kind, first, last, words) in sorted(known.items()):
        out.append("|".join((name, kind, text(first), text(last), words.replace("\\", ""))) + "\n")
    print("".join(out) + '"""', end="\n")


if __name__ == "__main__":
    main()
