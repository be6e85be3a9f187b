import re

import pytest
import yaml
from hybrid_talos._contract import BadInputs
from hybrid_talos.kilo import peer_schema
from hybrid_talos.mesh_plan import parse_endpoint
from hybrid_talos.network_mesh import NetworkMesh
from pool_recorder import run

BASE = {"kind": "kilo", "pod_cidr": "10.244.0.0/16", "service_cidr": "10.96.0.0/16"}
RACK = {"cidrs": ["192.0.2.0/24"], "public_endpoint": "wg.demo.example.com"}
HOME = {"cidrs": ["192.168.100.0/23"], "public_endpoint": "203.0.113.7"}
AZURE = {"cidrs": ["10.2.0.0/16"], "path_mtu": 1400}
ALIYUN = {"cidrs": ["10.3.0.0/16"]}
CILIUM = {"cni": "cilium", "granularity": "location"}


def computed(locations, **changes):
    """Return what a mesh that deploys nothing says of each location."""
    args = {**BASE, "locations": locations, "deploy": False, **changes}

    def program():
        mesh = NetworkMesh("mesh", args)
        return {"locations": mesh.locations, "port": mesh.wireguard_port}

    recorder = run(program)
    assert recorder.types() == ["hybrid-talos:index:NetworkMesh"]
    return recorder.values["locations"]


def refusal(locations, **changes):
    with pytest.raises(BadInputs) as caught:
        run(lambda: NetworkMesh("mesh", {**BASE, "locations": locations, **changes}) and None)
    message = str(caught.value)
    assert message.startswith("NetworkMesh 'mesh': ")
    return message


# What each location is told


def test_every_machine_learns_its_location_and_keeps_the_api_at_hand():
    told = computed({"rack": RACK, "azure": AZURE, "aliyun": ALIYUN})
    for name, location in told.items():
        (patch,) = yaml.safe_load_all(location["config_patch"])
        assert patch["machine"]["nodeAnnotations"] == location["annotations"]
        assert patch["machine"]["features"]["kubePrism"] == {"enabled": True, "port": 7445}
        assert location["annotations"]["kilo.squat.ai/location"] == name
        assert location["firewall_port"] == 51820


def test_cloud_machines_keep_their_translation_open_and_public_ones_do_not():
    told = computed({"rack": RACK, "azure": AZURE}, persistent_keepalive=25)
    assert told["azure"]["annotations"]["kilo.squat.ai/persistent-keepalive"] == "25"
    assert "kilo.squat.ai/persistent-keepalive" not in told["rack"]["annotations"]
    # YAML must carry text: Kilo, and Kubernetes, take no number for an annotation.
    assert "persistent-keepalive: '25'" in told["azure"]["config_patch"]


def test_machines_with_public_addresses_do_not_hide_behind_one_endpoint():
    assert "kilo.squat.ai/force-endpoint" not in computed({"rack": RACK, "azure": AZURE})["rack"]["annotations"]


def test_a_single_machine_announces_its_endpoint():
    one = {"cidrs": ["192.0.2.11/32"], "public_endpoint": "WG.demo.example.com"}
    annotations = computed({"rack": one, "azure": AZURE})["rack"]["annotations"]
    assert annotations["kilo.squat.ai/force-endpoint"] == "wg.demo.example.com:51820"


def test_machines_behind_a_shared_endpoint_announce_it_and_keep_alive_when_each_is_a_peer():
    annotations = computed({"home": HOME, "azure": AZURE})["home"]["annotations"]
    assert annotations["kilo.squat.ai/force-endpoint"] == "203.0.113.7:51820"
    assert annotations["kilo.squat.ai/persistent-keepalive"] == "20"


def test_a_leader_behind_an_endpoint_needs_no_keepalive():
    annotations = computed({"home": HOME, "azure": AZURE}, **CILIUM)["home"]["annotations"]
    assert annotations["kilo.squat.ai/force-endpoint"] == "203.0.113.7:51820"
    assert "kilo.squat.ai/persistent-keepalive" not in annotations
    behind = computed({"home": {**HOME, "behind_nat": True}, "azure": AZURE}, **CILIUM)["home"]["annotations"]
    assert behind["kilo.squat.ai/persistent-keepalive"] == "20"


def test_the_port_of_an_endpoint_is_the_one_that_machines_listen_on():
    told = computed({"home": {**HOME, "public_endpoint": "203.0.113.7:40000"}, "azure": AZURE})
    assert told["home"]["firewall_port"] == 40000
    assert told["azure"]["firewall_port"] == 51820


def test_exposed_ranges_stand_with_their_owner_without_blanks():
    told = computed(
        {"home": {**HOME, "exposed_cidrs": ["192.168.100.0/23", "192.168.110.0/24"]}, "azure": AZURE}, **CILIUM
    )
    key = "kilo.squat.ai/allowed-location-ips"
    assert told["home"]["annotations"][key] == "192.168.100.0/23,192.168.110.0/24"
    assert key not in told["azure"]["annotations"]


# Firewalls


def test_firewall_is_narrow_where_all_others_have_fixed_addresses():
    told = computed({"home": HOME, "azure": AZURE}, **CILIUM)
    assert told["azure"]["firewall_sources"] == ["203.0.113.7/32"]
    # Azure's machines get their public addresses as they come.
    assert told["home"]["firewall_sources"] == ["0.0.0.0/0"]


def test_firewall_is_open_where_an_endpoint_is_a_name():
    told = computed({"home": {**HOME, "public_endpoint": "wg.example.com"}, "azure": AZURE}, **CILIUM)
    assert told["azure"]["firewall_sources"] == ["0.0.0.0/0"]


def test_firewall_lets_in_peers_of_the_same_location_when_each_machine_is_a_peer():
    rack = {"cidrs": ["198.51.100.0/24"]}
    assert computed({"rack": rack, "azure": AZURE})["azure"]["firewall_sources"] == ["10.2.0.0/16", "198.51.100.0/24"]
    assert computed({"rack": rack, "azure": AZURE}, **CILIUM)["azure"]["firewall_sources"] == ["198.51.100.0/24"]


def test_traffic_from_the_mesh_is_named_by_the_other_nodes_pods_and_tunnels():
    told = computed({"rack": RACK, "azure": AZURE, "aliyun": ALIYUN})
    assert told["azure"]["internal_cidrs"] == ["10.3.0.0/16", "10.4.0.0/16", "10.244.0.0/16", "192.0.2.0/24"]


def test_the_order_of_locations_changes_nothing():
    one = computed({"rack": RACK, "azure": AZURE, "aliyun": ALIYUN})
    assert computed({"aliyun": ALIYUN, "azure": AZURE, "rack": RACK}) == one


# Refusals


def test_overlaps_name_both_ranges_and_both_owners():
    message = refusal({"rack": RACK, "azure": AZURE, "aliyun": {"cidrs": ["10.2.128.0/17"]}})
    assert "10.2.0.0/16 (location azure)" in message
    assert "10.2.128.0/17 (location aliyun)" in message


@pytest.mark.parametrize(
    ("location", "owner"),
    [
        ({"cidrs": ["10.100.0.0/16"]}, "services"),
        ({"cidrs": ["10.244.7.0/24"]}, "pods"),
        ({"cidrs": ["10.4.3.0/24"]}, "mesh"),
        ({"cidrs": ["100.66.0.0/16"]}, "Alibaba"),
    ],
)
def test_a_location_may_not_use_what_others_use(location, owner):
    service = {"service_cidr": "10.96.0.0/12"} if owner == "services" else {}
    assert owner in refusal({"rack": RACK, "azure": location}, **service)


def test_a_subnet_within_its_own_network_is_no_conflict():
    assert computed({"rack": RACK, "azure": {"cidrs": ["10.2.0.0/16", "10.2.0.0/24"]}})


def test_a_range_with_host_bits_is_refused_with_the_range_that_was_meant():
    assert "10.2.0.0/24" in refusal({"rack": RACK, "azure": {"cidrs": ["10.2.0.5/24"]}})


def test_exposed_ranges_of_two_locations_may_not_meet():
    message = refusal({"home": HOME, "azure": {**AZURE, "exposed_cidrs": ["192.168.100.0/23"]}}, **CILIUM)
    assert "location home" in message
    assert "location azure" in message


def test_exposed_ranges_need_leaders():
    assert "exposed_cidrs" in refusal({"home": {**HOME, "exposed_cidrs": ["192.168.110.0/24"]}, "azure": AZURE})


def test_two_locations_behind_nat_never_meet():
    message = refusal({"rack": RACK, "azure": {**AZURE, "behind_nat": True}, "aliyun": {**ALIYUN, "behind_nat": True}})
    assert "aliyun, azure" in message
    assert computed({"rack": RACK, "azure": {**AZURE, "behind_nat": True}, "aliyun": ALIYUN})


def test_a_shared_endpoint_does_not_help_peers_behind_nat_unless_there_are_leaders():
    nat = {**AZURE, "behind_nat": True}
    assert "azure, home" in refusal({"home": HOME, "azure": nat})
    assert computed({"home": HOME, "azure": nat}, **CILIUM)


def test_somebody_must_be_known_beforehand():
    assert "public_endpoint" in refusal({"azure": AZURE, "aliyun": ALIYUN})
    assert computed({"azure": AZURE})


@pytest.mark.parametrize("pair", [("flannel", "location"), ("cilium", "full")])
def test_pairs_that_do_not_work_are_refused_with_the_reason(pair):
    message = refusal({"rack": RACK, "azure": AZURE}, cni=pair[0], granularity=pair[1])
    assert f"{pair[1]} does not work with {pair[0]}" in message


@pytest.mark.parametrize("cni", ["flannel", "cilium"])
def test_the_granularity_follows_the_pod_network(cni):
    assert computed({"rack": RACK, "azure": AZURE}, cni=cni)


@pytest.mark.parametrize("keepalive", ["20s", -1, 70000, 0])
def test_a_keepalive_that_kilo_would_not_understand_is_refused(keepalive):
    assert "persistent_keepalive" in refusal({"rack": RACK, "azure": AZURE}, persistent_keepalive=keepalive)


def test_no_keepalive_is_fine_where_nothing_is_translated():
    assert computed({"rack": RACK, "vm": {"cidrs": ["198.51.100.0/24"]}}, persistent_keepalive=0)


def test_an_mtu_above_the_smallest_path_is_refused():
    message = refusal({"rack": RACK, "azure": AZURE}, mtu=1420)
    assert "mtu: 1420" in message
    assert "1320" in message
    assert "azure" in message


@pytest.mark.parametrize(
    "text", ["", "a b", "http://x", "x:0", "x:70000", "1.2.3", "1.2.3.4.5", "127.0.0.1", "[::1]:1"]
)
def test_endpoints_that_are_none_are_refused(text):
    with pytest.raises(ValueError, match="host:port"):
        parse_endpoint(text, 51820)


def test_bad_names_unknown_keys_and_small_meshes_are_refused():
    assert "locations.Rack 1" in refusal({"Rack 1": RACK})
    assert "locations.rack.nat" in refusal({"rack": {**RACK, "nat": True}})
    assert "cidr:" in refusal({"rack": RACK}, cidr="10.4.0.0/25")
    assert "no such input" in refusal({"rack": RACK}, topology="x")
    assert "api_endpoint" in refusal({"rack": RACK}, api_endpoint="http://127.0.0.1:7445")


# KubeSpan


def test_kubespan_is_machine_configuration_alone():
    told = computed({"home": HOME, "azure": AZURE, "aliyun": ALIYUN}, kind="kubespan", deploy=True)
    documents = list(yaml.safe_load_all(told["home"]["config_patch"]))
    # 1400 on Azure less 80: one value for all, since packets go there too.
    assert documents[0] == {
        "apiVersion": "v1alpha1",
        "kind": "KubeSpanConfig",
        "enabled": True,
        "mtu": 1320,
        "filters": {"endpoints": ["0.0.0.0/0", "!10.244.0.0/16", "!10.96.0.0/16"]},
    }
    assert documents[1]["extraAnnouncedEndpoints"] == ["203.0.113.7:51820"]
    assert told["azure"]["annotations"] == {}
    assert "10.4.0.0/16" not in told["azure"]["internal_cidrs"]


def test_kubespan_refuses_what_it_cannot_do():
    assert "port" in refusal({"home": HOME, "azure": AZURE}, kind="kubespan", port=51821)
    assert "not a name" in refusal({"rack": RACK, "azure": AZURE}, kind="kubespan")


# The agent


@pytest.fixture
def deployed():
    return run(lambda: NetworkMesh("mesh", {**BASE, "locations": {"rack": RACK, "azure": AZURE}}) and None)


def test_the_agent_has_everything_it_needs_and_comes_last(deployed):
    agent = deployed.one("-agent")
    pod = agent.inputs["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "docker.io/squat/kilo:0.7.0"
    assert container["args"] == [
        "--kubeconfig=/etc/kubernetes/kubeconfig",
        "--hostname=$(NODE_NAME)",
        "--cni=false",
        "--local=false",
        "--compatibility=flannel",
        "--mesh-granularity=full",
        "--subnet=10.4.0.0/16",
        "--service-cidr=10.96.0.0/16",
        "--port=51820",
        "--mtu=auto",
        "--internal-cidr=$(NODE_IP)/32",
        "--log-level=info",
    ]
    assert pod["hostNetwork"] is True
    assert container["securityContext"] == {"privileged": True}
    assert pod["tolerations"] == [
        {"effect": "NoSchedule", "operator": "Exists"},
        {"effect": "NoExecute", "operator": "Exists"},
    ]
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {"/var/lib/kilo", "/etc/kubernetes", "/lib/modules", "/run/xtables.lock"}
    needs = {urn.rsplit("::", 1)[1] for urn in agent.dependencies}
    assert needs == {"mesh-peers", "mesh-account", "mesh-kubeconfig", "mesh-binding"}
    assert agent.inputs["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}


def test_cilium_changes_the_flags():
    recorder = run(lambda: NetworkMesh("mesh", {**BASE, **CILIUM, "locations": {"home": HOME}, "mtu": 1380}) and None)
    flags = recorder.one("-agent").inputs["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {"--compatibility=cilium", "--mesh-granularity=location", "--encapsulate=crosssubnet"} <= set(flags)
    assert "--mtu=1380" in flags


def test_the_kubeconfig_names_kubeprism_and_no_secret(deployed):
    text = deployed.one("-kubeconfig").inputs["data"]["kubeconfig"]
    config = yaml.safe_load(text)
    assert config["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:7445"
    assert config["users"][0]["user"] == {"tokenFile": "/var/run/secrets/kubernetes.io/serviceaccount/token"}


def test_the_namespace_admits_privileged_pods(deployed):
    metadata = deployed.one("-namespace").inputs["metadata"]
    assert metadata["name"] == "mesh-kilo"
    assert metadata["labels"]["pod-security.kubernetes.io/enforce"] == "privileged"


def test_the_agent_may_do_no_more_than_it_needs(deployed):
    assert deployed.one("-role").inputs["rules"] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "patch", "watch"]},
        {"apiGroups": ["kilo.squat.ai"], "resources": ["peers"], "verbs": ["list", "watch"]},
        {
            "apiGroups": ["apiextensions.k8s.io"],
            "resources": ["customresourcedefinitions"],
            "resourceNames": ["peers.kilo.squat.ai"],
            "verbs": ["get"],
        },
    ]


def test_the_peer_definition_keeps_its_field_names(deployed):
    spec = deployed.one("-peers").inputs["spec"]
    assert spec["names"] == {"kind": "Peer", "listKind": "PeerList", "plural": "peers", "singular": "peer"}
    schema = spec["versions"][0]["schema"]["openAPIV3Schema"]
    assert schema == peer_schema()
    fields = schema["properties"]["spec"]["properties"]
    assert set(fields) == {"allowedIPs", "endpoint", "persistentKeepalive", "presharedKey", "publicKey"}
    assert set(fields["endpoint"]["properties"]) == {"dnsOrIP", "port"}


def test_kube_system_is_not_made():
    recorder = run(
        lambda: NetworkMesh("mesh", {**BASE, "locations": {"home": HOME}, "namespace": "kube-system"}) and None
    )
    assert "kubernetes:core/v1:Namespace" not in recorder.types()


def test_two_meshes_share_no_names_but_the_definition():
    def program():
        for name in ("one", "two"):
            NetworkMesh(name, {**BASE, "locations": {"home": HOME}})

    recorder = run(program)
    objects = [
        (found.type, found.inputs["metadata"].get("namespace"), found.inputs["metadata"]["name"])
        for found in recorder.found
        if "metadata" in found.inputs and "CustomResourceDefinition" not in found.type
    ]
    assert len(objects) == len(set(objects))
    assert all(found.parent for found in recorder.found if found.type.startswith("kubernetes:"))


def test_a_name_that_cannot_be_an_object_name_is_refused():
    with pytest.raises(BadInputs, match="Kubernetes object names"):
        run(lambda: NetworkMesh("My Mesh", {**BASE, "locations": {"home": HOME}}) and None)


@pytest.mark.parametrize(
    ("locations", "expected"),
    [
        ({"rack": RACK, "azure": AZURE}, ["azure, rack is open to any source"]),
        ({"rack": {"cidrs": ["192.0.2.0/24"]}, "other": {"cidrs": ["198.51.100.0/24"]}}, []),
        ({"rack": RACK}, []),
    ],
)
def test_a_port_that_is_open_to_anybody_is_said(monkeypatch, locations, expected):
    said = []
    monkeypatch.setattr("pulumi.log.info", lambda message, resource=None: said.append(message))
    computed(locations)
    assert len(said) == len(expected)
    assert all(part in message for part, message in zip(expected, said, strict=True))


# Who watches the agents


def watched(**changes):
    args = {**BASE, "locations": {"rack": RACK, "azure": AZURE}, "monitoring": {}, **changes}
    return run(lambda: NetworkMesh("mesh", args) and None)


def test_prometheus_is_told_nothing_unless_asked(deployed):
    assert not [found for found in deployed.found if "monitoring.coreos.com" in found.type]


def test_prometheus_finds_the_agents_by_the_labels_of_their_pods():
    recorder = watched(monitoring={"labels": {"release": "prometheus"}})
    agent, monitor = recorder.one("-agent").inputs, recorder.one("-monitor").inputs
    assert (monitor["apiVersion"], monitor["kind"]) == ("monitoring.coreos.com/v1", "PodMonitor")
    labels = agent["spec"]["template"]["metadata"]["labels"]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": [agent["metadata"]["namespace"]]}
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    (container,) = agent["spec"]["template"]["spec"]["containers"]
    assert endpoint["port"] in [port["name"] for port in container["ports"]]
    for name in ("-monitor", "-alerts"):
        metadata = recorder.one(name).inputs["metadata"]
        assert metadata["labels"]["release"] == "prometheus"
        assert metadata["namespace"] == "mesh-kilo"
        assert "mesh-namespace" in {urn.rsplit("::", 1)[1] for urn in recorder.one(name).dependencies}


# squat/kilo 0.7.0 pkg/mesh/mesh.go, and kube-state-metrics' own.
METRICS = {"kilo_errors_total", "kilo_leader", "kilo_nodes", "kilo_peers", "kilo_reconciles_total", "kube_node_info"}


@pytest.mark.parametrize("cilium", [False, True])
def test_alerts_ask_for_metrics_that_there_are(cilium):
    (group,) = watched(**(CILIUM if cilium else {})).one("-alerts").inputs["spec"]["groups"]
    for rule in group["rules"]:
        assert set(re.findall(r"\b(?:kilo|kube)_\w+", rule["expr"])) <= METRICS
        assert rule["expr"].count("(") == rule["expr"].count(")")
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
    names = {rule["alert"] for rule in group["rules"]}
    # With tunnels between all machines each of them leads itself, always.
    assert ("KiloLeadersChange" in names) is cilium
    assert {"KiloAgentsGone", "KiloStandsStill", "KiloErrors", "KiloMachinesDisagree", "KiloMachinesMissing"} <= names


def test_kubespan_has_no_agents_to_watch():
    assert "monitoring: watches Kilo's agents" in refusal(
        {"home": HOME, "azure": AZURE}, kind="kubespan", monitoring={}
    )


# Peers outside of the cluster


def test_the_firewalls_learn_of_peers():
    told = computed({"rack": RACK, "azure": AZURE}, peer_cidr="10.5.0.0/24")
    assert "10.5.0.0/24" in told["azure"]["internal_cidrs"]
    assert "10.5.0.0/24" in told["rack"]["internal_cidrs"]


@pytest.mark.parametrize(
    ("cidr", "owner"),
    [("10.4.255.0/24", "mesh"), ("10.2.0.0/24", "location azure"), ("10.244.0.0/24", "pods"), ("10.96.9.0/24", "serv")],
)
def test_peers_stand_apart_from_every_other_range(cidr, owner):
    message = refusal({"rack": RACK, "azure": AZURE}, peer_cidr=cidr)
    assert owner in message
    assert "(peers)" in message


def test_kubespan_has_no_peers_outside():
    assert "peer_cidr: KubeSpan joins" in refusal(
        {"home": HOME, "azure": AZURE}, kind="kubespan", peer_cidr="10.5.0.0/24"
    )
