"""Where images come from, on the real engine: the factory, its refusals and its faults, and a file in its place."""

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_folder import Lab

from lab.factory_faults import Fault, plan

pytestmark = pytest.mark.lab

PROGRAM = Path(__file__).parent / "programs" / "image-source"
DRBD = {"talos_version": "1.14.0", "extensions": ["siderolabs/drbd"]}


class Source:
    """A stack of the program, and the lab's factory."""

    def __init__(self, lab: Lab, files: Path) -> None:
        self.lab = lab
        self.files = files

    @property
    def factory(self) -> Path:
        return self.lab.folder / "factory"

    def with_(self, *, azure: dict[str, Any] | None = None, **more: Any) -> Lab:
        """Return the lab with other inputs of both images, and of the one on Azure."""
        assert self.lab.config_file is not None
        document = yaml.safe_load(self.lab.config_file.read_text())
        document["config"]["hybrid-talos:settings"]["image"] = {"more": {**DRBD, **more}, "azure": azure or {}}
        path = self.files / f"Pulumi.{len(list(self.files.iterdir()))}.yaml"
        path.write_text(yaml.safe_dump(document))
        return replace(self.lab, config_file=path)

    def blobs(self) -> list[str]:
        return [record.id.rsplit("/", 1)[-1] for record in self.lab.world().find("azure-native", "blob")]

    def upload(self) -> dict[str, Any]:
        """Return the outputs of the upload."""
        found = [item for item in self.lab.state() if item["type"] == "pulumi-python:dynamic/image:AzurePageBlob"]
        return dict(found[0]["outputs"])


def failed(lab: Lab) -> str:
    """Return what an `up` says that fails."""
    run = lab.run("up", "--yes", "--skip-preview", code=None)
    assert run.code
    return run.text


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    lab = Lab(tmp_path_factory.mktemp("lab"), "source", PROGRAM / "Pulumi.source.yaml", program=PROGRAM)
    return Source(lab, tmp_path_factory.mktemp("files"))


class TestSource:
    """In order: each test goes on from the one before."""

    def test_what_the_platform_cannot_have_fails_in_the_preview(self, source: Source) -> None:
        lab = source.with_(azure={"compressed_sha256": {"azure-amd64.ova": "0" * 64}})
        run = lab.run("preview", code=None)
        assert run.code
        assert "'azure-amd64.ova' is no asset of this image" in run.text
        assert "Traceback" not in run.text

    def test_what_the_factory_does_not_have_stores_nothing(self, source: Source) -> None:
        run = failed(source.with_(extensions=["siderolabs/dbrd"]))
        assert "siderolabs/dbrd (did you mean siderolabs/drbd" in run
        assert "change image.extensions" in run
        assert "Traceback" not in run, "the message, and nothing of the code that it came through"
        assert source.blobs() == []

    def test_what_is_no_image_leaves_nothing_behind(self, source: Source) -> None:
        plan(source.factory, Fault("html", "azure-*"), Fault("corrupt", "azure-*", after=900_000))
        run = failed(source.with_())
        assert "azure-amd64.raw.zst: the zst stream is damaged" in run
        assert source.blobs() == []

    def test_a_broken_connection_is_said_and_gone_on_from(self, source: Source) -> None:
        plan(source.factory, Fault("break", "azure-*", after=800_000))
        run = source.with_().up()
        assert "azure-amd64.vhd.zst: the connection broke at" in run.text
        assert "goes on from there" in run.text
        assert source.upload()["asset"] == "azure-amd64.vhd.zst"
        outputs = source.lab.outputs()
        assert outputs["isoUrl"].endswith("/v1.14.0/metal-amd64.iso")
        assert "/metal-installer/" in outputs["installerImage"]

    def test_a_pin_of_what_is_stored_changes_nothing_and_another_is_refused_in_the_preview(
        self, source: Source
    ) -> None:
        found = source.upload()
        pin = {found["asset"]: found["sha256"].upper(), "azure-amd64.vhd.xz": "0" * 64}
        assert source.with_(azure={"compressed_sha256": pin}).changes() == {}
        run = source.with_(azure={"compressed_sha256": {found["asset"]: "0" * 64}}).run("preview", code=None)
        assert run.code
        assert "is pinned (compressed_sha256), but the stored image was made from" in run.text

    def test_a_file_takes_the_factorys_place(self, source: Source) -> None:
        (packed,) = source.factory.glob("images/*/v1.14.0/azure-amd64.vhd.zst")
        location = source.files / "talos.vhd.zst"
        location.write_bytes(packed.read_bytes())
        digest = hashlib.sha256(packed.read_bytes()).hexdigest()
        before = source.blobs()
        lab = source.with_(azure={"image_file": {"location": str(location), "sha256": digest}})
        plan(source.factory, Fault("missing", "azure-*", times=99))
        lab.up()
        assert f"talos-1.14.0-azure-amd64-{digest}.vhd" in source.blobs()
        assert set(before) < set(source.blobs())
        assert source.upload()["asset"] == "talos.vhd.zst"
        location.unlink()
        assert lab.changes() == {}

    def test_destroy_needs_neither_factory_nor_file(self, source: Source) -> None:
        source.with_().destroy()
        assert source.blobs() == []
