"""An update of a scale set whose size the autoscaler has changed since the state is refused before it goes out."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pulumi
import pytest
from hybrid_talos.azure_capacity import StaleCapacityError, capacity_guard
from hybrid_talos.work_provider import WorkError

from tests.lab.azure_cloud import ZERO
from tests.lab.azure_image_servers import Azure, azure_servers

SET = f"/subscriptions/{ZERO}/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/workers"


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Azure]:
    with azure_servers(tmp_path, monkeypatch) as servers:
        cloud = servers.cloud
        cloud.network()
        cloud.subnet()
        cloud.definition()
        cloud.version()
        cloud.scale_set({"sku__capacity": 4})
        yield servers


def update(azure: Azure, capacity: Any, id: str = SET) -> None:
    change = SimpleNamespace(id=id, new_inputs={"sku": {"name": "Standard_D2s_v3", "capacity": capacity}})
    where: Any = {"resource_manager": azure.access["resource_manager"]}
    guard = capacity_guard(where)
    guard(change)  # type: ignore[arg-type]


def test_a_state_that_knows_the_number_passes(azure: Azure) -> None:
    update(azure, 4.0)


def test_a_state_that_is_older_than_the_autoscaler_does_not(azure: Azure) -> None:
    with pytest.raises(StaleCapacityError, match=r"workers has 4 machines, and this update would set 2: .*--refresh"):
        update(azure, 2.0)


def test_a_scale_set_that_is_gone_is_the_updates_own_affair(azure: Azure) -> None:
    update(azure, 2.0, SET.replace("workers", "nothing"))


def test_what_azure_refuses_is_said(azure: Azure) -> None:
    azure.world.plan_fault("read", "VirtualMachineScaleSet", "no-stock", message="not today")
    with pytest.raises(WorkError, match="workers"):
        update(azure, 4.0)


def test_the_engine_takes_it_for_a_hook() -> None:
    pulumi.ResourceHookBinding(before_update=[capacity_guard({})])
