"""The canonical YAML of schematics, their ids, and the names of assets."""

import json
from pathlib import Path

import pytest
from hybrid_talos.image_assets import (
    image_url,
    installer_ref,
    iso_url,
    platform_problem,
    pxe_url,
)
from hybrid_talos.schematic import MetaValue, Overlay, current_extensions, schematic_id, schematic_yaml

from lab.factory_schematic import canonical

FACTORY = "https://factory.talos.dev"
EMPTY = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"

# As the how-to for Azure lists them, two under names of the past.
AZURE_HOW_TO = (
    "siderolabs/amd-ucode",
    "siderolabs/amdgpu-firmware",
    "siderolabs/bnx2-bnx2x",
    "siderolabs/drbd",
    "siderolabs/i915-ucode",
    "siderolabs/intel-ice-firmware",
    "siderolabs/intel-ucode",
    "siderolabs/qlogic-firmware",
    "siderolabs/zfs",
)


# siderolabs/image-factory pkg/schematic/schematic_test.go
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (schematic_yaml(), EMPTY),
        (
            schematic_yaml((), ("noapic", "nolapic")),
            "9cba8e32753f91a16c1837ab8abf356af021706ef284aef07380780177d9a06c",
        ),
        (
            schematic_yaml(meta=[MetaValue(0x0A, "foo")]),
            "d308a2a5ee2277bed5fbaa104fcbc8d59122abfa737df987a95b4ca763459a7f",
        ),
        (
            schematic_yaml(well_known_certificates=True),
            "fa8e05f142a851d3ee568eb0a8e5841eaf6b0ebc8df9a63df16ac5ed2c04f3e6",
        ),
        (
            schematic_yaml(overlay=Overlay("rpi_generic", "siderolabs/sbc-raspberrypi")),
            "ee21ef4a5ef808a9b7484cc0dda0f25075021691c8c09a276591eedb638ea1f9",
        ),
        (
            schematic_yaml(sector_size=4096),
            "92833e9ddd9bb9e11b2464fa5525429f01866306d52ebd882ee08d7918f6d1ea",
        ),
        (
            schematic_yaml(AZURE_HOW_TO),
            "a98805d51c6a63e868551e5ed43c4a0382346d72de93fe9526051ae995e82532",
        ),
    ],
    ids=["empty", "kernel arguments", "meta", "secure boot", "overlay", "sectors of 4 KiB", "extensions"],
)
def test_ids_are_those_of_the_factory(text: str, expected: str) -> None:
    assert schematic_id(text) == expected


def test_order_and_repetition_of_extensions_do_not_change_the_id() -> None:
    one = schematic_yaml(current_extensions(["siderolabs/zfs", "siderolabs/drbd", "siderolabs/zfs"]))
    other = schematic_yaml(current_extensions(["siderolabs/drbd", "siderolabs/zfs"]))
    assert one == other
    assert schematic_id(one) != schematic_id(schematic_yaml(current_extensions(["siderolabs/drbd"])))


def test_renamed_extensions_get_their_names_of_today() -> None:
    assert current_extensions(AZURE_HOW_TO)[1] == "siderolabs/amdgpu"
    assert "siderolabs/i915" in current_extensions(AZURE_HOW_TO)


def test_an_old_and_a_new_name_of_one_extension_are_one() -> None:
    assert current_extensions(["siderolabs/i915", "siderolabs/i915-ucode"]) == ("siderolabs/i915",)


# What go.yaml.in/yaml/v4, which the factory uses, writes for these as items of a list.
@pytest.mark.parametrize(
    ("argument", "written"),
    [
        ("console=tty1", "console=tty1"),
        ("-console", "-console"),
        ("talos.config=http://100.100.100.200/latest/user-data", None),
        ("true", '"true"'),
        ("", '""'),
        ("123", '"123"'),
        ("0x1f", '"0x1f"'),
        ("0_X1", '"0_X1"'),
        ("0x", "0x"),
        ("0b" + "1" * 65, None),
        ("1e3", '"1e3"'),
        ("2001-01-01", '"2001-01-01"'),
        ("_1", "_1"),
        ("a: b", "'a: b'"),
        ("a #b", "'a #b'"),
        ("-", "'-'"),
        ("'a'", "'''a'''"),
        ("it's", "it's"),
        ("{}", "'{}'"),
        ("a,b", "a,b"),
        (",a", "',a'"),
        ("a ", "'a '"),
        ("1.2.3.4", "1.2.3.4"),
    ],
)
def test_text_is_quoted_as_the_factory_quotes_it(argument: str, written: str | None) -> None:
    expected = argument if written is None else written
    assert schematic_yaml((), [argument]) == f"customization:\n    extraKernelArgs:\n        - {expected}\n"


@pytest.mark.parametrize("argument", ["y", "OFF", "No", "<<", "12:30:45", "-1:2"])
def test_text_that_releases_of_the_factory_write_differently_is_refused(argument: str) -> None:
    with pytest.raises(ValueError, match="written differently by different releases"):
        schematic_yaml((), [argument])


# What go.yaml.in/yaml/v4 writes for these as the value of a META key.
@pytest.mark.parametrize(
    ("value", "written"),
    [
        ('{"a": 1}', " '{\"a\": 1}'"),
        ("a: 1\nb: 2\n", " |\n            a: 1\n            b: 2"),
        ("a: 1\n  b: 2", " |-\n            a: 1\n              b: 2"),
        ("# x\n\ny\n", " |\n            # x\n\n            y"),
    ],
)
def test_values_of_several_lines_stand_as_the_factory_writes_them(value: str, written: str) -> None:
    expected = f"customization:\n    meta:\n        - key: 10\n          value:{written}\n"
    assert schematic_yaml(meta=[MetaValue(10, value)]) == expected


@pytest.mark.parametrize("value", ["\na", " a\nb", "a \nb", "a\tb\nc", "é\n", "a\n\n"])
def test_values_of_several_lines_without_a_certain_form_are_refused(value: str) -> None:
    with pytest.raises(ValueError, match="must"):
        schematic_yaml(meta=[MetaValue(10, value)])


def test_options_of_an_overlay_are_in_the_order_of_their_names() -> None:
    text = schematic_yaml(overlay=Overlay("rpi", "siderolabs/sbc", (("b", "two\nlines\n"), ("a", "0"))))
    assert text == (
        "overlay:\n    image: siderolabs/sbc\n    name: rpi\n    options:\n"
        '        a: "0"\n        b: |\n            two\n            lines\ncustomization: {}\n'
    )


@pytest.mark.parametrize("argument", ["two\nlines", "a\tb", "é"])
def test_text_without_a_certain_form_is_refused(argument: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII"):
        schematic_yaml((), [argument])


@pytest.mark.parametrize("version", ["1.14.0", "v1.14.0"])
def test_addresses_have_one_v_before_the_version(version: str) -> None:
    base = f"image/{EMPTY}/v1.14.0"
    assert image_url(f"{FACTORY}/", EMPTY, version, "a") == f"{FACTORY}/{base}/a"
    assert iso_url(FACTORY, EMPTY, version, "amd64") == f"{FACTORY}/{base}/metal-amd64.iso"
    assert installer_ref(FACTORY, "azure", EMPTY, version) == (f"factory.talos.dev/azure-installer/{EMPTY}:v1.14.0")


def test_the_public_factory_serves_pxe_from_a_host_of_its_own() -> None:
    path = f"/pxe/{EMPTY}/v1.14.0/metal-arm64"
    assert pxe_url(FACTORY, EMPTY, "1.14.0", "arm64") == f"https://pxe.factory.talos.dev{path}"
    assert pxe_url("http://10.0.0.5:8080", EMPTY, "1.14.0", "arm64") == f"http://10.0.0.5:8080{path}"


@pytest.mark.parametrize("version", ["1.13.9", "1.14.0-alpha.3", "1.14.0-beta.1"])
def test_alibaba_needs_a_talos_that_knows_it(version: str) -> None:
    assert "no alibabacloud platform" in (platform_problem("alibabacloud", "amd64", version) or "")
    assert platform_problem("azure", "amd64", version) is None


@pytest.mark.parametrize("version", ["1.14.0-beta.2", "1.14.0-rc.1", "v1.14.0", "1.15.0-alpha.0"])
def test_alibaba_works_from_the_first_such_talos(version: str) -> None:
    assert platform_problem("alibabacloud", "amd64", version) is None


def test_alibaba_imports_no_arm64() -> None:
    assert "x86_64" in (platform_problem("alibabacloud", "arm64", "1.14.0") or "")
    assert platform_problem("azure", "arm64", "1.14.0") is None


VECTORS = json.loads((Path(__file__).parent / "data" / "go_yaml_vectors.json").read_text())["vectors"]


@pytest.mark.parametrize(("value", "written"), VECTORS, ids=range(len(VECTORS)))
def test_every_text_is_written_as_the_factorys_yaml_writes_it(value: str, written: str) -> None:
    assert schematic_yaml(meta=[MetaValue(10, value)]) == written
    assert canonical(schematic_yaml(meta=[MetaValue(10, value)]).encode()) == written
