"""The lab refuses a scaling group of Talos workers that could never join."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.lab.alicloud_cloud import CONFIGURATION, RANGES, SNAT, Cloud, b64, packed, refused

WORKER = """
version: v1alpha1
machine:
  type: worker
  nodeAnnotations: {kilo.squat.ai/location: aliyun, kilo.squat.ai/persistent-keepalive: "20"}
cluster:
  controlPlane: {endpoint: "https://k8s.demo.example.com:6443"}
  network: {podSubnets: [10.244.0.0/16]}
"""
KUBESPAN = (
    WORKER.replace("nodeAnnotations", "nodeLabels") + "---\napiVersion: v1alpha1\nkind: KubeSpanConfig\nenabled: true\n"
)
LONELY = WORKER.replace("persistent-keepalive", "nothing")
INSIDE = ("192.0.2.0/24", "10.244.0.0/16", "10.4.0.0/16")


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    """Return a cloud with a control plane and Kilo elsewhere, and all that a scaling configuration needs."""
    with closing(Cloud(tmp_path)) as cloud:
        cloud.ready()
        cloud.world.put("talos", "machine", "cp-1", {"role": "controlplane", "address": "192.0.2.11"})
        arguments = ["--port=51820", "--subnet=10.4.0.0/16"]
        kilo = {"spec": {"template": {"spec": {"containers": [{"args": arguments}]}}}}
        cloud.world.put("kubernetes", "apps/v1/DaemonSet", "kube-system/kilo", kilo)
        yield cloud


def inside(cloud: Cloud, *sources: str) -> None:
    """Let some ranges reach the Talos API and the kubelet."""
    for port in (50000, 10250):
        for source in sources or INSIDE:
            cloud.allow(f"{port} from {source}", "tcp", port, source)


def pool(cloud: Cloud, config: str = WORKER, public: bool = True, **more: Any) -> None:
    bandwidth = {"internetMaxBandwidthOut": 100} if public else {}
    cloud.configuration(**{"userData": b64(config), **bandwidth, **more})


@pytest.mark.parametrize("config", [WORKER, KUBESPAN])
def test_a_pool_with_public_addresses(cloud: Cloud, config: str) -> None:
    inside(cloud)
    cloud.allow("mesh", "udp", 51820, "192.0.2.1/32")
    pool(cloud, config)


def test_a_pool_behind_a_gateway(cloud: Cloud) -> None:
    inside(cloud)
    cloud.way_out()
    pool(cloud, public=False)


def test_prefix_lists_open_ports_too(cloud: Cloud) -> None:
    cloud.make(
        RANGES,
        "inside",
        prefixListName="inside",
        addressFamily="IPv4",
        maxEntries=20,
        entries=[{"cidr": cidr} for cidr in INSIDE],
    )
    for port in (50000, 10250):
        cloud.allow(f"inside {port}", "tcp", port, "", cidrIp=None, prefixListId=cloud.ids["inside"])
    cloud.allow("mesh", "udp", 51820, "0.0.0.0/0")
    pool(cloud)


@pytest.mark.parametrize("encode", [b64, packed])
def test_no_rule_for_the_mesh(cloud: Cloud, encode: Any) -> None:
    inside(cloud)
    with refused("LabUnreachable", "UDP port 51820 of the mesh", cloud.ids["sg"], "ingress rule"):
        pool(cloud, userData=encode(WORKER))


@pytest.mark.parametrize(
    ("changes", "source"),
    [
        ({"portRange": "51821/51821"}, "0.0.0.0/0"),
        ({"ipProtocol": "tcp"}, "0.0.0.0/0"),
        ({"type": "egress"}, "0.0.0.0/0"),
        ({"policy": "drop"}, "0.0.0.0/0"),
        ({}, "10.3.0.0/16"),
    ],
    ids=["port", "protocol", "direction", "policy", "inside only"],
)
def test_rules_that_do_not_help_the_mesh(cloud: Cloud, changes: dict[str, Any], source: str) -> None:
    inside(cloud)
    cloud.allow("mesh", "udp", 51820, source, **changes)
    with refused("LabUnreachable", "UDP port 51820"):
        pool(cloud)


def test_drop_comes_before_accept_at_one_priority(cloud: Cloud) -> None:
    inside(cloud)
    cloud.allow("mesh", "udp", 51820, "0.0.0.0/0", priority=2)
    cloud.allow("no mesh", "udp", 51820, "0.0.0.0/0", priority=2, policy="drop")
    with refused("LabUnreachable", "UDP port 51820"):
        pool(cloud)
    cloud.allow("mesh first", "udp", 51820, "0.0.0.0/0", priority=1)
    pool(cloud)


@pytest.mark.parametrize(
    ("missing", "port", "who"),
    [
        ("192.0.2.0/24", 50000, "a control plane"),
        ("10.244.0.0/16", 50000, "the pod range"),
        ("10.4.0.0/16", 50000, "the mesh range"),
    ],
)
def test_who_reaches_the_talos_api(cloud: Cloud, missing: str, port: int, who: str) -> None:
    inside(cloud, *(source for source in INSIDE if source != missing))
    cloud.allow("mesh", "udp", 51820, "0.0.0.0/0")
    with refused("LabUnreachable", f"TCP port {port}", who):
        pool(cloud)


def test_the_kubelet_is_reached(cloud: Cloud) -> None:
    for source in INSIDE:
        cloud.allow(f"apid from {source}", "tcp", 50000, source)
    cloud.allow("mesh", "udp", 51820, "0.0.0.0/0")
    with refused("LabUnreachable", "TCP port 10250 of the kubelet"):
        pool(cloud)


@pytest.mark.parametrize("source", ["0.0.0.0/0", "203.0.113.0/24"])
def test_the_talos_api_is_not_open_to_the_world(cloud: Cloud, source: str) -> None:
    inside(cloud)
    cloud.allow("mesh", "udp", 51820, "0.0.0.0/0")
    cloud.allow("open", "tcp", 50000, source)
    with refused("LabUnreachable", "must not be open to the world"):
        pool(cloud)


def test_no_way_out(cloud: Cloud) -> None:
    inside(cloud)
    with refused("LabUnreachable", cloud.ids["sw"], "k8s.demo.example.com:6443", "no way out", "SNAT entry"):
        pool(cloud, public=False)


def test_every_vswitch_needs_a_way_out(cloud: Cloud) -> None:
    cloud.vswitch("sw2", "10.3.1.0/24", "cn-hangzhou-i")
    cloud.group("wide", vswitchIds=[cloud.ids["sw"], cloud.ids["sw2"]])
    cloud.way_out()
    inside(cloud)
    with refused("LabUnreachable", cloud.ids["sw2"], "no way out"):
        pool(cloud, public=False, scalingGroupId=cloud.ids["wide"])
    cloud.snat("snat2", "sw2")
    pool(cloud, public=False, scalingGroupId=cloud.ids["wide"])


def test_an_api_inside_the_vpc_needs_no_gateway(cloud: Cloud) -> None:
    inside(cloud)
    pool(cloud, WORKER.replace("k8s.demo.example.com", "10.3.5.5"), public=False)


def test_a_rule_may_shut_the_way_out(cloud: Cloud) -> None:
    inside(cloud)
    cloud.allow("mesh", "udp", 51820, "0.0.0.0/0")
    cloud.allow("no api", "tcp", 6443, "0.0.0.0/0", type="egress", policy="drop")
    with refused("LabUnreachable", "not allowed out", "6443"):
        pool(cloud)


def test_behind_a_gateway_the_mesh_must_speak_first(cloud: Cloud) -> None:
    inside(cloud)
    cloud.way_out()
    with refused("LabUnreachable", "persistent-keepalive"):
        pool(cloud, LONELY, public=False)


@pytest.mark.parametrize("data", ["no machine configuration", "machine: [", ""])
def test_other_user_data_is_not_judged(cloud: Cloud, data: str) -> None:
    pool(cloud, public=False, userData=b64(data))


def test_a_configuration_that_is_not_active_is_not_judged(cloud: Cloud) -> None:
    pool(cloud, public=False, active=False, enable=False)


def test_an_update_is_judged_too(cloud: Cloud) -> None:
    inside(cloud)
    cloud.way_out()
    pool(cloud, public=False)
    cloud.delete(SNAT, "snat")
    with refused("LabUnreachable", "no way out"):
        cloud.change(CONFIGURATION, "configuration", systemDiskSize=50)
    assert (cloud.read(CONFIGURATION, "configuration") or {})["systemDiskSize"] == 40
