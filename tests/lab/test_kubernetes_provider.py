"""What the simulated Kubernetes provider makes, refuses and keeps."""

import base64
import copy
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.kubernetes import force_new, kubeconfig, package, pods, rules, security
from lab.kubernetes.objects import AUTONAMED
from lab.provider import Call
from lab.sdk_schema import UNKNOWN
from lab.talos import invokes, machines
from lab.talos import package as talos
from lab.wire import Secret, plain
from lab.world import CloudError, World

pytestmark = pytest.mark.lab

ENDPOINT = "https://k8s.demo.example.com:6443"
API_ACCESS = """
machine:
  features:
    kubernetesTalosAPIAccess:
      enabled: true
      allowedRoles: [os:reader]
      allowedKubernetesNamespaces: [kube-system]
"""
KIND = package.Object()


class Lab:
    """A world with one bootstrapped cluster and access to it."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        talos_call = Call(self.world, {})
        secrets = talos.Secrets().create(talos_call, {})[1]
        client = secrets["clientConfiguration"]
        arguments = {
            "clusterName": "demo",
            "clusterEndpoint": ENDPOINT,
            "machineType": "controlplane",
            "machineSecrets": secrets["machineSecrets"],
            "kubernetesVersion": "1.36.3",
        }
        text = invokes.get_machine_configuration(talos_call, arguments)["machineConfiguration"]
        name = "apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: cp-1\nauto: 'off'\n"
        node = {"node": "192.0.2.11", "clientConfiguration": client}
        apply = {"machineConfigurationInput": text, "configPatches": [API_ACCESS, name]}
        talos.ConfigurationApply().create(talos_call, node | apply)
        talos.Bootstrap().create(talos_call, node)
        self.secrets = secrets
        self.kubeconfig: str = talos.Kubeconfig().create(talos_call, node)[1]["kubeconfigRaw"]
        self.config: dict[str, Any] = {"kubeconfig": self.kubeconfig, "clusterIdentifier": "demo"}

    def call(self, token: str, name: str = "thing", **config: Any) -> Call:
        urn = f"urn:pulumi:dev::hybrid-talos::{token}::{name}"
        return Call(self.world, {**self.config, **config}, urn)

    def checked(self, token: str, inputs: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
        filled = KIND.defaults(self.call(token), inputs, old or {})
        merged = copy.deepcopy(inputs)
        for key, value in filled.items():
            if value is None:
                merged.pop(key, None)
            elif key == "metadata":
                merged[key] = {**(merged.get(key) or {}), **plain(value)}
            else:
                merged[key] = plain(value)
        return merged

    def create(self, token: str, inputs: dict[str, Any], **config: Any) -> tuple[str, dict[str, Any]]:
        return KIND.create(self.call(token, **config), self.checked(token, inputs))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return Lab(tmp_path_factory.mktemp("cluster"))


@pytest.fixture
def lab(built: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setattr(package, "PATIENCE", 0.0)
    for record in built.world.find("kubernetes"):
        if record.kind != "v1/Node":
            built.world.remove("kubernetes", record.kind, record.id)
    return built


CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
SECRET = "kubernetes:core/v1:Secret"
NAMESPACE = "kubernetes:core/v1:Namespace"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
DAEMON_SET = "kubernetes:apps/v1:DaemonSet"
PEER = "kubernetes:kilo.squat.ai/v1alpha1:Peer"
CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"


def config_map(name: str | None = "settings", namespace: str = "kube-system", **more: Any) -> dict[str, Any]:
    metadata = {"namespace": namespace} | ({"name": name} if name else {})
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}, **more}


def deployment(spec: dict[str, Any] | None = None, namespace: str = "kube-system", **more: Any) -> dict[str, Any]:
    pod = {
        "containers": [{"name": "app", "image": "example.com/app:1"}],
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
    }
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod | (spec or {})}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "app", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template, **more},
    }


def peers() -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "peers.kilo.squat.ai"},
        "spec": {
            "group": "kilo.squat.ai",
            "scope": "Cluster",
            "names": {"kind": "Peer", "plural": "peers"},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }


def peer() -> dict[str, Any]:
    return {"apiVersion": "kilo.squat.ai/v1alpha1", "kind": "Peer", "metadata": {"name": "laptop"}, "spec": {}}


# -- the provider and its cluster ------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [None, "", "/home/someone/.kube/config", "{}", "[", "just a text"])
def test_a_provider_without_a_readable_kubeconfig_is_refused(given: Any) -> None:
    assert [p.path for p in kubeconfig.check_config({"kubeconfig": given})] == ["kubeconfig"]


def test_a_kubeconfig_that_is_not_known_yet_is_taken() -> None:
    assert kubeconfig.check_config({"kubeconfig": UNKNOWN}) == []


def test_a_kubeconfig_is_taken_as_yaml_and_as_an_object(lab: Lab) -> None:
    assert kubeconfig.check_config({"kubeconfig": lab.kubeconfig}) == []
    assert kubeconfig.check_config({"kubeconfig": yaml.safe_load(lab.kubeconfig)}) == []
    assert kubeconfig.check_config({"kubeconfig": lab.kubeconfig, "context": "other"})


def test_what_a_refusal_says_of_a_kubeconfig_holds_none_of_it(lab: Lab) -> None:
    broken = lab.kubeconfig.replace("current-context: admin@demo", "current-context: [")
    (problem,) = kubeconfig.check_config({"kubeconfig": broken})
    assert "PRIVATE" not in problem.reason
    assert "admin" not in problem.reason


def test_a_cluster_that_nobody_made_is_unreachable(lab: Lab) -> None:
    other = lab.kubeconfig.replace("k8s.demo", "k8s.other")
    with pytest.raises(CloudError, match="unreachable.*connection refused"):
        lab.create(CONFIG_MAP, config_map(), kubeconfig=other)


def test_a_kubeconfig_of_another_authority_is_turned_away(lab: Lab, tmp_path: Path) -> None:
    stranger = Lab(tmp_path)
    with pytest.raises(CloudError, match="unknown authority"):
        lab.create(CONFIG_MAP, config_map(), kubeconfig=stranger.kubeconfig)
    mixed, own = yaml.safe_load(stranger.kubeconfig), yaml.safe_load(lab.kubeconfig)
    mixed["clusters"] = own["clusters"]
    with pytest.raises(CloudError, match="Unauthorized"):
        lab.create(CONFIG_MAP, config_map(), kubeconfig=mixed)


def test_the_api_goes_with_the_majority_of_the_control_planes(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.create(CONFIG_MAP, config_map())
    call = lab.call(CONFIG_MAP)
    machines.power(lab.world, "192.0.2.11", on=False)
    try:
        with pytest.raises(CloudError, match="no leader"):
            KIND.create(call, config_map("other"))
        with pytest.raises(CloudError, match="PULUMI_K8S_DELETE_UNREACHABLE"):
            KIND.read(call, "kube-system/settings", {})
        with pytest.raises(CloudError, match="PULUMI_K8S_DELETE_UNREACHABLE"):
            KIND.delete(call, "kube-system/settings", {})
        monkeypatch.setenv("PULUMI_K8S_DELETE_UNREACHABLE", "true")
        assert KIND.read(call, "kube-system/settings", {}) is None
        KIND.delete(call, "kube-system/settings", {})
    finally:
        machines.power(lab.world, "192.0.2.11", on=True)
    assert KIND.read(call, "kube-system/settings", {}) is not None


def test_another_cluster_replaces_everything_unless_it_is_named_the_same(lab: Lab) -> None:
    moved = lab.kubeconfig.replace("k8s.demo", "k8s.moved")
    old, new = {"kubeconfig": lab.kubeconfig}, {"kubeconfig": moved}
    assert kubeconfig.diff_config(old, new) == ["kubeconfig"]
    assert kubeconfig.diff_config(old, {"kubeconfig": UNKNOWN}) == ["kubeconfig"]
    named = {"clusterIdentifier": "demo"}
    assert kubeconfig.diff_config(old | named, new | named) == []
    assert kubeconfig.diff_config(old | named, {"kubeconfig": UNKNOWN} | named) == []
    assert kubeconfig.diff_config(old | named, old | {"clusterIdentifier": "other"}) == ["clusterIdentifier"]
    assert kubeconfig.diff_config(old, old | named) == []


def test_a_renewed_certificate_replaces_nothing(lab: Lab) -> None:
    renewed = yaml.safe_load(lab.kubeconfig)
    renewed["users"][0]["user"]["client-certificate-data"] = "bmV3"
    assert kubeconfig.diff_config({"kubeconfig": lab.kubeconfig}, {"kubeconfig": renewed}) == []


# -- names, places, lives --------------------------------------------------------------------------------------


def test_an_object_without_a_name_gets_one_and_keeps_it(lab: Lab) -> None:
    first = lab.checked(CONFIG_MAP, config_map(None))
    name = first["metadata"]["name"]
    assert name.startswith("thing-")
    assert len(name) == len("thing-") + 8
    assert first["metadata"]["annotations"] == {AUTONAMED: "true"}
    assert lab.checked(CONFIG_MAP, config_map(None), first)["metadata"]["name"] == name
    assert lab.checked(CONFIG_MAP, config_map("own"), first)["metadata"] == {"name": "own", "namespace": "kube-system"}


def test_a_name_that_is_not_known_yet_is_left_alone(lab: Lab) -> None:
    inputs = config_map() | {"metadata": {"name": UNKNOWN}}
    assert KIND.defaults(lab.call(CONFIG_MAP), inputs, {}) == {"metadata": {"namespace": "default"}}
    assert KIND.defaults(lab.call(CONFIG_MAP), inputs | {"metadata": UNKNOWN}, {}) == {}


def test_an_object_lives_in_its_namespace_and_the_world(lab: Lab) -> None:
    id, outputs = lab.create(CONFIG_MAP, config_map())
    assert id == "kube-system/settings"
    assert outputs["metadata"]["uid"]
    assert lab.world.get("kubernetes", "v1/ConfigMap", "demo/kube-system/settings")
    assert KIND.read(lab.call(CONFIG_MAP), id, outputs) == outputs
    KIND.delete(lab.call(CONFIG_MAP), id, outputs)
    assert KIND.read(lab.call(CONFIG_MAP), id, outputs) is None
    KIND.delete(lab.call(CONFIG_MAP), id, outputs)


def test_an_object_of_the_cluster_has_no_namespace(lab: Lab) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "system:x"}}
    rule = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}
    id, _ = lab.create("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", role | {"rules": [rule]})
    assert id == "system:x"


def test_the_same_object_is_not_made_twice(lab: Lab) -> None:
    lab.create(CONFIG_MAP, config_map())
    with pytest.raises(CloudError, match="already exists"):
        lab.create(CONFIG_MAP, config_map())
    lab.create(CONFIG_MAP, config_map(), upsertExistingObjects="true")


def test_what_the_cluster_has_of_its_own_cannot_be_made(lab: Lab) -> None:
    with pytest.raises(CloudError, match="already exists"):
        lab.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})


def test_a_namespace_comes_first_and_takes_its_objects_along(lab: Lab) -> None:
    with pytest.raises(CloudError, match='namespaces "kilo" not found'):
        lab.create(CONFIG_MAP, config_map(namespace="kilo"))
    id, outputs = lab.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kilo"}})
    lab.create(CONFIG_MAP, config_map(namespace="kilo"))
    lab.create(CONFIG_MAP, config_map())
    KIND.delete(lab.call(NAMESPACE), id, outputs)
    assert [record.id for record in lab.world.find("kubernetes", "v1/ConfigMap")] == ["demo/kube-system/settings"]


def test_a_custom_resource_needs_its_definition(lab: Lab) -> None:
    with pytest.raises(CloudError, match='no matches for kind "Peer"'):
        lab.create(PEER, peer())
    definition, outputs = lab.create(CRD, peers())
    assert {c["type"] for c in outputs["status"]["conditions"]} == {"NamesAccepted", "Established"}
    assert lab.create(PEER, peer())[0] == "laptop"
    KIND.delete(lab.call(CRD), definition, outputs)
    assert not lab.world.find("kubernetes", "kilo.squat.ai/v1alpha1/Peer")


def test_an_api_version_that_is_gone_is_refused(lab: Lab) -> None:
    inputs = {"apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": {"name": "x"}}
    with pytest.raises(CloudError, match="no matches for kind"):
        lab.create("kubernetes:policy/v1beta1:PodDisruptionBudget", inputs)


def test_patches_and_lists_are_not_simulated(lab: Lab) -> None:
    with pytest.raises(CloudError, match="does not simulate"):
        lab.create("kubernetes:core/v1:ConfigMapPatch", config_map())


def test_an_update_leaves_what_others_wrote(lab: Lab) -> None:
    inputs = config_map() | {"data": {"a": "1", "b": "2"}}
    id, outputs = lab.create(CONFIG_MAP, inputs)
    doc = lab.world.get("kubernetes", "v1/ConfigMap", f"demo/{id}")
    assert doc is not None
    doc["metadata"]["labels"] = {"theirs": "yes"}
    lab.world.put("kubernetes", "v1/ConfigMap", f"demo/{id}", doc)
    after = KIND.update(lab.call(CONFIG_MAP), id, outputs, inputs | {"data": {"a": "3"}})
    assert after["data"] == {"a": "3"}
    assert after["metadata"]["labels"] == {"theirs": "yes"}
    assert after["metadata"]["uid"] == outputs["metadata"]["uid"]
    assert after["metadata"]["resourceVersion"] != outputs["metadata"]["resourceVersion"]


def test_an_object_that_is_gone_is_not_updated(lab: Lab) -> None:
    with pytest.raises(CloudError, match="not found"):
        KIND.update(lab.call(CONFIG_MAP), "kube-system/settings", {}, config_map())


# -- replacement -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "inputs", "path", "replaced"),
    [
        (DEPLOYMENT, deployment(), "spec.selector.matchLabels.app", True),
        (DEPLOYMENT, deployment(), "spec.template.spec.containers[0].image", False),
        (CONFIG_MAP, config_map(), "data.a", True),
        (CONFIG_MAP, config_map(), "metadata.labels.a", False),
        (CONFIG_MAP, config_map(), "metadata.name", True),
        (SECRET, {"apiVersion": "v1", "kind": "Secret"}, "data", True),
        ("kubernetes:rbac.authorization.k8s.io/v1:RoleBinding", {}, "roleRef.name", True),
        ("kubernetes:batch/v1:Job", {}, "spec.template.spec.restartPolicy", True),
        ("kubernetes:core/v1:Pod", {}, "spec.containers[0].image", True),
        (PEER, peer(), "spec.allowedIPs[0]", False),
    ],
)
def test_fields_that_replace(lab: Lab, token: str, inputs: dict[str, Any], path: str, replaced: bool) -> None:
    assert bool(KIND.replaces(lab.call(token), inputs, inputs, [path])) is replaced


def test_config_maps_change_in_place_when_the_provider_says_so(lab: Lab) -> None:
    call = lab.call(CONFIG_MAP, enableConfigMapMutable="true")
    assert KIND.replaces(call, config_map(), config_map(), ["data.a"]) == []
    fixed = config_map() | {"immutable": True}
    assert KIND.replaces(call, fixed, fixed, ["data.a"]) == ["data.a"]
    assert "data" not in force_new.force_new("v1", "Secret", True)


def test_only_a_self_named_object_must_go_first(lab: Lab) -> None:
    call = lab.call(CONFIG_MAP)
    named, made_up = config_map(), lab.checked(CONFIG_MAP, config_map(None))
    assert KIND.goes_first(call, named, named)
    assert not KIND.goes_first(call, named, config_map("other"))
    assert not KIND.goes_first(call, named, config_map(namespace="default"))
    assert not KIND.goes_first(call, made_up, made_up)


def test_the_default_namespace_is_no_difference(lab: Lab) -> None:
    call = lab.call(CONFIG_MAP)
    bare = config_map() | {"metadata": {"name": "x"}}
    spelled = config_map() | {"metadata": {"name": "x", "namespace": "default"}}
    assert KIND.comparable(call, bare) == KIND.comparable(call, spelled)


# -- secrets ---------------------------------------------------------------------------------------------------


def secret(**more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "creds", "namespace": "kube-system"}, **more}


def test_texts_of_a_secret_end_up_encoded_once(lab: Lab) -> None:
    inputs = lab.checked(SECRET, secret(stringData={"key": "value"}, data={"other": "Zm9v"}))
    assert inputs["data"] == {"key": base64.b64encode(b"value").decode(), "other": "Zm9v"}
    assert "stringData" not in inputs


def test_data_of_a_secret_is_marked_and_texts_not_known_yet_are_left(lab: Lab) -> None:
    filled = KIND.defaults(lab.call(SECRET), secret(stringData={"key": "value"}), {})
    assert isinstance(filled["data"], Secret)
    assert KIND.defaults(lab.call(SECRET), secret(stringData={"key": UNKNOWN}), {}) == {}
    marked = KIND.marked(secret(data={"key": "dmFsdWU="}), {})
    assert isinstance(marked["data"], Secret)


def test_marks_of_inputs_pass_on_to_outputs_and_nothing_else(lab: Lab) -> None:
    inputs = deployment()
    inputs["metadata"]["annotations"] = {"sum": Secret("abc"), "plain": "x"}
    outputs = plain(inputs)
    marked = KIND.marked(outputs, inputs)
    assert marked["metadata"]["annotations"] == {"sum": Secret("abc"), "plain": "x"}
    assert marked["spec"] == outputs["spec"]
    inputs["spec"]["template"]["spec"]["containers"][0]["args"] = ["a", Secret("b")]
    outputs = plain(inputs)
    assert KIND.marked(outputs, inputs)["spec"]["template"]["spec"]["containers"] == Secret(
        outputs["spec"]["template"]["spec"]["containers"]
    )


def test_data_that_is_not_base64_is_refused(lab: Lab) -> None:
    with pytest.raises(CloudError, match=r"data\[key\]: illegal base64 data"):
        lab.create(SECRET, secret(data={"key": "s3cr3t!"}))


# -- previews --------------------------------------------------------------------------------------------------


def test_a_preview_answers_with_the_inputs_and_no_status(lab: Lab) -> None:
    inputs = deployment()
    assert KIND.preview(lab.call(DEPLOYMENT), inputs, frozenset({"status"})) == inputs


def test_a_preview_asks_the_server_only_when_all_is_known(lab: Lab) -> None:
    bad = deployment(replicas=-1)
    with pytest.raises(CloudError, match=r"spec\.replicas"):
        KIND.preview(lab.call(DEPLOYMENT), bad, frozenset())
    bad["metadata"]["annotations"] = {"a": UNKNOWN}
    assert KIND.preview(lab.call(DEPLOYMENT), bad, frozenset()) == bad
    nowhere = lab.call(DEPLOYMENT, kubeconfig=lab.kubeconfig.replace("k8s.demo", "k8s.other"))
    assert KIND.preview(nowhere, deployment(replicas=-1), frozenset())


def test_a_preview_takes_what_is_made_in_the_same_run(lab: Lab) -> None:
    KIND.preview(lab.call(CONFIG_MAP), config_map(namespace="kilo"), frozenset())
    KIND.preview(lab.call(PEER), peer(), frozenset())


# -- what the API server refuses -------------------------------------------------------------------------------


def test_a_good_deployment_becomes_available(lab: Lab) -> None:
    _, outputs = lab.create(DEPLOYMENT, deployment(replicas=2))
    assert outputs["status"]["availableReplicas"] == 2


def test_a_daemon_set_counts_the_nodes(lab: Lab) -> None:
    inputs = deployment() | {"kind": "DaemonSet"}
    _, outputs = lab.create(DAEMON_SET, inputs)
    assert outputs["status"]["desiredNumberScheduled"] == 1


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the good deployment with one part of it changed."""
    obj: Any = deployment()
    target, *rest = [obj], *path.split(".")
    place: Any = target[0]
    for part in rest[:-1]:
        place = place[int(part)] if part.isdigit() else place.setdefault(part, {})
    place[rest[-1]] = value
    return dict(obj)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("metadata.name", "App", "RFC 1123"),
        ("metadata.name", "a" * 254, "253"),
        ("metadata.labels", {"app": "a b"}, r"metadata\.labels\[app\]"),
        ("metadata.labels", {"app": "a" * 64}, "63"),
        ("metadata.labels", {"-app": "a"}, "labels"),
        ("metadata.labels", {"Example/app": "a"}, "DNS subdomain"),
        ("metadata.annotations", {"a": 1}, "expected a string"),
        ("spec.selector", {}, r"spec\.selector: Required"),
        ("spec.selector.matchLabels", {"app": "y"}, "does not match template"),
        ("spec.template.spec.containers", [], "containers: Required"),
        ("spec.template.spec.restartPolicy", "Never", "restartPolicy"),
        ("spec.template.spec.containers.0.image", "", "image: Required"),
        ("spec.template.spec.containers.0.name", "App_1", "RFC 1123"),
        ("spec.template.spec.containers.0.args", ["--v", 2], r"args\[1\]: expected a string"),
        ("spec.template.spec.containers.0.env", [{"name": "A", "value": 1}], "expected a string"),
        ("spec.template.spec.containers.0.env", [{"name": "1 A"}], "environment variable"),
        ("spec.template.spec.containers.0.ports", [{"containerPort": 0}], "between 1 and 65535"),
        ("spec.template.spec.containers.0.ports", [{"containerPort": 80, "name": "a-name-too-long-x"}], "at most 15"),
        ("spec.template.spec.containers.0.volumeMounts", [{"name": "x", "mountPath": "/x"}], "Not found: 'x'"),
        ("spec.template.spec.containers.0.resources", {"requests": {"cpu": "100 m"}}, "quantities"),
        (
            "spec.template.spec.containers.0.resources",
            {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}},
            "less",
        ),
        ("spec.template.spec.containers.0.resources", {"limits": {"gpu": "1"}}, "standard resource"),
        ("spec.template.spec.tolerations", [{"operator": "Exists", "value": "x"}], "value must be empty"),
        ("spec.template.spec.tolerations", [{"key": "a", "effect": "NoStart"}], "effect"),
        ("spec.template.spec.tolerations", [{"value": "x"}], "must be Exists"),
        ("spec.template.spec.nodeSelector", {"a": True}, "expected a string"),
    ],
)
def test_a_bad_deployment_is_refused(lab: Lab, path: str, value: Any, message: str) -> None:
    with pytest.raises(CloudError, match=message) as refused:
        lab.create(DEPLOYMENT, changed(path, value))
    assert refused.value.code == "Invalid"
    assert not lab.world.find("kubernetes", "apps/v1/Deployment")


@pytest.mark.parametrize(
    ("type", "obj", "message"),
    [
        ("v1/Namespace", {"metadata": {"name": "a.b"}}, "label"),
        ("v1/Service", {"metadata": {"name": "1a"}, "spec": {"ports": [{"port": 80}]}}, "RFC 1035"),
        ("v1/Service", {"metadata": {"name": "a"}, "spec": {}}, r"spec\.ports: Required"),
        ("v1/ConfigMap", {"metadata": {"name": "a"}, "data": {"a/b": "x"}}, "key must consist"),
        ("v1/ConfigMap", {"metadata": {"name": "a"}, "data": {"a": 1}}, "expected a string"),
        ("v1/ConfigMap", {"metadata": {"name": "a"}, "data": {"a": "x" * (1 << 20) + "x"}}, "Too long"),
        ("v1/Secret", {"metadata": {"name": "a"}, "type": "kubernetes.io/tls", "data": {}}, "tls.crt"),
        ("batch/v1/CronJob", {"metadata": {"name": "a"}, "spec": {"schedule": "* *"}}, "schedule"),
        ("batch/v1/CronJob", {"metadata": {"name": "a" * 53}, "spec": {}}, "52"),
        ("batch/v1/Job", {"metadata": {"name": "a"}, "spec": {}}, "restartPolicy: Required"),
        (
            "policy/v1/PodDisruptionBudget",
            {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "maxUnavailable": 1}},
            "both",
        ),
        ("scheduling.k8s.io/v1/PriorityClass", {"metadata": {"name": "system-x"}, "value": 1}, "system-"),
        ("rbac.authorization.k8s.io/v1/ClusterRole", {"metadata": {"name": "a/b"}, "rules": []}, "'/'"),
        (
            "rbac.authorization.k8s.io/v1/Role",
            {"metadata": {"name": "a"}, "rules": [{"verbs": ["get"], "resources": ["x"]}]},
            "at least one api group",
        ),
        (
            "rbac.authorization.k8s.io/v1/ClusterRoleBinding",
            {"kind": "ClusterRoleBinding", "metadata": {"name": "a"}, "roleRef": {"kind": "Role", "name": "x"}},
            r"roleRef\.kind",
        ),
        (
            "rbac.authorization.k8s.io/v1/RoleBinding",
            {
                "metadata": {"name": "a"},
                "roleRef": {"kind": "Role", "name": "x"},
                "subjects": [{"kind": "ServiceAccount", "name": "x"}],
            },
            "namespace: Required",
        ),
        (
            "apiextensions.k8s.io/v1/CustomResourceDefinition",
            peers() | {"metadata": {"name": "peer.kilo.squat.ai"}},
            r"peers\.kilo\.squat\.ai",
        ),
        (
            "apiextensions.k8s.io/v1/CustomResourceDefinition",
            {**peers(), "spec": {**peers()["spec"], "versions": [{"name": "v1", "storage": False}]}},
            "exactly one version",
        ),
    ],
)
def test_other_bad_objects_are_refused(type: str, obj: dict[str, Any], message: str) -> None:

    assert any(re.search(message, line) for line in rules.problems(type, obj)), rules.problems(type, obj)


def test_good_objects_have_no_problem() -> None:
    assert rules.problems("apps/v1/Deployment", deployment()) == []
    assert rules.problems("v1/ConfigMap", config_map()) == []
    assert rules.problems("apiextensions.k8s.io/v1/CustomResourceDefinition", peers()) == []
    assert rules.problems("rbac.authorization.k8s.io/v1/ClusterRole", {"metadata": {"name": "system:x"}}) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [("100m", "0.1"), ("1Gi", "1073741824"), ("2", "2"), (1, "1"), ("1e3", "1000"), ("1.5k", "1500")],
)
def test_quantities(text: Any, number: str) -> None:
    assert pods.quantity(text) is not None
    assert pods.quantity(text) == pods.quantity(number)


@pytest.mark.parametrize("text", ["", "1 Gi", "1GB", "abc", "1Gi1", True])
def test_what_is_no_quantity(text: Any) -> None:
    assert pods.quantity(text) is None


# -- pods that would not come ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        {"hostNetwork": True},
        {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]},
        {"containers": [{"name": "app", "image": "x", "securityContext": {"privileged": True}}]},
        {"containers": [{"name": "app", "image": "x", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
        {"containers": [{"name": "app", "image": "x", "securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}]},
    ],
)
def test_pods_that_the_namespace_keeps_out_are_refused(lab: Lab, spec: dict[str, Any]) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kilo"}}
    lab.create(NAMESPACE, namespace)
    with pytest.raises(CloudError, match='PodSecurity "baseline:latest" of the namespace kilo'):
        lab.create(DEPLOYMENT, deployment(spec, "kilo"))
    lab.create(DEPLOYMENT, deployment(spec))
    label = {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}
    free = copy.deepcopy(namespace) | {"metadata": {"name": "free", **label}}
    lab.create(NAMESPACE, free)
    lab.create(DEPLOYMENT, deployment(spec, "free"))


def test_the_restricted_level_asks_for_more() -> None:
    spec = deployment()["spec"]["template"]["spec"]
    assert security.violations(spec, "baseline") == []
    assert len(security.violations(spec, "restricted")) == 4
    context = {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    good = {"containers": [{"name": "app", "image": "x", "securityContext": context}]}
    assert security.violations(good, "restricted") == []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"serviceAccountName": "robot"}, 'serviceaccount "robot" not found'),
        ({"priorityClassName": "important"}, "no PriorityClass with name important"),
        ({"volumes": [{"name": "v", "configMap": {"name": "settings"}}]}, 'configmap "settings" not found'),
        ({"volumes": [{"name": "v", "secret": {"secretName": "creds"}}]}, 'secret "creds" not found'),
        ({"nodeSelector": {"pool": "azure"}}, "a node that takes the pods"),
        ({"tolerations": []}, "a node that takes the pods"),
        (
            {"containers": [{"name": "a", "image": "x", "envFrom": [{"secretRef": {"name": "creds"}}]}]},
            'secret "creds" not found',
        ),
    ],
)
def test_what_pods_would_wait_for_is_named(lab: Lab, spec: dict[str, Any], message: str) -> None:
    with pytest.raises(CloudError, match=message):
        lab.create(DEPLOYMENT, deployment(spec))
    assert not lab.world.find("kubernetes", "apps/v1/Deployment")
    lab.create(DEPLOYMENT, deployment(spec, replicas=0))


def test_a_key_that_a_secret_lacks_is_named(lab: Lab) -> None:
    reference = {"secretKeyRef": {"name": "creds", "key": "token"}}
    spec = {"containers": [{"name": "a", "image": "x", "env": [{"name": "TOKEN", "valueFrom": reference}]}]}
    lab.create(SECRET, secret(stringData={"other": "x"}))
    with pytest.raises(CloudError, match="couldn't find key token in secret"):
        lab.create(DEPLOYMENT, deployment(spec))
    reference["secretKeyRef"]["key"] = "other"
    lab.create(DEPLOYMENT, deployment(spec))


def test_a_workload_that_is_not_awaited_may_wait(lab: Lab) -> None:
    waiting = deployment({"serviceAccountName": "robot"})
    waiting["metadata"]["annotations"] = {"pulumi.com/skipAwait": "true"}
    lab.create(DEPLOYMENT, waiting)


def test_what_every_cluster_has_is_there(lab: Lab) -> None:
    spec = {"priorityClassName": "system-cluster-critical", "serviceAccountName": "default"}
    lab.create(DEPLOYMENT, deployment(spec))


def test_talos_writes_the_secret_of_its_own_service_accounts(lab: Lab) -> None:
    token = "kubernetes:talos.dev/v1alpha1:ServiceAccount"
    spec = {"volumes": [{"name": "v", "secret": {"secretName": "ccm"}}]}

    def account(namespace: str, role: str) -> dict[str, Any]:
        metadata = {"name": "ccm", "namespace": namespace}
        return {
            "apiVersion": "talos.dev/v1alpha1",
            "kind": "ServiceAccount",
            "metadata": metadata,
            "spec": {"roles": [role]},
        }

    lab.create(token, account("kube-system", "os:admin"))
    with pytest.raises(CloudError, match="os:admin is not among allowedRoles"):
        lab.create(DEPLOYMENT, deployment(spec))
    KIND.delete(lab.call(token), "kube-system/ccm", account("kube-system", "os:admin"))
    lab.create(token, account("default", "os:reader"))
    with pytest.raises(CloudError, match="allowedKubernetesNamespaces"):
        lab.create(DEPLOYMENT, deployment(spec, "default"))
    lab.create(token, account("kube-system", "os:reader"))
    lab.create(DEPLOYMENT, deployment(spec))


def test_a_node_can_be_deleted_behind_pulumis_back(lab: Lab) -> None:
    lab.world.put("kubernetes", "v1/Node", "demo/spot-1", {"metadata": {"name": "spot-1"}})
    package.ACTIONS["delete-object"](lab.world, ["v1/Node", "demo/spot-1"])
    assert lab.world.get("kubernetes", "v1/Node", "demo/spot-1") is None
    with pytest.raises(CloudError, match="kind and id"):
        package.ACTIONS["delete-object"](lab.world, ["v1/Node", "demo/spot-1"])


_THREADS = """
import threading
from lab import sdk_schema

tokens = [f"kubernetes:{t}" for t in (
    "core/v1:Secret", "core/v1:ConfigMap", "core/v1:Namespace", "rbac.authorization.k8s.io/v1:ClusterRole",
)] * 4
start, wrong = threading.Barrier(len(tokens)), []

def look(token):
    start.wait()
    schema = sdk_schema.resource(token)
    if schema is None or sdk_schema.problems(schema, {"metadata": {"name": "x"}}):
        wrong.append(token)

threads = [threading.Thread(target=look, args=(token,)) for token in tokens]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong, wrong
"""


def test_the_first_calls_may_come_all_at_once() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", _THREADS], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
