"""What Azure says of a scale set: its machines, its tags, and the quota of its family. Reads alone.

learn.microsoft.com, REST API of Microsoft.Compute: Virtual Machine Scale Sets (Get), Virtual Machine Scale Set VMs
(List), Usage (List).
"""

import re
from collections.abc import Mapping
from typing import Any

from azure.mgmt.compute import ComputeManagementClient
from hybrid_talos.azure_resource_manager import (
    MACHINES,
    Properties,
    arm_errors,
    compute_client,
    found,
    listed,
    parse_id,
)
from hybrid_talos.azure_sizes import azure_sizes
from hybrid_talos.work_provider import WorkError

from .facts import Group, Machine, Pool, Quota, seconds
from .template import azure_template

PAGE = "docs/why-does-it-not-scale.md"
_SPOT = "lowPriorityCores"
_ALL = "cores"


def azure_group(pool: Pool) -> Group:
    """Return the scale set of a pool; WorkError when it is gone or cannot be read."""
    target = parse_id(pool.group)
    with arm_errors(pool.group, PAGE), compute_client(dict(pool.where), target.subscription) as client:
        return read_group(client, pool)


def read_group(client: ComputeManagementClient, pool: Pool) -> Group:
    """Return the scale set of a pool, asked through a client."""
    target = parse_id(pool.group)
    at = (target.resource_group, target.names[-1])
    sets: Any = client.virtual_machine_scale_sets
    machines: Any = client.virtual_machine_scale_set_vms
    scale_set = found(sets.get, *at, **MACHINES)
    if scale_set is None:
        raise WorkError(f"the scale set {target.names[-1]} is gone; run `pulumi up --refresh`")
    tags: Mapping[str, str] = scale_set.get("tags") or {}
    labels, taints = azure_template(tags)
    live = str(scale_set["sku"]["name"])
    notes: list[str] = []
    quotas: tuple[Quota, ...] = ()
    try:
        with arm_errors(f"the quota of {pool.where['location']}", PAGE):
            quotas = _quotas(client, str(pool.where["location"]), live, spot=pool.spot)
    except WorkError as error:
        notes.append(str(error))
    return Group(
        size=int(scale_set["sku"]["capacity"]),
        machines=tuple(_machine(item) for item in listed(machines.list, *at, **MACHINES)),
        labels=labels,
        taints=taints,
        least=_bound(tags, "min"),
        most=_bound(tags, "max"),
        quotas=quotas,
        notes=tuple(notes),
    )


def expected_id(resource: str) -> str:
    """Return the provider id of a machine: that of Azure with its resource group in small letters.

    kubernetes/autoscaler `cloudprovider/azure/azure_util.go` (convertResourceGroupNameToLower); Talos writes it so too.
    """
    return "azure://" + re.sub(r"(?i)(/resourceGroups/)([^/]+)/", lambda m: f"{m[1]}{m[2].lower()}/", resource, count=1)


def _machine(item: Properties) -> Machine:
    properties = item.get("properties") or {}
    state = str(properties.get("provisioningState") or "")
    return Machine(
        expected_id(str(item["id"])),
        leaving=state == "Deleting",
        failed=state == "Failed",
        made=seconds(properties.get("timeCreated")),
    )


def _bound(tags: Mapping[str, str], name: str) -> int | None:
    text = tags.get(name, "")
    return int(text) if text.isdecimal() else None


def _quotas(client: ComputeManagementClient, location: str, size: str, *, spot: bool) -> tuple[Quota, ...]:
    known = azure_sizes().get(size)
    if known is None:
        return ()
    # Machines at spot prices count in a quota of their own, whatever their family.
    wanted = {_SPOT: "spot cores"} if spot else {_ALL: "cores of the region", known.family: f"cores of {known.family}"}
    lowered = {key.lower(): text for key, text in wanted.items()}
    usage: Any = client.usage
    return tuple(
        Quota(f"{lowered[name]} in {location}", int(item["currentValue"]), int(item["limit"]), known.cpus)
        for item in (dict(one.as_dict()) for one in usage.list(location))
        if (name := str((item.get("name") or {}).get("value") or "").lower()) in lowered
    )
