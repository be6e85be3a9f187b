"""What the doctor reads of a Kubernetes API, and what it says when there is none or it does not let it."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from diagnosis_world import Scene
from hybrid_talos.kubernetes_nodes import KubernetesError
from kubernetes import client
from urllib3.exceptions import MaxRetryError

from stacks.diagnosis.examine import examine
from stacks.diagnosis.finding import Finding, Level
from stacks.diagnosis.kubernetes_facts import Reader, gather

ACCOUNT = "system:serviceaccount:kube-system:autoscaler-azure"


class Answer:
    def __init__(self, status: int, body: Any, date: str | None) -> None:
        self.status = status
        self.reason = "reason"
        self.body = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.date = date

    def read(self) -> bytes:
        return self.body

    def getheader(self, _name: str) -> str | None:
        return self.date


class Api:
    """Answers as an API server does, in pages of one; keeps what it was asked."""

    def __init__(self, scene: Scene, lacks: Mapping[str, int] | None = None) -> None:
        cluster = scene.cluster
        self.configuration = client.Configuration(host="https://k8s.example.com:6443")
        self.lacks = dict(lacks or {})
        self.denied: set[tuple[str, str, str]] = set()
        self.asked: list[tuple[str, str]] = []
        self.reviews: list[dict[str, Any]] = []
        self.lists: dict[str, Any] = {
            "/api/v1/nodes": cluster.nodes,
            "/api/v1/pods": cluster.pods,
            "/apis/apps/v1/deployments": cluster.deployments,
            "/apis/apps/v1/daemonsets": cluster.daemon_sets,
            "/apis/certificates.k8s.io/v1/certificatesigningrequests": cluster.requests,
        }
        spaces = "/namespaces/kube-system"
        self.single = {
            **{f"/apis/coordination.k8s.io/v1{spaces}/leases/{one['metadata']['name']}": one for one in cluster.leases},
            **{f"/api/v1{spaces}/configmaps/{one['metadata']['name']}": one for one in cluster.maps},
        }

    def call_api(self, method: str, url: str, headers: Any, body: Any, _request_timeout: Any) -> Answer:
        path, _, query = url.removeprefix(self.configuration.host).partition("?")
        self.asked.append((method, path))
        status, content = self._answer(method, path, query, body)
        return Answer(status, content, "Fri, 15 Jan 2027 08:00:00 GMT")

    def _answer(self, method: str, path: str, query: str, body: Any) -> tuple[int, Any]:
        if path in self.lacks:
            return self.lacks[path], {}
        if method == "POST":
            self.reviews.append(body["spec"])
            asked = body["spec"]["resourceAttributes"]
            wanted = (body["spec"]["user"], asked["verb"], f"{asked['resource']}/{asked['subresource']}".rstrip("/"))
            return 201, {"status": {"allowed": wanted not in self.denied}}
        if path == "/version":
            return 200, {"gitVersion": "v1.36.3"}
        if path in self.single:
            return 200, self.single[path]
        if path not in self.lists:
            return 404, {}
        at = int(query.partition("continue=")[2] or 0)
        items = self.lists[path]
        more = {"continue": str(at + 1)} if at + 1 < len(items) else {}
        return 200, {"metadata": more, "items": items[at : at + 1]}


@pytest.fixture
def scene() -> Scene:
    return Scene()


def read(api: Api) -> tuple[Scene, list[Finding]]:
    found = Scene()
    reader: Any = Reader(api)
    found.cluster, findings = reader.read()
    return found, findings


def test_all_that_the_checks_need_is_read_page_by_page(scene: Scene) -> None:
    api = Api(scene)
    found, findings = read(api)
    assert findings == []
    assert found.cluster.nodes == scene.cluster.nodes
    # The clock is the API server's.
    assert found.cluster.now == scene.cluster.now
    assert found.bad() == []


def test_nothing_is_written(scene: Scene) -> None:
    api = Api(scene)
    read(api)
    assert {path for method, path in api.asked if method != "GET"} == {
        "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    }


def test_what_an_autoscaler_may_not_is_found(scene: Scene) -> None:
    api = Api(scene)
    api.denied = {(ACCOUNT, "watch", "nodes"), (ACCOUNT, "create", "pods/eviction")}
    found, _ = read(api)
    (rights,) = found.bad()
    assert (rights.level, rights.pool) == (Level.STOPS, "azure/workers")
    assert "may not: create pods/eviction, watch nodes" in rights.what
    # The groups that every service account has, by which roles may be bound too.
    assert api.reviews[0]["groups"][0] == "system:serviceaccounts"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/api/v1/nodes", "nodes cannot be listed: the API answers 403"),
        ("/apis/apps/v1/daemonsets", "daemonsets cannot be listed"),
        ("/api/v1/namespaces/kube-system/configmaps/autoscaler-azure-status", "configmaps cannot be read"),
        (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            "rights of kube-system/autoscaler-aliyun cannot be asked",
        ),
    ],
)
def test_what_may_not_be_read_is_a_finding(scene: Scene, path: str, words: str) -> None:
    reader: Any = Reader(Api(scene, {path: 403}))
    cluster, findings = reader.read()
    assert {one.level for one in findings} == {Level.UNKNOWN}
    assert words in findings[0].what
    # What is not known is not taken for something that is missing.
    assert [
        one for one in examine(list(scene.pools.values()), scene.groups, cluster) if one.level is not Level.FINE
    ] == []


def test_an_api_that_is_not_reached(scene: Scene) -> None:
    class Gone(Api):
        def call_api(self, *_words: Any, **_more: Any) -> Answer:
            raise MaxRetryError(None, "/", OSError("secret"))

    with pytest.raises(KubernetesError, match=r"^the Kubernetes API is not reached \(MaxRetryError\)$"):
        read(Gone(scene))


def test_a_kubeconfig_that_is_none_is_a_finding_without_its_text() -> None:
    cluster, (finding,) = gather("users: [{user: {client-key-data: c2VjcmV0}}]", None)
    assert cluster is None
    assert finding.level is Level.UNKNOWN
    assert "c2VjcmV0" not in finding.line
