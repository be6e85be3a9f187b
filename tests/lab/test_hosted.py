"""The components as a package: a program that knows only tokens, against the same program with the library.

The package is an executable on PATH, as `pulumi package add` of a folder would make one, that runs `components`.
"""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_folder import ROOT, Lab

pytestmark = pytest.mark.lab

PROGRAM = Path(__file__).parent / "programs" / "hosted"
PLUGIN = "pulumi-resource-hybrid-talos"


def with_config(path: Path, **config: Any) -> Path:
    """Return a copy of the program's configuration with further values."""
    document = yaml.safe_load((PROGRAM / "Pulumi.hosted.yaml").read_text())
    document["config"] |= {f"hosted:{key}": value for key, value in config.items()}
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture(scope="module")
def inside(folder: Path) -> Lab:
    """The program with the library in its own process; the package is nowhere."""
    return Lab(folder, "hosted", PROGRAM / "Pulumi.hosted.yaml", program=PROGRAM)


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment whose PATH has the package."""
    folder = tmp_path_factory.mktemp("plugins")
    plugin = folder / PLUGIN
    plugin.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT / "components"}" "$@"\n')
    plugin.chmod(0o755)
    return {"PATH": os.pathsep.join([str(folder), os.environ.get("PATH", os.defpath)])}


@pytest.fixture(scope="module")
def hosted(folder: Path, tmp_path_factory: pytest.TempPathFactory, plugins: dict[str, str]) -> Lab:
    """The same stack, with every component from the package."""
    config = with_config(tmp_path_factory.mktemp("config") / "Pulumi.hosted.yaml", hosted=True)
    return Lab(folder, "hosted", config, plugins, PROGRAM)


class TestHosted:
    """In order: each test goes on from the one before."""

    def test_preview_maps_outputs_that_nobody_knows_yet(self, hosted: Lab) -> None:
        steps = hosted.preview()
        assert {step["op"] for step in steps} == {"create"}
        planned = {step["urn"].split("::", 2)[2] for step in steps}
        assert (
            "hybrid-talos:index:AzureWorkerPool$azure-native:compute:VirtualMachineScaleSet::pool-scale-set" in planned
        )
        assert "hybrid-talos:index:ClusterAutoscaler$kubernetes:apps/v1:Deployment::autoscaler-deployment" in planned

    def test_refused_inputs_are_one_message_without_a_traceback_of_the_package(
        self, hosted: Lab, tmp_path: Path, plugins: dict[str, str]
    ) -> None:
        config = with_config(tmp_path / "Pulumi.hosted.yaml", hosted=True, maxSize=20)
        run = Lab(hosted.folder, "hosted", config, plugins, PROGRAM).run("preview", code=None)
        assert run.code != 0
        assert "AzureWorkerPool 'pool': " in run.text
        assert "max_size is 20" in run.text
        assert "component_host.py" not in run.text
        assert "azure_worker_pool.py" not in run.text

    def test_up_makes_everything_from_the_package(self, hosted: Lab) -> None:
        assert PLUGIN in hosted.up().text
        (scale_set,) = hosted.world().find("azure-native", "VirtualMachineScaleSet")
        assert hosted.outputs()["poolName"] == scale_set.doc["name"]

    def test_preview_from_the_package_changes_nothing(self, hosted: Lab) -> None:
        assert hosted.changes() == {}

    def test_the_library_in_process_makes_the_same_resources(self, inside: Lab) -> None:
        run = inside.run("preview", "--expect-no-changes")
        assert PLUGIN not in run.text

    def test_the_program_without_the_library_needs_the_package(self, hosted: Lab) -> None:
        """Shows that the tests above had it from there."""
        run = Lab(hosted.folder, "hosted", hosted.config_file, program=PROGRAM).run("preview", code=None)
        assert run.code != 0
        assert "hybrid-talos" in run.text

    def test_no_secret_stands_in_the_state(self, hosted: Lab) -> None:
        kubeconfig = yaml.safe_load(hosted.outputs(show_secrets=True)["kubeconfig"])
        key = kubeconfig["users"][0]["user"]["client-key-data"]
        state = hosted.run("stack", "export").out
        assert len(key) > 100
        assert key not in state
        assert "MARKER" not in state

    def test_destroy_leaves_nothing(self, hosted: Lab) -> None:
        hosted.destroy()
        assert hosted.state() == []
        left = [(r.package, r.kind, r.id) for r in hosted.world().find() if not r.doc.get("builtin")]
        assert left == []
