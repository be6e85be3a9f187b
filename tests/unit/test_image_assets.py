"""Names of what the factory serves."""

import pytest
from hybrid_talos.image_assets import (
    Compression,
    DiskFormat,
    content_name,
    disk_assets,
    form_of,
    pinned,
)


def test_azure_asks_for_zstd_first_and_never_for_a_qcow2() -> None:
    # image-factory applies the options of a VHD to every format of azure, which qemu-img refuses for a qcow2.
    assert disk_assets("azure", "arm64") == (
        "azure-arm64.vhd.zst",
        "azure-arm64.raw.zst",
        "azure-arm64.vhd.xz",
        "azure-arm64.raw.xz",
        "azure-arm64.vhd.gz",
        "azure-arm64.raw.gz",
    )
    assert disk_assets("azure", "amd64", secure_boot=True)[0] == "azure-amd64-secureboot.vhd.zst"


def test_alibaba_takes_the_qcow2_as_it_is_first() -> None:
    assert disk_assets("alibabacloud", "amd64")[:2] == ("alibabacloud-amd64.qcow2", "alibabacloud-amd64.qcow2.zst")
    assert disk_assets("metal", "amd64") == ()


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("azure-amd64.vhd.xz", (DiskFormat.VHD, Compression.XZ)),
        ("azure-amd64-secureboot.raw.zst", (DiskFormat.RAW, Compression.ZSTD)),
        ("alibabacloud-amd64.qcow2", (DiskFormat.QCOW2, Compression.NONE)),
        ("https://files.example.com/v1.14.0/Talos%20Image.VHD.GZ", (DiskFormat.VHD, Compression.GZIP)),
        ("/srv/images.d/talos-1.14.0.raw", (DiskFormat.RAW, Compression.NONE)),
        ("/srv/images.vhd/talos", None),
        ("talos.vhd.bz2", None),
        ("talos.iso", None),
        ("vhd", None),
        (".xz", None),
        ("", None),
    ],
)
def test_a_name_tells_the_form(name: str, form: tuple[DiskFormat, Compression] | None) -> None:
    assert form_of(name) == form


def test_only_pinned_assets_are_asked_for_once_one_is() -> None:
    assets = disk_assets("azure", "amd64")
    assert pinned(assets, []) == assets
    assert pinned(assets, ["azure-amd64.vhd.xz", "azure-amd64.vhd.zst"]) == (assets[0], assets[2])


def test_every_part_of_the_content_is_in_its_name() -> None:
    one = content_name("azure", "amd64", "v1.14.0", "a" * 64)
    assert one == f"talos-1.14.0-azure-amd64-{'a' * 64}"
    others = {
        content_name("azure", "arm64", "1.14.0", "a" * 64),
        content_name("azure", "amd64", "1.14.1", "a" * 64),
        content_name("azure", "amd64", "1.14.0", "b" * 64),
        content_name("azure", "amd64", "1.14.0", "a" * 64, secure_boot=True),
        content_name("alibabacloud", "amd64", "1.14.0", "a" * 64),
    }
    assert len(others - {one}) == 5
