"""A scaling group is rolled through the API of Auto Scaling that the lab serves."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hybrid_talos import aliyun_api, aliyun_pool
from hybrid_talos.aliyun_pool import AliyunPool
from hybrid_talos.pool_roll import SizeChanged
from hybrid_talos.work_provider import WorkError

from lab.alicloud import scale
from lab.alicloud.instances import instances
from lab.alicloud.scaling_actions import ACTIVITY
from tests.lab.alicloud_image_servers import Aliyun, aliyun_servers
from tests.lab.pool_cluster import Journal, Nodes, roll


class Place:
    """A scaling group with three machines, its Nodes, and the client that is tested."""

    def __init__(self, aliyun: Aliyun) -> None:
        self.world = aliyun.world
        self.group = aliyun.cloud.ids["group"]
        self.pool = AliyunPool({"region": "cn-hangzhou", **aliyun.access}, self.group, lambda line: None)
        self.journal = Journal()
        self.nodes = Nodes(self.machines)

    def machines(self) -> list[tuple[str, str]]:
        return [(m.doc["hostName"], m.doc["providerId"]) for m in instances(self.world, self.group)]

    def record(self) -> dict[str, Any]:
        doc = self.world.get("alicloud", "ScalingGroup", self.group)
        assert doc is not None
        return doc

    def fault(self, op: str, action: str, nth: int = 1) -> None:
        self.world.plan_fault(op, "ScalingGroup", action, nth=nth)


@pytest.fixture(params=[0, 2], ids=["at-once", "later"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(aliyun_pool, "_POLL_SECONDS", 0)
    monkeypatch.setattr(aliyun_api, "_FIRST_WAIT_SECONDS", 0)
    with aliyun_servers(tmp_path, monkeypatch, polls=request.param) as aliyun:
        aliyun.cloud.ready(minSize=1, maxSize=5)
        aliyun.cloud.configuration()
        scale(aliyun.world, aliyun.cloud.ids["group"], 3)
        yield Place(aliyun)


def renewed(place: Place) -> bool:
    return not {provider for _, provider in place.machines()} & place.nodes.stale


def test_every_machine_gives_way_to_a_new_one_and_the_count_stays(place: Place) -> None:
    assert len(roll(place.pool, place.nodes, place.journal)) == 3
    assert (place.record()["desiredCapacity"], len(place.machines())) == (3, 3)
    assert renewed(place)
    assert len(place.nodes.drained) == 3
    assert place.nodes.ghosts == {name for name, _ in place.machines()}
    assert not place.nodes.held


def test_a_group_without_an_expected_number_is_rolled_too(place: Place) -> None:
    doc = {key: value for key, value in place.record().items() if key != "desiredCapacity"}
    place.world.put("alicloud", "ScalingGroup", place.group, doc)
    roll(place.pool, place.nodes, place.journal)
    assert renewed(place)
    assert len(place.machines()) == 3
    assert "desiredCapacity" not in place.record()


def test_a_pool_may_be_smaller_for_a_moment_instead(place: Place) -> None:
    roll(place.pool, place.nodes, place.journal, max_surge=0, max_unavailable=1, most=3)
    assert renewed(place)
    assert len(place.machines()) == 3


@pytest.mark.parametrize(
    ("op", "action"), [("scale", "fail"), ("scale", "lost"), ("remove", "fail"), ("remove", "lost")]
)
def test_a_roll_that_failed_goes_on_and_the_count_is_right(
    place: Place, op: str, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise the client itself would send the request again, which the test below is about.
    monkeypatch.setattr("hybrid_talos.aliyun_api._TRIES", 1)
    place.fault(op, action, nth=2)
    with pytest.raises(Exception, match="InternalError|cannot be reached"):
        roll(place.pool, place.nodes, place.journal)
    assert not place.nodes.held
    roll(place.pool, place.nodes, place.journal)
    assert renewed(place)
    assert (place.record()["desiredCapacity"], len(place.machines())) == (3, 3)


@pytest.mark.parametrize("op", ["scale", "remove"])
def test_a_request_whose_answer_was_lost_is_sent_again_and_done_once(place: Place, op: str) -> None:
    place.fault(op, "lost")
    roll(place.pool, place.nodes, place.journal)
    assert renewed(place)
    assert (place.record()["desiredCapacity"], len(place.machines())) == (3, 3)


def test_a_size_that_the_autoscaler_has_changed_is_looked_at_again(place: Place) -> None:
    scale(place.world, place.group, 4)
    with pytest.raises(SizeChanged):
        place.pool.grow(3, 1, "token")
    assert len(place.machines()) == 4


def test_more_than_the_groups_own_most_is_an_error_rather_than_fewer(place: Place) -> None:
    with pytest.raises(WorkError, match="takes 5 machines at most; raise maxSize"):
        place.pool.grow(3, 3, "token")
    assert len(place.machines()) == 3


def test_below_the_groups_own_least_nothing_is_removed(place: Place) -> None:
    place.world.put("alicloud", "ScalingGroup", place.group, place.record() | {"minSize": 3})
    (_, provider), *_ = place.machines()
    with pytest.raises(WorkError, match=r"IncorrectCapacity\.MinSize"):
        place.pool.remove(provider.partition(".")[2])
    with pytest.raises(WorkError, match="fewest machines, 3"):
        roll(place.pool, place.nodes, place.journal, max_surge=0, max_unavailable=1)
    assert len(place.machines()) == 3


def test_another_activity_is_waited_for(place: Place) -> None:
    place.world.put("alicloud", ACTIVITY, "asa-other", {"group": place.group, "token": "", "polls": 3, "pending": []})
    place.pool.grow(3, 1, "token")
    assert len(place.machines()) == 4


def test_a_machine_of_another_group_is_refused(place: Place) -> None:
    with pytest.raises(WorkError, match=r"InvalidInstanceId\.NotFound"):
        place.pool.remove("i-other")
