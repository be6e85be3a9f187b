"""What the simulated clouds say of load balancers and DNS records, and the lab's name server over them."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import alicloud_cloud
import azure_cloud
import dns.resolver
import pytest
from azure_cloud import ZERO
from hybrid_talos.endpoint_check import resolve

from lab import dns_server
from lab.alicloud.dns import add_domain
from lab.azure.dns import add_zone
from lab.world import CloudError, World

GROUP = f"/subscriptions/{ZERO}/resourceGroups/rg"
VNET = f"{GROUP}/providers/Microsoft.Network/virtualNetworks/net"
BALANCER = f"{GROUP}/providers/Microsoft.Network/loadBalancers/api"
LB, ADDRESS, RECORDS = "network:LoadBalancer", "network:PublicIPAddress", "dns:RecordSet"
NLB, SERVERS = "nlb/loadBalancer:LoadBalancer", "nlb/serverGroup:ServerGroup"
SERVER, LISTENER = "nlb/serverGroupServerAttachment:ServerGroupServerAttachment", "nlb/listener:Listener"
DNS = "dns/alidnsRecord:AlidnsRecord"


@pytest.fixture
def azure(tmp_path: Path) -> Iterator[azure_cloud.Cloud]:
    cloud = azure_cloud.Cloud(tmp_path / "azure")
    cloud.make("resources:ResourceGroup", "rg", **{"resourceGroupName": "rg", "location": "westeurope"})
    network = {"addressSpace": {"addressPrefixes": ["10.2.0.0/16"]}, "virtualNetworkName": "net"}
    cloud.make("network:VirtualNetwork", "net", **{"resourceGroupName": "rg", **network})
    subnet = {"virtualNetworkName": "net", "subnetName": "planes", "addressPrefix": "10.2.0.0/24"}
    cloud.make("network:Subnet", "planes", **{"resourceGroupName": "rg", **subnet})
    add_zone(cloud.world, GROUP, "example.com")
    yield cloud
    cloud.close()


@pytest.fixture
def alibaba(tmp_path: Path) -> Iterator[alicloud_cloud.Cloud]:
    cloud = alicloud_cloud.Cloud(tmp_path / "alibaba")
    cloud.network("vpc")
    for zone, third in (("h", 0), ("i", 1)):
        switch = {"vpcId": cloud.ids["vpc"], "cidrBlock": f"10.3.{third}.0/24", "zoneId": f"cn-hangzhou-{zone}"}
        cloud.make(alicloud_cloud.SWITCH, zone, **switch)
    add_domain(cloud.world, "example.com")
    yield cloud
    cloud.close()


def balancer(**changes: Any) -> dict[str, Any]:
    rule = {
        "name": "api",
        "protocol": "Tcp",
        "frontendPort": 6443,
        "backendPort": 6443,
        "idleTimeoutInMinutes": 30,
        "frontendIPConfiguration": {"id": f"{BALANCER}/frontendIPConfigurations/api"},
        "backendAddressPool": {"id": f"{BALANCER}/backendAddressPools/planes"},
        "probe": {"id": f"{BALANCER}/probes/api"},
    }
    backend = {"name": "cp-1", "ipAddress": "10.2.0.11", "virtualNetwork": {"id": VNET}}
    return {
        "resourceGroupName": "rg",
        "loadBalancerName": "api",
        "sku": {"name": "Standard"},
        "frontendIPConfigurations": [{"name": "api", "subnet": {"id": f"{VNET}/subnets/planes"}}],
        "backendAddressPools": [{"name": "planes", "loadBalancerBackendAddresses": [backend]}],
        "probes": [{"name": "api", "protocol": "Tcp", "port": 6443, "intervalInSeconds": 5}],
        "loadBalancingRules": [rule],
        **changes,
    }


def test_a_load_balancer_by_address_gets_an_address_of_its_subnet_and_keeps_it(azure: azure_cloud.Cloud) -> None:
    azure.make(LB, "api", **balancer())
    doc = azure.world.get("azure-native", "LoadBalancer", BALANCER)
    assert doc is not None
    first = doc["frontendIPConfigurations"][0]
    assert first["privateIPAddress"] == "10.2.0.254"
    assert first["id"] == f"{BALANCER}/frontendIPConfigurations/api"
    azure.change(LB, "api", probes=[{"name": "api", "protocol": "Tcp", "port": 6443, "intervalInSeconds": 10}])
    again = azure.world.get("azure-native", "LoadBalancer", BALANCER)
    assert again is not None
    assert again["frontendIPConfigurations"][0]["privateIPAddress"] == "10.2.0.254"
    azure.delete(LB, "api")


OUTSIDE = {"name": "cp-1", "ipAddress": "192.0.2.11", "virtualNetwork": {"id": VNET}}
NOWHERE = {"name": "cp-1", "ipAddress": "10.2.0.11", "virtualNetwork": {"id": f"{VNET}x"}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sku": {"name": "Basic"}}, "must have the Standard sku"),
        ({"backendAddressPools": [{"name": "planes", "loadBalancerBackendAddresses": [OUTSIDE]}]}, "lies outside"),
        ({"backendAddressPools": [{"name": "planes", "loadBalancerBackendAddresses": [NOWHERE]}]}, "was not found"),
        ({"backendAddressPools": [{"name": "other"}]}, "backendAddressPools/planes referenced by resource"),
        ({"probes": [{"name": "api", "protocol": "Tcp", "port": 6443, "intervalInSeconds": 1}]}, "must wait 5 seconds"),
    ],
)
def test_azure_refuses(azure: azure_cloud.Cloud, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(CloudError, match=words):
        azure.make(LB, "api", **balancer(**changes))


def records(**changes: Any) -> dict[str, Any]:
    return {
        "resourceGroupName": "rg",
        "zoneName": "example.com",
        "relativeRecordSetName": "k8s.demo",
        "recordType": "A",
        "ttl": 60,
        "aRecords": [{"ipv4Address": "192.0.2.11"}, {"ipv4Address": "192.0.2.12"}],
        **changes,
    }


def test_a_record_set_has_its_type_in_its_id_and_answers_by_its_name(azure: azure_cloud.Cloud) -> None:
    azure.make(RECORDS, "record", **records())
    assert azure.ids["record"] == f"{GROUP}/providers/Microsoft.Network/dnsZones/example.com/A/k8s.demo"
    assert dns_server.addresses(azure.world, "k8s.demo.example.com.") == ["192.0.2.11", "192.0.2.12"]
    alias = {"recordType": "CNAME", "aRecords": None, "cnameRecord": {"cname": "k8s.demo.example.com"}}
    azure.make(RECORDS, "alias", **records(relativeRecordSetName="api", **alias))
    assert dns_server.addresses(azure.world, "api.example.com") == ["192.0.2.11", "192.0.2.12"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"zoneName": "example.org"}, "ParentResourceNotFound"),
        ({"aRecords": []}, "must have 1 to 20 records"),
        ({"aRecords": [{"ipv4Address": "host"}]}, "is no IPv4 address"),
        ({"aRecords": [{"ipv4Address": "192.0.2.1"}] * 2}, "the same record twice"),
        ({"ttl": 0}, "TTL of record set"),
        ({"recordType": "CNAME", "cnameRecord": {}}, "must have a cname"),
        ({"recordType": "CNAME", "cnameRecord": {"cname": "a"}, "relativeRecordSetName": "@"}, "at the zone apex"),
        ({"recordType": "CNAME", "cnameRecord": {"cname": "a"}, "relativeRecordSetName": "taken"}, "beside another"),
    ],
)
def test_azure_dns_refuses(azure: azure_cloud.Cloud, changes: dict[str, Any], words: str) -> None:
    azure.make(RECORDS, "taken", **records(relativeRecordSetName="taken"))
    with pytest.raises(CloudError, match=words):
        azure.make(RECORDS, "record", **records(**changes))


def nlb(cloud: alicloud_cloud.Cloud, **changes: Any) -> dict[str, Any]:
    mappings = [{"zoneId": f"cn-hangzhou-{zone}", "vswitchId": cloud.ids[zone]} for zone in ("h", "i")]
    return {
        "loadBalancerName": "demo-api",
        "addressType": "Internet",
        "vpcId": cloud.ids["vpc"],
        "zoneMappings": mappings,
        **changes,
    }


def front(cloud: alicloud_cloud.Cloud, **changes: Any) -> None:
    """Make a whole load balancer with one server."""
    cloud.make(NLB, "nlb", **nlb(cloud, **changes))
    group = {"serverGroupName": "demo-api", "serverGroupType": "Ip", "vpcId": cloud.ids["vpc"], "protocol": "TCP"}
    cloud.make(SERVERS, "servers", **group)
    server = {"serverGroupId": cloud.ids["servers"], "serverType": "Ip", "serverId": "10.3.0.11", "port": 6443}
    cloud.make(SERVER, "server", **server)
    listener = {"listenerPort": 6443, "listenerProtocol": "TCP", "loadBalancerId": cloud.ids["nlb"]}
    cloud.make(LISTENER, "listener", **{**listener, "serverGroupId": cloud.ids["servers"]})


def test_a_network_load_balancer_has_a_name_that_resolves(alibaba: alicloud_cloud.Cloud) -> None:
    front(alibaba)
    doc = alibaba.world.get("alicloud", "LoadBalancer", alibaba.ids["nlb"])
    assert doc is not None
    assert len(dns_server.addresses(alibaba.world, doc["dnsName"])) == 2
    record = {"domainName": "example.com", "rr": "k8s", "type": "CNAME", "value": doc["dnsName"], "ttl": 600}
    alibaba.make(DNS, "record", **record)
    assert len(dns_server.addresses(alibaba.world, "k8s.example.com")) == 2
    with pytest.raises(CloudError, match=r"ResourceInUse\.serverGroup"):
        alibaba.delete(SERVERS, "servers")
    for token, name in ((LISTENER, "listener"), (SERVER, "server"), (SERVERS, "servers"), (NLB, "nlb")):
        alibaba.delete(token, name)


def test_an_internal_one_has_addresses_of_its_vswitches(alibaba: alicloud_cloud.Cloud) -> None:
    front(alibaba, addressType="Intranet")
    doc = alibaba.world.get("alicloud", "LoadBalancer", alibaba.ids["nlb"])
    assert doc is not None
    assert dns_server.addresses(alibaba.world, doc["dnsName"]) == ["10.3.0.1", "10.3.1.1"]


def test_alibaba_refuses_load_balancers(alibaba: alicloud_cloud.Cloud) -> None:
    one = nlb(alibaba)["zoneMappings"][:1]
    with pytest.raises(CloudError, match="needs 2 to 10 zones"):
        alibaba.make(NLB, "nlb", **nlb(alibaba, zoneMappings=one))
    swapped = [
        {**mapping, "zoneId": other["zoneId"]}
        for mapping, other in zip(nlb(alibaba)["zoneMappings"], nlb(alibaba)["zoneMappings"][::-1], strict=True)
    ]
    with pytest.raises(CloudError, match="is in cn-hangzhou-h, not in cn-hangzhou-i"):
        alibaba.make(NLB, "nlb", **nlb(alibaba, zoneMappings=swapped))
    front(alibaba)
    server = {"serverGroupId": alibaba.ids["servers"], "serverType": "Ecs", "serverId": "i-x", "port": 6443}
    with pytest.raises(CloudError, match=r"Mismatch\.ServerType"):
        alibaba.make(SERVER, "other", **server)
    with pytest.raises(CloudError, match="is in the group already"):
        alibaba.make(SERVER, "again", **{**server, "serverType": "Ip", "serverId": "10.3.0.11"})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"domainName": "example.org"}, r"InvalidDomainName\.NoExist"),
        ({"value": "host"}, "is no IPv4 address"),
        ({"ttl": 60}, "allows a TTL of 600 and more"),
        ({"value": "192.0.2.11"}, "DomainRecordDuplicate"),
        ({"type": "CNAME", "value": "a.example.net"}, "DomainRecordConflict"),
    ],
)
def test_alibaba_dns_refuses(alibaba: alicloud_cloud.Cloud, changes: dict[str, Any], words: str) -> None:
    record = {"domainName": "example.com", "rr": "k8s", "type": "A", "value": "192.0.2.11", "ttl": 600}
    alibaba.make(DNS, "first", **record)
    with pytest.raises(CloudError, match=words):
        alibaba.make(DNS, "second", **{**record, "value": "192.0.2.12", **changes})


def test_the_name_server_answers_for_records_by_hand_until_somebody_holds_them(tmp_path: Path) -> None:
    world = World(tmp_path)
    dns_server.by_hand(world, "k8s.example.com", ["192.0.2.12", "192.0.2.11"])
    server = dns_server.NameServer(world)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server.start(port)
    try:
        assert resolve("k8s.example.com", server.address) == ["192.0.2.11", "192.0.2.12"]
        assert resolve("other.example.com", server.address) == []
        world.put(dns_server.PACKAGE, dns_server.KIND, "k8s.example.com", {"addresses": ["192.0.2.9"], "held": True})
        dns_server.by_hand(world, "k8s.example.com", ["192.0.2.11"])
        assert resolve("k8s.example.com", server.address) == ["192.0.2.9"]
        asker = dns.resolver.Resolver(configure=False)
        asker.nameservers = ["127.0.0.1"]
        asker.port = port
        # Of another type there is nothing, which is another answer than that there is no such name.
        with pytest.raises(dns.resolver.NoAnswer):
            asker.resolve("k8s.example.com", "AAAA")
    finally:
        server.stop()
        world.close()
