import json
import threading
import urllib.parse
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hybrid_talos import node_collector_script as script
from hybrid_talos._contract import BadInputs
from hybrid_talos.node_collector import only_pool_nodes
from hybrid_talos.talos_cloud_controller import TalosCloudController
from pool_recorder import run

ARGS = {"kubernetes_version": "1.36.3"}


def controller(**changes):
    def program():
        made = TalosCloudController("cloud", {**ARGS, **changes})
        return {"name": made.deployment_name}

    return run(program)


def refusal(**changes):
    with pytest.raises(BadInputs) as caught:
        controller(**changes)
    return str(caught.value)


# The controller


def test_the_deployment_runs_where_new_machines_cannot_keep_it_from_starting():
    recorder = controller()
    deployment = recorder.one("-deployment").inputs
    assert recorder.values["name"] == "cloud-talos-ccm"
    assert deployment["metadata"]["namespace"] == "kube-system"
    pod = deployment["spec"]["template"]["spec"]
    assert pod["hostNetwork"] is True
    assert pod["dnsPolicy"] == "ClusterFirstWithHostNet"
    tolerated = {(one["key"], one["effect"]) for one in pod["tolerations"]}
    assert ("node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule") in tolerated
    assert ("node-role.kubernetes.io/control-plane", "NoSchedule") in tolerated
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]
    # With the port of the host, a second pod does not fit on a single control plane.
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_the_controller_writes_ids_and_approves_certificates_through_the_machine_itself():
    (container,) = controller().one("-deployment").inputs["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "ghcr.io/siderolabs/talos-cloud-controller-manager:v1.12.0"
    assert "--controllers=cloud-node,node-csr-approval" in container["args"]
    assert "--leader-elect-resource-name=cloud-controller-manager-talos" in container["args"]
    environment = {
        one["name"]: one.get("value") or one["valueFrom"]["fieldRef"]["fieldPath"] for one in container["env"]
    }
    assert environment == {
        "SERVICE_ACCOUNT": "spec.serviceAccountName",
        "TALOS_ENDPOINTS": "status.hostIP",
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "7445",
    }
    port = int(container["ports"][0]["containerPort"])
    assert f"--secure-port={port}" in container["args"]
    assert port < 32768, "a port of the ephemeral range may be taken"
    assert container["livenessProbe"]["httpGet"]["port"] == port


def test_talos_hands_out_a_reader_and_the_pod_mounts_it():
    recorder = controller()
    account = recorder.one("-talos-account")
    assert account.type == "kubernetes:talos.dev/v1alpha1:ServiceAccount"
    assert account.inputs["spec"] == {"roles": ["os:reader"]}
    volumes = {one["name"]: one for one in recorder.one("-deployment").inputs["spec"]["template"]["spec"]["volumes"]}
    assert volumes["talos-secrets"]["secret"]["secretName"] == account.inputs["metadata"]["name"]
    # In a folder of its group alone.
    assert volumes["talos-secrets"]["secret"]["defaultMode"] == 0o440
    assert "-talos-account" in " ".join(recorder.one("-deployment").dependencies)


def test_its_rights_are_those_of_the_published_manifest_but_for_tokens_of_other_accounts():
    recorder = controller()
    pod = recorder.one("cloud-deployment").inputs["spec"]["template"]["spec"]
    assert not any("service-account-credentials" in flag for flag in pod["containers"][0]["args"])
    assert recorder.one("cloud-lease-role").inputs["rules"] == [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["get", "update"],
            "resourceNames": ["cloud-controller-manager-talos"],
        },
    ]
    granted = {
        (group, resource, verb)
        for rule in recorder.one("cloud-role").inputs["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert ("", "nodes", "delete") not in granted
    assert not any("serviceaccounts" in resource for _, resource, _ in granted)
    assert {
        ("", "nodes", "patch"),
        ("", "nodes/status", "patch"),
        ("certificates.k8s.io", "signers", "approve"),
    } <= granted
    assert not any("*" in part for entry in granted for part in entry)
    assert len(granted) == 13


def test_what_does_not_fit_is_refused():
    assert "1.30" in refusal(kubernetes_version="1.29.4")
    assert "Talos 1.13.0 runs" in refusal(talos_version="1.13.0", kubernetes_version="1.30.0")
    assert "version in quotes" in refusal(kubernetes_version="latest")
    assert "collector.gone_after_minutes" in refusal(collector={"gone_after_minutes": 1})
    assert "silent_pool_after_minutes" in refusal(collector={"silent_pool_after_minutes": 20})
    assert "no such input" in refusal(transformation=[])


def test_two_controllers_share_no_object_names():
    def program():
        for name in ("one", "two"):
            TalosCloudController(name, dict(ARGS))

    recorder = run(program)
    objects = [(found.type, found.inputs["metadata"]["name"]) for found in recorder.found if "metadata" in found.inputs]
    assert len(objects) == len(set(objects))
    assert all(found.parent for found in recorder.found if found.type.startswith("kubernetes:"))


# The collector's manifests


def test_the_collector_runs_restricted_with_no_more_rights_than_it_uses():
    recorder = controller(collector={"gone_after_minutes": 45, "silent_pool_after_minutes": 600, "dry_run": True})
    job = recorder.one("cloud-collector").inputs["spec"]
    pod = job["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {one["name"]: one["value"] for one in container["env"]} == {
        "POOL_LABEL": "hybrid-talos.dev/pool",
        "SCALED_AWAY_SECONDS": "300",
        "GONE_SECONDS": "2700",
        "SILENT_POOL_SECONDS": "36000",
        "DRY_RUN": "true",
    }
    assert recorder.one("-collector-role").inputs["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "delete"]}
    ]


def test_the_config_map_holds_the_script_that_is_tested_here():
    code = controller().one("-collector-script").inputs["data"]["collect.py"]
    with open(script.__file__, encoding="utf-8") as file:
        assert code == file.read()
    compile(code, "collect.py", "exec")


def test_admission_keeps_the_collector_within_the_pools():
    recorder = controller()
    spec = recorder.one("-collector-policy").inputs["spec"]
    name = recorder.one("-collector-account").inputs["metadata"]["name"]
    assert spec["matchConditions"][0]["expression"] == (
        f"request.userInfo.username == 'system:serviceaccount:kube-system:{name}'"
    )
    assert spec["failurePolicy"] == "Fail"
    assert "'hybrid-talos.dev/pool' in oldObject.metadata.labels" in spec["validations"][0]["expression"]
    assert spec["matchConstraints"]["resourceRules"][0]["operations"] == ["DELETE"]
    binding = recorder.one("-collector-policy-binding").inputs["spec"]
    assert binding == {"policyName": name, "validationActions": ["Deny"]}
    assert "collector-policy-binding" in " ".join(recorder.one("-collector-binding").dependencies)
    assert only_pool_nodes("x")["match_conditions"][0]["expression"].endswith(":x'")


def test_the_collector_can_be_left_out():
    assert "kubernetes:batch/v1:CronJob" not in controller(collector={"enabled": False}).types()


# What it takes for gone

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LIMITS = script.Limits(pool_label="pool", scaled_away=300, gone=1800, silent_pool=86400)


def node(name, pool="a", status="Unknown", minutes=0, taints=(), **labels):
    since = (NOW - timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
    own = {"pool": pool} if pool else {}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "7", "labels": {**own, **labels}},
        "spec": {"taints": [{"key": key} for key in taints]},
        "status": {
            "conditions": [
                {"type": "MemoryPressure", "status": "Unknown", "lastTransitionTime": since},
                {"type": "Ready", "status": status, "lastTransitionTime": since},
            ]
        },
    }


ALIVE = node("alive", status="True")


def gone(*nodes):
    return [found["metadata"]["name"] for found, _ in script.gone(nodes, NOW, LIMITS)]


def test_a_silent_node_goes_when_its_pool_is_alive_and_the_time_is_over():
    assert gone(ALIVE, node("x", minutes=30)) == ["x"]
    assert gone(ALIVE, node("x", minutes=29)) == []


def test_a_pool_that_is_silent_as_a_whole_waits_a_day():
    assert gone(node("x", minutes=300), node("y", minutes=300)) == []
    assert gone(node("x", minutes=1440), node("y", minutes=300)) == ["x"]
    assert gone(node("other", pool="b", status="True"), node("x", minutes=300)) == []


def test_a_node_that_the_autoscaler_chose_goes_sooner_even_as_the_last_of_its_pool():
    tainted = [script.SCALED_AWAY]
    assert gone(node("x", minutes=5, taints=tainted)) == ["x"]
    assert gone(node("x", minutes=4, taints=tainted)) == []


@pytest.mark.parametrize("status", ["True", "False"])
def test_a_node_whose_kubelet_reports_never_goes(status):
    assert gone(ALIVE, node("x", status=status, minutes=10**5, taints=[script.SCALED_AWAY])) == []


def test_only_pool_nodes_go_and_no_control_plane():
    silent = {"minutes": 10**5, "taints": [script.SCALED_AWAY]}
    assert gone(ALIVE, node("static", pool=None, **silent)) == []
    assert gone(ALIVE, node("cp", **silent, **{script.CONTROL_PLANE: ""})) == []


def test_a_node_without_conditions_or_labels_is_left():
    bare = {"metadata": {"name": "n", "uid": "u", "resourceVersion": "1"}}
    assert gone(bare, {**bare, "metadata": {**bare["metadata"], "labels": {"pool": "a"}}, "status": {}}) == []


# The script against a server


@pytest.fixture
def api():
    """Serve two pages of nodes, and deletions that meet a changed and a vanished node."""
    deleted = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self, status, body):
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self):
            assert self.headers["Authorization"] == "Bearer token"
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            if query.get("continue") == ["a/b="]:
                nodes = [node(name, minutes=60) for name in ("ghost", "back", "raced")]
                self.answer(200, {"metadata": {}, "items": nodes})
            else:
                self.answer(200, {"metadata": {"continue": "a/b="}, "items": [ALIVE]})

        def do_DELETE(self):
            name = self.path.rsplit("/", 1)[1]
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            deleted.append((name, body))
            self.answer({"ghost": 200, "back": 409, "raced": 404}.get(name, 403), {})

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield script.Api(f"http://127.0.0.1:{server.server_port}", "token"), deleted
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_sweep_reads_all_pages_and_deletes_only_what_it_has_read(api):
    client, deleted = api
    said = []
    script.sweep(client, NOW, LIMITS, dry_run=False, say=said.append)
    assert [name for name, _ in deleted] == ["ghost", "back", "raced"]
    assert deleted[0][1] == {"preconditions": {"uid": "uid-ghost", "resourceVersion": "7"}}
    assert [line.split(":")[0] for line in said] == ["deleted node ghost", "left node back", "left node raced"]


def test_a_dry_run_deletes_nothing(api):
    client, deleted = api
    said = []
    script.sweep(client, NOW, LIMITS, dry_run=True, say=said.append)
    assert deleted == []
    assert len(said) == 3


def test_a_refusal_is_an_error(api):
    client, _ = api
    with pytest.raises(OSError, match="403"):
        client.delete(node("forbidden"))
