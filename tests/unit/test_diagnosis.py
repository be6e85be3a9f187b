"""Each finding of the doctor, from a world in which all is well but for one thing."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from diagnosis_world import ALIYUN, ALIYUN_ID, AZURE, AZURE_ID, NOW, Scene, lease, node, pod, status_map
from hybrid_talos.autoscaler_tags import azure_tags
from hybrid_talos.node_template import Taint, node_template

from stacks.diagnosis.autoscaler import talos_versions, version_findings
from stacks.diagnosis.examine import examine
from stacks.diagnosis.facts import Machine, Quota, autoscalers, seconds
from stacks.diagnosis.finding import CLUSTER, Finding, Level, few, ordered, status
from stacks.diagnosis.nodes import form_problem
from stacks.diagnosis.rights import needed
from stacks.diagnosis.template import azure_template

STOPS, HINDERS, UNKNOWN = Level.STOPS, Level.HINDERS, Level.UNKNOWN


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_world_in_which_all_is_well_has_nothing_but_that_to_say(scene: Scene) -> None:
    assert scene.bad() == []
    topics = {(one.pool, one.topic) for one in scene.findings()}
    for pool in (AZURE, ALIYUN):
        assert {
            (pool, topic) for topic in ("size", "provider-id", "template", "autoscaler", "lease", "status")
        } < topics
    assert {(CLUSTER, "mesh"), (CLUSTER, "ready"), (CLUSTER, "pending"), (AZURE, "quota"), (ALIYUN, "stock")} < topics


def test_an_empty_pool_is_well_too(scene: Scene) -> None:
    for name in (AZURE, ALIYUN):
        scene.change_group(name, size=0, machines=())
    scene.change_cluster(nodes=[scene.nodes()["cp-1"]])
    assert scene.bad() == []


def test_gateways_are_fixed_and_none_of_the_autoscalers(scene: Scene) -> None:
    scene.change_pool(AZURE, fixed=True, least=1, most=1)
    scene.change_group(AZURE, least=1, most=1)
    args_of(scene, 0)[1] = "--nodes=0:3:other"
    assert scene.bad() == []
    scene.change_group(AZURE, size=2)
    assert [(one.level, one.what) for one in scene.bad()] == [(HINDERS, "2 of 1 machines")]


def args_of(scene: Scene, at: int) -> list[str]:
    found: list[str] = scene.cluster.deployments[at]["spec"]["template"]["spec"]["containers"][0]["args"]
    return found


def taint(scene: Scene) -> None:
    scene.change_group(AZURE, taints=(), size=0, machines=())
    scene.change_cluster(nodes=[scene.nodes()["cp-1"], scene.nodes()["alibaba-0"]])


def aliyun_taint(scene: Scene) -> None:
    scene.change_pool(ALIYUN, taints=("a=b:NoSchedule",))
    scene.change_group(ALIYUN, size=0, machines=())
    scene.change_cluster(nodes=[scene.nodes()["cp-1"], scene.nodes()["azure-0"]])


def rename_image(scene: Scene) -> None:
    container = scene.cluster.deployments[0]["spec"]["template"]["spec"]["containers"][0]
    container["image"] = "mirror.example.com:5000/cluster-autoscaler:v1.34.5@sha256:00"


def unready(scene: Scene, name: str) -> None:
    scene.nodes()[name]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]


def many_unready(scene: Scene) -> None:
    more = [node(f"n{number}", f"talos://metal/192.0.2.{number}", "") for number in range(4)]
    scene.change_cluster(nodes=[*scene.cluster.nodes, *more])
    for number in range(4):
        unready(scene, f"n{number}")


def said(scene: Scene, **changes: Any) -> None:
    scene.change_cluster(maps=[status_map("azure", "workers", **changes), scene.cluster.maps[1]])


def status_text(scene: Scene, old: str, new: str) -> None:
    data = scene.cluster.maps[0]["data"]
    assert old in data["status"]
    data["status"] = data["status"].replace(old, new)


def annotate(scene: Scene, name: str, key: str, value: str | None) -> None:
    annotations = scene.nodes()[name]["metadata"]["annotations"]
    if value is None:
        del annotations[f"kilo.squat.ai/{key}"]
    else:
        annotations[f"kilo.squat.ai/{key}"] = value


def same_location(scene: Scene) -> None:
    annotate(scene, "azure-0", "location", "rack")
    annotate(scene, "azure-0", "last-seen", str(int(NOW) - 900))


def old_lease(scene: Scene) -> None:
    scene.cluster.leases[0]["spec"]["renewTime"] = "2027-01-15T07:00:00.000000Z"


def cased(scene: Scene) -> None:
    scene.nodes()["azure-0"]["spec"]["providerID"] = AZURE_ID.replace("/rg/", "/RG/")


def two_stopped_sizes(scene: Scene) -> None:
    scene.change_group(AZURE, size=3)
    scene.change_cluster(
        pods=[pod(nodeSelector={"example.com/a": "azure-workers"}, tolerations=[{"operator": "Exists"}])]
    )


Break = Callable[[Scene], Any]
BROKEN: Mapping[str, tuple[Break, Level, str, str, str]] = {
    # nodes
    "not joined": (
        lambda s: s.change_group(AZURE, size=2, machines=(Machine(AZURE_ID), Machine(AZURE_ID[:-1] + "7"))),
        *(STOPS, AZURE, "joined", "virtualMachines/7 is no node"),
    ),
    "not joined yet": (
        lambda s: s.change_group(
            AZURE, size=2, machines=(Machine(AZURE_ID), Machine(AZURE_ID[:-1] + "7", made=NOW - 360))
        ),
        *(HINDERS, AZURE, "joined", "is no node yet, 6 minutes after it was made"),
    ),
    "not joined in time": (
        lambda s: s.change_group(
            AZURE, size=2, machines=(Machine(AZURE_ID), Machine(AZURE_ID[:-1] + "7", made=NOW - 3600))
        ),
        *(STOPS, AZURE, "joined", "virtualMachines/7 is no node"),
    ),
    "rack cut off": (
        lambda s: annotate(s, "cp-1", "last-seen", "not a number"),
        *(STOPS, CLUSTER, "mesh", "location rack is cut off"),
    ),
    "other letters": (cased, STOPS, AZURE, "provider-id", "knows its machine as azure:///subscriptions/s/resourceG"),
    "no id": (
        lambda s: s.nodes()["alibaba-0"]["spec"].update(providerID=""),
        *(STOPS, ALIYUN, "provider-id", "node alibaba-0 has no provider id"),
    ),
    "id of another form": (
        lambda s: s.nodes()["alibaba-0"]["spec"].update(providerID="alicloud://cn-hangzhou.i-abc"),
        *(STOPS, ALIYUN, "provider-id", r"must be cn-hangzhou\.i-"),
    ),
    "no dot": (
        lambda s: s.nodes()["cp-1"]["spec"].update(providerID="k3s://one"),
        *(STOPS, ALIYUN, "provider-id", "cp-1 have no dot"),
    ),
    "ghost": (
        lambda s: s.change_cluster(nodes=[*s.cluster.nodes, node("old", "cn-hangzhou.i-gone", "alibaba.workers")]),
        *(HINDERS, ALIYUN, "ghost", "node old is left"),
    ),
    "failed machines": (
        lambda s: s.change_group(AZURE, machines=(Machine(AZURE_ID), Machine(AZURE_ID[:-1] + "8", failed=True))),
        *(HINDERS, AZURE, "machines", "could not make 1 machines"),
    ),
    "stale": (
        lambda s: s.nodes()["azure-0"]["metadata"]["labels"].update({"hybrid-talos.dev/template": "0" * 16}),
        *(HINDERS, AZURE, "stale", "1 nodes are of an older image"),
    ),
    "unready in a pool": (lambda s: unready(s, "azure-0"), HINDERS, AZURE, "ready", "1 of 1 nodes are not ready"),
    "unready": (lambda s: unready(s, "cp-1"), HINDERS, CLUSTER, "ready", "1 of 3 nodes are not ready: cp-1"),
    "too many unready": (many_unready, STOPS, CLUSTER, "ready", "4 of 7 nodes are not ready"),
    "request waits": (
        lambda s: s.change_cluster(requests=[{"metadata": {"name": "csr-1"}, "status": {}}]),
        *(HINDERS, CLUSTER, "certificates", "1 certificate requests wait for approval: csr-1"),
    ),
    # template
    "tag lost, empty": (
        lambda s: s.change_group(AZURE, size=0, machines=(), labels={"hybrid-talos.dev/pool": "azure-workers"}),
        *(STOPS, AZURE, "template", "do not say the labels example.com/a"),
    ),
    "tag lost": (
        lambda s: s.change_group(ALIYUN, labels={"hybrid-talos.dev/pool": "alibaba.workers"}),
        *(HINDERS, ALIYUN, "template", "do not say the labels example.com/a"),
    ),
    "taint lost": (taint, HINDERS, AZURE, "template", "lack the taints example.com/t=v:NoSchedule"),
    "taint too many": (
        lambda s: s.change_group(AZURE, size=0, machines=(), taints=("a=b:NoExecute", "example.com/t=v:NoSchedule")),
        *(STOPS, AZURE, "template", "have the taints a=b:NoExecute besides"),
    ),
    "taint that tags cannot say": (aliyun_taint, HINDERS, ALIYUN, "template", "which tags of its cloud cannot say"),
    "node without a label": (
        lambda s: s.nodes()["azure-0"]["metadata"]["labels"].pop("example.com/a"),
        *(HINDERS, AZURE, "template", r"without the pool's labels: azure-0 \(example.com/a\)"),
    ),
    "node without its pool": (
        lambda s: s.nodes()["azure-0"]["metadata"]["labels"].pop("hybrid-talos.dev/pool"),
        *(STOPS, AZURE, "template", r"azure-0 \(hybrid-talos.dev/pool\)"),
    ),
    # capacity
    "largest size": (lambda s: s.change_group(AZURE, size=3), STOPS, AZURE, "size", "3 machines, and maxSize is 3"),
    "below the smallest": (lambda s: s.change_pool(AZURE, least=2), HINDERS, AZURE, "size", "and minSize is 2"),
    "group is smaller": (lambda s: s.change_group(ALIYUN, most=2), STOPS, ALIYUN, "bounds", "own maxSize is 2"),
    "group's smallest": (lambda s: s.change_group(ALIYUN, least=1), HINDERS, ALIYUN, "bounds", "own minSize is 1"),
    "locked": (
        lambda s: s.change_group(ALIYUN, trouble="the scaling group asg-1 is Inactive"),
        *(STOPS, ALIYUN, "group", "is Inactive"),
    ),
    "no quota": (
        lambda s: s.change_group(AZURE, quotas=(Quota("cores of standardDSv3Family", 99, 100, 2),)),
        *(STOPS, AZURE, "quota", "99 of 100 used, and 2 more machines need 4. Not one more"),
    ),
    "little quota": (
        lambda s: s.change_group(AZURE, quotas=(Quota("cores", 98, 100, 2),)),
        *(HINDERS, AZURE, "quota", "1 more machines fit, not 2"),
    ),
    "sold out": (
        lambda s: s.change_group(ALIYUN, stock={"ecs.g7.large in h": "sold out"}),
        *(STOPS, ALIYUN, "stock", "sold out: ecs.g7.large in h"),
    ),
    "sold out in one zone": (
        lambda s: s.change_group(ALIYUN, stock={"t in h": "sold out", "t in i": "in stock"}),
        *(HINDERS, ALIYUN, "stock", "sold out: t in h"),
    ),
    "low": (lambda s: s.change_group(ALIYUN, stock={"t in h": "low"}), HINDERS, ALIYUN, "stock", "low: t in h"),
    "not looked at": (
        lambda s: s.change_group(AZURE, notes=("the quota is not known: 403",)),
        *(UNKNOWN, AZURE, "group", "the quota is not known: 403"),
    ),
    # autoscaler
    "none": (
        lambda s: s.change_cluster(deployments=[s.cluster.deployments[1]]),
        *(STOPS, AZURE, "autoscaler", "no autoscaler knows the group workers: none runs for azure"),
    ),
    "other group": (
        lambda s: args_of(s, 1).__setitem__(1, "--nodes=0:3:asg-other"),
        *(STOPS, ALIYUN, "autoscaler", "autoscaler-aliyun has other groups"),
    ),
    "not ready": (
        lambda s: s.cluster.deployments[0]["status"].pop("readyReplicas"),
        *(STOPS, AZURE, "autoscaler", "has 0 of 1 pods ready"),
    ),
    "other bounds": (
        lambda s: args_of(s, 0).__setitem__(1, "--nodes=0:2:workers"),
        *(HINDERS, AZURE, "bounds", "gives the group 0 to 2 machines, the pool 0 to 3"),
    ),
    "other version": (rename_image, HINDERS, AZURE, "versions", "is v1.34.5, and Kubernetes is v1.36.3"),
    "no lease": (
        lambda s: s.change_cluster(leases=[lease("aliyun")]),
        *(STOPS, AZURE, "lease", "nobody holds the lease kube-system/autoscaler-azure"),
    ),
    "old lease": (old_lease, STOPS, AZURE, "lease", "last renewed 60 minutes ago"),
    "no status": (lambda s: s.change_cluster(maps=[s.cluster.maps[1]]), STOPS, AZURE, "status", "is no ConfigMap"),
    "status of old": (
        lambda s: status_text(s, "2027-01-15 08:00", "2027-01-15 07:50"),
        *(STOPS, AZURE, "status", "was written 10 minutes ago"),
    ),
    "status of another form": (
        lambda s: s.cluster.maps[0]["data"].update(status="Cluster-autoscaler status at ..."),
        *(UNKNOWN, AZURE, "status", "a form that is not known"),
    ),
    "initializing": (
        lambda s: status_text(s, "autoscalerStatus: Running", "autoscalerStatus: Initializing"),
        *(STOPS, AZURE, "status", "says that it is Initializing"),
    ),
    "unhealthy cluster": (
        lambda s: status_text(s, "clusterWide:\n  health:\n    status: H", "clusterWide:\n  health:\n    status: Unh"),
        *(STOPS, AZURE, "status", "takes the cluster for unhealthy"),
    ),
    "group unknown": (
        lambda s: s.change_cluster(maps=[status_map("azure", "other"), s.cluster.maps[1]]),
        *(STOPS, AZURE, "status", "does not know the group workers"),
    ),
    "backoff": (
        lambda s: said(
            s, scaleUp={"status": "Backoff", "backoffInfo": {"errorCode": "Quota", "errorMessage": "exceeded"}}
        ),
        *(STOPS, AZURE, "status", "after a failed scale-up: Quota exceeded"),
    ),
    "unhealthy group": (
        lambda s: said(s, health={"status": "Unhealthy"}),
        *(STOPS, AZURE, "status", "takes the group for unhealthy"),
    ),
    # rights
    "may not list": (
        lambda s: s.change_cluster(denied={**s.cluster.denied, "kube-system/autoscaler-azure": ("list nodes",)}),
        *(STOPS, AZURE, "rights", "kube-system/autoscaler-azure may not: list nodes"),
    ),
    "may not evict": (
        lambda s: s.change_cluster(denied={"kube-system/autoscaler-azure": ("create pods/eviction",)}),
        *(HINDERS, AZURE, "rights", "may not: create pods/eviction"),
    ),
    # mesh
    "no key": (lambda s: annotate(s, "azure-0", "key", None), STOPS, AZURE, "mesh", "written nothing on azure-0"),
    "location cut off": (
        lambda s: annotate(s, "alibaba-0", "last-seen", str(int(NOW) - 900)),
        *(STOPS, ALIYUN, "mesh", "location alibaba.workers is cut off"),
    ),
    "node cut off": (same_location, HINDERS, AZURE, "mesh", "did not check in for 5 minutes: azure-0"),
    "no endpoint": (lambda s: annotate(s, "azure-0", "endpoint", ""), STOPS, AZURE, "mesh", "no node of azure"),
    # pods
    "no pool takes it": (
        lambda s: s.change_cluster(pods=[pod(nodeSelector={"disk": "ssd"})]),
        *(STOPS, CLUSTER, "pending", "aliyun/workers: it has not the label disk=ssd; azure/workers: it has not"),
    ),
    "full pool": (two_stopped_sizes, STOPS, CLUSTER, "pending", "azure/workers would take it but cannot grow"),
}  # fmt: skip


@pytest.mark.parametrize("case", list(BROKEN))
def test_what_is_broken_is_found(scene: Scene, case: str) -> None:
    break_it, level, pool, topic, words = BROKEN[case]
    break_it(scene)
    found = [one for one in scene.bad() if (one.level, one.pool, one.topic) == (level, pool, topic)]
    assert any(re.search(words, one.line) for one in found), scene.bad()
    assert all(one.why for one in found)
    assert all(one.do for one in found)


class TestPods:
    def lines(self, scene: Scene, **spec: Any) -> str:
        scene.change_cluster(pods=[pod(**spec)])
        return "\n".join(one.line for one in scene.findings() if one.topic == "pending")

    def test_a_taint_keeps_a_pod_away_unless_it_tolerates_it(self, scene: Scene) -> None:
        where = {"nodeSelector": {"example.com/a": "azure-workers"}}
        assert "does not tolerate example.com/t=v:NoSchedule" in self.lines(scene, **where)
        for toleration in (
            {"operator": "Exists"},
            {"key": "example.com/t", "operator": "Exists"},
            {"key": "example.com/t", "value": "v", "effect": "NoSchedule"},
        ):
            assert "a machine of azure/workers would" in self.lines(scene, **where, tolerations=[toleration])
        for toleration in ({"key": "example.com/t", "value": "w"}, {"operator": "Exists", "effect": "NoExecute"}):
            assert "does not tolerate" in self.lines(scene, **where, tolerations=[toleration])

    @pytest.mark.parametrize(
        ("operator", "values", "fits"),
        [("In", ["alibaba.workers"], True), ("NotIn", ["alibaba.workers"], False), ("Exists", [], True)],
    )
    def test_an_affinity(self, scene: Scene, operator: str, values: list[str], fits: bool) -> None:
        term = {"matchExpressions": [{"key": "example.com/a", "operator": operator, "values": values}]}
        hard = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        assert ("a machine of aliyun/workers would" in self.lines(scene, affinity={"nodeAffinity": hard})) == fits

    @pytest.mark.parametrize(
        ("asked", "words"), [({"cpu": "2500m"}, "asks for 2.5 cores"), ({"memory": "9Gi"}, "9.0 GiB")]
    )
    def test_a_pod_that_is_larger_than_a_machine(self, scene: Scene, asked: dict[str, str], words: str) -> None:
        spec = {
            "containers": [{"resources": {"requests": asked}}],
            "nodeSelector": {"example.com/a": "azure-workers"},
            "tolerations": [{"operator": "Exists"}],
        }
        assert words in self.lines(scene, **spec)

    def test_a_pod_that_waits_for_something_else_is_none_of_ours(self, scene: Scene) -> None:
        other = pod()
        other["status"]["conditions"][0]["reason"] = "SchedulingGated"
        scene.change_cluster(pods=[other])
        assert scene.bad() == []


def test_the_tags_are_read_as_the_pool_writes_them() -> None:
    template = node_template(
        "azure",
        "azure-workers",
        {"example.com/with_underscore": "v", "plain": ""},
        [Taint("a.b/c_d", "x", "NoExecute")],
    )
    labels, taints = azure_template(azure_tags(template, 0, 3, {"owner": "me"}))
    assert (labels, list(taints)) == (template.all_labels, template.taint_texts)


@pytest.mark.parametrize(
    ("cloud", "text", "fine"),
    [
        ("azure", AZURE_ID, True),
        ("azure", AZURE_ID.replace("azure:///", "azure:////"), False),
        ("azure", AZURE_ID.replace("azure:///", "azure://"), False),
        ("aliyun", ALIYUN_ID, True),
        ("aliyun", "cn-beijing.i-abc", False),
        ("aliyun", "alicloud://cn-hangzhou.i-abc", False),
    ],
)
def test_forms_of_provider_ids(cloud: str, text: str, fine: bool) -> None:
    assert (form_problem(cloud, text, "cn-hangzhou") is None) == fine


def test_versions_that_do_not_go_together(scene: Scene) -> None:
    (other,) = version_findings(scene.cluster, ["1.12.0"])
    assert other.what == "Talos 1.12.0 runs Kubernetes 1.30 to 1.35, not 1.36.3"
    assert "different versions of Talos" in version_findings(scene.cluster, ["1.13.1", "1.14.0"])[0].what
    assert version_findings(scene.cluster, ["not a version"]) == []
    assert talos_versions(scene.cluster.nodes) == ["1.14.0"] * 3


def test_the_rights_are_those_of_the_names_in_the_flags(scene: Scene) -> None:
    one = autoscalers(scene.cluster.deployments)[1]
    found = {str(right) for right in needed(one)}
    assert {
        "list nodes",
        "watch volumeattachments.storage.k8s.io",
        "update configmaps autoscaler-azure-status",
    } <= found
    assert "update leases.coordination.k8s.io autoscaler-azure" in found
    args_of(scene, 0)[3] = "--status-config-map-name=other"
    assert "update configmaps other" in {str(right) for right in needed(autoscalers(scene.cluster.deployments)[1])}


def test_a_cloud_and_a_cluster_that_cannot_be_asked_leave_the_rest(scene: Scene) -> None:
    del scene.groups[ALIYUN]
    assert {one.pool for one in scene.findings() if one.topic == "size"} == {AZURE}
    alone = examine(list(scene.pools.values()), scene.groups, None)
    assert {one.pool for one in alone} == {AZURE}


def test_the_worst_comes_first_and_decides_the_status() -> None:
    fine, unknown, stops = (Finding(level, "t", "w", pool="p") for level in (Level.FINE, UNKNOWN, STOPS))
    assert ordered([fine, stops, unknown, stops]) == [stops, unknown, fine]
    assert [status(found) for found in ([fine], [fine, unknown], [unknown, stops])] == [0, 2, 1]
    assert few(["a", "b", "c", "d"]) == "a, b, c and 1 more"


@pytest.mark.parametrize(
    ("stamp", "moment"),
    [
        ("2027-01-15T08:00:00.123456+00:00", NOW + 0.123456),
        ("2027-01-15T08:00Z", NOW),
        ("2027-01-15T08:00:00", None),
        ("", None),
        (None, None),
    ],
)
def test_moments_as_the_clouds_write_them(stamp: str | None, moment: float | None) -> None:
    assert seconds(stamp) == moment
