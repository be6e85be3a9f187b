"""What the doctor reads of groups, through the APIs of both clouds that the lab serves."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hybrid_talos import aliyun_api
from hybrid_talos.work_provider import WorkError

from lab.alicloud import scale as aliyun_scale
from lab.azure.instances import scale as azure_scale
from stacks.diagnosis.aliyun_group import aliyun_group
from stacks.diagnosis.azure_group import azure_group, expected_id
from stacks.diagnosis.facts import Pool, Quota
from stacks.diagnosis.nodes import form_problem
from tests.lab.alicloud_image_servers import Aliyun, aliyun_servers
from tests.lab.azure_cloud import ZERO
from tests.lab.azure_image_servers import Azure, azure_servers

SET = f"/subscriptions/{ZERO}/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/workers"
PREFIX = "k8s.io_cluster-autoscaler_node-template_"
SIZE = "Standard_D2s_v3"


class TestAzure:
    @pytest.fixture
    def azure(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Azure]:
        with azure_servers(tmp_path, monkeypatch) as azure:
            azure.cloud.network()
            azure.cloud.subnet()
            azure.cloud.definition()
            azure.cloud.version()
            tags = {"min": "0", "max": "5", f"{PREFIX}label_a.b_c": "d", f"{PREFIX}taint_e": "f:NoSchedule"}
            azure.cloud.scale_set({"sku__capacity": 2, "sku__name": SIZE, "tags": tags})
            yield azure

    def pool(self, azure: Azure) -> Pool:
        where = {"location": "westeurope", **azure.access}
        return Pool("azure/workers", "azure", SET, "workers", 0, 5, {}, (), "azure-workers", "", (SIZE,), where=where)

    def test_a_scale_set(self, azure: Azure) -> None:
        group = azure_group(self.pool(azure))
        assert (group.size, group.least, group.most, group.trouble, group.notes) == (2, 0, 5, "", ())
        assert (group.labels, group.taints) == ({"a.b/c": "d"}, ("e=f:NoSchedule",))
        assert [machine.provider_id for machine in group.machines] == [
            f"azure://{SET}/virtualMachines/{number}" for number in range(2)
        ]
        assert all(form_problem("azure", machine.provider_id, "") is None for machine in group.machines)
        assert group.quotas == (
            Quota("cores of the region in westeurope", 4, 100, 2),
            Quota("cores of standardDSv3Family in westeurope", 4, 100, 2),
        )

    def test_the_quota_goes_by_what_is_used_and_by_the_price(self, azure: Azure) -> None:
        azure.world.put("azure-native", "Usage", "westeurope/standardDSv3Family", {"limit": 7})
        azure_scale(azure.world, "workers", 3)
        assert azure_group(self.pool(azure)).quotas[1] == Quota("cores of standardDSv3Family in westeurope", 6, 7, 2)
        (spot,) = azure_group(replace(self.pool(azure), spot=True)).quotas
        assert (spot.what, spot.used) == ("spot cores in westeurope", 0)

    def test_one_that_is_gone(self, azure: Azure) -> None:
        with pytest.raises(WorkError, match="the scale set none is gone"):
            azure_group(replace(self.pool(azure), group=SET.replace("/workers", "/none")))

    def test_a_resource_group_is_in_small_letters(self) -> None:
        assert expected_id(f"{SET}/virtualMachines/1".replace("/rg/", "/RG/")) == f"azure://{SET}/virtualMachines/1"


class TestAliyun:
    @pytest.fixture
    def aliyun(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aliyun]:
        monkeypatch.setattr(aliyun_api, "_FIRST_WAIT_SECONDS", 0)
        with aliyun_servers(tmp_path, monkeypatch) as aliyun:
            aliyun.cloud.ready(minSize=1, maxSize=5)
            aliyun.cloud.configuration(tags={"a.b/c": "d"})
            aliyun_scale(aliyun.world, aliyun.cloud.ids["group"], 2)
            yield aliyun

    def pool(self, aliyun: Aliyun) -> Pool:
        id = aliyun.cloud.ids["group"]
        zones = sorted({r.doc["zoneId"] for r in aliyun.world.find("alicloud", "Switch")})
        where = {"region": "cn-hangzhou", **aliyun.access}
        name = "aliyun/workers"
        types = ("ecs.g7.large",)
        return Pool(name, "aliyun", id, id, 1, 5, {}, (), "alibaba.workers", "", types, tuple(zones), where=where)

    def test_a_scaling_group(self, aliyun: Aliyun) -> None:
        group = aliyun_group(self.pool(aliyun))
        assert (group.size, group.least, group.most, group.trouble, group.notes) == (2, 1, 5, "", ())
        assert (group.labels, group.taints) == ({"a.b/c": "d"}, None)
        assert [machine.provider_id for machine in group.machines] == [
            one["providerId"] for one in aliyun.cloud.machines()
        ]
        assert all(form_problem("aliyun", machine.provider_id, "cn-hangzhou") is None for machine in group.machines)
        assert set(group.stock.values()) == {"in stock"}

    @pytest.mark.parametrize(
        ("category", "state"), [("WithoutStock", "sold out"), ("ClosedWithStock", "low"), ("WithStock", "in stock")]
    )
    def test_the_stock(self, aliyun: Aliyun, category: str, state: str) -> None:
        pool = self.pool(aliyun)
        aliyun.world.put("alicloud", "Stock", f"{pool.zones[0]}/ecs.g7.large", {"category": category})
        assert aliyun_group(pool).stock[f"ecs.g7.large in {pool.zones[0]}"] == state

    def test_a_zone_that_does_not_list_the_type_has_none(self, aliyun: Aliyun) -> None:
        pool = replace(self.pool(aliyun), zones=("cn-hangzhou-z",))
        assert aliyun_group(pool).stock == {"ecs.g7.large in cn-hangzhou-z": "sold out"}

    def test_a_group_that_cannot_make_machines(self, aliyun: Aliyun) -> None:
        id = aliyun.cloud.ids["group"]
        doc = aliyun.world.get("alicloud", "ScalingGroup", id)
        assert doc is not None
        aliyun.world.put("alicloud", "ScalingGroup", id, {**doc, "_state": "Inactive"})
        assert aliyun_group(self.pool(aliyun)).trouble == f"the scaling group {id} is Inactive"

    def test_one_that_is_gone(self, aliyun: Aliyun) -> None:
        with pytest.raises(WorkError, match="the scaling group asg-none is gone"):
            aliyun_group(replace(self.pool(aliyun), group="asg-none"))

    def test_a_cloud_that_is_not_reached_is_said_in_words(self, aliyun: Aliyun) -> None:
        pool = self.pool(aliyun)
        with pytest.raises(WorkError, match="cannot be reached; check the network and aliyun.endpoints.ess"):
            aliyun_group(replace(pool, where={**pool.where, "ess": "http://127.0.0.1:9"}))
