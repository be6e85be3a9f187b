"""Auto Scaling: scaling groups and lifecycle hooks.

Sources: alibabacloud.com API pages CreateScalingGroup, ModifyScalingGroup, DeleteScalingGroup, CreateLifecycleHook;
aliyun/terraform-provider-alicloud resource_alicloud_ess_scaling_group.go, resource_alicloud_ess_lifecyclehook.go.
"""

import re
from collections.abc import Mapping
from typing import Any

from ..provider import Call
from ..world import CloudError, Record, World
from . import names
from .accounts import has_role
from .bridge import FILLED, FIXED, PACKAGE, PLAIN, Attr, BridgedKind, Doc, find, lookup, not_found, one_of, whole
from .instances import instances, remove, settle

SERVICE_ROLE = "AliyunESSDefaultRole"
_REMOVAL = ("OldestInstance", "NewestInstance", "OldestScalingConfiguration", "CustomPolicy")
_MOST_VSWITCHES = 8


class ScalingGroup(BridgedKind):
    """A scaling group. It does nothing before a configuration enables it."""

    token = "alicloud:ess/scalingGroup:ScalingGroup"
    prefix = "asg"
    attrs = {
        "minSize": whole(0, 2000),
        "maxSize": whole(0, 2000),
        "desiredCapacity": whole(0, 2000),
        "balanceMode": one_of("BalancedBestEffort", "BalancedOnly"),
        "stopInstanceTimeout": whole(30, 240),
        "scalingGroupName": PLAIN,
        "healthCheckType": one_of("ECS", "NONE", "LOAD_BALANCER", computed=True, conflicts=("healthCheckTypes",)),
        "scalingPolicy": one_of("recycle", "release", "forceRecycle", "forceRelease", computed=True),
        "maxInstanceLifetime": whole(86400, 1 << 31),
        "defaultCooldown": whole(0, 86400, default=300),
        "instanceId": FIXED,
        "containerGroupId": FIXED,
        "vswitchIds": Attr(is_set=True),
        "removalPolicies": Attr(computed=True, most=2),
        "dbInstanceIds": Attr(is_set=True),
        "loadbalancerIds": Attr(is_set=True),
        "protectedInstances": Attr(is_set=True),
        "multiAzPolicy": one_of(
            "PRIORITY", "BALANCE", "COST_OPTIMIZED", "COMPOSABLE", replaces=True, default="PRIORITY"
        ),
        "allocationStrategy": one_of("priority", "lowestPrice", computed=True),
        "spotAllocationStrategy": one_of("priority", "lowestPrice", computed=True),
        "onDemandBaseCapacity": whole(0, 1000, computed=True),
        "onDemandPercentageAboveBaseCapacity": whole(0, 100, computed=True),
        "spotInstancePools": whole(1, 10, computed=True),
        "spotInstanceRemedy": FILLED,
        "compensateWithOnDemand": FILLED,
        "capacityOptionsOnDemandBaseCapacity": whole(0, 1000, computed=True),
        "capacityOptionsOnDemandPercentageAboveBaseCapacity": whole(0, 100, computed=True),
        "capacityOptionsCompensateWithOnDemand": FILLED,
        "capacityOptionsSpotAutoReplaceOnDemand": FILLED,
        "capacityOptionsPriceComparisonMode": FILLED,
        "resourceGroupId": FILLED,
        "groupDeletionProtection": Attr(default=False),
        "groupType": one_of("ECS", "ECI", replaces=True, computed=True),
    }

    def prior(self, call: Call, inputs: Doc, state: Mapping[str, Any]) -> Doc:
        """Return what new inputs are compared with: the size too that the cloud answered, as it is not computed."""
        desired = state.get("desiredCapacity")
        return inputs if desired is None else inputs | {"desiredCapacity": desired}

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        world = call.world
        if not has_role(world, SERVICE_ROLE):
            raise CloudError(
                "Forbidden.Unauthorized",
                "A required authorization for the specified action is not supplied: make the service role "
                f"{SERVICE_ROLE}.",
            )
        if doc.get("scalingGroupName"):
            _verify_group_name(doc["scalingGroupName"])
            for other in find(world, self.kind, scalingGroupName=doc["scalingGroupName"], _region=doc["_region"]):
                if other.id != id:
                    raise CloudError(
                        "InvalidScalingGroupName.Duplicate",
                        f"The specified value of parameter ScalingGroupName is duplicated: {doc['scalingGroupName']}.",
                    )
        names.verify_tags(doc.get("tags"))
        least, most = int(doc["minSize"]), int(doc["maxSize"])
        if least > most:
            raise CloudError("InvalidParameter.MaxSizeMinSize", f"MinSize {least} must not exceed MaxSize {most}.")
        # d.GetOkExists in Update: a size that the program does not give is not sent, and stays as it is in the cloud.
        if doc.get("desiredCapacity") is None and old is not None and old.get("desiredCapacity") is not None:
            doc["desiredCapacity"] = min(max(int(old["desiredCapacity"]), least), most)
        desired = doc.get("desiredCapacity")
        if desired is not None and not least <= int(desired) <= most:
            raise CloudError(
                "InvalidDesiredCapacity",
                f"DesiredCapacity {desired} must be between MinSize {least} and MaxSize {most}.",
            )
        for policy in doc.get("removalPolicies") or ():
            if policy not in _REMOVAL:
                raise CloudError("InvalidParameter", f"'{policy}' is no removal policy.")
        doc["_vpc"] = _verify_vswitches(world, doc)
        if old is not None and old["_vpc"] != doc["_vpc"]:
            raise CloudError("InvalidParameter.VSwitchId", "The vSwitches of a scaling group stay in its VPC.")
        if old is None:
            doc.setdefault("scalingGroupName", id)
        for key, value in {
            "_state": "Inactive",
            "healthCheckType": "ECS",
            "scalingPolicy": "recycle",
            "removalPolicies": ["OldestScalingConfiguration", "OldestInstance"],
            "groupType": "ECS",
            "allocationStrategy": "priority",
            "spotAllocationStrategy": "priority",
            "resourceGroupId": "",
        }.items():
            doc.setdefault(key, value)

    def _done(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        settle(call.world, id)

    def _answer(self, call: Call, id: str, doc: Doc) -> Doc:
        desired = doc.get("desiredCapacity")
        # Kept in the record, yet no output while nobody set it.
        return super()._answer(call, id, doc) | ({} if desired is None else {"desiredCapacity": desired})

    def _before_delete(self, call: Call, record: Record) -> None:
        if record.doc["groupDeletionProtection"]:
            raise CloudError(
                "OperationDenied.DeletionProtection", f"The scaling group {record.id} has deletion protection."
            )
        # The provider's Delete asks with ForceDelete, so machines and configurations go with the group.
        delete_contents(call.world, record.id)


def delete_contents(world: World, group: str) -> None:
    """Remove what a scaling group holds, as DeleteScalingGroup with ForceDelete does."""
    for machine in instances(world, group):
        remove(world, machine)
    for kind in ("ScalingConfiguration", "LifecycleHook"):
        for record in find(world, kind, scalingGroupId=group):
            world.remove(PACKAGE, kind, record.id)


def _verify_group_name(name: str) -> None:
    # CreateScalingGroup: 2 to 64 characters, letters, digits, underscores, hyphens and periods, first a letter or
    # digit.
    if not 2 <= len(name) <= 64 or re.fullmatch(r"[^\W_][\w.-]*", name) is None:
        raise CloudError(
            "InvalidScalingGroupName.Malformed",
            f"The specified value of parameter ScalingGroupName is not valid: '{name}' must have 2 to 64 "
            "characters, letters, "
            "digits, '_', '-' and '.', beginning with a letter or digit.",
        )


def _verify_vswitches(world: World, doc: Doc) -> str:
    """Refuse vSwitches that are not there, are too many, or lie in several VPCs; return the VPC."""
    ids = doc.get("vswitchIds") or ([doc["vswitchId"]] if doc.get("vswitchId") else [])
    if not ids:
        raise CloudError("InvalidVSwitchId.NotFound", "A scaling group of ECS instances needs vSwitches of a VPC.")
    if len(ids) > _MOST_VSWITCHES:
        raise CloudError("InvalidParameter", f"A scaling group takes at most {_MOST_VSWITCHES} vSwitches.")
    vpcs: set[str] = set()
    for id in ids:
        found = lookup(world, "Switch", id, doc["_region"])
        if found is None:
            raise not_found("InvalidVSwitchId.NotFound", "vSwitch", id)
        vpcs.add(found.doc["vpcId"])
    if len(vpcs) > 1:
        raise CloudError("InvalidParameter.VSwitchId", "All vSwitches of a scaling group must be in one VPC.")
    return vpcs.pop()


class LifecycleHook(BridgedKind):
    """A hook that holds machines while they come or go."""

    token = "alicloud:ess/lifecycleHook:LifecycleHook"
    prefix = "ash"
    generated_name = "name"
    attrs = {
        "scalingGroupId": FIXED,
        "name": Attr(replaces=True, computed=True),
        "lifecycleTransition": one_of("SCALE_IN", "SCALE_OUT"),
        "heartbeatTimeout": whole(30, 21600, default=600),
        "defaultResult": one_of("CONTINUE", "ABANDON", "ROLLBACK", default="CONTINUE"),
        "notificationArn": FILLED,
        "notificationMetadata": FILLED,
    }

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        if lookup(call.world, "ScalingGroup", doc["scalingGroupId"], doc["_region"]) is None:
            raise not_found("InvalidScalingGroupId.NotFound", "scaling group", doc["scalingGroupId"])
        for other in find(call.world, self.kind, scalingGroupId=doc["scalingGroupId"], name=doc["name"]):
            if other.id != id:
                raise CloudError("InvalidLifecycleHookName.AlreadyExist", f"The hook '{doc['name']}' exists already.")
        doc.setdefault("notificationArn", "")
        doc.setdefault("notificationMetadata", "")
