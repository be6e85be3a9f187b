"""TalosImage: what it declares on each platform, what it gives out, and what it refuses."""

import logging
import re
from collections.abc import Callable
from typing import Any

import pulumi
import pytest
from hybrid_talos._contract import BadInputs
from hybrid_talos.azure_image_names import account_name, definition_name, gallery_name
from hybrid_talos.schematic import schematic_id, schematic_yaml
from hybrid_talos.talos_image import Platform, TalosImage, TalosImageArgs
from pool_recorder import Recorder, Registered, _Monitor
from pulumi.provider.experimental.analyzer import Analyzer
from pulumi.runtime import mocks

DRBD = schematic_yaml(["siderolabs/drbd"])
ID = schematic_id(DRBD)
SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"
GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/demo-workers/providers"

AZURE: TalosImageArgs = {
    "platform": Platform.AZURE,
    "talos_version": "1.14.0",
    "extensions": ["siderolabs/drbd"],
    "azure": {"resource_group_name": "demo-workers", "location": "West Europe"},
}
ALIYUN: TalosImageArgs = {
    "platform": Platform.ALIBABACLOUD,
    "talos_version": "1.14.0",
    "extensions": ["siderolabs/drbd"],
    "aliyun": {"region": "cn-hangzhou"},
}


class Cloud(Recorder):
    """Answers with ids and addresses of the form that the clouds give."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        identity, outputs = super().new_resource(args)
        if args.typ.startswith("azure-native:"):
            kind = args.typ.rpartition(":")[2]
            identity = f"{GROUP}/Microsoft.Test/{kind}/{args.name}"
            given = [key for key in ("accountName", "containerName", "galleryName") if key in args.inputs]
            own = {"StorageAccount": "accountName", "BlobContainer": "containerName", "Gallery": "galleryName"}
            outputs["name"] = args.inputs[own[kind]] if kind in own and given else outputs["name"]
            outputs["primaryEndpoints"] = {"blob": f"https://{outputs['name']}.blob.core.windows.net/"}
        if args.typ.startswith("pulumi-python:"):
            outputs |= {"size": 512.0, "sha256": "5" * 64, "disk_gib": 5.0, "image_id": f"{args.name}-image-id"}
        return identity, outputs


def run(program: Callable[[], Any], preview: bool = False) -> Cloud:
    """Run ``program`` under mocks, and return what was registered."""
    cloud = Cloud()
    monitor = _Monitor(cloud)
    mocks.set_mocks(cloud, preview=preview, monitor=monitor, logger=logging.getLogger("pulumi.quiet"))

    @pulumi.runtime.test
    def inside() -> Any:
        component = program()
        names = {name: getattr(component, name) for name in TalosImage.__annotations__}
        return pulumi.Output.all(**names).apply(cloud.values.update)

    inside()
    return cloud


def declare(args: Any, name: str = "image") -> Callable[[], TalosImage]:
    return lambda: TalosImage(name, args)


def children(cloud: Cloud) -> list[Registered]:
    return [found for found in cloud.found if found.type != "hybrid-talos:index:TalosImage"]


# -- metal --------------------------------------------------------------------------------------------------


METAL: TalosImageArgs = {"platform": Platform.METAL, "talos_version": "v1.14.0", "extensions": ["siderolabs/drbd"]}


@pytest.mark.parametrize("preview", [True, False])
def test_metal_tells_the_factory_and_gives_references(preview: bool) -> None:
    cloud = run(declare(METAL), preview)
    told = cloud.one("-schematic")
    assert [child.name for child in children(cloud)] == ["image-schematic"]
    assert told.type == "pulumi-python:dynamic/image:FactorySchematic"
    assert (told.inputs["schematic"], told.inputs["talos_version"]) == (DRBD, "1.14.0")
    assert cloud.values == {
        "schematic_id": ID,
        "image_id": "",
        "image_ids": {},
        "installer_image": f"factory.talos.dev/metal-installer/{ID}:v1.14.0",
        "iso_url": f"https://factory.talos.dev/image/{ID}/v1.14.0/metal-amd64.iso",
        "pxe_url": f"https://pxe.factory.talos.dev/pxe/{ID}/v1.14.0/metal-amd64",
    }


def test_what_is_made_of_an_installer_waits_until_the_factory_knows_the_schematic() -> None:
    dependencies: set[str] = set()

    async def note(image: TalosImage) -> None:
        for resource in await image.installer_image.resources():
            dependencies.add(resource._name)

    def program() -> TalosImage:
        image = TalosImage("image", METAL)
        pulumi.Output.from_input(note(image))
        return image

    run(program)
    assert "image-schematic" in dependencies


def test_another_factory_and_architecture_are_in_every_reference() -> None:
    args = {"platform": "metal", "talos_version": "1.13.9", "factory_url": "http://10.0.0.5:8080/", "arch": "arm64"}
    values = run(declare(args)).values
    empty = schematic_id(schematic_yaml())
    assert values["installer_image"] == f"10.0.0.5:8080/metal-installer/{empty}:v1.13.9"
    assert values["iso_url"] == f"http://10.0.0.5:8080/image/{empty}/v1.13.9/metal-arm64.iso"
    assert values["pxe_url"] == f"http://10.0.0.5:8080/pxe/{empty}/v1.13.9/metal-arm64"


def test_the_outputs_are_those_that_are_registered() -> None:
    cloud = run(declare({"platform": "metal", "talos_version": "1.14.0"}))
    registered = next(keys for urn, keys in cloud.outputs.items() if "TalosImage" in urn)
    camel = {re.sub(r"_([a-z])", lambda m: m[1].upper(), name) for name in TalosImage.__annotations__}
    assert registered == camel


# -- Azure --------------------------------------------------------------------------------------------------


def test_azure_keeps_the_vhd_in_a_private_account_without_keys() -> None:
    account = run(declare(AZURE)).one("-account").inputs
    assert account["kind"] == "StorageV2"
    assert account["sku"] == {"name": "Standard_LRS"}
    assert account["allowBlobPublicAccess"] is False
    assert account["allowSharedKeyAccess"] is False
    assert account["enableHttpsTrafficOnly"] is True
    assert account["minimumTlsVersion"] == "TLS1_2"
    assert run(declare(AZURE)).one("-container").inputs["publicAccess"] == "None"


def test_azure_uploads_the_factorys_vhd_under_a_name_that_says_its_content() -> None:
    upload = run(declare(AZURE)).one("-upload")
    assert upload.type == "pulumi-python:dynamic/image:AzurePageBlob"
    assert upload.inputs["blob"] == f"talos-1.14.0-azure-amd64-{ID}.vhd"
    assert upload.inputs["assets"][:2] == ["azure-amd64.vhd.zst", "azure-amd64.raw.zst"]
    assert upload.inputs["schematic"] == DRBD
    assert upload.inputs["endpoint"] == f"https://{upload.inputs['account']}.blob.core.windows.net/"
    assert upload.inputs["role_is_new"] is False


def test_azure_makes_a_gallery_version_of_the_blob() -> None:
    cloud = run(declare(AZURE))
    version, account = cloud.one("-version").inputs, cloud.one("-account").inputs["accountName"]
    assert cloud.one("-version").type == "pulumi-python:dynamic/image:AzureGalleryImage"
    assert (version["version"], version["architecture"]) == ("1.14.0", "x64")
    assert version["features"] == {"DiskControllerTypes": "SCSI, NVMe"}
    assert version["gallery_id"].endswith("/Gallery/image-gallery")
    assert version["storage_account_id"].endswith("/StorageAccount/image-account")
    assert version["blob_uri"] == f"https://{account}.blob.core.windows.net/images/talos-1.14.0-azure-amd64-{ID}.vhd"
    assert version["tags"] == {
        "hybrid-talos-image": "image",
        "talos-version": "1.14.0",
        "talos-schematic": ID,
        "talos-content": ID,
        "talos-blob": f"talos-1.14.0-azure-amd64-{ID}.vhd",
    }
    assert version["regions"] == ["westeurope"]
    assert version["secure_boot"] is False


def test_what_the_cloud_keeps_is_deleted_by_the_retention_which_is_destroyed_after_it() -> None:
    cloud = run(declare({**AZURE, "azure": {**AZURE["azure"], "retain": 3}}))
    retention = cloud.one("-retention")
    version = cloud.one("-version").inputs
    assert retention.type == "pulumi-python:dynamic/image:AzureGalleryRetention"
    assert retention.inputs["current"] == f"{version['definition']}/{version['version']}"
    assert retention.inputs["current_blob"] == cloud.one("-upload").inputs["blob"]
    assert (retention.inputs["retain"], retention.inputs["owner"]) == (3, version["tags"]["hybrid-talos-image"])
    for kept in (cloud.one("-upload"), cloud.one("-version")):
        assert kept.retained
        assert any(urn.endswith("::image-retention") for urn in kept.dependencies)
    for holder in ("-gallery", "-account", "-container", "-retention"):
        assert not cloud.one(holder).retained
    assert run(declare(AZURE)).one("-retention").inputs["retain"] == 1


def test_azure_replicates_to_each_region_once_and_says_so() -> None:
    azure = {**AZURE["azure"], "replica_regions": ["northeurope", "North Europe", "westeurope"]}
    cloud = run(declare({**AZURE, "azure": azure}))
    assert cloud.one("-version").inputs["regions"] == ["westeurope", "northeurope"]
    assert set(cloud.values["image_ids"]) == {"westeurope", "northeurope"}
    assert set(cloud.values["image_ids"].values()) == {cloud.values["image_id"]}
    assert cloud.values["image_id"] == "image-version-image-id"


def test_arm64_is_said_wherever_azure_asks() -> None:
    cloud = run(declare({**AZURE, "arch": "arm64"}))
    assert cloud.one("-version").inputs["architecture"] == "Arm64"
    assert all(name.startswith("azure-arm64.") for name in cloud.one("-upload").inputs["assets"])


def test_secure_boot_is_said_to_azure_with_the_factorys_certificate() -> None:
    secure = {**AZURE, "secure_boot": {"enabled": True}, "factory_url": "https://factory.example.com"}
    version = run(declare(secure)).one("-version").inputs
    assert version["features"]["SecurityType"] == "TrustedLaunchSupported"
    assert version["definition"].startswith("talos-amd64-secureboot-")
    assert (version["secure_boot"], version["factory_url"]) == (True, "https://factory.example.com")


# -- managed images -----------------------------------------------------------------------------------------

MANAGED: TalosImageArgs = {
    **AZURE,
    "azure": {**AZURE["azure"], "store": "managedImage", "subscription_id": SUBSCRIPTION},  # type: ignore[typeddict-item]
}


def test_a_managed_image_is_one_resource_and_its_retention() -> None:
    cloud = run(declare({**MANAGED, "azure": {**MANAGED["azure"], "tags": {"team": "a"}}}))
    assert [child.name for child in children(cloud)] == ["image-retention", "image-managed"]
    image, retention = cloud.one("-managed"), cloud.one("-retention")
    assert image.type == "pulumi-python:dynamic/image:AzureManagedImage"
    assert re.fullmatch(rf"talos-1\.14\.0-{ID[:12]}-[0-9a-f]{{8}}", image.inputs["image"])
    assert image.inputs["disk"] == f"{image.inputs['image']}-upload"
    assert (image.inputs["subscription_id"], image.inputs["resource_group"]) == (SUBSCRIPTION, "demo-workers")
    assert image.inputs["tags"]["team"] == "a"
    assert image.inputs["schematic"] == DRBD
    assert retention.inputs["current"] == image.inputs["image"]
    assert retention.inputs["owner"] == image.inputs["tags"]["hybrid-talos-image"] == "image"
    assert image.retained
    assert any(urn.endswith("::image-retention") for urn in image.dependencies)
    assert cloud.values["image_ids"] == {"westeurope": "image-managed-image-id"}


def test_two_components_or_regions_never_share_a_managed_image() -> None:
    def name(component: str, **azure: Any) -> Any:
        args = {**MANAGED, "azure": {**MANAGED["azure"], **azure}}
        return run(declare(args, component)).one("-managed").inputs["image"]

    assert len({name("image"), name("other"), name("image", location="northeurope")}) == 3
    assert name("image") == name("image", location="westeurope")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"arch": "arm64"}, "azure.store: a managed image is for x64 machines only, not arm64"),
        ({"secure_boot": {"enabled": True}}, "azure.store: machines of a managed image cannot use Secure Boot"),
        (
            {"azure": {**MANAGED["azure"], "replica_regions": ["North Europe"]}},
            "azure.replica_regions: a managed image is in westeurope alone, not in northeurope",
        ),
        ({"azure": {**AZURE["azure"], "store": "managedImage"}}, "azure.subscription_id: required for a managed image"),
        ({"azure": {**AZURE["azure"], "store": "disk"}}, "azure.store"),
        ({"azure": {**AZURE["azure"], "retain": -1}}, "azure.retain"),
        ({"azure": {**AZURE["azure"], "environment": "mars"}}, "azure.environment"),
        ({"azure": {**AZURE["azure"], "signing_certificate": "x"}}, "azure.signing_certificate"),
        ({"azure": {**AZURE["azure"], "endpoints": {"resource_manager": "http://x"}}}, "azure.endpoints.resource_man"),
    ],
)
def test_what_azure_cannot_do_is_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInputs, match=re.escape(problem)):
        TalosImage("image", {**MANAGED, **change})


# -- Azure, on the way --------------------------------------------------------------------------------------


def test_the_uploader_gets_the_one_role_before_the_upload() -> None:
    azure = {**AZURE["azure"], "uploader_principal_id": "11111111-1111-1111-1111-111111111111"}
    cloud = run(declare({**AZURE, "azure": azure}))
    role = cloud.one("-uploader").inputs
    assert role["scope"].endswith("/StorageAccount/image-account")
    assert role["principalType"] == "ServicePrincipal"
    assert role["roleDefinitionId"] == (
        f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/"
        "ba92f5b4-2d11-453d-a403-e96b0029c9fe"
    )
    upload, retention = cloud.one("-upload"), cloud.one("-retention")
    assert upload.inputs["role_is_new"] is retention.inputs["role_is_new"] is True
    # What comes first waits for the role, and the upload for it.
    assert any(urn.endswith("::image-uploader") for urn in retention.dependencies)
    assert any(urn.endswith("::image-retention") for urn in upload.dependencies)
    assert run(declare(AZURE)).types().count("azure-native:authorization:RoleAssignment") == 0


def test_endpoints_of_a_national_cloud_reach_the_upload() -> None:
    endpoints = {"blob": "https://{account}.blob.core.chinacloudapi.cn", "authority": "login.chinacloudapi.cn"}
    upload = run(declare({**AZURE, "azure": {**AZURE["azure"], "endpoints": endpoints}})).one("-upload").inputs
    assert upload["endpoint"] == endpoints["blob"]
    assert upload["authority"] == endpoints["authority"]


def test_an_environment_is_enough_for_a_national_cloud() -> None:
    cloud = run(declare({**AZURE, "azure": {**AZURE["azure"], "environment": "usgovernment"}}))
    assert cloud.one("-upload").inputs["authority"] == "login.microsoftonline.us"
    for child in (cloud.one("-version"), cloud.one("-retention")):
        assert child.inputs["environment"] == "usgovernment"
    assert run(declare(AZURE)).one("-version").inputs["environment"] == "public"


@pytest.mark.parametrize(
    "change",
    [{"extensions": ["siderolabs/drbd", "siderolabs/zfs"]}, {"arch": "arm64"}, {"talos_version": "1.14.1"}],
    ids=["extension", "architecture", "release"],
)
def test_other_content_is_another_blob_and_another_image(change: dict[str, Any]) -> None:
    before, after = run(declare(AZURE)), run(declare({**AZURE, **change}))
    assert before.one("-upload").inputs["blob"] != after.one("-upload").inputs["blob"]

    def name(cloud: Cloud) -> tuple[str, str]:
        return cloud.one("-version").inputs["definition"], cloud.one("-version").inputs["version"]

    assert name(before) != name(after)
    assert before.one("-account").inputs["accountName"] == after.one("-account").inputs["accountName"]


def test_order_and_old_names_of_extensions_are_the_same_content() -> None:
    one = run(declare({**AZURE, "extensions": ["siderolabs/i915-ucode", "siderolabs/drbd"]}))
    other = run(declare({**AZURE, "extensions": ["siderolabs/drbd", "siderolabs/i915"]}))
    assert one.one("-upload").inputs["blob"] == other.one("-upload").inputs["blob"]


def test_an_old_name_of_an_extension_is_brought_to_todays_with_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_: said.append(text))
    old = {**AZURE, "extensions": ["siderolabs/i915-ucode", "siderolabs/drbd", "siderolabs/i915"]}
    assert run(declare(old)).one("-upload").inputs["extensions"] == ["siderolabs/drbd", "siderolabs/i915"]
    assert said == ["extensions: siderolabs/i915-ucode is called siderolabs/i915 today; that is used"]


def test_a_pre_release_has_a_legal_version_name_and_a_definition_of_its_own() -> None:
    cloud = run(declare({**AZURE, "talos_version": "v1.15.0-alpha.1"}))
    assert re.fullmatch(r"\d+\.\d+\.\d+", cloud.one("-version").inputs["version"])
    definition = cloud.one("-version").inputs["definition"]
    assert definition == f"talos-amd64-{ID[:12]}-alpha.1"
    assert definition != definition_name("amd64", ID, "1.15.0")


@pytest.mark.parametrize("name", ["image", "Azure image: workers", "x" * 100])
def test_names_are_legal_whatever_the_component_is_called(name: str) -> None:
    assert re.fullmatch(r"[a-z0-9][a-z0-9_]{0,78}[a-z0-9]", gallery_name(name, "demo"))
    assert re.fullmatch(r"[a-z0-9]{3,24}", account_name(f"{GROUP}/Microsoft.Compute/galleries/x"))
    assert len(definition_name("arm64", ID, "1.14.0-alpha.10")) <= 64


def test_two_clusters_have_no_name_in_common() -> None:
    assert gallery_name("image", "rg-a") != gallery_name("image", "rg-b")
    assert gallery_name("image", "rg-a") == gallery_name("image", "RG-A")
    assert account_name("/subscriptions/1/g") != account_name("/subscriptions/2/g")


# -- Alibaba ------------------------------------------------------------------------------------------------


def test_aliyun_imports_the_factorys_qcow2_through_a_private_bucket() -> None:
    cloud = run(declare(ALIYUN))
    assert cloud.one("-acl").inputs["acl"] == "private"
    assert "acl" not in cloud.one("-bucket").inputs
    image = cloud.one("-image")
    assert image.type == "pulumi-python:dynamic/image:AliyunCustomImage"
    assert image.inputs["key"] == f"talos-1.14.0-alibabacloud-amd64-{ID}.qcow2"
    assert image.inputs["assets"][0] == "alibabacloud-amd64.qcow2"
    assert (image.inputs["boot_mode"], image.inputs["region"]) == ("UEFI", "cn-hangzhou")
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9.:_-]{1,127}", image.inputs["image_name"])
    assert image.inputs["image_name"].startswith(f"talos-1.14.0-alibabacloud-amd64-{ID[:12]}-uefi-")
    assert image.inputs["tags"]["hybrid-talos-image"] == "image-bucket-id"
    retention = cloud.one("-retention")
    assert retention.inputs["current"] == image.inputs["image_name"]
    assert (retention.inputs["current_key"], retention.inputs["retain"]) == (image.inputs["key"], 1)
    assert any(urn.endswith("::image-acl") for urn in retention.dependencies), "private before anything is in it"
    assert any(urn.endswith("::image-retention") for urn in image.dependencies), "destroyed before what deletes it"


def test_aliyun_can_boot_by_bios_where_instances_know_nothing_else() -> None:
    by_bios = run(declare({**ALIYUN, "aliyun": {"region": "cn-hangzhou", "boot_mode": "BIOS"}}))
    assert by_bios.one("-image").inputs["boot_mode"] == "BIOS"
    assert "-bios-" in by_bios.one("-image").inputs["image_name"]
    assert by_bios.one("-image").inputs["key"] == run(declare(ALIYUN)).one("-image").inputs["key"]


def test_the_metal_image_reads_its_user_data_by_a_kernel_argument() -> None:
    aliyun = {"region": "cn-hangzhou", "experimental_metal": True}
    cloud = run(declare({**ALIYUN, "talos_version": "1.13.9", "aliyun": aliyun}))
    image = cloud.one("-image").inputs
    assert image["assets"][0] == "metal-amd64.qcow2"
    text = schematic_yaml(["siderolabs/drbd"], ["talos.config=http://100.100.100.200/latest/user-data"])
    assert image["schematic"] == text
    assert image["key"] == f"talos-1.13.9-metal-amd64-{schematic_id(text)}.qcow2"
    assert cloud.values["schematic_id"] == schematic_id(text)
    assert cloud.values["installer_image"].startswith("factory.talos.dev/metal-installer/")


# -- both ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [AZURE, ALIYUN], ids=["azure", "aliyun"])
def test_every_child_has_the_components_name_and_parent(args: TalosImageArgs) -> None:
    cloud = run(declare(args, "first"))
    assert children(cloud)
    for child in children(cloud):
        assert child.name.startswith("first-")
        assert child.parent.endswith("hybrid-talos:index:TalosImage::first")


@pytest.mark.parametrize("args", [AZURE, ALIYUN], ids=["azure", "aliyun"])
def test_a_preview_with_everything_unknown_declares_the_same(args: TalosImageArgs) -> None:
    def program() -> TalosImage:
        unknown: pulumi.Output[str] = pulumi.Output.from_input(pulumi.UNKNOWN)
        if "azure" in args:
            return TalosImage("image", {**args, "azure": {**args["azure"], "resource_group_name": unknown}})
        return TalosImage("image", args)

    assert run(program, preview=True).types() == run(declare(args)).types()


def test_two_images_of_each_platform_stand_beside_each_other() -> None:
    def program() -> TalosImage:
        for args in (AZURE, ALIYUN):
            TalosImage(f"a-{args['platform']}", args)
            TalosImage(f"b-{args['platform']}", args)
        return TalosImage("metal", {"platform": Platform.METAL, "talos_version": "1.14.0"})

    names = [found.name for found in run(program).found]
    assert len(names) == len(set(names)) == 2 * (7 + 5) + 2


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"platform": "gcp"}, "platform"),
        ({"talos_version": "1.14"}, "talos_version"),
        ({"talos_version": 1.14}, "talos_version"),
        ({"factory_url": "factory.talos.dev"}, "factory_url"),
        ({"extensions": ["drbd"]}, "'drbd' is no extension"),
        ({"extra_kernel_args": ["two\nlines"]}, "printable ASCII"),
        ({"compressed_sha256": {"azure-amd64.vhd.xz": "abc"}}, "compressed_sha256.azure-amd64.vhd.xz"),
        ({"arch": "riscv64"}, "arch"),
        ({"azure": None}, "azure: required for platform azure"),
        ({"aliyun": {"region": "cn-hangzhou"}}, "aliyun: belongs to platform alibabacloud"),
        ({"azure": {"location": "westeurope"}}, "azure.resource_group_name"),
        ({"azure": {**AZURE["azure"], "regions": []}}, "azure.regions"),
        ({"azure": {**AZURE["azure"], "endpoints": {"blob": "http://x"}}}, "azure.endpoints.blob"),
        ({"size": 5}, "size: no such input"),
    ],
)
def test_bad_inputs_are_named_and_nothing_is_registered(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInputs, match=re.escape(problem)):
        TalosImage("image", {**AZURE, **change})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"arch": "arm64"}, "arm64 images cannot be imported"),
        ({"talos_version": "1.13.9"}, "1.13.9 has no alibabacloud platform"),
        (
            {
                "extra_kernel_args": ["talos.config=https://example.com"],
                "aliyun": {"region": "cn-hangzhou", "experimental_metal": True},
            },
            "extra_kernel_args: talos.config is set by aliyun.experimental_metal",
        ),
        ({"aliyun": {"region": "cn-hangzhou", "retain": -1}}, "aliyun.retain"),
        ({"aliyun": {"region": "cn-hangzhou", "endpoints": {"ecs": "ecs.example.com"}}}, "aliyun.endpoints.ecs"),
        ({"aliyun": {"region": "Hangzhou"}}, "aliyun.region"),
        ({"aliyun": {"region": "cn-hangzhou", "boot_mode": "PXE"}}, "aliyun.boot_mode"),
    ],
)
def test_what_alibaba_cannot_do_is_refused(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInputs, match=problem):
        TalosImage("image", {**ALIYUN, **change})


def test_the_analyzer_reads_every_input_and_output() -> None:
    found = Analyzer("hybrid-talos").analyze([TalosImage])
    component = found["component_definitions"]["TalosImage"]
    assert {key for key, prop in component.inputs.items() if not prop.optional} == {"platform", "talosVersion"}
    described = [*component.inputs.values(), *component.outputs.values()]
    for definition in found["type_definitions"].values():
        described += definition.properties.values()
    assert all(prop.description for prop in described)
