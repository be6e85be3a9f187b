"""What the components cost above the same resources declared raw, in whole processes and in turn."""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
POOLS = (1, 20)
ROUNDS = 7
AIM = 1.10
"""The components may cost this much more than the same resources declared raw."""


@dataclass
class Measured:
    """What whole processes took, one entry for each round."""

    wall: list[float]
    memory: list[float]
    declaring: list[float]
    resources: int = 0


def once(*words: str) -> tuple[float, float, dict[str, float]]:
    """Run one evaluation; return its wall seconds, its peak memory in MiB, and what it printed."""
    start = time.perf_counter()
    code = f"import sys; sys.argv = ['bench.program', *{list(words)!r}]\n" + _CHILD
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit(f"bench: {' '.join(words)} failed:\n{done.stderr[-2000:]}")
    printed = json.loads(done.stdout.splitlines()[-2])
    return wall, float(done.stdout.splitlines()[-1]) / 1024, printed


_CHILD = """
import resource
from bench.program import main
main(*sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def measure(pools: int) -> dict[str, Measured]:
    """Evaluate components and raw resources in turn."""
    found = {mode: Measured([], [], []) for mode in ("components", "raw")}
    with tempfile.TemporaryDirectory() as folder:
        recorded = str(Path(folder) / "resources.json")
        once("record", str(pools), recorded)
        for _ in range(ROUNDS):
            for mode, measured in found.items():
                wall, memory, printed = once(mode, str(pools), recorded)
                measured.wall.append(wall)
                measured.memory.append(memory)
                measured.declaring.append(printed["seconds"])
                measured.resources = int(printed["resources"])
    return found


def run(console: Console) -> None:
    """Measure, and print one table with the ratios in front."""
    table = Table(title=f"Evaluating the program: components against the same resources declared raw ({ROUNDS} rounds)")
    for column in ("pools a cloud", "resources", "time ratio", "memory ratio", "aim", "components", "raw"):
        table.add_column(column, justify="right")
    for pools in POOLS:
        found = measure(pools)
        ours, theirs = found["components"], found["raw"]
        # Neighbours in time are compared, so that a slow spell of the machine meets both.
        wall = statistics.median(a / b for a, b in zip(ours.wall, theirs.wall, strict=True))
        memory = statistics.median(a / b for a, b in zip(ours.memory, theirs.memory, strict=True))
        table.add_row(
            str(pools),
            f"{ours.resources} / {theirs.resources}",
            f"{wall:.2f}",
            f"{memory:.2f}",
            f"{AIM:.2f}",
            f"{statistics.median(ours.wall):.2f} s, {statistics.median(ours.memory):.0f} MiB",
            f"{statistics.median(theirs.wall):.2f} s, {statistics.median(theirs.memory):.0f} MiB",
        )
    console.print(table)
