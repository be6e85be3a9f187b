"""A simulated Azure for tests, without the engine: each resource is checked and made as the provider does it."""

import base64
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab import sdk_schema
from lab.azure import PACKAGE
from lab.azure.arm import ArmKind
from lab.azure.blob_store import Blob
from lab.azure.instances import instances
from lab.azure.vhd import footer_checksum
from lab.provider import Call
from lab.world import CloudError, World

MIB = 1 << 20
SCALE_SET = "compute:VirtualMachineScaleSet"
PROFILE = "virtualMachineProfile"
IP = f"{PROFILE}__networkProfile__networkInterfaceConfigurations__0__ipConfigurations__0"
ZERO = "00000000-0000-0000-0000-000000000000"
# A 2048-bit key of which nobody has the private half: only its form counts.
_KEY = b"".join(struct.pack(">I", len(part)) + part for part in (b"ssh-rsa", b"\x01\x00\x01", b"\x00" + b"\xa7" * 256))
SSH_KEY = f"ssh-rsa {base64.b64encode(_KEY).decode()}"


class Refused(Exception):
    """What the provider itself refuses, which a preview shows."""


class Cloud:
    """Azure, with resources known by the names that the tests give them."""

    def __init__(self, folder: Path) -> None:
        self.world = World(folder / "world")
        self.config: dict[str, Any] = {}
        self.ids: dict[str, str] = {}
        self.inputs: dict[str, dict[str, Any]] = {}

    def close(self) -> None:
        self.world.close()

    def kind(self, token: str) -> ArmKind:
        kind = PACKAGE.kinds[f"azure-native:{token}"]
        assert isinstance(kind, ArmKind)
        return kind

    def call(self, token: str, name: str) -> Call:
        return Call(self.world, self.config, f"urn:pulumi:test::project::azure-native:{token}::{name}")

    def checked(self, token: str, name: str, inputs: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
        kind, call = self.kind(token), self.call(token, name)
        inputs = {**inputs, **kind.defaults(call, inputs, old)}
        schema = sdk_schema.resource(kind.token)
        assert schema is not None
        problems = [*sdk_schema.problems(schema, inputs), *kind.check(call, inputs)]
        if problems:
            raise Refused("; ".join(f"{p.path}: {p.reason}" for p in problems))
        return inputs

    def make(self, token: str, name: str, **inputs: Any) -> dict[str, Any]:
        checked = self.checked(token, name, inputs, {})
        id, outputs = self.kind(token).create(self.call(token, name), checked)
        self.ids[name], self.inputs[name] = id, checked
        return outputs

    def change(self, token: str, name: str, **changes: Any) -> dict[str, Any]:
        new = {key: value for key, value in {**self.inputs[name], **changes}.items() if value is not None}
        checked = self.checked(token, name, new, self.inputs[name])
        state = self.read(token, name) or {}
        outputs = self.kind(token).update(self.call(token, name), self.ids[name], state, checked)
        self.inputs[name] = checked
        return outputs

    def read(self, token: str, name: str) -> dict[str, Any] | None:
        return self.kind(token).read(self.call(token, name), self.ids[name], {})

    def delete(self, token: str, name: str) -> None:
        self.kind(token).delete(self.call(token, name), self.ids[name], {})

    # -- what many tests start from ---------------------------------------------------------------------------

    def group(self, location: str = "westeurope", name: str = "rg") -> None:
        self.make("resources:ResourceGroup", name, resourceGroupName=name, location=location)

    def network(self, name: str = "net", prefix: str = "10.2.0.0/16") -> None:
        self.make(
            "network:VirtualNetwork",
            name,
            resourceGroupName="rg",
            virtualNetworkName=name,
            addressSpace={"addressPrefixes": [prefix]},
        )

    def subnet(self, name: str = "sub", prefix: str = "10.2.0.0/24", network: str = "net", **more: Any) -> None:
        self.make(
            "network:Subnet",
            name,
            resourceGroupName="rg",
            virtualNetworkName=network,
            subnetName=name,
            addressPrefix=prefix,
            **more,
        )

    def firewall(self, *rules: dict[str, Any], name: str = "nsg") -> None:
        self.make(
            "network:NetworkSecurityGroup",
            name,
            resourceGroupName="rg",
            networkSecurityGroupName=name,
            securityRules=list(rules),
        )

    def address(self, name: str = "ip") -> None:
        self.make(
            "network:PublicIPAddress",
            name,
            resourceGroupName="rg",
            publicIpAddressName=name,
            sku={"name": "Standard"},
            publicIPAllocationMethod="Static",
        )

    def gateway(self, name: str = "nat", address: str = "ip") -> None:
        self.make(
            "network:NatGateway",
            name,
            resourceGroupName="rg",
            natGatewayName=name,
            sku={"name": "Standard"},
            publicIpAddresses=[{"id": self.ids[address]}],
        )

    def prefix(self, name: str = "prefix", length: int = 28) -> None:
        self.make(
            "network:PublicIPPrefix",
            name,
            resourceGroupName="rg",
            publicIpPrefixName=name,
            sku={"name": "Standard"},
            prefixLength=length,
        )

    def blob(self, name: str = "disk.vhd", size: int = 64 * MIB, footer: bytes | None = None) -> str:
        """Put a fixed VHD into a storage account; return its address."""
        if "acct" not in self.ids:
            self.make(
                "storage:StorageAccount",
                "acct",
                resourceGroupName="rg",
                accountName="talosacct",
                kind="StorageV2",
                sku={"name": "Standard_LRS"},
            )
            self.make(
                "storage:BlobContainer",
                "images",
                resourceGroupName="rg",
                accountName="talosacct",
                containerName="images",
            )
        blob = Blob(self.world, "talosacct", "images", name)
        blob.create(size + 512, {"settings": {}, "metadata": {}})
        blob.write(size, vhd_footer(size) if footer is None else footer, 512)
        return f"https://talosacct.blob.core.windows.net/images/{name}"

    def definition(self, name: str = "definition", **more: Any) -> None:
        if "gallery" not in self.ids:
            self.make("compute:Gallery", "gallery", resourceGroupName="rg", galleryName="gallery")
        self.make(
            "compute:GalleryImage",
            name,
            resourceGroupName="rg",
            galleryName="gallery",
            galleryImageName=name,
            identifier={"publisher": "p", "offer": "o", "sku": name},
            osState="Generalized",
            osType="Linux",
            hyperVGeneration=more.pop("hyperVGeneration", "V2"),
            **more,
        )

    def version(self, name: str = "1.14.0", definition: str = "definition", uri: str = "", **more: Any) -> None:
        source = {"uri": uri or self.blob(), "storageAccountId": self.ids["acct"]}
        self.make(
            "compute:GalleryImageVersion",
            name,
            resourceGroupName="rg",
            galleryName="gallery",
            galleryImageName=definition,
            galleryImageVersionName=name,
            storageProfile={"osDiskImage": {"source": source}},
            **more,
        )

    def scale_set_inputs(self, changes: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Return a good scale set; names such as ``sku__capacity`` change single values, None takes one away."""
        inputs: dict[str, Any] = {
            "resourceGroupName": "rg",
            "vmScaleSetName": "workers",
            "orchestrationMode": "Uniform",
            "overprovision": False,
            "singlePlacementGroup": False,
            "upgradePolicy": {"mode": "Manual"},
            "sku": {"name": "Standard_D2s_v3", "tier": "Standard", "capacity": 2},
            "virtualMachineProfile": {
                "osProfile": {
                    "computerNamePrefix": "workers",
                    "adminUsername": "talos",
                    "customData": base64.b64encode(b"some data").decode(),
                    "linuxConfiguration": {
                        "disablePasswordAuthentication": True,
                        "ssh": {"publicKeys": [{"keyData": SSH_KEY, "path": "/home/talos/.ssh/authorized_keys"}]},
                    },
                },
                "storageProfile": {
                    "imageReference": {"id": self.ids.get("1.14.0", "none")},
                    "osDisk": {"createOption": "FromImage", "diskSizeGB": 64},
                },
                "networkProfile": {
                    "networkInterfaceConfigurations": [
                        {
                            "name": "nic",
                            "primary": True,
                            "enableIPForwarding": True,
                            "ipConfigurations": [
                                {"name": "ip", "primary": True, "subnet": {"id": self.ids.get("sub", "none")}}
                            ],
                        }
                    ]
                },
            },
        }
        for path, value in {**(changes or {}), **more}.items():
            *parents, last = path.split("__")
            place: Any = inputs
            for part in parents:
                place = place[int(part)] if part.isdigit() else place.setdefault(part, {})
            if value is None:
                place.pop(last, None)
            else:
                place[last] = value
        return inputs

    def scale_set(
        self, changes: Mapping[str, Any] | None = None, *, name: str = "workers", **more: Any
    ) -> dict[str, Any]:
        inputs = self.scale_set_inputs({"vmScaleSetName": name, **(changes or {})}, **more)
        return self.make("compute:VirtualMachineScaleSet", name, **inputs)

    def ready(self) -> None:
        """Make all that a scale set needs."""
        self.group()
        self.network()
        self.subnet()
        self.definition()
        self.version()


def vhd_footer(size: int) -> bytes:
    """Return the footer of a fixed VHD with ``size`` bytes before it."""
    footer = bytearray(512)
    footer[:8] = b"conectix"
    struct.pack_into(">Q", footer, 48, size)
    struct.pack_into(">I", footer, 60, 2)
    struct.pack_into(">I", footer, 64, footer_checksum(bytes(footer)))
    return bytes(footer)


def allow(name: str, priority: int, protocol: str, ports: list[int], *sources: str, **more: Any) -> dict[str, Any]:
    """Return an inbound rule that allows traffic."""
    where = {"sourceAddressPrefix": sources[0]} if len(sources) == 1 else {"sourceAddressPrefixes": list(sources)}
    return {
        "name": name,
        "priority": priority,
        "direction": "Inbound",
        "access": "Allow",
        "protocol": protocol,
        "sourcePortRange": "*",
        "destinationAddressPrefix": "*",
        "destinationPortRanges": [str(port) for port in ports],
        **where,
        **more,
    }


def b64(text: str | bytes) -> str:
    """Return text or bytes in base64."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def refused(code: str, *words: str) -> Any:
    """Expect a refusal with a code and, in this order, some words of its message."""
    return pytest.raises(CloudError, match=f"(?s){code}: .*" + ".*".join(words))


def machines(cloud: Cloud) -> list[dict[str, Any]]:
    """Return the machines of the scale set ``workers``."""
    return [record.doc for record in instances(cloud.world, cloud.ids["workers"])]
