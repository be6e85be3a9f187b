"""What the simulated Talos provider makes, refuses and keeps."""

import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.provider import Call
from lab.sdk_schema import UNKNOWN
from lab.talos import configs, invokes, machines, package, pki, talosctl
from lab.talos.bundles import bundle_of_secrets, secrets_of_bundle
from lab.world import CloudError, World

pytestmark = pytest.mark.lab

ENDPOINT = "https://k8s.demo.example.com:6443"


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def call(world: World) -> Call:
    return Call(world, {})


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    call = Call(World(tmp_path_factory.mktemp("secrets")), {})
    return package.Secrets().create(call, {"talosVersion": "v1.13"})[1]


def config(call: Call, secrets: dict[str, Any], role: str = "controlplane", **more: Any) -> str:
    text = invokes.get_machine_configuration(
        call,
        {
            "clusterName": "demo",
            "clusterEndpoint": ENDPOINT,
            "machineType": role,
            "machineSecrets": secrets["machineSecrets"],
            "kubernetesVersion": "1.36.3",
            "talosVersion": "v1.13",
            **more,
        },
    )["machineConfiguration"]
    assert isinstance(text, str)
    return text


def hostname(name: str) -> str:
    return f"apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: {name}\nauto: 'off'\n"


def apply(call: Call, secrets: dict[str, Any], node: str, role: str = "controlplane", **more: Any) -> dict[str, Any]:
    inputs = {
        "node": node,
        "clientConfiguration": secrets["clientConfiguration"],
        "machineConfigurationInput": config(call, secrets, role),
        **more,
    }
    return package.ConfigurationApply().create(call, inputs)[1]


def bootstrap(call: Call, secrets: dict[str, Any], node: str) -> None:
    package.Bootstrap().create(call, {"node": node, "clientConfiguration": secrets["clientConfiguration"]})


def kubeconfig(call: Call, secrets: dict[str, Any], node: str) -> dict[str, Any]:
    inputs = {"node": node, "clientConfiguration": secrets["clientConfiguration"]}
    return package.Kubeconfig().create(call, inputs)[1]


# -- secrets ---------------------------------------------------------------------------------------------------


def test_secrets_have_the_shape_of_the_real_provider(secrets: dict[str, Any]) -> None:
    made = secrets["machineSecrets"]
    assert set(made) == {"cluster", "secrets", "trustdinfo", "certs"}
    assert set(made["certs"]) == {"etcd", "k8s", "k8sAggregator", "k8sServiceaccount", "os"}
    assert set(made["secrets"]) == {"bootstrapToken", "secretboxEncryptionSecret"}
    assert set(secrets["clientConfiguration"]) == {"caCertificate", "clientCertificate", "clientKey"}
    client = secrets["clientConfiguration"]
    assert client["caCertificate"] == made["certs"]["os"]["cert"]
    assert pki.trusted(client["clientCertificate"], client["caCertificate"]) is None


def test_the_secrets_bundle_survives_the_way_through_the_program(secrets: dict[str, Any]) -> None:
    assert secrets_of_bundle(bundle_of_secrets(secrets["machineSecrets"])) == secrets["machineSecrets"]


def test_secrets_are_replaced_only_when_the_contract_goes_back() -> None:
    kind = package.Secrets()
    call: Any = None
    assert kind.replaces(call, {"talosVersion": "v1.13"}, {"talosVersion": "1.14.0"}, ["talosVersion"]) == []
    assert kind.replaces(call, {"talosVersion": "v1.13"}, {"talosVersion": "1.12"}, ["talosVersion"])


def test_secrets_are_unknown_in_a_preview(call: Call) -> None:
    seen = package.Secrets().preview(call, {}, frozenset({"machineSecrets", "clientConfiguration", "talosVersion"}))
    assert seen == {"machineSecrets": UNKNOWN, "clientConfiguration": UNKNOWN, "talosVersion": "v1.13"}


def test_a_version_that_is_none_is_refused_in_check(call: Call) -> None:
    assert [p.path for p in package.Secrets().check(call, {"talosVersion": "banana"})] == ["talosVersion"]
    assert not list(package.Secrets().check(call, {"talosVersion": UNKNOWN}))


# -- configs ---------------------------------------------------------------------------------------------------


def test_the_same_inputs_give_the_same_config(call: Call, secrets: dict[str, Any]) -> None:
    first = config(call, secrets)
    talosctl._results.clear()
    assert config(call, secrets) == first


def test_a_config_carries_versions_patches_and_no_comments(call: Call, secrets: dict[str, Any]) -> None:
    patch = "machine:\n  sysctls:\n    net.ipv4.ip_forward: '1'\n"
    text = config(call, secrets, "worker", configPatches=[patch])
    machine = configs.documents(text)[0]["machine"]
    assert machine["sysctls"] == {"net.ipv4.ip_forward": "1"}
    assert machine["kubelet"]["image"].endswith(":v1.36.3")
    assert machine["install"]["image"] == "ghcr.io/siderolabs/installer:v1.13.0"
    assert "#" not in text
    assert "#" in config(call, secrets, "worker", docs=True)


def test_a_worker_config_holds_no_authority_key(call: Call, secrets: dict[str, Any]) -> None:
    worker, plane = configs.read(config(call, secrets, "worker")), configs.read(config(call, secrets))
    assert worker.kubernetes_ca.key == ""
    assert plane.kubernetes_ca.key
    assert worker.cluster_id == plane.cluster_id == secrets["machineSecrets"]["cluster"]["id"]


def test_lost_fields_of_the_secrets_are_named(call: Call, secrets: dict[str, Any]) -> None:
    given = secrets["machineSecrets"]
    broken = {**given, "secrets": {"bootstrap_token": given["secrets"]["bootstrapToken"]}}
    with pytest.raises(CloudError, match=r"machineSecrets\.secrets\.bootstrapToken"):
        config(call, {"machineSecrets": broken})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clusterEndpoint": "k8s.demo.example.com:6443"}, "https://"),
        ({"machineType": "controlplain"}, "machineType"),
        ({"clusterName": ""}, "clusterName"),
        ({"configPatches": ["machine: {bogus: 1}"]}, r"unknown keys.*machine\.bogus"),
        ({"talosVersion": "latest"}, "talosVersion"),
    ],
)
def test_bad_arguments_are_refused(call: Call, secrets: dict[str, Any], change: dict[str, Any], message: str) -> None:
    with pytest.raises(CloudError, match=message):
        config(call, secrets, **change)


@pytest.mark.parametrize(
    "patch",
    [
        "machine: {bogus: s3cr3t-marker}",
        "machine: {bogus: [s3cr3t-marker]}",
        "machine:\n  bogus: |\n    s3cr3t-marker\n    more\n",
        "machine: [s3cr3t-marker",
        "machine: {install: s3cr3t-marker}",
        "s3cr3t-marker",
    ],
)
def test_a_refusal_never_quotes_a_value(call: Call, secrets: dict[str, Any], patch: str) -> None:
    with pytest.raises(CloudError) as refused:
        apply(call, secrets, "192.0.2.11", configPatches=[patch])
    assert "s3cr3t-marker" not in str(refused.value)
    assert refused.value.code == "InvalidArgument"


def test_lost_fields_of_the_client_are_named(call: Call) -> None:
    with pytest.raises(CloudError, match=r"clientConfiguration\.caCertificate"):
        invokes.get_client_configuration(call, {"clusterName": "demo", "clientConfiguration": {"ca_certificate": "x"}})


def test_a_client_config_is_a_talosconfig(call: Call, secrets: dict[str, Any]) -> None:
    given = {"clusterName": "demo", "clientConfiguration": secrets["clientConfiguration"]}
    lists = {"endpoints": ["192.0.2.11"], "nodes": ["192.0.2.12"]}
    loaded = yaml.safe_load(invokes.get_client_configuration(call, given | lists)["talosConfig"])
    assert loaded["context"] == "demo"
    context = loaded["contexts"]["demo"]
    assert (context["endpoints"], context["nodes"]) == (["192.0.2.11"], ["192.0.2.12"])
    assert context["key"] == secrets["clientConfiguration"]["clientKey"]


# -- applying --------------------------------------------------------------------------------------------------


def test_an_applied_config_stands_in_the_machine_record(call: Call, secrets: dict[str, Any]) -> None:
    outputs = apply(call, secrets, "192.0.2.11", configPatches=[hostname("cp-1")])
    doc = call.world.get("talos", "machine", "192.0.2.11")
    assert doc is not None
    assert (doc["role"], doc["hostname"], doc["stage"]) == ("controlplane", "cp-1", "configured")
    assert doc["config_sha256"] == outputs["machineConfigurationHash"] == pki.digest(outputs["machineConfiguration"])
    assert outputs["endpoint"] == "192.0.2.11"
    assert outputs["resolvedApplyMode"] == "auto"
    assert secrets["machineSecrets"]["certs"]["k8s"]["key"] not in str(doc)


def test_a_config_that_no_machine_takes_is_refused(call: Call, secrets: dict[str, Any]) -> None:
    patch = "machine:\n  ca:\n    $patch: delete\n"
    with pytest.raises(CloudError, match="InvalidArgument"):
        apply(call, secrets, "192.0.2.11", configPatches=[patch])
    assert call.world.get("talos", "machine", "192.0.2.11") is None


def test_two_machines_of_one_name_are_refused(call: Call, secrets: dict[str, Any]) -> None:
    apply(call, secrets, "192.0.2.11", configPatches=[hostname("cp-1")])
    with pytest.raises(CloudError, match="cp-1 is that of the machine 192.0.2.11"):
        apply(call, secrets, "192.0.2.12", configPatches=[hostname("cp-1")])


def test_a_machine_does_not_change_its_role(call: Call, secrets: dict[str, Any]) -> None:
    apply(call, secrets, "192.0.2.11")
    with pytest.raises(CloudError, match="cannot become a worker"):
        apply(call, secrets, "192.0.2.11", "worker")


def test_a_configured_machine_takes_only_clients_of_its_own_cluster(call: Call, secrets: dict[str, Any]) -> None:
    apply(call, secrets, "192.0.2.11")
    stranger = package.Secrets().create(call, {})[1]
    with pytest.raises(CloudError, match="unknown authority"):
        apply(call, stranger, "192.0.2.11")


def test_a_machine_in_maintenance_is_not_reached_through_another(call: Call, secrets: dict[str, Any]) -> None:
    apply(call, secrets, "192.0.2.11")
    with pytest.raises(CloudError, match="maintenance mode"):
        apply(call, secrets, "192.0.2.21", "worker", endpoint="192.0.2.11")
    apply(call, secrets, "192.0.2.21", "worker")
    apply(call, secrets, "192.0.2.21", "worker", endpoint="192.0.2.11")


@pytest.mark.parametrize("label", ["node-role.kubernetes.io/worker", "example.k8s.io/tier"])
def test_labels_that_a_worker_may_not_set_are_refused(call: Call, secrets: dict[str, Any], label: str) -> None:
    patch = yaml.safe_dump({"machine": {"nodeLabels": {label: ""}}})
    with pytest.raises(CloudError, match="NodeRestriction"):
        apply(call, secrets, "192.0.2.21", "worker", configPatches=[patch])


def test_own_and_topology_labels_are_taken(call: Call, secrets: dict[str, Any]) -> None:
    labels = {"topology.kubernetes.io/zone": "a", "example.com/tier": "batch", "node.kubernetes.io/pool": "x"}
    patch = yaml.safe_dump({"machine": {"nodeLabels": labels}})
    apply(call, secrets, "192.0.2.21", "worker", configPatches=[patch])
    assert call.world.get("talos", "machine", "192.0.2.21")


def test_a_preview_renders_the_config_once_it_is_known(call: Call, secrets: dict[str, Any]) -> None:
    kind = package.ConfigurationApply()
    outputs = frozenset({"machineConfiguration", "machineConfigurationHash", "endpoint", "resolvedApplyMode"})
    inputs = {"node": "192.0.2.11", "clientConfiguration": UNKNOWN, "machineConfigurationInput": UNKNOWN}
    seen = kind.preview(call, inputs, outputs)
    assert seen["machineConfiguration"] is UNKNOWN
    assert seen["endpoint"] == "192.0.2.11"
    known = inputs | {"machineConfigurationInput": config(call, secrets), "configPatches": [hostname("cp-1")]}
    assert "cp-1" in kind.preview(call, known, outputs)["machineConfiguration"]
    assert kind.preview(call, known | {"configPatches": [UNKNOWN]}, outputs)["machineConfiguration"] is UNKNOWN
    assert kind.preview(call, known | {"node": UNKNOWN}, outputs)["endpoint"] is UNKNOWN
    with pytest.raises(CloudError, match="unknown keys"):
        kind.preview(call, known | {"configPatches": ["machine: {bogus: 1}"]}, outputs)


def test_a_preview_of_an_update_keeps_what_is_not_known_again(call: Call, secrets: dict[str, Any]) -> None:
    kind = package.ConfigurationApply()
    state = apply(call, secrets, "192.0.2.11", configPatches=[hostname("cp-1")])
    inputs = {"node": "192.0.2.11", "clientConfiguration": UNKNOWN, "machineConfigurationInput": UNKNOWN}
    seen = kind.preview_update(call, state, inputs)
    assert seen["machineConfiguration"] == state["machineConfiguration"]
    assert "configPatches" not in seen


@pytest.mark.parametrize(
    ("inputs", "path"),
    [
        ({"clientConfiguration": {}}, "machineConfigurationInput"),
        ({"machineConfigurationInput": UNKNOWN}, "clientConfiguration"),
        ({"machineConfigurationInput": "", "clientConfiguration": {}, "applyMode": "try"}, "applyMode"),
    ],
)
def test_inputs_that_the_provider_itself_refuses(call: Call, inputs: dict[str, Any], path: str) -> None:
    assert [p.path for p in package.ConfigurationApply().check(call, {"node": "192.0.2.11", **inputs})] == [path]


# -- bootstrap, kubeconfig, health -----------------------------------------------------------------------------


def test_a_cluster_is_bootstrapped_once(call: Call, secrets: dict[str, Any]) -> None:
    apply(call, secrets, "192.0.2.11")
    apply(call, secrets, "192.0.2.12")
    bootstrap(call, secrets, "192.0.2.11")
    assert machines.machine(call.world, "192.0.2.12")["stage"] == "bootstrapped"
    for node in ("192.0.2.11", "192.0.2.12"):
        with pytest.raises(CloudError, match="AlreadyExists: etcd data directory is not empty"):
            bootstrap(call, secrets, node)


def test_only_a_control_plane_with_a_config_is_bootstrapped(call: Call, secrets: dict[str, Any]) -> None:
    with pytest.raises(CloudError, match="no configuration"):
        bootstrap(call, secrets, "192.0.2.11")
    apply(call, secrets, "192.0.2.21", "worker")
    with pytest.raises(CloudError, match="control plane"):
        bootstrap(call, secrets, "192.0.2.21")


def test_a_kubeconfig_names_the_endpoint_and_is_signed_by_the_cluster(call: Call, secrets: dict[str, Any]) -> None:
    apply(call, secrets, "192.0.2.11")
    with pytest.raises(CloudError, match="not been bootstrapped"):
        kubeconfig(call, secrets, "192.0.2.11")
    bootstrap(call, secrets, "192.0.2.11")
    outputs = kubeconfig(call, secrets, "192.0.2.11")
    loaded = yaml.safe_load(outputs["kubeconfigRaw"])
    assert loaded["clusters"][0]["cluster"]["server"] == ENDPOINT
    assert loaded["current-context"] == "admin@demo"
    parsed = outputs["kubernetesClientConfiguration"]
    assert parsed["host"] == ENDPOINT
    assert pki.trusted(parsed["clientCertificate"], secrets["machineSecrets"]["certs"]["k8s"]["cert"]) is None
    assert b"PRIVATE KEY" in base64.b64decode(parsed["clientKey"])


def test_a_certificate_is_renewed_only_near_its_end(call: Call, secrets: dict[str, Any]) -> None:
    apply(call, secrets, "192.0.2.11")
    bootstrap(call, secrets, "192.0.2.11")
    kind, state = package.Kubeconfig(), kubeconfig(call, secrets, "192.0.2.11")
    inputs = {"node": "192.0.2.11", "clientConfiguration": secrets["clientConfiguration"]}
    assert kind.update(call, "demo", state, inputs)["kubeconfigRaw"] == state["kubeconfigRaw"]
    early = inputs | {"certificateRenewalDuration": "8761h"}
    assert kind.update(call, "demo", state, early)["kubeconfigRaw"] != state["kubeconfigRaw"]


def test_health_names_what_is_missing(call: Call, secrets: dict[str, Any]) -> None:
    arguments = {
        "clientConfiguration": secrets["clientConfiguration"],
        "endpoints": ["192.0.2.11"],
        "controlPlaneNodes": ["192.0.2.11"],
        "workerNodes": ["192.0.2.21"],
    }
    apply(call, secrets, "192.0.2.11")
    with pytest.raises(CloudError, match=r"192\.0\.2\.11 is not a member"):
        invokes.get_health(call, arguments)
    bootstrap(call, secrets, "192.0.2.11")
    with pytest.raises(CloudError, match=r"192\.0\.2\.21 has not"):
        invokes.get_health(call, arguments)
    apply(call, secrets, "192.0.2.21", "worker")
    assert invokes.get_health(call, arguments)["id"] == "cluster_health"


def test_machines_become_nodes_of_the_running_cluster(call: Call, secrets: dict[str, Any]) -> None:
    annotated = yaml.safe_dump({"machine": {"nodeAnnotations": {"kilo.squat.ai/location": "rack"}}})
    apply(call, secrets, "192.0.2.11", configPatches=[hostname("cp-1"), annotated])
    assert not call.world.find("kubernetes")
    bootstrap(call, secrets, "192.0.2.11")
    apply(call, secrets, "192.0.2.21", "worker", configPatches=[hostname("worker-1")])
    nodes = {record.id: record.doc for record in call.world.find("kubernetes", "v1/Node")}
    assert set(nodes) == {"demo/cp-1", "demo/worker-1"}
    assert nodes["demo/cp-1"]["metadata"]["annotations"] == {"kilo.squat.ai/location": "rack"}


# -- reset -----------------------------------------------------------------------------------------------------


def delete(call: Call, secrets: dict[str, Any], node: str, **on_destroy: bool) -> None:
    state = {"node": node, "endpoint": node, "clientConfiguration": secrets["clientConfiguration"]}
    package.ConfigurationApply().delete(call, "", state | ({"onDestroy": on_destroy} if on_destroy else {}))


@pytest.fixture
def three(call: Call, secrets: dict[str, Any]) -> list[str]:
    nodes = [f"192.0.2.1{n}" for n in (1, 2, 3)]
    for node in nodes:
        apply(call, secrets, node)
    bootstrap(call, secrets, nodes[0])
    return nodes


def test_a_machine_stays_as_it_is_without_a_reset(call: Call, secrets: dict[str, Any], three: list[str]) -> None:
    delete(call, secrets, three[0])
    assert machines.machine(call.world, three[0])["stage"] == "bootstrapped"


def test_members_leave_in_order_but_the_last_cannot(call: Call, secrets: dict[str, Any], three: list[str]) -> None:
    for node in three[:2]:
        delete(call, secrets, node, reset=True, graceful=True, reboot=True)
    with pytest.raises(CloudError, match="last etcd member"):
        delete(call, secrets, three[2], reset=True, graceful=True, reboot=True)
    delete(call, secrets, three[2], reset=True, graceful=False, reboot=True)
    assert not call.world.find()


def test_machines_that_do_not_leave_etcd_break_it(call: Call, secrets: dict[str, Any], three: list[str]) -> None:
    for node in three[:2]:
        delete(call, secrets, node, reset=True, graceful=False, reboot=True)
    cluster = machines.cluster_at(call.world, ENDPOINT)
    assert cluster is not None
    assert "no leader" in (machines.api_problem(call.world, cluster) or "")
    with pytest.raises(CloudError, match="no leader"):
        delete(call, secrets, three[2], reset=True, graceful=True, reboot=True)


def test_a_reset_without_a_reboot_leaves_the_machine_off(call: Call, secrets: dict[str, Any], three: list[str]) -> None:
    delete(call, secrets, three[0], reset=True, graceful=True, reboot=False)
    with pytest.raises(CloudError, match="no route to host"):
        apply(call, secrets, three[0])
    package.ACTIONS["power-on"](call.world, [three[0]])
    apply(call, secrets, three[0])


def test_a_machine_that_is_switched_off_and_on_comes_back(call: Call, three: list[str]) -> None:
    before = machines.machine(call.world, three[0])
    package.ACTIONS["power-off"](call.world, [three[0]])
    assert machines.machine(call.world, three[0])["stage"] == "off"
    package.ACTIONS["power-on"](call.world, [three[0]])
    assert machines.machine(call.world, three[0]) == before
    with pytest.raises(CloudError, match="by its address"):
        package.ACTIONS["power-off"](call.world, ["192.0.2.99"])


def test_no_secret_goes_through_arguments_or_files(
    call: Call, secrets: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    real = subprocess.Popen

    def watch(command: list[str], **options: Any) -> Any:
        commands.append(command)
        assert options["stdin"] == subprocess.DEVNULL
        return real(command, **options)

    monkeypatch.setattr(subprocess, "Popen", watch)
    talosctl._results.clear()
    apply(call, secrets, "192.0.2.11", configPatches=["machine:\n  sysctls: {kernel.marker: s3cr3t-marker}\n"])
    text = str(commands)
    assert len(commands) == 3
    assert "s3cr3t-marker" not in text
    assert secrets["machineSecrets"]["trustdinfo"]["token"] not in text
    assert all(word.startswith("@/dev/fd/") for command in commands for word in command if word.startswith("@"))


def test_secrets_are_imported_by_the_path_of_their_file(call: Call, tmp_path: Path) -> None:
    bundle = talosctl.gen_secrets("v1.13")
    path = tmp_path / "secrets.yaml"
    path.write_text(yaml.safe_dump(bundle))
    id, found = package.Secrets().imported(call, str(path))
    assert found is not None
    # As ImportState of talos_machine_secrets_resource.go says, whatever made the file.
    assert (id, found["talosVersion"]) == ("machine_secrets", "v1.3")
    assert bundle_of_secrets(found["machineSecrets"]) == bundle
    assert pki.trusted(found["clientConfiguration"]["clientCertificate"], bundle["certs"]["os"]["crt"]) is None
    path.write_text(yaml.safe_dump({"cluster": {"secret": "secret-MARKER"}}))
    with pytest.raises(CloudError, match="failed to unmarshal machine secrets") as caught:
        package.Secrets().imported(call, str(path))
    assert "MARKER" not in str(caught.value)
    with pytest.raises(CloudError, match="failed to import state: No such file"):
        package.Secrets().imported(call, str(tmp_path / "nowhere"))
