"""HAControlPlane under mocks: what it registers, in which order, with which options, and what it refuses."""

from collections.abc import Callable
from typing import Any

import pulumi
import pytest
import yaml
from hybrid_talos import control_plane_config as config
from hybrid_talos._contract import BadInputs
from hybrid_talos.cluster_endpoint import EndpointKind
from hybrid_talos.cni import Cni
from hybrid_talos.ha_control_plane import HAControlPlane
from pulumi.provider.experimental.analyzer import Analyzer
from talos_recorder import KUBECONFIG, Recorder, is_secret, plain, run

OUTPUTS = {
    "kubeconfig",
    "talosconfig",
    "endpoints",
    "cluster_endpoint",
    "machine_secrets",
    "worker_machine_config",
    "client_configuration",
}
LOCATION = {
    "config_patch": "machine:\n  nodeAnnotations:\n    kilo.squat.ai/location: rack\n",
    "annotations": {"kilo.squat.ai/location": "rack"},
    "firewall_port": 51820,
    "firewall_sources": ["0.0.0.0/0"],
    "internal_cidrs": ["10.2.0.0/16"],
}


def members(count: int = 3) -> list[dict[str, Any]]:
    return [
        {"name": f"cp-{n}", "address": f"192.0.2.{10 + n}", "install_disk": "/dev/vda"} for n in range(1, count + 1)
    ]


def inputs(**changes: Any) -> Any:
    return {
        "cluster_name": "demo",
        "talos_version": "1.14.0",
        "kubernetes_version": "1.36.3",
        "endpoint": {"host": "k8s.demo.example.com", "kind": EndpointKind.DNS},
        "control_planes": members(),
        "installer_image": "factory.talos.dev/metal-installer/abc:v1.14.0",
        **changes,
    }


def built(recorder: Recorder | None = None, **changes: Any) -> tuple[Recorder, dict[str, tuple[Any, bool]]]:
    recorder = recorder or Recorder()

    def program() -> dict[str, Any]:
        component = HAControlPlane("cp", inputs(**changes), recorder.watch())
        return {output: getattr(component, output) for output in OUTPUTS}

    return recorder, run(recorder, program)


def patches_of(recorder: Recorder, member: str) -> list[Any]:
    """Return the documents of all patches of a member, in order."""
    texts = plain(recorder.of_type("apply")[f"cp-{member}-config"]["configPatches"])
    return [document for text in texts for document in yaml.safe_load_all(text)]


def value(documents: list[Any], *path: str) -> Any:
    """Return the value at a path of the one document that has it."""
    found = []
    for document in documents:
        here = document
        for part in path:
            here = here.get(part) if isinstance(here, dict) else None
        if here is not None:
            found.append(here)
    assert len(found) == 1, f"{path} stands {len(found)} times"
    return found[0]


def of_kind(documents: list[Any], kind: str) -> list[Any]:
    return [document for document in documents if document.get("kind") == kind]


def generated(recorder: Recorder, role: str) -> dict[str, Any]:
    calls = [plain(call.args) for call in recorder.calls if call.token.startswith("talos:machine/")]
    found = [call for call in calls if call["machineType"] == role]
    assert len(found) == 1
    return found[0]


def test_registers_one_of_each_and_an_apply_for_each_member() -> None:
    recorder, _ = built()
    assert set(recorder.resources) == {
        "cp",
        "cp-endpoint",
        "cp-secrets",
        "cp-membership",
        "cp-kubernetes",
        *(f"cp-cp-{n}-{role}" for n in (1, 2, 3) for role in ("talos", "member", "config")),
        "cp-health",
        "cp-birth",
        "cp-bootstrap",
        "cp-certificates",
        "cp-kubeconfig",
        "cp-api-ready",
    }


def test_another_order_of_the_same_members_plans_nothing() -> None:
    first, _ = built()
    second, _ = built(control_planes=members()[::-1])
    assert {name: plain(made.inputs) for name, made in first.resources.items()} == {
        name: plain(made.inputs) for name, made in second.resources.items()
    }


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ({"host": "k8s.demo.example.com", "kind": EndpointKind.DNS, "port": 443}, 443),
        ({"host": "k8s.demo.example.com", "kind": EndpointKind.LOAD_BALANCER, "port": 443}, None),
        ({"host": "k8s.demo.example.com", "kind": EndpointKind.DNS}, None),
    ],
)
def test_members_listen_where_a_name_without_a_load_balancer_leads(
    endpoint: dict[str, Any], expected: int | None
) -> None:
    recorder, _ = built(endpoint=endpoint)
    found = [
        document["cluster"]["controlPlane"].get("localAPIServerPort")
        for document in patches_of(recorder, "cp-1")
        if "controlPlane" in document.get("cluster", {})
    ]
    assert [port for port in found if port is not None] == ([] if expected is None else [expected])


def test_two_instances_do_not_collide() -> None:
    recorder = Recorder()

    def program() -> None:
        HAControlPlane("a", inputs())
        HAControlPlane("b", inputs())

    run(recorder, program)
    children = [name for name in recorder.resources if "-" in name]
    assert len(children) == 38
    assert all(name.startswith(("a-", "b-")) for name in children)


def test_every_credential_is_secret_and_addresses_are_not() -> None:
    _, outputs = built()
    secret = {name for name, (_, marked) in outputs.items() if marked}
    assert secret == OUTPUTS - {"endpoints", "cluster_endpoint"}


def test_children_get_credentials_and_configurations_as_secrets_only() -> None:
    recorder, _ = built()
    for kind in ("apply", "kubeconfig"):
        for given in recorder.of_type(kind).values():
            assert is_secret(given["clientConfiguration"])
    for given in recorder.of_type("bootstrap").values():
        assert is_secret(given["client_configuration"])
    assert all(is_secret(given["machineConfigurationInput"]) for given in recorder.of_type("apply").values())


def test_leaky_outputs_of_the_provider_are_marked() -> None:
    recorder, _ = built()
    marked = {name: set(options.additional_secret_outputs or ()) for name, options in recorder.options.items()}
    assert {"machine_secrets", "client_configuration"} <= marked["cp-secrets"]
    assert {"kubernetes_client_configuration", "kubeconfig_raw"} <= marked["cp-kubeconfig"]
    talos = {
        name: found
        for name, found in marked.items()
        if name not in ("cp", "cp-api-ready", "cp-endpoint", "cp-birth", "cp-certificates")
    }
    assert all("client_configuration" in found for found in talos.values())


def test_own_patches_stay_readable_and_given_ones_are_secret() -> None:
    recorder, _ = built()
    assert not is_secret(recorder.of_type("apply")["cp-cp-1-config"]["configPatches"])
    recorder, _ = built(config_patches=["machine: {env: {A: password}}"])
    # The wire of mocks marks a list as a whole as soon as one of its entries is marked.
    assert is_secret(recorder.of_type("apply")["cp-cp-1-config"]["configPatches"])


def test_machine_secrets_reach_the_generator_whole_with_the_keys_of_the_provider() -> None:
    recorder, _ = built()
    for role in ("controlplane", "worker"):
        given = generated(recorder, role)["machineSecrets"]
        assert given["secrets"] == {"bootstrapToken": "boot.strap", "secretboxEncryptionSecret": "box"}
        assert set(given["certs"]) == {"etcd", "k8s", "k8sAggregator", "k8sServiceaccount", "os"}
        assert given["trustdinfo"] == {"token": "trust.token"}


def test_contract_and_kubernetes_version_are_never_left_to_the_provider() -> None:
    recorder, _ = built()
    assert plain(recorder.of_type("secrets")["cp-secrets"])["talosVersion"] == "v1.13"
    for role in ("controlplane", "worker"):
        call = generated(recorder, role)
        assert (call["talosVersion"], call["kubernetesVersion"]) == ("v1.13", "1.36.3")


def test_contract_of_the_birth_stays_when_talos_is_upgraded() -> None:
    recorder, _ = built(Recorder(recorded_contract="v1.11"), kubernetes_version="1.34.1")
    assert generated(recorder, "controlplane")["talosVersion"] == "v1.11"
    documents = patches_of(recorder, "cp-1")
    assert value(documents, "machine", "network", "hostname") == "cp-1"
    assert not of_kind(documents, "HostnameConfig")


def test_a_contract_that_is_asked_for_wins_over_the_recorded_one() -> None:
    recorder, _ = built(Recorder(recorded_contract="v1.11"), config_contract="1.12", kubernetes_version="1.35.1")
    assert generated(recorder, "controlplane")["talosVersion"] == "v1.12"


def test_kubernetes_that_the_recorded_contract_does_not_generate_is_refused() -> None:
    with pytest.raises(BadInputs, match=r"1\.30 to 1\.35 with a contract of 1\.12, not 1\.36\.3.*set config_contract"):
        built(Recorder(recorded_contract="v1.12"))


def test_later_versions_never_make_new_secrets() -> None:
    recorder, _ = built()
    assert recorder.options["cp-secrets"].ignore_changes == ["talos_version"]
    assert recorder.options["cp-secrets"].protect is True


def test_bootstrap_is_one_fixed_record_of_the_first_member() -> None:
    recorder, _ = built()
    first = {"name": "cp-1", "address": "192.0.2.11", "endpoint": "192.0.2.11"}
    (birth,) = recorder.of_type("birth").values()
    assert plain(birth["member"]) == first
    (bootstrap,) = recorder.of_type("bootstrap").values()
    assert plain(bootstrap["first"]) == first
    assert [member["name"] for member in plain(bootstrap["members"])] == ["cp-1", "cp-2", "cp-3"]
    assert recorder.options["cp-bootstrap"].protect is True
    assert recorder.depends_on("cp-bootstrap") == ["cp-cp-1-config"]
    assert recorder.order.index("cp-cp-1-config") < recorder.order.index("cp-bootstrap")


def test_a_tunnel_to_a_machine_is_used_for_what_this_program_asks_of_it() -> None:
    recorder, _ = built(endpoints={"talos": {"192.0.2.12": "127.0.0.1:50001"}})
    (bootstrap,) = recorder.of_type("bootstrap").values()
    assert [member["endpoint"] for member in plain(bootstrap["members"])] == [
        "192.0.2.11",
        "127.0.0.1:50001",
        "192.0.2.13",
    ]


def test_members_are_configured_one_after_the_other() -> None:
    recorder, _ = built(control_planes=members(5))
    for kind in ("member", "config"):
        chain = [set(recorder.depends_on(f"cp-cp-{n}-{kind}")) - {f"cp-cp-{n}-member"} for n in range(1, 6)]
        assert chain == [{"cp-kubernetes"}, *({"cp-kubernetes", f"cp-cp-{n}-config"} for n in range(1, 5))]


def test_upgrades_stand_before_all_configurations_and_health_behind_them() -> None:
    recorder, _ = built()
    assert recorder.depends_on("cp-cp-1-talos") == ["cp-membership"]
    assert recorder.depends_on("cp-cp-2-talos") == ["cp-cp-1-talos"]
    assert recorder.depends_on("cp-cp-3-talos") == ["cp-cp-2-talos"]
    assert "cp-cp-3-talos" in recorder.depends_on("cp-kubernetes")
    for member in ("cp-1", "cp-2", "cp-3"):
        assert {"cp-kubernetes", f"cp-{member}-member"} <= set(recorder.depends_on(f"cp-{member}-config"))
        assert f"cp-{member}-config" in recorder.depends_on("cp-health")
    assert {"cp-bootstrap", "cp-api-ready"} <= set(recorder.depends_on("cp-health"))


def test_each_configuration_has_its_gate_right_before_it() -> None:
    recorder, _ = built()
    for member in ("cp-1", "cp-2", "cp-3"):
        hooks = recorder.options[f"cp-{member}-config"].hooks
        assert hooks is not None
        assert hooks.before_create
        assert hooks.before_update


def test_upgrades_know_versions_machines_and_where_snapshots_go() -> None:
    recipient = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"
    recorder, _ = built(
        snapshots={"directory": "/backup", "recipients": [recipient]},
        upgrade={"drain_minutes": 3, "health_minutes": 7},
        endpoints={"talos": {"192.0.2.12": "127.0.0.1:50001"}, "kubernetes": "https://10.0.0.1:8443"},
        component_images={"registry": "registry.example.com/k8s"},
    )
    given = plain(recorder.of_type("talos")["cp-cp-2-talos"])
    assert (given["name"], given["address"], given["endpoint"]) == ("cp-2", "192.0.2.12", "127.0.0.1:50001")
    assert (given["version"], given["kubernetes_version"], given["after"]) == ("1.14.0", "1.36.3", "cp-1")
    assert given["installer_image"] == "factory.talos.dev/metal-installer/abc:v1.14.0"
    assert given["snapshots"] == {"cluster": "demo", "directory": "/backup", "recipients": [recipient]}
    assert (given["drain_minutes"], given["health_minutes"]) == (3, 7)
    assert given["kubernetes_server"] == "https://10.0.0.1:8443"
    (images,) = [plain(found["images"]) for found in recorder.of_type("kubernetes").values()]
    assert images["kubelet-image"] == "registry.example.com/k8s/kubelet"
    assert images["apiserver-image"] == "registry.example.com/k8s/kube-apiserver"


def test_the_digests_of_a_configuration_are_known_and_no_secrets() -> None:
    recorder, _ = built(config_patches=["machine: {env: {A: password}}"])
    given = recorder.of_type("member")["cp-cp-1-member"]
    assert not is_secret(given["configuration"])
    assert not is_secret(given["boot_configuration"])
    other, _ = built(config_patches=["machine: {env: {A: other}}"])
    assert other.of_type("member")["cp-cp-1-member"]["boot_configuration"] != given["boot_configuration"]


def test_kubeconfig_waits_for_the_bootstrap_and_asks_a_control_plane() -> None:
    recorder, _ = built()
    assert recorder.depends_on("cp-kubeconfig") == ["cp-bootstrap"]
    given = recorder.of_type("kubeconfig")["cp-kubeconfig"]
    assert (given["node"], given["endpoint"]) == ("192.0.2.11", "192.0.2.11")


def test_the_api_is_waited_for_with_public_things_alone() -> None:
    recorder, _ = built(endpoints={"kubernetes": "https://10.0.0.1:8443"}, api_ready_minutes=7)
    (given,) = recorder.of_type("ready").values()
    assert not any(is_secret(value) for value in given.values())
    given = {key: value for key, value in given.items() if key != "__provider"}
    assert given == {
        "server": "https://k8s.demo.example.com:6443",
        "authority": "cert",
        "connect_to": "https://10.0.0.1:8443",
        "minutes": 7,
    }
    assert recorder.depends_on("cp-api-ready") == ["cp-kubeconfig"]


def test_the_kubeconfig_comes_after_the_api_and_the_talosconfig_does_not() -> None:
    recorder = Recorder()
    waited: dict[str, set[str]] = {}

    def program() -> dict[str, Any]:
        component = HAControlPlane("cp", inputs())

        async def look() -> None:
            for output in ("kubeconfig", "talosconfig"):
                found = await getattr(component, output).resources()
                waited[output] = {resource._name for resource in found}  # noqa: SLF001

        return {"done": pulumi.Output.from_input(look())}

    run(recorder, program)
    assert "cp-api-ready" in waited["kubeconfig"]
    assert "cp-api-ready" not in waited["talosconfig"]


def test_secrets_without_an_authority_are_refused_without_their_text() -> None:
    for secrets in ({}, {"certs": {"k8s": {"cert": "no base64!"}}}, {"certs": {"k8s": {"key": "geheim"}}}):
        with pytest.raises(BadInputs) as refusal:
            config.kubernetes_authority(secrets)
        assert str(refusal.value) == "the Talos provider made secrets without a Kubernetes authority"


@pytest.mark.parametrize("minutes", [0, 61])
def test_refuses_a_limit_that_is_none(minutes: int) -> None:
    def program() -> None:
        with pytest.raises(BadInputs, match="api_ready_minutes: Input should be"):
            HAControlPlane("cp", inputs(api_ready_minutes=minutes))

    recorder = Recorder()
    run(recorder, program)
    assert not recorder.resources


@pytest.mark.parametrize(
    "address",
    ["http://10.0.0.1:6443", "10.0.0.1:6443", "https://", "https://a:6443/api", "https://u:p@a", "https://a:x"],
)
def test_refuses_an_address_to_connect_to_that_is_none(address: str) -> None:
    def program() -> None:
        with pytest.raises(BadInputs, match="endpoints.kubernetes: must have the form https://host:port"):
            HAControlPlane("cp", inputs(endpoints={"kubernetes": address}))

    recorder = Recorder()
    run(recorder, program)
    assert not recorder.resources


def test_worker_config_orders_workers_after_all_control_planes() -> None:
    recorder = Recorder()
    waited: set[str] = set()

    def program() -> dict[str, Any]:
        component = HAControlPlane("cp", inputs())

        async def look() -> None:
            waited.update(resource._name for resource in await component.worker_machine_config.resources())  # noqa: SLF001

        return {"done": pulumi.Output.from_input(look())}

    run(recorder, program)
    assert {"cp-cp-1-config", "cp-cp-2-config", "cp-cp-3-config"} <= waited


def test_only_its_place_in_the_cluster_takes_a_machine_out_of_it() -> None:
    recorder, _ = built()
    assert all("onDestroy" not in given for given in recorder.of_type("apply").values())
    assert all(plain(given["teardown"]) is False for given in recorder.of_type("member").values())


def test_a_teardown_unprotects_and_does_not_ask_for_what_the_last_member_cannot_do() -> None:
    recorder, _ = built(protect=False)
    assert all(plain(given["teardown"]) is True for given in recorder.of_type("member").values())
    assert recorder.options["cp-secrets"].protect is None
    assert recorder.options["cp-bootstrap"].protect is None


def test_certificates_cover_endpoint_members_and_extra_names_of_both_apis() -> None:
    control_planes = members()
    control_planes[0]["public_address"] = "203.0.113.2"
    recorder, _ = built(
        control_planes=control_planes, cert_sans=["api.example.com", pulumi.Output.from_input("198.51.100.7")]
    )
    expected = [
        "k8s.demo.example.com",
        "192.0.2.11",
        "203.0.113.2",
        "192.0.2.12",
        "192.0.2.13",
        "api.example.com",
        "198.51.100.7",
    ]
    for member in ("cp-1", "cp-2", "cp-3"):
        documents = patches_of(recorder, member)
        assert value(documents, "machine", "certSANs") == expected
        assert value(documents, "cluster", "apiServer", "certSANs") == expected
    (worker,) = generated(recorder, "worker")["configPatches"]
    assert "certSANs" not in worker


def test_a_load_balancers_address_may_be_an_output() -> None:
    endpoint = {"host": pulumi.Output.from_input("198.51.100.9"), "kind": "loadBalancer"}
    recorder, outputs = built(endpoint=endpoint)
    assert outputs["cluster_endpoint"][0] == "https://198.51.100.9:6443"
    assert generated(recorder, "worker")["clusterEndpoint"] == "https://198.51.100.9:6443"
    assert value(patches_of(recorder, "cp-2"), "machine", "certSANs")[0] == "198.51.100.9"


def test_a_member_is_reached_at_its_public_address_and_known_by_its_own() -> None:
    control_planes = members()
    for number, member in enumerate(control_planes, start=1):
        member["public_address"] = f"203.0.113.{number}"
    recorder, outputs = built(control_planes=control_planes)
    given = recorder.of_type("apply")["cp-cp-2-config"]
    assert (given["node"], given["endpoint"]) == ("192.0.2.12", "203.0.113.2")
    assert outputs["endpoints"][0] == ["203.0.113.1", "203.0.113.2", "203.0.113.3"]


def test_talosconfig_has_all_control_planes_as_endpoints_and_a_node() -> None:
    endpoint = {"host": "192.0.2.100", "kind": "vip"}
    recorder, outputs = built(endpoint=endpoint)
    (call,) = [plain(call.args) for call in recorder.calls if call.token.startswith("talos:client/")]
    assert call["endpoints"] == ["192.0.2.11", "192.0.2.12", "192.0.2.13"]
    assert call["nodes"] == ["192.0.2.11"]
    assert call["clusterName"] == "demo"
    assert outputs["endpoints"][0] == call["endpoints"]


def test_each_member_gets_its_name_disk_image_labels_and_annotations() -> None:
    control_planes = members()
    control_planes[1] |= {"labels": {"example.com/row": "2"}, "annotations": {"example.com/asset": "17"}}
    recorder, _ = built(control_planes=control_planes)
    documents = patches_of(recorder, "cp-2")
    assert of_kind(documents, "HostnameConfig") == [
        {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "off", "hostname": "cp-2"}
    ]
    assert value(documents, "machine", "install") == {
        "disk": "/dev/vda",
        "image": "factory.talos.dev/metal-installer/abc:v1.14.0",
    }
    assert value(documents, "machine", "nodeLabels") == {"example.com/row": "2"}
    assert value(documents, "machine", "nodeAnnotations") == {"example.com/asset": "17"}


def test_automatic_host_names_are_switched_off_by_text_not_by_false() -> None:
    recorder, _ = built()
    own = plain(recorder.of_type("apply")["cp-cp-1-config"]["configPatches"])[2]
    assert "auto: 'off'" in own


def test_every_machine_has_kubeprism_and_waits_for_the_cloud_controller() -> None:
    recorder, _ = built()
    (worker,) = generated(recorder, "worker")["configPatches"]
    for documents in (patches_of(recorder, "cp-1"), list(yaml.safe_load_all(worker))):
        assert value(documents, "machine", "features", "kubePrism") == {"enabled": True, "port": 7445}
        assert value(documents, "machine", "kubelet", "extraArgs") == {"rotate-server-certificates": "true"}
        assert value(documents, "cluster", "externalCloudProvider") == {"enabled": True}


def test_without_a_cloud_controller_nothing_waits_for_one() -> None:
    recorder, _ = built(cloud_controller=False)
    (worker,) = generated(recorder, "worker")["configPatches"]
    text = worker + "".join(plain(recorder.of_type("apply")["cp-cp-1-config"]["configPatches"]))
    assert "externalCloudProvider" not in text
    assert "rotate-server-certificates" not in text
    assert "kubePrism" in text


def test_only_control_planes_offer_the_talos_api_to_pods_and_only_to_read() -> None:
    recorder, _ = built()
    assert value(patches_of(recorder, "cp-3"), "machine", "features", "kubernetesTalosAPIAccess") == {
        "enabled": True,
        "allowedRoles": ["os:reader"],
        "allowedKubernetesNamespaces": ["kube-system"],
    }
    (worker,) = generated(recorder, "worker")["configPatches"]
    assert "kubernetesTalosAPIAccess" not in worker


@pytest.mark.parametrize(("cni", "expected"), [(None, []), (Cni.FLANNEL, []), ("cilium", [{"name": "none"}])])
def test_pod_network_is_talos_own_unless_another_is_asked_for(cni: Any, expected: Any) -> None:
    recorder, _ = built(**({"cni": cni} if cni else {}))
    networks = [
        document["cluster"]["network"]
        for document in patches_of(recorder, "cp-1")
        if "cluster" in document and "network" in document["cluster"]
    ]
    assert [network["cni"] for network in networks if "cni" in network] == expected


def test_workers_get_the_ranges_too_since_their_dns_and_address_follow_from_them() -> None:
    recorder, _ = built(pod_cidr="10.40.0.0/16", service_cidr="10.41.0.0/16")
    (worker,) = generated(recorder, "worker")["configPatches"]
    for documents in (patches_of(recorder, "cp-1"), list(yaml.safe_load_all(worker))):
        assert value(documents, "cluster", "network", "podSubnets") == ["10.40.0.0/16"]
        assert value(documents, "cluster", "network", "serviceSubnets") == ["10.41.0.0/16"]


def test_vip_stands_on_control_planes_alone_and_is_no_address_of_a_node() -> None:
    endpoint = {"host": "192.0.2.100", "kind": "vip"}
    recorder, _ = built(endpoint=endpoint, node_subnets=["192.0.2.0/24"])
    for member in ("cp-1", "cp-2", "cp-3"):
        documents = patches_of(recorder, member)
        (vip,) = of_kind(documents, "Layer2VIPConfig")
        (alias,) = of_kind(documents, "LinkAliasConfig")
        assert vip["name"] == "192.0.2.100"
        assert vip["link"] == alias["name"]
        expected = ["192.0.2.0/24", "!192.0.2.100/32"]
        assert value(documents, "machine", "kubelet", "nodeIP", "validSubnets") == expected
        assert value(documents, "cluster", "etcd", "advertisedSubnets") == expected
    (worker,) = generated(recorder, "worker")["configPatches"]
    assert "192.0.2.100" not in worker


def test_vip_takes_the_named_link() -> None:
    recorder, _ = built(endpoint={"host": "192.0.2.100", "kind": "vip", "interface": "enp1s0"})
    documents = patches_of(recorder, "cp-1")
    assert [vip["link"] for vip in of_kind(documents, "Layer2VIPConfig")] == ["enp1s0"]
    assert not of_kind(documents, "LinkAliasConfig")
    assert value(documents, "machine", "kubelet", "nodeIP", "validSubnets") == ["0.0.0.0/0", "!192.0.2.100/32"]


def test_vip_before_112_is_part_of_an_interface() -> None:
    recorder, _ = built(
        endpoint={"host": "192.0.2.100", "kind": "vip", "interface": "eth0"},
        talos_version="1.11.5",
        kubernetes_version="1.34.1",
    )
    documents = patches_of(recorder, "cp-1")
    assert value(documents, "machine", "network", "interfaces") == [
        {"interface": "eth0", "dhcp": True, "vip": {"ip": "192.0.2.100"}}
    ]
    assert {document.get("kind") for document in documents} == {None}


@pytest.mark.parametrize("kind", ["dns", "loadBalancer"])
def test_other_kinds_of_endpoint_have_no_vip(kind: str) -> None:
    recorder, _ = built(endpoint={"host": "k8s.demo.example.com", "kind": kind})
    assert "VIP" not in str(patches_of(recorder, "cp-1"))


def test_mirrors_are_set_on_every_machine_in_the_form_of_the_contract() -> None:
    mirrors = {"docker.io": ["https://mirror.gcr.io", "http://10.0.0.9:5000"]}
    recorder, _ = built(registry_mirrors=mirrors)
    (worker,) = generated(recorder, "worker")["configPatches"]
    for documents in (patches_of(recorder, "cp-1"), list(yaml.safe_load_all(worker))):
        (mirror,) = of_kind(documents, "RegistryMirrorConfig")
        assert mirror["endpoints"] == [{"url": "https://mirror.gcr.io"}, {"url": "http://10.0.0.9:5000"}]
    recorder, _ = built(registry_mirrors=mirrors, config_contract="1.11", kubernetes_version="1.34.1")
    assert value(patches_of(recorder, "cp-1"), "machine", "registries", "mirrors") == {
        "docker.io": {"endpoints": mirrors["docker.io"]}
    }


def test_location_is_told_to_control_planes_and_not_to_the_worker_base() -> None:
    recorder, _ = built(location=pulumi.Output.from_input(LOCATION))
    assert value(patches_of(recorder, "cp-1"), "machine", "nodeAnnotations") == {"kilo.squat.ai/location": "rack"}
    assert "kilo" not in str(generated(recorder, "worker")["configPatches"])


def test_given_patches_come_first_so_that_typed_inputs_win() -> None:
    control_planes = members()
    control_planes[0]["config_patches"] = ["machine: {sysctls: {a: own}}"]
    recorder, _ = built(control_planes=control_planes, config_patches=["machine: {sysctls: {a: all}}"])
    texts = plain(recorder.of_type("apply")["cp-cp-1-config"]["configPatches"])
    assert texts[:2] == ["machine: {sysctls: {a: all}}", "machine: {sysctls: {a: own}}"]
    assert "kubePrism" in texts[2]
    assert len(plain(recorder.of_type("apply")["cp-cp-2-config"]["configPatches"])) == len(texts) - 1


def test_worker_base_installs_nothing_and_has_no_name() -> None:
    recorder, _ = built()
    (worker,) = generated(recorder, "worker")["configPatches"]
    (document,) = yaml.safe_load_all(worker)
    assert document["machine"]["install"] == {"$patch": "delete"}
    assert "hostname" not in worker.lower()
    assert "validSubnets" not in worker


def test_the_same_inputs_give_the_same_patches() -> None:
    mirrors = {"quay.io": ["https://q.example.com"], "docker.io": ["https://d.example.com"]}
    first, _ = built(registry_mirrors=mirrors)
    second, _ = built(registry_mirrors=dict(reversed(mirrors.items())))
    assert first.of_type("apply") == second.of_type("apply")
    assert generated(first, "worker") == generated(second, "worker")


def test_kubeconfig_has_the_endpoint_as_server() -> None:
    _, outputs = built()
    assert outputs["kubeconfig"][0] == KUBECONFIG
    _, outputs = built(endpoint={"host": "new.example.com", "port": 8443, "kind": "loadBalancer"})
    changed = yaml.safe_load(outputs["kubeconfig"][0])
    assert [entry["cluster"]["server"] for entry in changed["clusters"]] == ["https://new.example.com:8443"]
    assert changed["clusters"][0]["cluster"]["certificate-authority-data"] == "Y2E="


@pytest.mark.parametrize("text", [None, "", "nothing", "clusters: []", "clusters: [1]", "a: ["])
def test_a_kubeconfig_that_is_none_is_refused_without_its_text(text: str | None) -> None:
    with pytest.raises(BadInputs, match="kubeconfig"):
        config.kubeconfig_for(text, "https://a:6443")


def test_nothing_needs_a_value_in_the_first_preview() -> None:
    recorder, outputs = built(
        Recorder(first_preview=True),
        location=pulumi.Output.from_input(LOCATION),
        config_patches=["machine: {}"],
    )
    assert len(recorder.resources) == 20
    assert not recorder.calls
    assert outputs["endpoints"][0] == ["192.0.2.11", "192.0.2.12", "192.0.2.13"]
    assert not any("Output" in text or "pulumi" in text for text in map(str, recorder.resources))


def without(key: str) -> Callable[[], Any]:
    def make() -> Any:
        changed = dict(inputs())
        del changed[key]
        return changed

    return make


def changed_member(**changes: Any) -> list[dict[str, Any]]:
    return [members()[0], {**members()[1], **changes}, members()[2]]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"control_planes": []}, "control_planes: none given"),
    ({"control_planes": members(1)}, "allow_single_member"),
    ({"control_planes": members(2)}, "2 members need 2 for a quorum and keep working without 0"),
    ({"control_planes": members(4)}, "4 members need 3 for a quorum and keep working without 1, as 3 would"),
    ({"control_planes": changed_member(name="cp-1")}, "cp-1 stands twice"),
    ({"control_planes": changed_member(address="192.0.2.11")}, "cp-2 and cp-1 have the same address 192.0.2.11"),
    ({"control_planes": changed_member(public_address="192.0.2.11")}, "same address 192.0.2.11"),
    ({"control_planes": changed_member(name="CP_2")}, "control_planes.1.name: must be lower-case"),
    ({"control_planes": changed_member(name="a" * 64)}, "at most 63"),
    ({"control_planes": changed_member(address="cp-2.example.com")}, "control_planes.1.address: must be an IPv4"),
    ({"control_planes": changed_member(disk="/dev/sda")}, "control_planes.1.disk"),
    ({"control_planes": changed_member(install_disk="sda")}, "control_planes.1.install_disk: must be the path"),
    ({"control_planes": changed_member(address="10.244.7.1")}, "in the range of the pods (10.244.0.0/16)"),
    ({"control_planes": changed_member(address="10.100.0.4")}, "in the range of the services (10.96.0.0/12)"),
    ({"node_subnets": ["192.0.3.0/24"]}, "which is in none of node_subnets (192.0.3.0/24)"),
    ({"node_subnets": ["192.0.2.5/24"]}, "write 192.0.2.0/24 if that range is meant"),
    ({"pod_cidr": "10.100.0.0/16"}, "overlaps"),
    ({"talos_version": "1.12.4", "kubernetes_version": "1.36.0"}, "Talos 1.12.4 runs Kubernetes 1.30 to 1.35"),
    ({"talos_version": "1.13.9", "kubernetes_version": "1.37.0"}, "not 1.37.0"),
    ({"talos_version": "1.14.0", "kubernetes_version": "1.31.9"}, "Kubernetes 1.32 to 1.37"),
    ({"talos_version": "1.99.0"}, "not known"),
    ({"talos_version": 1.14}, "talos_version"),
    ({"kubernetes_version": "latest"}, "kubernetes_version: must be a version"),
    ({"talos_version": "1.12.9", "kubernetes_version": "1.35.0", "config_contract": "1.13"}, "newer than 1.12"),
    ({"config_contract": "1.14"}, "newer than 1.13"),
    ({"config_contract": "1.12"}, "config_contract: the Talos provider generates Kubernetes 1.30 to 1.35"),
    ({"kubernetes_version": "1.37.0"}, "kubernetes_version: the Talos provider generates Kubernetes 1.31 to 1.36"),
    ({"endpoint": {"host": "https://k8s.example.com", "kind": "dns"}}, "without scheme"),
    ({"endpoint": {"host": "k8s.example.com:6443", "kind": "dns"}}, "without scheme, port"),
    ({"endpoint": {"host": "k8s.example.com/x", "kind": "dns"}}, "without scheme, port and path"),
    ({"endpoint": {"host": "999.1.1.1", "kind": "loadBalancer"}}, "must be a host name or an IPv4 address"),
    ({"endpoint": {"host": "198.51.100.1", "kind": "dns"}}, "kind dns takes a name"),
    ({"endpoint": {"host": "k8s.example.com", "kind": "vip"}}, "kind vip takes the IPv4 address"),
    ({"endpoint": {"host": "k8s.example.com", "kind": "round-robin"}}, "endpoint.kind"),
    ({"endpoint": {"host": "k8s.example.com", "kind": "dns", "port": 0}}, "endpoint.port"),
    ({"endpoint": {"host": "k8s.example.com", "kind": "dns", "interface": "eth0"}}, "interface: only for kind vip"),
    ({"endpoint": {"host": "192.0.2.12", "kind": "loadBalancer"}}, "192.0.2.12 is the address of cp-2 alone"),
    ({"endpoint": {"host": "192.0.2.12", "kind": "vip"}}, "a VIP is one that no machine has"),
    (
        {"endpoint": {"host": "192.0.2.100", "kind": "vip"}, "node_subnets": ["192.0.2.0/26", "192.0.2.64/26"]},
        "needs 192.0.2.100 and all control planes in one subnet",
    ),
    ({"endpoint": {"host": pulumi.Output.from_input("a.example.com"), "kind": "dns"}}, "must be plain text"),
    ({"cert_sans": ["https://api.example.com"]}, "cert_sans: must be a host name"),
    ({"cert_sans": ["api.example.com:6443"]}, "cert_sans: must be a host name"),
    ({"registry_mirrors": {"docker.io": ["mirror.gcr.io"]}}, "must be a URL"),
    ({"registry_mirrors": {"docker.io": []}}, "registry_mirrors.docker.io"),
    ({"cluster_name": "Demo Cluster"}, "cluster_name: must be lower-case"),
    ({"members": 3}, "members: no such input"),
    ({"upgrade": {"drain_minutes": 121}}, "upgrade.drain_minutes"),
    ({"upgrade": {"parallel": 2}}, "upgrade.parallel"),
    ({"snapshots": {"directory": "/backup", "recipients": []}}, "snapshots.recipients"),
    ({"snapshots": {"directory": "/backup", "recipients": ["me"]}}, "must be a public key of age"),
    ({"cni": "calico"}, "cni"),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED)
def test_refuses_bad_inputs_before_anything_is_registered(changes: dict[str, Any], message: str) -> None:
    recorder = Recorder()

    def program() -> None:
        with pytest.raises(BadInputs) as refusal:
            HAControlPlane("cp", inputs(**changes))
        assert message in str(refusal.value)
        assert str(refusal.value).startswith("HAControlPlane 'cp': ")

    run(recorder, program)
    assert not recorder.resources
    assert not recorder.calls


@pytest.mark.parametrize("key", ["cluster_name", "talos_version", "kubernetes_version", "endpoint", "installer_image"])
def test_refuses_missing_inputs(key: str) -> None:
    def program() -> None:
        with pytest.raises(BadInputs, match=f"{key}: required"):
            HAControlPlane("cp", without(key)())

    recorder = Recorder()
    run(recorder, program)
    assert not recorder.resources


def test_one_message_names_every_problem() -> None:
    def program() -> None:
        with pytest.raises(BadInputs) as refusal:
            HAControlPlane(
                "cp",
                inputs(
                    control_planes=members(2),
                    kubernetes_version="1.20.0",
                    endpoint={"host": "192.0.2.11", "kind": "loadBalancer"},
                ),
            )
        for part in ("kubernetes_version: ", "control_planes: 2 members", "endpoint: 192.0.2.11"):
            assert part in str(refusal.value)

    run(Recorder(), program)


def test_accepts_a_members_address_as_endpoint_when_asked_to() -> None:
    endpoint = {"host": "192.0.2.12", "kind": "loadBalancer", "allow_member_address": True}
    _, outputs = built(endpoint=endpoint)
    assert outputs["cluster_endpoint"][0] == "https://192.0.2.12:6443"


@pytest.mark.parametrize(
    ("talos", "kubernetes", "contract"),
    [("1.13.9", "1.36.4", "v1.13"), ("v1.12.9", "v1.35.0", "v1.12"), ("1.14.0", "1.36.4", "v1.13")],
)
def test_accepts_versions_that_fit_in_any_form(talos: str, kubernetes: str, contract: str) -> None:
    recorder, _ = built(talos_version=talos, kubernetes_version=kubernetes)
    call = generated(recorder, "worker")
    assert (call["talosVersion"], call["kubernetesVersion"]) == (contract, kubernetes.removeprefix("v"))


@pytest.mark.parametrize(
    ("count", "fine"), [(1, False), (2, False), (3, True), (4, False), (5, True), (6, False), (7, True)]
)
def test_quorum_sum(count: int, fine: bool) -> None:
    assert (config.quorum_problem(count, False) is None) is fine


def test_one_member_is_fine_only_when_asked_for() -> None:
    assert config.quorum_problem(1, True) is None
    assert config.quorum_problem(2, True) is not None


@pytest.mark.parametrize("location", [{}, {"config_patch": ""}, {"config_patch": 3}])
def test_a_location_without_a_patch_is_refused(location: dict[str, Any]) -> None:
    with pytest.raises(BadInputs, match="location: has no config_patch"):
        config.location_patch(location)


def test_a_location_from_another_language_is_read() -> None:
    assert config.location_patch({"configPatch": "machine: {}"}) == "machine: {}"


@pytest.mark.parametrize("value", ["https://a", "a:6443", "", 5])
def test_a_certificate_name_that_is_known_late_is_checked(value: Any) -> None:
    with pytest.raises(BadInputs, match="cert_sans"):
        config.certificate_names(["fine.example.com", value])


def test_schema_describes_every_input_and_output() -> None:
    found = Analyzer("hybrid-talos").analyze([HAControlPlane])
    component = found["component_definitions"]["HAControlPlane"]
    described = [*component.inputs.values(), *component.outputs.values()]
    for definition in found["type_definitions"].values():
        described += definition.properties.values()
        assert definition.properties or definition.enum
    assert all(prop.description for prop in described)
    assert set(component.outputs_mapping.values()) == OUTPUTS
