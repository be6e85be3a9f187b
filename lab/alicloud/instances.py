"""The machines of a scaling group: made and removed as its size changes, and lost behind its back.

Sources: alibabacloud.com "Scaling group overview", CreateScalingGroup (MultiAZPolicy, RemovalPolicy.N),
ScaleWithAdjustment,
"Preemptible instances"; siderolabs/talos platform/alibabacloud (the form of a provider ID).
"""

import hashlib

from ..world import CloudError, Record, World
from .bridge import PACKAGE, Doc, find, lookup
from .eip import new_public_address
from .vpc import free_addresses

KIND = "instance"


def instances(world: World, group: str) -> list[Record]:
    """Return a scaling group's machines, oldest first."""
    return sorted(find(world, KIND, scalingGroupId=group), key=lambda record: int(record.doc["number"]))


def active_configuration(world: World, group: str) -> Record | None:
    """Return the configuration that new machines of a group are made with."""
    return next(iter(find(world, "ScalingConfiguration", scalingGroupId=group, active=True)), None)


def settle(world: World, group: str) -> None:
    """Bring an enabled group to its expected size, within its limits."""
    record = lookup(world, "ScalingGroup", group)
    if record is None or record.doc["_state"] != "Active":
        return
    now = instances(world, group)
    wanted = record.doc.get("desiredCapacity")
    count = len(now) if wanted is None else int(wanted)
    count = min(max(count, int(record.doc["minSize"])), int(record.doc["maxSize"]))
    resize(world, record, count)


def resize(world: World, group: Record, count: int) -> None:
    """Make or remove machines until there are ``count``."""
    now = instances(world, group.id)
    for _ in range(count - len(now)):
        _add(world, group)
    # The default policies: those of the oldest configuration first, then the oldest.
    for victim in now[: max(len(now) - count, 0)]:
        remove(world, victim)


def _add(world: World, group: Record) -> None:
    configuration = active_configuration(world, group.id)
    if configuration is None:
        raise CloudError("IncorrectScalingConfigurationLifecycleState", f"{group.id} has no active configuration.")
    doc = configuration.doc
    vswitch = _next_vswitch(world, group)
    region = group.doc["_region"]
    id = world.new_id("i")
    number = int(id.rpartition("-lab")[2], 16)
    public = int(doc.get("internetMaxBandwidthOut") or 0) > 0
    world.put(
        PACKAGE,
        KIND,
        id,
        {
            "number": number,
            "name": doc["instanceName"],
            # CreateInstance, HostName: the default is iZ, the id without "i-", and Z.
            "hostName": doc.get("hostName") or f"iZ{id.removeprefix('i-')}Z",
            "scalingGroupId": group.id,
            "scalingConfigurationId": configuration.id,
            "region": region,
            "zoneId": vswitch.doc["zoneId"],
            "vswitchId": vswitch.id,
            "vpcId": vswitch.doc["vpcId"],
            "securityGroupIds": security_groups(doc),
            "instanceType": (doc.get("instanceTypes") or [doc.get("instanceType")])[0],
            "imageId": doc["imageId"],
            "spotStrategy": doc.get("spotStrategy") or "NoSpot",
            "privateIp": free_addresses(world, vswitch, 1)[0],
            "publicIp": new_public_address(world) if public else "",
            "userDataHash": doc.get("_userDataHash", ""),
            "tags": doc.get("tags") or {},
            "status": "Running",
            "providerId": f"{region}.{id}",
        },
    )
    world.event(PACKAGE, "create", KIND, id, group.id)


def _next_vswitch(world: World, group: Record) -> Record:
    """Return where the next machine goes: the first vSwitch with PRIORITY, the emptiest with BALANCE and the others."""
    found = [record for id in group.doc.get("vswitchIds") or () if (record := lookup(world, "Switch", id))]
    if not found:
        raise CloudError("InvalidVSwitchId.NotFound", f"The scaling group {group.id} has no vSwitch.")
    if group.doc["multiAzPolicy"] == "PRIORITY":
        return found[0]
    now = instances(world, group.id)
    return min(found, key=lambda record: sum(i.doc["vswitchId"] == record.id for i in now))


def security_groups(doc: Doc) -> list[str]:
    """Return the security groups of a configuration's machines."""
    many = doc.get("securityGroupIds") or []
    one = doc.get("securityGroupId")
    return [one, *many] if one else list(many)


def data_hash(data: bytes | None) -> str:
    """Return the sha256 of user data, or an empty text without any."""
    return hashlib.sha256(data).hexdigest() if data else ""


def remove(world: World, record: Record) -> None:
    """Release a machine; its addresses become free."""
    world.remove(PACKAGE, KIND, record.id)
    world.event(PACKAGE, "delete", KIND, record.id)


def find_group(world: World, name: str) -> Record:
    """Return a scaling group by id or name; raise CloudError when there is none or more than one."""
    found = [r for r in find(world, "ScalingGroup") if name in (r.id, r.doc.get("scalingGroupName"))]
    if len(found) != 1:
        raise CloudError(
            "InvalidScalingGroupId.NotFound", f"{len(found)} scaling groups are named '{name}'; give an id."
        )
    return found[0]


def scale(world: World, name: str, count: int) -> Record:
    """Set a group's number of machines behind Pulumi's back, as the autoscaler does; return the group.

    The group has an expected number of machines from then on, which the provider reads.
    """
    with world.transaction():
        group = find_group(world, name)
        doc = dict(group.doc)
        if doc["_state"] != "Active":
            raise CloudError("IncorrectScalingGroupStatus", f"The scaling group {group.id} is not active.")
        if not int(doc["minSize"]) <= count <= int(doc["maxSize"]):
            # ScaleWithAdjustment, error codes.
            raise CloudError(
                "InvalidParameter", f"{count} is not within the group's limits {doc['minSize']} to {doc['maxSize']}."
            )
        doc["desiredCapacity"] = count
        world.put(PACKAGE, "ScalingGroup", group.id, doc)
        resize(world, Record(PACKAGE, group.kind, group.id, doc), count)
        world.event(PACKAGE, "scale", "ScalingGroup", group.id, str(count))
    return Record(PACKAGE, group.kind, group.id, doc)


def evict(world: World, name: str) -> Record:
    """Take a machine away as the cloud does with a preemptible one, or as a failure does; return what it was.

    ``name`` is an id or a host name. The group is smaller then; Auto Scaling would make a new machine only to reach its
    expected number, which is lowered here as it is when the autoscaler removes a machine.
    """
    with world.transaction():
        found = [r for r in find(world, KIND) if name in (r.id, r.doc["hostName"])]
        if len(found) != 1:
            raise CloudError("InvalidInstanceId.NotFound", f"{len(found)} machines are named '{name}'.")
        machine = found[0]
        remove(world, machine)
        group = lookup(world, "ScalingGroup", machine.doc["scalingGroupId"])
        if group is not None and group.doc.get("desiredCapacity") is not None:
            left = len(instances(world, group.id))
            world.put(PACKAGE, "ScalingGroup", group.id, group.doc | {"desiredCapacity": left})
        world.event(PACKAGE, "evict", KIND, machine.id)
    return machine
