"""The lab refuses a scale set of Talos workers that could never join."""

import base64
import gzip
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.lab.azure_cloud import (
    IP,
    PROFILE,
    Cloud,
    allow,
    b64,
    machines,
    refused,
)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    with closing(Cloud(tmp_path)) as cloud:
        yield cloud


@pytest.fixture
def ready(cloud: Cloud) -> Cloud:
    cloud.ready()
    return cloud


WORKER = """
version: v1alpha1
machine:
  type: worker
  nodeAnnotations: {kilo.squat.ai/location: azure, kilo.squat.ai/persistent-keepalive: "20"}
cluster:
  controlPlane: {endpoint: "https://k8s.demo.example.com:6443"}
  network: {podSubnets: [10.244.0.0/16]}
"""
KUBESPAN = (
    WORKER.replace("nodeAnnotations", "nodeLabels") + "---\napiVersion: v1alpha1\nkind: KubeSpanConfig\nenabled: true\n"
)
MESH = allow("mesh", 100, "Udp", [51820], "192.0.2.1")
INTERNAL = allow("internal", 110, "Tcp", [50000, 10250], "192.0.2.0/24", "10.244.0.0/16", "10.4.0.0/16")


def pool(cloud: Cloud, *rules: dict[str, Any], config: str | bytes = WORKER, public: bool = True) -> None:
    """Make a scale set of Talos workers behind a firewall."""
    cloud.firewall(*rules)
    where: dict[str, Any] = {"networkSecurityGroup": {"id": cloud.ids["nsg"]}, "defaultOutboundAccess": False}
    changes: dict[str, Any] = {f"{PROFILE}__osProfile__customData": b64(config)}
    if public:
        cloud.prefix()
        prefix = {"name": "p", "publicIPPrefix": {"id": cloud.ids["prefix"]}}
        changes[f"{IP}__publicIPAddressConfiguration"] = prefix
    cloud.subnet("pool", "10.2.1.0/24", **where)
    changes[f"{IP}__subnet"] = {"id": cloud.ids["pool"]}
    cloud.scale_set(changes)


def control_plane(cloud: Cloud, address: str = "192.0.2.11") -> None:
    cloud.world.put("talos", "machine", address, {"address": address, "role": "controlplane"})


def test_a_worker_that_can_join(ready: Cloud) -> None:
    control_plane(ready)
    pool(ready, MESH, INTERNAL)
    assert len(machines(ready)) == 2


@pytest.mark.parametrize("config", [WORKER, KUBESPAN, gzip.compress(WORKER.encode())])
def test_the_mesh_port_must_be_open(ready: Cloud, config: str | bytes) -> None:
    with refused("LabUnreachable", "UDP port 51820", "not allowed inbound", "nsg", "Add an inbound rule"):
        pool(ready, INTERNAL, config=config)


def test_a_rule_for_the_mesh_behind_a_denial_does_not_count(ready: Cloud) -> None:
    deny = {**allow("deny", 100, "*", [51820], "*"), "access": "Deny"}
    with refused("LabUnreachable", "UDP port 51820"):
        pool(ready, deny, {**MESH, "priority": 105}, INTERNAL)


def test_a_rule_for_the_networks_own_tunnels_is_none_for_the_mesh(ready: Cloud) -> None:
    with refused("LabUnreachable", "UDP port 51820"):
        pool(ready, INTERNAL, allow("cni", 120, "Udp", [4789, 8472], "192.0.2.0/24"))


def test_another_port_will_do_while_nobody_says_which_it_is(ready: Cloud) -> None:
    pool(ready, INTERNAL, allow("mesh", 120, "Udp", [51900], "192.0.2.1"))
    assert len(machines(ready)) == 2


def test_the_port_comes_from_the_endpoint_annotation(ready: Cloud) -> None:
    config = WORKER.replace(
        "nodeAnnotations: {", 'nodeAnnotations: {kilo.squat.ai/force-endpoint: "wg.example.com:51900", '
    )
    with refused("LabUnreachable", "UDP port 51900"):
        pool(ready, MESH, INTERNAL, config=config)


def test_the_port_comes_from_the_agent_that_is_deployed(ready: Cloud) -> None:
    container = {"args": ["--port=51900", "--subnet=10.4.0.0/16"]}
    ready.world.put(
        "kubernetes", "DaemonSet", "kilo/kilo", {"spec": {"template": {"spec": {"containers": [container]}}}}
    )
    with refused("LabUnreachable", "UDP port 51900"):
        pool(ready, MESH, INTERNAL)


def test_the_control_plane_must_reach_apid_and_kubelet(ready: Cloud) -> None:
    control_plane(ready)
    with refused("LabUnreachable", "TCP port 50000", "192.0.2.11", "DenyAllInBound", "provider ID"):
        pool(ready, MESH)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (allow("apid", 110, "Tcp", [50000], "192.0.2.0/24", "10.244.0.0/16"), ("TCP port 10250", "192.0.2.11")),
        (allow("nodes", 110, "Tcp", [50000, 10250], "192.0.2.0/24"), ("the pod range 10.244.0.0/16",)),
    ],
)
def test_every_range_and_port_counts(ready: Cloud, rule: dict[str, Any], words: tuple[str, ...]) -> None:
    control_plane(ready)
    with refused("LabUnreachable", *words):
        pool(ready, MESH, rule)


def test_the_tag_of_the_virtual_network_does_not_cover_the_rack(ready: Cloud) -> None:
    control_plane(ready)
    with refused("LabUnreachable", "TCP port 50000"):
        pool(ready, MESH, allow("vnet", 110, "Tcp", [50000, 10250], "VirtualNetwork"))


def test_the_talos_api_is_never_open_to_the_world(ready: Cloud) -> None:
    for source in ("*", "Internet", "0.0.0.0/0"):
        with refused("LabUnreachable", "must not be open to the world", "50000"):
            pool(ready, MESH, allow("apid", 110, "Tcp", [50000, 10250], source))
        for token, name in (
            ("network:Subnet", "pool"),
            ("network:NetworkSecurityGroup", "nsg"),
            ("network:PublicIPPrefix", "prefix"),
        ):
            ready.delete(token, name)


def test_there_must_be_a_way_out(ready: Cloud) -> None:
    with refused("LabUnreachable", "k8s.demo.example.com:6443", "no way out", "NAT gateway"):
        pool(ready, MESH, INTERNAL, public=False)
    ready.address()
    ready.gateway()
    ready.change("network:Subnet", "pool", natGateway={"id": ready.ids["nat"]})
    ready.scale_set({f"{PROFILE}__osProfile__customData": b64(WORKER), f"{IP}__subnet": {"id": ready.ids["pool"]}})


def test_an_outbound_denial_counts(ready: Cloud) -> None:
    deny = {**allow("no-api", 100, "Tcp", [6443], "*"), "direction": "Outbound", "access": "Deny"}
    with refused("LabUnreachable", "6443", "rule no-api"):
        pool(ready, {**deny, "priority": 200}, MESH, INTERNAL)


def test_behind_nat_a_machine_needs_keepalive(ready: Cloud) -> None:
    ready.address()
    ready.gateway()
    ready.change("network:Subnet", "sub", natGateway={"id": ready.ids["nat"]})
    silent = WORKER.replace(', kilo.squat.ai/persistent-keepalive: "20"', "")
    assert silent != WORKER
    with refused("LabUnreachable", "persistent-keepalive"):
        ready.scale_set({f"{PROFILE}__osProfile__customData": b64(silent)})
    ready.scale_set({f"{PROFILE}__osProfile__customData": b64(WORKER)})


@pytest.mark.parametrize(
    "data", [b"#!/bin/sh\necho hello\n", b"\x1f\x8bnot gzip", b"a: [", bytes(range(128, 192)), b""]
)
def test_other_custom_data_is_nobodys_business(ready: Cloud, data: bytes) -> None:
    ready.scale_set({f"{PROFILE}__osProfile__customData": base64.b64encode(data).decode()})
    assert len(machines(ready)) == 2
