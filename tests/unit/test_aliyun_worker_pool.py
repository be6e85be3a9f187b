import base64
import gzip
import logging
import re

import pulumi
import pytest
from hybrid_talos._contract import BadInputs
from hybrid_talos.aliyun_instance_types import instance_type_problems
from hybrid_talos.aliyun_worker_pool import AliyunWorkerPool, AliyunWorkerPoolArgs
from hybrid_talos.talos_yaml import load
from pool_recorder import MESH, generated_worker, is_secret, noise, run, unknown
from pulumi.provider.experimental.analyzer import Analyzer

BASE = {
    "region": "cn-hangzhou",
    "vpc_id": "vpc-1",
    "zones": {"cn-hangzhou-h": "10.3.0.0/24", "cn-hangzhou-i": "10.3.1.0/24"},
    "instance_types": ["ecs.g7.large"],
    "min_size": 0,
    "max_size": 5,
    "image_id": "m-1",
    "machine_config": generated_worker(),
    "talos_version": "1.14.0",
}
ONE_ZONE = {"cn-hangzhou-h": "10.3.0.0/24"}


STAMP = "hybrid-talos.dev/template"


def pool(name="aliyun-workers", without=(), **changes):
    def program():
        args = {key: value for key, value in {**BASE, **changes}.items() if key not in without}
        made = AliyunWorkerPool(name, args)
        return {"id": made.scaling_group_id, "group": made.node_group, "stamp": made.template_hash}

    return run(program)


def machine(**changes):
    return pool(**changes).one("-machine")


def user_data(registered):
    """Return what a machine finds: the provider encodes only what does not decode (`ess_scaling_configuration`)."""
    return base64.b64decode(registered.inputs["userData"], validate=True)


def refused(said, **changes):
    found = []

    def program():
        args = {**BASE, **changes}
        found.append(AliyunWorkerPool(args.pop("name", "aliyun-workers"), args))

    with pytest.raises(BadInputs, match=said) as error:
        run(program)
    assert not found
    return str(error.value)


def apply_refused(**changes):
    with pytest.raises(BadInputs) as error:
        pool(**changes)
    return str(error.value)


def test_what_a_private_pool_is_made_of():
    recorder = pool()
    assert recorder.types() == [
        "alicloud:ecs/ecsPrefixList:EcsPrefixList",
        "alicloud:ecs/eipAddress:EipAddress",
        "alicloud:ecs/eipAssociation:EipAssociation",
        "alicloud:ecs/securityGroup:SecurityGroup",
        *["alicloud:ecs/securityGroupRule:SecurityGroupRule"] * 4,
        "alicloud:ess/scalingConfiguration:ScalingConfiguration",
        "alicloud:ess/scalingGroup:ScalingGroup",
        "alicloud:vpc/natGateway:NatGateway",
        *["alicloud:vpc/snatEntry:SnatEntry"] * 2,
        *["alicloud:vpc/switch:Switch"] * 2,
        "hybrid-talos:index:AliyunWorkerPool",
    ]
    switch = recorder.one("-vswitch-cn-hangzhou-i").inputs
    assert (switch["vpcId"], switch["zoneId"], switch["cidrBlock"]) == ("vpc-1", "cn-hangzhou-i", "10.3.1.0/24")
    gateway = recorder.one("-outbound").inputs
    assert (gateway["natType"], gateway["paymentType"]) == ("Enhanced", "PayAsYouGo")
    assert gateway["vswitchId"] == "aliyun-workers-vswitch-cn-hangzhou-h-id"
    assert recorder.one("-outbound-binding").inputs["instanceId"] == "aliyun-workers-outbound-id"
    for zone in BASE["zones"]:
        entry = recorder.one(f"-outbound-{zone}")
        assert entry.inputs == {
            "snatTableId": "stb-1",
            "snatIp": "203.0.113.99",
            "sourceVswitchId": f"aliyun-workers-vswitch-{zone}-id",
        }
        assert any(urn.endswith("-outbound-binding") for urn in entry.dependencies)


def test_a_pool_with_public_addresses_needs_no_gateway():
    recorder = pool(public_ips=True)
    assert not [found for found in recorder.found if "outbound" in found.name]
    inputs = recorder.one("-machine").inputs
    assert (inputs["internetChargeType"], inputs["internetMaxBandwidthOut"]) == ("PayByTraffic", 100)
    private = machine().inputs
    assert "internetMaxBandwidthOut" not in private


def test_no_deprecated_input_is_used():
    names = {(found.type, key) for found in pool(public_ips=False).found for key in found.inputs}
    bad = {"name", "vswitchId", "instanceIds", "ioOptimized", "availabilityZone", "instanceChargeType", "innerAccess"}
    allowed = {("alicloud:vpc/natGateway:NatGateway", "vswitchId")}
    assert not {pair for pair in names if pair[1] in bad} - allowed


def test_the_group_belongs_to_the_autoscaler():
    group = pool(min_size=1).one("-group")
    assert group.inputs == {
        "scalingGroupName": "aliyun-workers-vpc-1",
        "minSize": 1,
        "maxSize": 5,
        "vswitchIds": [f"aliyun-workers-vswitch-{zone}-id" for zone in BASE["zones"]],
        "multiAzPolicy": "BALANCE",
        "scalingPolicy": "release",
        "healthCheckType": "ECS",
        "tags": {},
    }
    assert group.ignored == ["desiredCapacity"]
    assert all(not found.ignored for found in pool().found if not found.name.endswith("-group"))


def test_the_balance_policy_stands_from_the_start_since_it_cannot_change():
    assert pool(zones=ONE_ZONE).one("-group").inputs["multiAzPolicy"] == "BALANCE"


def test_the_configuration_suits_talos_and_the_autoscaler():
    recorder = pool()
    found = recorder.one("-machine")
    inputs = dict(found.inputs)
    assert base64.b64decode(inputs.pop("userData"))
    inputs["tags"] = {key: value for key, value in inputs["tags"].items() if key != STAMP}
    assert inputs == {
        "scalingGroupId": "aliyun-workers-group-id",
        "active": True,
        "enable": True,
        "forceDelete": True,
        "imageId": "m-1",
        "instanceType": "ecs.g7.large",
        "spotStrategy": "NoSpot",
        "securityGroupId": "aliyun-workers-firewall-id",
        "securityEnhancementStrategy": "Deactive",
        "systemDiskCategory": "cloud_essd",
        "systemDiskSize": 64,
        "httpEndpoint": "enabled",
        "tags": {"hybrid-talos.dev/pool": "alibaba-workers"},
    }


def test_no_machine_boots_before_it_can_be_reached_and_get_out():
    needed = {urn.rsplit("::", 1)[1] for urn in machine(mesh_location=MESH).dependencies}
    roles = ["allow-apid", "allow-kubelet", "allow-flannel", "allow-cilium", "allow-mesh"]
    roles += [f"outbound-{zone}" for zone in BASE["zones"]]
    assert {f"aliyun-workers-{role}" for role in roles} <= needed


def test_the_configuration_is_a_secret_on_its_way_in_and_out():
    found = machine()
    assert is_secret(found.raw["userData"])
    assert found.secret_outputs == ["userData"]


def test_several_types_of_one_shape_are_offered_in_order():
    inputs = machine(instance_types=["ecs.g7.large", "ecs.g6.large"]).inputs
    assert inputs["instanceTypes"] == ["ecs.g7.large", "ecs.g6.large"]
    assert "instanceType" not in inputs


def test_spot_machines():
    assert machine(spot={}).inputs["spotStrategy"] == "SpotAsPriceGo"
    capped = machine(spot={"max_price": 0.5}, instance_types=["ecs.g7.large", "ecs.g6.large"]).inputs
    assert capped["spotStrategy"] == "SpotWithPriceLimit"
    assert capped["spotPriceLimits"] == [
        {"instanceType": "ecs.g7.large", "priceLimit": 0.5},
        {"instanceType": "ecs.g6.large", "priceLimit": 0.5},
    ]


def test_user_data_decodes_once_to_a_worker_of_this_pool():
    found = machine(labels={"example.com/tier": "x"}, mesh_location=MESH, min_size=1,
                    taints=[{"key": "a", "effect": "NoSchedule"}])  # fmt: skip
    main, hostname = load(user_data(found).decode())
    settings = main["machine"]
    assert settings["type"] == "worker"
    assert "install" not in settings
    assert settings["kubelet"]["extraArgs"] == {"cloud-provider": "external", "rotate-server-certificates": "true"}
    assert settings["kubelet"]["nodeIP"] == {"validSubnets": ["10.3.0.0/24", "10.3.1.0/24"]}
    assert settings["kubelet"]["extraConfig"] == {"registerWithTaints": [{"key": "a", "effect": "NoSchedule"}]}
    assert re.fullmatch("[0-9a-f]{16}", settings["nodeLabels"].pop(STAMP))
    assert settings["nodeLabels"] == {"example.com/tier": "x", "hybrid-talos.dev/pool": "alibaba-workers"}
    assert settings["nodeAnnotations"] == MESH["annotations"]
    assert hostname["auto"] == "off"


def test_tags_of_the_machines_are_the_labels_of_the_nodes_and_nothing_else():
    recorder = pool(labels={"example.com/tier": "x"}, zones=ONE_ZONE, tags={"team": "y"})
    tags = recorder.one("-machine").inputs["tags"]
    assert tags.pop(STAMP) == recorder.values["stamp"]
    assert tags == {
        "example.com/tier": "x",
        "hybrid-talos.dev/pool": "alibaba-workers",
        "topology.kubernetes.io/zone": "cn-hangzhou-h",
    }
    tagged = {found.name for found in recorder.found if found.inputs.get("tags", {}).get("team") == "y"}
    roles = ("group", "firewall", "vswitch-cn-hangzhou-h", "outbound", "outbound-address")
    assert tagged == {f"aliyun-workers-{role}" for role in roles}


def opened(recorder):
    """Return what the security group lets in: role to protocol, ports and ranges."""
    lists = {
        f"{found.name}-id": [entry["cidr"] for entry in found.inputs["entries"]]
        for found in recorder.found
        if found.type.endswith(":EcsPrefixList")
    }
    rules = [found.inputs for found in recorder.found if found.type.endswith(":SecurityGroupRule")]
    assert all((rule["type"], rule["policy"]) == ("ingress", "accept") for rule in rules)
    assert not any("cidrIp" in rule for rule in rules)
    return {rule["description"]: (rule["ipProtocol"], rule["portRange"], lists[rule["prefixListId"]]) for rule in rules}


def test_the_firewall_opens_the_mesh_to_its_peers_and_node_ports_to_the_inside():
    inside = ["10.3.0.0/16", "10.4.0.0/16", "10.244.0.0/16", "192.0.2.0/24"]
    assert opened(pool(mesh_location=MESH, vpc_cidr="10.3.0.0/16")) == {
        "apid": ("tcp", "50000/50000", inside),
        "kubelet": ("tcp", "10250/10250", inside),
        "flannel": ("udp", "4789/4789", inside),
        "cilium": ("udp", "8472/8472", inside),
        "mesh": ("udp", "51820/51820", ["198.51.100.0/24", "203.0.113.7/32"]),
    }


def test_without_a_mesh_only_the_pools_own_ranges_get_in():
    found = opened(pool())
    assert "mesh" not in found
    assert {tuple(ranges) for _, _, ranges in found.values()} == {("10.3.0.0/23",)}


def test_a_range_stands_once_in_a_prefix_list_and_too_many_are_refused():
    doubled = {**MESH, "firewall_sources": ["0.0.0.0/0", "0.0.0.0/0"], "firewall_port": 51821.0}
    assert opened(pool(mesh_location=doubled))["mesh"] == ("udp", "51821/51821", ["0.0.0.0/0"])
    many = {**MESH, "firewall_sources": [f"203.0.113.{host}/32" for host in range(1, 42, 2)]}
    assert "peers ranges: 21 ranges" in apply_refused(mesh_location=many)


def test_prefix_lists_have_a_fixed_size_that_leaves_the_rules_of_a_group_below_their_limit():
    recorder = pool(mesh_location=MESH)
    sizes = {f"{f.name}-id": f.inputs["maxEntries"] for f in recorder.found if f.type.endswith(":EcsPrefixList")}
    rules = [found for found in recorder.found if found.type.endswith(":SecurityGroupRule")]
    assert sum(sizes[rule.inputs["prefixListId"]] for rule in rules) <= 100


def test_children_have_the_pool_as_parent_and_its_name():
    recorder = pool()
    urn = "urn:pulumi:stack::project::pulumi:pulumi:Stack$hybrid-talos:index:AliyunWorkerPool::aliyun-workers"
    children = [found for found in recorder.found if found.name != "aliyun-workers"]
    assert all(found.parent == urn and found.name.startswith("aliyun-workers-") for found in children)
    assert recorder.outputs[urn] == {"scalingGroupId", "nodeGroup", "templateHash"}


def test_two_pools_live_in_one_program():
    def program():
        AliyunWorkerPool("a", {**BASE, "zones": {"cn-hangzhou-h": "10.3.0.0/24"}})
        AliyunWorkerPool("b", {**BASE, "zones": {"cn-hangzhou-h": "10.3.1.0/24"}})

    recorder = run(program)
    names = [found.name for found in recorder.found]
    assert len(set(names)) == len(names)
    machines = [found.inputs for found in recorder.found if found.name.endswith("-machine")]
    assert len({found["tags"]["hybrid-talos.dev/pool"] for found in machines}) == 2


def stamp(**changes):
    """Return the hash in the pool's output, which the machines' tag and their nodes have as well."""
    recorder = pool(**changes)
    found = recorder.one("-machine")
    (main, *_) = load(user_data(found).decode())
    assert found.inputs["tags"][STAMP] == main["machine"]["nodeLabels"][STAMP] == recorder.values["stamp"]
    assert not is_secret(found.raw["tags"])
    return recorder.values["stamp"]


def test_a_hash_tells_machines_apart_that_are_made_of_something_else():
    before = stamp()
    assert stamp() == before
    changes = [
        {"image_id": "m-2"},
        {"instance_types": ["ecs.g7.xlarge"]},
        {"system_disk_size_gb": 100},
        {"config_patches": ["machine: {sysctls: {net.core.somaxconn: '1024'}}"]},
        {"labels": {"x": "y"}},
        {"role_name": "worker"},
    ]
    assert len({before, *(stamp(**change) for change in changes)}) == len(changes) + 1


@pytest.mark.parametrize("change", [{"max_size": 4}, {"tags": {"team": "x"}}])
def test_a_change_that_needs_no_new_machine_leaves_the_hash(change):
    assert stamp(**change) == stamp()


def test_outputs_come_from_the_real_group():
    values = pool(zones=ONE_ZONE, labels={"x": "y"}).values
    assert values["id"] == "aliyun-workers-group-id"
    assert values["group"] == {
        "cloud": "aliyun",
        "name": "aliyun-workers-group-id",
        "min_size": 0,
        "max_size": 5,
        "labels": {
            "hybrid-talos.dev/pool": "alibaba-workers",
            "topology.kubernetes.io/zone": "cn-hangzhou-h",
            "x": "y",
        },
        "taints": [],
    }


def test_a_configuration_above_the_older_limit_is_compressed():
    patch = "machine: {files: [{path: /var/x, op: create, content: '" + "words " * 4_000 + "'}]}"
    data = user_data(machine(config_patches=[patch]))
    assert data[:2] == b"\x1f\x8b"
    assert load(gzip.decompress(data).decode())[0]["machine"]["type"] == "worker"


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, "pulumi.quiet")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "pulumi.quiet"]


def test_a_configuration_between_the_two_limits_gives_a_warning(warnings):
    patch = "machine: {files: [{path: /var/x, content: " + noise(25_000) + "}]}"
    data = user_data(machine(config_patches=[patch]))
    assert 16 * 1024 < len(data) <= 32 * 1024
    assert any("above the 16,384" in message for message in warnings())


def test_a_configuration_that_does_not_fit_is_refused_with_its_size_and_biggest_parts():
    secret = noise(60_000)
    message = apply_refused(config_patches=["machine: {files: [{path: /var/x, content: " + secret + "}]}"])
    assert re.search(
        r"AliyunWorkerPool 'aliyun-workers': .* 6\d,\d{3} bytes.*32,768.*machine\.files \(60,\d{3}", message
    )
    assert secret[:20] not in message


def test_zones_of_numbered_regions_are_taken():
    pool(region="ap-southeast-1", zones={"ap-southeast-1a": "10.3.0.0/24", "ap-southeast-1b": "10.3.1.0/24"})


def test_one_zone_gives_a_warning_and_several_do_not(warnings):
    pool()
    assert not warnings()
    pool(zones=ONE_ZONE)
    assert any("one zone" in message for message in warnings())


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"min_size": 6}, "min_size is above max_size"),
        ({"max_size": 2001, "zones": {"cn-hangzhou-h": "10.3.0.0/16"}}, "max_size: .*2000"),
        ({"region": "Hangzhou"}, "region: "),
        ({"zones": {}}, "zones: "),
        ({"zones": {"cn-shanghai-b": "10.3.0.0/24"}}, "zones: cn-shanghai-b is not in region cn-hangzhou"),
        ({"zones": {"cn-hangzhou-h": "10.3.0.0/24", "cn-hangzhou-i": "10.3.0.128/25"}}, "overlap"),
        ({"zones": {"cn-hangzhou-h": "10.3.0.0/30"}, "max_size": 1}, "16 to 29 bits"),
        ({"zones": {"cn-hangzhou-h": "10.3.0.0/29"}, "max_size": 4}, "have room for 3"),
        ({"zones": {"cn-hangzhou-h": "10.3.0.1/24"}}, "host bits"),
        ({"instance_types": []}, "instance_types: "),
        ({"instance_types": ["ecs.g6.large", "ecs.g6.4xlarge"]}, "one pool for each size"),
        ({"instance_types": ["ecs.g8y.large"]}, "Arm processors"),
        ({"talos_version": "1.13.9"}, "talos_version: Talos 1.13.9 does not know Alibaba Cloud"),
        ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, "min_size 0"),
        ({"labels": {f"{'x' * 60}.example.com/a": "b"}}, "1 to 64"),
        ({"labels": {"node-role.kubernetes.io/worker": ""}}, "labels: node-role"),
        ({"tags": {"acs:x": "1"}}, "tags: acs:x"),
        ({"spot": {"max_price": -1}}, "spot.max_price: "),
        ({"system_disk_size_gb": 10}, "system_disk_size_gb: "),
        ({"system_disk_size_gb": 501}, "system_disk_size_gb: "),
        ({"system_disk_category": "cloud_tape"}, "system_disk_category: "),
        ({"arch": "arm64"}, "arch: no such input"),
        ({"name": "x" * 41}, "40 fit"),
    ],
)
def test_bad_inputs_are_refused_before_anything_is_registered(changes, said):
    refused(said, **changes)


def test_configurations_that_cannot_serve_a_pool_are_refused():
    assert "must be a worker's" in apply_refused(
        machine_config=generated_worker().replace("type: worker", "type: controlplane")
    )


@pytest.mark.parametrize(
    "types",
    [["ecs.g7.large"], ["ecs.g6.large", "ecs.g7.large", "ecs.hfg7.large"], ["ecs.u1-c1m2.large", "ecs.c7.large"],
     ["ecs.c7se.xlarge", "ecs.c6.xlarge"], ["ecs.gn7i-c8g1.2xlarge"], ["ecs.r7.8xlarge", "ecs.r8i.8xlarge"]],
)  # fmt: skip
def test_types_of_one_shape_go_together(types):
    assert instance_type_problems(types) == []


@pytest.mark.parametrize(
    ("types", "said"),
    [
        (["ecs.g7.large", "ecs.c7.large"], "ecs.c7.large cannot be seen"),
        (["ecs.gn7i-c8g1.2xlarge", "ecs.gn6i-c4g1.xlarge"], "cannot be seen"),
        (["ecs.g7.large", "ecs.g7.large"], "twice"),
        (["g7.large"], "must be the name"),
        (["ecs.c6r.large"], "Arm"),
    ],
)
def test_types_that_do_not_go_together_are_told_apart(types, said):
    assert said in "; ".join(instance_type_problems(types))


def test_a_configuration_that_does_not_fit_is_refused_before_its_image_is_known():
    patch = "machine: {files: [{path: /x, content: " + noise(100_000) + "}]}"

    def program():
        AliyunWorkerPool("aliyun-workers", {**BASE, "config_patches": [patch], "image_id": unknown()})

    with pytest.raises(BadInputs, match=r"its biggest parts are machine\.files"):
        run(program, preview=True)


def test_nothing_needs_to_be_known_in_a_preview():
    def program():
        later = unknown()
        AliyunWorkerPool(
            "aliyun-workers",
            {
                **BASE,
                "machine_config": later,
                "mesh_location": later,
                "image_id": later,
                "vpc_id": later,
                "vpc_cidr": later,
            },
        )

    assert len(run(program, preview=True).found) == 18


def test_secrets_and_outputs_as_inputs_stay_secret():
    found = machine(
        machine_config=pulumi.Output.secret(generated_worker()), mesh_location=pulumi.Output.from_input(MESH)
    )
    assert is_secret(found.raw["userData"])
    assert b"type: worker" in user_data(found)


def test_pulumis_analyzer_takes_the_contract():
    component = Analyzer("hybrid-talos").analyze_component(AliyunWorkerPool)
    assert set(component.inputs) >= {"zones", "instanceTypes", "meshLocation", "vpcCidr", "systemDiskCategory"}
    assert set(component.outputs) == {"scalingGroupId", "nodeGroup", "templateHash"}
    assert all(prop.description for prop in [*component.inputs.values(), *component.outputs.values()])
    assert len(AliyunWorkerPoolArgs.__required_keys__) == len(BASE)


def test_vswitches_that_exist_are_used_and_no_way_out_is_made():
    recorder = pool(vswitch_ids={zone: f"vsw-{zone}" for zone in BASE["zones"]})
    assert recorder.one("-group").inputs["vswitchIds"] == [f"vsw-{zone}" for zone in BASE["zones"]]
    assert not [found for found in recorder.found if "Switch" in found.type or "Nat" in found.type]
    refused("vswitch_ids must name the zones", vswitch_ids={"cn-hangzhou-z": "vsw-1"})


def test_disks_role_and_policy_are_as_asked_for():
    recorder = pool(data_disk_sizes_gb=[100, 20], role_name="worker-role", zone_policy="COST_OPTIMIZED")
    machine = recorder.one("-machine").inputs
    assert machine["dataDisks"] == [{"category": "cloud_essd", "size": 100}, {"category": "cloud_essd", "size": 20}]
    assert machine["roleName"] == "worker-role"
    assert recorder.one("-group").inputs["multiAzPolicy"] == "COST_OPTIMIZED"
    assert "roleName" not in pool().one("-machine").inputs


def test_the_talos_api_is_opened_for_diagnosis_to_named_ranges_only():
    recorder = pool(talos_api_allowed_cidrs=["203.0.113.0/24"])
    rule = recorder.one("-allow-diagnosis").inputs
    assert (rule["portRange"], rule["prefixListId"]) == ("50000/50000", "aliyun-workers-diagnosis-ranges-id")
    assert recorder.one("-diagnosis-ranges").inputs["entries"] == [{"cidr": "203.0.113.0/24"}]
    refused("never open", talos_api_allowed_cidrs=["0.0.0.0/0"])


GATEWAY = {"gateway": True, "min_size": 2, "max_size": 2, "public_ips": True, "mesh_location": MESH}


def test_gateways_lead_their_location():
    (main, *_) = load(user_data(machine(**GATEWAY)).decode())
    assert main["machine"]["nodeAnnotations"] == {
        "kilo.squat.ai/location": "azure-westeurope",
        "kilo.squat.ai/leader": "true",
    }


def test_the_number_of_gateways_is_the_clouds_own_limit():
    group = pool(**GATEWAY).one("-group")
    assert (group.inputs["minSize"], group.inputs["maxSize"]) == (2, 2)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_size": 3}, "min_size must be max_size with gateway"),
        ({"mesh_location": None}, "mesh_location is required with gateway"),
    ],
)
def test_gateways_that_could_not_lead_are_refused(changes, said):
    refused(said, **{**GATEWAY, **changes})
