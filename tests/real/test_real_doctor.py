"""What the doctor asks of a Kubernetes API, asked of the real one: lists, leases, and the rights of the autoscalers."""

from typing import Any

import pytest
import rights
from kubernetes_cluster import Api, Cluster

from stacks.diagnosis.facts import autoscalers
from stacks.diagnosis.kubernetes_facts import gather
from stacks.diagnosis.rights import needed

pytestmark = pytest.mark.usefixtures("deployed")

ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/demo-azure"


def looked(cluster: Cluster) -> Any:
    found, findings = gather(cluster.admin_kubeconfig(), None)
    assert findings == []
    assert found is not None
    return found


def test_every_right_that_the_doctor_asks_for_is_one_of_the_autoscaler_and_none_is_left_out(cluster: Cluster) -> None:
    for one in autoscalers(looked(cluster).deployments):
        asked = {(right.verb, right.group, right.resource, right.name) for right in needed(one)}
        assert asked == rights.needed(rights.AUTOSCALER, "kube-system", one.name)


def test_the_api_server_says_that_nothing_is_missing(cluster: Cluster, api: Api) -> None:
    found = looked(cluster)
    assert found.version == api.get("/version")["gitVersion"]
    assert {str(node["metadata"]["name"]) for node in found.nodes} == set(api.names("/api/v1/nodes"))
    assert found.denied == {"kube-system/demo-aliyun": [], "kube-system/demo-azure": []}


def test_a_right_that_was_taken_is_found(cluster: Cluster, api: Api) -> None:
    role = api.get(ROLE)
    rules = [rule for rule in role["rules"] if "storage.k8s.io" not in rule["apiGroups"]]
    try:
        api.call("PUT", ROLE, {**role, "rules": rules})
        found = looked(cluster)
    finally:
        api.merge(ROLE, {"rules": role["rules"]})
    assert found.denied["kube-system/demo-aliyun"] == []
    denied = found.denied["kube-system/demo-azure"]
    assert "list volumeattachments.storage.k8s.io" in denied
    assert {right.rpartition(".storage")[2] for right in denied} == {".k8s.io"}


def test_somebody_who_may_read_nothing_is_told_so(cluster: Cluster) -> None:
    found, findings = gather(cluster.kubeconfig_of("somebody", "nobody"), None)
    assert found is None
    assert "nodes cannot be listed: the API answers 403" in [one.what for one in findings]
