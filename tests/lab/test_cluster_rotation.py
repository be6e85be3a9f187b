"""The Talos authority and the join tokens are rotated on the real engine: stage by stage, refused out of turn."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from cluster_settings import ClusterLab, plans, refusal
from hybrid_talos.kubernetes_nodes import nodes_of
from hybrid_talos.rotation import token_id
from hybrid_talos.talos_calls import Machine, TalosError
from hybrid_talos.talosctl_api import TalosctlApi
from kubernetes.client import CoreV1Api
from lab_folder import Lab

from lab import tools
from stacks.export import documents
from stacks.secrets_bundle import bundle_of, secret_texts
from stacks.stack_state import SECRETS, StackState, read_state

pytestmark = pytest.mark.lab

ADDRESSES = ("192.0.2.11", "192.0.2.12", "192.0.2.13", "192.0.2.21", "192.0.2.22")
BIRTH = "control-plane-secrets"
FIRST = "control-plane-talos-authority-1"
TOKENS = "control-plane-join-tokens-1"

Credentials = dict[str, str]


@pytest.fixture(scope="module", autouse=True)
def talosctl() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        folder = tools.provide().talosctl.path.parent
        patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        yield


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ClusterLab:
    cluster = ClusterLab(tmp_path_factory.mktemp("rotation"))
    cluster.of().up()
    return cluster


def talos(stage: str, generation: int = 1) -> dict[str, Any]:
    return {"generation": generation, "stage": stage}


def state_of(lab: Lab) -> StackState:
    return read_state(lab.run("stack", "export", "--show-secrets").out)


def sets(lab: Lab) -> dict[str, Any]:
    """Return the outputs of all sets of secrets, by name."""
    return {str(each["urn"]).rpartition("::")[2]: each["outputs"] for each in state_of(lab).of_type(SECRETS)}


def credentials(found: dict[str, Any], *, client: str, trusts: str) -> Credentials:
    """Return the client of one set of secrets that trusts servers of another."""
    return {
        **found[client]["clientConfiguration"],
        "caCertificate": found[trusts]["clientConfiguration"]["caCertificate"],
    }


def who_answers(cluster: ClusterLab, given: Credentials) -> set[str]:
    """Return the addresses of the machines that answer a client, each asked by itself."""
    found = set()
    with cluster.machines() as nodes:
        nodes.wait("settled", lambda n: all(node.ready for node in n.values()))
        for address in ADDRESSES:
            try:
                TalosctlApi(given, []).version(Machine(address, address, nodes.endpoint(address)))
                found.add(address)
            except TalosError:
                pass
    return found


@contextmanager
def kubernetes(cluster: ClusterLab) -> Iterator[Any]:
    """Yield a client of the machines' own Kubernetes."""
    client = sets(cluster.of())[FIRST]["clientConfiguration"]
    with cluster.machines() as nodes:
        nodes.wait("settled", lambda n: all(node.ready for node in n.values()))
        address = ADDRESSES[0]
        config = TalosctlApi(client, []).kubeconfig(Machine(address, address, nodes.endpoint(address)))
        with nodes_of(config, nodes.kubernetes_endpoint) as found:
            yield CoreV1Api(found.api)


def boots(cluster: ClusterLab) -> dict[str, int]:
    """Return how often each machine has booted."""
    return {address: node.counts["boots"] for address, node in cluster.nodes().items() if address in ADDRESSES}


def test_a_stage_out_of_turn_is_refused_in_the_preview(cluster: ClusterLab) -> None:
    said = refusal(cluster.trying(rotation={"talosAuthority": talos("issue")}))
    assert "talos_authority: generation 1, issue does not follow generation 0, finish" in said
    assert "Next: set generation 1, accept and run `pulumi up` to its end" in said


def test_first_all_machines_accept_the_new_authority_and_the_old_one_issues(cluster: ClusterLab) -> None:
    before = boots(cluster)
    lab = cluster.of(rotation={"talosAuthority": talos("accept")})
    assert plans(lab)["control-plane-rotation"] == [
        "talos_authority: generation 0, finish -> generation 1, accept: every machine accepts the new authority, the "
        "old one issues"
    ]
    assert "replace" not in set(lab.changes().values())
    lab.up()
    found = sets(lab)
    assert set(found) == {BIRTH, FIRST}
    for client in (BIRTH, FIRST):
        assert who_answers(cluster, credentials(found, client=client, trusts=BIRTH)) == set(ADDRESSES)
    assert who_answers(cluster, credentials(found, client=FIRST, trusts=FIRST)) == set()
    assert boots(cluster) == before
    assert lab.changes() == {}


def test_it_does_not_end_before_the_new_authority_issues(cluster: ClusterLab) -> None:
    said = refusal(cluster.trying(rotation={"talosAuthority": talos("finish")}))
    assert "generation 1, finish does not follow generation 1, accept" in said


def test_then_the_new_one_issues_and_machines_answer_to_both(cluster: ClusterLab) -> None:
    before = boots(cluster)
    lab = cluster.of(rotation={"talosAuthority": talos("issue")})
    assert "replace" not in set(lab.changes().values())
    lab.up()
    found = sets(lab)
    for client in (BIRTH, FIRST):
        assert who_answers(cluster, credentials(found, client=client, trusts=FIRST)) == set(ADDRESSES)
    assert who_answers(cluster, credentials(found, client=BIRTH, trusts=BIRTH)) == set()
    assert boots(cluster) == before
    assert lab.changes() == {}


def test_there_is_no_way_back_once_it_issues(cluster: ClusterLab) -> None:
    said = refusal(cluster.trying(rotation={"talosAuthority": talos("accept")}))
    assert "generation 1, accept does not follow generation 1, issue" in said
    assert "protect" in refusal(cluster.trying(rotation=None))


def test_at_the_end_machines_answer_to_the_new_one_alone(cluster: ClusterLab) -> None:
    before = boots(cluster)
    old = credentials(sets(cluster.of()), client=BIRTH, trusts=FIRST)
    lab = cluster.of(rotation={"talosAuthority": talos("finish")})
    lab.up()
    found = sets(lab)
    assert who_answers(cluster, credentials(found, client=FIRST, trusts=FIRST)) == set(ADDRESSES)
    assert who_answers(cluster, old) == set()
    assert boots(cluster) == before
    assert lab.changes() == {}


def test_what_is_exported_are_the_secrets_in_use_and_none_stands_in_clear(cluster: ClusterLab) -> None:
    lab = cluster.of()
    state = state_of(lab)
    found = sets(lab)
    bundle = documents(state)["secrets.sops.yaml"]
    assert bundle["certs"]["os"]["key"] == found[FIRST]["machineSecrets"]["certs"]["os"]["key"]
    assert bundle["certs"]["etcd"] == bundle_of(found[BIRTH]["machineSecrets"])["certs"]["etcd"]
    text = lab.run("stack", "export").out
    for outputs in found.values():
        for secret in secret_texts(bundle_of(outputs["machineSecrets"])):
            assert secret not in text
        assert outputs["clientConfiguration"]["clientKey"] not in text


def test_new_join_tokens_come_with_a_reboot_of_each_machine(cluster: ClusterLab) -> None:
    before = boots(cluster)
    lab = cluster.of(rotation={"talosAuthority": talos("finish"), "joinTokens": talos("issue")})
    assert {plan for name, plan in plans(lab).items() if name.endswith("-member")} <= {
        "another configuration, with a reboot of the machine"
    }
    lab.up()
    after = boots(cluster)
    assert all(after[address] == before[address] + 1 for address in ADDRESSES)
    assert cluster.etcd() == ["cp-1", "cp-2", "cp-3"]
    assert lab.changes() == {}


def test_at_their_end_the_old_bootstrap_token_is_deleted_and_no_machine_reboots(cluster: ClusterLab) -> None:
    before, found = boots(cluster), sets(cluster.of())
    old, new = (f"bootstrap-token-{token_id(found[name]['machineSecrets'])}" for name in (BIRTH, TOKENS))
    # As Talos makes them.
    for name in (old, new):
        with kubernetes(cluster) as api:
            api.create_namespaced_secret("kube-system", {"metadata": {"name": name}, "stringData": {"id": name}})
    lab = cluster.of(rotation={"talosAuthority": talos("finish"), "joinTokens": talos("finish")})
    lab.up()
    assert set(sets(lab)) == {BIRTH, FIRST, TOKENS}
    with kubernetes(cluster) as api:
        left = {secret.metadata.name for secret in api.list_namespaced_secret("kube-system").items}
    assert (old in left, new in left) == (False, True)
    assert who_answers(cluster, credentials(found, client=FIRST, trusts=FIRST)) == set(ADDRESSES)
    assert boots(cluster) == before
    assert lab.changes() == {}


def test_a_second_rotation_forgets_the_first_authority(cluster: ClusterLab) -> None:
    for stage in ("accept", "issue", "finish"):
        lab = cluster.of(rotation={"talosAuthority": talos(stage, 2), "joinTokens": talos("finish")})
        lab.up()
    assert set(sets(lab)) == {BIRTH, "control-plane-talos-authority-2", TOKENS}
    assert lab.changes() == {}
