"""Bad input fails in the preview: one message that names the key, no traceback, nothing made, no secret shown."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_folder import ALIYUN_MARKER, AZURE_MARKER, Lab

pytestmark = pytest.mark.lab

PLANTED = "planted-in-the-wrong-place"
Config = dict[str, Any]


def settings(change: Callable[[Config], object]) -> Callable[[Config], object]:
    return lambda config: change(config["hybrid-talos:settings"])


def burst(join: object) -> Callable[[Config], object]:
    """Return a change to a burst stack that is handed ``join`` in plain configuration."""

    def change(config: Config) -> None:
        config["hybrid-talos:stack"] = "azure-burst"
        tree = config["hybrid-talos:settings"]
        del tree["aliyun"], tree["autoscaler"]["aliyun"]
        tree["cluster"].pop("controlPlanes")
        tree["cluster"].pop("workers")
        config["hybrid-talos:kubeconfig"] = "apiVersion: v1"
        if join is not None:
            config["hybrid-talos:join"] = join if isinstance(join, str) else json.dumps(join)

    return change


CASES: dict[str, tuple[Callable[[Config], object], str]] = {
    "unknown key": (settings(lambda s: s["cluster"].update(talosVersoin="1.14.0")), "cluster.talosVersoin"),
    "wrong type": (settings(lambda s: s["azure"]["pools"][0].update(maxSize="ten")), "azure.pools[0].maxSize"),
    "unquoted version": (settings(lambda s: s["cluster"].update(kubernetesVersion=1.36)), "cluster.kubernetesVersion"),
    "overlapping ranges": (settings(lambda s: s["aliyun"].update(vpcCidr="10.2.0.0/16")), "10.2.0.0/16"),
    "even member count": (settings(lambda s: s["cluster"]["controlPlanes"].pop()), "cluster.controlPlanes"),
    "versions that do not fit": (settings(lambda s: s["cluster"].update(kubernetesVersion="1.31.9")), "1.31.9"),
    "Alibaba Cloud before Talos 1.14": (settings(lambda s: s["cluster"].update(talosVersion="1.13.9")), "1.14"),
    "min above max": (settings(lambda s: s["azure"]["pools"][0].update(minSize=11)), "azure.pools[0]"),
    "two pools of one name": (
        settings(lambda s: s["azure"]["pools"].append({**s["azure"]["pools"][0], "subnetCidr": "10.2.9.0/24"})),
        "azure.pools[1]",
    ),
    "a secret in the settings": (
        settings(lambda s: s["autoscaler"]["azure"]["identity"].update(clientSecret=PLANTED)),
        "clientSecret",
    ),
    "missing secret": (lambda c: c.pop("hybrid-talos:azureClientSecret"), "hybrid-talos:azureClientSecret"),
    "empty secret": (
        lambda c: c.update({"hybrid-talos:aliyunAccessKeySecret": ""}),
        "hybrid-talos:aliyunAccessKeySecret",
    ),
    "unknown stack": (lambda c: c.update({"hybrid-talos:stack": "hybird"}), "hybrid-talos:stack"),
    "no settings": (lambda c: c.pop("hybrid-talos:settings"), "hybrid-talos:settings"),
    "missing join": (burst(None), "hybrid-talos:join"),
    "empty join": (burst(""), "hybrid-talos:join"),
    "join of another schema": (burst({"schema": 0, "machineConfig": PLANTED}), "hybrid-talos:join"),
    "join that is no JSON": (burst(f"machineConfig={PLANTED}"), "hybrid-talos:join"),
}


@pytest.mark.parametrize("case", CASES)
def test_is_refused_in_the_preview(case: str, hybrid: Lab, tmp_path: Path) -> None:
    change, key = CASES[case]
    assert hybrid.config_file is not None
    document = yaml.safe_load(hybrid.config_file.read_text())
    change(document["config"])
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    run = Lab(hybrid.folder, "dev", path).run("preview", code=None)
    assert run.code != 0, run.text[-3000:]
    assert key in run.text, run.text[-3000:]
    assert "Traceback" not in run.text
    for secret in (AZURE_MARKER, ALIYUN_MARKER, PLANTED):
        assert secret not in run.text
    assert hybrid.world().events() == []


def test_several_problems_arrive_in_one_message(hybrid: Lab, tmp_path: Path) -> None:
    def change(tree: Config) -> None:
        tree["cluster"]["controlPlanes"].pop()
        tree["azure"]["pools"][0]["minSize"] = 11
        tree["mesh"]["persistentKeepalive"] = "20s"

    text = hybrid.with_settings(tmp_path / "Pulumi.dev.yaml", change).run("preview", code=None).text
    for key in ("cluster.controlPlanes", "azure.pools[0]", "mesh.persistentKeepalive"):
        assert key in text
    assert "3 problems in the settings" in text


def test_a_cluster_stack_that_does_not_exist_is_named(hybrid: Lab, tmp_path: Path) -> None:
    assert hybrid.config_file is not None
    document = yaml.safe_load(hybrid.config_file.read_text())
    burst(None)(document["config"])
    document["config"]["hybrid-talos:settings"]["clusterStack"] = "organization/hybrid-talos/nowhere"
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    run = Lab(hybrid.folder, "dev", path).run("preview", code=None)
    assert run.code != 0
    assert "organization/hybrid-talos/nowhere" in run.text
