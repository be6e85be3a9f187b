"""The endpoint on the real engine: load balancers and records made by the stack, and names that are looked up first."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_folder import ROOT, Lab

from lab import dns_server
from lab.alicloud.dns import add_domain
from lab.azure.dns import add_zone
from lab.world import World

pytestmark = pytest.mark.lab

GOOD = ROOT / "tests" / "settings" / "good"
SUBSCRIPTION = "/subscriptions/00000000-0000-0000-0000-000000000001"
HOST = "k8s.demo.example.com"


def rack(world: World) -> None:
    """Put what the settings name into the clouds, as if it had been there before."""
    for name in ("planes", "names"):
        group = {"name": name, "location": "westeurope"}
        world.put("azure-native", "ResourceGroup", f"{SUBSCRIPTION}/resourceGroups/{name}", group)
    network = {"name": "net", "location": "westeurope", "addressSpace": {"addressPrefixes": ["10.2.0.0/16"]}}
    planes = f"{SUBSCRIPTION}/resourceGroups/planes/providers/Microsoft.Network/virtualNetworks/net"
    world.put("azure-native", "VirtualNetwork", planes, network)
    add_zone(world, f"{SUBSCRIPTION}/resourceGroups/names", "example.com")
    vpc = {"cidrBlock": "10.3.0.0/16", "_region": "cn-hangzhou", "secondaryCidrBlocks": []}
    world.put("alicloud", "Network", "vpc-lab1", vpc)
    for id, zone, third in (("vsw-lab1", "cn-hangzhou-h", 0), ("vsw-lab2", "cn-hangzhou-i", 1)):
        doc = {"vpcId": "vpc-lab1", "zoneId": zone, "cidrBlock": f"10.3.{third}.0/24", "_region": "cn-hangzhou"}
        world.put("alicloud", "Switch", id, doc)
    add_domain(world, "example.com")


def stack_of(folder: Path, settings: str, change: Callable[[dict[str, Any]], object] = lambda s: None) -> Lab:
    document = yaml.safe_load((GOOD / f"{settings}.yaml").read_text())
    # Destroyed at the end.
    document["settings"]["cluster"]["protect"] = False
    change(document["settings"])
    config = {"hybrid-talos:stack": document["stack"], "hybrid-talos:settings": document["settings"]}
    path = folder / "Pulumi.front.yaml"
    path.write_text(yaml.safe_dump({"config": config}, sort_keys=False))
    lab = Lab(folder / "lab", "front", path)
    rack(lab.world())
    return lab


def changed_to(lab: Lab, change: Callable[[dict[str, Any]], object]) -> None:
    assert lab.config_file is not None
    document = yaml.safe_load(lab.config_file.read_text())
    change(document["config"]["hybrid-talos:settings"])
    lab.config_file.write_text(yaml.safe_dump(document, sort_keys=False))


def of(lab: Lab, token: str) -> list[dict[str, Any]]:
    return [resource["inputs"] for resource in lab.state() if resource["type"] == token]


def test_a_load_balancer_on_azure_with_a_name_at_alibaba(tmp_path: Path) -> None:
    lab = stack_of(tmp_path, "cluster-azure-front")
    lab.up()
    (balancer,) = lab.world().find("azure-native", "LoadBalancer")
    (pool,) = balancer.doc["backendAddressPools"]
    backends = [address["ipAddress"] for address in pool["loadBalancerBackendAddresses"]]
    assert backends == ["10.2.0.11", "10.2.0.12", "10.2.0.13"]
    (address,) = lab.world().find("azure-native", "PublicIPAddress")
    assert dns_server.addresses(lab.world(), HOST) == [address.doc["ipAddress"]]
    assert lab.outputs()["clusterEndpoint"] == f"https://{HOST}:6443"
    assert lab.changes() == {}
    lab.destroy()
    assert lab.world().find("azure-native", "LoadBalancer") == []
    assert lab.world().find("alicloud", "AlidnsRecord") == []


def test_a_load_balancer_on_alibaba_with_a_name_at_azure_and_one_member_more(tmp_path: Path) -> None:
    lab = stack_of(tmp_path, "cluster-aliyun-front")
    lab.up()
    servers = {record.doc["serverId"] for record in lab.world().find("alicloud", "ServerGroupServerAttachment")}
    assert servers == {"10.3.0.11", "10.3.0.12", "10.3.1.13"}
    (balancer,) = lab.world().find("alicloud", "LoadBalancer")
    assert dns_server.addresses(lab.world(), HOST) == balancer.doc["_addresses"]
    assert lab.outputs()["clusterEndpoint"] == f"https://{HOST}:443"

    def two_more(settings: dict[str, Any]) -> None:
        # Names that sort before all others: whoever was first stays first.
        settings["cluster"]["controlPlanes"] += [
            {"name": "a-1", "address": "10.3.0.21"},
            {"name": "a-2", "address": "10.3.0.22"},
        ]

    before = of(lab, "talos:machine/secrets:Secrets")
    changed_to(lab, two_more)
    changes = {urn.rsplit("::", 1)[-1]: op for urn, op in lab.changes().items()}
    assert {op for op in changes.values()} <= {"create", "update"}
    assert changes["endpoint-server-a-1"] == changes["endpoint-server-a-2"] == "create"
    assert "control-plane-bootstrap" not in changes
    lab.up()
    assert len(lab.world().find("alicloud", "ServerGroupServerAttachment")) == 5
    assert of(lab, "talos:machine/secrets:Secrets") == before


def members_apart(settings: dict[str, Any]) -> None:
    settings["cluster"]["endpoint"] = {"host": HOST, "kind": "dns"}


def test_a_name_that_leads_elsewhere_stops_the_deployment_before_any_machine(tmp_path: Path) -> None:
    lab = stack_of(tmp_path, "cluster-aliyun-front", members_apart)
    stranger = {"addresses": ["10.3.0.11", "192.0.2.99"], dns_server.HELD: True}
    lab.world().put(dns_server.PACKAGE, dns_server.KIND, HOST, stranger)
    run = lab.run("up", "--yes", "--skip-preview", code=None)
    assert run.code != 0
    assert f"{HOST} resolves to 192.0.2.99, no address of a control plane" in run.text
    assert lab.world().find("talos", "machine") == []
    # One of the three is missing now, which is told and no reason to stop.
    lab.world().put(dns_server.PACKAGE, dns_server.KIND, HOST, {"addresses": ["10.3.0.11", "10.3.0.12"], "held": True})
    run = lab.up()
    assert f"{HOST} has no address of cp-3" in run.text
    assert lab.changes() == {}


def test_a_name_may_be_made_by_the_stack_and_may_be_left_alone(tmp_path: Path) -> None:
    def change(settings: dict[str, Any]) -> None:
        members_apart(settings)
        record = {"subscriptionId": SUBSCRIPTION.rsplit("/", 1)[-1], "resourceGroup": "names", "zone": "example.com"}
        settings["cluster"]["endpoint"]["record"] = {"azure": record}

    lab = stack_of(tmp_path, "cluster-aliyun-front", change)
    lab.up()
    assert dns_server.addresses(lab.world(), HOST) == ["10.3.0.11", "10.3.0.12", "10.3.1.13"]

    def unchecked(settings: dict[str, Any]) -> None:
        settings["cluster"]["endpoint"] = {"host": "only.inside.example", "kind": "dns", "checkDns": False}

    changed_to(lab, unchecked)
    lab.up()
    assert lab.outputs()["clusterEndpoint"] == "https://only.inside.example:6443"
    assert lab.world().find("azure-native", "RecordSet") == []
