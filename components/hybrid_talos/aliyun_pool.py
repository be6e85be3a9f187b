"""The machines of a scaling group, for a roll: listed, added, removed by their id.

help.aliyun.com, Auto Scaling API 2022-02-22: DescribeScalingGroups, DescribeScalingInstances,
DescribeScalingActivities, ScaleWithAdjustment, RemoveInstances.
"""

import time
import uuid
from collections.abc import Sequence
from typing import Any

from .aliyun_api import ESS, CloudRefusal, Properties, call, cloud_errors
from .pool_roll import Instance, SizeChanged
from .talos_calls import Say
from .work_provider import WorkError

RIGHTS = (
    "ess:DescribeScalingGroups, ess:DescribeScalingInstances, ess:DescribeScalingActivities, ess:ScaleWithAdjustment "
    "and ess:RemoveInstances"
)
_BUSY = "ScalingActivityInProgress"
_PAGE = 50
_POLL_SECONDS = 5.0
_LIMIT_SECONDS = 3600
_TRIES = 5


class AliyunPool:
    """A scaling group of Auto Scaling."""

    def __init__(self, props: Properties, group: str, say: Say) -> None:
        """``props`` has the region, and the addresses of services where they are not the region's public ones."""
        self._props = props
        self._group = group
        self._say = say

    def instances(self) -> Sequence[Instance]:
        """Return all machines, once no scaling activity is under way."""
        self._settle()
        with self._errors():
            items = self._paged("DescribeScalingInstances", "ScalingInstances", ScalingGroupId=self._group)
        return [
            Instance(
                id=item["InstanceId"],
                # As Talos writes it (siderolabs/talos platform/alibabacloud), and the autoscaler reads it.
                provider_id=f"{self._props['region']}.{item['InstanceId']}",
                leaving=str(item.get("LifecycleState", "")).startswith("Removing"),
            )
            for item in items
        ]

    def size(self) -> int:
        """Return how many machines the group is to have."""
        group = self._described()
        # A group has an expected number only once somebody, such as the autoscaler, has set one.
        wanted = group.get("DesiredCapacity")
        return int(group["TotalCapacity"] if wanted is None else wanted)

    def least(self) -> int:
        """Return the group's own minimum, below which Auto Scaling removes nothing."""
        return int(self._described()["MinSize"])

    def grow(self, size: int, by: int, token: str) -> None:
        """Add machines; the same ``token`` adds them once."""
        self._settle()
        group = self._described()
        if self.size() != size:
            raise SizeChanged
        if size + by > int(group["MaxSize"]):
            # Auto Scaling would silently add fewer.
            raise WorkError(f"the scaling group {self._group} takes {group['MaxSize']} machines at most; raise maxSize")
        with self._errors():
            try:
                answer = call(
                    self._props,
                    ESS,
                    "ScaleWithAdjustment",
                    ScalingGroupId=self._group,
                    # A difference: what the autoscaler does meanwhile is not undone.
                    AdjustmentType="QuantityChangeInCapacity",
                    AdjustmentValue=by,
                    SyncActivity=True,
                    ClientToken=token,
                )
            except CloudRefusal as refusal:
                if refusal.code.startswith(_BUSY):
                    raise SizeChanged from None
                raise
            self._finish(answer, f"{by} machines to be added")

    def remove(self, instance: str) -> None:
        """Release exactly this machine and lower the expected number by it."""
        for _ in range(_TRIES):
            self._settle()
            with self._errors():
                try:
                    answer = call(
                        self._props,
                        ESS,
                        "RemoveInstances",
                        ScalingGroupId=self._group,
                        InstanceIds=[instance],
                        RemovePolicy="release",
                        # Said outright: with false, Auto Scaling would make a new one by itself, and only where there
                        # is an expected number; the roll adds machines itself, before or after.
                        DecreaseDesiredCapacity=True,
                        ClientToken=uuid.uuid4().hex,
                    )
                except CloudRefusal as refusal:
                    if refusal.code.startswith(_BUSY):
                        continue
                    raise
                self._finish(answer, f"machine {instance} to be released")
                return
        raise WorkError(f"the scaling group {self._group} is never idle; run `pulumi up` again later")

    def update(self, instance: str) -> None:
        """Refuse: no machine here is ever behind its group's model but in what a new machine alone can have."""
        raise WorkError(f"machine {instance} cannot be updated in place")

    def _described(self) -> Properties:
        with self._errors():
            answer = call(self._props, ESS, "DescribeScalingGroups", ScalingGroupIds=[self._group])
        groups = answer.get("ScalingGroups") or []
        if not groups:
            raise WorkError(f"the scaling group {self._group} is gone; run `pulumi up --refresh`")
        return dict(groups[0])

    def _settle(self) -> None:
        """Wait until no scaling activity is under way: Auto Scaling refuses any other meanwhile."""
        end, said = time.monotonic() + _LIMIT_SECONDS, False
        while True:
            with self._errors():
                answer = call(
                    self._props, ESS, "DescribeScalingActivities", ScalingGroupId=self._group, StatusCode="InProgress"
                )
            if not answer.get("ScalingActivities"):
                return
            self._in_time(end, "a scaling activity")
            if not said:
                self._say(f"scaling group {self._group}: waiting for a scaling activity to end")
                said = True
            time.sleep(_POLL_SECONDS)

    def _finish(self, answer: Properties, what: str) -> None:
        """Wait until the activity that was begun has ended well."""
        activity = answer.get("ScalingActivityId")
        end = time.monotonic() + _LIMIT_SECONDS
        while activity:
            found = call(self._props, ESS, "DescribeScalingActivities", ScalingActivityIds=[activity])
            items = found.get("ScalingActivities") or []
            state = str(items[0].get("StatusCode")) if items else "Successful"
            if state == "Successful":
                return
            if state != "InProgress":
                reason = str(items[0].get("StatusMessage") or "").strip()[:300]
                raise WorkError(f"the scaling group {self._group}: waited for {what}: {state}: {reason}")
            self._in_time(end, what)
            self._say(f"scaling group {self._group}: waiting for {what}")
            time.sleep(_POLL_SECONDS)

    def _in_time(self, end: float, what: str) -> None:
        if time.monotonic() > end:
            raise WorkError(
                f"the scaling group {self._group}: {what} has not ended within {_LIMIT_SECONDS / 60:.0f} minutes; look "
                "at its activities in the console"
            )

    def _paged(self, action: str, key: str, **where: Any) -> list[Properties]:
        found: list[Properties] = []
        page = 1
        while True:
            answer = call(self._props, ESS, action, PageSize=_PAGE, PageNumber=page, **where)
            items = answer.get(key) or []
            found += items
            if not items or len(found) >= int(answer.get("TotalCount") or 0):
                return found
            page += 1

    def _errors(self) -> Any:
        return cloud_errors(self._props, RIGHTS)
