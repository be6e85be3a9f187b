"""Names, groups, networks, roles and identities in the simulated Azure, as Resource Manager treats them."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab.sdk_schema import UNKNOWN
from lab.world import CloudError
from tests.lab.azure_cloud import SCALE_SET, ZERO, Cloud, Refused, allow, refused


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    with closing(Cloud(tmp_path)) as cloud:
        yield cloud


@pytest.fixture
def ready(cloud: Cloud) -> Cloud:
    cloud.ready()
    return cloud


def test_top_level_names_get_eight_hex_digits_and_keep_them(cloud: Cloud) -> None:
    cloud.group()
    token, inputs = "network:VirtualNetwork", {"resourceGroupName": "rg"}
    kind, call = cloud.kind(token), cloud.call(token, "net")
    first = kind.defaults(call, inputs, {})
    assert first["virtualNetworkName"][:3] == "net"
    assert int(first["virtualNetworkName"][3:], 16) >= 0
    assert len(first["virtualNetworkName"]) == 11
    later = kind.defaults(call, inputs, {**inputs, **first})
    assert later["virtualNetworkName"] == first["virtualNetworkName"]
    assert kind.goes_first(call, {**inputs, **later}, inputs) is False


def test_children_are_named_like_the_resource_and_go_before_they_are_replaced(cloud: Cloud) -> None:
    kind, call = cloud.kind("network:Subnet"), cloud.call("network:Subnet", "sub")
    filled = kind.defaults(call, {"resourceGroupName": "rg", "virtualNetworkName": "net"}, {})
    assert filled == {"subnetName": "sub"}
    assert kind.goes_first(call, filled, filled) is True


def test_roles_are_named_by_guid(cloud: Cloud) -> None:
    kind, call = cloud.kind("authorization:RoleDefinition"), cloud.call("authorization:RoleDefinition", "role")
    assert len(kind.defaults(call, {"scope": "/"}, {})["roleDefinitionId"]) == 36


def test_a_random_name_that_is_too_long_for_an_account_fails_in_preview(cloud: Cloud) -> None:
    cloud.group()
    with pytest.raises(Refused, match=r"'accountName' is too long \(25\): at most 24"):
        cloud.make(
            "storage:StorageAccount",
            "a-name-that-is-17",
            resourceGroupName="rg",
            kind="StorageV2",
            sku={"name": "Standard_LRS"},
        )


def test_the_location_comes_from_old_inputs_then_settings_then_the_group(cloud: Cloud) -> None:
    cloud.group("northeurope")
    kind, call = cloud.kind("compute:Gallery"), cloud.call("compute:Gallery", "gallery")
    inputs = {"resourceGroupName": "rg", "galleryName": "gallery"}
    assert kind.defaults(call, inputs, {})["location"] == "northeurope"
    assert kind.defaults(call, {**inputs, "resourceGroupName": UNKNOWN}, {})["location"] is UNKNOWN
    cloud.config["location"] = "uksouth"
    assert kind.defaults(call, inputs, {})["location"] == "uksouth"
    assert kind.defaults(call, inputs, {"location": "eastus"})["location"] == "eastus"


def test_no_location_at_all_fails_in_preview(cloud: Cloud) -> None:
    with pytest.raises(Refused, match="missing required property 'location'"):
        cloud.make("compute:Gallery", "gallery", resourceGroupName="none", galleryName="gallery")


def test_an_unknown_property_fails_in_preview(cloud: Cloud) -> None:
    with pytest.raises(Refused, match="colour: unknown property"):
        cloud.make("resources:ResourceGroup", "rg", location="westeurope", colour="red")


def test_locations_differ_by_more_than_case_and_blanks(cloud: Cloud) -> None:
    cloud.make("resources:ResourceGroup", "rg", resourceGroupName="rg", location="West Europe")
    assert (cloud.read("resources:ResourceGroup", "rg") or {})["location"] == "westeurope"
    kind, call = cloud.kind("resources:ResourceGroup"), cloud.call("resources:ResourceGroup", "rg")
    assert kind.comparable(call, {"location": "West Europe"}) == kind.comparable(call, {"location": "westeurope"})
    with refused("LocationNotAvailableForResourceType", "mars"):
        cloud.make("resources:ResourceGroup", "rg2", resourceGroupName="rg2", location="mars")


def test_ids_and_outputs_have_azures_form(cloud: Cloud) -> None:
    cloud.group()
    cloud.network()
    assert cloud.ids["net"] == (
        f"/subscriptions/{ZERO}/resourceGroups/rg/providers/Microsoft.Network/virtualNetworks/net"
    )
    outputs = cloud.read("network:VirtualNetwork", "net") or {}
    assert (outputs["name"], outputs["type"], outputs["provisioningState"], outputs["azureApiVersion"]) == (
        "net",
        "Microsoft.Network/virtualNetworks",
        "Succeeded",
        "2024-05-01",
    )
    assert "resourceGroupName" not in outputs


def test_a_preview_knows_inputs_only_and_an_update_name_and_location_too(cloud: Cloud) -> None:
    cloud.group()
    cloud.network()
    kind, call = cloud.kind("network:VirtualNetwork"), cloud.call("network:VirtualNetwork", "net")
    first = kind.preview(call, cloud.inputs["net"], frozenset({"name"}))
    assert first["name"] is UNKNOWN
    assert first["location"] == "westeurope"
    assert "virtualNetworkName" not in first
    later = kind.preview_update(call, cloud.read("network:VirtualNetwork", "net") or {}, cloud.inputs["net"])
    assert (later["name"], later["resourceGuid"]) == ("net", UNKNOWN)


def test_what_is_missing_is_named(cloud: Cloud) -> None:
    with refused("ResourceGroupNotFound", "'rg' could not be found"):
        cloud.make("network:RouteTable", "table", resourceGroupName="rg", routeTableName="table", location="westeurope")
    cloud.group()
    with refused("ParentResourceNotFound", "virtualNetworks/subnets", "virtualNetworks/net"):
        cloud.subnet()


def test_a_name_is_taken_once(cloud: Cloud) -> None:
    cloud.group()
    cloud.network()
    with refused("ResourceExists", "cannot create already existing resource"):
        cloud.network()


def test_case_does_not_count_in_ids(cloud: Cloud) -> None:
    cloud.group()
    cloud.make(
        "network:VirtualNetwork",
        "net",
        resourceGroupName="RG",
        virtualNetworkName="net",
        addressSpace={"addressPrefixes": ["10.2.0.0/16"]},
    )
    assert "/resourceGroups/rg/" in cloud.ids["net"]


@pytest.mark.parametrize(
    ("token", "key", "name"),
    [
        ("network:NetworkSecurityGroup", "networkSecurityGroupName", "-nsg"),
        ("network:NetworkSecurityGroup", "networkSecurityGroupName", "nsg."),
        ("network:NetworkSecurityGroup", "networkSecurityGroupName", "n" * 81),
        ("network:RouteTable", "routeTableName", "a b"),
        ("compute:Gallery", "galleryName", "my-gallery"),
        ("managedidentity:UserAssignedIdentity", "resourceName", "ab"),
    ],
)
def test_names_that_azure_does_not_take(cloud: Cloud, token: str, key: str, name: str) -> None:
    cloud.group()
    with pytest.raises(CloudError, match="is invalid"):
        cloud.make(token, "x", resourceGroupName="rg", **{key: name})


@pytest.mark.parametrize(
    ("tags", "code"),
    [
        ({f"t{n}": "v" for n in range(51)}, "InvalidTags"),
        ({"k8s.io/role": "v"}, "InvalidTagNameCharacters"),
        ({"n" * 513: "v"}, "InvalidTags"),
        ({"n": "v" * 257}, "InvalidTags"),
        ({"Name": "a", "name": "b"}, "InvalidTags"),
    ],
)
def test_tags_that_azure_does_not_take(cloud: Cloud, tags: dict[str, str], code: str) -> None:
    with refused(code):
        cloud.make("resources:ResourceGroup", "rg", resourceGroupName="rg", location="westeurope", tags=tags)


def test_deleting_a_group_deletes_what_is_in_it(ready: Cloud) -> None:
    ready.scale_set()
    ready.delete("resources:ResourceGroup", "rg")
    assert [r.id for r in ready.world.find("azure-native")] == []
    assert not [path for path in (ready.world.folder / "blobs").rglob("*") if path.is_file()]


def test_a_group_whose_subnet_others_use_stays(ready: Cloud) -> None:
    ready.group(name="other")
    ready.scale_set(resourceGroupName="other")
    with refused("ResourceGroupDeletionBlocked", "subnets/sub"):
        ready.delete("resources:ResourceGroup", "rg")


@pytest.mark.parametrize(
    ("prefixes", "code"),
    [
        (["10.2.0.5/24"], "InvalidCIDRNotation"),
        (["10.2.0.0"], "InvalidAddressPrefixFormat"),
        (["ten"], "InvalidAddressPrefixFormat"),
        (["169.254.0.0/24"], "AddressPrefixNotAllowed"),
        (["10.0.0.0/8", "10.2.0.0/16"], "OverlappingAddressPrefixes"),
        ([], "InvalidRequestFormat"),
    ],
)
def test_ranges_that_a_network_cannot_have(cloud: Cloud, prefixes: list[str], code: str) -> None:
    cloud.group()
    with refused(code):
        cloud.make(
            "network:VirtualNetwork",
            "net",
            resourceGroupName="rg",
            virtualNetworkName="net",
            addressSpace={"addressPrefixes": prefixes},
        )


@pytest.mark.parametrize(
    ("prefix", "code"),
    [
        ("10.3.0.0/24", "NetcfgSubnetRangeOutsideVnet"),
        ("10.0.0.0/8", "NetcfgSubnetRangeOutsideVnet"),
        ("10.2.0.128/25", "NetcfgSubnetRangesOverlap"),
        ("10.2.9.0/30", "NetcfgInvalidSubnet"),
    ],
)
def test_subnets_lie_in_their_network_and_apart(cloud: Cloud, prefix: str, code: str) -> None:
    cloud.group()
    cloud.network()
    cloud.subnet()
    with refused(code):
        cloud.subnet("second", prefix)


def test_a_subnet_names_what_is_there_and_in_its_region(cloud: Cloud) -> None:
    cloud.group()
    cloud.network()
    with refused("InvalidResourceReference", "none"):
        cloud.subnet(networkSecurityGroup={"id": "/none"})
    cloud.make(
        "network:NetworkSecurityGroup",
        "far",
        resourceGroupName="rg",
        networkSecurityGroupName="far",
        location="eastus",
    )
    with refused("InvalidResourceReference", "same region"):
        cloud.subnet(networkSecurityGroup={"id": cloud.ids["far"]})


def test_default_outbound_access_is_fixed_at_creation(cloud: Cloud) -> None:
    cloud.group()
    cloud.network()
    cloud.subnet(defaultOutboundAccess=False)
    with refused("PropertyChangeNotAllowed", "defaultOutboundAccess"):
        cloud.change("network:Subnet", "sub", defaultOutboundAccess=True)


def test_a_network_update_keeps_subnets_that_are_resources_of_their_own(cloud: Cloud) -> None:
    cloud.group()
    cloud.network()
    cloud.subnet()
    cloud.change("network:VirtualNetwork", "net", tags={"a": "b"})
    assert cloud.read("network:Subnet", "sub") is not None
    with refused("InUsePrefixCannotBeDeleted", "10.2.0.0/24"):
        cloud.change("network:VirtualNetwork", "net", addressSpace={"addressPrefixes": ["10.9.0.0/16"]})


def test_inline_subnets_are_the_whole_list(cloud: Cloud) -> None:
    cloud.group()
    cloud.network()
    cloud.subnet()
    cloud.change("network:VirtualNetwork", "net", subnets=[{"name": "other", "addressPrefix": "10.2.1.0/24"}])
    assert cloud.read("network:Subnet", "sub") is None


def test_what_is_in_use_cannot_go(ready: Cloud) -> None:
    ready.address()
    ready.gateway()
    ready.firewall()
    ready.change(
        "network:Subnet",
        "sub",
        natGateway={"id": ready.ids["nat"]},
        networkSecurityGroup={"id": ready.ids["nsg"]},
    )
    ready.scale_set(sku__capacity=0)
    for token, name, code in (
        ("network:VirtualNetwork", "net", "InUseSubnetCannotBeDeleted"),
        ("network:Subnet", "sub", "InUseSubnetCannotBeDeleted"),
        ("network:NetworkSecurityGroup", "nsg", "InUseNetworkSecurityGroupCannotBeDeleted"),
        ("network:NatGateway", "nat", "NatGatewayInUseBySubnet"),
        ("network:PublicIPAddress", "ip", "PublicIPAddressCannotBeDeleted"),
    ):
        with refused(code):
            ready.delete(token, name)
    for token, name in (
        (SCALE_SET, "workers"),
        ("network:Subnet", "sub"),
        ("network:NetworkSecurityGroup", "nsg"),
        ("network:NatGateway", "nat"),
        ("network:PublicIPAddress", "ip"),
        ("network:VirtualNetwork", "net"),
    ):
        ready.delete(token, name)
        ready.delete(token, name)  # what is gone already is no error


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"priority": 99}, "SecurityRuleInvalidPriority"),
        ({"priority": 4097}, "SecurityRuleInvalidPriority"),
        ({"description": "d" * 141}, "SecurityRuleDescriptionTooLong"),
        ({"destinationPortRanges": ["70000"]}, "SecurityRuleInvalidPortRange"),
        ({"destinationPortRanges": ["20-10"]}, "SecurityRuleInvalidPortRange"),
        ({"destinationPortRanges": []}, "SecurityRulePortRangeNotSpecified"),
        ({"sourceAddressPrefix": "10.0.0.5/24"}, "SecurityRuleInvalidAddressPrefix"),
        ({"sourceAddressPrefix": None}, "SecurityRuleAddressPrefixNotSpecified"),
        ({"sourceAddressPrefixes": ["10.0.0.0/8"]}, "SecurityRuleAddressPrefixNotSpecified"),
        (
            {"sourceAddressPrefix": None, "sourceAddressPrefixes": ["Internet", "10.0.0.0/8"]},
            "SecurityRuleParameterContainsUnsupportedValue",
        ),
        (
            {"sourceAddressPrefix": None, "sourceAddressPrefixes": ["10.0.0.0/8", "10.0.0.0/16"]},
            "OverlappingSubnetsNotPermittedInSecurityRule",
        ),
    ],
)
def test_rules_that_azure_refuses(cloud: Cloud, changes: dict[str, Any], code: str) -> None:
    cloud.group()
    rule = {**allow("rule", 100, "Udp", [51820], "Internet"), **changes}
    with refused(code):
        cloud.firewall({key: value for key, value in rule.items() if value is not None})


def test_a_priority_is_given_once_for_each_direction(cloud: Cloud) -> None:
    cloud.group()
    cloud.firewall()
    rule = {key: value for key, value in allow("r", 100, "Tcp", [80], "*").items() if key != "name"}
    where = {"resourceGroupName": "rg", "networkSecurityGroupName": "nsg"}
    cloud.make("network:SecurityRule", "in", **where, **rule)
    cloud.make("network:SecurityRule", "out", **where, **{**rule, "direction": "Outbound"})
    with refused("SecurityRuleConflict", "same Priority and Direction"):
        cloud.make("network:SecurityRule", "again", **where, **rule)
    with refused("SecurityRuleConflict"):
        cloud.change("network:NetworkSecurityGroup", "nsg", securityRules=[allow("a", 1000, "Tcp", [1], "*")] * 2)


def test_basic_addresses_are_retired_and_a_gateway_takes_standard_ones(cloud: Cloud) -> None:
    cloud.group()
    with refused("IPv4BasicSkuPublicIpCountLimitReached"):
        cloud.make("network:PublicIPAddress", "ip", resourceGroupName="rg", publicIPAllocationMethod="Static")
    with refused("PublicIPAddressMustBeStatic"):
        cloud.make("network:PublicIPAddress", "ip", resourceGroupName="rg", sku={"name": "Standard"})
    cloud.address()
    cloud.gateway()
    with refused("PublicIPAddressInUse"):
        cloud.gateway("second")
    with refused("NatGatewaySkuNotSpecified"):
        cloud.make("network:NatGateway", "third", resourceGroupName="rg")


@pytest.mark.parametrize("length", [24, 27, 32])
def test_public_prefixes_have_two_to_sixteen_addresses(cloud: Cloud, length: int) -> None:
    cloud.group()
    with refused("PublicIpPrefixInvalidPrefixLength"):
        cloud.prefix(length=length)


def test_routes_need_a_next_hop_that_fits(cloud: Cloud) -> None:
    cloud.group()
    cloud.make("network:RouteTable", "table", resourceGroupName="rg", routeTableName="table")
    where = {"resourceGroupName": "rg", "routeTableName": "table", "addressPrefix": "0.0.0.0/0"}
    with refused("InvalidNextHopIpAddress"):
        cloud.make("network:Route", "a", **where, nextHopType="VirtualAppliance")
    cloud.make("network:Route", "a", **where, nextHopType="VirtualAppliance", nextHopIpAddress="10.2.0.4")
    with refused("RouteConflict"):
        cloud.make("network:Route", "b", **where, nextHopType="None")


def role(cloud: Cloud, name: str = "role", scope: str = "rg") -> None:
    cloud.make(
        "authorization:RoleDefinition",
        name,
        scope=cloud.ids[scope],
        roleName=name,
        assignableScopes=[cloud.ids[scope]],
        permissions=[{"actions": ["Microsoft.Compute/virtualMachineScaleSets/read"]}],
    )


def test_a_role_stands_below_the_subscription_and_is_assigned_in_its_scope(cloud: Cloud) -> None:
    cloud.group()
    cloud.group(name="other")
    role(cloud)
    assert cloud.ids["role"].startswith(f"/subscriptions/{ZERO}/providers/Microsoft.Authorization/")
    principal = "11111111-1111-1111-1111-111111111111"
    given = {"principalId": principal, "roleDefinitionId": cloud.ids["role"]}
    with refused("RoleDefinitionNotAssignableAtScope"):
        cloud.make("authorization:RoleAssignment", "wrong", scope=cloud.ids["other"], **given)
    cloud.make("authorization:RoleAssignment", "right", scope=cloud.ids["rg"], **given)
    with refused("RoleAssignmentExists"):
        cloud.make("authorization:RoleAssignment", "again", scope=cloud.ids["rg"], **given)
    with refused("RoleDefinitionHasAssignments"):
        cloud.delete("authorization:RoleDefinition", "role")


def test_roles_that_azure_refuses(cloud: Cloud) -> None:
    cloud.group()
    role(cloud)
    with refused("RoleDefinitionWithSameNameExists"):
        cloud.make("authorization:RoleDefinition", "second", scope=cloud.ids["rg"], roleName="ROLE")
    with refused("InvalidActionOrNotAction"):
        cloud.make(
            "authorization:RoleDefinition",
            "third",
            scope=cloud.ids["rg"],
            roleName="third",
            permissions=[{"actions": ["read everything"]}],
        )
    with refused("RoleDefinitionDoesNotExist"):
        cloud.make("authorization:RoleAssignment", "a", scope=cloud.ids["rg"], principalId=ZERO, roleDefinitionId=ZERO)
    with refused("InvalidPrincipalId"):
        cloud.make(
            "authorization:RoleAssignment",
            "b",
            scope=cloud.ids["rg"],
            principalId="me",
            roleDefinitionId=cloud.ids["role"],
        )


def test_a_fresh_identity_needs_the_type_of_its_principal(cloud: Cloud) -> None:
    cloud.group()
    identity = cloud.make("managedidentity:UserAssignedIdentity", "identity", resourceGroupName="rg")
    given = {"scope": cloud.ids["rg"], "principalId": identity["principalId"]}
    reader = (
        f"/subscriptions/{ZERO}/providers/Microsoft.Authorization/roleDefinitions/acdd72a7-3385-48ef-bd42-f606fba81ae7"
    )
    with refused("PrincipalNotFound", "principalType"):
        cloud.make("authorization:RoleAssignment", "a", **given, roleDefinitionId=reader)
    cloud.make("authorization:RoleAssignment", "a", **given, roleDefinitionId=reader, principalType="ServicePrincipal")


def test_federated_credentials_are_unique_and_have_one_audience(cloud: Cloud) -> None:
    cloud.group()
    cloud.make("managedidentity:UserAssignedIdentity", "identity", resourceGroupName="rg", resourceName="identity")
    good = {
        "resourceGroupName": "rg",
        "resourceName": "identity",
        "issuer": "https://issuer.example.com",
        "subject": "system:serviceaccount:kube-system:autoscaler",
        "audiences": ["api://AzureADTokenExchange"],
    }
    token = "managedidentity:FederatedIdentityCredential"
    cloud.make(token, "first", **good)
    with refused("Conflict"):
        cloud.make(token, "second", **good)
    for wrong in ({"audiences": ["a", "b"]}, {"issuer": "http://issuer"}):
        with refused("BadRequest"):
            cloud.make(token, "third", **{**good, **wrong})
    cloud.delete("managedidentity:UserAssignedIdentity", "identity")
    assert cloud.read(token, "first") is None


def test_an_import_finds_the_names_in_the_id(ready: Cloud) -> None:
    for token, name in (
        ("network:Subnet", "sub"),
        ("compute:GalleryImageVersion", "1.14.0"),
        ("storage:BlobContainer", "images"),
    ):
        kind, call = ready.kind(token), ready.call(token, name)
        found = kind.imported_inputs(call, ready.ids[name], kind.read(call, ready.ids[name], {}) or {})
        given = ready.inputs[name]
        names = ("resourceGroupName", *kind.parents, kind.name_input)
        assert {key: found[key] for key in names} == {key: given[key] for key in names}


def test_functions_look_resources_up(ready: Cloud) -> None:
    ready.scale_set()
    kind = ready.kind(SCALE_SET)
    found = kind.get(ready.call(SCALE_SET, ""), {"resourceGroupName": "rg", "vmScaleSetName": "workers"})
    assert (found["id"], found["sku"]["capacity"]) == (ready.ids["workers"], 2)
    with refused("ResourceNotFound"):
        kind.get(ready.call(SCALE_SET, ""), {"resourceGroupName": "rg", "vmScaleSetName": "none"})
