"""PodSecurity as Talos configures it, and the real scheduler, on the pods that the library's workloads make."""

from typing import Any

import pytest
from kubelets import CONTROL_PLANE, Kubelets
from kubernetes_cluster import Api, Refused, wait_for
from real_lab import RealLab

pytestmark = pytest.mark.usefixtures("deployed")

Pod = dict[str, Any]


def templates(lab: RealLab) -> dict[str, Pod]:
    """Return the pods of all workloads by the workload's name, as they would be made."""
    found: dict[str, Pod] = {}
    for manifest in lab.manifests():
        spec = manifest.get("spec", {})
        if manifest["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if "template" not in spec:
            continue
        meta = manifest["metadata"]
        found[meta["name"]] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**spec["template"]["metadata"], "name": "as-made", "namespace": meta["namespace"]},
            "spec": spec["template"]["spec"],
        }
    return found


@pytest.fixture(scope="module")
def pods(deployed: RealLab) -> dict[str, Pod]:
    return templates(deployed)


@pytest.fixture(scope="module")
def places(api: Api) -> dict[str, str]:
    """Return a namespace for each level of PodSecurity; the one without a label has what Talos says."""
    levels = {"restricted": "level-restricted", "privileged": "level-privileged", "": "level-default"}
    for level, name in levels.items():
        labels = {"pod-security.kubernetes.io/enforce": level} if level else {}
        api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        wait_for("account", lambda path=f"/api/v1/namespaces/{name}/serviceaccounts/default": api.find(path))
    return levels


def admit(api: Api, pod: Pod, namespace: str) -> None:
    """Have a pod admitted without being kept; Refused when it is not."""
    spec = pod["spec"]
    if namespace != pod["metadata"]["namespace"]:
        # Its account is at home elsewhere, and the highest priorities are for kube-system alone where quotas say so.
        spec = {**spec, "serviceAccountName": "default"}
    body = {**pod, "metadata": {**pod["metadata"], "namespace": namespace}, "spec": spec}
    api.create(f"/api/v1/namespaces/{namespace}/pods", body, dryRun="All")


def test_every_workload_is_looked_at(pods: dict[str, Pod]) -> None:
    assert set(pods) == {"kilo", "cloud-talos-ccm", "cloud-node-collector", "demo-azure", "demo-aliyun"}


@pytest.mark.parametrize("name", ["kilo", "cloud-talos-ccm", "cloud-node-collector", "demo-azure", "demo-aliyun"])
def test_it_is_admitted_where_it_runs(api: Api, pods: dict[str, Pod], name: str) -> None:
    admit(api, pods[name], pods[name]["metadata"]["namespace"])


@pytest.mark.parametrize("name", ["cloud-node-collector", "demo-azure", "demo-aliyun"])
def test_it_is_admitted_under_the_strictest_rules(
    api: Api, places: dict[str, str], pods: dict[str, Pod], name: str
) -> None:
    admit(api, pods[name], places["restricted"])


@pytest.mark.parametrize(("name", "reason"), [("kilo", "privileged"), ("cloud-talos-ccm", "host namespaces")])
def test_what_works_on_the_machine_itself_needs_a_namespace_for_it(
    api: Api, places: dict[str, str], pods: dict[str, Pod], name: str, reason: str
) -> None:
    with pytest.raises(Refused, match=f'violates PodSecurity "baseline:latest".*{reason}'):
        admit(api, pods[name], places[""])
    admit(api, pods[name], places["privileged"])


def test_the_cloud_controller_asks_for_the_host_and_nothing_else(
    api: Api, places: dict[str, str], pods: dict[str, Pod]
) -> None:
    with pytest.raises(Refused) as refused:
        admit(api, pods["cloud-talos-ccm"], places["restricted"])
    complaints = str(refused.value).partition('"restricted:latest": ')[2]
    assert "host namespaces" in complaints
    assert "hostPort" in complaints
    for other in ("seccomp", "runAsNonRoot", "capabilities", "allowPrivilegeEscalation", "hostPath"):
        assert other not in complaints


class TestScheduling:
    """The real scheduler places pods made from the templates."""

    def placed(self, api: Api, pod: Pod, name: str) -> tuple[str, str]:
        """Return where a pod is put, or why nowhere."""
        namespace = pod["metadata"]["namespace"]
        path = f"/api/v1/namespaces/{namespace}/pods"
        api.create(path, {**pod, "metadata": {**pod["metadata"], "name": name, "labels": {}}})

        def decided() -> tuple[str, str] | None:
            found = api.get(f"{path}/{name}")
            if node := found["spec"].get("nodeName"):
                return node, ""
            conditions = found["status"].get("conditions", [])
            return next((("", one.get("message", "")) for one in conditions if one["type"] == "PodScheduled"), None)

        try:
            return wait_for("decision of the scheduler", decided)
        finally:
            api.delete(f"{path}/{name}", {"gracePeriodSeconds": 0})

    @pytest.mark.parametrize("name", ["cloud-node-collector", "demo-azure", "demo-aliyun"])
    def test_never_on_a_machine_that_might_be_taken_away(
        self, api: Api, kubelets: Kubelets, pods: dict[str, Pod], name: str
    ) -> None:
        assert self.placed(api, pods[name], f"{name}-here") == ("cp-1", "")
        away = {**pods[name]["spec"], "nodeSelector": {"kubernetes.io/hostname": "worker-1"}}
        where, why = self.placed(api, {**pods[name], "spec": away}, f"{name}-nowhere")
        assert where == ""
        assert "didn't match Pod's node affinity/selector" in why

    def test_the_mesh_and_the_cloud_controller_come_to_a_machine_that_waits_for_them(
        self, api: Api, kubelets: Kubelets, pods: dict[str, Pod]
    ) -> None:
        taint = {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"}
        kubelets.add("cp-new", {"test": "new"}, [taint], control_plane=True, network=False)
        try:
            wait_for("mesh", lambda: "cp-new" in nodes_of(api, "mesh-kilo", "kilo"))
            there = {
                name: {**pod, "spec": {**pod["spec"], "nodeSelector": {"test": "new"}}} for name, pod in pods.items()
            }
            assert self.placed(api, there["cloud-talos-ccm"], "ccm-new") == ("cp-new", "")
            where, why = self.placed(api, there["demo-azure"], "autoscaler-new")
            assert where == ""
            assert "untolerated taint" in why
        finally:
            kubelets.remove("cp-new")

    def test_the_label_of_control_planes_is_the_one_that_talos_sets(self, pods: dict[str, Pod]) -> None:
        affinity = pods["demo-azure"]["spec"]["affinity"]["nodeAffinity"]
        terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        assert terms == [{"matchExpressions": [{"key": CONTROL_PLANE, "operator": "Exists"}]}]


def nodes_of(api: Api, namespace: str, app: str) -> list[str]:
    """Return the machines on which pods of an application run."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    found = api.items(path, labelSelector=f"app.kubernetes.io/name={app}", fieldSelector="status.phase=Running")
    return [pod["spec"]["nodeName"] for pod in found]
