"""What Auto Scaling does to a group when it is asked by its API: machines added, removed by their ids, activities.

Sources: help.aliyun.com Auto Scaling API 2022-02-22, ScaleWithAdjustment, RemoveInstances (conditions, error codes
`ScalingActivityInProgress`, `IncorrectScalingGroupStatus`, `IncorrectCapacity.MinSize`, `InvalidInstanceId.NotFound`),
DescribeScalingInstances, DescribeScalingActivities, DescribeScalingGroups.
"""

from collections.abc import Sequence

from ..world import CloudError, Record, World
from .bridge import PACKAGE, Doc, find, lookup
from .instances import instances, remove, resize, settle

ACTIVITY = "ScalingActivity"


def group_of(world: World, id: str, region: str) -> Record:
    """Return a scaling group, or refuse."""
    record = lookup(world, "ScalingGroup", id, region)
    if record is None:
        raise CloudError("InvalidScalingGroupId.NotFound", "The specified scaling group does not exist.")
    return record


def adjust(world: World, group: Record, kind: str, value: int, token: str, polls: int) -> str:
    """Give a group another number of machines, within its limits; return the activity's id."""
    if token and (before := find(world, ACTIVITY, group=group.id, token=token)):
        return before[0].id
    _verify_idle(world, group)
    now = _wanted(world, group)
    if kind not in ("QuantityChangeInCapacity", "TotalCapacity"):
        raise CloudError("InvalidParameter", f"The lab does not know the AdjustmentType {kind}.")
    count = now + value if kind == "QuantityChangeInCapacity" else value
    count = min(max(count, int(group.doc["minSize"])), int(group.doc["maxSize"]))
    before_ids = {machine.id for machine in instances(world, group.id)}
    if group.doc.get("desiredCapacity") is not None:
        group = Record(group.package, group.kind, group.id, group.doc | {"desiredCapacity": count})
        world.put(PACKAGE, group.kind, group.id, group.doc)
    resize(world, group, count)
    made = {machine.id for machine in instances(world, group.id)} - before_ids
    return _begin(world, group.id, token, polls, pending=sorted(made))


def release(world: World, group: Record, ids: Sequence[str], decrease: bool, token: str, polls: int) -> str:
    """Remove exactly these machines; return the activity's id."""
    if token and (before := find(world, ACTIVITY, group=group.id, token=token)):
        return before[0].id
    _verify_idle(world, group)
    known = {machine.id: machine for machine in instances(world, group.id)}
    for id in ids:
        if id not in known:
            raise CloudError("InvalidInstanceId.NotFound", f"Instance '{id}' does not exist.")
    if len(known) - len(ids) < int(group.doc["minSize"]):
        raise CloudError(
            "IncorrectCapacity.MinSize", "To remove the instances, the total capacity will be lesser than the MinSize."
        )
    for id in ids:
        remove(world, known[id])
    wanted = group.doc.get("desiredCapacity")
    if wanted is not None:
        if decrease:
            world.put(PACKAGE, group.kind, group.id, group.doc | {"desiredCapacity": int(wanted) - len(ids)})
        else:
            settle(world, group.id)
    return _begin(world, group.id, token, polls, pending=[])


def activities(world: World, group: str | None, ids: Sequence[str]) -> list[Record]:
    """Return activities; each look at one that is under way brings it nearer to its end."""
    found = find(world, ACTIVITY, group=group) if group else [r for r in find(world, ACTIVITY) if r.id in ids]
    for record in found:
        if record.doc["polls"] > 0:
            world.put(PACKAGE, ACTIVITY, record.id, record.doc | {"polls": record.doc["polls"] - 1})
    return found


def state_of(activity: Record) -> str:
    """Return an activity's status code."""
    return "InProgress" if activity.doc["polls"] > 0 else "Successful"


def shown_group(world: World, record: Record) -> Doc:
    """Return a group as DescribeScalingGroups shows it."""
    wanted = record.doc.get("desiredCapacity")
    return {
        "ScalingGroupId": record.id,
        "ScalingGroupName": record.doc["scalingGroupName"],
        "LifecycleState": record.doc["_state"],
        "MinSize": int(record.doc["minSize"]),
        "MaxSize": int(record.doc["maxSize"]),
        "TotalCapacity": len(instances(world, record.id)),
        **({} if wanted is None else {"DesiredCapacity": int(wanted)}),
    }


def shown_instance(world: World, record: Record) -> Doc:
    """Return a machine as DescribeScalingInstances shows it."""
    group = record.doc["scalingGroupId"]
    busy = [r for r in find(world, ACTIVITY, group=group) if state_of(r) == "InProgress"]
    pending = any(record.id in activity.doc["pending"] for activity in busy)
    return {
        "InstanceId": record.id,
        "ScalingGroupId": group,
        "ScalingConfigurationId": record.doc["scalingConfigurationId"],
        "LifecycleState": "Pending" if pending else "InService",
        "HealthStatus": "Healthy",
        "CreationType": "AutoCreated",
        "ZoneId": record.doc["zoneId"],
    }


def _wanted(world: World, group: Record) -> int:
    wanted = group.doc.get("desiredCapacity")
    return len(instances(world, group.id)) if wanted is None else int(wanted)


def _verify_idle(world: World, group: Record) -> None:
    if group.doc["_state"] != "Active":
        raise CloudError(
            "IncorrectScalingGroupStatus",
            "The current status of the specified scaling group does not support this action.",
        )
    if any(state_of(record) == "InProgress" for record in find(world, ACTIVITY, group=group.id)):
        raise CloudError(
            "ScalingActivityInProgress",
            "You cannot delete a scaling group or launch a new scaling activity while there is a scaling activity in "
            "progress for the specified scaling group.",
        )


def _begin(world: World, group: str, token: str, polls: int, pending: list[str]) -> str:
    id = world.new_id("asa")
    world.put(PACKAGE, ACTIVITY, id, {"group": group, "token": token, "polls": polls, "pending": pending})
    return id
