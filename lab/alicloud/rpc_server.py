"""ECS and Auto Scaling on loopback, as far as images and rolls go: the calls of the RPC style, signed by ACS3.

The same records and rules as the simulated provider's: an image that is imported here is seen there.

Sources: help.aliyun.com "Request syntax and signature method V3" (ACS3-HMAC-SHA256), ECS API pages DescribeImages,
ImportImage, DeleteImage, TagResources, UntagResources, DescribeInstances, Auto Scaling API page
DescribeScalingConfigurations (2022-02-22): parameters, paging, error codes; alibabacloud-ecs20140526 and
alibabacloud-ess20220222 (names in answers).

A planned fault can strike ``create`` (ImportImage), ``read`` (DescribeImages), ``update`` (TagResources) and ``delete``
(DeleteImage) of the kind ``ImageImport``, and ``scale`` (ScaleWithAdjustment) and ``remove`` (RemoveInstances) of
``ScalingGroup``.
"""

import hashlib
import hmac
import json
import re
import urllib.parse
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from ..http_base import Handler, LoopbackServer
from ..provider import Call
from ..world import CloudError, LostAnswer, Record, World
from . import scaling_actions, stock
from .bridge import PACKAGE, Doc, find, lookup, region_of
from .instances import KIND as INSTANCE
from .instances import instances
from .names import verify_tags
from .package import PACKAGE as PROVIDER

KEYS = {"LTAIlab": "lab"}
"""Access keys that are taken, with their secrets."""
TOKEN = "alicloud:ecs/imageImport:ImageImport"
"""What planned faults name."""
GROUP = "alicloud:ess/scalingGroup:ScalingGroup"
_VERSIONS = {"ess": "2022-02-22", "ecs": "2014-05-26"}
_FORMATS = ("RAW", "VHD", "QCOW2")
_STATES = ("Creating", "Waiting", "Available", "UnAvailable", "CreateFailed", "Deprecated")
_STATUS = {"InvalidImageId.NotFound": 404, "InternalError": 500}
_FORBIDDEN = ("ImageUsingByInstance", "ImageIsImporting", "NoSetRoletoECSServiceAccount", "OperationDenied")
_MOST_TAGS = 20

Parameters = dict[str, str]


class RpcServer(LoopbackServer):
    """Serves the images of a world; an import takes ``polls`` answers of DescribeImages until it is done."""

    def __init__(self, world: World, *, polls: int = 0, keys: Mapping[str, str] = KEYS) -> None:
        super().__init__(type("_Handler", (_Rpc,), {"world": world, "polls": polls, "keys": dict(keys)}))


class _Rpc(Handler):
    world: World
    polls: int
    keys: dict[str, str]

    def do_POST(self) -> None:
        body = self.body()
        try:
            action = self._verified(body)
            self._json(200, action(self._parameters(body)))
        except CloudError as error:
            status = _STATUS.get(error.code, 403 if error.code.startswith(_FORBIDDEN) else 400)
            self._json(status, {"Code": error.code, "Message": error.message})
        except LostAnswer:
            self.close_connection = True

    def _json(self, status: int, content: Doc) -> None:
        content = {"RequestId": f"{self.world.next('rpc-request'):032X}", **content}
        self.answer(status, {"Content-Type": "application/json;charset=utf-8"}, json.dumps(content).encode())

    def _verified(self, body: bytes) -> Callable[[Parameters], Doc]:
        """Check the signature, and return what answers."""
        given = {name.lower(): value for name, value in self.headers.items()}
        found = re.fullmatch(
            r"ACS3-HMAC-SHA256 Credential=([^,]+),SignedHeaders=([^,]+),Signature=([0-9a-f]{64})",
            given.get("authorization", ""),
        )
        if found is None:
            raise CloudError("MissingAccessKeyId", "The request has no signature of the version 3.")
        if found[1] not in self.keys:
            raise CloudError("InvalidAccessKeyId.NotFound", "Specified access key is not found.")
        parts = urllib.parse.urlsplit(self.path)
        names = found[2].split(";")
        if missing := {"host", "x-acs-action", "x-acs-version", "x-acs-date", "x-acs-content-sha256"} - set(names):
            raise CloudError("IncompleteSignature", f"Not signed: {', '.join(sorted(missing))}.")
        payload = hashlib.sha256(body).hexdigest()
        if given.get("x-acs-content-sha256") != payload:
            raise CloudError("InvalidContentSha256", "The digest of the content does not match.")
        query = sorted(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        canonical = "\n".join(
            [
                *(self.command, parts.path or "/"),
                "&".join(f"{_quoted(key)}={_quoted(value)}" for key, value in query),
                *(f"{name}:{given.get(name, '').strip()}" for name in names),
                *("", found[2], payload),
            ]
        )
        text = f"ACS3-HMAC-SHA256\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        expected = hmac.new(self.keys[found[1]].encode(), text.encode(), hashlib.sha256).hexdigest()
        if not hmac.compare_digest(expected, found[3]):
            raise CloudError("SignatureDoesNotMatch", "Specified signature does not match our calculation.")
        action, version = given["x-acs-action"], given["x-acs-version"]
        if _ACTIONS.get(action) is None or _VERSIONS[_ACTIONS[action][0]] != version:
            raise CloudError("InvalidAction.NotFound", f"The lab does not know {action} of {version}.")
        self._known = _ACTIONS[action][1]
        work: Callable[[Parameters], Doc] = getattr(self, f"_{action}")
        return work

    def _parameters(self, body: bytes) -> Parameters:
        query = urllib.parse.urlsplit(self.path).query
        given = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        given |= dict(urllib.parse.parse_qsl(body.decode(), keep_blank_values=True))
        for name in given:
            if re.sub(r"\.\d+", ".N", name) not in (*self._known, "RegionId"):
                raise CloudError("InvalidParameter", f"The lab does not know the parameter {name}.")
        if not given.get("RegionId"):
            raise CloudError("MissingParameter", "The input parameter RegionId is mandatory.")
        return given

    # -- images -----------------------------------------------------------------------------------------------

    def _call(self, given: Parameters, name: str = "image") -> Call:
        return Call(self.world, {"region": given["RegionId"]}, f"::{name}")

    def _image(self, given: Parameters, id: str) -> Record:
        record = lookup(self.world, "ImageImport", id, given["RegionId"])
        if record is None:
            raise CloudError("InvalidImageId.NotFound", "The specified ImageId does not exist.")
        return record

    def _DescribeImages(self, given: Parameters) -> Doc:  # noqa: N802 - the cloud's own name
        self.world.strike("read", TOKEN)
        with self.world.transaction():
            for record in find(self.world, "ImageImport", _status="Creating", _region=given["RegionId"]):
                left = int(record.doc["_polls"]) - 1
                state = "Creating" if left > 0 else record.doc.get("_ends", "Available")
                self.world.put(PACKAGE, record.kind, record.id, {**record.doc, "_polls": left, "_status": state})
        status = given.get("Status") or "Available"
        states = _STATES if status == "ALL" else tuple(status.split(","))
        if unknown := set(states) - set(_STATES):
            raise CloudError("InvalidStatus.ValueNotSupported", f"There is no such state: {', '.join(unknown)}.")
        alias = given.get("ImageOwnerAlias")
        wanted = {tag["Key"]: tag.get("Value", "") for tag in _listed(given, "Tag")}
        found = [
            record
            for record in find(self.world, "ImageImport", _region=given["RegionId"])
            if alias in (None, "self")
            and record.doc["_status"] in states
            and given.get("ImageId") in (None, record.id)
            and (given.get("ImageName") or "") in record.doc["imageName"]
            and all((record.doc.get("_tags") or {}).get(key) == value for key, value in wanted.items())
        ]
        shown, page = _page(found, given, most=100)
        return {**page, "Images": {"Image": [_image(record) for record in shown]}}

    def _ImportImage(self, given: Parameters) -> Doc:  # noqa: N802
        token = given.get("ClientToken")
        if token and (before := find(self.world, "ImageImport", _token=token)):
            return {"ImageId": before[0].id, "TaskId": before[0].doc["_task"], "RegionId": given["RegionId"]}
        mappings = _listed(given, "DiskDeviceMapping")
        for mapping in mappings:
            if (form := mapping.get("Format")) is not None and form.upper() not in _FORMATS:
                raise CloudError("InvalidImageFormat.Malformed", f"There is no format {form}.")
            if not (mapping.get("DiskImageSize") or "").isdecimal():
                raise CloudError("InvalidDiskImageSize.Malformed", "DiskImageSize must be a number.")
        names = {
            "architecture": ("Architecture", "x86_64"),
            "osType": ("OSType", "linux"),
            "platform": ("Platform", None),
            "bootMode": ("BootMode", None),
            "imageName": ("ImageName", None),
            "description": ("Description", None),
        }
        inputs: Doc = {key: given.get(name, default) for key, (name, default) in names.items()}
        if inputs["architecture"] not in ("x86_64", "i386", "arm64"):
            raise CloudError("InvalidArchitecture.Malformed", f"There is no architecture {inputs['architecture']}.")
        if inputs["bootMode"] not in (None, "BIOS", "UEFI"):
            raise CloudError("InvalidParameter.BootMode", f"BootMode cannot be {inputs['bootMode']}.")
        if support := given.get("Features.NvmeSupport"):
            inputs["features"] = {"nvmeSupport": support}
        inputs["diskDeviceMappings"] = [
            {
                "format": "qcow2" if mapping.get("Format", "").upper() == "QCOW2" else mapping.get("Format"),
                "ossBucket": mapping.get("OSSBucket"),
                "ossObject": mapping.get("OSSObject"),
                "diskImageSize": int(mapping["DiskImageSize"]),
            }
            for mapping in mappings
        ]
        tags = self._tags(_listed(given, "Tag"), {})
        lost = self.world.strike("create", TOKEN)
        call = self._call(given)
        with self.world.transaction():
            id, _ = PROVIDER.kinds[TOKEN].create(call, inputs)
            doc = self.world.get(PACKAGE, "ImageImport", id) or {}
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            state = "Creating" if self.polls else "Available"
            task = self.world.new_id("t")
            notes = {"_tags": tags, "_created": now, "_status": state, "_polls": self.polls}
            self.world.put(PACKAGE, "ImageImport", id, {**doc, **notes, "_token": token, "_task": task})
        self.world.event(PACKAGE, "create", TOKEN, id, inputs["imageName"] or "")
        if lost:
            raise LostAnswer
        return {"ImageId": id, "TaskId": task, "RegionId": region_of(call)}

    def _DeleteImage(self, given: Parameters) -> Doc:  # noqa: N802
        record = self._image(given, given.get("ImageId", ""))
        if record.doc["_status"] == "Creating":
            raise CloudError("ImageIsImporting", "The specified Image is importing.")
        lost = self.world.strike("delete", TOKEN)
        if given.get("Force") == "true":
            self.world.remove(PACKAGE, record.kind, record.id)
        else:
            PROVIDER.kinds[TOKEN].delete(self._call(given), record.id, record.doc)
        self.world.event(PACKAGE, "delete", TOKEN, record.id, record.doc["imageName"])
        if lost:
            raise LostAnswer
        return {}

    # -- tags -------------------------------------------------------------------------------------------------

    def _TagResources(self, given: Parameters) -> Doc:  # noqa: N802
        if given.get("ResourceType") != "image":
            raise CloudError("InvalidResourceType.NotFound", "The lab tags images only.")
        self.world.strike("update", TOKEN)
        for id in _values(given, "ResourceId"):
            record = self._image(given, id)
            tags = self._tags(_listed(given, "Tag"), record.doc.get("_tags") or {})
            self.world.put(PACKAGE, record.kind, id, {**record.doc, "_tags": tags})
        return {}

    def _UntagResources(self, given: Parameters) -> Doc:  # noqa: N802
        if given.get("ResourceType") != "image":
            raise CloudError("InvalidResourceType.NotFound", "The lab tags images only.")
        gone = _values(given, "TagKey")
        for id in _values(given, "ResourceId"):
            record = self._image(given, id)
            tags = {key: value for key, value in (record.doc.get("_tags") or {}).items() if key not in gone}
            self.world.put(PACKAGE, record.kind, id, {**record.doc, "_tags": tags})
        return {}

    def _tags(self, given: list[Parameters], before: dict[str, str]) -> dict[str, str]:
        tags = {**before, **{tag["Key"]: tag.get("Value", "") for tag in given}}
        verify_tags(tags)
        if len(tags) > _MOST_TAGS:
            raise CloudError("NumberExceed.Tags", f"A resource has at most {_MOST_TAGS} tags.")
        return tags

    # -- who uses images --------------------------------------------------------------------------------------

    def _DescribeInstances(self, given: Parameters) -> Doc:  # noqa: N802
        found = [
            record
            for record in find(self.world, INSTANCE, region=given["RegionId"])
            if given.get("ImageId") in (None, record.doc["imageId"])
        ]
        shown, page = _page(found, given, most=100)
        items = [
            {"InstanceId": r.id, "ImageId": r.doc["imageId"], "Status": r.doc["status"], "RegionId": r.doc["region"]}
            for r in shown
        ]
        return {**page, "Instances": {"Instance": items}}

    def _DescribeScalingConfigurations(self, given: Parameters) -> Doc:  # noqa: N802
        found = [
            record
            for record in find(self.world, "ScalingConfiguration", _region=given["RegionId"])
            if given.get("ScalingGroupId") in (None, record.doc["scalingGroupId"])
        ]
        shown, page = _page(found, given, most=50)
        items = [
            {
                "ScalingConfigurationId": record.id,
                "ScalingGroupId": record.doc["scalingGroupId"],
                "ImageId": record.doc["imageId"],
                "LifecycleState": "Active" if record.doc["active"] else "Inactive",
                "Tags": [{"Key": key, "Value": value} for key, value in (record.doc.get("tags") or {}).items()],
            }
            for record in shown
        ]
        return {**page, "ScalingConfigurations": items}

    # -- stock ------------------------------------------------------------------------------------------------

    def _DescribeAvailableResource(self, given: Parameters) -> Doc:  # noqa: N802
        if given.get("DestinationResource") != "InstanceType" or not given.get("InstanceType"):
            raise CloudError("InvalidParameter", "The lab knows the stock of one instance type.")
        return stock.available(self.world, given["RegionId"], given["InstanceType"])

    # -- machines of scaling groups ---------------------------------------------------------------------------

    def _DescribeScalingGroups(self, given: Parameters) -> Doc:  # noqa: N802
        ids = _values(given, "ScalingGroupIds")
        found = [r for r in find(self.world, "ScalingGroup", _region=given["RegionId"]) if not ids or r.id in ids]
        shown, page = _page(found, given, most=50)
        return {**page, "ScalingGroups": [scaling_actions.shown_group(self.world, record) for record in shown]}

    def _DescribeScalingInstances(self, given: Parameters) -> Doc:  # noqa: N802
        group = scaling_actions.group_of(self.world, given.get("ScalingGroupId", ""), given["RegionId"])
        shown, page = _page(instances(self.world, group.id), given, most=50)
        return {**page, "ScalingInstances": [scaling_actions.shown_instance(self.world, record) for record in shown]}

    def _DescribeScalingActivities(self, given: Parameters) -> Doc:  # noqa: N802
        group, ids = given.get("ScalingGroupId"), _values(given, "ScalingActivityIds")
        if (group is None) == (not ids):
            raise CloudError("InvalidParameter", "One of ScalingGroupId and ScalingActivityIds is required.")
        with self.world.transaction():
            found = scaling_actions.activities(self.world, group, ids)
        wanted = given.get("StatusCode")
        found = [record for record in found if wanted in (None, scaling_actions.state_of(record))]
        shown, page = _page(found, given, most=50)
        items = [{"ScalingActivityId": r.id, "StatusCode": scaling_actions.state_of(r)} for r in shown]
        return {**page, "ScalingActivities": items}

    def _ScaleWithAdjustment(self, given: Parameters) -> Doc:  # noqa: N802
        lost = self.world.strike("scale", GROUP)
        with self.world.transaction():
            group = scaling_actions.group_of(self.world, given.get("ScalingGroupId", ""), given["RegionId"])
            kind, value = given.get("AdjustmentType", ""), int(given.get("AdjustmentValue") or 0)
            id = scaling_actions.adjust(self.world, group, kind, value, given.get("ClientToken", ""), self.polls)
        self.world.event(PACKAGE, "scale", "ScalingGroup", group.id, str(value))
        if lost:
            raise LostAnswer
        return {"ScalingActivityId": id}

    def _RemoveInstances(self, given: Parameters) -> Doc:  # noqa: N802
        lost = self.world.strike("remove", GROUP)
        if given.get("RemovePolicy", "release") not in ("release", "recycle"):
            raise CloudError("InvalidParameter", "RemovePolicy must be release or recycle.")
        with self.world.transaction():
            group = scaling_actions.group_of(self.world, given.get("ScalingGroupId", ""), given["RegionId"])
            ids, token = _values(given, "InstanceIds"), given.get("ClientToken", "")
            decrease = given.get("DecreaseDesiredCapacity", "true").lower() != "false"
            id = scaling_actions.release(self.world, group, ids, decrease, token, self.polls)
        if lost:
            raise LostAnswer
        return {"ScalingActivityId": id}


# What the lab takes of each action; `N` stands for a number.
_ACTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "DescribeImages": (
        "ecs",
        ("Status", "ImageOwnerAlias", "PageSize", "PageNumber", "ImageId", "ImageName", "Tag.N.Key", "Tag.N.Value"),
    ),
    "ImportImage": (
        "ecs",
        (
            *("ImageName", "Description", "Architecture", "OSType", "Platform", "BootMode", "Features.NvmeSupport"),
            *(f"DiskDeviceMapping.N.{name}" for name in ("Format", "OSSBucket", "OSSObject", "DiskImageSize")),
            *("Tag.N.Key", "Tag.N.Value", "ClientToken"),
        ),
    ),
    "DeleteImage": ("ecs", ("ImageId", "Force")),
    "TagResources": ("ecs", ("ResourceType", "ResourceId.N", "Tag.N.Key", "Tag.N.Value")),
    "UntagResources": ("ecs", ("ResourceType", "ResourceId.N", "TagKey.N")),
    "DescribeAvailableResource": (
        "ecs",
        (
            *("DestinationResource", "ResourceType", "InstanceChargeType", "IoOptimized", "InstanceType"),
            "SpotStrategy",
        ),
    ),
    "DescribeInstances": ("ecs", ("ImageId", "PageSize", "PageNumber")),
    "DescribeScalingConfigurations": ("ess", ("ScalingGroupId", "PageSize", "PageNumber")),
    "DescribeScalingGroups": ("ess", ("ScalingGroupIds.N", "PageSize", "PageNumber")),
    "DescribeScalingInstances": ("ess", ("ScalingGroupId", "PageSize", "PageNumber")),
    "DescribeScalingActivities": (
        "ess",
        ("ScalingGroupId", "ScalingActivityIds.N", "StatusCode", "PageSize", "PageNumber"),
    ),
    "ScaleWithAdjustment": (
        "ess",
        ("ScalingGroupId", "AdjustmentType", "AdjustmentValue", "SyncActivity", "ClientToken"),
    ),
    "RemoveInstances": (
        "ess",
        ("ScalingGroupId", "InstanceIds.N", "RemovePolicy", "DecreaseDesiredCapacity", "ClientToken"),
    ),
}


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="-_.~")


def _values(given: Parameters, name: str) -> list[str]:
    found = [(int(m[1]), value) for key, value in given.items() if (m := re.fullmatch(rf"{name}\.(\d+)", key))]
    return [value for _, value in sorted(found)]


def _listed(given: Parameters, name: str) -> list[Parameters]:
    """Return a list of structures, such as ``Tag.1.Key`` and ``Tag.1.Value``."""
    items: dict[int, Parameters] = {}
    for key, value in given.items():
        if match := re.fullmatch(rf"{name}\.(\d+)\.(\w+)", key):
            items.setdefault(int(match[1]), {})[match[2]] = value
    return [items[number] for number in sorted(items)]


def _page(found: list[Record], given: Parameters, *, most: int) -> tuple[list[Record], dict[str, Any]]:
    size, number = int(given.get("PageSize") or 10), int(given.get("PageNumber") or 1)
    if not 1 <= size <= most or number < 1:
        raise CloudError("InvalidParameter", f"PageSize must be 1 to {most}, and PageNumber 1 or more.")
    shown = found[(number - 1) * size : number * size]
    return shown, {"PageNumber": number, "PageSize": size, "TotalCount": len(found)}


def _image(record: Record) -> Doc:
    doc = record.doc
    return {
        "ImageId": record.id,
        "ImageName": doc["imageName"],
        "Description": doc.get("description", ""),
        "Status": doc["_status"],
        "Progress": "100%" if doc["_status"] == "Available" else "0%",
        "Architecture": doc["architecture"],
        "BootMode": doc["bootMode"],
        "OSType": doc["osType"],
        "Platform": doc["platform"],
        "Size": doc["_size"],
        "ImageOwnerAlias": "self",
        "CreationTime": doc.get("_created", "2026-01-01T00:00:00Z"),
        "Tags": {"Tag": [{"TagKey": key, "TagValue": value} for key, value in (doc.get("_tags") or {}).items()]},
        "DiskDeviceMappings": {
            "DiskDeviceMapping": [
                {
                    "Format": str(mapping.get("format") or "").upper(),
                    "ImportOSSBucket": mapping.get("ossBucket"),
                    "ImportOSSObject": mapping.get("ossObject"),
                    "Size": str(mapping.get("diskImageSize")),
                }
                for mapping in doc["diskDeviceMappings"]
            ]
        },
    }
