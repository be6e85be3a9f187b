"""A member whose name moves to another machine, on the real engine."""

from typing import Any

import pytest
from cluster_settings import ClusterLab, control_plane

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ClusterLab:
    cluster = ClusterLab(tmp_path_factory.mktemp("replacement"))
    cluster.of(workers=[]).up()
    return cluster


def members(*given: dict[str, str]) -> dict[str, Any]:
    return {"controlPlanes": list(given)}


def test_a_name_that_moves_to_another_machine(cluster: ClusterLab) -> None:
    moved = {**control_plane(2), "address": control_plane(4)["address"]}
    lab = cluster.of(**members(control_plane(1), moved, control_plane(3)))
    lab.up()
    assert cluster.etcd() == ["cp-1", "cp-2", "cp-3"]
    nodes = cluster.nodes()
    assert (nodes["192.0.2.14"].hostname, nodes["192.0.2.14"].ready) == ("cp-2", True)
    assert nodes["192.0.2.12"].phase == "maintenance"
    assert (nodes["192.0.2.12"].counts["leaves"], nodes["192.0.2.12"].counts["resets"]) == (1, 1)
    assert lab.changes() == {}
