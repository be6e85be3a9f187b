"""Members of a cluster come, go and are replaced on the real engine, and it never loses quorum."""

from typing import Any

import pytest
from cluster_settings import ClusterLab, control_plane, plans, refusal, worker

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ClusterLab:
    cluster = ClusterLab(tmp_path_factory.mktemp("members"))
    cluster.of().up()
    return cluster


def members(*numbers: int) -> dict[str, Any]:
    return {"controlPlanes": [control_plane(number) for number in numbers]}


def test_what_would_lose_quorum_is_refused_with_the_sum(cluster: ClusterLab) -> None:
    said = refusal(cluster.trying(**members(1, 4, 5)))
    assert "2 of 3 control planes (cp-2, cp-3) would go" in said
    assert "3 members need 2 for a quorum (3 / 2 + 1), and 1 would stay" in said
    assert "change at most 1 at a time" in said


def test_an_even_number_is_refused_with_the_sum(cluster: ClusterLab) -> None:
    said = refusal(cluster.trying(**members(1, 2, 3, 4)))
    assert "has 4 members, an even number: a quorum needs 3 of them (4 / 2 + 1)" in said


def test_the_bootstrap_member_is_replaced_and_a_worker_goes(cluster: ClusterLab) -> None:
    before = cluster.etcd()
    assert before == ["cp-1", "cp-2", "cp-3"]
    lab = cluster.of(**members(2, 3, 4), workers=[worker(1)])
    assert plans(lab)["control-plane-membership"] == [
        "add cp-4: 3 -> 4 members, 3 for a quorum",
        "remove cp-1: 4 -> 3 members, 2 for a quorum",
    ]
    lab.up()
    assert cluster.etcd() == ["cp-2", "cp-3", "cp-4"]
    nodes = cluster.nodes()
    assert nodes["192.0.2.11"].phase == nodes["192.0.2.22"].phase == "maintenance"
    assert (nodes["192.0.2.11"].counts["leaves"], nodes["192.0.2.11"].counts["resets"]) == (1, 1)
    assert {node.counts["bootstraps"] for node in nodes.values()} == {0, 1}
    assert lab.changes() == {}


def test_two_more_come_at_once(cluster: ClusterLab) -> None:
    lab = cluster.of(**members(2, 3, 4, 5, 6))
    lab.up()
    assert cluster.etcd() == ["cp-2", "cp-3", "cp-4", "cp-5", "cp-6"]
    assert lab.changes() == {}


def test_two_of_five_go(cluster: ClusterLab) -> None:
    lab = cluster.of(**members(2, 5, 6))
    lab.up()
    assert cluster.etcd() == ["cp-2", "cp-5", "cp-6"]
    assert lab.changes() == {}


def test_a_teardown_wipes_all_machines(cluster: ClusterLab) -> None:
    lab = cluster.of(protect=False)
    lab.up()
    lab.destroy()
    assert lab.state() == []
    with cluster.machines() as nodes:
        nodes.wait("maintenance", lambda n: {node.phase for node in n.values()} == {"maintenance"})
    left = [r for r in lab.world().find() if not r.doc.get("builtin") and r.package != "dns"]
    assert [(r.package, r.kind, r.id) for r in left] == []
