"""The doctor on the demo stack: its pools on the simulated clouds, its cluster behind the simulated API.

The autoscalers themselves do not run in the lab: what they would write, and the Nodes of the machines that they would
make, are laid into the cluster by the test.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_folder import ALIYUN_MARKER, AZURE_MARKER, ROOT, Lab
from ran import Run, checked

from lab import overlay, tools
from lab.alicloud import scale as aliyun_scale
from lab.alicloud.instances import instances as aliyun_machines
from lab.azure.instances import instances as azure_machines
from lab.azure.instances import scale as azure_scale
from lab.kubernetes.objects import Reference
from lab.places import Places
from lab.session import Session
from lab.world import World

pytestmark = pytest.mark.lab

AZURE, ALIYUN = "azure/workers", "aliyun/workers"


def put(world: World, api_version: str, kind: str, name: str, namespace: str = "", **more: Any) -> None:
    """Lay an object into the cluster of the stack."""
    (cluster,) = world.find("talos", "cluster")
    place = {"namespace": namespace} if namespace else {}
    metadata = {"name": name, **place, **more.pop("metadata", {})}
    doc = {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}
    reference = Reference(api_version, kind, namespace, name)
    world.put("kubernetes", reference.type, f"{cluster.doc['key']}/{reference.id}", doc)


class Patient:
    """The demo stack in a session of the lab."""

    def __init__(self, lab: Lab, session: Session, config: Path) -> None:
        self.lab = lab
        self.session = session
        self.world = session.world
        self.config = config

    def doctor(self, *words: str, code: int | None, **env: str) -> Run:
        command = [sys.executable, "-m", "stacks.doctor", "--stack", "dev", "--config-file", str(self.config), *words]
        done = subprocess.run(
            [*command, "--kubernetes-server", env.pop("kubernetes", self.session.kubernetes_url)],
            cwd=ROOT,
            env={**self.session.environment, "COLUMNS": "400", **env},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        run = checked(done, words, code)
        assert "Traceback" not in run.text
        for secret in (AZURE_MARKER, ALIYUN_MARKER, "PRIVATE KEY", "client-key-data"):
            assert secret not in run.text
        return run

    def bad(self, code: int | None, *words: str, **env: str) -> list[dict[str, str]]:
        """Return what is not well."""
        found = json.loads(self.doctor("--json", *words, code=code, **env).out)["findings"]
        return [one for one in found if one["level"] != "fine"]

    def grow(self) -> None:
        """Do what autoscalers, kubelets and Talos' cloud controller do when each pool gets a machine."""
        (scale_set,) = self.world.find("azure-native", "VirtualMachineScaleSet")
        (group,) = self.world.find("alicloud", "ScalingGroup")
        azure_scale(self.world, scale_set.id, 1)
        aliyun_scale(self.world, group.id, 1)
        machines = [
            ("azure-workers", azure_machines(self.world, scale_set.id)[0]),
            ("alibaba-workers", aliyun_machines(self.world, group.id)[0]),
        ]
        outputs = self.lab.outputs()["nodeGroups"]
        labels = {one["labels"]["hybrid-talos.dev/pool"]: one["labels"] for one in outputs.values()}
        for number, (pool, machine) in enumerate(machines):
            conditions = [{"type": "Ready", "status": "True"}]
            addresses = [{"type": "InternalIP", "address": f"10.{number + 2}.0.9"}]
            name = str(machine.doc.get("computerName") or machine.doc.get("hostName")).lower()
            put(
                self.world,
                *("v1", "Node", name),
                metadata={"labels": labels[pool]},
                spec={"providerID": machine.doc["providerId"]},
                status={"conditions": conditions, "addresses": addresses, "nodeInfo": {"osImage": "Talos (v1.14.0)"}},
            )

    def tick(self) -> None:
        """Do what each autoscaler does in a loop: renew its lease, and write its status."""
        now = datetime.now(UTC)
        for deployment in self.world.find("kubernetes", "apps/v1/Deployment"):
            container = deployment.doc["spec"]["template"]["spec"]["containers"][0]
            args = [str(word) for word in container.get("args") or container.get("command") or ()]
            flags = dict(word.lstrip("-").split("=", 1) for word in args if "=" in word)
            if flags.get("cloud-provider") not in ("azure", "alicloud"):
                continue
            space = deployment.doc["metadata"]["namespace"]
            renewed = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            spec = {"holderIdentity": "one", "renewTime": renewed}
            put(
                self.world,
                *("coordination.k8s.io/v1", "Lease", flags["leader-elect-resource-name"], space),
                spec=spec,
            )
            groups = [word.rpartition(":")[2] for word in args if word.startswith("--nodes=")]
            health = {"status": "Healthy"}
            status = {
                "time": now.strftime("%Y-%m-%d %H:%M:%S.%f +0000 UTC"),
                "autoscalerStatus": "Running",
                "clusterWide": {"health": health},
                "nodeGroups": [
                    {"name": name, "health": health, "scaleUp": {"status": "NoActivity"}} for name in groups
                ],
            }
            put(
                self.world,
                *("v1", "ConfigMap", flags["status-config-map-name"], space),
                data={"status": yaml.safe_dump(status)},
            )


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patient]:
    folder = tmp_path_factory.mktemp("doctor")
    lab = Lab(folder / "lab", "dev", ROOT / "Pulumi.dev.yaml")
    lab.up()
    with Session(Places(folder / "lab"), tools.provide()) as session:
        config = folder / "Pulumi.dev.yaml"
        text = overlay.overlay(
            (ROOT / "Pulumi.dev.yaml").read_text(),
            factory_url=session.factory_url,
            arm_url=session.arm_url,
            blob_url=session.blob_url,
            oss_url=session.oss_url,
            rpc_url=session.rpc_url,
            kubernetes_url=session.kubernetes_url,
            nameserver=session.nameserver,
            talos={},
        )
        config.write_text(text)
        found = Patient(lab, session, config)
        found.tick()
        yield found


class TestDoctor:
    """In order: each test goes on from the one before."""

    def test_an_api_that_starts_is_a_finding(self, patient: Patient) -> None:
        # The first connections are closed.
        found = patient.bad(2)
        assert {(one["pool"], one["topic"], one["level"]) for one in found} == {("cluster", "kubernetes", "unknown")}

    def test_empty_pools_are_well(self, patient: Patient) -> None:
        patient.bad(None)
        patient.tick()
        assert patient.bad(0) == []

    def test_pools_with_machines_are_well(self, patient: Patient) -> None:
        patient.grow()
        patient.tick()
        run = patient.doctor(code=0)
        assert f"{AZURE} would scale: yes" in run.out
        assert f"{ALIYUN} would scale: yes" in run.out
        assert re.search(r"fine +provider-id: 1 machines, each the node that the autoscaler expects", run.out)

    def test_one_pool_alone(self, patient: Patient) -> None:
        patient.tick()
        found = json.loads(patient.doctor("--json", "--pool", AZURE, code=0).out)
        assert found["scales"] == {AZURE: "yes"}
        assert {one["pool"] for one in found["findings"]} == {"cluster", AZURE}
        assert "there is no pool azure/none; expected one of" in patient.doctor("--pool", "azure/none", code=2).err

    def test_a_right_that_was_taken_and_a_tag_that_was_lost(self, patient: Patient) -> None:
        patient.tick()
        role = next(
            one
            for one in patient.world.find("kubernetes", "rbac.authorization.k8s.io/v1/ClusterRole")
            if "aliyun" in one.id
        )
        rules = [rule for rule in role.doc["rules"] if "nodes" not in rule["resources"]]
        patient.world.put("kubernetes", role.kind, role.id, {**role.doc, "rules": rules})
        (scale_set,) = patient.world.find("azure-native", "VirtualMachineScaleSet")
        tags = {key: value for key, value in scale_set.doc["tags"].items() if not key.endswith("example.com_pool")}
        patient.world.put("azure-native", scale_set.kind, scale_set.id, {**scale_set.doc, "tags": tags})
        found = {(one["pool"], one["topic"]): one for one in patient.bad(1)}
        assert set(found) == {(ALIYUN, "rights"), (AZURE, "template")}
        assert "may not: get nodes, list nodes, update nodes, watch nodes" in found[ALIYUN, "rights"]["what"]
        assert found[ALIYUN, "rights"]["level"] == "stops"
        assert "example.com/pool" in found[AZURE, "template"]["what"]
        patient.world.put("kubernetes", role.kind, role.id, role.doc)
        patient.world.put("azure-native", scale_set.kind, scale_set.id, scale_set.doc)

    def test_quota_stock_and_a_pod_that_waits(self, patient: Patient) -> None:
        patient.tick()
        for zone in ("cn-hangzhou-h", "cn-hangzhou-i"):
            patient.world.put("alicloud", "Stock", f"{zone}/ecs.g7.large", {"category": "WithoutStock"})
        patient.world.put("azure-native", "Usage", "westeurope/standardDSv3Family", {"limit": 3})
        waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        put(
            patient.world,
            *("v1", "Pod", "waits", "default"),
            spec={"nodeSelector": {"example.com/pool": "azure"}, "containers": [{"name": "one"}]},
            status={"phase": "Pending", "conditions": [waits]},
        )
        found = {(one["pool"], one["topic"]): one["level"] for one in patient.bad(1)}
        assert found == {(ALIYUN, "stock"): "stops", (AZURE, "quota"): "stops", ("cluster", "pending"): "stops"}
        out = patient.doctor(code=1).out
        patient.world.remove("azure-native", "Usage", "westeurope/standardDSv3Family")
        assert f"{AZURE} would scale: no" in out
        assert "pod default/waits waits, and azure/workers would take it but cannot grow" in out

    def test_a_node_whose_machine_has_another_name_for_the_autoscaler(self, patient: Patient) -> None:
        patient.tick()
        node = next(
            one
            for one in patient.world.find("kubernetes", "v1/Node")
            if str(one.doc["spec"].get("providerID", "")).startswith("cn-hangzhou.")
        )
        spec = {"providerID": f"alicloud://{node.doc['spec']['providerID']}"}
        patient.world.put("kubernetes", node.kind, node.id, {**node.doc, "spec": spec})
        found = [one for one in patient.bad(1, "--pool", ALIYUN) if one["topic"] in ("provider-id", "joined")]
        assert {one["topic"] for one in found} == {"provider-id", "joined"}

    def test_clouds_and_an_api_that_are_not_reached_are_findings(self, patient: Patient) -> None:
        run = patient.doctor(
            "--json",
            code=2,
            kubernetes="https://127.0.0.1:9",
            ALIBABA_CLOUD_ACCESS_KEY_SECRET="wrong",
        )
        found = {(one["pool"], one["topic"]): one for one in json.loads(run.out)["findings"]}
        assert "is not reached" in found["cluster", "kubernetes"]["what"]
        assert "SignatureDoesNotMatch" in found[ALIYUN, "cloud"]["what"]
        assert found[AZURE, "size"]["level"] == "fine"
