"""How many cores of a region are in use, and how many may be: learn.microsoft.com, REST API, Compute "Usage - List"."""

from hybrid_talos.azure_sizes import azure_sizes

from ..world import World
from .records import PACKAGE, Doc

LIMIT = "Usage"
"""Kind of the records that hold another limit than the usual one, by `location/name`."""
_USUAL = 100


def usages(world: World, subscription: str, location: str) -> list[Doc]:
    """Return the usage of cores in a region, in all and by family."""
    used: dict[str, int] = {"cores": 0, "lowPriorityCores": 0}
    for record in world.find(PACKAGE, "VirtualMachineScaleSet"):
        doc = record.doc
        size = azure_sizes().get(str(doc["sku"]["name"]))
        if size is None or doc["location"] != location or f"/subscriptions/{subscription}/" not in record.id:
            continue
        cores = int(doc["sku"]["capacity"]) * size.cpus
        spot = (doc.get("virtualMachineProfile") or {}).get("priority") == "Spot"
        for name in ("lowPriorityCores",) if spot else ("cores", size.family):
            used[name] = used.get(name, 0) + cores
    return [
        {
            "unit": "Count",
            "currentValue": count,
            "limit": (world.get(PACKAGE, LIMIT, f"{location}/{name}") or {}).get("limit", _USUAL),
            "name": {"value": name, "localizedValue": name},
        }
        for name, count in sorted(used.items())
    ]
