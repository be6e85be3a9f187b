"""What Azure refuses in a virtual machine scale set.

Sources: docstrings of pulumi_azure_native.compute (limits of each property), learn.microsoft.com "Modify a Virtual
Machine Scale Set" (virtual-machine-scale-sets-upgrade-scale-set: create-only properties), "Working with large virtual
machine scale sets" (placement groups, 100/600/1000), "Azure Spot Virtual Machines for Virtual Machine Scale Sets",
hashicorp/terraform-provider-azurerm internal/services/compute (names, users, keys, what replaces), and where a line
says so the issue in which somebody met the message.
"""

import base64
import binascii
import struct
from collections.abc import Mapping
from typing import Any

from ..provider import Call
from ..world import CloudError
from . import names
from .egress import no_basic_addresses
from .records import Doc, dig, lookup, name_of, reference, reference_id, refuse_change
from .scale_set_image import verify_image
from .sizes import parse_size

CUSTOM_DATA_BYTES = 65_535
CUSTOM_DATA_CHARACTERS = 87_380
_FORBIDDEN_USER_NAMES = """
administrator admin user user1 test user2 test1 user3 admin1 1 123 a actuser adm admin2 aspnet backup console
david guest john owner root server sql support support_388945a0 sys test2 test3 user4 user5
"""
_FORBIDDEN_USERS = frozenset(_FORBIDDEN_USER_NAMES.split())
_FORBIDDEN_IN_HOST = frozenset("\\/\"[]:|<>+=;,?*@&~!#$%^()_{}' ")
# hashicorp/terraform-provider-azurerm linux_virtual_machine_scale_set_resource.go (ForceNew) and "Modify a Virtual
# Machine Scale Set", section create-time properties.
_FIXED = (
    "zones",
    "orchestrationMode",
    "platformFaultDomainCount",
    "virtualMachineProfile.priority",
    "virtualMachineProfile.evictionPolicy",
    "virtualMachineProfile.osProfile.computerNamePrefix",
    "virtualMachineProfile.osProfile.adminUsername",
    "virtualMachineProfile.osProfile.linuxConfiguration.provisionVMAgent",
    "virtualMachineProfile.osProfile.allowExtensionOperations",
    "virtualMachineProfile.storageProfile.osDisk.managedDisk.storageAccountType",
)


def refuse(message: str, code: str = "InvalidParameter") -> CloudError:
    """Return a refusal; most of Azure's are InvalidParameter."""
    return CloudError(code, message)


def missing(parameter: str) -> CloudError:
    """Return the refusal of a call that lacks a parameter."""
    return refuse(f"Required parameter '{parameter}' is missing (null).")


def decode_custom_data(text: Any) -> bytes | None:
    """Return the bytes of custom data, or None when there is none; raise CloudError when it is not legal."""
    if not text:
        return None
    problem = refuse(
        f"Custom data in OSProfile must be in Base64 encoding and with a maximum length of {CUSTOM_DATA_CHARACTERS} "
        "characters."
    )
    if not isinstance(text, str) or len(text) > CUSTOM_DATA_CHARACTERS:
        raise problem
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise problem from None
    if len(data) > CUSTOM_DATA_BYTES:
        raise problem
    return data


def verify(call: Call, id: str, inputs: Doc, doc: Doc, old: Doc | None) -> None:
    """Raise CloudError for the first thing that Azure refuses."""
    if "virtualMachineProfile" not in inputs:
        raise missing("virtualMachineProfile")
    for path in _FIXED:
        refuse_change(old, doc, path)
    flexible = doc["orchestrationMode"] == "Flexible"
    _verify_sku(id, inputs)
    _verify_placement(id, inputs, doc, old, flexible)
    _verify_capacity(id, inputs, doc)
    _verify_spot(inputs)
    _verify_os_profile(inputs["virtualMachineProfile"].get("osProfile"))
    verify_image(call.world, inputs, doc["location"])
    _verify_network(call, id, inputs, doc, flexible)


def _verify_sku(id: str, inputs: Doc) -> None:
    sku = inputs.get("sku") or {}
    if not sku.get("name"):
        raise missing("sku.name")
    # Azure/vm-scale-sets#70: a PUT without the capacity is refused.
    if sku.get("capacity") is None:
        raise missing("sku.capacity")
    size = parse_size(sku["name"])
    if size is None:
        raise refuse(
            f"The value {sku['name']} provided for the VM size is not valid. Find out more on the available VM sizes "
            "in "
            "each region at https://aka.ms/azure-regions."
        )
    disk = dig(inputs, "virtualMachineProfile.storageProfile.osDisk.managedDisk.storageAccountType") or ""
    if str(disk).startswith("Premium") and not size.premium:
        raise refuse(
            f"Requested operation cannot be performed because the VM size {size.name} does not support the storage "
            f"account type {disk} of disk. Consider updating the VM to a size that supports Premium storage."
        )
    if inputs["virtualMachineProfile"].get("priority") == "Spot" and size.family == "B":
        raise refuse(
            f"The VM size {size.name} is not supported for Azure Spot: B-series cannot be evicted.",
            "OperationNotAllowed",
        )


def _verify_placement(id: str, inputs: Doc, doc: Doc, old: Doc | None, flexible: bool) -> None:
    if old is not None and not old["singlePlacementGroup"] and doc["singlePlacementGroup"]:
        raise refuse(
            "Changing property 'singlePlacementGroup' from 'false' to 'true' is not allowed.",
            "PropertyChangeNotAllowed",
        )
    names.verify_zones(inputs.get("zones"), doc["location"], name_of(id))
    if inputs.get("zoneBalance") is not None and len(inputs.get("zones") or ()) < 2:
        raise refuse(
            "zoneBalance property can only be set if zones property contains more than one zone.", "BadRequest"
        )
    mode = dig(inputs, "upgradePolicy.mode")
    if flexible:
        if inputs.get("platformFaultDomainCount") is None:
            raise missing("platformFaultDomainCount")
        if dig(inputs, "virtualMachineProfile.networkProfile.networkApiVersion") is None:
            raise missing("networkProfile.networkApiVersion")
        if inputs.get("overprovision"):
            raise refuse("Overprovisioning is not supported with orchestrationMode 'Flexible'.")
    elif mode is None:
        raise missing("upgradePolicy.mode")
    probe = dig(inputs, "virtualMachineProfile.networkProfile.healthProbe")
    if mode == "Rolling" and not probe and not dig(inputs, "virtualMachineProfile.extensionProfile.extensions"):
        raise refuse(
            "Rolling Upgrade mode is not supported for this Virtual Machine Scale Set because a health probe or health "
            "extension was not provided."
        )


def _verify_capacity(id: str, inputs: Doc, doc: Doc) -> None:
    capacity = int(inputs["sku"]["capacity"])
    managed_image = (
        "/providers/microsoft.compute/images/"
        in str(dig(inputs, "virtualMachineProfile.storageProfile.imageReference.id")).lower()
    )
    verify_total(id, capacity, bool(doc["singlePlacementGroup"]), managed_image)


def verify_total(id: str, capacity: int, single_placement_group: bool, managed_image: bool) -> None:
    """Raise CloudError when a scale set would get too large (ansible/ansible#58220 for the words)."""
    limit = 100 if single_placement_group else 600 if managed_image else 1000
    if capacity < 0:
        raise refuse(f"The value '{capacity}' of parameter 'sku.capacity' is not allowed.")
    if capacity > limit:
        raise CloudError(
            "OperationNotAllowed",
            f"Unable to create or update Virtual Machine Scale Set '{name_of(id)}' as it exceeds the total limit of "
            f"'{limit}' Virtual Machine instances.",
        )


def _verify_spot(inputs: Doc) -> None:
    profile = inputs["virtualMachineProfile"]
    price = dig(profile, "billingProfile.maxPrice")
    if profile.get("priority") != "Spot":
        for given, what in ((profile.get("evictionPolicy"), "Eviction policy"), (price, "Max price")):
            if given is not None:
                raise refuse(
                    f"{what} can be set only on Azure Spot Virtual Machines. For more information, see "
                    "http://aka.ms/AzureSpot/errormessages.",
                    "OperationNotAllowed",
                )
        if inputs.get("spotRestorePolicy"):
            raise refuse("spotRestorePolicy can be set only with priority 'Spot'.", "OperationNotAllowed")
    elif price is not None and float(price) != -1 and float(price) <= 0:
        raise refuse(f"Max price can either be -1 or a decimal greater than zero, not {price}.")


def _verify_os_profile(profile: Mapping[str, Any] | None) -> None:
    if profile is None:
        raise missing("osProfile")
    prefix, user = profile.get("computerNamePrefix"), profile.get("adminUsername")
    # Docstring of computer_name_prefix: 1 to 15 characters long.
    if prefix is not None and (
        not 1 <= len(prefix) <= 15 or _FORBIDDEN_IN_HOST & set(prefix) or prefix.startswith("-") or prefix.isdigit()
    ):
        raise refuse(
            f"The computer name prefix '{prefix}' must be 1 to 15 characters long, letters, digits and hyphens."
        )
    if not user:
        raise missing("adminUsername")
    if user.lower() in _FORBIDDEN_USERS or len(user) > 64:
        raise refuse("The Admin Username specified is not allowed.")
    decode_custom_data(profile.get("customData"))
    linux = profile.get("linuxConfiguration") or {}
    keys = dig(linux, "ssh.publicKeys") or []
    if not keys and (linux.get("disablePasswordAuthentication") or not profile.get("adminPassword")):
        raise refuse("Authentication using either SSH or by user name and password must be enabled in Linux profile.")
    for key in keys:
        _verify_key(key, user)


def _verify_key(key: Mapping[str, Any], user: str) -> None:
    if key.get("path") != f"/home/{user}/.ssh/authorized_keys":
        raise refuse(
            "Destination path for SSH public keys is currently limited to its default value "
            f"/home/{user}/.ssh/authorized_keys due to a known issue in Linux provisioning agent."
        )
    kind, bits = _key_kind(str(key.get("keyData") or ""))
    if kind not in ("ssh-rsa", "ssh-ed25519") or (kind == "ssh-rsa" and bits < 2048):
        raise refuse("The value of parameter linuxConfiguration.ssh.publicKeys.keyData is invalid.")


def _key_kind(text: str) -> tuple[str, int]:
    """Return the type of an SSH public key and, for RSA, the bits of its modulus (RFC 4253, section 6.6)."""
    parts = text.split()
    try:
        blob = base64.b64decode(parts[1], validate=True)
        fields = []
        while blob:
            (length,) = struct.unpack_from(">I", blob)
            fields.append(blob[4 : 4 + length])
            blob = blob[4 + length :]
        kind = fields[0].decode()
        bits = int.from_bytes(fields[2], "big").bit_length() if kind == "ssh-rsa" else 0
    except (IndexError, ValueError, struct.error):
        return "", 0
    return (kind, bits) if kind == parts[0] else ("", 0)


def _verify_network(call: Call, id: str, inputs: Doc, doc: Doc, flexible: bool) -> None:
    nics = dig(inputs, "virtualMachineProfile.networkProfile.networkInterfaceConfigurations")
    if not nics:
        raise missing("networkProfile.networkInterfaceConfigurations")
    if sum(bool(nic.get("primary")) for nic in nics) != 1:
        raise refuse("Exactly one network interface configuration must be primary.", "VmssNicConfigPrimaryRequired")
    size = parse_size(inputs["sku"]["name"])
    for nic in nics:
        if nic.get("enableAcceleratedNetworking") and size is not None and not size.accelerated:
            raise refuse(
                f"Virtual Machine Scale Set {name_of(id)} has accelerated networking enabled but its size {size.name} "
                "does not support it.",
                "VMSizeIsNotPermittedToEnableAcceleratedNetworking",
            )
        if target := reference_id(nic.get("networkSecurityGroup")):
            reference(call.world, id, "NetworkSecurityGroup", target, doc["location"])
        if not nic.get("ipConfigurations"):
            raise missing("ipConfigurations")
        for config in nic["ipConfigurations"]:
            _verify_ip_configuration(call, id, config, doc, flexible)


def _verify_ip_configuration(call: Call, id: str, config: Mapping[str, Any], doc: Doc, flexible: bool) -> None:
    subnet_id = reference_id(config.get("subnet"))
    if subnet_id is None:
        raise missing("ipConfigurations.subnet")
    subnet = reference(call.world, id, "Subnet", subnet_id, None)
    network = subnet.id.rsplit("/subnets/", 1)[0]
    reference(call.world, id, "VirtualNetwork", network, doc["location"])
    for pool in config.get("loadBalancerBackendAddressPools") or ():
        _verify_pool(call, id, str(reference_id(pool)))
    public = config.get("publicIPAddressConfiguration")
    if public is None:
        return
    prefix = reference_id(public.get("publicIPPrefix"))
    if prefix:
        reference(call.world, id, "PublicIPPrefix", prefix, doc["location"])
    if flexible:
        if dig(public, "sku.name") != "Standard":
            raise no_basic_addresses()
        return
    # Docstring of PublicIPAddressSku: "It can only be set with OrchestrationMode as Flexible."
    if public.get("sku") is not None:
        raise refuse("The sku of a public IP address configuration can only be set with OrchestrationMode as Flexible.")
    # Without a prefix, which is always Standard, the set's addresses are Basic, and those are retired.
    if prefix is None:
        raise no_basic_addresses()


def _verify_pool(call: Call, id: str, pool: str) -> None:
    balancer = lookup(call.world, "LoadBalancer", pool.rsplit("/backendAddressPools/", 1)[0])
    known = [p.get("name") for p in balancer.doc.get("backendAddressPools") or ()] if balancer else []
    if name_of(pool) not in known:
        raise CloudError(
            "InvalidResourceReference",
            f"Resource {pool} referenced by resource {id} was not found. Please make sure that the referenced resource "
            "exists, and that both resources are in the same region.",
        )
