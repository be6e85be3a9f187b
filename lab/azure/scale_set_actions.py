"""What Resource Manager does to a scale set besides making it: another capacity, machines deleted by id, newest model.

Sources: learn.microsoft.com REST API "Virtual Machine Scale Sets - Update", "- Delete Instances" (the capacity goes
down with them), "- Update Instances" (path `manualupgrade`); "Modify a Virtual Machine Scale Set" (a newer image
replaces the disk of a machine that is upgraded); kubernetes/autoscaler azure_scale_set.go (a capacity is set by a part
of the scale set).
"""

from ..world import CloudError, Record, World
from .instances import instances, mark_models, remove, resize
from .records import PACKAGE, Doc, dig, lookup
from .scale_set_image import resolve
from .scale_set_rules import verify_total

ACTIONS = {"delete": "remove", "manualupgrade": "upgrade"}
"""Actions of the API on a scale set, and what a planned fault calls them."""


class Changed(Exception):
    """The scale set is another one than the request names (412)."""


def patch(world: World, record: Record, body: Doc, match: str | None) -> Doc:
    """Change a scale set's capacity; return its record."""
    if match is not None and match not in ("*", record.doc["etag"]):
        raise Changed
    if set(body) - {"sku", "location"}:
        raise CloudError("InvalidRequestContent", f"The lab patches the sku alone, not {', '.join(sorted(body))}.")
    sku = {**record.doc["sku"], **(body.get("sku") or {})}
    if sku["name"] != record.doc["sku"]["name"]:
        raise CloudError("InvalidRequestContent", "The lab does not patch a scale set's size.")
    capacity = int(sku["capacity"])
    managed = (
        lookup(world, "Image", dig(record.doc, "virtualMachineProfile.storageProfile.imageReference.id")) is not None
    )
    verify_total(record.id, capacity, bool(record.doc["singlePlacementGroup"]), managed)
    doc = record.doc | {"sku": {**sku, "capacity": capacity}, "etag": new_etag(world)}
    resize(world, record.id, doc, capacity)
    world.put(PACKAGE, record.kind, record.id, doc)
    return doc


def act(world: World, record: Record, action: str, body: Doc) -> None:
    """Delete machines, or bring the newest model to them."""
    wanted = [str(id) for id in body.get("instanceIds") or ()]
    known = {machine.doc["instanceId"]: machine for machine in instances(world, record.id)}
    if not wanted:
        raise CloudError("InvalidParameter", "Required parameter 'instanceIds' is missing (null).")
    for id in wanted:
        if id not in known:
            raise CloudError(
                "InvalidParameter",
                f"The provided instanceId {id} is not an active Virtual Machine Scale Set VM instanceId.",
            )
    for id in wanted:
        if action == "delete":
            remove(world, known[id])
        else:
            _upgrade(world, record, known[id])
    if action == "delete":
        sku = {**record.doc["sku"], "capacity": len(known) - len(wanted)}
        world.put(PACKAGE, record.kind, record.id, record.doc | {"sku": sku, "etag": new_etag(world)})
    else:
        mark_models(world, record.id, record.doc)


def _upgrade(world: World, record: Record, machine: Record) -> None:
    reference = record.doc["virtualMachineProfile"]["storageProfile"]["imageReference"]["id"]
    image = resolve(world, reference, str(record.doc["location"])).id
    if image != machine.doc["image"]:
        world.event(PACKAGE, "reimage", machine.kind, machine.id)
    if record.doc["sku"]["name"] != machine.doc["vmSize"]:
        world.event(PACKAGE, "restart", machine.kind, machine.id)
    model = {"modelHash": record.doc["_modelHash"], "vmSize": record.doc["sku"]["name"], "image": image}
    world.put(PACKAGE, machine.kind, machine.id, machine.doc | model)
    world.event(PACKAGE, "upgrade", machine.kind, machine.id)


def new_etag(world: World) -> str:
    """Return a version that a scale set never had."""
    return f'"{world.next("etag")}"'
