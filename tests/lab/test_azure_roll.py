"""A scale set is rolled through the API of Resource Manager that the lab serves."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hybrid_talos import azure_resource_manager
from hybrid_talos.azure_pool import AzurePool, azure_pool
from hybrid_talos.pool_roll import SizeChanged
from hybrid_talos.work_provider import WorkError

from lab.azure.instances import instances, scale
from tests.lab.azure_cloud import ZERO
from tests.lab.azure_image_servers import Azure, azure_servers
from tests.lab.pool_cluster import Journal, Nodes, roll

SET = f"/subscriptions/{ZERO}/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/workers"
NIC = "virtualMachineProfile__networkProfile__networkInterfaceConfigurations__0"


class Place:
    """A scale set with three machines, its Nodes, and the client that is tested."""

    def __init__(self, azure: Azure, pool: AzurePool) -> None:
        self.azure = azure
        self.pool = pool
        self.journal = Journal()
        self.nodes = Nodes(self.machines)

    def machines(self) -> list[tuple[str, str]]:
        return [(m.doc["computerName"], m.doc["providerId"]) for m in instances(self.azure.world, SET)]

    def ids(self) -> list[str]:
        return [machine.doc["instanceId"] for machine in instances(self.azure.world, SET)]

    def capacity(self) -> int:
        (record,) = self.azure.world.find("azure-native", "VirtualMachineScaleSet")
        return int(record.doc["sku"]["capacity"])

    def fault(self, op: str, action: str, nth: int = 1) -> None:
        self.azure.world.plan_fault(op, "VirtualMachineScaleSet", action, nth=nth)

    def change(self, path: str, value: Any) -> None:
        inputs = self.azure.cloud.scale_set_inputs({"sku__capacity": self.capacity(), path: value})
        self.azure.cloud.change("compute:VirtualMachineScaleSet", "workers", **inputs)


@pytest.fixture(params=[True, False], ids=["at-once", "later"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setattr(azure_resource_manager, "_POLL_SECONDS", 0)
    with ExitStack() as stack:
        azure = stack.enter_context(azure_servers(tmp_path, monkeypatch, at_once=request.param))
        azure.cloud.network()
        azure.cloud.subnet()
        azure.cloud.definition()
        azure.cloud.version()
        azure.cloud.scale_set({"sku__capacity": 3})
        yield Place(azure, stack.enter_context(azure_pool(azure.access, SET, lambda line: None)))


def test_every_machine_gives_way_to_a_new_one_and_the_count_stays(place: Place) -> None:
    assert len(roll(place.pool, place.nodes, place.journal)) == 3
    assert (place.capacity(), place.ids()) == (3, ["3", "4", "5"])
    assert len(place.nodes.drained) == 3
    # The Nodes of machines that are gone are gone as well.
    assert place.nodes.ghosts == {name for name, _ in place.machines()}
    assert not place.nodes.held


def test_a_pool_may_be_smaller_for_a_moment_instead(place: Place) -> None:
    roll(place.pool, place.nodes, place.journal, max_surge=0, max_unavailable=1, most=3)
    assert (place.capacity(), len(place.ids())) == (3, 3)
    assert not {provider for _, provider in place.machines()} & place.nodes.stale


@pytest.mark.parametrize(
    ("op", "action"), [("scale", "no-stock"), ("scale", "lost"), ("remove", "no-stock"), ("remove", "lost")]
)
def test_a_roll_that_failed_goes_on_and_the_count_is_right(place: Place, op: str, action: str) -> None:
    place.fault(op, action, nth=2)
    with pytest.raises(WorkError):
        roll(place.pool, place.nodes, place.journal)
    assert not place.nodes.held
    roll(place.pool, place.nodes, place.journal)
    assert (place.capacity(), len(place.ids())) == (3, 3)
    assert not {provider for _, provider in place.machines()} & place.nodes.stale


def test_a_size_that_the_autoscaler_has_changed_is_not_overwritten(place: Place) -> None:
    scale(place.azure.world, "workers", 4)
    with pytest.raises(SizeChanged):
        place.pool.grow(3, 1, "")
    assert place.capacity() == 4


def test_a_change_between_the_look_and_the_request_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    # Between the two requests of `grow`, as the autoscaler would.
    looked = place.pool._settled

    def then_scaled() -> dict[str, Any]:
        found = looked()
        scale(place.azure.world, "workers", 5)
        return found

    monkeypatch.setattr(place.pool, "_settled", then_scaled)
    with pytest.raises(SizeChanged):
        place.pool.grow(3, 1, "")
    assert place.capacity() == 5


def test_a_machine_that_is_gone_cannot_be_removed(place: Place) -> None:
    with pytest.raises(WorkError, match="InvalidParameter: The provided instanceId 77 is not an active"):
        place.pool.remove("77")
    assert place.capacity() == 3


def test_a_changed_model_reaches_a_machine_without_a_new_one(place: Place) -> None:
    place.change(f"{NIC}__enableIPForwarding", False)
    assert [item.outdated for item in place.pool.instances()] == [True] * 3
    place.pool.update("1")
    assert [item.outdated for item in place.pool.instances()] == [True, False, True]
    happened = {event.op for event in place.azure.world.events()} & {"reimage", "restart", "upgrade"}
    assert happened == {"upgrade"}


def test_another_image_would_replace_the_disk_so_only_new_machines_get_an_update(place: Place) -> None:
    place.azure.cloud.version("1.14.1")
    place.change("virtualMachineProfile__storageProfile__imageReference__id", place.azure.cloud.ids["1.14.1"])
    place.pool.update("1")
    assert "reimage" in {event.op for event in place.azure.world.events()}


def test_what_azure_forbids_is_said_with_the_page_that_lists_the_rights(place: Place) -> None:
    with (
        azure_pool(place.azure.access, f"{SET}-none", lambda line: None) as pool,
        pytest.raises(WorkError, match="is gone"),
    ):
        pool.size()
