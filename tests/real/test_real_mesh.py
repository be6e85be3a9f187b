"""The mesh's peers and monitors, which the program has made, as a real API server keeps them."""

import base64
from typing import Any

import pytest
from kilo_agents import KEYS
from kubernetes_cluster import Api, Refused
from real_lab import RealLab

pytestmark = pytest.mark.usefixtures("deployed")

PEERS = "/apis/kilo.squat.ai/v1alpha1/peers"
MONITORING = "/apis/monitoring.coreos.com/v1/namespaces/mesh-kilo"


def test_peers_are_kept_as_the_program_says(api: Api) -> None:
    alice, branch = api.get(f"{PEERS}/peers-alice")["spec"], api.get(f"{PEERS}/peers-branch")["spec"]
    assert alice["allowedIPs"] == ["10.5.0.2/32"]
    assert len(base64.b64decode(alice["publicKey"])) == len(base64.b64decode(alice["presharedKey"])) == 32
    assert branch["allowedIPs"] == ["10.5.0.3/32", "172.16.1.0/24"]
    assert branch["endpoint"] == {"dnsOrIP": {"dns": "branch.example.com"}, "port": 51820}
    assert base64.b64decode(branch["publicKey"]) == b"the branch has its private key.."


def test_a_file_has_a_tunnel_to_every_machine_with_the_key_that_its_agent_wrote(deployed: RealLab) -> None:
    alice = deployed.outputs()["clients"]["alice"]
    for number, (name, key) in enumerate(KEYS.items(), 1):
        assert f"# {name}\nPublicKey = {key}\n" in alice
        assert f"Endpoint = 192.0.2.{number}:51820" in alice
    assert alice.count("PresharedKey = ") == len(KEYS)


def test_what_is_secret_is_secret_in_the_state(deployed: RealLab) -> None:
    alice = deployed.outputs()["clients"]["alice"]
    keys = {line.split(" = ")[1] for line in alice.splitlines() if line.startswith(("PrivateKey", "PresharedKey"))}
    assert len(keys) == 2
    state = str(deployed.resources())
    assert not [key for key in keys if key in state]


def test_prometheus_operator_takes_monitor_and_rules(api: Api) -> None:
    monitor = api.get(f"{MONITORING}/podmonitors/mesh-kilo")
    pods = api.get("/apis/apps/v1/namespaces/mesh-kilo/daemonsets/kilo")["spec"]["template"]
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= pods["metadata"]["labels"].items()
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    rules = api.get(f"{MONITORING}/prometheusrules/mesh-kilo")["spec"]["groups"][0]["rules"]
    assert {"KiloAgentsGone", "KiloStandsStill"} <= {rule["alert"] for rule in rules}


@pytest.mark.parametrize(
    ("change", "field"), [({"for": "15"}, "for"), ({"expr": None}, "expr"), ({"forr": "5m"}, "forr")]
)
def test_the_definition_of_rules_would_refuse_others(api: Api, change: dict[str, Any], field: str) -> None:
    found = api.get(f"{MONITORING}/prometheusrules/mesh-kilo")
    rule = {key: value for key, value in (found["spec"]["groups"][0]["rules"][0] | change).items() if value is not None}
    body = {
        **{key: found[key] for key in ("apiVersion", "kind")},
        "metadata": {"name": "other", "namespace": "mesh-kilo"},
        "spec": {"groups": [{"name": "other", "rules": [rule]}]},
    }
    with pytest.raises(Refused, match=field):
        api.create(f"{MONITORING}/prometheusrules", body)
