"""A simulated Alibaba Cloud for tests, without the engine: resources are checked and made as the provider does it."""

import base64
import gzip
import struct
from pathlib import Path
from typing import Any

import pytest
from pulumi._types import resource_types
from pulumi.runtime import rpc

from lab import sdk_schema, wire
from lab.alicloud import PACKAGE
from lab.alicloud.bridge import BridgedKind
from lab.alicloud.instances import instances
from lab.alicloud.oss_store import Store
from lab.provider import Call
from lab.world import CloudError, World

GIB = 1 << 30
NETWORK = "vpc/network:Network"
SWITCH = "vpc/switch:Switch"
NAT = "vpc/natGateway:NatGateway"
SNAT = "vpc/snatEntry:SnatEntry"
EIP = "ecs/eipAddress:EipAddress"
BOND = "ecs/eipAssociation:EipAssociation"
FIREWALL = "ecs/securityGroup:SecurityGroup"
RULE = "ecs/securityGroupRule:SecurityGroupRule"
RANGES = "ecs/ecsPrefixList:EcsPrefixList"
IMAGE = "ecs/imageImport:ImageImport"
GROUP = "ess/scalingGroup:ScalingGroup"
CONFIGURATION = "ess/scalingConfiguration:ScalingConfiguration"
HOOK = "ess/lifecycleHook:LifecycleHook"
BUCKET = "oss/bucket:Bucket"
ACL = "oss/bucketAcl:BucketAcl"
POLICY = "ram/policy:Policy"
USER = "ram/user:User"
USER_POLICY = "ram/userPolicyAttachment:UserPolicyAttachment"
ROLE = "ram/role:Role"
ROLE_POLICY = "ram/rolePolicyAttachment:RolePolicyAttachment"
KEY = "ram/accessKey:AccessKey"
OIDC = "ims/oidcProvider:OidcProvider"


class Refused(Exception):
    """What the provider itself refuses, which a preview shows."""


class Cloud:
    """Alibaba Cloud, with resources known by the names that the tests give them."""

    def __init__(self, folder: Path, region: str = "cn-hangzhou") -> None:
        self.world = World(folder / "world")
        self.config: dict[str, Any] = {"region": region}
        self.ids: dict[str, str] = {}
        self.inputs: dict[str, dict[str, Any]] = {}

    def close(self) -> None:
        self.world.close()

    def kind(self, token: str) -> BridgedKind:
        kind = PACKAGE.kinds[f"alicloud:{token}"]
        assert isinstance(kind, BridgedKind)
        return kind

    def call(self, token: str, name: str) -> Call:
        return Call(self.world, self.config, f"urn:pulumi:test::project::alicloud:{token}::{name}")

    def checked(self, token: str, name: str, inputs: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
        kind, call = self.kind(token), self.call(token, name)
        inputs = {**inputs, **kind.defaults(call, inputs, old)}
        schema = sdk_schema.resource(kind.token)
        assert schema is not None
        problems = [*sdk_schema.problems(schema, inputs), *kind.check(call, inputs)]
        if problems:
            raise Refused("; ".join(f"{p.path}: {p.reason}" for p in problems))
        return inputs

    def make(self, token: str, name: str, /, **inputs: Any) -> dict[str, Any]:
        checked = self.checked(token, name, inputs, {})
        id, outputs = self.kind(token).create(self.call(token, name), checked)
        self.ids[name], self.inputs[name] = id, checked
        return self.fitting(token, outputs)

    def change(self, token: str, name: str, /, **changes: Any) -> dict[str, Any]:
        new = {key: value for key, value in {**self.inputs[name], **changes}.items() if value is not None}
        checked = self.checked(token, name, new, self.inputs[name])
        state = self.read(token, name) or {}
        outputs = self.kind(token).update(self.call(token, name), self.ids[name], state, checked)
        self.inputs[name] = checked
        return self.fitting(token, outputs)

    def fitting(self, token: str, outputs: dict[str, Any]) -> dict[str, Any]:
        """Return outputs that the SDK can take apart; a program would end at others."""
        schema = sdk_schema.resource(f"alicloud:{token}")
        assert schema is not None
        types = resource_types(schema.cls)
        assert set(outputs) <= set(types), set(outputs) - set(types)
        for key, value in outputs.items():
            rpc.translate_output_properties(value, str, types[key])
        return outputs

    def replaces(self, token: str, name: str, /, **changes: Any) -> list[str]:
        """Return the inputs for which a change would replace the resource."""
        kind, call = self.kind(token), self.call(token, name)
        old = kind.comparable(call, self.inputs[name])
        new = kind.comparable(call, {**self.inputs[name], **changes})
        return kind.replaces(call, old, new, wire.changed_paths(old, new))

    def read(self, token: str, name: str) -> dict[str, Any] | None:
        return self.kind(token).read(self.call(token, name), self.ids[name], {})

    def delete(self, token: str, name: str) -> None:
        self.kind(token).delete(self.call(token, name), self.ids[name], {})

    # -- what many tests start from ---------------------------------------------------------------------------

    def network(self, name: str = "net", cidr: str = "10.3.0.0/16") -> None:
        self.make(NETWORK, name, vpcName=name, cidrBlock=cidr)

    def vswitch(
        self, name: str = "sw", cidr: str = "10.3.0.0/24", zone: str = "cn-hangzhou-h", network: str = "net"
    ) -> dict[str, Any]:
        return self.make(SWITCH, name, vpcId=self.ids[network], zoneId=zone, cidrBlock=cidr, vswitchName=name)

    def firewall(self, name: str = "sg", network: str = "net") -> None:
        self.make(FIREWALL, name, vpcId=self.ids[network], securityGroupName=name)

    def allow(self, name: str, protocol: str, port: int, source: str, **more: Any) -> dict[str, Any]:
        inputs = {
            "securityGroupId": self.ids["sg"],
            "type": "ingress",
            "ipProtocol": protocol,
            "portRange": f"{port}/{port}",
            "cidrIp": source,
        }
        given = {key: value for key, value in {**inputs, **more}.items() if value is not None}
        return self.make(RULE, name, **given)

    def way_out(self) -> None:
        """Make a NAT gateway with an address for the vSwitch ``sw``."""
        self.make(NAT, "nat", vpcId=self.ids["net"], vswitchId=self.ids["sw"], natType="Enhanced")
        self.make(EIP, "eip", bandwidth="100", internetChargeType="PayByTraffic")
        self.make(BOND, "bond", allocationId=self.ids["eip"], instanceId=self.ids["nat"], instanceType="Nat")
        self.snat()

    def snat(self, name: str = "snat", vswitch: str = "sw") -> dict[str, Any]:
        nat, eip = self.read(NAT, "nat"), self.read(EIP, "eip")
        assert nat is not None
        assert eip is not None
        return self.make(
            SNAT, name, snatTableId=nat["snatTableIds"], snatIp=eip["ipAddress"], sourceVswitchId=self.ids[vswitch]
        )

    def upload(self, key: str = "talos.qcow2", content: bytes | None = None, bucket: str = "talos-images") -> None:
        """Put an object into a bucket, which is made when it is not there."""
        if bucket not in self.ids:
            self.make(BUCKET, bucket, bucket=bucket)
        store = Store(self.world)
        draft = store.draft()
        draft.write_bytes(qcow2(4 * GIB) if content is None else content)
        store.put(bucket, key, draft, {"settings": {}, "modified": "now"})

    def image(self, name: str = "image", **more: Any) -> dict[str, Any]:
        if "talos-images" not in self.ids:
            self.upload()
        disk = {"format": "qcow2", "ossBucket": "talos-images", "ossObject": "talos.qcow2", "diskImageSize": 5}
        disk |= more.pop("disk", {})
        inputs = {"imageName": name, "architecture": "x86_64", "bootMode": "UEFI", "platform": "Others Linux"}
        return self.make(IMAGE, name, diskDeviceMappings=[disk], **{**inputs, **more})

    def group(self, name: str = "group", **more: Any) -> dict[str, Any]:
        inputs = {"minSize": 0, "maxSize": 5, "vswitchIds": [self.ids["sw"]], "multiAzPolicy": "BALANCE"}
        return self.make(GROUP, name, **{**inputs, **more})

    def configuration(self, name: str = "configuration", **more: Any) -> dict[str, Any]:
        inputs = {
            "scalingGroupId": self.ids["group"],
            "active": True,
            "enable": True,
            "forceDelete": True,
            "imageId": self.ids["image"],
            "instanceType": "ecs.g7.large",
            "securityGroupId": self.ids["sg"],
            "systemDiskCategory": "cloud_essd",
            "systemDiskSize": 40,
        }
        given = {key: value for key, value in {**inputs, **more}.items() if value is not None}
        return self.make(CONFIGURATION, name, **given)

    def ready(self, **group: Any) -> None:
        """Make all that a scaling configuration needs."""
        self.network()
        self.vswitch()
        self.firewall()
        self.image()
        self.group(**group)

    def machines(self, group: str = "group") -> list[dict[str, Any]]:
        """Return the machines of a scaling group."""
        return [record.doc for record in instances(self.world, self.ids[group])]


def qcow2(virtual: int) -> bytes:
    """Return the beginning of a qcow2 file with a disk of ``virtual`` bytes, and some more."""
    return struct.pack(">4sIQIIQ", b"QFI\xfb", 3, 0, 0, 16, virtual) + bytes(4096)


def b64(text: str | bytes) -> str:
    """Return text or bytes in base64."""
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def packed(text: str) -> str:
    """Return text as gzip, in base64."""
    return b64(gzip.compress(text.encode(), mtime=0))


def refused(code: str, *words: str) -> Any:
    """Expect a refusal with a code and, in this order, some words of its message."""
    return pytest.raises(CloudError, match=f"(?s){code}: .*" + ".*".join(words))
