"""What boots from an image on Azure: scale sets by their model, their machines by what they were made of, and VMs."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from azure.core.exceptions import HttpResponseError, ResourceNotFoundError
from azure.mgmt.compute import ComputeManagementClient

from .azure_resource_manager import MACHINES, Properties, parse_id


def image_users(client: ComputeManagementClient, group: str, images: Iterable[str]) -> Mapping[str, str]:
    """Return those of the images that something uses, each with the name of one user.

    All of the subscription counts; an identity that may not read it sees the one resource group.
    """
    wanted = {image.lower(): image for image in images}
    users: dict[str, str] = {}
    for reference, user in _references(client, group):
        for key, image in wanted.items():
            # A model may also name the definition, and means the newest version in it then.
            if reference and (key == reference or key.startswith(f"{reference}/versions/")):
                users.setdefault(image, user)
    return users


def _references(client: ComputeManagementClient, group: str) -> Iterator[tuple[str, str]]:
    sets = client.virtual_machine_scale_sets
    for found in _visible(sets.list_all, sets.list, group):
        identity = parse_id(found["id"])
        name = f"scale set {identity.names[0]}"
        profile = found.get("properties", {}).get("virtualMachineProfile", {})
        yield _image_of(profile), name
        machines = client.virtual_machine_scale_set_vms.list(identity.resource_group, identity.names[0], **MACHINES)
        try:
            for machine in machines:
                item = machine.as_dict()
                yield _image_of(item.get("properties", {})), f"machine {item.get('instanceId')} of {name}"
        except ResourceNotFoundError:  # deleted since it was listed
            continue
    vms = client.virtual_machines
    for found in _visible(vms.list_all, vms.list, group):
        yield _image_of(found.get("properties", {})), f"virtual machine {parse_id(found['id']).names[0]}"


def _visible(everywhere: Any, in_group: Any, group: str) -> list[Properties]:
    try:
        return [item.as_dict() for item in everywhere(**MACHINES)]
    except HttpResponseError as error:
        if error.status_code != 403:
            raise
    try:
        return [item.as_dict() for item in in_group(group, **MACHINES)]
    except ResourceNotFoundError:
        return []


def _image_of(profile: Properties) -> str:
    reference = (profile.get("storageProfile") or {}).get("imageReference") or {}
    return str(reference.get("id") or "").lower()
