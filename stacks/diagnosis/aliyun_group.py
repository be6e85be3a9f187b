"""What Alibaba Cloud says of a scaling group: machines, tags, and the stock of its types. Reads alone.

help.aliyun.com: Auto Scaling API 2022-02-22 DescribeScalingGroups, DescribeScalingInstances,
DescribeScalingConfigurations; ECS API 2014-05-26 DescribeAvailableResource.
"""

from typing import Any

from hybrid_talos.aliyun_api import ECS, ESS, Properties, call, cloud_errors
from hybrid_talos.work_provider import WorkError

from .facts import Group, Machine, Pool, seconds

_RIGHTS = (
    "ess:DescribeScalingGroups, ess:DescribeScalingInstances, ess:DescribeScalingConfigurations and "
    "ecs:DescribeAvailableResource"
)
_PAGE = 50
_STOCK = {"WithStock": "in stock", "ClosedWithStock": "low"}


def aliyun_group(pool: Pool) -> Group:
    """Return the scaling group of a pool; WorkError when it is gone or cannot be read."""
    props = dict(pool.where)
    with cloud_errors(props, _RIGHTS):
        answer = call(props, ESS, "DescribeScalingGroups", ScalingGroupIds=[pool.group])
        groups = answer.get("ScalingGroups") or []
        if not groups:
            raise WorkError(f"the scaling group {pool.group} is gone; run `pulumi up --refresh`")
        group = groups[0]
        machines = _paged(props, "DescribeScalingInstances", "ScalingInstances", pool.group)
        configurations = _paged(props, "DescribeScalingConfigurations", "ScalingConfigurations", pool.group)
    active = next((one for one in configurations if one.get("LifecycleState") == "Active"), None)
    state = str(group.get("LifecycleState") or "")
    trouble = "" if state == "Active" else f"the scaling group {pool.group} is {state or 'in no known state'}"
    if active is None:
        trouble = f"the scaling group {pool.group} has no active configuration, by which machines are made"
    stock: dict[str, str] = {}
    notes: list[str] = []
    try:
        with cloud_errors(props, _RIGHTS):
            stock = _stock(props, pool)
    except WorkError as error:
        notes.append(f"the stock is not known: {error}")
    wanted = group.get("DesiredCapacity")
    return Group(
        size=int(group["TotalCapacity"] if wanted is None else wanted),
        machines=tuple(
            Machine(
                f"{props['region']}.{one['InstanceId']}",
                leaving=str(one.get("LifecycleState")).startswith("Removing"),
                made=seconds(one.get("CreationTime")),
            )
            for one in machines
        ),
        labels={str(tag["Key"]): str(tag.get("Value") or "") for tag in (active or {}).get("Tags") or ()},
        taints=None,
        least=int(group["MinSize"]),
        most=int(group["MaxSize"]),
        trouble=trouble,
        stock=stock,
        notes=tuple(notes),
    )


def _stock(props: Properties, pool: Pool) -> dict[str, str]:
    """Return how much there is of each type in each zone of the pool; a zone that does not list it has none."""
    found: dict[str, str] = {}
    for size in pool.sizes:
        answer = call(
            props,
            ECS,
            "DescribeAvailableResource",
            DestinationResource="InstanceType",
            ResourceType="instance",
            InstanceChargeType="PostPaid",
            IoOptimized="optimized",
            InstanceType=size,
            SpotStrategy="SpotAsPriceGo" if pool.spot else "NoSpot",
        )
        zones: list[dict[str, Any]] = (answer.get("AvailableZones") or {}).get("AvailableZone") or []
        states = {str(zone["ZoneId"]): state for zone in zones if (state := _state(zone, size)) is not None}
        found |= {f"{size} in {zone}": states.get(zone, "sold out") for zone in pool.zones}
    return found


def _state(zone: dict[str, Any], size: str) -> str | None:
    for resource in (zone.get("AvailableResources") or {}).get("AvailableResource") or ():
        for one in (resource.get("SupportedResources") or {}).get("SupportedResource") or ():
            if one.get("Value") == size and one.get("Status") == "Available":
                return _STOCK.get(str(one.get("StatusCategory") or ""), "in stock")
    return None


def _paged(props: Properties, action: str, key: str, group: str) -> list[Properties]:
    found: list[Properties] = []
    page = 1
    while True:
        answer = call(props, ESS, action, ScalingGroupId=group, PageSize=_PAGE, PageNumber=page)
        items = answer.get(key) or []
        found += items
        if not items or len(found) >= int(answer.get("TotalCount") or 0):
            return found
        page += 1
