"""Rules of the simulated Alibaba Cloud: network, images, storage, identities, and how the provider treats inputs."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab import sdk_schema
from lab.alicloud import PACKAGE
from lab.alicloud.accounts import without
from lab.alicloud.ecs import MOST_RULES
from lab.provider import Call
from lab.sdk_schema import UNKNOWN
from tests.lab.alicloud_cloud import (
    ACL,
    BOND,
    BUCKET,
    EIP,
    FIREWALL,
    GIB,
    GROUP,
    HOOK,
    IMAGE,
    KEY,
    NAT,
    NETWORK,
    OIDC,
    POLICY,
    RANGES,
    ROLE,
    ROLE_POLICY,
    RULE,
    SNAT,
    SWITCH,
    USER,
    USER_POLICY,
    Cloud,
    Refused,
    qcow2,
    refused,
)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    with closing(Cloud(tmp_path)) as cloud:
        yield cloud


@pytest.fixture
def net(cloud: Cloud) -> Cloud:
    cloud.network()
    cloud.vswitch()
    return cloud


# -- the provider ---------------------------------------------------------------------------------------------


def test_every_schema_entry_is_an_input_of_the_sdk() -> None:
    for kind in PACKAGE.kinds.values():
        schema = sdk_schema.resource(kind.token)
        assert schema is not None, kind.token
        assert set(kind.attrs) <= set(schema.inputs), kind.token  # type: ignore[attr-defined]
        assert kind.replace_on <= set(schema.inputs), kind.token


def test_a_provider_needs_a_region() -> None:
    assert list(PACKAGE.check_config({})) != []
    assert list(PACKAGE.check_config({"region": "cn-hangzhou"})) == []
    assert list(PACKAGE.check_config({"region": UNKNOWN})) == []


def test_the_account_is_always_the_same(cloud: Cloud) -> None:
    account = PACKAGE.functions["alicloud:index/getAccount:getAccount"]
    assert account(Call(cloud.world, cloud.config), {}) == {"id": "1234567890123456"}


def test_resources_of_another_region_are_not_there(net: Cloud) -> None:
    net.config["region"] = "eu-central-1"
    assert net.read(NETWORK, "net") is None
    with refused("InvalidVpcId.NotFound"):
        net.vswitch("far", "10.3.5.0/24", "eu-central-1a")
    net.delete(NETWORK, "net")
    net.config["region"] = "cn-hangzhou"
    assert net.read(NETWORK, "net") is not None


def test_a_preview_knows_inputs_only(cloud: Cloud) -> None:
    kind, call = cloud.kind(NETWORK), cloud.call(NETWORK, "net")
    schema = sdk_schema.resource(kind.token)
    assert schema is not None
    known = kind.preview(call, {"cidrBlock": "10.3.0.0/16"}, schema.outputs)
    assert known["cidrBlock"] == "10.3.0.0/16"
    assert known["routeTableId"] is UNKNOWN
    assert known["vpcName"] is UNKNOWN
    # Optional and never filled in by the cloud: no value rather than an unknown one.
    assert "description" not in known


def test_an_update_keeps_what_the_cloud_filled_in(cloud: Cloud) -> None:
    cloud.network()
    before = cloud.read(NETWORK, "net")
    after = cloud.change(NETWORK, "net", description="more")
    assert before is not None
    assert after == before | {"description": "more"}
    assert "description" not in cloud.change(NETWORK, "net", description=None)


def test_defaults_of_the_schema_are_inputs(cloud: Cloud) -> None:
    filled = cloud.kind(RULE).defaults(cloud.call(RULE, "r"), {}, {})
    assert filled == {"policy": "accept", "priority": 1, "portRange": "-1/-1"}
    disk = {"format": "qcow2"}
    filled = cloud.kind(IMAGE).defaults(cloud.call(IMAGE, "i"), {"diskDeviceMappings": [disk]}, {})
    assert filled["diskDeviceMappings"] == [{"format": "qcow2", "diskImageSize": 5}]


def test_a_generated_name_stays(cloud: Cloud) -> None:
    cloud.make(USER, "someone")
    name = cloud.inputs["someone"]["name"]
    assert name.startswith("someone-")
    cloud.change(USER, "someone", comments="here")
    assert cloud.inputs["someone"]["name"] == name


@pytest.mark.parametrize(
    ("token", "inputs", "words"),
    [
        (SWITCH, {"vpcId": "v", "cidrBlock": "10.3.0.0/24"}, "zoneId"),
        (NAT, {"vpcId": "v", "natType": "Big"}, "natType"),
        (NAT, {"vpcId": "v", "paymentType": "PayAsYouGo", "instanceChargeType": "PostPaid"}, "conflicts"),
        (SNAT, {"snatTableId": "s", "snatIp": "1.2.3.4", "sourceCidr": "c", "sourceVswitchId": "v"}, "conflicts"),
        (EIP, {"internetChargeType": "Free"}, "internetChargeType"),
        (RULE, {"securityGroupId": "s", "type": "in", "ipProtocol": "tcp", "cidrIp": "0.0.0.0/0"}, "type"),
        (RULE, {"securityGroupId": "s", "type": "ingress", "ipProtocol": "sctp", "cidrIp": "0.0.0.0/0"}, "ipProtocol"),
        (RULE, {"securityGroupId": "s", "type": "ingress", "ipProtocol": "tcp"}, "one of cidrIp"),
        (
            RULE,
            {"securityGroupId": "s", "type": "egress", "ipProtocol": "all", "cidrIp": "c", "priority": 101},
            "priority",
        ),
        (RANGES, {"addressFamily": "IPv4", "maxEntries": 201, "entries": [], "prefixListName": "p"}, "maxEntries"),
        (RANGES, {"addressFamily": "IPv5", "maxEntries": 20, "entries": [], "prefixListName": "p"}, "addressFamily"),
        (IMAGE, {"architecture": "arm64", "diskDeviceMappings": [{}]}, "architecture"),
        (IMAGE, {"diskDeviceMappings": [{"format": "VMDK"}]}, r"diskDeviceMappings\[0\].format"),
        (GROUP, {"minSize": 0, "maxSize": 2001}, "maxSize"),
        (GROUP, {"minSize": -1, "maxSize": 1}, "minSize"),
        (GROUP, {"minSize": 0, "maxSize": 1, "multiAzPolicy": "ANY"}, "multiAzPolicy"),
        (GROUP, {"minSize": 0, "maxSize": 1, "removalPolicies": ["a", "b", "c"]}, "removalPolicies"),
        (HOOK, {"scalingGroupId": "g", "lifecycleTransition": "BOTH"}, "lifecycleTransition"),
        (HOOK, {"scalingGroupId": "g", "lifecycleTransition": "SCALE_IN", "heartbeatTimeout": 29}, "heartbeatTimeout"),
        (BUCKET, {"bucket": "ab"}, "bucket"),
        (POLICY, {"policyDocument": "{"}, "JSON"),
        (POLICY, {"policyDocument": "{}", "document": "{}"}, "conflicts"),
        (USER_POLICY, {"policyName": "p", "policyType": "Mine", "userName": "u"}, "policyType"),
        (NETWORK, {"cidr": "10.0.0.0/8"}, "unknown property"),
    ],
)
def test_what_a_preview_refuses(cloud: Cloud, token: str, inputs: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        cloud.make(token, "it", **inputs)


@pytest.mark.parametrize(
    ("token", "name", "changes", "expected"),
    [
        (NETWORK, "net", {"cidrBlock": "10.0.0.0/8"}, []),
        (SWITCH, "sw", {"cidrBlock": "10.3.1.0/24"}, ["cidrBlock"]),
        (SWITCH, "sw", {"zoneId": "cn-hangzhou-i"}, ["zoneId"]),
        (SWITCH, "sw", {"vswitchName": "other"}, []),
        (NAT, "nat", {"vpcId": "other"}, ["vpcId"]),
        (NAT, "nat", {"natGatewayName": "other"}, []),
        (SNAT, "snat", {"sourceVswitchId": "other"}, ["sourceVswitchId"]),
        (SNAT, "snat", {"snatIp": "1.2.3.4"}, []),
        (EIP, "eip", {"bandwidth": "50"}, []),
        (EIP, "eip", {"internetChargeType": "PayByBandwidth"}, ["internetChargeType"]),
        (BOND, "bond", {"instanceId": "other"}, ["instanceId"]),
        (RULE, "rule", {"description": "other"}, []),
        (RULE, "rule", {"portRange": "1/2"}, ["portRange"]),
        (IMAGE, "image", {"imageName": "other"}, []),
        (IMAGE, "image", {"bootMode": "BIOS"}, ["bootMode"]),
        (GROUP, "group", {"maxSize": 9}, []),
        (GROUP, "group", {"multiAzPolicy": "PRIORITY"}, ["multiAzPolicy"]),
        (BUCKET, "talos-images", {"bucket": "other-images"}, ["bucket"]),
    ],
)
def test_what_replaces(net: Cloud, token: str, name: str, changes: dict[str, Any], expected: list[str]) -> None:
    net.way_out()
    net.firewall()
    net.allow("rule", "tcp", 80, "10.0.0.0/8")
    net.image()
    net.group()
    assert net.replaces(token, name, **changes) == expected


def test_the_order_in_a_set_is_no_change(net: Cloud) -> None:
    entries = [{"cidr": "10.0.0.0/8"}, {"cidr": "172.16.0.0/12"}]
    call, kind = net.call(RANGES, "r"), net.kind(RANGES)
    assert kind.comparable(call, {"entries": entries}) == kind.comparable(call, {"entries": entries[::-1]})


# -- the network ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cidr", ["100.64.0.0/16", "127.0.0.0/16", "169.254.0.0/16", "224.0.0.0/8", "10.0.0.0/7", "10.0.0.0/29"]
)
def test_ranges_that_no_vpc_has(cloud: Cloud, cidr: str) -> None:
    with refused("InvalidParameter", cidr):
        cloud.network(cidr=cidr)


@pytest.mark.parametrize("cidr", ["10.3.0.0", "10.3.0.1/16", "ten", "fd00::/64"])
def test_texts_that_are_no_range(cloud: Cloud, cidr: str) -> None:
    with refused("InvalidCidrBlock.Malformed", cidr):
        cloud.network(cidr=cidr)


@pytest.mark.parametrize("cidr", ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/28", "198.18.0.0/16"])
def test_ranges_of_vpcs(cloud: Cloud, cidr: str) -> None:
    cloud.network(cidr=cidr)


@pytest.mark.parametrize(
    ("cidr", "zone", "code"),
    [
        ("10.4.0.0/24", "cn-hangzhou-h", "InvalidCidrBlock"),
        ("10.3.0.128/25", "cn-hangzhou-h", "InvalidCidrBlock.Overlapped"),
        ("10.3.1.0/30", "cn-hangzhou-h", "InvalidCidrBlock.Malformed"),
        ("10.3.1.0/24", "cn-beijing-h", "InvalidZoneId.NotFound"),
        ("10.3.1.0/24", "cn-hangzhou", "InvalidZoneId.NotFound"),
        ("10.3.1.0/24", "cn-hangzhouh", "InvalidZoneId.NotFound"),
    ],
)
def test_vswitches_that_do_not_fit(net: Cloud, cidr: str, zone: str, code: str) -> None:
    with refused(code):
        net.vswitch("other", cidr, zone)


def test_zones_of_regions_with_a_number_have_no_hyphen(tmp_path: Path) -> None:
    with closing(Cloud(tmp_path, "ap-southeast-1")) as cloud:
        cloud.network()
        cloud.vswitch(zone="ap-southeast-1a")
        with refused("InvalidZoneId.NotFound"):
            cloud.vswitch("other", "10.3.1.0/24", "ap-southeast-1-a")


def test_a_vpc_shrinks_no_further_than_its_vswitches(net: Cloud) -> None:
    net.change(NETWORK, "net", cidrBlock="10.3.0.0/20")
    with refused("InvalidCidrBlock", "outside"):
        net.change(NETWORK, "net", cidrBlock="10.3.16.0/20")


def test_what_is_in_use_stays(net: Cloud) -> None:
    net.firewall()
    net.way_out()
    with refused("DependencyViolation.VSwitch"):
        net.delete(NETWORK, "net")
    with refused("DependencyViolation"):
        net.delete(SWITCH, "sw")
    with refused("DependencyViolation.SnatEntry"):
        net.delete(NAT, "nat")
    with refused("EIP_CAN_NOT_UNASSOCIATE"):
        net.delete(BOND, "bond")
    with refused("IncorrectEipStatus"):
        net.delete(EIP, "eip")
    net.delete(SNAT, "snat")
    with refused("DependencyViolation.EIPS"):
        net.delete(NAT, "nat")
    for token, name in [(BOND, "bond"), (EIP, "eip"), (NAT, "nat"), (SWITCH, "sw")]:
        net.delete(token, name)
    with refused("DependencyViolation.SecurityGroup"):
        net.delete(NETWORK, "net")
    net.delete(FIREWALL, "sg")
    net.delete(NETWORK, "net")
    assert net.world.find("alicloud") == []


def test_deleting_what_is_gone_is_no_error(net: Cloud) -> None:
    for _ in range(2):
        net.delete(SWITCH, "sw")
        net.delete(NETWORK, "net")


def test_a_gateway_needs_a_vswitch_of_its_vpc(net: Cloud) -> None:
    net.network("other", "10.9.0.0/16")
    with refused("InvalidVSwitchId.NotFound"):
        net.make(NAT, "nat", vpcId=net.ids["net"], natType="Enhanced")
    with refused("InvalidVSwitchId.NotFound", "not in VPC"):
        net.make(NAT, "nat", vpcId=net.ids["other"], vswitchId=net.ids["sw"], natType="Enhanced")
    with refused("OperationUnsupported.NatType"):
        net.make(NAT, "nat", vpcId=net.ids["net"], vswitchId=net.ids["sw"], natType="Normal")


def test_an_snat_entry_needs_an_address_that_is_bound_to_its_gateway(net: Cloud) -> None:
    net.make(NAT, "nat", vpcId=net.ids["net"], vswitchId=net.ids["sw"])
    net.make(EIP, "eip")
    with refused("InvalidIp.NotInNatgw"):
        net.snat()
    net.make(BOND, "bond", allocationId=net.ids["eip"], instanceId=net.ids["nat"])
    assert net.snat()["sourceCidr"] == "10.3.0.0/24"
    with refused("Forbidden.SourceVSwitchId.Duplicated"):
        net.snat("again")
    eip = net.read(EIP, "eip")
    assert eip is not None
    assert eip["status"] == "InUse"


def test_an_address_is_bound_once(net: Cloud) -> None:
    net.way_out()
    net.make(NAT, "second", vpcId=net.ids["net"], vswitchId=net.ids["sw"])
    with refused("IncorrectEipStatus"):
        net.make(BOND, "bond2", allocationId=net.ids["eip"], instanceId=net.ids["second"])
    net.make(EIP, "eip2")
    with refused("InvalidInstanceType"):
        net.make(BOND, "bond2", allocationId=net.ids["eip2"], instanceId=net.ids["second"], instanceType="EcsInstance")


@pytest.mark.parametrize(
    ("charge", "bandwidth", "good"),
    [("PayByTraffic", "200", True), ("PayByTraffic", "201", False), ("PayByBandwidth", "500", True)],
)
def test_bandwidth_of_an_address(cloud: Cloud, charge: str, bandwidth: str, good: bool) -> None:
    if good:
        cloud.make(EIP, "eip", internetChargeType=charge, bandwidth=bandwidth)
    else:
        with refused("InvalidBandwidth.Malformed"):
            cloud.make(EIP, "eip", internetChargeType=charge, bandwidth=bandwidth)


# -- firewalls ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"portRange": "-1/-1"}, "InvalidIpProtocol.Malformed"),
        ({"portRange": "80"}, "InvalidIpProtocol.Malformed"),
        ({"portRange": "80/79"}, "InvalidIpProtocol.Malformed"),
        ({"portRange": "0/80"}, "InvalidIpProtocol.Malformed"),
        ({"portRange": "1/65536"}, "InvalidIpProtocol.Malformed"),
        ({"ipProtocol": "icmp"}, "InvalidIpProtocol.Malformed"),
        ({"cidrIp": "10.0.0.1/8"}, "InvalidSourceCidrIp.Malformed"),
        ({"nicType": "internet"}, "InvalidNicType"),
        ({"cidrIp": None, "prefixListId": "pl-none"}, "InvalidPrefixListId.NotFound"),
        ({"cidrIp": None, "sourceSecurityGroupId": "sg-none"}, "InvalidSourceGroupId.NotFound"),
        ({"cidrIp": None, "sourceSecurityGroupId": "sg-lab00000001"}, "InvalidParamter.Conflict"),
        ({"cidrIp": None, "sourceSecurityGroupId": "sg-lab00000002"}, "InvalidSourceGroupId.Mismatch"),
        ({"securityGroupId": "sg-none"}, "InvalidSecurityGroupId.NotFound"),
    ],
)
def test_rules_that_are_refused(net: Cloud, changes: dict[str, Any], code: str) -> None:
    net.firewall()
    net.network("other")
    net.firewall("elsewhere", "other")
    with refused(code):
        net.allow("rule", "tcp", 80, "10.0.0.0/8", **changes)


def test_a_rule_is_known_by_all_that_it_says(net: Cloud) -> None:
    net.firewall()
    net.allow("rule", "udp", 51820, "0.0.0.0/0")
    assert net.ids["rule"] == f"{net.ids['sg']}:ingress:udp:51820/51820:intranet:0.0.0.0/0:accept:1"
    # AuthorizeSecurityGroup succeeds for a rule that is there, and the one stays.
    net.allow("again", "udp", 51820, "0.0.0.0/0")
    assert net.ids["again"] == net.ids["rule"]


def ranges(cloud: Cloud, *cidrs: str, most: int = 20, **more: Any) -> None:
    inputs = {"prefixListName": "ranges", "addressFamily": "IPv4", "maxEntries": most}
    cloud.make(RANGES, "ranges", entries=[{"cidr": cidr} for cidr in cidrs], **{**inputs, **more})


def test_a_prefix_list_counts_in_full(net: Cloud) -> None:
    net.firewall()
    ranges(net, "10.0.0.0/8", most=200)
    for port in range(1, MOST_RULES // 200 + 1):
        net.allow(f"rule-{port}", "tcp", port, "", cidrIp=None, prefixListId=net.ids["ranges"])
    with refused("AuthorizationLimitExceed"):
        net.allow("one-more", "tcp", 80, "10.0.0.0/8")


@pytest.mark.parametrize(
    ("cidrs", "changes", "code"),
    [
        (["10.0.0.0/8", "172.16.0.0/12"], {"maxEntries": 1}, "LimitExceed.PrefixListEntry"),
        (["10.0.0.0/8", "10.0.0.0/8"], {}, "InvalidParameter.EntryCidr.Duplicated"),
        (["10.0.0.1/8"], {}, "InvalidEntryCidr.Malformed"),
        (["fd00::/64"], {}, "InvalidEntryCidr.Malformed"),
        (["10.0.0.0/8"], {"prefixListName": "1st"}, "InvalidPrefixListName.Malformed"),
        (["10.0.0.0/8"], {"prefixListName": "com.aliyun.mine"}, "InvalidPrefixListName.Malformed"),
    ],
)
def test_prefix_lists_that_are_refused(net: Cloud, cidrs: list[str], changes: dict[str, Any], code: str) -> None:
    with refused(code):
        ranges(net, *cidrs, **changes)


def test_a_prefix_list_in_use_stays(net: Cloud) -> None:
    net.firewall()
    ranges(net, "10.0.0.0/8")
    net.allow("rule", "tcp", 80, "", cidrIp=None, prefixListId=net.ids["ranges"])
    with refused("DependencyViolation.PrefixListAssociation"):
        net.delete(RANGES, "ranges")
    # A group takes its rules with it.
    net.delete(FIREWALL, "sg")
    net.delete(RANGES, "ranges")


# -- images ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "changes", "code"),
    [
        (qcow2(4 * GIB), {"ossObject": "none"}, "InvalidOSSObject.NotFound"),
        (qcow2(4 * GIB), {"ossBucket": "none"}, "InvalidOSSBucket.NotFound"),
        (qcow2(4 * GIB), {"format": "RAW"}, "InvalidImageFormat.Malformed"),
        (b"MZ" + bytes(4096), {"format": "qcow2"}, "InvalidImageFormat.Malformed"),
        (qcow2(5 * GIB + 1), {"diskImageSize": 5}, "InvalidDiskImageSize"),
    ],
)
def test_images_that_are_refused(cloud: Cloud, content: bytes, changes: dict[str, Any], code: str) -> None:
    cloud.upload(content=content)
    with refused(code):
        cloud.image(disk=changes)


def test_an_image_of_just_the_size(cloud: Cloud) -> None:
    cloud.upload(content=qcow2(5 * GIB))
    assert cloud.image()["platform"] == "Others Linux"


def test_a_bucket_of_another_region_is_not_there_for_an_import(cloud: Cloud) -> None:
    cloud.upload()
    cloud.config["region"] = "cn-beijing"
    with refused("InvalidOSSBucket.NotFound", "cn-beijing"):
        cloud.image()


def test_an_import_needs_its_service_role(cloud: Cloud) -> None:
    without(cloud.world, "AliyunECSImageImportDefaultRole")
    with refused("NoSetRoletoECSServiceAccount", "AliyunECSImageImportDefaultRole"):
        cloud.image()


@pytest.mark.parametrize("name", ["1talos", "aliyun-talos", "acs:talos", "t", "a b"])
def test_names_that_no_image_has(cloud: Cloud, name: str) -> None:
    cloud.upload()
    with refused("InvalidImageName.Malformed"):
        cloud.image(imageName=name)


def test_the_name_of_an_image_is_used_once_in_a_region(cloud: Cloud) -> None:
    cloud.image()
    with refused("InvalidImageName.Duplicated"):
        cloud.image("second", imageName="image")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"platform": "Talos"}, "InvalidPlatform.ValueNotSupported"),
        ({"features": {"nvmeSupport": "maybe"}}, "InvalidParameter.NvmeSupport"),
    ],
)
def test_enums_that_only_the_cloud_checks(cloud: Cloud, changes: dict[str, Any], code: str) -> None:
    with refused(code):
        cloud.image(**changes)


# -- buckets --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Talos", "-talos", "talos-", "talos.images"])
def test_names_that_no_bucket_has(cloud: Cloud, name: str) -> None:
    with refused("InvalidBucketName"):
        cloud.make(BUCKET, "bucket", bucket=name)


def test_the_name_of_a_bucket_is_used_once_in_all_regions(cloud: Cloud) -> None:
    cloud.make(BUCKET, "bucket", bucket="talos-images")
    cloud.config["region"] = "cn-beijing"
    with refused("BucketAlreadyExists"):
        cloud.make(BUCKET, "again", bucket="talos-images")


def test_a_bucket_without_a_name_gets_one(cloud: Cloud) -> None:
    first, second = cloud.make(BUCKET, "first"), cloud.make(BUCKET, "second")
    assert first["bucket"].startswith("tf-oss-bucket-")
    assert len(first["bucket"]) <= 63
    assert first["bucket"] != second["bucket"]


def test_an_access_list_belongs_to_a_bucket(cloud: Cloud) -> None:
    with refused("NoSuchBucket"):
        cloud.make(ACL, "acl", bucket="none", acl="private")
    cloud.make(BUCKET, "bucket", bucket="talos-images")
    with refused("InvalidArgument"):
        cloud.make(ACL, "acl", bucket="talos-images", acl="secret")
    cloud.make(ACL, "acl", bucket="talos-images", acl="private")
    cloud.delete(BUCKET, "bucket")
    assert cloud.read(ACL, "acl") is None


# -- identities -----------------------------------------------------------------------------------------------


def document(**changes: Any) -> str:
    statement = {"Effect": "Allow", "Action": ["ess:DescribeScalingGroups"], "Resource": ["*"], **changes}
    return json.dumps({"Version": "1", "Statement": [statement]})


@pytest.mark.parametrize(
    "text",
    [
        '{"Version": "2", "Statement": []}',
        '{"Version": "1", "Statement": []}',
        "[]",
        document(Effect="allow"),
        document(Action=[]),
        document(Action=["Describe"]),
        document(Resource=[]),
        document(Resource=["arn:aws:ess"]),
    ],
)
def test_policies_that_say_nothing(cloud: Cloud, text: str) -> None:
    with refused("MalformedPolicyDocument"):
        cloud.make(POLICY, "policy", policyName="policy", policyDocument=text)


def test_the_name_of_a_policy(cloud: Cloud) -> None:
    with refused("InvalidParameter.PolicyName.InvalidChars"):
        cloud.make(POLICY, "policy", policyName="my_policy", policyDocument=document())
    cloud.make(POLICY, "policy", policyName="policy", policyDocument=document())
    with refused("EntityAlreadyExists.Policy"):
        cloud.make(POLICY, "again", policyName="policy", policyDocument=document())


def test_how_a_document_is_written_is_no_change(cloud: Cloud) -> None:
    kind, call = cloud.kind(POLICY), cloud.call(POLICY, "policy")
    wide = json.dumps(json.loads(document()), indent=2)
    assert kind.comparable(call, {"policyDocument": wide}) == kind.comparable(call, {"policyDocument": document()})


@pytest.mark.parametrize("rotate", [None, "DeleteOldestNonDefaultVersionWhenLimitExceeded"])
def test_a_policy_has_five_versions(cloud: Cloud, rotate: str | None) -> None:
    more = {"rotateStrategy": rotate} if rotate else {}
    cloud.make(POLICY, "policy", policyName="policy", policyDocument=document(), **more)
    for number in range(2, 6):
        text = document(Action=[f"ess:Do{number}"])
        assert cloud.change(POLICY, "policy", policyDocument=text)["defaultVersion"] == f"v{number}"
    last = document(Action=["ess:Do6"])
    if rotate is None:
        with refused("LimitExceeded.Policy.Version"):
            cloud.change(POLICY, "policy", policyDocument=last)
    else:
        assert cloud.change(POLICY, "policy", policyDocument=last)["defaultVersion"] == "v6"


def test_an_attached_policy_stays(cloud: Cloud) -> None:
    cloud.make(POLICY, "policy", policyName="policy", policyDocument=document())
    cloud.make(USER_POLICY, "attached", policyName="policy", policyType="Custom", userName="autoscaler")
    policy = cloud.read(POLICY, "policy")
    assert policy is not None
    assert policy["attachmentCount"] == 1
    with refused("DeleteConflict.Policy.User"):
        cloud.delete(POLICY, "policy")
    cloud.change(POLICY, "policy", force=True)
    cloud.delete(POLICY, "policy")
    assert cloud.world.find("alicloud") == []


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"userName": "nobody"}, "EntityNotExist.User"),
        ({"policyName": "none"}, "EntityNotExist.Policy"),
        ({"policyType": "System"}, "EntityNotExist.Policy"),
    ],
)
def test_attachments_of_what_is_not_there(cloud: Cloud, changes: dict[str, Any], code: str) -> None:
    cloud.make(POLICY, "policy", policyName="policy", policyDocument=document())
    inputs = {"policyName": "policy", "policyType": "Custom", "userName": "autoscaler"}
    with refused(code):
        cloud.make(USER_POLICY, "attached", **{**inputs, **changes})


def test_roles_and_their_policies(cloud: Cloud) -> None:
    trust = document(Action="sts:AssumeRole", Principal={"Service": ["ecs.aliyuncs.com"]})
    with refused("MalformedPolicyDocument", "Principal"):
        cloud.make(ROLE, "role", roleName="node", assumeRolePolicyDocument=document())
    made = cloud.make(ROLE, "role", roleName="Node", assumeRolePolicyDocument=trust)
    assert made["arn"] == "acs:ram::1234567890123456:role/node"
    with refused("EntityNotExist.Role"):
        cloud.make(ROLE_POLICY, "p", roleName="none", policyName="AliyunOSSFullAccess", policyType="System")
    cloud.make(ROLE_POLICY, "p", roleName="Node", policyName="AliyunOSSFullAccess", policyType="System")
    with refused("DeleteConflict.Role.Policy"):
        cloud.delete(ROLE, "role")


def test_the_users_of_a_new_account(cloud: Cloud) -> None:
    with refused("EntityAlreadyExists.User"):
        cloud.make(USER, "user", name="autoscaler")
    cloud.make(USER, "user", name="someone")
    cloud.make(KEY, "key", userName="someone")
    with refused("DeleteConflict.User.AccessKey"):
        cloud.delete(USER, "user")


def test_an_access_key_is_secret_and_a_user_has_two(cloud: Cloud) -> None:
    kind = cloud.kind(KEY)
    made = cloud.make(KEY, "first", userName="autoscaler")
    assert "secret" in repr(kind.marked(made, {})["secret"]).lower()
    assert made["secret"] not in repr(kind.marked(made, {}))
    cloud.make(KEY, "second", userName="autoscaler")
    with refused("LimitExceeded.User.AccessKey"):
        cloud.make(KEY, "third", userName="autoscaler")
    with refused("EntityNotExist.User"):
        cloud.make(KEY, "third", userName="nobody")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"issuerUrl": "http://issuer.example.com"}, "InvalidParameter.IssuerUrl.Format"),
        ({"fingerprints": ["abc"]}, "InvalidParameter.Fingerprint.Format"),
        ({"oidcProviderName": "-x"}, "InvalidParameter.OIDCProviderName.Format"),
    ],
)
def test_oidc_providers_that_are_refused(cloud: Cloud, changes: dict[str, Any], code: str) -> None:
    inputs = {"issuerUrl": "https://issuer.example.com", "oidcProviderName": "talos", "clientIds": ["sts.aliyuncs.com"]}
    with refused(code):
        cloud.make(OIDC, "oidc", **{**inputs, **changes})
    cloud.make(OIDC, "oidc", **inputs)
