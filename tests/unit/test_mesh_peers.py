"""Peers outside of the cluster: keys, what Kilo's Nodes tell, Peer objects and the files that are handed out."""

import base64
import configparser
import json
import pickletools
import sys

import pytest
from hybrid_talos import kilo_nodes_work, wireguard_key_work
from hybrid_talos._contract import BadInputs
from hybrid_talos.kilo_nodes import KiloNodesProvider
from hybrid_talos.kilo_topology import kilo_node, remotes
from hybrid_talos.kubernetes_nodes import KubernetesError
from hybrid_talos.mesh_peers import MeshPeers
from hybrid_talos.mesh_plan import Granularity
from hybrid_talos.wireguard import Interface, Remote, checked_key, client_file, public_key
from hybrid_talos.wireguard_key import WireGuardKeyProvider
from hybrid_talos.work_provider import WorkError
from hypothesis import given, settings
from hypothesis import strategies as st
from pool_recorder import is_secret, run
from pulumi.dynamic.dynamic import serialize_provider


def key(number):
    return base64.b64encode(bytes([number]) * 32).decode()


# Keys


def test_a_public_key_is_derived_as_wireguard_does():
    # RFC 7748, 6.1: Bob's keys.
    private = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    public = bytes.fromhex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
    assert public_key(base64.b64encode(private).decode()) == base64.b64encode(public).decode()


@settings(deadline=None)
@given(st.binary(min_size=0, max_size=40))
def test_a_key_is_32_bytes(raw):
    text = base64.b64encode(raw).decode()
    if len(raw) == 32:
        assert checked_key(text) == text
    else:
        with pytest.raises(ValueError, match="must be a WireGuard key"):
            checked_key(text)


@pytest.mark.parametrize("text", [key(1)[:-2] + "F=", key(1) + "\n", " " + key(1), key(1).rstrip("="), "ä" * 44])
def test_another_form_of_the_same_bytes_is_no_key(text):
    with pytest.raises(ValueError, match="must be a WireGuard key") as caught:
        checked_key(text)
    assert text.strip() not in str(caught.value)


def test_keys_are_made_once_and_differ():
    (first, one), (second, other) = wireguard_key_work.create({}), wireguard_key_work.create({})
    assert first == one["public_key"] == public_key(one["private_key"])
    assert len({first, second, one["preshared_key"], other["preshared_key"], one["private_key"]}) == 5
    assert wireguard_key_work.read(one) == one
    assert wireguard_key_work.update(one, {}) == one
    assert wireguard_key_work.diff(one, {"private_key": None}).changes is False


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="a later pickle protocol writes other bytes")
@pytest.mark.parametrize(
    ("provider", "module"), [(WireGuardKeyProvider, "wireguard_key"), (KiloNodesProvider, "kilo_nodes")]
)
def test_the_state_holds_names_and_no_code(provider, module):
    pickled = base64.b64decode(serialize_provider(provider()))
    words = [argument for _, argument, _ in pickletools.genops(pickled) if isinstance(argument, str)]
    assert words == [f"hybrid_talos.{module}", provider.__name__]


# What Nodes tell


def node(name, number, *, location="rack", endpoint="192.0.2.1:51820", pods=True, labels=None, **annotations):
    said = {
        "location": location,
        "endpoint": endpoint,
        "key": key(number),
        "internal-ip": f"192.0.2.{number}/24",
        **{word.replace("_", "-"): text for word, text in annotations.items()},
    }
    return {
        "metadata": {
            "name": name,
            "labels": labels or {},
            "annotations": {f"kilo.squat.ai/{word}": text for word, text in said.items() if text is not None},
        },
        "spec": {"podCIDR": f"10.244.{number}.0/24"} if pods else {},
    }


def test_every_machine_is_a_tunnel_when_each_is_a_peer():
    found = remotes([node("b", 2, wireguard_ip="10.4.0.2/16"), node("a", 1)], Granularity.FULL)
    assert found == [
        Remote("a", key(1), ("10.244.1.0/24", "192.0.2.1/32"), "192.0.2.1:51820"),
        Remote("b", key(2), ("10.244.2.0/24", "192.0.2.2/32", "10.4.0.2/32"), "192.0.2.1:51820"),
    ]


def test_a_location_is_reached_through_its_leader():
    nodes = [
        node("a", 1, endpoint="10.2.0.4:51820", location="azure"),
        node("b", 2, endpoint="10.2.0.5:51820", location="azure", leader="", wireguard_ip="10.4.0.1/16"),
        node("c", 3, allowed_location_ips="198.51.100.0/24,192.0.2.128/25"),
    ]
    azure, rack = remotes(nodes, Granularity.LOCATION)
    assert (azure.name, azure.public_key, azure.endpoint) == ("azure", key(2), "10.2.0.5:51820")
    assert azure.allowed_ips == ("10.244.1.0/24", "10.244.2.0/24", "192.0.2.1/32", "192.0.2.2/32", "10.4.0.1/32")
    assert rack.allowed_ips[-2:] == ("192.0.2.128/25", "198.51.100.0/24")


@pytest.mark.parametrize(
    ("a", "b", "leads"),
    [
        ({}, {}, 1),
        ({"endpoint": "10.0.0.1:1"}, {}, 2),
        ({}, {"endpoint": "10.0.0.1:1", "leader": "false"}, 2),
        ({"endpoint": "10.0.0.1:1", "leader": ""}, {"leader": ""}, 2),
        ({"leader": ""}, {"leader": ""}, 1),
        # A name counts as an address that is not public, as in the agent.
        ({"endpoint": "wg.example.com:1"}, {}, 2),
    ],
)
def test_the_leader_is_the_one_that_kilo_takes(a, b, leads):
    (found,) = remotes([node("a", 1, **a), node("b", 2, **b)], Granularity.LOCATION)
    assert found.public_key == key(leads)


def test_a_machine_without_a_private_address_is_a_location_of_its_own():
    found = remotes([node("a", 1), node("b", 2, force_internal_ip="-")], Granularity.LOCATION)
    assert [remote.name for remote in found] == ["rack", "b"]
    assert found[1].allowed_ips == ("10.244.2.0/24",)


def test_who_is_behind_nat_is_called_where_it_was_met():
    met = json.dumps({key(2): {"IP": "203.0.113.9", "Port": 40001, "Zone": ""}})
    nodes = [
        node("a", 1, discovered_endpoints=met),
        node("b", 2, endpoint="10.2.0.4:51820", persistent_keepalive="20"),
        node("c", 3, endpoint="10.2.0.5:51820", discovered_endpoints="nonsense"),
    ]
    endpoints = {remote.name: remote.endpoint for remote in remotes(nodes, Granularity.FULL)}
    assert endpoints == {"a": "192.0.2.1:51820", "b": "203.0.113.9:40001", "c": "10.2.0.5:51820"}
    # Without a keepalive Kilo, too, stays with what is announced.
    nodes[1] = node("b", 2, endpoint="10.2.0.4:51820")
    assert remotes(nodes, Granularity.FULL)[1].endpoint == "10.2.0.4:51820"


@pytest.mark.parametrize("lacks", [{"key": None}, {"key": "x"}, {"endpoint": None}, {"pods": False}])
def test_a_machine_that_the_agent_has_not_described_is_left_out(lacks):
    assert kilo_node(node("a", 1, **lacks)) is None


def test_a_forced_endpoint_goes_before_the_one_that_was_found():
    found = kilo_node(node("a", 1, force_endpoint="wg.example.com:51820"))
    assert found is not None
    assert found.endpoint == "wg.example.com:51820"


# Waiting for Kilo

PROPS = {"kubeconfig": "secret-kubeconfig", "connect_to": None, "granularity": "full", "minutes": 1}
CONTROL_PLANE = {"node-role.kubernetes.io/control-plane": ""}


class Api:
    """Answers one list of Nodes, or error, after another; the last one for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def __call__(self, _kubeconfig, _connect_to):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def listed(self):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def waited(monkeypatch, *answers):
    now, said = [0.0], []
    monkeypatch.setattr(kilo_nodes_work, "nodes_of", Api(*answers))
    found = kilo_nodes_work.wait(
        PROPS, send=said.append, clock=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s)
    )
    return found, said


def test_it_waits_for_every_control_plane(monkeypatch):
    late = node("cp-2", 2, key=None, labels=CONTROL_PLANE)
    there = [node("cp-1", 1, labels=CONTROL_PLANE), node("cp-2", 2, labels=CONTROL_PLANE), node("worker", 3, key=None)]
    found, said = waited(monkeypatch, KubernetesError("not reached"), [there[0], late], there)
    assert [remote["name"] for remote in found] == ["cp-1", "cp-2"]
    assert said == [
        "waiting for Kilo: not reached",
        "waiting for Kilo: Kilo's agent has not described cp-2",
    ]


def test_it_says_what_is_missing_when_it_gives_up(monkeypatch):
    with pytest.raises(WorkError, match=r"has not described cp-1 after 1 minutes\. Next: look at") as caught:
        waited(monkeypatch, [node("cp-1", 1, key=None, labels=CONTROL_PLANE)])
    assert "secret-kubeconfig" not in str(caught.value)
    with pytest.raises(WorkError, match="has not described any machine"):
        waited(monkeypatch, [])


def test_a_refresh_keeps_what_is_known_when_nobody_answers(monkeypatch):
    known = {**PROPS, "remotes": [{"name": "a"}]}
    monkeypatch.setattr(kilo_nodes_work, "nodes_of", Api(KubernetesError("down")))
    assert kilo_nodes_work.read(known) == known
    monkeypatch.setattr(kilo_nodes_work, "nodes_of", Api([]))
    assert kilo_nodes_work.read(known) == known
    monkeypatch.setattr(kilo_nodes_work, "nodes_of", Api([node("b", 2)]))
    assert [remote["name"] for remote in kilo_nodes_work.read(known)["remotes"]] == ["b"]


def test_renewed_credentials_are_an_update_and_minutes_are_not():
    known = {**PROPS, "remotes": []}
    assert kilo_nodes_work.diff(known, {**PROPS, "kubeconfig": "renewed"}).changes is True
    assert kilo_nodes_work.diff(known, {**PROPS, "minutes": 5}).changes is False
    assert kilo_nodes_work.diff(known, PROPS).replaces == []


# The component

ARGS = {"cidr": "10.5.0.0/24", "peers": {"alice": {"address": "10.5.0.2"}}, "kubeconfig": "kubeconfig-MARKER"}
REMOTES = [
    {"name": "cp-1", "public_key": key(1), "allowed_ips": ["10.244.1.0/24"], "endpoint": None},
    {"name": "cp-2", "public_key": key(2), "allowed_ips": ["10.244.2.0/24"], "endpoint": "192.0.2.2:51820"},
]


@pytest.fixture(autouse=True)
def _made(monkeypatch):
    """Have the mocks answer as the providers of the keys and of the machines do."""
    from pool_recorder import Recorder  # noqa: PLC0415

    plain = Recorder.new_resource

    def new_resource(self, args):
        identity, outputs = plain(self, args)
        if args.name.endswith("-key"):
            outputs |= {"private_key": "private-MARKER", "public_key": key(9), "preshared_key": "preshared-MARKER"}
        if args.name.endswith("-machines"):
            outputs |= {"remotes": REMOTES}
        return identity, outputs

    monkeypatch.setattr(Recorder, "new_resource", new_resource)


def made(**changes):
    recorder = run(lambda: {"files": MeshPeers("peers", {**ARGS, **changes}).client_files})
    return recorder, recorder.values.get("files")


def sections(text):
    """Return the sections of a WireGuard file, each a mapping."""
    found = []
    for part in text.split("\n\n"):
        parser = configparser.ConfigParser()
        parser.optionxform = str
        parser.read_string(part)
        (name,) = parser.sections()
        found.append((name, dict(parser[name])))
    return found


def refusal(**changes):
    with pytest.raises(BadInputs) as caught:
        run(lambda: MeshPeers("peers", {**ARGS, **changes}) and None)
    return str(caught.value)


def test_a_peer_gets_keys_an_object_and_a_file():
    recorder, files = made()
    assert recorder.one("peers-alice").inputs["spec"] == {
        "allowedIPs": ["10.5.0.2/32"],
        "publicKey": key(9),
        "persistentKeepalive": 20,
    }
    assert recorder.one("peers-alice").inputs["metadata"]["name"] == "peers-alice"
    interface, first, second = sections(files["alice"])
    assert interface == ("Interface", {"PrivateKey": "private-MARKER", "Address": "10.5.0.2/32", "MTU": "1320"})
    assert first == ("Peer", {"PublicKey": key(1), "AllowedIPs": "10.244.1.0/24", "PersistentKeepalive": "20"})
    assert second[1]["Endpoint"] == "192.0.2.2:51820"


def test_objects_come_after_kilo():
    recorder, _ = made()
    needs = {urn.rsplit("::", 1)[1] for urn in recorder.one("peers-alice").dependencies}
    assert "peers-machines" in needs


def test_secrets_are_marked():
    recorder, _ = made(peers={"alice": {"address": "10.5.0.2", "preshared": True}})
    assert is_secret(recorder.one("-machines").raw["kubeconfig"])
    assert {"private_key", "preshared_key"} <= set(recorder.one("-key").secret_outputs)


def test_who_keeps_the_private_key_gets_a_file_that_says_where_it_goes():
    recorder, files = made(peers={"alice": {"address": "10.5.0.2", "public_key": key(7)}})
    assert not any(found.name.endswith("-key") for found in recorder.found)
    assert recorder.one("peers-alice").inputs["spec"]["publicKey"] == key(7)
    assert "\n# PrivateKey = <" in files["alice"]
    assert "MARKER" not in files["alice"]


def test_a_symmetric_key_stands_on_both_sides():
    recorder, files = made(peers={"alice": {"address": "10.5.0.2", "public_key": key(7), "preshared": True}})
    assert recorder.one("peers-alice").inputs["spec"]["presharedKey"] == "preshared-MARKER"
    assert files["alice"].count("PresharedKey = preshared-MARKER") == 2
    assert "private-MARKER" not in files["alice"]


@pytest.mark.parametrize(("endpoint", "kind"), [("198.51.100.7:40000", "ip"), ("branch.example.com:40000", "dns")])
def test_a_place_without_nodes_is_called_and_routed_to(endpoint, kind):
    branch = {"address": "10.5.0.3", "endpoint": endpoint, "routed_cidrs": ["172.16.2.0/24", "172.16.1.0/24"]}
    recorder, _ = made(peers={"branch": branch})
    spec = recorder.one("peers-branch").inputs["spec"]
    assert spec["allowedIPs"] == ["10.5.0.3/32", "172.16.1.0/24", "172.16.2.0/24"]
    assert spec["endpoint"] == {"dnsOrIP": {kind: endpoint.partition(":")[0]}, "port": 40000}


def test_services_are_reached_through_the_first_machine_that_can_be_called():
    _, files = made(service_cidr="10.96.0.0/16", dns=["10.96.0.10"])
    interface, first, second = sections(files["alice"])
    assert interface[1]["DNS"] == "10.96.0.10"
    assert "10.96.0.0/16" not in first[1]["AllowedIPs"]
    assert second[1]["AllowedIPs"] == "10.244.2.0/24, 10.96.0.0/16"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"peers": {}}, "peers"),
        ({"peers": {"Alice": {"address": "10.5.0.2"}}}, "peers.Alice: a name has"),
        ({"peers": {"alice": {"address": "10.6.0.2"}}}, "peers.alice.address: 10.6.0.2 is not inside of"),
        ({"peers": {"alice": {"address": "10.5.0.2/32"}}}, "peers.alice.address"),
        ({"peers": {"alice": {}}}, "peers.alice.address"),
        ({"peers": {"alice": {"address": "10.5.0.2", "public_key": "x"}}}, "peers.alice.public_key: must be a Wire"),
        ({"peers": {"alice": {"address": "10.5.0.2", "endpoint": "example.com"}}}, "peers.alice.endpoint: must be"),
        ({"peers": {"alice": {"address": "10.5.0.2", "key": "x"}}}, "peers.alice.key"),
        ({"peers": {n: {"address": "10.5.0.2"} for n in "ab"}}, "peers.b.address: 10.5.0.2 is the address of a too"),
        (
            {"peers": {n: {"address": f"10.5.0.{i}", "public_key": key(7)} for i, n in enumerate("ab")}},
            "peers.b.public_key: is the key of a too",
        ),
        (
            {"peers": {"a": {"address": "10.5.0.2", "routed_cidrs": ["10.5.0.0/16"]}}},
            "peers.a.routed_cidrs: 10.5.0.0/16 overlaps what leads to the peers",
        ),
        ({"service_cidr": "10.5.0.0/16"}, "service_cidr: 10.5.0.0/16 overlaps"),
        ({"cidr": "10.5.0.1/24"}, "cidr"),
        ({"mtu": 1500}, "mtu"),
        ({"persistent_keepalive": 0}, "persistent_keepalive"),
        ({"connect_to": "http://127.0.0.1"}, "connect_to"),
    ],
)
def test_what_cannot_work_is_refused_by_name(changes, words):
    message = refusal(**changes)
    assert words in message
    assert "MARKER" not in message


def test_the_file_of_a_client_alone():
    text = client_file(Interface("10.5.0.2", "k"), [], 0, None)
    assert text == "[Interface]\nPrivateKey = k\nAddress = 10.5.0.2/32\n"
