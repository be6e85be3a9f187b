"""The definitions that the operator of Prometheus brings into a cluster: its own, from its Go module."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from lab.tool_builds import MODULES

MODULE = "github.com/prometheus-operator/prometheus-operator"
KINDS = ("podmonitors", "prometheusrules")


def definitions() -> list[dict[str, Any]]:
    """Return the definitions of the kinds that this library makes objects of, in the version that go.mod pins."""
    go = shutil.which("go")
    assert go is not None, "the tools of this tier are built with Go"
    folder = MODULES / "prometheus-operator"
    done = subprocess.run(
        [go, "mod", "download", "-json", MODULE], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    place = Path(json.loads(done.stdout)["Dir"]) / "example" / "prometheus-operator-crd"
    return [yaml.safe_load((place / f"monitoring.coreos.com_{kind}.yaml").read_text()) for kind in KINDS]
