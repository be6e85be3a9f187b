"""All that the library puts into a cluster, applied by the real provider to real Kubernetes servers."""

from typing import Any

import pytest
import yaml
from kubernetes_cluster import Api, Cluster, Refused, free_port
from real_lab import RealLab

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
PACKAGE = "/apis/cozystack.io/v1alpha1/packages/cozystack.cluster-autoscaler-azure"
DEPLOYMENTS = "/apis/apps/v1/namespaces/kube-system/deployments"

LISTS = (
    "/api/v1/namespaces",
    f"{KUBE_SYSTEM}/configmaps",
    f"{KUBE_SYSTEM}/secrets",
    f"{KUBE_SYSTEM}/serviceaccounts",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    CRDS,
    "/apis/apps/v1/daemonsets",
    "/apis/apps/v1/deployments",
    "/apis/batch/v1/cronjobs",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "/apis/rbac.authorization.k8s.io/v1/roles",
)


def everything(api: Api) -> dict[str, list[str]]:
    """Return the names of all objects of the kinds that the library makes."""
    return {path: api.names(path) for path in LISTS}


@pytest.fixture(scope="module")
def before(lab: RealLab, api: Api) -> dict[str, list[str]]:
    """Return all that is there without the program."""
    if lab.is_up:
        lab.destroy()
    return everything(api)


class TestCluster:
    """In order: each test goes on from the one before."""

    def test_everything_is_accepted_and_becomes_ready(
        self, before: dict[str, list[str]], lab: RealLab, api: Api
    ) -> None:
        lab.up()
        for name in lab.outputs()["deployments"]:
            status = api.get(f"{DEPLOYMENTS}/{name}")["status"]
            assert status["readyReplicas"] == status["replicas"] == 1

    def test_a_second_run_changes_nothing(self, lab: RealLab) -> None:
        assert lab.changes() == {}
        assert lab.changes("--refresh") == {}

    def test_the_server_knows_every_field(self, lab: RealLab, api: Api) -> None:
        manifests = lab.manifests()
        assert len(manifests) >= 40
        for manifest in manifests:
            path = path_of(api, manifest)
            kept = api.apply(path, manifest, dry_run=True)
            assert kept["metadata"]["name"] == manifest["metadata"]["name"]
            with pytest.raises(Refused, match=r"unknown field|field not declared in schema"):
                api.apply(path, {**manifest, "specc": {}}, dry_run=True)

    def test_it_runs_on_control_planes_alone(self, lab: RealLab, api: Api) -> None:
        pods = api.items(f"{KUBE_SYSTEM}/pods", labelSelector="app.kubernetes.io/part-of=hybrid-talos")
        placed = {(pod["metadata"]["labels"]["app.kubernetes.io/name"], pod["spec"].get("nodeName")) for pod in pods}
        # The collector's too, when it is just its time.
        assert placed - {("node-collector", "cp-1")} == {
            ("cluster-autoscaler", "cp-1"),
            ("talos-cloud-controller-manager", "cp-1"),
        }

    def test_the_mesh_runs_on_every_machine(self, api: Api) -> None:
        status = api.get("/apis/apps/v1/namespaces/mesh-kilo/daemonsets/kilo")["status"]
        assert status["desiredNumberScheduled"] == 2

    def test_a_new_credential_makes_a_new_pod(self, lab: RealLab, api: Api) -> None:
        before = pods_of(api, "demo-azure")
        lab.set("credential", "second-credential-MARKER", secret=True)
        lab.up()
        after = pods_of(api, "demo-azure")
        assert before
        assert after
        assert not set(before) & set(after)
        assert lab.changes() == {}

    def test_credentials_stand_in_secrets_alone(self, lab: RealLab, api: Api) -> None:
        marker = "second-credential-MARKER"
        assert marker not in yaml.safe_dump(lab.resources())
        for path in (f"{KUBE_SYSTEM}/configmaps", "/api/v1/pods", "/apis/apps/v1/deployments", "/api/v1/events"):
            assert marker not in yaml.safe_dump(api.items(path))

    def test_cozystack_keeps_the_values_of_the_package(self, api: Api) -> None:
        spec = api.get(PACKAGE)["spec"]
        values = spec["components"]["cluster-autoscaler-azure"]["values"]["cluster-autoscaler"]
        assert spec["variant"] == "default"
        assert values["autoscalingGroups"] == [{"name": "demo-workers-vmss", "minSize": 0, "maxSize": 10}]

    def test_another_address_or_credential_replaces_nothing(self, lab: RealLab, cluster: Cluster) -> None:
        lab.set("kubeconfig", cluster.admin_kubeconfig(user="renewed", host="localhost"), secret=True)
        machines = "hybrid-talos:index:MeshPeers$pulumi-python:dynamic/mesh:KiloNodes::peers-machines"
        # The machines are read once more, with what is valid now.
        assert lab.changes() == {"pulumi:providers:kubernetes::api": "update", machines: "update"}

    def test_a_cluster_that_is_gone_can_be_left(self, lab: RealLab, cluster: Cluster) -> None:
        state = lab.run("stack", "export").out
        lab.set("kubeconfig", cluster.admin_kubeconfig(port=free_port()), secret=True)
        # The state has the way to the cluster, so it has to learn of the new one first.
        lab.run("up", "--yes", "--skip-preview", "--target", lab.urn("api"))
        refused = lab.run("destroy", "--yes", "--skip-preview", code=None)
        assert refused.code != 0
        assert "unreachable" in refused.text
        lab.destroy(PULUMI_K8S_DELETE_UNREACHABLE="true")
        assert lab.resources() == []
        lab.run("stack", "import", text=state)
        lab.set("kubeconfig", cluster.admin_kubeconfig(), secret=True)
        lab.up()
        assert lab.changes() == {}

    def test_destroy_leaves_nothing(self, lab: RealLab, api: Api, before: dict[str, list[str]]) -> None:
        lab.destroy()
        assert everything(api) == before
        assert api.find(PACKAGE) is None


def path_of(api: Api, manifest: Any) -> str:
    """Return the path of an object, which the server's own lists of kinds tell."""
    version, meta = manifest["apiVersion"], manifest["metadata"]
    base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    kind = next(one for one in api.get(base)["resources"] if one["kind"] == manifest["kind"] and "/" not in one["name"])
    place = f"/namespaces/{meta['namespace']}" if kind["namespaced"] else ""
    return f"{base}{place}/{kind['name']}/{meta['name']}"


def pods_of(api: Api, instance: str) -> list[str]:
    selector = f"app.kubernetes.io/instance={instance}"
    pods: list[Any] = api.items(f"{KUBE_SYSTEM}/pods", labelSelector=selector)
    return [pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
