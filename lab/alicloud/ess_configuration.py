"""Scaling configurations: what the machines of a group are like, and the switch that starts the group.

Sources: alibabacloud.com API pages CreateScalingConfiguration, ModifyScalingConfiguration, EnableScalingGroup,
DeleteScalingConfiguration, "Customize instance user data" (32 KB before it is encoded), "Block Storage";
aliyun/terraform-provider-alicloud resource_alicloud_ess_scaling_configuration.go.
"""

import base64
import binascii
import re

from ..provider import Call
from ..world import CloudError, Record, World
from . import names
from .bridge import FILLED, FIXED, PACKAGE, PLAIN, Attr, BridgedKind, Doc, find, lookup, not_found, one_of, whole
from .ess import delete_contents
from .instance_types import instance_type
from .instances import data_hash, security_groups, settle
from .reachability import verify_reachable

LARGEST_USER_DATA = 32 * 1024
"""Bytes of user data before it is encoded."""
_MOST_TYPES = 10
_CATEGORIES = ("cloud", "ephemeral_ssd", "cloud_ssd", "cloud_essd", "cloud_efficiency", "cloud_essd_xc1")
_STRATEGIES = ("NoSpot", "SpotWithPriceLimit", "SpotAsPriceGo")
_ECS_PREFIX = r"^ecs\..*"


class ScalingConfiguration(BridgedKind):
    """What new machines of a scaling group are like."""

    token = "alicloud:ess/scalingConfiguration:ScalingConfiguration"
    prefix = "asc"
    attrs = {
        "active": FILLED,
        "scalingGroupId": FIXED,
        "systemDiskEncryptAlgorithm": one_of("AES-256", "SM4-128"),
        "instanceType": Attr(
            pattern=_ECS_PREFIX, hint="prefix must be 'ecs.'", conflicts=("instanceTypes", "instanceTypeOverrides")
        ),
        "instanceTypes": Attr(most=_MOST_TYPES, conflicts=("instanceTypeOverrides",)),
        "instanceTypeOverrides": Attr(most=_MOST_TYPES, is_set=True),
        "securityGroupId": Attr(conflicts=("securityGroupIds", "networkInterfaces")),
        "securityGroupIds": Attr(most=16),
        "scalingConfigurationName": FILLED,
        "instanceDescription": Attr(length=(2, 256)),
        "internetChargeType": one_of("PayByBandwidth", "PayByTraffic", computed=True),
        "spotDuration": whole(0, 1),
        "internetMaxBandwidthOut": whole(0, 1024),
        "creditSpecification": one_of("Standard", "Unlimited"),
        "systemDiskCategory": one_of(*_CATEGORIES, default="cloud_efficiency"),
        "securityEnhancementStrategy": one_of("Active", "Deactive", replaces=True),
        "systemDiskSize": whole(20, 500),
        "substitute": FILLED,
        "userData": PLAIN,
        "forceDelete": Attr(default=False),
        "instanceName": Attr(default="ESS-Instance", length=(2, 128)),
        "override": Attr(default=False),
        "password": FIXED,
        "passwordInherit": Attr(default=False),
        "kmsEncryptedPassword": FIXED,
        "spotPriceLimits": Attr(is_set=True),
        "resourcePoolOptionsStrategy": one_of("PrivatePoolFirst", "PrivatePoolOnly", "None", computed=True),
        "dataDisks": Attr(nested={"deleteWithInstance": Attr(default=True), "encrypted": Attr(default=False)}),
    }

    def _rules(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        world, region = call.world, doc["_region"]
        group = lookup(world, "ScalingGroup", doc["scalingGroupId"], region)
        if group is None:
            raise not_found("InvalidScalingGroupId.NotFound", "scaling group", doc["scalingGroupId"])
        self._verify_name(world, id, doc)
        _verify_security_groups(world, group, doc)
        types = _verify_types(doc)
        image = _verify_image(world, region, doc, types)
        _verify_disk(doc, image)
        _verify_payment(doc, types)
        _verify_access(doc)
        names.verify_tags(doc.get("tags"))
        data = decode_user_data(doc.get("userData"))
        doc["_userDataHash"] = data_hash(data)
        self._activate(world, id, group, doc, old)
        owner = lookup(world, "ScalingGroup", group.id)
        if doc["active"] and owner is not None and owner.doc["_state"] == "Active":
            verify_reachable(world, doc, owner, data)
        doc.setdefault("internetChargeType", "PayByTraffic")
        doc.setdefault("substitute", "")
        doc.setdefault("resourcePoolOptionsStrategy", "None")
        doc.setdefault("internetMaxBandwidthOut", 0)

    def _verify_name(self, world: World, id: str, doc: Doc) -> None:
        name = doc.setdefault("scalingConfigurationName", id)
        # CreateScalingConfiguration, parameter ScalingConfigurationName.
        if not 2 <= len(name) <= 64 or re.fullmatch(r"[^\W_][\w.-]*", name) is None:
            raise CloudError(
                "InvalidScalingConfigurationName.Malformed",
                f"The specified value of parameter ScalingConfigurationName is not valid: '{name}'.",
            )
        for other in find(world, self.kind, scalingGroupId=doc["scalingGroupId"], scalingConfigurationName=name):
            if other.id != id:
                raise CloudError(
                    "InvalidScalingConfigurationName.Duplicate", f"The name '{name}' is used by {other.id}."
                )

    def _activate(self, world: World, id: str, group: Record, doc: Doc, old: Doc | None) -> None:
        wanted = doc.get("active")
        was = bool(old and old["active"])
        others = [r for r in find(world, self.kind, scalingGroupId=group.id) if r.id != id]
        if wanted is False and was:
            self._hand_over(world, id, group, doc, others)
        doc["active"] = was if wanted is None else bool(wanted)
        if doc["active"]:
            for other in others:
                if other.doc["active"]:
                    world.put(PACKAGE, self.kind, other.id, other.doc | {"active": False})
        enable = doc.get("enable")
        if enable is None or (old is not None and bool(old.get("enable")) == bool(enable)):
            return
        ready = doc["active"] or any(r.doc["active"] for r in find(world, self.kind, scalingGroupId=group.id))
        if enable and not ready:
            raise CloudError(
                "IncorrectScalingGroupStatus",
                f"Please active a scaling configuration before enabling scaling group {group.id}.",
            )
        state = "Active" if enable else "Inactive"
        world.put(PACKAGE, "ScalingGroup", group.id, group.doc | {"_state": state})

    def _hand_over(self, world: World, id: str, group: Record, doc: Doc, others: list[Record]) -> None:
        """Let another configuration be the active one, as the provider does when a program makes this one inactive."""
        if not others:
            raise CloudError(
                "IncorrectScalingConfigurationLifecycleState",
                f"Current scaling configuration {id} is the last configuration for the scaling group "
                f"{group.id}, and it "
                "can't be inactive.",
            )
        substitute = next((r for r in others if r.id == doc.get("substitute")), None)
        if substitute is None:
            raise CloudError(
                "IncorrectScalingConfigurationLifecycleState",
                "Before inactivating current scaling configuration, you must select a substitute for scaling "
                "group from: "
                f"{', '.join(r.id for r in others)}.",
            )
        world.put(PACKAGE, self.kind, substitute.id, substitute.doc | {"active": True})

    def _done(self, call: Call, id: str, doc: Doc, old: Doc | None) -> None:
        settle(call.world, doc["scalingGroupId"])

    def _before_delete(self, call: Call, record: Record) -> None:
        world, group = call.world, record.doc["scalingGroupId"]
        others = [r for r in find(world, self.kind, scalingGroupId=group) if r.id != record.id]
        if not others:
            # resource_alicloud_ess_scaling_configuration.go, Delete: the last one goes only with its group.
            if not record.doc["forceDelete"]:
                raise CloudError(
                    "IncorrectScalingConfigurationLifecycleState",
                    f"Current scaling configuration {record.id} is the last configuration for the scaling group "
                    f"{group}. "
                    "Please launch a new active scaling configuration or set 'force_delete' to 'true' to "
                    "delete it with "
                    "deleting its scaling group.",
                )
            owner = lookup(world, "ScalingGroup", group)
            if owner is not None and owner.doc["groupDeletionProtection"]:
                raise CloudError(
                    "OperationDenied.DeletionProtection", f"The scaling group {group} has deletion protection."
                )
            delete_contents(world, group)
            world.remove(PACKAGE, "ScalingGroup", group)
        elif found := find(world, "instance", scalingConfigurationId=record.id):
            raise CloudError(
                "InstanceInUse",
                "You cannot delete a scaling configuration or scaling group while there is an instance associated with "
                f"it: {found[0].id} was made with {record.id}.",
            )
        elif record.doc["active"]:
            raise CloudError(
                "IncorrectScalingConfigurationLifecycleState",
                f"The current lifecycle state of scaling configuration {record.id} does not support this "
                "action: it is active.",
            )


def decode_user_data(text: str | None) -> bytes | None:
    """Return user data as the machine gets it; the provider encodes what is not base64. CloudError if too long."""
    if not text:
        return None
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = text.encode()
    if len(data) > LARGEST_USER_DATA:
        raise CloudError(
            "InvalidUserData.SizeExceeded",
            f"The specified parameter UserData exceeds the size limit: {len(data)} bytes before it is encoded, "
            "and at most "
            f"{LARGEST_USER_DATA} are allowed.",
        )
    return data


def _verify_security_groups(world: World, group: Record, doc: Doc) -> None:
    ids = security_groups(doc)
    if not ids:
        raise CloudError("MissingParameter", "security_group_id or security_group_ids must be assigned")
    for id in ids:
        found = lookup(world, "SecurityGroup", id, doc["_region"])
        if found is None:
            raise not_found("InvalidSecurityGroupId.NotFound", "security group", id)
        if found.doc["vpcId"] != group.doc["_vpc"]:
            raise CloudError(
                "InvalidSecurityGroupId.VPCMismatch",
                f"The specified security group {id} and the vSwitches of {group.id} are not in the same VPC.",
            )


def _verify_types(doc: Doc) -> list[str]:
    overrides = [str(o.get("instanceType")) for o in doc.get("instanceTypeOverrides") or ()]
    types = [*(doc.get("instanceTypes") or ()), *overrides]
    types += [doc["instanceType"]] if doc.get("instanceType") else []
    if not types and not doc.get("instancePatternInfos"):
        raise CloudError(
            "MissingParameter",
            "instance_type or instance_types or instance_type_override or instance_pattern_info must be assigned",
        )
    for name in types:
        if instance_type(name) is None:
            raise CloudError(
                "InvalidInstanceType.NotSupported", f"The specified InstanceType is not supported: {name}."
            )
    if len(set(types)) < len(types):
        raise CloudError("InvalidParameter", "An instance type stands twice.")
    return types


def _verify_image(world: World, region: str, doc: Doc, types: list[str]) -> Record:
    image = lookup(world, "ImageImport", doc.get("imageId"), region)
    if image is None:
        raise not_found("InvalidImageId.NotFound", "image", doc.get("imageId"))
    if image.doc["_status"] != "Available":
        raise CloudError("InvalidImageId.NotAvailable", f"The image {image.id} is {image.doc['_status']}.")
    for name in types:
        found = instance_type(name)
        if found is not None and found.arch == "arm64":
            raise CloudError(
                "InvalidImage.ArchitectureMismatch",
                f"The instance type {name} has Arm processors, and the image {image.id} is for x86_64.",
            )
    return image


def _verify_disk(doc: Doc, image: Record) -> None:
    least = max(20, int(image.doc["_size"]))
    size = int(doc.setdefault("systemDiskSize", least))
    if size < least:
        raise CloudError(
            "InvalidSystemDiskSize.LessThanImageSize",
            f"The system disk of {size} GiB is smaller than the image's {least} GiB.",
        )


def _verify_payment(doc: Doc, types: list[str]) -> None:
    strategy = doc.get("spotStrategy") or "NoSpot"
    if strategy not in _STRATEGIES:
        raise CloudError("InvalidParameter", f"SpotStrategy must be one of {', '.join(_STRATEGIES)}, not {strategy}.")
    limits = doc.get("spotPriceLimits") or []
    if strategy != "SpotWithPriceLimit":
        if limits:
            raise CloudError("InvalidSpotPriceLimit", f"A price limit needs SpotWithPriceLimit, not {strategy}.")
        return
    if not limits:
        raise CloudError("InvalidSpotPriceLimit", "SpotWithPriceLimit needs a price limit.")
    for limit in limits:
        if limit.get("instanceType") not in types:
            raise CloudError("InvalidSpotPriceLimit", f"No machine of the group is a {limit.get('instanceType')}.")
        if float(limit.get("priceLimit") or 0) <= 0:
            raise CloudError("InvalidSpotPriceLimit", "A price limit must be above zero.")


def _verify_access(doc: Doc) -> None:
    # CreateScalingConfiguration: 0 to 100 Mbit/s unless the bandwidth itself is paid for (then to 1024).
    most = 1024 if doc.get("internetChargeType") == "PayByBandwidth" else 100
    if not 0 <= int(doc.get("internetMaxBandwidthOut") or 0) <= most:
        raise CloudError("InvalidParameter.InternetMaxBandwidthOut", f"InternetMaxBandwidthOut must be 0 to {most}.")
    if doc.get("httpEndpoint") not in (None, "", "enabled", "disabled"):
        raise CloudError("InvalidParameter", "HttpEndpoint must be enabled or disabled.")
