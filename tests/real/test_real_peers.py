"""Kilo's Peers under the definition that NetworkMesh makes, on a real API server."""

import base64
import copy
from typing import Any

import pytest
from kubernetes_cluster import Api, Refused

pytestmark = pytest.mark.usefixtures("deployed")

PEERS = "/apis/kilo.squat.ai/v1alpha1/peers"
KEY = base64.b64encode(bytes(range(32))).decode()


def peer(name: str = "laptop", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kilo.squat.ai/v1alpha1",
        "kind": "Peer",
        "metadata": {"name": name},
        "spec": {"allowedIPs": ["10.4.255.1/32"], "publicKey": KEY, **spec},
    }


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"persistentKeepalive": 0},
        {"presharedKey": base64.b64encode(b"\xff" * 32).decode()},
        {"allowedIPs": ["10.4.255.1/32", "fd00::/64"]},
        {"endpoint": {"dnsOrIP": {"ip": "192.0.2.1"}, "port": 51820}},
        {"endpoint": {"dnsOrIP": {"ip": "2001:db8::1"}, "port": 1}},
        {"endpoint": {"dnsOrIP": {"dns": "laptop.example.com"}, "port": 65535}},
    ],
)
def test_what_the_agent_takes_is_accepted(api: Api, spec: dict[str, Any]) -> None:
    made = api.create(PEERS, peer(**spec))
    try:
        assert made["spec"] == peer(**spec)["spec"]
    finally:
        api.delete(f"{PEERS}/laptop")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"allowedIPs": None}, "spec.allowedIPs"),
        ({"allowedIPs": []}, "spec.allowedIPs"),
        ({"allowedIPs": ["10.4.255.1"]}, "spec.allowedIPs"),
        ({"allowedIPs": ["10.4.0.0/33"]}, "spec.allowedIPs"),
        ({"publicKey": None}, "spec.publicKey"),
        ({"publicKey": "secret"}, "spec.publicKey"),
        ({"publicKey": base64.b64encode(b"x" * 31).decode()}, "spec.publicKey"),
        ({"publicKey": base64.b64encode(b"x" * 33).decode()}, "spec.publicKey"),
        ({"publicKey": KEY[:-2] + "9="}, "spec.publicKey"),
        # The agent would go on without it.
        ({"presharedKey": "password"}, "spec.presharedKey"),
        ({"persistentKeepalive": -1}, "spec.persistentKeepalive"),
        ({"persistentKeepalive": "20s"}, "spec.persistentKeepalive"),
        ({"endpoint": {"dnsOrIP": {"ip": "192.0.2.1"}}}, "spec.endpoint.port"),
        ({"endpoint": {"dnsOrIP": {"ip": "192.0.2.1"}, "port": 0}}, "spec.endpoint.port"),
        ({"endpoint": {"dnsOrIP": {"ip": "192.0.2.1"}, "port": 65536}}, "spec.endpoint.port"),
        ({"endpoint": {"dnsOrIP": {"ip": "192.0.2.256"}, "port": 51820}}, "spec.endpoint.dnsOrIP.ip"),
        ({"endpoint": {"dnsOrIP": {"dns": "a_b.example.com"}, "port": 51820}}, "spec.endpoint.dnsOrIP.dns"),
        ({"endpoint": {"dnsOrIP": {"dns": "example.com:51820"}, "port": 51820}}, "spec.endpoint.dnsOrIP.dns"),
        ({"endpoint": {"dnsOrIP": {}, "port": 51820}}, "spec.endpoint.dnsOrIP"),
        ({"endpoint": {"port": 51820}}, "spec.endpoint.dnsOrIP"),
    ],
)
def test_what_the_agent_would_leave_out_is_refused(api: Api, change: dict[str, Any], field: str) -> None:
    body = copy.deepcopy(peer())
    body["spec"] = {key: value for key, value in (body["spec"] | change).items() if value is not None}
    with pytest.raises(Refused, match=field.replace(".", r"\.")) as refused:
        api.create(PEERS, body)
    assert refused.value.status == 422


def test_an_unknown_field_is_refused(api: Api) -> None:
    with pytest.raises(Refused, match="unknown field"):
        api.create(PEERS, peer(allowedIps=["10.0.0.0/8"]))


def test_a_peer_has_no_namespace(api: Api) -> None:
    with pytest.raises(Refused) as refused:
        api.create("/apis/kilo.squat.ai/v1alpha1/namespaces/default/peers", peer())
    assert refused.value.status == 404
