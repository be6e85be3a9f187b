"""Scaling groups of the simulated Alibaba Cloud: what is refused, and the machines that come and go."""

import hashlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from pulumi.runtime.proto import provider_pb2

from lab import wire
from lab.alicloud import ACTIONS, PACKAGE, scale
from lab.alicloud.accounts import without
from lab.alicloud.ess_configuration import LARGEST_USER_DATA
from lab.provider import SimulatedProvider
from lab.world import CloudError
from tests.lab.alicloud_cloud import CONFIGURATION, FIREWALL, GROUP, HOOK, IMAGE, SWITCH, Cloud, Refused, b64, refused


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    with closing(Cloud(tmp_path)) as cloud:
        yield cloud


@pytest.fixture
def ready(cloud: Cloud) -> Cloud:
    cloud.ready()
    return cloud


# -- groups ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"minSize": 6}, "InvalidParameter.MaxSizeMinSize"),
        ({"desiredCapacity": 6}, "InvalidDesiredCapacity"),
        ({"scalingGroupName": "-x"}, "InvalidScalingGroupName.Malformed"),
        ({"scalingGroupName": "x" * 65}, "InvalidScalingGroupName.Malformed"),
        ({"scalingGroupName": "taken"}, "InvalidScalingGroupName.Duplicate"),
        ({"removalPolicies": ["Youngest"]}, "InvalidParameter"),
        ({"vswitchIds": ["vsw-none"]}, "InvalidVSwitchId.NotFound"),
        ({"vswitchIds": []}, "InvalidVSwitchId.NotFound"),
        ({"tags": {"aliyun-x": "y"}}, "InvalidTagKey.Malformed"),
    ],
)
def test_groups_that_are_refused(ready: Cloud, changes: dict[str, Any], code: str) -> None:
    ready.group("first", scalingGroupName="taken")
    with refused(code):
        ready.group("second", **changes)


def test_the_vswitches_of_a_group_lie_in_one_vpc(ready: Cloud) -> None:
    ready.network("other", "10.9.0.0/16")
    ready.vswitch("far", "10.9.0.0/24", network="other")
    with refused("InvalidParameter.VSwitchId", "one VPC"):
        ready.group("second", vswitchIds=[ready.ids["sw"], ready.ids["far"]])


def test_auto_scaling_needs_its_service_role(ready: Cloud) -> None:
    without(ready.world, "AliyunESSDefaultRole")
    with refused("Forbidden.Unauthorized", "AliyunESSDefaultRole"):
        ready.group("second")


def test_a_group_without_a_configuration_has_no_machines(cloud: Cloud) -> None:
    cloud.ready(minSize=2)
    assert cloud.machines() == []
    with refused("IncorrectScalingGroupStatus"):
        scale(cloud.world, cloud.ids["group"], 3)


def test_a_protected_group_stays(ready: Cloud) -> None:
    ready.change(GROUP, "group", groupDeletionProtection=True)
    ready.configuration()
    with refused("OperationDenied.DeletionProtection"):
        ready.delete(GROUP, "group")
    with refused("OperationDenied.DeletionProtection"):
        ready.delete(CONFIGURATION, "configuration")


def test_hooks(ready: Cloud) -> None:
    made = ready.make(HOOK, "hook", scalingGroupId=ready.ids["group"], lifecycleTransition="SCALE_IN")
    assert (made["heartbeatTimeout"], made["defaultResult"]) == (600, "CONTINUE")
    with refused("InvalidScalingGroupId.NotFound"):
        ready.make(HOOK, "other", scalingGroupId="asg-none", lifecycleTransition="SCALE_IN")


# -- configurations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"scalingGroupId": "asg-none"}, "InvalidScalingGroupId.NotFound"),
        ({"imageId": "m-none"}, "InvalidImageId.NotFound"),
        ({"imageId": None}, "InvalidImageId.NotFound"),
        ({"securityGroupId": None}, "MissingParameter"),
        ({"securityGroupId": "sg-none"}, "InvalidSecurityGroupId.NotFound"),
        ({"instanceType": None}, "MissingParameter"),
        ({"instanceType": "ecs.g99.large"}, "InvalidInstanceType.NotSupported"),
        ({"instanceType": "ecs.g8y.large"}, "InvalidImage.ArchitectureMismatch"),
        ({"instanceType": None, "instanceTypes": ["ecs.g7.large"] * 2}, "InvalidParameter"),
        ({"scalingConfigurationName": "x" * 65}, "InvalidScalingConfigurationName.Malformed"),
        ({"spotStrategy": "Cheap"}, "InvalidParameter"),
        ({"spotStrategy": "SpotWithPriceLimit"}, "InvalidSpotPriceLimit"),
        ({"spotPriceLimits": [{"instanceType": "ecs.g7.large", "priceLimit": 1}]}, "InvalidSpotPriceLimit"),
        ({"httpEndpoint": "on"}, "InvalidParameter"),
        ({"internetMaxBandwidthOut": 101}, "InvalidParameter.InternetMaxBandwidthOut"),
        ({"active": False}, "IncorrectScalingGroupStatus"),
        ({"tags": {f"k{n}": "v" for n in range(21)}}, "InvalidTagCount"),
        ({"tags": {"k" * 65: "v"}}, "InvalidTagKey.Malformed"),
        ({"tags": {"ACS:k": "v"}}, "InvalidTagKey.Malformed"),
        ({"tags": {"k": "v" * 129}}, "InvalidTagValue.Malformed"),
        ({"tags": {"k": "https://v"}}, "InvalidTagValue.Malformed"),
    ],
)
def test_configurations_that_are_refused(ready: Cloud, changes: dict[str, Any], code: str) -> None:
    with refused(code):
        ready.configuration(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"instanceType": "g7.large"}, "prefix must be 'ecs.'"),
        ({"instanceTypes": ["ecs.g7.large"]}, "conflicts"),
        ({"securityGroupIds": ["sg"]}, "conflicts"),
        ({"instanceType": None, "instanceTypes": ["ecs.g7.large"] * 11}, "Too many items"),
        ({"systemDiskCategory": "cloud_auto"}, "systemDiskCategory"),
        ({"systemDiskSize": 19}, "systemDiskSize"),
        ({"systemDiskSize": 501}, "systemDiskSize"),
        ({"internetMaxBandwidthOut": 1025}, "internetMaxBandwidthOut"),
        ({"securityEnhancementStrategy": "Off"}, "securityEnhancementStrategy"),
    ],
)
def test_configurations_that_a_preview_refuses(ready: Cloud, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        ready.configuration(**changes)


def test_the_system_disk_holds_the_image(ready: Cloud) -> None:
    ready.image("large", disk={"diskImageSize": 41})
    with refused("InvalidSystemDiskSize.LessThanImageSize"):
        ready.configuration(imageId=ready.ids["large"])
    ready.configuration(imageId=ready.ids["large"], systemDiskSize=41)


def test_an_image_of_another_region_is_not_there(ready: Cloud) -> None:
    image = ready.ids["image"]
    ready.config["region"] = "cn-beijing"
    ready.network("n2")
    ready.vswitch("s2", zone="cn-beijing-h", network="n2")
    ready.firewall("f2", network="n2")
    ready.group("g2", vswitchIds=[ready.ids["s2"]])
    with refused("InvalidImageId.NotFound", image):
        ready.configuration(scalingGroupId=ready.ids["g2"], securityGroupId=ready.ids["f2"])


def test_the_security_group_is_in_the_vpc_of_the_group(ready: Cloud) -> None:
    ready.network("other", "10.9.0.0/16")
    ready.firewall("far", network="other")
    with refused("InvalidSecurityGroupId.VPCMismatch"):
        ready.configuration(securityGroupId=ready.ids["far"])


def test_user_data_has_a_limit_before_it_is_encoded(ready: Cloud) -> None:
    with refused("InvalidUserData.SizeExceeded", f"{LARGEST_USER_DATA + 1} bytes"):
        ready.configuration(userData=b64("x" * (LARGEST_USER_DATA + 1)))
    with refused("InvalidUserData.SizeExceeded"):
        ready.configuration(userData="#" * (LARGEST_USER_DATA + 1))
    ready.configuration(userData=b64("x" * LARGEST_USER_DATA))


@pytest.mark.parametrize(
    ("given", "seen"),
    [(b64("talos"), b"talos"), ("plain: text", b"plain: text"), ("abcd", b"i\xb7\x1d")],
    ids=["base64", "plain", "plain that looks encoded"],
)
def test_user_data_is_decoded_once(cloud: Cloud, given: str, seen: bytes) -> None:
    cloud.ready(minSize=1)
    assert cloud.configuration(userData=given)["userData"] == given
    assert cloud.machines()[0]["userDataHash"] == hashlib.sha256(seen).hexdigest()


def test_one_configuration_is_active(ready: Cloud) -> None:
    ready.configuration("first")
    ready.configuration("second")
    first, second = ready.read(CONFIGURATION, "first"), ready.read(CONFIGURATION, "second")
    assert first is not None
    assert second is not None
    assert (first["active"], second["active"]) == (False, True)
    with refused("IncorrectScalingConfigurationLifecycleState", "is active"):
        ready.delete(CONFIGURATION, "second")
    ready.delete(CONFIGURATION, "first")


def test_the_active_one_steps_down_for_a_substitute_only(ready: Cloud) -> None:
    ready.configuration("first")
    with refused("IncorrectScalingConfigurationLifecycleState", "last configuration"):
        ready.change(CONFIGURATION, "first", active=False)
    ready.configuration("second", active=False, enable=None)
    with refused("IncorrectScalingConfigurationLifecycleState", "select a substitute"):
        ready.change(CONFIGURATION, "first", active=False)
    ready.change(CONFIGURATION, "first", active=False, substitute=ready.ids["second"])
    second = ready.read(CONFIGURATION, "second")
    assert second is not None
    assert second["active"] is True


def test_the_last_configuration_goes_by_force_and_with_its_group(cloud: Cloud) -> None:
    cloud.ready(minSize=1)
    cloud.configuration(forceDelete=False)
    with refused("IncorrectScalingConfigurationLifecycleState", "force_delete"):
        cloud.delete(CONFIGURATION, "configuration")
    cloud.change(CONFIGURATION, "configuration", forceDelete=True)
    cloud.delete(CONFIGURATION, "configuration")
    assert cloud.machines() == []
    assert cloud.read(GROUP, "group") is None
    cloud.delete(GROUP, "group")


def test_a_configuration_with_machines_stays_while_another_is_active(cloud: Cloud) -> None:
    cloud.ready(minSize=1)
    cloud.configuration("first")
    cloud.configuration("second")
    with refused("InstanceInUse", cloud.machines()[0]["hostName"][2:-1]):
        cloud.delete(CONFIGURATION, "first")


# -- machines -------------------------------------------------------------------------------------------------


def test_enabling_makes_the_least_machines(cloud: Cloud) -> None:
    cloud.ready(minSize=2)
    cloud.configuration(userData=b64("talos"), tags={"pool": "burst"}, instanceName="worker")
    first, second = cloud.machines()
    assert first["privateIp"] != second["privateIp"]
    assert {
        "region": "cn-hangzhou",
        "zoneId": "cn-hangzhou-h",
        "imageId": cloud.ids["image"],
        "instanceType": "ecs.g7.large",
        "vpcId": cloud.ids["net"],
        "securityGroupIds": [cloud.ids["sg"]],
        "publicIp": "",
        "tags": {"pool": "burst"},
        "status": "Running",
    }.items() <= first.items()
    (record, _) = cloud.world.find("alicloud", "instance")
    # What Talos on this cloud calls itself, and what the autoscaler takes for one of its machines.
    assert first["providerId"] == f"cn-hangzhou.{record.id}"
    assert record.id.startswith("i-")
    assert first["hostName"] == f"iZ{record.id[2:]}Z"


def test_bandwidth_gives_public_addresses(cloud: Cloud) -> None:
    cloud.ready(minSize=2)
    cloud.configuration(internetMaxBandwidthOut=100)
    assert len({machine["publicIp"] for machine in cloud.machines()} - {""}) == 2


@pytest.mark.parametrize(("policy", "spread"), [("BALANCE", [2, 2]), ("PRIORITY", [4, 0])])
def test_how_machines_spread_over_zones(cloud: Cloud, policy: str, spread: list[int]) -> None:
    cloud.network()
    cloud.vswitch()
    cloud.vswitch("sw2", "10.3.1.0/24", "cn-hangzhou-i")
    cloud.firewall()
    cloud.image()
    cloud.group(minSize=4, multiAzPolicy=policy, vswitchIds=[cloud.ids["sw"], cloud.ids["sw2"]])
    cloud.configuration()
    zones = [machine["zoneId"] for machine in cloud.machines()]
    assert [zones.count("cn-hangzhou-h"), zones.count("cn-hangzhou-i")] == spread


def test_limits_that_change_make_and_remove_machines(cloud: Cloud) -> None:
    cloud.ready(minSize=1)
    cloud.configuration()
    cloud.change(GROUP, "group", minSize=3)
    before = [machine["number"] for machine in cloud.machines()]
    assert len(before) == 3
    cloud.change(GROUP, "group", minSize=0, maxSize=2)
    # The oldest goes first.
    assert [machine["number"] for machine in cloud.machines()] == before[1:]


def test_a_full_vswitch_takes_no_more(cloud: Cloud) -> None:
    cloud.network()
    cloud.vswitch(cidr="10.3.0.0/29")
    cloud.firewall()
    cloud.image()
    cloud.group(minSize=4)
    # Eight addresses, of which the cloud keeps four.
    cloud.configuration()
    assert len(cloud.machines()) == 4
    with refused("InvalidVSwitchId.IpNotEnough"):
        cloud.change(GROUP, "group", minSize=5)
    assert len(cloud.machines()) == 4


def test_what_machines_use_stays(cloud: Cloud) -> None:
    cloud.ready(minSize=1)
    cloud.configuration()
    with refused("ImageUsingByInstance"):
        cloud.delete(IMAGE, "image")
    with refused("DependencyViolation", "instance"):
        cloud.delete(FIREWALL, "sg")
    with refused("DependencyViolation", "instance"):
        cloud.delete(SWITCH, "sw")
    # The provider's Delete of a group forces.
    cloud.delete(GROUP, "group")
    assert cloud.world.find("alicloud", "instance") == []
    for token, name in [(IMAGE, "image"), (FIREWALL, "sg"), (SWITCH, "sw")]:
        cloud.delete(token, name)


def test_a_new_image_reaches_new_machines_only(cloud: Cloud) -> None:
    cloud.ready(minSize=1)
    cloud.configuration()
    cloud.image("newer")
    cloud.change(CONFIGURATION, "configuration", imageId=cloud.ids["newer"])
    scale(cloud.world, cloud.ids["group"], 2)
    assert [m["imageId"] for m in cloud.machines()] == [cloud.ids["image"], cloud.ids["newer"]]


# -- behind Pulumi's back ---------------------------------------------------------------------------------------


def test_the_autoscaler_grows_a_group(ready: Cloud) -> None:
    ready.configuration()
    assert "desiredCapacity" not in (ready.read(GROUP, "group") or {})
    assert ACTIONS["scale"](ready.world, [ready.ids["group"], "4"]) == f"{ready.ids['group']} has 4 machines"
    group = ready.read(GROUP, "group")
    assert group is not None
    assert group["desiredCapacity"] == 4
    # A change of something else keeps the machines: the provider does not send a size that it was not given.
    assert ready.change(GROUP, "group", tags={"team": "a"})["desiredCapacity"] == 4
    assert len(ready.machines()) == 4
    assert ready.change(GROUP, "group", maxSize=3)["desiredCapacity"] == 3
    assert len(ready.machines()) == 3


def test_an_evicted_machine_is_not_made_again(cloud: Cloud) -> None:
    cloud.ready()
    cloud.configuration()
    scale(cloud.world, cloud.ids["group"], 2)
    victim = cloud.machines()[0]["hostName"]
    assert "evicted" in ACTIONS["evict"](cloud.world, [victim])
    assert [machine["hostName"] for machine in cloud.machines()] != []
    assert victim not in [machine["hostName"] for machine in cloud.machines()]
    assert (cloud.read(GROUP, "group") or {})["desiredCapacity"] == 1


@pytest.mark.parametrize(
    ("action", "words"),
    [("scale", []), ("scale", ["asg-none", "1"]), ("scale", ["group", "x"]), ("evict", []), ("evict", ["i-none"])],
)
def test_actions_say_what_is_wrong(ready: Cloud, action: str, words: list[str]) -> None:
    with pytest.raises(CloudError):
        ACTIONS[action](ready.world, words)


def test_a_size_beyond_the_limits_is_refused(ready: Cloud) -> None:
    ready.configuration()
    with refused("InvalidParameter", "0 to 5"):
        scale(ready.world, ready.ids["group"], 6)


class Context(grpc.ServicerContext):  # type: ignore[misc]
    """One connection of the engine, as far as Diff asks for it."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)

    def peer(self) -> str:
        return "engine"


Context.__abstractmethods__ = frozenset()


@pytest.mark.parametrize(("ignored", "planned"), [([], ["desiredCapacity"]), (["desiredCapacity"], [])])
def test_a_size_that_the_program_never_gave_is_planned_away_unless_ignored(
    ready: Cloud, ignored: list[str], planned: list[str]
) -> None:
    ready.configuration()
    scale(ready.world, ready.ids["group"], 4)
    inputs, state = ready.inputs["group"], ready.read(GROUP, "group")
    assert state is not None
    request = SimpleNamespace(
        urn=ready.call(GROUP, "group").urn,
        olds=wire.encode(state),
        old_inputs=wire.encode(inputs),
        news=wire.encode(inputs),
        ignoreChanges=ignored,
    )
    answer = SimulatedProvider(PACKAGE, ready.world).Diff(request, Context())
    assert list(answer.diffs) == planned
    assert list(answer.replaces) == []
    some = provider_pb2.DiffResponse.DIFF_SOME if planned else provider_pb2.DiffResponse.DIFF_NONE
    assert answer.changes == some
