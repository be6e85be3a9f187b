"""A program on the real engine with the real Kubernetes provider, on a real cluster. Clouds are simulated."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from kubernetes_cluster import Cluster
from ran import Run, checked

from lab.session import PACKAGES, Session

SIMULATED = tuple(name for name in PACKAGES if name != "kubernetes")


class RealLab:
    """One program in a folder of its own, and its stack."""

    def __init__(self, session: Session, cluster: Cluster, program: Path, folder: Path) -> None:
        self.session = session
        self.is_up = False
        self.folder = folder / program.name
        shutil.copytree(program, self.folder)
        # Dynamic providers run in the virtual environment that this names, seen from where the program was.
        manifest = self.folder / "Pulumi.yaml"
        manifest.write_text(manifest.read_text().replace("../../../../.venv", sys.prefix))
        provider = cluster.tools.kubernetes_provider.parent
        path = session.environment["PATH"]
        # The engine takes a provider on PATH before any other, whatever version the SDK asks for.
        self.environment = {**session.environment, "PATH": f"{provider}{os.pathsep}{path}"}
        self.environment.pop("PULUMI_IGNORE_AMBIENT_PLUGINS", None)
        self.run("stack", "init", "real")
        self.set("kubeconfig", cluster.admin_kubeconfig(), secret=True)

    def run(self, *words: str, code: int | None = 0, text: str | None = None, **env: str) -> Run:
        """Run the Pulumi CLI and check how it ended; ``code=None`` takes any end."""
        done = subprocess.run(
            [str(self.session.tools.pulumi.path), *words, "--non-interactive"],
            cwd=self.folder,
            env=self.environment | env,
            input=text,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        return checked(done, words, code)

    def set(self, key: str, value: str, *, secret: bool = False) -> None:
        """Set a value of the stack's configuration."""
        self.run("config", "set", key, *(["--secret"] if secret else ["--plaintext"]), text=value)

    def set_settings(self, **settings: Any) -> None:
        """Set what the program varies."""
        self.set("settings", json.dumps(settings))

    def up(self, *words: str) -> Run:
        """Bring the stack up."""
        run = self.run("up", "--yes", "--skip-preview", *words)
        self.is_up = True
        return run

    def ensure_up(self) -> None:
        """Bring the stack up when it is not."""
        if not self.is_up:
            self.up()

    def preview(self, *words: str) -> list[dict[str, Any]]:
        """Return the steps that a preview plans."""
        return list(json.loads(self.run("preview", "--json", *words).out)["steps"])

    def changes(self, *words: str) -> dict[str, str]:
        """Return what a preview would change: the operation by name and type, `same` left out."""
        return {
            step["urn"].split("::", 2)[2]: step["op"]
            for step in self.preview(*words)
            if step["op"] not in ("same", "refresh", "read")
        }

    def destroy(self, **env: str) -> Run:
        """Destroy all that the stack holds."""
        self.is_up = False
        return self.run("destroy", "--yes", "--skip-preview", **env)

    def urn(self, name: str) -> str:
        """Return the URN of a resource by its name."""
        (urn,) = [one["urn"] for one in self.resources() if one["urn"].endswith(f"::{name}")]
        return str(urn)

    def outputs(self) -> dict[str, Any]:
        """Return the stack's outputs."""
        return dict(json.loads(self.run("stack", "output", "--json", "--show-secrets").out))

    def resources(self, *words: str) -> list[dict[str, Any]]:
        """Return the resources of the exported state, secrets encrypted but for `--show-secrets`."""
        return list(json.loads(self.run("stack", "export", *words).out)["deployment"].get("resources", []))

    def manifests(self) -> list[Any]:
        """Return all objects as the program has declared them, secrets in clear."""
        found = [one for one in self.resources("--show-secrets") if one["type"].startswith("kubernetes:")]
        return [_clear(one["inputs"]) for one in found]


_SIGNATURE = "4dabf18193072939515e22adb298388d"  # pulumi/pulumi sdk/go/common/resource/sig


def _clear(value: Any) -> Any:
    """Return a value of the state with its secrets in the place of what wraps them."""
    if isinstance(value, dict):
        if _SIGNATURE in value:
            return _clear(json.loads(value["plaintext"]))
        return {key: _clear(item) for key, item in value.items() if key != "__defaults"}
    return [_clear(item) for item in value] if isinstance(value, list) else value
