"""What the components cost above the same resources declared raw, in whole processes and in turn.

Then how the cost grows: the processor time and the memory of one more pool, from few to some and from some to many.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = {1: 5, 10: 5, 100: 2}
"""Pools in each of the two clouds, and how often that is evaluated: the largest takes minutes, and is steady enough."""
AIM = 1.10
"""The components may cost this much more than the same resources declared raw."""
AIM_GROWTH = 1.20
"""One more pool may cost this much more among many than among few."""


@dataclass
class Measured:
    """What whole processes took, one entry for each round."""

    wall: list[float]
    memory: list[float]
    processor: list[float]
    """Seconds of processor time, which other programs on the machine hardly change."""
    resources: int = 0


@dataclass
class Growth:
    """What one more pool costs: from the fewest pools to some, and from those to the most."""

    few: float
    many: float

    @property
    def ratio(self) -> float:
        """How much more the pool costs among many."""
        return self.many / self.few


def once(*words: str) -> tuple[float, float, dict[str, float]]:
    """Run one evaluation; return its wall seconds, its peak memory in MiB, and what it printed."""
    start = time.perf_counter()
    code = f"import sys; sys.argv = ['bench.program', *{list(words)!r}]\n" + _CHILD
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit(f"bench: {' '.join(words)} failed:\n{done.stderr[-2000:]}")
    lines = done.stdout.splitlines()
    used = json.loads(lines[-1])
    return wall, used["peak"] / 1024, {**json.loads(lines[-2]), "processor": used["processor"]}


_CHILD = """
import json
import resource
from pathlib import Path
from bench.program import main
main(*sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
# Of this program alone where Linux tells: the other number begins with what the parent had.
status = Path("/proc/self/status")
peak = used.ru_maxrss
if status.exists():
    peak = next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
print(json.dumps({"peak": peak, "processor": used.ru_utime + used.ru_stime}))
"""


def growth(cost: Mapping[int, float]) -> Growth:
    """Return what one more pool costs, of what three numbers of pools cost."""
    (few, at_few), (some, at_some), (many, at_many) = sorted(cost.items())
    return Growth((at_some - at_few) / (some - few), (at_many - at_some) / (many - some))


def measure(pools: int, rounds: int) -> dict[str, Measured]:
    """Evaluate components and raw resources in turn."""
    found = {mode: Measured([], [], []) for mode in ("components", "raw")}
    with tempfile.TemporaryDirectory() as folder:
        recorded = str(Path(folder) / "resources.json")
        once("record", str(pools), recorded)
        for _ in range(rounds):
            for mode, measured in found.items():
                wall, memory, printed = once(mode, str(pools), recorded)
                measured.wall.append(wall)
                measured.memory.append(memory)
                measured.processor.append(printed["processor"])
                measured.resources = int(printed["resources"])
    return found


def run(console: Console) -> None:
    """Measure, and print two tables with the ratios in front."""
    table = Table(title="Evaluating the program: components against the same resources declared raw")
    for column in ("pools", "rounds", "resources", "time ratio", "memory ratio", "aim", "components", "raw"):
        table.add_column(column, justify="right")
    found = {2 * each: measure(each, rounds) for each, rounds in ROUNDS.items()}
    for (pools, both), rounds in zip(found.items(), ROUNDS.values(), strict=True):
        ours, theirs = both["components"], both["raw"]
        # Neighbours in time are compared, so that a slow spell of the machine meets both.
        wall = statistics.median(a / b for a, b in zip(ours.wall, theirs.wall, strict=True))
        memory = statistics.median(a / b for a, b in zip(ours.memory, theirs.memory, strict=True))
        table.add_row(
            str(pools),
            str(rounds),
            f"{ours.resources} / {theirs.resources}",
            f"{wall:.2f}",
            f"{memory:.2f}",
            f"{AIM:.2f}",
            f"{statistics.median(ours.wall):.2f} s, {statistics.median(ours.memory):.0f} MiB",
            f"{statistics.median(theirs.wall):.2f} s, {statistics.median(theirs.memory):.0f} MiB",
        )
    console.print(table)
    few, some, many = sorted(found)
    table = Table(title="What one more pool costs, among many against among few")
    for column in ("", "ratio", "aim", f"{some} to {many} pools", f"{few} to {some} pools"):
        table.add_column(column, justify="right")
    for mode in ("components", "raw"):
        time_of = growth({pools: statistics.median(both[mode].processor) for pools, both in found.items()})
        memory_of = growth({pools: statistics.median(both[mode].memory) for pools, both in found.items()})
        aim = f"{AIM_GROWTH:.2f}" if mode == "components" else ""
        table.add_row(
            f"{mode}, processor time", f"{time_of.ratio:.2f}", aim, f"{time_of.many:.3f} s", f"{time_of.few:.3f} s"
        )
        table.add_row(
            f"{mode}, memory", f"{memory_of.ratio:.2f}", aim, f"{memory_of.many:.2f} MiB", f"{memory_of.few:.2f} MiB"
        )
    console.print(table)
