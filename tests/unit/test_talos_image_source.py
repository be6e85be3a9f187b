"""TalosImage: what an image is made of beyond extensions, and where it comes from."""

import re
from typing import Any

import pytest
from hybrid_talos._contract import BadInputs
from hybrid_talos.image_inputs import EnrollKeys
from hybrid_talos.schematic import MetaValue, Overlay, schematic_id, schematic_yaml
from hybrid_talos.talos_image import TalosImage, TalosImageArgs
from test_talos_image import ALIYUN, AZURE, ID, METAL, declare, run

SHA = "AB" * 32
FACTORY = "https://factory.talos.dev"


def test_meta_values_are_part_of_the_schematic() -> None:
    args: TalosImageArgs = {**METAL, "meta": [{"key": 10, "value": "a: 1\nb: 2\n"}, {"key": 12, "value": "x"}]}
    expected = schematic_yaml(["siderolabs/drbd"], meta=[MetaValue(10, "a: 1\nb: 2\n"), MetaValue(12, "x")])
    assert run(declare(args)).values["schematic_id"] == schematic_id(expected)


def test_secure_boot_is_in_every_reference_of_metal() -> None:
    secure = {"enabled": True, "enroll_keys": EnrollKeys.FORCE, "well_known_certificates": True}
    values = run(declare({**METAL, "secure_boot": secure})).values
    found = schematic_id(schematic_yaml(["siderolabs/drbd"], enroll_keys="force", well_known_certificates=True))
    assert values["schematic_id"] == found
    assert values["installer_image"] == f"factory.talos.dev/metal-installer-secureboot/{found}:v1.14.0"
    assert values["iso_url"] == f"{FACTORY}/image/{found}/v1.14.0/metal-amd64-secureboot.iso"
    assert values["pxe_url"] == f"https://pxe.factory.talos.dev/pxe/{found}/v1.14.0/metal-amd64-secureboot"


def test_secure_boot_is_another_image_of_the_same_schematic_on_azure() -> None:
    plain, secure = run(declare(AZURE)), run(declare({**AZURE, "secure_boot": {"enabled": True}}))
    assert plain.values["schematic_id"] == secure.values["schematic_id"]
    upload = secure.one("-upload").inputs
    assert upload["assets"][0] == "azure-amd64-secureboot.vhd.zst"
    assert upload["blob"] == f"talos-1.14.0-azure-amd64-secureboot-{ID}.vhd"
    assert upload["secure_boot"] is True
    assert secure.values["installer_image"] == f"factory.talos.dev/azure-installer-secureboot/{ID}:v1.14.0"


def test_an_overlay_is_part_of_the_schematic_and_asked_for() -> None:
    overlay = {"name": "rpi_generic", "image": "siderolabs/sbc-raspberrypi", "options": {"b": "2x", "a": "1x"}}
    cloud = run(declare({**METAL, "overlay": overlay}))
    options = (("a", "1x"), ("b", "2x"))
    text = schematic_yaml(["siderolabs/drbd"], overlay=Overlay("rpi_generic", "siderolabs/sbc-raspberrypi", options))
    assert cloud.values["schematic_id"] == schematic_id(text)
    assert cloud.one("-schematic").inputs["overlay"] == "rpi_generic"


@pytest.mark.parametrize(
    ("args", "name"),
    [
        (AZURE, f"talos-1.14.0-azure-amd64-{SHA.lower()}.vhd"),
        (ALIYUN, f"talos-1.14.0-alibabacloud-amd64-{SHA.lower()}.qcow2"),
    ],
)
def test_an_image_file_is_named_by_its_digest(args: TalosImageArgs, name: str) -> None:
    location = "/srv/talos.qcow2.zst"
    cloud = run(declare({**args, "image_file": {"location": location, "sha256": SHA}}))
    upload = cloud.one("-image" if "aliyun" in args else "-upload").inputs
    assert upload.get("blob", upload.get("key")) == name
    assert upload["image_file"] == {"location": location, "sha256": SHA.lower()}
    assert upload["content"] == SHA.lower()
    assert cloud.values["schematic_id"] == ID


def test_a_pin_goes_with_the_asset_that_it_is_of() -> None:
    pins = {"azure-amd64.vhd.xz": "1" * 64}
    upload = run(declare({**AZURE, "compressed_sha256": pins})).one("-upload").inputs
    assert upload["compressed_sha256"] == pins
    assert upload["blob"] == f"talos-1.14.0-azure-amd64-{ID}.vhd"


def test_a_proxy_reaches_what_asks_the_factory() -> None:
    proxy = {"proxy": "http://proxy.example.com:3128"}
    assert run(declare({**AZURE, **proxy})).one("-upload").inputs["proxy"] == proxy["proxy"]
    assert run(declare({**METAL, **proxy})).one("-schematic").inputs["proxy"] == proxy["proxy"]


@pytest.mark.parametrize(("args", "child"), [(AZURE, "-upload"), (ALIYUN, "-image")], ids=["azure", "aliyun"])
def test_the_smallest_disk_reaches_the_upload(args: Any, child: str) -> None:
    assert run(declare({**args, "system_disk_gb": 16})).one(child).inputs["system_disk_gb"] == 16


FILE = {"location": "/srv/talos.vhd.zst", "sha256": SHA}


@pytest.mark.parametrize(
    ("args", "change", "problem"),
    [
        (ALIYUN, {"secure_boot": {"enabled": True}}, "secure_boot: Alibaba Cloud has no secure-boot image"),
        (AZURE, {"secure_boot": {"enroll_keys": "force"}}, "secure_boot.enabled"),
        (AZURE, {"secure_boot": {"enabled": True, "enroll_keys": "always"}}, "secure_boot.enroll_keys"),
        (AZURE, {"overlay": {"name": "rpi_generic", "image": "siderolabs/sbc"}}, "overlay: is for boards"),
        (METAL, {"overlay": {"name": "rpi_generic", "image": "SBC:1"}}, "overlay.image"),
        (METAL, {"overlay": {"name": "rpi", "image": "sbc", "options": {"a": "\t"}}}, "overlay.options"),
        (METAL, {"meta": [{"key": 256, "value": "x"}]}, "meta.0.key"),
        (METAL, {"meta": [{"key": 1, "value": " x\ny"}]}, "meta.0.value"),
        (METAL, {"extra_kernel_args": ["on"]}, "'on' alone is written differently"),
        (METAL, {"image_file": FILE}, "image_file: nothing is uploaded for platform metal"),
        (METAL, {"system_disk_gb": 16}, "system_disk_gb: nothing is uploaded"),
        (AZURE, {"system_disk_gb": 0}, "system_disk_gb"),
        (METAL, {"compressed_sha256": {"metal-amd64.raw.zst": SHA}}, "there is none, for nothing is uploaded"),
        (AZURE, {"compressed_sha256": {"azure-arm64.vhd.xz": SHA}}, "'azure-arm64.vhd.xz' is no asset of this image"),
        (AZURE, {"compressed_sha256": {"azure-amd64.vhd.xz": SHA}, "image_file": FILE}, "image_file has its own"),
        (AZURE, {"image_file": {"location": "/srv/talos.vhd"}}, "image_file.sha256"),
        (AZURE, {"image_file": {**FILE, "sha256": "x"}}, "image_file.sha256"),
        (AZURE, {"image_file": {**FILE, "location": "talos.vhd"}}, "image_file.location: must be an abs"),
        (AZURE, {"image_file": {**FILE, "location": "https://a:b@c.example/t.vhd"}}, "must not hold credentials"),
        (AZURE, {"image_file": {**FILE, "location": "https://c.example/t.vhd?sig=x"}}, "must not hold credentials"),
        (AZURE, {"image_file": {**FILE, "location": "/srv/talos.ova"}}, ".vhd or .raw or .qcow2"),
        (ALIYUN, {"image_file": FILE}, "must tell what it is: .qcow2, and"),
        (AZURE, {"proxy": "http://user:word@proxy.example.com"}, "proxy"),
        (AZURE, {"factory_url": "https://user:word@factory.example.com"}, "factory_url"),
    ],
    ids=range(24),
)
def test_what_does_not_fit_is_refused_without_a_secret(args: Any, change: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadInputs, match=re.escape(problem)) as caught:
        TalosImage("image", {**args, **change})
    assert "word" not in str(caught.value)
