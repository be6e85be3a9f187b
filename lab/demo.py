"""The demonstration: the stack of Pulumi.dev.yaml comes up in the lab, and a second preview shows no change."""

import subprocess
import sys
import time
from collections.abc import Sequence

from rich.console import Console

from . import node_tools
from .places import ROOT, Places, places
from .tool_builds import ToolsMissing
from .tools import provide

STEPS = (
    ("What would be built", ["preview"]),
    ("Build it", ["up", "--yes", "--skip-preview"]),
    ("Outputs (credentials stay hidden)", ["stack", "output"]),
    ("A second preview: nothing left to do", ["preview", "--expect-no-changes"]),
)

AFTER = """\
It is up. To look around (the steps of `nextSteps` are for a real cluster: here nothing answers to kubectl):
  .venv/bin/python -m lab cloud ls              what the simulated clouds hold
  .venv/bin/python -m lab stack output nextSteps
  make clean-lab                                forget it all (in order: docs/teardown.md)"""


def page_blobs(where: Places) -> str:
    """Choose who keeps the page blobs of a new lab, Azurite where Node.js is at hand; return who it is."""
    own = "the lab's own server of the protocol"
    if where.azurite.is_dir():
        return "Azurite"
    if where.state.exists():
        return f"{own} (as this lab began; `make clean-lab` begins a new one)"
    try:
        node_tools.provide()
    except ToolsMissing as missing:
        return f"{own}, in the place of Azurite: {str(missing).splitlines()[0]}"
    where.azurite.mkdir(parents=True)
    return "Azurite"


def demo(words: Sequence[str]) -> int:
    """Run the demonstration; ``words`` (such as ``--stack X``) go to every step. Return the first bad status."""
    console = Console(stderr=True, highlight=False)
    provide()
    console.print(f"Azure's page blobs: {page_blobs(places())}")
    started = time.monotonic()
    for title, step in STEPS:
        console.rule(f"[bold]{title}")
        console.print(f"python -m lab {' '.join([*step, *words])}", style="dim")
        # A process of its own for each step: the simulated clouds outlive the command.
        done = subprocess.run([sys.executable, "-m", "lab", *step, *words], cwd=ROOT, check=False)
        if done.returncode != 0:
            console.print(f"`{' '.join(step)}` ended with exit status {done.returncode}", style="bold red")
            return done.returncode
    console.rule(f"[bold green]Done in {time.monotonic() - started:.0f} s")
    console.print(AFTER)
    return 0
