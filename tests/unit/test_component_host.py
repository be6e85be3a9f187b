"""What the package does with inputs from other languages before a component gets them, and with its outputs after."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pulumi
import pytest
from hybrid_talos.cluster_endpoint import EndpointKind
from hybrid_talos.component_host import ComponentHost
from pulumi.errors import InputPropertiesError
from pulumi.output import UNKNOWN

MESH = {
    "configPatch": "machine: {}\n",
    "annotations": {"kilo.squat.ai/location": "rack"},
    "firewallPort": 51820.0,
    "firewallSources": ["0.0.0.0/0"],
    "internalCidrs": ["10.244.0.0/16"],
}
POOL = {
    "resourceGroupName": "workers",
    "location": "westeurope",
    "virtualNetworkName": "net",
    "subnetCidr": "10.2.0.0/24",
    "vmSize": "Standard_D2s_v3",
    "minSize": 0.0,
    "maxSize": 3.0,
    "imageId": "image",
    "machineConfig": "machine: {}\n",
    "talosVersion": "1.14.0",
}


@pytest.fixture(scope="module")
def host() -> ComponentHost:
    return ComponentHost()


def mapped(host: ComponentHost, component: str, inputs: Mapping[str, Any]) -> Any:
    return host.map_inputs(inputs, host._component_defs[component])


def test_names_and_whole_numbers_are_pythons(host: ComponentHost) -> None:
    found = mapped(host, "AzureWorkerPool", POOL)
    assert found["resource_group_name"] == "workers"
    assert (found["min_size"], found["max_size"]) == (0, 3)
    assert isinstance(found["max_size"], int)


def test_an_object_is_mapped_at_every_depth(host: ComponentHost) -> None:
    taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
    found = mapped(host, "AzureWorkerPool", {**POOL, "meshLocation": MESH, "taints": [taint]})
    assert found["mesh_location"]["firewall_port"] == 51820
    assert isinstance(found["mesh_location"]["firewall_port"], int)
    assert found["mesh_location"]["annotations"] == {"kilo.squat.ai/location": "rack"}, "keys of a map are the user's"
    assert found["taints"] == [taint]
    assert type(found["taints"][0]["effect"]).__name__ == "TaintEffect"


def test_an_output_in_the_place_of_an_object_is_mapped_once_it_is_known(host: ComponentHost) -> None:
    async def steps() -> None:
        whole = mapped(host, "AzureWorkerPool", {**POOL, "meshLocation": pulumi.Output.from_input(MESH)})
        assert isinstance(whole["mesh_location"], pulumi.Output)
        location: Any = await whole["mesh_location"].future()
        assert location["config_patch"] == MESH["configPatch"]
        assert type(location["firewall_port"]) is int

    asyncio.run(steps())


def test_an_output_inside_of_an_object_is_still_one(host: ComponentHost) -> None:
    async def steps() -> None:
        location = {**MESH, "configPatch": pulumi.Output.secret("machine: {}\n")}
        found = mapped(host, "AzureWorkerPool", {**POOL, "meshLocation": location})["mesh_location"]
        assert await found["config_patch"].is_secret()
        assert found["internal_cidrs"] == MESH["internalCidrs"]

    asyncio.run(steps())


def test_an_output_in_a_map_of_objects_is_mapped(host: ComponentHost) -> None:
    group = {"cloud": "azure", "name": "vmss1", "minSize": 0.0, "maxSize": 3.0, "labels": {"aB": "c"}, "taints": []}

    async def steps() -> None:
        inputs = {"kubernetesVersion": "1.36.3", "nodeGroups": {"workers": pulumi.Output.from_input(group)}}
        found = mapped(host, "ClusterAutoscaler", inputs)["node_groups"]
        assert await found["workers"].future() == {
            "cloud": "azure",
            "name": "vmss1",
            "min_size": 0,
            "max_size": 3,
            "labels": {"aB": "c"},
            "taints": [],
        }

    asyncio.run(steps())


def test_a_secret_object_stays_secret_and_an_unknown_one_unknown(host: ComponentHost) -> None:
    async def steps() -> None:
        secret = mapped(host, "AzureWorkerPool", {**POOL, "meshLocation": pulumi.Output.secret(MESH)})
        assert await secret["mesh_location"].is_secret()
        unknown = mapped(host, "AzureWorkerPool", {**POOL, "meshLocation": UNKNOWN})
        assert not await unknown["mesh_location"].is_known()

    asyncio.run(steps())


def test_inputs_that_are_none_are_left_out(host: ComponentHost) -> None:
    assert "labels" not in mapped(host, "AzureWorkerPool", {**POOL, "labels": None})


def reasons(error: InputPropertiesError) -> list[str]:
    return [f"{found['property_path']}: {found['reason']}" for found in error.errors or []]


def test_missing_and_unknown_inputs_are_named_together(host: ComponentHost) -> None:
    with pytest.raises(InputPropertiesError) as refused:
        mapped(host, "AzureWorkerPool", {**{k: v for k, v in POOL.items() if k != "vmSize"}, "vmSzie": "x"})
    assert reasons(refused.value) == ["vmSize: required", "vmSzie: no such input"]


def test_a_missing_input_of_an_object_is_named_with_its_path(host: ComponentHost) -> None:
    with pytest.raises(InputPropertiesError) as refused:
        mapped(host, "AzureWorkerPool", {**POOL, "taints": [{"key": "spot"}]})
    assert reasons(refused.value) == ["taints[0].effect: required"]


def test_text_in_the_place_of_an_object_is_refused(host: ComponentHost) -> None:
    with pytest.raises(InputPropertiesError) as refused:
        mapped(host, "AzureWorkerPool", {**POOL, "meshLocation": "rack"})
    assert reasons(refused.value) == ["meshLocation: must be an object"]


def test_a_choice_becomes_the_member_of_its_enum(host: ComponentHost) -> None:
    endpoint = {"host": "k8s.example.com", "kind": "loadBalancer"}
    inputs = {
        "clusterName": "demo",
        "talosVersion": "1.14.0",
        "kubernetesVersion": "1.36.3",
        "endpoint": endpoint,
        "controlPlanes": [{"name": "cp-1", "address": "192.0.2.11"}],
        "installerImage": "factory.talos.dev/installer:v1.14.0",
    }
    assert mapped(host, "HAControlPlane", inputs)["endpoint"]["kind"] is EndpointKind.LOAD_BALANCER
    with pytest.raises(InputPropertiesError) as refused:
        mapped(host, "HAControlPlane", {**inputs, "endpoint": {**endpoint, "kind": "elb"}})
    assert reasons(refused.value) == ["endpoint.kind: must be one of dns, loadBalancer, vip"]


class Made(pulumi.ComponentResource):
    """Stands for a NetworkMesh whose outputs are known, without registering anything."""

    def __init__(self, locations: pulumi.Output[Any], port: pulumi.Output[int]) -> None:
        self.locations = locations
        self.wireguard_port = port


def test_outputs_have_the_keys_of_the_schema_at_every_depth(host: ComponentHost) -> None:
    location = {
        "config_patch": "machine: {}\n",
        "annotations": {"snake_case": "stays"},
        "firewall_port": 51820,
        "firewall_sources": [],
        "internal_cidrs": [],
    }

    async def steps() -> None:
        made = Made(pulumi.Output.from_input({"my_rack": location}), pulumi.Output.from_input(51820))
        state = host.get_state(made, host._component_defs["NetworkMesh"])
        assert sorted(state) == ["locations", "wireguardPort"]
        assert await state["locations"].future() == {
            "my_rack": {
                "configPatch": "machine: {}\n",
                "annotations": {"snake_case": "stays"},
                "firewallPort": 51820,
                "firewallSources": [],
                "internalCidrs": [],
            }
        }

    asyncio.run(steps())


def test_what_one_component_gives_another_one_takes(host: ComponentHost) -> None:
    """A location goes out of NetworkMesh under the schema's names, and into a pool under Python's."""
    location = {
        "config_patch": "p",
        "annotations": {},
        "firewall_port": 1,
        "firewall_sources": ["a"],
        "internal_cidrs": ["b"],
    }

    async def steps() -> None:
        made = Made(pulumi.Output.from_input({"rack": location}), pulumi.Output.from_input(1))
        out = host.get_state(made, host._component_defs["NetworkMesh"])["locations"]
        found = mapped(host, "AzureWorkerPool", {**POOL, "meshLocation": out["rack"]})
        assert await found["mesh_location"].future() == location

    asyncio.run(steps())
