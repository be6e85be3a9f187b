"""The lab as tests use it: the real command line, in a folder of its own."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml
from ran import Run, checked

from lab.world import World

ROOT = Path(__file__).resolve().parents[2]
AZURE_MARKER = "lab-azure-client-secret-MARKER"
ALIYUN_MARKER = "lab-aliyun-access-key-secret-MARKER"


@dataclass
class Lab:
    """One lab folder: its clouds, its stacks, and the command line on it."""

    folder: Path
    stack: str = "dev"
    config_file: Path | None = None
    env: dict[str, str] = field(default_factory=dict)
    program: Path | None = None
    """Folder of another program than this repository's own."""

    def run(self, *words: str, code: int | None = 0, **env: str) -> Run:
        """Run ``python -m lab`` and check how it ended; ``code=None`` takes any end."""
        command = [sys.executable, "-m", "lab", *words]
        if words[0] not in ("cloud", "tools"):
            if self.program is not None:
                command += ["-C", str(self.program)]
            command += ["--stack", self.stack]
            if self.config_file is not None:
                command += ["--config-file", str(self.config_file)]
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "HYBRID_TALOS_LAB": str(self.folder), **self.env, **env},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        return checked(done, words, code)

    def preview(self, *words: str) -> list[dict[str, Any]]:
        """Return the steps that a preview plans."""
        run = self.run("preview", "--json", *words)
        return list(json.loads(run.out)["steps"])

    def changes(self, *words: str) -> dict[str, str]:
        """Return what a preview would change: the operation by URN, `same` left out."""
        return {
            step["urn"]: step["op"] for step in self.preview(*words) if step["op"] not in ("same", "refresh", "read")
        }

    def up(self, *words: str) -> Run:
        return self.run("up", "--yes", "--skip-preview", *words)

    def destroy(self) -> Run:
        return self.run("destroy", "--yes", "--skip-preview")

    def state(self) -> list[dict[str, Any]]:
        """Return the resources of the exported state, secrets encrypted."""
        return list(json.loads(self.run("stack", "export").out)["deployment"].get("resources", []))

    def outputs(self, *, show_secrets: bool = False) -> dict[str, Any]:
        words = ["stack", "output", "--json"] + (["--show-secrets"] if show_secrets else [])
        return dict(json.loads(self.run(*words).out))

    def world(self) -> World:
        return World(self.folder)

    def with_settings(self, path: Path, change: Any, stack: str | None = None) -> "Lab":
        """Return this lab with a changed copy of its configuration file."""
        assert self.config_file is not None
        document = yaml.safe_load(self.config_file.read_text())
        change(document["config"]["hybrid-talos:settings"])
        path.write_text(yaml.safe_dump(document, sort_keys=False))
        return replace(self, stack=stack or self.stack, config_file=path)
