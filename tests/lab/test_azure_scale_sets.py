"""Scale sets in the simulated Azure, and what happens to their machines."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lab.azure import ACTIONS, evict, scale
from lab.azure.instances import instances
from lab.azure.sizes import parse_size
from lab.world import CloudError
from tests.lab.azure_cloud import IP, MIB, PROFILE, SCALE_SET, ZERO, Cloud, Refused, b64, machines, refused


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    with closing(Cloud(tmp_path)) as cloud:
        yield cloud


@pytest.fixture
def ready(cloud: Cloud) -> Cloud:
    cloud.ready()
    return cloud


def test_a_scale_set_makes_machines(ready: Cloud) -> None:
    ready.scale_set()
    first, second = machines(ready)
    assert (first["name"], first["computerName"], first["privateIp"]) == (
        "workers_0",
        "workers000000",
        "10.2.0.4",
    )
    assert (second["privateIp"], second["publicIp"], second["latestModelApplied"]) == ("10.2.0.5", "", True)
    assert first["providerId"] == (
        f"azure:///subscriptions/{ZERO}/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/workers"
        "/virtualMachines/0"
    )
    assert first["image"] == ready.ids["1.14.0"]


def test_custom_data_never_comes_back(ready: Cloud) -> None:
    secret = "worker-config-MARKER"
    outputs = ready.scale_set({f"{PROFILE}__osProfile__customData": b64(secret), f"{PROFILE}__userData": b64(secret)})
    everything = json.dumps([outputs, [r.doc for r in ready.world.find()], [e.note for e in ready.world.events()]])
    assert secret not in everything
    assert b64(secret) not in everything
    assert "adminUsername" in everything


@pytest.mark.parametrize("path", ["sku__capacity", "sku__name", "upgradePolicy", f"{PROFILE}__osProfile"])
def test_parameters_that_a_put_needs(ready: Cloud, path: str) -> None:
    with refused("InvalidParameter", "Required parameter"):
        ready.scale_set({path: None})


def test_custom_data_has_a_limit_in_bytes_and_is_base64(ready: Cloud) -> None:
    path = f"{PROFILE}__osProfile__customData"
    ready.scale_set({path: b64(os.urandom(65_535))})
    ready.delete(SCALE_SET, "workers")
    for wrong in (b64(os.urandom(65_536)), "not base64!", "x" * 87_384):
        with refused("InvalidParameter", "Base64", "87380"):
            ready.scale_set({path: wrong})


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"sku__capacity": 601, "image": "managed"}, "OperationNotAllowed"),
        ({"sku__capacity": 1001}, "OperationNotAllowed"),
        ({"sku__capacity": 101, "singlePlacementGroup": True}, "OperationNotAllowed"),
        ({"sku__capacity": 101, "singlePlacementGroup": None}, "OperationNotAllowed"),
        ({"sku__capacity": -1}, "InvalidParameter"),
        ({"sku__capacity": 252}, "SubnetIsFull"),
        ({"sku__name": "Standard_Huge"}, "InvalidParameter"),
        ({"sku__name": "Standard_B2s", f"{PROFILE}__priority": "Spot"}, "OperationNotAllowed"),
        ({"sku__name": "Standard_D2_v3"}, "BadRequest"),
        ({"sku__name": "Standard_D2ps_v5"}, "BadRequest"),
        ({"zones": ["4"]}, "AvailabilityZoneNotSupported"),
        ({"zones": ["1"], "zoneBalance": True}, "BadRequest"),
        ({f"{PROFILE}__evictionPolicy": "Delete"}, "OperationNotAllowed"),
        ({f"{PROFILE}__billingProfile": {"maxPrice": 1}}, "OperationNotAllowed"),
        ({f"{PROFILE}__priority": "Spot", f"{PROFILE}__billingProfile": {"maxPrice": 0}}, "InvalidParameter"),
        ({f"{PROFILE}__priority": "Spot", f"{PROFILE}__billingProfile": {"maxPrice": -2}}, "InvalidParameter"),
        ({f"{PROFILE}__osProfile__computerNamePrefix": "a-prefix-too-long"}, "InvalidParameter"),
        ({f"{PROFILE}__osProfile__computerNamePrefix": "a_b"}, "InvalidParameter"),
        ({f"{PROFILE}__osProfile__adminUsername": "root"}, "InvalidParameter"),
        ({f"{PROFILE}__osProfile__adminUsername": "else"}, "InvalidParameter"),
        ({f"{PROFILE}__osProfile__linuxConfiguration__ssh": None}, "InvalidParameter"),
        ({f"{PROFILE}__storageProfile__osDisk__createOption": "Empty"}, "InvalidParameter"),
        (
            {f"{PROFILE}__storageProfile__osDisk__managedDisk": {"storageAccountType": "Premium_LRS"}},
            None,
        ),
        (
            {
                f"{PROFILE}__storageProfile__osDisk__managedDisk": {"storageAccountType": "Premium_LRS"},
                "sku__name": "Standard_D2d_v4",
            },
            "InvalidParameter",
        ),
        ({f"{PROFILE}__securityProfile": {"securityType": "TrustedLaunch"}}, "BadRequest"),
        ({f"{IP}__subnet": {"id": "/none"}}, "InvalidResourceReference"),
        ({f"{IP}__publicIPAddressConfiguration": {"name": "p"}}, "IPv4BasicSkuPublicIpCountLimitReached"),
        (
            {f"{IP}__publicIPAddressConfiguration": {"name": "p", "sku": {"name": "Standard"}}},
            "InvalidParameter",
        ),
        ({"orchestrationMode": "Flexible"}, "InvalidParameter"),
        ({"vmScaleSetName": "workers-"}, "InvalidParameter"),
        ({"vmScaleSetName": "w" * 65}, "InvalidParameter"),
    ],
)
def test_scale_sets_that_azure_refuses(ready: Cloud, changes: dict[str, Any], code: str | None) -> None:
    if changes.pop("image", None) == "managed":
        ready.make(
            "compute:Image",
            "managed",
            resourceGroupName="rg",
            hyperVGeneration="V2",
            storageProfile={"osDisk": {"osType": "Linux", "osState": "Generalized", "blobUri": ready.blob()}},
        )
        changes[f"{PROFILE}__storageProfile__imageReference"] = {"id": ready.ids["managed"]}
    if code is None:
        ready.scale_set(changes)
        return
    with refused(code):
        ready.scale_set(changes)
    assert ready.world.find("azure-native", "instance") == []


def test_security_type_standard_is_refused_in_preview(ready: Cloud) -> None:
    with pytest.raises(Refused, match="securityType"):
        ready.scale_set({f"{PROFILE}__securityProfile": {"securityType": "Standard"}})


def test_the_image_must_be_in_the_region(ready: Cloud) -> None:
    ready.group("northeurope", "north")
    ready.make(
        "network:VirtualNetwork",
        "far",
        resourceGroupName="north",
        virtualNetworkName="far",
        addressSpace={"addressPrefixes": ["10.9.0.0/16"]},
    )
    ready.make(
        "network:Subnet",
        "farsub",
        resourceGroupName="north",
        virtualNetworkName="far",
        addressPrefix="10.9.0.0/24",
    )
    there = {"resourceGroupName": "north", f"{IP}__subnet": {"id": ready.ids["farsub"]}}
    with refused("GalleryImageNotFound", "not available in northeurope"):
        ready.scale_set(there)
    ready.change(
        "compute:GalleryImageVersion",
        "1.14.0",
        publishingProfile={"targetRegions": [{"name": "westeurope"}, {"name": "northeurope"}]},
    )
    ready.scale_set(there)
    with refused("InvalidResourceReference"):
        ready.scale_set({f"{IP}__subnet": {"id": ready.ids["farsub"]}}, name="second")


def test_a_definition_means_its_newest_version(ready: Cloud) -> None:
    ready.version("1.9.0")
    ready.scale_set({f"{PROFILE}__storageProfile__imageReference": {"id": ready.ids["definition"]}})
    assert machines(ready)[0]["image"] == ready.ids["1.14.0"]


def test_secure_boot_takes_an_image_for_it(ready: Cloud) -> None:
    secure = {"securityType": "TrustedLaunch", "uefiSettings": {"secureBootEnabled": True, "vTpmEnabled": True}}
    with refused("BadRequest", "'TrustedLaunch' is not supported for the image"):
        ready.scale_set({f"{PROFILE}__securityProfile": secure})
    ready.definition("secure", features=[{"name": "SecurityType", "value": "TrustedLaunchSupported"}])
    ready.version("3.0.0", definition="secure")
    image = {f"{PROFILE}__storageProfile__imageReference": {"id": ready.ids["3.0.0"]}}
    ready.scale_set({**image, f"{PROFILE}__securityProfile": secure})


def test_a_disk_is_not_smaller_than_the_image(ready: Cloud) -> None:
    ready.version("2.0.0", uri=ready.blob("big.vhd", size=80 * 1024 * MIB))
    with refused("ResizeDiskError", "64 GB", "80 GB"):
        ready.scale_set({f"{PROFILE}__storageProfile__imageReference": {"id": ready.ids["2.0.0"]}})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("zones", ["1"]),
        ("orchestrationMode", "Flexible"),
        (f"{PROFILE}__osProfile__computerNamePrefix", "other"),
        (f"{PROFILE}__priority", "Spot"),
    ],
)
def test_what_is_fixed_at_creation(ready: Cloud, path: str, value: Any) -> None:
    start = {"zones": ["1", "2"], f"{PROFILE}__priority": "Regular"}
    ready.scale_set(start)
    inputs = ready.scale_set_inputs({**start, path: value})
    with refused("PropertyChangeNotAllowed"):
        ready.change(SCALE_SET, "workers", **inputs)


def test_one_placement_group_can_only_be_given_up(ready: Cloud) -> None:
    ready.scale_set(singlePlacementGroup=True)
    ready.change(SCALE_SET, "workers", singlePlacementGroup=False)
    with refused("PropertyChangeNotAllowed", "singlePlacementGroup"):
        ready.change(SCALE_SET, "workers", singlePlacementGroup=True)


def test_an_update_writes_the_capacity_too(ready: Cloud) -> None:
    ready.scale_set()
    scale(ready.world, "workers", 5)
    live = ready.read(SCALE_SET, "workers") or {}
    assert live["sku"]["capacity"] == 5
    assert len(machines(ready)) == 5
    # Stale inputs, as without a refresh: the update takes the autoscaler's machines away.
    ready.change(SCALE_SET, "workers", tags={"a": "b"})
    assert [machine["name"] for machine in machines(ready)] == ["workers_0", "workers_1"]


def test_instance_ids_are_never_given_twice(ready: Cloud) -> None:
    ready.scale_set()
    scale(ready.world, "workers", 1)
    scale(ready.world, "workers", 2)
    assert [machine["instanceId"] for machine in machines(ready)] == ["0", "2"]


def test_zones_stay_even(ready: Cloud) -> None:
    ready.scale_set(zones=["1", "2"], sku__capacity=4)
    scale(ready.world, "workers", 2)
    assert sorted(machine["zone"] for machine in machines(ready)) == ["1", "2"]


def test_a_new_model_reaches_new_machines_only(ready: Cloud) -> None:
    ready.scale_set()
    old = machines(ready)[0]["customDataHash"]
    changed = ready.scale_set_inputs({f"{PROFILE}__osProfile__customData": b64("new")}, sku__capacity=3)
    ready.change(SCALE_SET, "workers", **changed)
    assert [m["latestModelApplied"] for m in machines(ready)] == [False, False, True]
    assert [m["customDataHash"] == old for m in machines(ready)] == [True, True, False]
    ready.change(SCALE_SET, "workers", tags={"only": "tags"})
    assert [m["latestModelApplied"] for m in machines(ready)] == [False, False, True]


def test_public_addresses_come_from_the_prefix_and_end_with_it(ready: Cloud) -> None:
    ready.prefix(length=31)
    public = {"name": "p", "publicIPPrefix": {"id": ready.ids["prefix"]}}
    ready.scale_set({f"{IP}__publicIPAddressConfiguration": public})
    assert len({machine["publicIp"] for machine in machines(ready)}) == 2
    with refused("PublicIpPrefixOutOfIpAddresses"):
        scale(ready.world, "workers", 3)
    assert len(machines(ready)) == 2
    with refused("InUsePublicIpPrefixCannotBeDeleted"):
        ready.delete("network:PublicIPPrefix", "prefix")


def test_eviction_deletes_or_stops(ready: Cloud) -> None:
    spot = {f"{PROFILE}__priority": "Spot"}
    ready.scale_set({**spot, f"{PROFILE}__evictionPolicy": "Delete"})
    evict(ready.world, "workers_0")
    assert (ready.read(SCALE_SET, "workers") or {})["sku"]["capacity"] == 1
    stop = {f"{PROFILE}__evictionPolicy": "Deallocate", f"{PROFILE}__osProfile__computerNamePrefix": "stop"}
    ready.scale_set({**spot, **stop}, name="stopping")
    evict(ready.world, "stop000001")
    states = [record.doc["provisioningState"] for record in instances(ready.world, ready.ids["stopping"])]
    assert states == ["Succeeded", "Deallocated"]
    assert (ready.read(SCALE_SET, "stopping") or {})["sku"]["capacity"] == 2


def test_actions_behind_pulumis_back(ready: Cloud) -> None:
    ready.scale_set()
    assert ACTIONS["scale"](ready.world, ["workers", "3"]).endswith("has 3 machines")
    assert "workers" in ACTIONS["evict"](ready.world, ["workers_2"])
    for wrong in (["workers"], ["workers", "many"], ["none", "1"]):
        with pytest.raises(CloudError):
            ACTIONS["scale"](ready.world, wrong)
    with refused("ResourceNotFound"):
        ACTIONS["evict"](ready.world, ["workers_9"])
    assert [e.op for e in ready.world.events() if e.op in ("scale", "evict")] == ["scale", "evict"]


def test_a_scale_out_finds_no_stock_when_that_is_planned(ready: Cloud) -> None:
    ready.scale_set()
    ready.world.plan_fault("scale", "VirtualMachineScaleSet", "no-stock")
    with refused("NoStock"):
        scale(ready.world, "workers", 3)
    assert len(machines(ready)) == 2
    scale(ready.world, "workers", 3)
    assert len(machines(ready)) == 3


def test_a_scale_out_fails_when_the_image_is_gone(ready: Cloud) -> None:
    ready.scale_set()
    ready.delete("compute:GalleryImageVersion", "1.14.0")
    with refused("GalleryImageNotFound"):
        scale(ready.world, "workers", 3)


@pytest.mark.parametrize(
    ("name", "cores", "arm64", "generations"),
    [
        ("Standard_D2s_v3", 2, False, {"V1", "V2"}),
        ("Standard_D16ads_v6", 16, False, {"V2"}),
        ("Standard_D2ps_v5", 2, True, {"V2"}),
        ("Standard_D2_v3", 2, False, {"V1"}),
        ("Standard_E64-16ds_v4", 64, False, {"V1", "V2"}),
        ("Standard_B2ats_v2", 2, False, {"V1", "V2"}),
        ("Standard_NC24ads_A100_v4", 24, False, {"V2"}),
    ],
)
def test_sizes(name: str, cores: int, arm64: bool, generations: set[str]) -> None:
    size = parse_size(name)
    assert size is not None
    assert (size.cores, size.arm64, set(size.generations)) == (cores, arm64, generations)


@pytest.mark.parametrize("name", ["Standard_Q2", "standard_d2s_v3", "Standard_D2s v3", "D2s_v3", ""])
def test_sizes_that_are_none(name: str) -> None:
    assert parse_size(name) is None
