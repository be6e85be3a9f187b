"""How much there is of an instance type: help.aliyun.com, ECS API page DescribeAvailableResource."""

from ..world import World
from .bridge import PACKAGE, Doc, find

LIMIT = "Stock"
"""Kind of the records that hold another state than `WithStock`, by `zone/type`."""


def available(world: World, region: str, instance_type: str) -> Doc:
    """Return the stock of an instance type in the zones of a region that anything is in."""
    zones = sorted({str(record.doc["zoneId"]) for record in find(world, "Switch", _region=region)})
    shown = []
    for zone in zones:
        category = (world.get(PACKAGE, LIMIT, f"{zone}/{instance_type}") or {}).get("category", "WithStock")
        status = "Available" if category in ("WithStock", "ClosedWithStock") else "SoldOut"
        resource = {"Value": instance_type, "Status": status, "StatusCategory": category}
        supported = {"Type": "InstanceType", "SupportedResources": {"SupportedResource": [resource]}}
        shown.append(
            {
                "ZoneId": zone,
                "RegionId": region,
                "Status": status,
                "StatusCategory": category,
                "AvailableResources": {"AvailableResource": [supported]},
            }
        )
    return {"AvailableZones": {"AvailableZone": shown}}
