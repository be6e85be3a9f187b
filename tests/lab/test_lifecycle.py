"""Each stack through its life on the real engine: preview, up, no change, refresh, one pool changed, destroy."""

from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_folder import ROOT, Lab

pytestmark = pytest.mark.lab


def drop(*sections: str) -> Any:
    """Return a change of settings that takes sections away."""

    def change(settings: dict[str, Any]) -> None:
        for section in sections:
            settings.pop(section, None)

    return change


def only(*autoscalers: str) -> Any:
    def change(settings: dict[str, Any]) -> None:
        settings["autoscaler"] = {name: settings["autoscaler"][name] for name in autoscalers}

    return change


def names(changes: dict[str, str]) -> dict[str, str]:
    """Return changes by resource name instead of URN, components and the stack left out."""
    found = {}
    for urn, op in changes.items():
        token, name = urn.split("::")[2].rsplit("$", 1)[-1], urn.rsplit("::", 1)[-1]
        if not token.startswith(("hybrid-talos:", "pulumi:pulumi:")):
            found[name] = op
    return found


def ceilings(text: str) -> list[str]:
    """Return the lines of a preview's text that say what the pools come to at their most."""
    # The first line stands in the progress too; whole messages come last.
    _, found, after = text.rpartition("with every pool at its maxSize:\n")
    assert found, text[-3000:]
    return list(takewhile(str.strip, after.splitlines()))


class TestHybrid:
    """The example's own settings, in order: each test goes on from the one before."""

    def test_first_preview_of_an_empty_stack_only_creates(self, hybrid: Lab) -> None:
        steps = hybrid.preview()
        assert {step["op"] for step in steps} == {"create"}
        text = hybrid.run("preview").text
        assert "Calling __str__" not in text
        assert "Traceback" not in text
        assert [" ".join(line.split()) for line in ceilings(text)] == [
            "azure, westeurope, standardDSv3Family: 20 cores, 10 machines",
            "aliyun, cn-hangzhou, ecs.g7.large: 10 cores, 5 machines",
            "pods, 10.244.0.0/16: 20 of 256 ranges of nodes, 5120 of 65536 addresses",
        ]
        for step in steps:
            assert "Output" not in step["urn"]
            assert "<pulumi" not in step["urn"]

    def test_up_makes_everything(self, hybrid: Lab) -> None:
        run = hybrid.up()
        assert "Traceback" not in run.text
        outputs = hybrid.outputs()
        assert set(outputs) == {
            "kubeconfig", "talosconfig", "endpoints", "clusterEndpoint", "imageIds", "nodeGroups", "nextSteps", "join",
        }  # fmt: skip
        assert outputs["kubeconfig"] == outputs["talosconfig"] == outputs["join"] == "[secret]"
        assert outputs["clusterEndpoint"] == "https://k8s.demo.example.com:6443"
        assert outputs["endpoints"] == ["192.0.2.11", "192.0.2.12", "192.0.2.13"]
        assert set(outputs["nodeGroups"]) == {"azure/workers", "aliyun/workers"}
        assert set(outputs["imageIds"]) == {"azure/westeurope", "aliyun/cn-hangzhou"}

    def test_things_are_made_in_order(self, hybrid: Lab) -> None:
        order = [(e.op, e.kind.rsplit(":", 1)[-1], e.note) for e in hybrid.world().events()]
        created = [(kind, note) for op, kind, note in order if op == "create"]

        def first(kind: str, note: str = "") -> int:
            return next(i for i, (k, n) in enumerate(created) if k == kind and note in n)

        def last(kind: str, note: str = "") -> int:
            return max(i for i, (k, n) in enumerate(created) if k == kind and note in n)

        # The lab gives no kubeconfig of a cluster that was not started.
        assert first("ConfigurationApply", "control-plane-cp-1") < first("Kubeconfig") < first("DaemonSet", "mesh")
        # The API is asked until it answers, then all machines until they work, and only then anything goes there.
        made = {found["urn"].rpartition("::")[2]: found["created"] for found in hybrid.state() if "created" in found}
        objects = [found for found in hybrid.state() if found["type"].startswith("kubernetes:")]
        assert made["control-plane-kubeconfig"] < made["control-plane-api-ready"] < made["control-plane-health"]
        assert all(made["control-plane-health"] < found["created"] for found in objects)
        assert first("CustomResourceDefinition") < first("DaemonSet", "mesh")
        assert last("DaemonSet", "mesh") < first("VirtualMachineScaleSet")
        assert last("DaemonSet", "mesh") < first("ScalingGroup")
        assert last("Deployment", "cloud-controller") < first("VirtualMachineScaleSet")
        assert last("VirtualMachineScaleSet") < first("Deployment", "autoscaler-azure")
        assert last("ScalingConfiguration") < first("Deployment", "autoscaler-aliyun")

    def test_second_preview_changes_nothing(self, hybrid: Lab) -> None:
        assert hybrid.changes() == {}

    def test_nothing_secret_is_in_the_wait_for_the_api(self, hybrid: Lab) -> None:
        (gate,) = [found for found in hybrid.state() if found["type"].endswith("cluster:KubernetesReady")]
        for properties in (gate["inputs"], gate["outputs"]):
            assert properties["server"] == "https://k8s.demo.example.com:6443"
            assert properties["authority"].startswith("-----BEGIN CERTIFICATE-----")
            assert not any(isinstance(value, dict) for value in properties.values()), "an encrypted value"
            assert "PRIVATE KEY" not in str(properties)

    def test_refresh_changes_nothing(self, hybrid: Lab) -> None:
        hybrid.run("refresh", "--yes", "--skip-preview", "--expect-no-changes")

    def test_a_pool_grown_by_the_autoscaler_is_left_alone(self, hybrid: Lab, tmp_path: Path) -> None:
        world = hybrid.world()
        groups = hybrid.outputs()["nodeGroups"]
        hybrid.run("cloud", "set", "azure:scale", groups["azure/workers"]["name"], "4")
        hybrid.run("cloud", "set", "alicloud:scale", groups["aliyun/workers"]["name"], "2")
        assert hybrid.changes() == {}

        def change(settings: dict[str, Any]) -> None:
            for cloud in ("azure", "aliyun"):
                settings[cloud]["tags"] = {"team": "a"}
                settings[cloud]["pools"][0]["labels"]["example.com/tier"] = "batch"
            settings["azure"]["pools"][0]["vmSize"] = "Standard_D4s_v3"

        changed = hybrid.with_settings(tmp_path / "Pulumi.dev.yaml", change)
        assert "replace" not in set(changed.changes().values())
        changed.up()
        (scale_set,) = world.find("azure-native", "VirtualMachineScaleSet")
        assert (scale_set.doc["sku"]["capacity"], scale_set.doc["sku"]["name"]) == (4, "Standard_D4s_v3")
        # Whoever does not refresh is stopped before an old number goes out.
        hybrid.run("cloud", "set", "azure:scale", groups["azure/workers"]["name"], "5")
        stale = hybrid.run("up", "--yes", "--skip-preview", "--refresh=false", code=None)
        assert stale.code != 0
        assert "has 5 machines, and this update would set 4" in stale.text
        hybrid.up()
        (scale_set,) = world.find("azure-native", "VirtualMachineScaleSet")
        assert (scale_set.doc["sku"]["capacity"], scale_set.doc["sku"]["name"]) == (5, "Standard_D2s_v3")
        assert hybrid.changes() == {}

    def test_a_change_of_one_pool_touches_that_pool_alone(self, hybrid: Lab, tmp_path: Path) -> None:
        changed = hybrid.with_settings(
            tmp_path / "Pulumi.dev.yaml",
            lambda s: s["azure"]["pools"][0]["labels"].update({"example.com/tier": "batch"}),
        )
        changes = names(changed.changes())
        assert changes == {"azure-workers-scale-set": "update"}
        changed.up()
        assert changed.changes() == {}

    def test_a_new_pool_touches_nothing_of_the_others(self, hybrid: Lab, tmp_path: Path) -> None:
        def add(settings: dict[str, Any]) -> None:
            settings["azure"]["pools"][0]["labels"].update({"example.com/tier": "batch"})
            settings["azure"]["pools"].insert(
                0, {**settings["azure"]["pools"][0], "name": "extra", "subnetCidr": "10.2.1.0/24"}
            )

        changes = names(hybrid.with_settings(tmp_path / "Pulumi.dev.yaml", add).changes())
        others = {name: op for name, op in changes.items() if not name.startswith("azure-extra")}
        # The autoscaler has to learn of the group: its own Deployment is the one thing that changes beside the pool.
        assert others == {"autoscaler-azure-deployment": "update"}
        assert set(changes.values()) == {"create", "update"}

    def test_destroy_leaves_the_clouds_empty(self, hybrid: Lab, tmp_path: Path) -> None:
        refused = hybrid.run("destroy", "--yes", "--skip-preview", code=None)
        assert refused.code != 0
        assert "protect" in refused.text
        unprotected = hybrid.with_settings(tmp_path / "Pulumi.dev.yaml", lambda s: s["cluster"].update(protect=False))
        unprotected.up()
        unprotected.destroy()
        assert unprotected.state() == []
        # The name of the cluster is the operator's own, which stands before the stack does.
        found = [r for r in unprotected.world().find() if not r.doc.get("builtin") and r.package != "dns"]
        left = [(r.package, r.kind, r.id) for r in found]
        assert left == []

    def test_autoscalers_went_before_their_pools_and_the_cluster_last(self, hybrid: Lab) -> None:
        deleted = [(e.kind.rsplit(":", 1)[-1], e.note) for e in hybrid.world().events() if e.op == "delete"]

        def at(kind: str, note: str = "") -> int:
            return max(i for i, (k, n) in enumerate(deleted) if k == kind and note in n)

        assert at("Deployment", "autoscaler-azure") < at("VirtualMachineScaleSet")
        assert at("Deployment", "autoscaler-aliyun") < at("ScalingGroup")
        assert at("VirtualMachineScaleSet") < at("Secrets")
        assert at("DaemonSet", "mesh") < at("Kubeconfig")


@pytest.mark.parametrize("cloud", ["azure", "aliyun"])
class TestBurst:
    """A cluster in one stack, and workers for it from another."""

    def test_joins_by_stack_reference(self, cloud: str, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder, files = tmp_path_factory.mktemp("lab"), tmp_path_factory.mktemp("files")
        other = "aliyun" if cloud == "azure" else "azure"
        example = Lab(folder, "base", ROOT / "Pulumi.dev.yaml")

        base = example.with_settings(files / "Pulumi.base.yaml", drop("azure", "aliyun", "autoscaler"))
        set_stack(base.config_file, "cluster")
        base.up()
        assert base.changes() == {}

        def burst_settings(settings: dict[str, Any]) -> None:
            drop(other)(settings)
            only(cloud)(settings)
            settings["clusterStack"] = "organization/hybrid-talos/base"
            settings["cluster"].pop("controlPlanes")
            settings["cluster"].pop("workers")

        burst = example.with_settings(files / "Pulumi.burst.yaml", burst_settings, stack="burst")
        set_stack(burst.config_file, f"{cloud}-burst")
        assert {step["op"] for step in burst.preview()} <= {"create", "read"}
        burst.up()
        assert burst.changes() == {}
        burst.run("refresh", "--yes", "--skip-preview", "--expect-no-changes")
        changed = burst.with_settings(
            files / "changed.yaml", lambda s: s[cloud]["pools"][0]["labels"].update({"example.com/tier": "batch"})
        )
        assert set(names(changed.changes()).values()) == {"update"}
        assert all(name.startswith(f"{cloud}-workers") for name in names(changed.changes()))

        # A stack of another passphrase: the engine hands it an empty value for each secret of the cluster's stack.
        stranger = Lab(folder, "stranger", files / "Pulumi.stranger.yaml", {"PULUMI_CONFIG_PASSPHRASE": "another"})
        foreign = yaml.safe_load((files / "Pulumi.burst.yaml").read_text())
        foreign.pop("encryptionsalt")
        foreign["config"] = {k: v for k, v in foreign["config"].items() if "Secret" not in k}
        foreign["config"]["hybrid-talos:settings"].pop("autoscaler")
        (files / "Pulumi.stranger.yaml").write_text(yaml.safe_dump(foreign, sort_keys=False))
        refused = stranger.run("preview", code=None)
        assert refused.code != 0
        assert "organization/hybrid-talos/base" in refused.text
        assert "passphrase" in refused.text
        assert "Traceback" not in refused.text

        burst.destroy()
        unprotected = base.with_settings(files / "unprotected.yaml", lambda s: s["cluster"].update(protect=False))
        unprotected.up()
        unprotected.destroy()
        found = [r for r in base.world().find() if not r.doc.get("builtin") and r.package != "dns"]
        left = [(r.package, r.kind, r.id) for r in found]
        assert left == []


def set_stack(path: Path | None, stack: str) -> None:
    """Write the composition's name into a configuration file."""
    assert path is not None
    path.write_text(path.read_text().replace("hybrid-talos:stack: hybrid", f"hybrid-talos:stack: {stack}"))
