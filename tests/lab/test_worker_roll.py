"""A stack that lists its stale nodes, on the real engine: what a preview shows, and a cluster that cannot be asked.

The lab's clusters answer no client that asks for Nodes. A roll itself is tested on the clouds' own APIs
(test_azure_roll.py, test_alicloud_roll.py) and on a real API server (tests/real/test_real_roll.py).
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_folder import ROOT, Lab

pytestmark = pytest.mark.lab


def settings(folder: Path, **rolling: Any) -> Path:
    """Write the developers' stack with `rolling` at every pool."""
    document = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())
    found = document["config"]["hybrid-talos:settings"]
    for cloud in ("azure", "aliyun"):
        for pool in found[cloud]["pools"]:
            pool["rolling"] = rolling
    path = folder / f"{len(list(folder.iterdir()))}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Lab:
    return Lab(tmp_path_factory.mktemp("lab"), "dev", settings(folder))


class TestListing:
    """In order: each test goes on from the one before."""

    def test_a_cluster_that_cannot_be_asked_fails_nothing(self, lab: Lab) -> None:
        text = lab.up().text
        assert "Traceback" not in text
        assert "the stale nodes of azure-workers are not known" in text

    def test_the_state_has_the_steps_and_no_credentials(self, lab: Lab) -> None:
        rolls = [r for r in lab.state() if r["type"].endswith("workers:Roll")]
        assert {roll["urn"].rpartition("::")[2] for roll in rolls} == {"azure-workers-roll", "aliyun-workers-roll"}
        for roll in rolls:
            assert "list the nodes of" in roll["inputs"]["plan"][0]
            assert roll["inputs"]["stamp"] != "0" * 16
            assert "client-key-data" not in json.dumps(roll)
            assert roll["outputs"].get("stale") is None

    def test_the_hash_is_in_the_tags_of_the_pools_and_in_clear(self, lab: Lab) -> None:
        rolls = {r["inputs"]["cloud"]: r["inputs"]["stamp"] for r in lab.state() if r["type"].endswith("workers:Roll")}
        (scale_set,) = lab.world().find("azure-native", "VirtualMachineScaleSet")
        (configuration,) = lab.world().find("alicloud", "ScalingConfiguration")
        name = "k8s.io_cluster-autoscaler_node-template_label_hybrid-talos.dev_template"
        assert scale_set.doc["tags"][name] == rolls["azure"]
        assert configuration.doc["tags"]["hybrid-talos.dev/template"] == rolls["aliyun"]

    def test_a_second_preview_shows_no_change(self, lab: Lab) -> None:
        assert lab.changes() == {}
