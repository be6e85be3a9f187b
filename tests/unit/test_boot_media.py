"""The command that prints what boots a rack, against the lab's factory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from hybrid_talos.talos_image import Platform, TalosImage
from test_talos_image import run
from typer.testing import CliRunner

from lab import factory
from stacks.boot_media import app, media, read
from stacks.images import image_args
from stacks.settings import load


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    base, stop = factory.serve(tmp_path_factory.mktemp("factory"))
    yield base
    stop()


def settings(path: Path, image: dict[str, Any], version: Any = "1.14.0") -> Path:
    whole = {"cluster": {"talosVersion": version, "name": "not looked at: "}, "image": image}
    path.write_text(yaml.safe_dump({"config": {"hybrid-talos:settings": whole}}))
    return path


def printed(path: Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(path)])
    return result.exit_code, result.output


def test_the_factory_knows_what_is_printed(url: str, tmp_path: Path) -> None:
    image = {
        "factoryUrl": url,
        "extensions": ["siderolabs/zfs", "siderolabs/drbd"],
        "overlay": {"name": "rpi_generic", "image": "siderolabs/sbc-raspberrypi", "options": {"a": "b"}},
        "meta": [{"key": 12, "value": "room"}],
        "arch": "arm64",
    }
    code, output = printed(settings(tmp_path / "Pulumi.rack.yaml", image))
    assert code == 0
    found = dict(line.split() for line in output.splitlines())
    assert requests.get(f"{url}/schematics/{found['schematic']}", timeout=5).status_code == 200
    assert requests.get(found["pxe"], timeout=5).text.startswith("#!ipxe")
    assert requests.head(found["disk"], timeout=60).status_code == 200
    assert found["iso"] == f"{url}/image/{found['schematic']}/v1.14.0/metal-arm64.iso"
    assert found["installer"] == f"{url.removeprefix('http://')}/metal-installer/{found['schematic']}:v1.14.0"


@pytest.mark.parametrize(
    ("image", "version", "words"),
    [
        ({"extensions": ["siderolabs/zsf"]}, "1.14.0", "siderolabs/zsf (did you mean siderolabs/zfs"),
        ({}, "1.14.9", "does not know Talos v1.14.9"),
        ({"overlay": {"name": "rpi_4", "image": "siderolabs/sbc"}}, "1.14.0", "no such overlay"),
        ({"colour": "red"}, "1.14.0", "image.colour"),
        ({}, 1.14, "cluster.talosVersion"),
    ],
)
def test_what_is_wrong_is_said(url: str, tmp_path: Path, image: dict[str, Any], version: Any, words: str) -> None:
    code, output = printed(settings(tmp_path / "Pulumi.rack.yaml", {"factoryUrl": url, **image}, version))
    assert code == 1
    assert words in output


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    assert printed(tmp_path / "Pulumi.none.yaml")[0] == 1
    (tmp_path / "Pulumi.list.yaml").write_text("[1, 2]")
    code, output = printed(tmp_path / "Pulumi.list.yaml")
    assert (code, "is no readable configuration" in output) == (1, True)


@pytest.mark.parametrize("name", ["hybrid-secure-boot", "hybrid", "cluster-smallest"])
def test_the_program_gives_the_same_addresses(name: str, tmp_path: Path) -> None:
    document = yaml.safe_load((Path(__file__).parents[1] / "settings" / "good" / f"{name}.yaml").read_text())
    path = tmp_path / "Pulumi.yaml"
    path.write_text(yaml.safe_dump({"config": {"hybrid-talos:settings": document["settings"]}}))
    found = media(read(path))
    whole = load(document["stack"], document["settings"])
    values = run(lambda: TalosImage("image-metal", image_args(whole, Platform.METAL))).values
    assert (found["schematic"], found["iso"]) == (values["schematic_id"], values["iso_url"])
    assert (found["pxe"], found["installer"]) == (values["pxe_url"], values["installer_image"])
