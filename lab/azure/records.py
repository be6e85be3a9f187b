"""Records of the simulated Azure: found by ARM id, by what names them, by what they stand in.

Sources: learn.microsoft.com "Troubleshoot common Azure deployment errors" (azure-resource-manager/troubleshooting/
common-deployment-errors) for Resource Manager's own codes; ids are compared without case ("Naming rules and
restrictions for Azure resources").
"""

import uuid
from collections.abc import Iterator, Mapping
from typing import Any

from ..provider import Call
from ..world import CloudError, Record, World
from . import names

PACKAGE = "azure-native"
NO_SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"

Doc = dict[str, Any]


def subscription(call: Call) -> str:
    """Return the subscription that a call works in; raise CloudError when it is not a GUID."""
    given = call.config.get("subscriptionId") or NO_SUBSCRIPTION
    if not names.is_guid(given):
        raise CloudError(
            "InvalidSubscriptionId", f"The provided subscription identifier '{given}' is malformed or invalid."
        )
    return str(given)


def outputs(doc: Mapping[str, Any]) -> Doc:
    """Return what Azure answers about a record: all but the lab's own notes."""
    return {key: value for key, value in doc.items() if not key.startswith("_")}


def lookup(world: World, kind: str, id: Any) -> Record | None:
    """Return the record with an ARM id, or None. Case does not count in ARM ids."""
    if not isinstance(id, str):
        return None
    doc = world.get(PACKAGE, kind, id)
    if doc is not None:
        return Record(PACKAGE, kind, id, doc)
    return next((r for r in world.find(PACKAGE, kind) if r.id.lower() == id.lower()), None)


def below(world: World, id: str, kind: str | None = None) -> list[Record]:
    """Return the records inside a resource: its children, instances and so on."""
    prefix = id.lower() + "/"
    return [r for r in world.find(PACKAGE, kind) if r.id.lower().startswith(prefix)]


def strings(value: Any) -> Iterator[str]:
    """Yield every text inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def referrers(world: World, id: str, outside: str = "") -> list[str]:
    """Return the ids of the resources that name ``id``; those below ``outside`` do not count."""
    wanted = id.lower()
    skip = outside.lower() + "/" if outside else None
    return [
        record.id
        for record in world.find(PACKAGE)
        if record.id.lower() != wanted
        and not (skip and record.id.lower().startswith(skip))
        and any(text.lower() == wanted for text in strings(record.doc))
    ]


def reference(world: World, owner: str, kind: str, id: Any, location: str | None) -> Record:
    """Return a resource that another one names; raise CloudError when it is not there or elsewhere."""
    record = lookup(world, kind, id)
    if record is None or (location and record.doc.get("location", location) != location):
        raise CloudError(
            "InvalidResourceReference",
            f"Resource {id} referenced by resource {owner} was not found. Please make sure that the referenced "
            "resource exists, and that both resources are in the same region.",
        )
    return record


def reference_id(value: Any) -> str | None:
    """Return the id in a ``{"id": ...}`` reference."""
    return value.get("id") if isinstance(value, Mapping) else None


def name_of(id: str) -> str:
    """Return the last part of an ARM id."""
    return id.rsplit("/", 1)[-1]


def group_of(id: str) -> str:
    """Return the resource group's name in an ARM id, or an empty text."""
    parts = id.split("/")
    return parts[4] if len(parts) > 4 and parts[3].lower() == "resourcegroups" else ""


def stable_guid(world: World, what: str) -> str:
    """Return a GUID that looks random but is the same in every run of the same steps."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{what}#{world.next('guid')}"))


def refuse_change(old: Doc | None, doc: Doc, path: str, label: str = "") -> None:
    """Raise CloudError when a property that is fixed at creation has changed."""
    if old is None:
        return
    before, now = dig(old, path), dig(doc, path)
    if before is not None and before != now:
        raise CloudError("PropertyChangeNotAllowed", f"Changing property '{label or path}' is not allowed.")


def dig(value: Any, path: str) -> Any:
    """Return what stands at a dotted path, or None."""
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def refuse_nested(world: World, record: Record) -> None:
    """Raise CloudError when resources are nested in one that is to go."""
    nested = below(world, record.id)
    if nested:
        raise CloudError(
            "CannotDeleteResource",
            "Cannot delete resource while nested resources exist. Some existing nested resource IDs include: "
            f"'{nested[0].id}'. Please delete all nested resources before deleting this resource.",
        )
