import base64
import gzip
import re

import pulumi
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from hybrid_talos._contract import BadInputs
from hybrid_talos.azure_machine import UNUSED_SSH_KEY, computer_name_prefix
from hybrid_talos.azure_sizes import accelerates_network, azure_sizes, closest_sizes, is_arm_size
from hybrid_talos.azure_worker_pool import AzureWorkerPool, AzureWorkerPoolArgs
from hybrid_talos.talos_yaml import load
from pool_recorder import MESH, generated_worker, is_secret, noise, run, unknown
from pulumi.provider.experimental.analyzer import Analyzer

BASE = {
    "resource_group_name": "demo-workers",
    "location": "West Europe",
    "virtual_network_name": "vnet",
    "subnet_cidr": "10.2.0.0/24",
    "vm_size": "Standard_D2s_v3",
    "min_size": 0,
    "max_size": 10,
    "image_id": "/subscriptions/s/image",
    "machine_config": generated_worker(),
    "talos_version": "1.14.0",
}


STAMP = "hybrid-talos.dev/template"
STAMP_TAG = f"k8s.io_cluster-autoscaler_node-template_label_{STAMP.replace('/', '_')}"


def pool(name="azure-workers", without=(), **changes):
    def program():
        args = {key: value for key, value in {**BASE, **changes}.items() if key not in without}
        made = AzureWorkerPool(name, args)
        return {
            "name": made.scale_set_name,
            "id": made.scale_set_id,
            "group": made.node_group,
            "stamp": made.template_hash,
        }

    return run(program)


def scale_set(**changes):
    return pool(**changes).one("-scale-set")


def custom_data(registered):
    return base64.b64decode(registered.inputs["virtualMachineProfile"]["osProfile"]["customData"], validate=True)


def config(**changes):
    return load(custom_data(scale_set(**changes)).decode())


def refused(said, **changes):
    found = []

    def program():
        args = {**BASE, **changes}
        found.append(AzureWorkerPool(args.pop("name", "azure-workers"), args))

    with pytest.raises(BadInputs, match=said) as error:
        run(program)
    assert not found
    return str(error.value)


def test_what_a_private_pool_is_made_of():
    recorder = pool()
    assert recorder.types() == [
        "azure-native:compute:VirtualMachineScaleSet",
        "azure-native:network:NatGateway",
        "azure-native:network:NetworkSecurityGroup",
        "azure-native:network:PublicIPAddress",
        "azure-native:network:Subnet",
        "hybrid-talos:index:AzureWorkerPool",
    ]
    subnet = recorder.one("-subnet").inputs
    # The SDK adds these two.
    del subnet["privateEndpointNetworkPolicies"], subnet["privateLinkServiceNetworkPolicies"]
    assert subnet == {
        "resourceGroupName": "demo-workers",
        "virtualNetworkName": "vnet",
        "addressPrefix": "10.2.0.0/24",
        "defaultOutboundAccess": False,
        "networkSecurityGroup": {"id": "azure-workers-firewall-id"},
        "natGateway": {"id": "azure-workers-outbound-id"},
    }
    gateway = recorder.one("-outbound").inputs
    assert gateway["publicIpAddresses"] == [{"id": "azure-workers-outbound-address-id"}]
    assert gateway["sku"] == {"name": "Standard"}
    address = recorder.one("-outbound-address").inputs
    assert (address["publicIPAllocationMethod"], address["sku"]["name"]) == ("Static", "Standard")


def test_a_pool_with_public_addresses_takes_them_from_a_standard_prefix_and_needs_no_gateway():
    recorder = pool(public_ips=True, zones=["1", "2"])
    assert "azure-native:network:NatGateway" not in recorder.types()
    assert "natGateway" not in recorder.one("-subnet").inputs
    prefix = recorder.one("-addresses").inputs
    assert (prefix["prefixLength"], prefix["sku"]["name"], prefix["zones"]) == (28, "Standard", ["1", "2", "3"])
    nic = recorder.one("-scale-set").inputs["virtualMachineProfile"]["networkProfile"][
        "networkInterfaceConfigurations"
    ][0]
    assert nic["ipConfigurations"][0]["publicIPAddressConfiguration"] == {
        "name": "public",
        "publicIPPrefix": {"id": "azure-workers-addresses-id"},
    }


def test_machines_of_a_secure_boot_image_boot_with_secure_boot():
    assert "securityProfile" not in scale_set().inputs["virtualMachineProfile"]
    assert scale_set(secure_boot=True).inputs["virtualMachineProfile"]["securityProfile"] == {
        "securityType": "TrustedLaunch",
        "uefiSettings": {"secureBootEnabled": True, "vTpmEnabled": True},
    }
    # A machine without it is stale.
    stamps = {scale_set(secure_boot=value).inputs["tags"][STAMP_TAG] for value in (False, True)}
    assert len(stamps) == 2


def test_the_scale_set_suits_talos_and_the_autoscaler():
    found = scale_set()
    inputs = found.inputs
    assert inputs["orchestrationMode"] == "Uniform"
    assert inputs["overprovision"] is False
    assert inputs["singlePlacementGroup"] is False
    assert inputs["upgradePolicy"] == {"mode": "Manual"}
    assert inputs["location"] == "westeurope"
    assert inputs["sku"] == {"name": "Standard_D2s_v3", "tier": "Standard", "capacity": 0.0}
    assert "zones" not in inputs
    profile = inputs["virtualMachineProfile"]
    assert sorted(profile) == ["diagnosticsProfile", "networkProfile", "osProfile", "priority", "storageProfile"]
    assert profile["priority"] == "Regular"
    assert profile["diagnosticsProfile"] == {"bootDiagnostics": {"enabled": True}}
    assert profile["storageProfile"]["imageReference"] == {"id": "/subscriptions/s/image"}
    disk = profile["storageProfile"]["osDisk"]
    assert (disk["createOption"], disk["diskSizeGB"]) == ("FromImage", 64)
    os_profile = profile["osProfile"]
    assert os_profile["allowExtensionOperations"] is False
    assert os_profile["linuxConfiguration"] == {
        "disablePasswordAuthentication": True,
        "provisionVMAgent": False,
        "ssh": {"publicKeys": [{"keyData": UNUSED_SSH_KEY, "path": "/home/talos/.ssh/authorized_keys"}]},
    }
    assert "adminPassword" not in os_profile
    nic = profile["networkProfile"]["networkInterfaceConfigurations"][0]
    assert nic["enableIPForwarding"] is True
    assert nic["ipConfigurations"] == [{"name": "ip", "primary": True, "subnet": {"id": "azure-workers-subnet-id"}}]


def test_only_the_number_of_machines_is_left_to_the_autoscaler():
    recorder = pool()
    assert recorder.one("-scale-set").ignored == ["sku.capacity"]
    assert all(not found.ignored for found in recorder.found if not found.name.endswith("-scale-set"))


def test_the_first_capacity_is_the_smallest_size():
    assert scale_set(min_size=3).inputs["sku"]["capacity"] == 3.0


def test_spot_machines_are_deleted_when_they_are_evicted():
    profile = scale_set(spot={}).inputs["virtualMachineProfile"]
    assert (profile["priority"], profile["evictionPolicy"]) == ("Spot", "Delete")
    assert profile["billingProfile"] == {"maxPrice": -1.0}
    assert scale_set(spot={"max_price": 0.05}).inputs["virtualMachineProfile"]["billingProfile"] == {"maxPrice": 0.05}


def test_the_configuration_is_a_secret_on_its_way_in_and_out():
    found = scale_set()
    assert is_secret(found.raw["virtualMachineProfile"]["osProfile"]["customData"])
    assert found.secret_outputs == ["virtualMachineProfile"]
    assert "userData" not in found.inputs["virtualMachineProfile"]


def test_custom_data_decodes_once_to_a_worker_of_this_pool():
    main, hostname = config(
        labels={"example.com/tier": "batch"},
        taints=[{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}],
        mesh_location=MESH,
        config_patches=["machine: {sysctls: {net.core.somaxconn: '1024'}}"],
    )
    machine = main["machine"]
    assert machine["type"] == "worker"
    assert "install" not in machine
    assert machine["kubelet"]["extraArgs"] == {"cloud-provider": "external", "rotate-server-certificates": "true"}
    assert machine["kubelet"]["nodeIP"] == {"validSubnets": ["10.2.0.0/24"]}
    assert machine["kubelet"]["extraConfig"]["registerWithTaints"] == [
        {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
    ]
    assert re.fullmatch("[0-9a-f]{16}", machine["nodeLabels"].pop(STAMP))
    assert machine["nodeLabels"] == {"example.com/tier": "batch", "hybrid-talos.dev/pool": "azure-workers"}
    assert machine["nodeAnnotations"] == {"kilo.squat.ai/location": "azure-westeurope"}
    assert machine["sysctls"] == {"net.core.somaxconn": "1024"}
    assert "nodeTaints" not in machine
    assert hostname == {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "off"}


def test_valid_subnets_of_the_base_do_not_stay_beside_the_pools():
    base = generated_worker().replace("  kubelet:\n", "  kubelet:\n    nodeIP: {validSubnets: [192.0.2.0/24]}\n")
    assert config(machine_config=base)[0]["machine"]["kubelet"]["nodeIP"] == {"validSubnets": ["10.2.0.0/24"]}


@pytest.mark.parametrize(
    ("version", "contract", "documents"),
    [
        ("1.13.4", "1.13", [{"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "off"}]),
        ("1.13.4", "1.11", [{"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "off"}]),
        ("1.13.0", "1.13", [{"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "stable"}]),
        ("1.13.0", "1.11", []),
        ("1.11.5", "1.11", []),
        ("1.11.5", "1.13", []),
    ],
)
def test_machines_take_their_name_from_the_platform(version, contract, documents):
    found = config(talos_version=version, machine_config=generated_worker(contract))
    assert [document for document in found if "kind" in document] == documents
    switch = found[0]["machine"]["features"].get("stableHostname")
    assert switch is (True if contract == "1.11" and version != "1.13.4" else None)


def test_the_same_inputs_give_the_same_bytes_whatever_their_order():
    one = custom_data(scale_set(labels={"a": "1", "b": "2"}, taints=[TAINT_A, TAINT_B]))
    other = custom_data(scale_set(labels={"b": "2", "a": "1"}, taints=[TAINT_B, TAINT_A]))
    assert one == other


TAINT_A = {"key": "a", "effect": "NoSchedule"}
TAINT_B = {"key": "b", "effect": "NoExecute"}


def test_tags_say_what_the_nodes_register_with():
    tags = scale_set(labels={"example.com/a_b": "1"}, taints=[{"key": "k", "value": "v", "effect": "NoExecute"}],
                     zones=["2"], tags={"team": "x"}).inputs["tags"]  # fmt: skip
    prefix = "k8s.io_cluster-autoscaler_node-template_"
    assert re.fullmatch("[0-9a-f]{16}", tags.pop(STAMP_TAG))
    assert tags == {
        "min": "0",
        "max": "10",
        "team": "x",
        f"{prefix}label_example.com_a~2b": "1",
        f"{prefix}label_hybrid-talos.dev_pool": "azure-workers",
        f"{prefix}label_topology.kubernetes.io_zone": "westeurope-2",
        f"{prefix}taint_k": "v:NoExecute",
    }


def stamp(**changes):
    """Return the hash in the pool's output, which its tag and its nodes have as well."""
    recorder = pool(**changes)
    found = recorder.one("-scale-set")
    (main, *_) = load(custom_data(found).decode())
    assert found.inputs["tags"][STAMP_TAG] == main["machine"]["nodeLabels"][STAMP] == recorder.values["stamp"]
    assert not is_secret(found.raw["tags"])
    return recorder.values["stamp"]


def test_a_hash_tells_machines_apart_that_are_made_of_something_else():
    before = stamp()
    assert stamp() == before
    changes = [
        {"image_id": "/subscriptions/s/other"},
        {"vm_size": "Standard_D4s_v3"},
        {"os_disk_size_gb": 100},
        {"config_patches": ["machine: {sysctls: {net.core.somaxconn: '1024'}}"]},
        {"mesh_location": MESH},
        {"labels": {"x": "y"}},
        {"taints": [TAINT_A]},
    ]
    assert len({before, *(stamp(**change) for change in changes)}) == len(changes) + 1


@pytest.mark.parametrize(
    "change", [{"max_size": 9}, {"tags": {"team": "x"}}, {"talos_api_allowed_cidrs": ["192.0.2.0/24"]}]
)
def test_a_change_that_needs_no_new_machine_leaves_the_hash(change):
    assert stamp(**change) == stamp()


def test_the_hash_is_the_pools_own_affair():
    refused("labels.hybrid-talos.dev/template: is set by the pool itself", labels={STAMP: "0123456789abcdef"})


def test_own_tags_are_on_every_resource_that_can_have_them():
    recorder = pool(tags={"team": "x"})
    tagged = {found.name for found in recorder.found if found.inputs.get("tags", {}).get("team") == "x"}
    assert tagged == {f"azure-workers-{role}" for role in ("scale-set", "firewall", "outbound", "outbound-address")}


def rules(**changes):
    found = pool(**changes).one("-firewall").inputs["securityRules"]
    assert len({rule["priority"] for rule in found}) == len(found)
    assert all((rule["direction"], rule["access"]) == ("Inbound", "Allow") for rule in found)
    return {
        rule["name"]: (
            rule["protocol"],
            rule.get("sourceAddressPrefix") or rule["sourceAddressPrefixes"],
            rule["destinationPortRanges"],
        )
        for rule in found
    }


def test_the_firewall_opens_the_mesh_to_its_peers_and_node_ports_to_the_inside():
    inside = ["10.4.0.0/16", "10.244.0.0/16", "192.0.2.0/24"]
    assert rules(mesh_location=MESH) == {
        "allow-mesh": ("Udp", ["198.51.100.0/24", "203.0.113.7/32"], ["51820"]),
        "allow-machine-apis-from-network": ("Tcp", "VirtualNetwork", ["50000", "10250"]),
        "allow-machine-apis-from-mesh": ("Tcp", inside, ["50000", "10250"]),
        "allow-cni-from-network": ("Udp", "VirtualNetwork", ["4789", "8472"]),
        "allow-cni-from-mesh": ("Udp", inside, ["4789", "8472"]),
    }


def test_a_mesh_whose_peers_are_unknown_opens_its_port_to_all_and_nothing_else():
    found = rules(mesh_location={**MESH, "firewall_sources": ["0.0.0.0/0", "203.0.113.7/32"], "firewall_port": 51821.0})
    assert found["allow-mesh"] == ("Udp", ["0.0.0.0/0"], ["51821"])
    assert [name for name, (_, sources, _) in found.items() if "0.0.0.0/0" in sources] == ["allow-mesh"]


def test_ranges_inside_others_are_left_out_since_azure_refuses_overlaps():
    found = rules(mesh_location={**MESH, "internal_cidrs": ["10.0.0.0/8", "10.4.0.0/16", "10.0.0.0/8", "192.0.2.0/24"]})
    assert found["allow-cni-from-mesh"][1] == ["10.0.0.0/8", "192.0.2.0/24"]
    assert "internal_cidrs: nonsense is not an IPv4 range" in apply_refused(
        mesh_location={**MESH, "internal_cidrs": ["nonsense"]}
    )


def test_without_a_mesh_only_the_virtual_network_gets_in():
    assert {sources for _, sources, _ in rules().values()} == {"VirtualNetwork"}


def test_children_have_the_pool_as_parent_and_its_name():
    recorder = pool()
    urn = "urn:pulumi:stack::project::pulumi:pulumi:Stack$hybrid-talos:index:AzureWorkerPool::azure-workers"
    children = [found for found in recorder.found if found.name != "azure-workers"]
    assert all(found.parent == urn and found.name.startswith("azure-workers-") for found in children)
    assert recorder.outputs[urn] == {"scaleSetName", "scaleSetId", "nodeGroup", "templateHash"}


def test_two_pools_live_in_one_program():
    def program():
        AzureWorkerPool("a", {**BASE, "subnet_cidr": "10.2.0.0/24"})
        AzureWorkerPool("b", {**BASE, "subnet_cidr": "10.2.1.0/24"})

    recorder = run(program)
    names = [found.name for found in recorder.found]
    assert len(set(names)) == len(names) == 12
    sets = [found for found in recorder.found if found.name.endswith("-scale-set")]
    assert len({found.inputs["virtualMachineProfile"]["osProfile"]["computerNamePrefix"] for found in sets}) == 2
    assert (
        len(
            {
                found.inputs["tags"]["k8s.io_cluster-autoscaler_node-template_label_hybrid-talos.dev_pool"]
                for found in sets
            }
        )
        == 2
    )


def test_outputs_come_from_the_real_scale_set():
    values = pool(taints=[TAINT_A], zones=["1"], labels={"x": "y"}).values
    assert values["name"] == "azure-workers-scale-seta1b2c3d4"
    assert values["id"] == "azure-workers-scale-set-id"
    assert values["group"] == {
        "cloud": "azure",
        "name": "azure-workers-scale-seta1b2c3d4",
        "min_size": 0,
        "max_size": 10,
        "labels": {"hybrid-talos.dev/pool": "azure-workers", "topology.kubernetes.io/zone": "westeurope-1", "x": "y"},
        "taints": ["a=:NoSchedule"],
    }


def test_inputs_may_be_outputs_and_secrets():
    def program():
        AzureWorkerPool(
            "azure-workers",
            {
                **BASE,
                "machine_config": pulumi.Output.secret(generated_worker()),
                "mesh_location": pulumi.Output.from_input(MESH),
                "config_patches": [pulumi.Output.from_input("machine: {time: {disabled: true}}")],
            },
        )

    (main, _) = load(custom_data(run(program).one("-scale-set")).decode())
    assert main["machine"]["time"] == {"disabled": True}


def test_a_configuration_above_the_limit_is_compressed():
    patch = "machine: {files: [{path: /var/x, op: create, permissions: 0o644, content: '" + "words " * 12_000 + "'}]}"
    data = custom_data(scale_set(config_patches=[patch]))
    assert data[:3] == b"\x1f\x8b\x08"
    assert len(data) <= 65_535
    (main, _) = load(gzip.decompress(data).decode())
    assert main["machine"]["type"] == "worker"
    assert main["machine"]["files"][0]["permissions"] == 0o644
    assert custom_data(scale_set(config_patches=[patch])) == data


def test_a_configuration_that_does_not_fit_is_refused_with_its_size_and_biggest_parts():
    secret = noise(100_000)
    patch = "machine: {files: [{path: /x, content: " + secret + "}], sysctls: {a: " + "b" * 300 + "}}"
    message = apply_refused(config_patches=[patch])
    assert re.search(
        r"AzureWorkerPool 'azure-workers': .* 10\d,\d{3} bytes.*65,535.*machine\.files \(100,\d{3} bytes\)", message
    )
    assert secret[:20] not in message


def apply_refused(**changes):
    with pytest.raises(BadInputs) as error:
        pool(**changes)
    return str(error.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"machine_config": ""}, "machine_config is empty"),
        ({"machine_config": "kind: HostnameConfig\napiVersion: v1alpha1\nauto: stable\n"}, "holds no machine section"),
        ({"machine_config": generated_worker().replace("type: worker", "type: controlplane")}, "must be a worker's"),
        ({"machine_config": generated_worker().replace('key: ""', "key: c2Vj")}, "machine.ca.key is a control plane's"),
        ({"config_patches": ["machine: {kubelet: {extraArgs: {provider-id: x}}}"]}, "a provider ID is set"),
        ({"config_patches": ["machine: {network: {hostname: x}}"]}, "a host name is set"),
        ({"config_patches": ["{apiVersion: v1alpha1, kind: HostnameConfig, hostname: x}"]}, "a host name is set"),
        ({"config_patches": ["machine: {nodeTaints: {a: b:NoSchedule}}"]}, "use the input taints"),
        ({"config_patches": ["machine: {nodeLabels: {stray: x}}"]}, "stray would be unknown to the autoscaler"),
        ({"config_patches": ["machine: {kubelet: {extraConfig: {registerWithTaints: [{key: a, effect: NoExecute}]}}}"]},
         "registerWithTaints: its taints would be unknown"),
        ({"config_patches": ["machine: {}", "machine: {install: {$patch: delete}}"]}, r"patches\[1\]: deletes with"),
        ({"mesh_location": {**MESH, "config_patch": "- a"}}, "mesh_location.config_patch"),
    ],
)  # fmt: skip
def test_configurations_that_cannot_serve_a_pool_are_refused(changes, said):
    message = apply_refused(**changes)
    assert re.search(f"AzureWorkerPool 'azure-workers': .*{said}", message)
    assert "marker" not in message


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"min_size": -1}, "min_size: "),
        ({"min_size": 6, "max_size": 5}, "min_size is above max_size"),
        ({"max_size": 601, "subnet_cidr": "10.2.0.0/21"}, "max_size: .*600"),
        ({"max_size": 17, "public_ips": True}, "can have 16 machines"),
        ({"subnet_cidr": "10.2.0.0/28", "max_size": 12}, "room for 11"),
        ({"subnet_cidr": "10.2.0.5/24"}, "subnet_cidr: .*host bits"),
        ({"subnet_cidr": 7}, "subnet_cidr: must be an IPv4 range"),
        ({"vm_size": "D2s_v3"}, "vm_size: must be the name"),
        ({"vm_size": "Standard_D2ps_v5"}, "cannot boot an image for amd64"),
        ({"arch": "arm64"}, "cannot boot an image for arm64"),
        ({"zones": ["1", "1"]}, "zones: "),
        ({"zones": ["westeurope-1"]}, "zones: "),
        ({"location": ""}, "location: "),
        ({"labels": {"node-role.kubernetes.io/worker": ""}}, "labels: node-role.*from a control plane"),
        ({"labels": {"hybrid-talos.dev/pool": "x"}}, "is set by the pool itself"),
        ({"taints": [{"key": "a", "effect": "Never"}]}, "taints.0.effect: "),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]}, "several effects"),
        ({"tags": {"min": "1"}}, "tags: min is read by the autoscaler"),
        ({"tags": {"a/b": "1"}}, "tags: a/b must have"),
        ({"spot": {"max_price": 0}}, "spot.max_price: "),
        ({"spot": {}, "vm_size": "Standard_B2s"}, "no spot machines"),
        ({"os_disk_size_gb": 8}, "os_disk_size_gb: "),
        ({"talos_version": "1.2.0"}, "talos_version: Talos 1.2 is not known"),
        ({"talos_version": 1.14}, "talos_version: "),
        ({"security_profile": {}}, "security_profile: no such input"),
        ({"name": "x" * 41}, "40 fit"),
        ({"name": "-x"}, "pool's name"),
    ],
)
def test_bad_inputs_are_refused_before_anything_is_registered(changes, said):
    refused(said, **changes)


def test_all_problems_come_in_one_message():
    message = refused("min_size", min_size=-1, subnet_cidr="x", labels={"k8s.io/x": ""}, zones=["9"])
    assert all(f"{name}: " in message for name in ("min_size", "subnet_cidr", "labels", "zones"))


def test_a_missing_input_is_named():
    with pytest.raises(BadInputs, match="image_id: required"):
        pool(without=["image_id"])


def test_sizes_from_another_language_come_as_floats():
    assert scale_set(min_size=1.0, max_size=3.0).inputs["tags"]["max"] == "3"


def test_a_configuration_that_does_not_fit_is_refused_before_its_image_is_known():
    patch = "machine: {files: [{path: /x, content: " + noise(100_000) + "}]}"

    def program():
        AzureWorkerPool("azure-workers", {**BASE, "config_patches": [patch], "image_id": unknown()})

    with pytest.raises(BadInputs, match=r"its biggest parts are machine\.files"):
        run(program, preview=True)


def test_nothing_needs_to_be_known_in_a_preview():
    def program():
        later = unknown()
        AzureWorkerPool("azure-workers", {**BASE, "machine_config": later, "mesh_location": later, "image_id": later})

    assert len(run(program, preview=True).found) == 6


@pytest.mark.parametrize(
    ("size", "arm"),
    [("Standard_D2ps_v5", True), ("Standard_E4pds_v6", True), ("Standard_B2pts_v2", True), ("Standard_M64-32ms", False),
     ("Standard_D2s_v3", False), ("Standard_NC4as_T4_v3", False), ("Standard_HB120rs_v3", False)],
)  # fmt: skip
def test_arm_sizes_are_told_by_their_name(size, arm):
    assert is_arm_size(size) is arm


@pytest.mark.parametrize(
    "name", ["workers", "w", "azure-workers", "azure-workers-general", "a_b", "A.b", "123", "1" * 30, "x" * 40]
)
def test_computer_name_prefixes_are_legal(name):
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?", computer_name_prefix(name))
    assert not computer_name_prefix(name).isdigit()


def test_computer_name_prefixes_do_not_collide():
    names = ["azure-workers-general", "azure-workers-gpu", "a_b", "a-b", "a.b", "A-b"]
    assert len({computer_name_prefix(name) for name in names}) == len(names)


def test_the_ssh_key_is_one_that_azure_takes():
    key = load_ssh_public_key(UNUSED_SSH_KEY.encode())
    assert isinstance(key, RSAPublicKey)
    assert key.key_size >= 2048


def test_pulumis_analyzer_takes_the_contract():
    analyzer = Analyzer("hybrid-talos")
    component = analyzer.analyze_component(AzureWorkerPool)
    assert set(component.inputs) >= {"subnetCidr", "meshLocation", "configPatches", "taints", "spot"}
    assert set(component.outputs) == {"scaleSetName", "scaleSetId", "nodeGroup", "templateHash"}
    assert all(prop.description for prop in [*component.inputs.values(), *component.outputs.values()])
    # One of the two that name a network.
    assert len(AzureWorkerPoolArgs.__required_keys__) == len(BASE) - 1


def test_a_disk_on_the_host_is_read_only_cached_and_no_managed_disk():
    disk = scale_set(ephemeral_os_disk="CacheDisk", os_disk_size_gb=50).inputs["virtualMachineProfile"][
        "storageProfile"
    ]["osDisk"]
    assert disk == {
        "createOption": "FromImage",
        "caching": "ReadOnly",
        "diskSizeGB": 50,
        "diffDiskSettings": {"option": "Local", "placement": "CacheDisk"},
    }


def test_the_kind_of_disk_and_the_network_are_as_asked_for():
    found = scale_set(os_disk_type="Premium_LRS", accelerated_networking=True).inputs["virtualMachineProfile"]
    assert found["storageProfile"]["osDisk"]["managedDisk"] == {"storageAccountType": "Premium_LRS"}
    (nic,) = found["networkProfile"]["networkInterfaceConfigurations"]
    assert nic["enableAcceleratedNetworking"] is True
    (nic,) = scale_set().inputs["virtualMachineProfile"]["networkProfile"]["networkInterfaceConfigurations"]
    assert "enableAcceleratedNetworking" not in nic
    assert "networkSecurityGroup" not in nic


def test_a_subnet_that_exists_is_used_with_the_pools_own_firewall_and_no_way_out_of_ours():
    recorder = pool(without=["virtual_network_name"], subnet_id="/subscriptions/s/subnet")
    assert recorder.types() == [
        "azure-native:compute:VirtualMachineScaleSet",
        "azure-native:network:NetworkSecurityGroup",
        "hybrid-talos:index:AzureWorkerPool",
    ]
    profile = recorder.one("-scale-set").inputs["virtualMachineProfile"]
    (nic,) = profile["networkProfile"]["networkInterfaceConfigurations"]
    assert nic["networkSecurityGroup"] == {"id": "azure-workers-firewall-id"}
    assert nic["ipConfigurations"][0]["subnet"] == {"id": "/subscriptions/s/subnet"}


def test_the_talos_api_is_opened_for_diagnosis_to_named_ranges_only():
    (rule,) = [
        rule
        for rule in pool(talos_api_allowed_cidrs=["203.0.113.0/24"]).one("-firewall").inputs["securityRules"]
        if rule["name"] == "allow-talos-api-for-diagnosis"
    ]
    assert rule["destinationPortRanges"] == ["50000"]
    assert rule["sourceAddressPrefixes"] == ["203.0.113.0/24"]
    refused("talos_api_allowed_cidrs.*0.0.0.0/0.*never open", talos_api_allowed_cidrs=["0.0.0.0/0"])


@pytest.mark.parametrize(
    ("said", "changes"),
    [
        ("Premium_LRS needs a size with premium disks", {"vm_size": "Standard_D2_v3", "os_disk_type": "Premium_LRS"}),
        (
            "CacheDisk needs a size with that disk",
            {"vm_size": "Standard_D2s_v5", "ephemeral_os_disk": "CacheDisk", "os_disk_size_gb": 50},
        ),
        (
            "CacheDisk needs a size with that disk",
            {"vm_size": "Standard_D2d_v5", "ephemeral_os_disk": "CacheDisk", "os_disk_size_gb": 50},
        ),
        (
            "not NVMe, so that it is CacheDisk or ResourceDisk",
            {"vm_size": "Standard_D2ds_v5", "ephemeral_os_disk": "NvmeDisk", "os_disk_size_gb": 50},
        ),
        ("os_disk_size_gb is required with ephemeral_os_disk", {"ephemeral_os_disk": "CacheDisk"}),
        (
            "accelerated_networking: Standard_B2s does not have it",
            {"vm_size": "Standard_B2s", "accelerated_networking": True},
        ),
        ("did you mean Standard_D2s_v3", {"vm_size": "Standard_D2s_v33"}),
    ],
)
def test_what_a_size_cannot_do_is_refused(said, changes):
    refused(said, **changes)


def test_a_size_that_the_autoscaler_does_not_know_may_have_machines_from_the_start():
    assert pool(vm_size="Standard_D2s_v33", min_size=1).one("-scale-set").inputs["sku"]["name"] == "Standard_D2s_v33"


def test_the_table_of_sizes_is_whole_and_agrees_with_the_names():
    sizes = azure_sizes()
    assert len(sizes) == 1370
    two = sizes["Standard_D2s_v3"]
    assert (two.family, two.cpus, two.memory_gib, two.gpus) == ("standardDSv3Family", 2, 8, 0)
    assert sizes["Standard_NC4as_T4_v3"].family == "Standard NCASv3_T4 Family"
    assert sizes["Standard_NC4as_T4_v3"].gpus == 1
    assert [name for name, size in sizes.items() if is_arm_size(name) != (size.arch == "arm64")] == []
    assert accelerates_network("Standard_M64-32bds_1_v3")
    assert closest_sizes("Standard_D2s_v33")[0] == "Standard_D2s_v3"


def test_a_pool_has_one_network():
    refused("one of virtual_network_name and subnet_id", subnet_id="/subscriptions/s/subnet")


GATEWAY = {"gateway": True, "min_size": 2, "max_size": 2, "public_ips": True, "mesh_location": MESH}


def test_gateways_lead_their_location():
    (main, *_) = config(**GATEWAY)
    assert main["machine"]["nodeAnnotations"] == {
        "kilo.squat.ai/location": "azure-westeurope",
        "kilo.squat.ai/leader": "true",
    }
    (main, *_) = config(mesh_location=MESH)
    assert "kilo.squat.ai/leader" not in main["machine"]["nodeAnnotations"]


def test_the_number_of_gateways_is_ours():
    found = scale_set(**GATEWAY)
    assert found.inputs["sku"]["capacity"] == 2
    assert found.ignored == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_size": 3}, "min_size must be max_size with gateway"),
        ({"min_size": 0, "max_size": 0}, "max_size"),
        ({"mesh_location": None}, "mesh_location is required with gateway"),
    ],
)
def test_gateways_that_could_not_lead_are_refused(changes, said):
    refused(said, **{**GATEWAY, **changes})
