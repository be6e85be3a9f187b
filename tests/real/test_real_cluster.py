"""All that the library puts into a cluster, applied by the real provider to real Kubernetes servers."""

from pathlib import Path
from typing import Any

import pytest
import rights
import yaml
from kubelets import Kubelets
from kubernetes_cluster import Api, Cluster, wait_for
from real_lab import RealLab

from lab.session import Session

HERE = Path(__file__).parent
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
def api(cluster: Cluster) -> Api:
    return cluster.api()


@pytest.fixture(scope="module")
def given(api: Api, kubelets: Kubelets) -> dict[str, list[str]]:
    """Make what a cluster of Talos and Cozystack brings along; return all that is there before the program runs."""
    for crd in yaml.safe_load_all((HERE / "data" / "crds.yaml").read_text()):
        api.create(CRDS, crd)
    wait_for("definitions", lambda: api.find("/apis/talos.dev/v1alpha1") and api.find("/apis/cozystack.io/v1alpha1"))
    return everything(api)


@pytest.fixture(scope="module")
def lab(
    session: Session, cluster: Cluster, given: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> RealLab:
    program = RealLab(session, cluster, HERE / "programs" / "cluster", tmp_path_factory.mktemp("program"))
    program.set("credential", "first-credential-MARKER", secret=True)
    return program


class TestCluster:
    """In order: each test goes on from the one before."""

    def test_everything_is_accepted_and_becomes_ready(self, lab: RealLab, api: Api) -> None:
        run = lab.up()
        assert "warning: unknown field" not in run.text
        for name in lab.outputs()["deployments"]:
            status = api.get(f"{DEPLOYMENTS}/{name}")["status"]
            assert status["readyReplicas"] == status["replicas"] == 1

    def test_a_second_run_changes_nothing(self, lab: RealLab) -> None:
        assert lab.changes() == {}
        assert lab.changes("--refresh") == {}

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

    @pytest.mark.parametrize(
        ("namespace", "account", "table"),
        [
            ("kube-system", "demo-azure", rights.AUTOSCALER),
            ("kube-system", "demo-aliyun", rights.AUTOSCALER),
            ("kube-system", "cloud-talos-ccm", rights.TALOS_CCM),
            ("kube-system", "cloud-node-collector", rights.COLLECTOR),
            ("mesh-kilo", "kilo", rights.KILO),
        ],
    )
    def test_each_account_may_do_what_it_needs_and_nothing_else(
        self, cluster: Cluster, namespace: str, account: str, table: str
    ) -> None:
        caller = cluster.account(namespace, account)
        for place in ("kube-system", "default"):
            assert rights.granted(caller, place) == rights.needed(table, place, account)

    def test_each_right_is_proved_by_asking_for_it(self, cluster: Cluster) -> None:
        caller = cluster.account("kube-system", "demo-azure")
        for verb, group, resource, name in rights.needed(rights.AUTOSCALER, "kube-system", "demo-azure"):
            assert rights.may(caller, verb, f"{group}/{resource}", "kube-system", name), (verb, group, resource, name)
        for verb, path, name in (
            ("delete", "/nodes", ""),
            ("create", "/pods", ""),
            ("delete", "/pods", ""),
            ("get", "/secrets", ""),
            ("update", "coordination.k8s.io/leases", "demo-aliyun"),
            ("update", "/configmaps", "demo-aliyun-status"),
            ("create", "/serviceaccounts/token", ""),
            ("patch", "rbac.authorization.k8s.io/clusterroles", ""),
        ):
            assert not rights.may(caller, verb, path, "kube-system", name), (verb, path, name)

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

    def test_destroy_leaves_nothing(self, lab: RealLab, api: Api, given: dict[str, list[str]]) -> None:
        lab.destroy()
        assert everything(api) == given
        assert api.find(PACKAGE) is None


def pods_of(api: Api, instance: str) -> list[str]:
    selector = f"app.kubernetes.io/instance={instance}"
    pods: list[Any] = api.items(f"{KUBE_SYSTEM}/pods", labelSelector=selector)
    return [pod["metadata"]["uid"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
