"""Settings files of the tests: whole good ones, and bad ones that change a good one in as few places as they can.

A file under `good/` holds `stack` and `settings`. A file under `bad/` names its `base`, a good file, and what it does
to it: `stack`, `set` (path of a key to its new value) and `remove` (paths), with paths as in `pulumi config --path`.
Its first lines say which words the message must hold, each in a comment `# expect: <words>`.
"""

import re
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import yaml

HERE = Path(__file__).parent
GOOD = sorted((HERE / "good").glob("*.yaml"))
BAD = sorted((HERE / "bad").glob("*.yaml"))

_PART = re.compile(r'\["(?P<quoted>[^"]+)"\]|\[(?P<index>\d+)\]|\.?(?P<key>[^.\[]+)')


class Document(NamedTuple):
    stack: Any
    settings: Any


def read_good(path: Path) -> Document:
    content = yaml.safe_load(path.read_text())
    return Document(content["stack"], content["settings"])


def expected_of(path: Path) -> list[str]:
    found = re.findall(r"^# expect: (.+)$", path.read_text(), re.MULTILINE)
    assert found, f"{path.name} says not what it expects"
    return found


def read_bad(path: Path) -> Document:
    content = yaml.safe_load(path.read_text())
    assert content.keys() <= {"base", "stack", "set", "remove"}, path.name
    base = read_good(HERE / "good" / f"{content['base']}.yaml")
    settings = deepcopy(base.settings)
    for where, value in (content.get("set") or {}).items():
        change(settings, where, value)
    for where in content.get("remove") or ():
        parent, last = _parent(settings, where)
        del parent[last]
    return Document(content.get("stack", base.stack), settings)


def change(settings: Any, where: str, value: Any) -> None:
    """Set the key at a path, making the mappings on the way to it."""
    parent, last = _parent(settings, where)
    if isinstance(parent, list) and last == len(parent):
        parent.append(value)
    else:
        parent[last] = value


def _parent(settings: Any, where: str) -> tuple[Any, Any]:
    found = [part for part in _PART.finditer(where)]
    parts: list[Any] = [int(p["index"]) if p["index"] else p["quoted"] or p["key"] for p in found]
    for part in parts[:-1]:
        settings = settings.setdefault(part, {}) if isinstance(settings, dict) else settings[part]
    return settings, parts[-1]
