"""What a machine of a worker pool on Azure looks like: the profile of its scale set."""

import hashlib
import re
from typing import Any

import pulumi
from pulumi_azure_native import compute

from .azure_sizes import SystemDisk
from .pool_inputs import SpotShape

# Made for this constant; the private half was dropped in the process that made it. Azure wants an RSA key of at least
# 2048 bits (pulumi-azure-native `compute.SshPublicKeyArgs.key_data`); a fixed one keeps the scale set free of diffs.
UNUSED_SSH_KEY = (
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQCWyNCVxsEYr3lzFD9N4mKnCC5rGtI7mKxE+P6Q+EhSak6IFEy067pbUfW0MGx6Zg8qBUCUba4/"
    "b3mZ8rTHXvNokA8irFS6jxe9POVMZstXBlHOtqM/Li7B7kb0PIEQ3jpOreBeZOUAYLdpuF19WrMApnKAN7GppefsmOK6rG3ceLfEGGCfBfHG+gOm"
    "GYJQefXHluG4yai9XDCI/8prW8nwrpF4DnKPDI0yrl/v34ecFRA4e2RkQSgZ6woPkAzn3ZWzRLG3PM4GSR04Ih496LY7kXxkyuNuKDqmGFummpRj"
    "hkZz3lOFcdN/pmCBY7lun2eEF0MwAPRWkrsIFFbnwh9juDLNn5FfAsuhIdVrZAYa70lle0Mi6l/i6DqJFq61JffX0iV7+4gnjsKJMxysyrDAmYW9"
    "ZRy/r7wLrL7VezL/eOZPgRy0/UoXwJaw0AgFz0xEI60uSdJ4lNDqaTx2eqoGZZzCyVM/P6TGpq5+KYU272CC2ocRMqJU4ZAnGUQ121s="
)


ADMIN = "talos"
"""User that Azure demands; Talos has none."""


def computer_name_prefix(pool: str) -> str:
    """Return what the names of a pool's machines begin with: 1 to 15 letters, digits and hyphens.

    Azure adds six characters. A name that does not fit as it is gets a hash of the whole, because two pools whose names
    are cut to the same letters would have machines, and so Nodes, of the same name.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", pool.lower()).strip("-")
    if plain == pool and len(plain) <= 15 and not plain.isdigit():
        return plain
    start = plain[:9].strip("-")
    return f"{start if start and not start.isdigit() else 'node'}-{hashlib.sha256(pool.encode()).hexdigest()[:5]}"


def machine_profile(
    pool: str,
    *,
    image_id: pulumi.Input[str],
    custom_data: pulumi.Output[str],
    ssh_public_key: pulumi.Input[str],
    disk: SystemDisk,
    spot: SpotShape | None,
    subnet_id: pulumi.Input[str],
    security_group_id: pulumi.Input[str] | None = None,
    public_ip_prefix_id: pulumi.Input[str] | None,
    accelerated_networking: bool = False,
    secure_boot: bool = False,
) -> compute.VirtualMachineScaleSetVMProfileArgs:
    """Return the profile of a pool's machines; ``custom_data`` is a secret in base64.

    It has a security profile for Secure Boot alone: the plain image is not signed for trusted launch, and "Standard" is
    refused by this version of the API without a preview feature (Azure/azure-cli#31234). And it has no `user_data`,
    which every pod could read from the metadata service and Talos does not.
    """
    return compute.VirtualMachineScaleSetVMProfileArgs(
        **_priority(spot),
        security_profile=_trusted_launch() if secure_boot else None,
        os_profile=compute.VirtualMachineScaleSetOSProfileArgs(
            computer_name_prefix=computer_name_prefix(pool),
            admin_username=ADMIN,
            # Talos has no guest agent to run extensions; it tells Azure by itself that it is ready.
            allow_extension_operations=False,
            custom_data=custom_data,
            linux_configuration=compute.LinuxConfigurationArgs(
                disable_password_authentication=True,
                provision_vm_agent=False,
                ssh=compute.SshConfigurationArgs(
                    public_keys=[
                        compute.SshPublicKeyArgs(key_data=ssh_public_key, path=f"/home/{ADMIN}/.ssh/authorized_keys")
                    ]
                ),
            ),
        ),
        storage_profile=compute.VirtualMachineScaleSetStorageProfileArgs(
            image_reference=compute.ImageReferenceArgs(id=image_id),
            os_disk=_os_disk(disk),
        ),
        network_profile=compute.VirtualMachineScaleSetNetworkProfileArgs(
            network_interface_configurations=[
                _interface(subnet_id, security_group_id, public_ip_prefix_id, accelerated_networking)
            ]
        ),
        # The serial console is the only way in when a configuration is broken. Without the address of a storage account
        # Azure keeps its output itself.
        diagnostics_profile=compute.DiagnosticsProfileArgs(boot_diagnostics=compute.BootDiagnosticsArgs(enabled=True)),
    )


def _os_disk(disk: SystemDisk) -> compute.VirtualMachineScaleSetOSDiskArgs:
    if disk.ephemeral is not None:
        return compute.VirtualMachineScaleSetOSDiskArgs(
            create_option="FromImage",
            # What Azure asks for with an ephemeral disk.
            caching=compute.CachingTypes.READ_ONLY,
            disk_size_gb=disk.size_gb,
            diff_disk_settings=compute.DiffDiskSettingsArgs(option="Local", placement=disk.ephemeral.value),
        )
    return compute.VirtualMachineScaleSetOSDiskArgs(
        create_option="FromImage",
        caching=compute.CachingTypes.READ_WRITE,
        disk_size_gb=disk.size_gb,
        managed_disk=compute.VirtualMachineScaleSetManagedDiskParametersArgs(storage_account_type=disk.kind.value),
    )


def _trusted_launch() -> compute.SecurityProfileArgs:
    # The virtual TPM belongs to it (learn.microsoft.com, "Trusted Launch for Azure virtual machines").
    return compute.SecurityProfileArgs(
        security_type=compute.SecurityTypes.TRUSTED_LAUNCH,
        uefi_settings=compute.UefiSettingsArgs(secure_boot_enabled=True, v_tpm_enabled=True),
    )


def _priority(spot: SpotShape | None) -> dict[str, Any]:
    if spot is None:
        return {"priority": compute.VirtualMachinePriorityTypes.REGULAR}
    return {
        "priority": compute.VirtualMachinePriorityTypes.SPOT,
        # A stopped machine would go on counting towards the pool's size.
        "eviction_policy": compute.VirtualMachineEvictionPolicyTypes.DELETE,
        # -1: up to the regular price.
        "billing_profile": compute.BillingProfileArgs(max_price=spot.max_price or -1.0),
    }


def _interface(
    subnet_id: pulumi.Input[str],
    security_group_id: pulumi.Input[str] | None,
    public_ip_prefix_id: pulumi.Input[str] | None,
    accelerated_networking: bool,
) -> compute.VirtualMachineScaleSetNetworkConfigurationArgs:
    public = None
    if public_ip_prefix_id is not None:
        # The prefix makes it a Standard address; `sku` itself may be set on Flexible sets only.
        public = compute.VirtualMachineScaleSetPublicIPAddressConfigurationArgs(
            name="public", public_ip_prefix=compute.SubResourceArgs(id=public_ip_prefix_id)
        )
    return compute.VirtualMachineScaleSetNetworkConfigurationArgs(
        name="nic",
        primary=True,
        # A leader of the mesh forwards for the other machines of its location.
        enable_ip_forwarding=True,
        # Left out rather than false, which is Azure's own default.
        enable_accelerated_networking=accelerated_networking or None,
        network_security_group=None if security_group_id is None else compute.SubResourceArgs(id=security_group_id),
        ip_configurations=[
            compute.VirtualMachineScaleSetIPConfigurationArgs(
                name="ip",
                primary=True,
                subnet=compute.ApiEntityReferenceArgs(id=subnet_id),
                public_ip_address_configuration=public,
            )
        ],
    )
