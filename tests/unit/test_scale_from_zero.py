"""The node that each autoscaler imagines for an empty pool, built as its code does, against the node that registers."""

import base64
import re

import pytest
from hybrid_talos.aliyun_worker_pool import AliyunWorkerPool
from hybrid_talos.azure_worker_pool import AzureWorkerPool
from hybrid_talos.talos_yaml import load
from pool_recorder import generated_worker, run

COMMON = {"min_size": 0, "max_size": 5, "machine_config": generated_worker(), "talos_version": "1.14.0"}
LABELS = {"example.com/pool": "burst", "example.com/with_under_score": "a_b", "plain": ""}
TAINTS = [{"key": "example.com/only_burst", "value": "yes", "effect": "NoSchedule"}]


def azure_pool(**changes):
    args = {
        **COMMON,
        "resource_group_name": "demo-workers",
        "location": "West Europe",
        "virtual_network_name": "vnet",
        "subnet_cidr": "10.2.0.0/24",
        "vm_size": "Standard_D2s_v3",
        "image_id": "/subscriptions/s/image",
        "labels": LABELS,
        **changes,
    }
    return run(lambda: {"group": AzureWorkerPool("azure-workers", args).node_group})


def alibaba_pool(**changes):
    args = {
        **COMMON,
        "region": "cn-hangzhou",
        "vpc_id": "vpc-1",
        "zones": {"cn-hangzhou-h": "10.3.0.0/24"},
        "instance_types": ["ecs.g7.large"],
        "image_id": "m-1",
        "labels": LABELS,
        **changes,
    }
    return run(lambda: {"group": AliyunWorkerPool("aliyun-workers", args).node_group})


def opened(value):
    return value["value"] if isinstance(value, dict) and "value" in value and len(value) == 2 else value


def registered(encoded):
    """Return labels and taints with which the kubelet of a machine registers, by the configuration that it boots."""
    machine = load(base64.b64decode(opened(encoded)).decode())[0]["machine"]
    taints = machine["kubelet"].get("extraConfig", {}).get("registerWithTaints", [])
    return machine["nodeLabels"], {(one["key"], one.get("value", ""), one["effect"]) for one in taints}


# The autoscaler's side, after kubernetes/autoscaler at 1.36.1


def azure_template(scale_set, arch):
    """`cloudprovider/azure/azure_template.go`: buildNodeTemplateFromVMSS, processVMSSTemplate, buildGenericLabels."""
    tags, size, place = scale_set["tags"], scale_set["sku"]["name"], scale_set["location"]
    zones = [f"{place.lower()}-{zone}" for zone in scale_set.get("zones") or []]
    generic = {
        "kubernetes.io/arch": arch,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": size,
        "topology.kubernetes.io/region": place.lower(),
        # One of them by chance; of one zone it is that.
        "topology.kubernetes.io/zone": zones[0] if zones else "0",
    }
    named, taints = {}, set()
    prefix = "k8s.io_cluster-autoscaler_node-template_"
    for name, value in tags.items():
        pieces = name.split(f"{prefix}label_")
        if len(pieces) > 1 and pieces[1]:
            named[pieces[1].replace("_", "/").replace("~2", "_")] = value
        pieces = name.split(f"{prefix}taint_")
        if len(pieces) > 1 and re.search("(.*):(?:NoSchedule|NoExecute|PreferNoSchedule)", value):
            text, effect = value.split(":", 1)
            taints.add((pieces[1].replace("_", "/").replace("~2", "_"), text, effect))
    # Tags become labels too, under their own names; generic labels win over those, and named ones over all.
    return {**tags, **generic, **named}, taints


def alibaba_template(configuration, region):
    """`cloudprovider/alicloud/alicloud_manager.go`: getAsgTemplate, buildNodeFromTemplate, buildGenericLabels."""
    tags = configuration.get("tags") or {}
    types = configuration.get("instanceTypes") or [configuration.get("instanceType")]
    generic = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": types[0],
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": "",
    }
    return {**generic, **tags}, set()


# The cloud controller's side: siderolabs/talos-cloud-controller-manager labels nodes by Talos' platform metadata


def joined(labels, arch, size, region, zone):
    placed = {
        "kubernetes.io/arch": arch,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": size,
        "topology.kubernetes.io/region": region,
    }
    return {**placed, **({"topology.kubernetes.io/zone": zone} if zone else {}), **labels}


def same_where_known(template, node):
    """Every label of the node is in the template, with its value."""
    return {key: (template.get(key), value) for key, value in node.items() if template.get(key) != value}


@pytest.mark.parametrize("zones", [[], ["2"]])
@pytest.mark.parametrize("taints", [[], TAINTS])
def test_azure_imagines_the_node_that_registers(zones, taints):
    recorder = azure_pool(zones=zones, taints=taints)
    scale_set = recorder.one("-scale-set").inputs
    labels, set_taints = registered(scale_set["virtualMachineProfile"]["osProfile"]["customData"])
    template, imagined = azure_template(scale_set, "amd64")
    region = scale_set["location"].lower()
    zone = f"{region}-{zones[0]}" if zones else None
    assert set(LABELS.items()) <= set(labels.items())
    assert same_where_known(template, joined(labels, "amd64", "Standard_D2s_v3", region, zone)) == {}
    assert imagined == set_taints == {(one["key"], one["value"], one["effect"]) for one in taints}


def test_azure_takes_bounds_from_tags_that_are_the_flags():
    recorder = azure_pool(max_size=7)
    tags, group = recorder.one("-scale-set").inputs["tags"], recorder.values["group"]
    assert (tags["min"], tags["max"]) == ("0", "7")
    assert (group["min_size"], group["max_size"]) == (0, 7)


def test_alibaba_imagines_the_node_that_registers():
    recorder = alibaba_pool()
    configuration = recorder.one("-machine").inputs
    labels, taints = registered(configuration["userData"])
    template, imagined = alibaba_template(configuration, "cn-hangzhou")
    assert same_where_known(template, joined(labels, "amd64", "ecs.g7.large", "cn-hangzhou", "cn-hangzhou-h")) == {}
    assert imagined == taints == set()


def test_what_a_pool_tells_the_autoscaler_is_what_the_nodes_have():
    for recorder, name, key in (
        (azure_pool(taints=TAINTS), "-scale-set", None),
        (alibaba_pool(), "-machine", "userData"),
    ):
        inputs = recorder.one(name).inputs
        data = inputs[key] if key else inputs["virtualMachineProfile"]["osProfile"]["customData"]
        labels, taints = registered(data)
        group = recorder.values["group"]
        # The hash of what machines are made of differs between old and new ones, and is no part of what a pool is like.
        labels.pop("hybrid-talos.dev/template")
        assert set(labels.items()) <= set(group["labels"].items())
        assert set(group["taints"]) == {f"{key}={value}:{effect}" for key, value, effect in taints}


def test_case_48_the_name_in_the_flag_is_the_real_ones():
    azure, alibaba = azure_pool(), alibaba_pool()
    # The mocks answer as a cloud would, with names that the program did not choose.
    assert azure.values["group"]["name"] == "azure-workers-scale-seta1b2c3d4"
    assert alibaba.values["group"]["name"].endswith("-group-id")
