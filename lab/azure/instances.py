"""The machines of a scale set: made and removed as its capacity changes, and evicted behind its back.

Sources: learn.microsoft.com "Understand instance IDs for Azure VM Virtual Machine Scale Set VMs", "Use custom scale-in
policies" (highest instance ID goes first, zones stay even), siderolabs/talos platform/azure/azure.go and
kubernetes/autoscaler cluster-autoscaler/cloudprovider/azure (the form of a provider ID).
"""

import hashlib
import json
from typing import Any

from ..world import CloudError, Record, World
from .addresses import free_private
from .egress import take_from_prefix
from .network import subnet_prefixes
from .records import PACKAGE, Doc, below, dig, group_of, lookup, name_of, reference_id
from .scale_set_image import resolve
from .scale_set_rules import verify_total

KIND = "instance"
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def instances(world: World, scale_set: str) -> list[Record]:
    """Return a scale set's machines, lowest instance ID first."""
    found = below(world, scale_set, KIND)
    return sorted(found, key=lambda record: int(record.doc["instanceId"]))


def model_hash(inputs: Doc) -> str:
    """Return what tells one model of a scale set from another: its profile, with the custom data, and its size."""
    model = {"profile": inputs["virtualMachineProfile"], "size": inputs["sku"]["name"]}
    return hashlib.sha256(json.dumps(model, sort_keys=True).encode()).hexdigest()[:16]


def data_hash(data: bytes | None) -> str:
    """Return the sha256 of custom data, or an empty text without any."""
    return hashlib.sha256(data).hexdigest() if data else ""


def resize(world: World, id: str, doc: Doc, capacity: int) -> None:
    """Make or remove machines until there are ``capacity``; ``doc`` is the scale set's record."""
    now = instances(world, id)
    if len(now) < capacity:
        _add(world, id, doc, now, capacity - len(now))
    for record in _surplus(now, capacity):
        remove(world, record)


def _primary_configuration(doc: Doc) -> dict[str, Any]:
    nics = doc["virtualMachineProfile"]["networkProfile"]["networkInterfaceConfigurations"]
    nic = next(nic for nic in nics if nic.get("primary"))
    configurations = nic["ipConfigurations"]
    return dict(next((c for c in configurations if c.get("primary")), configurations[0]))


def _add(world: World, id: str, doc: Doc, now: list[Record], count: int) -> None:
    configuration = _primary_configuration(doc)
    subnet = lookup(world, "Subnet", reference_id(configuration["subnet"]))
    if subnet is None:
        raise CloudError("InvalidResourceReference", f"The subnet of scale set {id} was not found.")
    image = resolve(world, doc["virtualMachineProfile"]["storageProfile"]["imageReference"]["id"], str(doc["location"]))
    used = [r.doc["privateIp"] for r in world.find(PACKAGE, KIND) if r.doc["subnet"] == subnet.id]
    private = free_private(subnet_prefixes(subnet.doc, subnet.id), used, count, subnet.id)
    public: list[str] = [""] * count
    prefix = lookup(world, "PublicIPPrefix", dig(configuration, "publicIPAddressConfiguration.publicIPPrefix.id"))
    if prefix is not None:
        public = take_from_prefix(world, prefix, count, id)
    zones = [str(record.doc["zone"]) for record in now]
    for private_ip, public_ip in zip(private, public, strict=True):
        # A set starts at 0, and an ID is never given twice.
        number = world.next(f"{PACKAGE}:instance:{id}") - 1
        zone = min((str(z) for z in doc.get("zones") or ()), key=lambda z: (zones.count(z), z), default="")
        zones.append(zone)
        machine = f"{id}/virtualMachines/{number}"
        world.put(
            PACKAGE,
            KIND,
            machine,
            {
                "name": f"{name_of(id)}_{number}",
                "computerName": f"{doc['_prefix']}{_base36(number)}",
                "instanceId": str(number),
                "scaleSet": id,
                "location": doc["location"],
                "zone": zone,
                "vmSize": doc["sku"]["name"],
                "priority": doc["virtualMachineProfile"].get("priority", "Regular"),
                "image": image.id,
                "subnet": subnet.id,
                "privateIp": private_ip,
                "publicIp": public_ip,
                "provisioningState": "Succeeded",
                "customDataHash": doc["_customDataHash"],
                "modelHash": doc["_modelHash"],
                "latestModelApplied": True,
                "providerId": provider_id(id, number),
            },
        )
        world.event(PACKAGE, "create", KIND, machine)


def provider_id(scale_set: str, number: int) -> str:
    """Return the machine's ID as Talos and the autoscaler spell it: the group's name in lower case."""
    group = group_of(scale_set)
    return f"azure://{scale_set.replace(f'/resourceGroups/{group}/', f'/resourceGroups/{group.lower()}/')}" + (
        f"/virtualMachines/{number}"
    )


def _base36(number: int) -> str:
    digits = ""
    for _ in range(6):
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return digits


def _surplus(now: list[Record], capacity: int) -> list[Record]:
    left = list(now)
    gone = []
    while len(left) > capacity:
        counts = {r.doc["zone"]: sum(o.doc["zone"] == r.doc["zone"] for o in left) for r in left}
        victim = max(left, key=lambda r: (counts[r.doc["zone"]], int(r.doc["instanceId"])))
        left.remove(victim)
        gone.append(victim)
    return gone


def remove(world: World, record: Record) -> None:
    """Remove a machine; its private and public address become free."""
    world.remove(PACKAGE, KIND, record.id)
    world.event(PACKAGE, "delete", KIND, record.id)


def mark_models(world: World, id: str, doc: Doc) -> None:
    """Say of each machine whether it has the newest model; with mode Automatic, give it the newest."""
    automatic = dig(doc, "upgradePolicy.mode") == "Automatic"
    for record in instances(world, id):
        machine = dict(record.doc)
        if automatic:
            machine |= {"modelHash": doc["_modelHash"], "vmSize": doc["sku"]["name"]}
        machine["latestModelApplied"] = machine["modelHash"] == doc["_modelHash"]
        if machine != record.doc:
            world.put(PACKAGE, KIND, record.id, machine)


def find_scale_set(world: World, name: str) -> Record:
    """Return a scale set by name or id; raise CloudError when there is none or more than one."""
    found = [
        record
        for record in world.find(PACKAGE, "VirtualMachineScaleSet")
        if name.lower() in (record.id.lower(), name_of(record.id).lower())
    ]
    if len(found) != 1:
        raise CloudError("ResourceNotFound", f"{len(found)} scale sets are named '{name}'; give one by its full id.")
    return found[0]


def scale(world: World, scale_set_name: str, capacity: int) -> Record:
    """Set a scale set's capacity behind Pulumi's back, as the autoscaler does; return the scale set.

    A fault planned for ``scale`` of ``VirtualMachineScaleSet`` strikes here, such as a region without stock.
    """
    record = find_scale_set(world, scale_set_name)
    world.strike("scale", "azure-native:compute:VirtualMachineScaleSet")
    with world.transaction():
        doc = dict(record.doc)
        managed = lookup(world, "Image", dig(doc, "virtualMachineProfile.storageProfile.imageReference.id")) is not None
        verify_total(record.id, capacity, bool(doc["singlePlacementGroup"]), managed)
        doc |= {"sku": {**doc["sku"], "capacity": capacity}, "etag": f'"{world.next("etag")}"'}
        resize(world, record.id, doc, capacity)
        world.put(PACKAGE, record.kind, record.id, doc)
        world.event(PACKAGE, "scale", record.kind, record.id, str(capacity))
    return Record(PACKAGE, record.kind, record.id, doc)


def evict(world: World, instance: str) -> Record:
    """Evict a Spot machine, or lose any other; return what it was.

    ``instance`` is its name (``workers_3``), computer name or id. With the policy Delete the machine goes and the
    capacity shrinks; with Deallocate it stays in the set, stopped (learn.microsoft.com "Azure Spot Virtual Machines for
    Virtual Machine Scale Sets", eviction policy).
    """
    with world.transaction():
        wanted = instance.lower()
        found = [
            r
            for r in world.find(PACKAGE, KIND)
            if wanted in (r.id.lower(), r.doc["name"].lower(), r.doc["computerName"].lower())
        ]
        if len(found) != 1:
            raise CloudError(
                "ResourceNotFound", f"{len(found)} machines are named '{instance}'; give one by its full id."
            )
        machine = found[0]
        owner = lookup(world, "VirtualMachineScaleSet", machine.doc["scaleSet"])
        if owner is not None and dig(owner.doc, "virtualMachineProfile.evictionPolicy") == "Deallocate":
            world.put(PACKAGE, KIND, machine.id, machine.doc | {"provisioningState": "Deallocated"})
        else:
            remove(world, machine)
            if owner is not None:
                sku = {**owner.doc["sku"], "capacity": len(instances(world, owner.id))}
                world.put(PACKAGE, owner.kind, owner.id, owner.doc | {"sku": sku, "etag": f'"{world.next("etag")}"'})
        world.event(PACKAGE, "evict", KIND, machine.id)
    return machine
