"""What the accounts of the library's programs may do, asked of a real API server with their own tokens."""

import base64
from pathlib import Path
from typing import Any

import pytest
import rights
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from kubernetes_cluster import Api, Cluster, Refused, Server, wait_for
from real_lab import RealLab

pytestmark = pytest.mark.usefixtures("deployed")


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
    cluster: Cluster, namespace: str, account: str, table: str
) -> None:
    caller = cluster.account(namespace, account)
    for place in ("kube-system", "default"):
        assert rights.granted(caller, place) == rights.needed(table, place, account)


def test_every_account_of_the_library_is_looked_at(deployed: RealLab) -> None:
    accounts = [
        manifest["metadata"]["name"]
        for manifest in deployed.manifests()
        if manifest["kind"] == "ServiceAccount" and manifest["apiVersion"] == "v1"
    ]
    assert sorted(accounts) == ["cloud-node-collector", "cloud-talos-ccm", "demo-aliyun", "demo-azure", "kilo"]


def test_each_right_of_the_autoscaler_is_proved_by_asking(cluster: Cluster) -> None:
    caller = cluster.account("kube-system", "demo-azure")
    for verb, group, resource, name in rights.needed(rights.AUTOSCALER, "kube-system", "demo-azure"):
        assert rights.may(caller, verb, f"{group}/{resource}", "kube-system", name), (verb, group, resource, name)


@pytest.mark.parametrize(
    ("verb", "path", "name"),
    [
        ("delete", "/nodes", ""),
        ("create", "/pods", ""),
        ("delete", "/pods", ""),
        ("get", "/secrets", "demo-azure"),
        ("update", "coordination.k8s.io/leases", "demo-aliyun"),
        ("update", "/configmaps", "demo-aliyun-status"),
        ("create", "/serviceaccounts/token", "cloud-talos-ccm"),
        ("patch", "rbac.authorization.k8s.io/clusterroles", "demo-azure"),
    ],
)
def test_the_autoscaler_may_not(cluster: Cluster, verb: str, path: str, name: str) -> None:
    assert not rights.may(cluster.account("kube-system", "demo-azure"), verb, path, "kube-system", name)


def scheduler_as(cluster: Cluster, account: str, kubeconfig: Path) -> Server:
    """Start the real scheduler as a service account, under a name that no pod asks for, so that it places none."""
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": "nobodys"}],
    }
    config = cluster.folder / f"scheduler-as-{account}.yaml"
    config.write_text(yaml.safe_dump(settings))
    command = [cluster.tools.kube_scheduler, f"--config={config}", "--secure-port=0", "--v=3"]
    return Server(f"scheduler-as-{account}", command, cluster.folder)


@pytest.mark.parametrize(
    ("account", "ends_with"),
    [
        ("demo-azure", '"Handlers synced"'),
        # What it looks like when a right is missing.
        ("cloud-node-collector", 'cannot list resource \\"pods\\"'),
    ],
)
def test_no_cache_of_the_scheduler_within_the_autoscaler_waits_for_ever(
    cluster: Cluster, account: str, ends_with: str
) -> None:
    """The autoscaler runs the scheduler's own code: one kind that it may not list would keep it from ever starting.

    The autoscaler itself cannot be built here, so the real scheduler of that Kubernetes is started as its account.
    """
    scheduler = scheduler_as(cluster, account, cluster.account_kubeconfig("kube-system", account))
    try:
        wait_for(ends_with, lambda: ends_with in scheduler.log.read_text())
    finally:
        scheduler.stop()
    assert ("forbidden" in scheduler.log.read_text()) == (account != "demo-azure")


def test_kilos_kubeconfig_leads_a_real_client_to_the_api_as_its_account(
    cluster: Cluster, api: Api, tmp_path: Path
) -> None:
    text = api.get("/api/v1/namespaces/mesh-kilo/configmaps/kilo")["data"]["kubeconfig"]
    # What a kubelet lays into the container, and where KubePrism would lead.
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_text(cluster.token("mesh-kilo", "kilo"))
    (tmp_path / "ca.crt").write_bytes(cluster.ca.read_bytes())
    for written, here in (
        ("/var/run/secrets/kubernetes.io/serviceaccount", str(tmp_path)),
        ("https://127.0.0.1:7445", cluster.url),
    ):
        assert written in text
        text = text.replace(written, here)
    (tmp_path / "kubeconfig").write_text(text)
    client = scheduler_as(cluster, "kilo", tmp_path / "kubeconfig")
    known = 'User \\"system:serviceaccount:mesh-kilo:kilo\\" cannot list resource \\"services\\"'
    try:
        wait_for("answer to Kilo's account", lambda: known in client.log.read_text())
        # It may list nodes.
        wait_for("nodes", lambda: 'Caches populated" type="*v1.Node"' in client.log.read_text())
    finally:
        client.stop()


def request(node: str) -> str:
    """Return a kubelet's request for a serving certificate."""
    subject = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, f"system:node:{node}"),
    ]
    made = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(x509.Name(subject))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(node)]), critical=False)
        .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    )
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


class TestServingCertificates:
    """A kubelet asks, the cloud controller's account approves, the real controller manager signs."""

    CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

    def ask(self, cluster: Cluster, name: str, signer: str) -> Any:
        node = cluster.user("system:node:worker-1", "system:nodes")
        spec = {
            "request": request("worker-1"),
            "signerName": signer,
            "usages": ["digital signature", "server auth"],
        }
        if signer != "kubernetes.io/kubelet-serving":
            spec["usages"] = ["digital signature", "client auth"]
        return node.create(self.CSRS, {"metadata": {"name": name}, "spec": spec})

    def approve(self, caller: Api, asked: Any) -> None:
        condition = {"type": "Approved", "status": "True", "reason": "test", "message": "test"}
        path = f"{self.CSRS}/{asked['metadata']['name']}/approval"
        caller.call("PUT", path, {**asked, "status": {"conditions": [condition]}})

    def test_it_is_issued(self, cluster: Cluster, api: Api) -> None:
        self.approve(
            cluster.account("kube-system", "cloud-talos-ccm"),
            self.ask(cluster, "serving", "kubernetes.io/kubelet-serving"),
        )
        wait_for("certificate", lambda: api.get(f"{self.CSRS}/serving")["status"].get("certificate"))

    def test_of_no_other_signer(self, cluster: Cluster) -> None:
        asked = self.ask(cluster, "client", "kubernetes.io/kube-apiserver-client-kubelet")
        with pytest.raises(Refused, match=r"not permitted to approve requests with signerName"):
            self.approve(cluster.account("kube-system", "cloud-talos-ccm"), asked)
