"""What the pools come to at their most, as the preview says it."""

from copy import deepcopy
from typing import Any

import pytest
from documents import GOOD, HERE, read_good
from hybrid_talos.aliyun_instance_types import cpus_of

from stacks.ceilings import ceilings
from stacks.settings import load


def hybrid() -> dict[str, Any]:
    return deepcopy(read_good(HERE / "good" / "hybrid.yaml").settings)


def of(found: dict[str, Any], stack: str = "hybrid") -> list[str]:
    return ceilings(load(stack, found))


def test_each_quota_has_its_line() -> None:
    assert of(hybrid()) == [
        "azure, westeurope, standardDSv3Family: 20 cores, 10 machines",
        "aliyun, cn-hangzhou, ecs.g7.large: 10 cores, 5 machines",
        "pods, 10.244.0.0/16: 20 of 256 ranges of nodes, 5120 of 65536 addresses",
    ]


def more_pools() -> dict[str, Any]:
    """Return settings with pools of one family and of several, of two regions, and of spot machines."""
    found = hybrid()
    (pool,), (group,) = found["azure"]["pools"], found["aliyun"]["pools"]
    found["azure"]["pools"] += [
        {**pool, "name": "big", "subnetCidr": "10.2.1.0/24", "vmSize": "Standard_D8s_v3", "maxSize": 2},
        {**pool, "name": "cheap", "subnetCidr": "10.2.2.0/24", "maxSize": 3, "spot": {}},
        {**pool, "name": "cheaper", "subnetCidr": "10.2.3.0/24", "vmSize": "Standard_E4s_v3", "maxSize": 1, "spot": {}},
        {**pool, "name": "far", "location": "northeurope", "vnetCidr": "10.5.0.0/16", "subnetCidr": "10.5.0.0/24"},
    ]
    found["aliyun"]["pools"].append(
        {
            **group,
            "name": "two",
            "zones": {"cn-hangzhou-h": "10.3.2.0/24"},
            "instanceTypes": ["ecs.g7.xlarge", "ecs.g6.xlarge"],
            "maxSize": 1,
        }
    )
    return found


def test_pools_of_one_family_and_region_are_added_up() -> None:
    assert of(more_pools()) == [
        "azure, northeurope, standardDSv3Family: 20 cores, 10 machines",
        "azure, westeurope, spot: 10 cores, 4 machines",
        "azure, westeurope, standardDSv3Family: 36 cores, 12 machines",
        "aliyun, cn-hangzhou, ecs.g6.xlarge or ecs.g7.xlarge: 4 cores, 1 machine",
        "aliyun, cn-hangzhou, ecs.g7.large: 10 cores, 5 machines",
        "pods, 10.244.0.0/16: 37 of 256 ranges of nodes, 9472 of 65536 addresses",
    ]


def test_the_order_of_the_file_says_nothing() -> None:
    turned = more_pools()
    for cloud in ("azure", "aliyun"):
        turned[cloud]["pools"].reverse()
    assert of(turned) == of(more_pools())


def test_a_cluster_without_pools_has_none() -> None:
    found = hybrid()
    for section in ("azure", "aliyun", "autoscaler"):
        del found[section]
    assert of(found, "cluster") == []


def test_a_burst_says_whom_it_leaves_out() -> None:
    document = read_good(HERE / "good" / "azure-burst.yaml")
    *_, pods = of(document.settings, document.stack)
    assert pods.endswith("addresses, without the machines of the cluster itself")


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_every_pool_of_good_settings_is_counted(path: Any) -> None:
    document = read_good(path)
    settings = load(document.stack, document.settings)
    clouds = [cloud for cloud in (settings.azure, settings.aliyun) if cloud is not None]
    most = sum(pool.max_size for cloud in clouds for pool in cloud.pools)
    lines = ceilings(settings)
    assert sum(int(line.split(", ")[-1].split()[0]) for line in lines[:-1]) == most
    assert bool(lines) == bool(most)


@pytest.mark.parametrize(
    ("name", "cpus"),
    [
        # Tables of "Overview of instance families", alibabacloud.com.
        ("ecs.g7.large", 2),
        ("ecs.g7.xlarge", 4),
        ("ecs.c7.3xlarge", 12),
        ("ecs.ebmg7.32xlarge", 128),
        ("ecs.t6-c1m2.large", 2),
        ("ecs.gn6v-c8g1.2xlarge", 8),
        ("ecs.n1.large", None),
        ("ecs.n4.small", None),
        ("large", None),
    ],
)
def test_cores_of_an_instance_type(name: str, cpus: int | None) -> None:
    assert cpus_of(name) == cpus
