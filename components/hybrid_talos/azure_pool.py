"""The machines of a scale set, for a roll: listed, added, removed by their id, brought to the newest model.

learn.microsoft.com, REST API of Microsoft.Compute: Virtual Machine Scale Sets (Update, Delete Instances, Update
Instances) and Virtual Machine Scale Set VMs (List).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import ResourceModifiedError
from azure.mgmt.compute import ComputeManagementClient

from .azure_resource_manager import (
    MACHINES,
    Properties,
    arm_errors,
    compute_client,
    found,
    listed,
    parse_id,
    settled,
    wait,
)
from .pool_roll import Instance, SizeChanged
from .talos_calls import Say
from .work_provider import WorkError

PAGE = "docs/rolling-replacement.md"
_LIMIT_SECONDS = 3600


@contextmanager
def azure_pool(props: Properties, scale_set_id: str, say: Say) -> Iterator["AzurePool"]:
    """Open a scale set in the cloud that the inputs name."""
    target = parse_id(scale_set_id)
    with arm_errors(scale_set_id, PAGE), compute_client(props, target.subscription) as client:
        yield AzurePool(client, scale_set_id, say)


class AzurePool:
    """A scale set with the orchestration mode Uniform."""

    def __init__(self, client: ComputeManagementClient, scale_set_id: str, say: Say) -> None:
        target = parse_id(scale_set_id)
        self._sets: Any = client.virtual_machine_scale_sets
        self._machines: Any = client.virtual_machine_scale_set_vms
        self._at = (target.resource_group, target.names[-1])
        self._where = f"scale set {target.names[-1]}"
        self._id = scale_set_id
        self._say = say

    def instances(self) -> Sequence[Instance]:
        """Return all machines, once no change of the scale set is under way."""
        self._settled()
        with arm_errors(self._id, PAGE):
            items = listed(self._machines.list, *self._at, **MACHINES)
        return [_instance(item) for item in items]

    def size(self) -> int:
        """Return the scale set's capacity."""
        return _capacity(self._settled())

    def least(self) -> int:
        """Return zero: a scale set has no fewest machines but in the autoscaler's tags."""
        return 0

    def grow(self, size: int, by: int, token: str) -> None:  # noqa: ARG002 - Azure compares the version instead
        """Raise the capacity, if the scale set is still as it was seen."""
        scale_set = self._settled()
        if _capacity(scale_set) != size:
            raise SizeChanged
        sku = {**scale_set["sku"], "capacity": size + by}
        same = (
            {"etag": scale_set["etag"], "match_condition": MatchConditions.IfNotModified}
            if scale_set.get("etag")
            else {}
        )
        with arm_errors(self._id, PAGE):
            try:
                # A part of the scale set: all else stays as it is, and the autoscaler's change in between is refused.
                poller = self._sets.begin_update(*self._at, {"sku": sku}, **same, **MACHINES)
                wait(poller, self._waiting("machines"), _LIMIT_SECONDS, self._where)
            except ResourceModifiedError:
                raise SizeChanged from None

    def remove(self, instance: str) -> None:
        """Delete exactly this machine; Azure lowers the capacity by it."""
        with arm_errors(self._id, PAGE):
            poller = self._sets.begin_delete_instances(*self._at, {"instanceIds": [instance]}, **MACHINES)
            wait(poller, self._waiting(f"machine {instance} to be deleted"), _LIMIT_SECONDS, self._where)

    def update(self, instance: str) -> None:
        """Bring the newest model to a machine, as the upgrade policy Manual leaves it to us."""
        with arm_errors(self._id, PAGE):
            poller = self._sets.begin_update_instances(*self._at, {"instanceIds": [instance]}, **MACHINES)
            wait(poller, self._waiting(f"machine {instance} to be updated"), _LIMIT_SECONDS, self._where)

    def _settled(self) -> Properties:
        with arm_errors(self._id, PAGE):
            scale_set = settled(lambda: found(self._sets.get, *self._at, **MACHINES), self._where)
        if scale_set is None:
            raise WorkError(f"the {self._where} is gone; run `pulumi up --refresh`")
        return scale_set

    def _waiting(self, what: str) -> Any:
        return lambda seconds: self._say(f"{self._where}: waiting for {what}, {seconds:.0f} s")


def _capacity(scale_set: Properties) -> int:
    return int(scale_set["sku"]["capacity"])


def _instance(item: Properties) -> Instance:
    properties = item.get("properties") or {}
    return Instance(
        id=str(item["instanceId"]),
        provider_id=f"azure://{item['id']}".lower(),
        leaving=properties.get("provisioningState") == "Deleting",
        outdated=properties.get("latestModelApplied") is False,
    )
