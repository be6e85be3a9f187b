"""Uploads of images: the shells as state sees them, and their work against servers on loopback."""

import base64
import hashlib
import json
import lzma
import pickletools
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from azure.identity import CredentialUnavailableError
from http_stub import Answer, Request, serve
from hybrid_talos import azure_blob_client, azure_page_blob
from hybrid_talos.disk_image import GIB, MIB, vhd_footer
from hybrid_talos.image_upload import AzurePageBlobProvider, FactorySchematicProvider
from hybrid_talos.schematic import schematic_id, schematic_yaml
from hybrid_talos.work_provider import WorkError, WorkProvider
from pulumi.dynamic.dynamic import serialize_provider
from pulumi.output import Unknown

from lab.azure.arm import PACKAGE
from lab.azure.blob_store import Blob
from lab.azure.blobs import BlobServer
from lab.azure.identity import IdentityServer
from lab.certs import certificates
from lab.world import World

SCHEMATIC = schematic_yaml(["siderolabs/drbd"])
DISK = random.Random(7).randbytes(3 * MIB) + bytes(60 * MIB) + b"end".ljust(MIB, b"\0")
VHD = DISK + vhd_footer(len(DISK))
ACCOUNT, CONTAINER, BLOB = "talosimages", "images", "talos-1.14.0-azure-amd64.vhd"

Properties = dict[str, Any]


# -- the shells ---------------------------------------------------------------------------------------------

# What stands in every state that has such a resource. It must never change: a state whose text names another
# module or class cannot be refreshed or destroyed any more.
PICKLED = {
    AzurePageBlobProvider: (
        "gASVOgAAAAAAAACMGWh5YnJpZF90YWxvcy5pbWFnZV91cGxvYWSUjBVBenVyZVBhZ2VCbG9iUHJvdmlkZXKUk5QpgZQu"
    ),
    FactorySchematicProvider: (
        "gASVPQAAAAAAAACMGWh5YnJpZF90YWxvcy5pbWFnZV91cGxvYWSUjBhGYWN0b3J5U2NoZW1hdGljUHJvdmlkZXKUk5QpgZQu"
    ),
}


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="a later pickle protocol writes other bytes")
@pytest.mark.parametrize("provider", PICKLED)
def test_the_state_holds_the_same_text_for_ever(provider: type[WorkProvider]) -> None:
    assert serialize_provider(provider()) == PICKLED[provider]


@pytest.mark.parametrize("provider", PICKLED)
def test_the_state_holds_names_and_no_code(provider: type[WorkProvider]) -> None:
    pickled = base64.b64decode(serialize_provider(provider()))
    words = [arg for _, arg, _ in pickletools.genops(pickled) if isinstance(arg, str)]
    assert words == ["hybrid_talos.image_upload", provider.__name__]


def test_another_code_of_the_work_is_no_other_text(monkeypatch: pytest.MonkeyPatch) -> None:
    before = serialize_provider(AzurePageBlobProvider())
    monkeypatch.setattr(azure_page_blob, "create", lambda props: ("other", props))
    monkeypatch.setattr(azure_page_blob, "_FIRST_CAPACITY", 99)
    monkeypatch.setattr(WorkProvider, "create", lambda self, props: None)
    assert serialize_provider(AzurePageBlobProvider()) == before


def test_the_shells_import_no_sdk_of_a_cloud() -> None:
    script = "import sys, hybrid_talos.image_upload; print(*sys.modules, sep='\\n')"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in run.stdout.split()}
    assert "hybrid_talos" in loaded
    assert not loaded & {"pulumi_azure_native", "pulumi_alicloud", "pulumi_kubernetes", "azure"}


NAMES = ("account", "container", "blob", "bucket", "region", "key")


@pytest.mark.parametrize("provider", PICKLED)
def test_unknown_inputs_of_a_preview_are_left_alone(provider: type[WorkProvider]) -> None:
    news = dict.fromkeys((*NAMES, "endpoint", "factory_url", "schematic"), Unknown())
    result = provider().check({}, news)
    assert result.inputs is news
    assert result.failures == []
    assert provider().diff("id", {"account": "a", "bucket": "b"}, news).replaces


def test_a_token_goes_only_over_tls() -> None:
    failures = AzurePageBlobProvider().check({}, {"endpoint": "http://example.com/{account}"}).failures
    assert [(failure.property, failure.reason.split(",")[0]) for failure in failures] == [
        ("endpoint", "must begin with https://")
    ]


KEYS = {
    azure_page_blob: ({"account": "a", "container": "c", "blob": "b", "endpoint": "https://x"}, "blob"),
}


@pytest.mark.parametrize("work", KEYS, ids=["azure"])
def test_other_content_is_another_upload_beside_the_old_one(work: Any) -> None:
    olds, key = KEYS[work]
    result = work.diff({**olds, "sha256": "1" * 64}, {**olds, key: "other", "compressed_sha256": {"a": "2" * 64}})
    assert (result.changes, result.replaces, result.delete_before_replace) == (True, [key], None)


@pytest.mark.parametrize("work", KEYS, ids=["azure"])
def test_another_factory_is_no_change_and_another_address_only_recorded(work: Any) -> None:
    olds, _ = KEYS[work]
    olds = {**olds, "factory_url": "https://one", "sha256": "1" * 64, "claim": "x", "size": 1, "disk_gib": 5}
    result = work.diff(olds, {**olds, "factory_url": "https://two", "factory_ca": "pem"})
    assert (result.changes, result.replaces) == (False, [])
    moved = {**olds, "endpoint": "https://y"}
    result = work.diff(olds, moved)
    assert (result.changes, result.replaces) == (True, [])
    assert work.update(olds, moved)["endpoint"] == "https://y"
    assert work.update(olds, moved)["sha256"] == "1" * 64


@pytest.mark.parametrize("work", KEYS, ids=["azure"])
def test_a_pin_of_something_else_is_refused_in_preview(work: Any) -> None:
    olds, _ = KEYS[work]
    olds = {**olds, "asset": "one.vhd.zst", "sha256": "a" * 64}
    assert work.diff(olds, {**olds, "compressed_sha256": {"one.vhd.zst": "A" * 64}}).changes is False
    with pytest.raises(WorkError, match="compressed_sha256"):
        work.diff(olds, {**olds, "compressed_sha256": {"one.vhd.zst": "b" * 64}})
    with pytest.raises(WorkError, match="compressed_sha256"):
        work.diff(olds, {**olds, "image_file": {"location": "/a.vhd", "sha256": "b" * 64}})


@pytest.mark.parametrize("work", KEYS, ids=["azure"])
def test_other_forms_of_the_same_content_are_no_change(work: Any) -> None:
    olds, _ = KEYS[work]
    olds = {**olds, "assets": ["one.vhd.zst"], "asset": "one.vhd.zst", "sha256": "a" * 64}
    news = {**olds, "assets": ["one.qcow2", "one.vhd.zst"], "compressed_sha256": {"one.vhd.xz": "b" * 64}}
    assert work.diff(olds, news).changes is False


def test_an_error_of_the_work_comes_with_its_message_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Properties) -> None:
        try:
            raise ValueError("inner")
        except ValueError:
            raise WorkError("do this next") from None

    monkeypatch.setattr(azure_page_blob, "delete", fail)
    with pytest.raises(WorkError, match="^do this next$") as caught:
        AzurePageBlobProvider().delete("id", {})
    assert caught.value.__suppress_context__


def test_what_is_gone_has_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure_page_blob, "read", lambda _: None)
    result = AzurePageBlobProvider().read("id", {})
    assert (result.id, result.outs) == ("", {})


# -- a factory ----------------------------------------------------------------------------------------------


@dataclass
class Factory:
    """A factory that serves one image; the fields say what is wrong with it."""

    image: bytes = lzma.compress(VHD, preset=0)
    answered_id: str = schematic_id(SCHEMATIC)
    status: int = 200
    registered: list[str] = field(default_factory=list)
    downloads: int = 0
    url: str = ""

    def respond(self, request: Request) -> Answer:
        if request.path == "/schematics":
            self.registered.append(request.body.decode())
            return Answer(201, json.dumps({"id": self.answered_id}).encode())
        if request.path == "/versions":
            return Answer(200, json.dumps(["v1.13.9", "v1.14.0"]).encode())
        if request.path.endswith("/extensions/official"):
            names = [{"name": "siderolabs/drbd"}, {"name": "siderolabs/zfs"}]
            return Answer(200, json.dumps(names).encode())
        self.downloads += 1
        return Answer(self.status, self.image)

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.image).hexdigest()


@pytest.fixture
def factory() -> Iterator[Factory]:
    made = Factory()
    with serve(made.respond) as made.url:
        yield made


def source(factory: Factory, asset: str) -> Properties:
    return {
        "factory_url": factory.url,
        "schematic": SCHEMATIC,
        "extensions": ["siderolabs/drbd"],
        "talos_version": "1.14.0",
        "assets": [asset],
    }


# -- Azure --------------------------------------------------------------------------------------------------


@dataclass
class Azure:
    """The lab's blob storage with one account and container in it."""

    world: World
    endpoint: str

    @property
    def blob(self) -> Blob:
        return Blob(self.world, ACCOUNT, CONTAINER, BLOB)

    def metadata(self) -> dict[str, str] | None:
        record = self.blob.record()
        if record is None:
            return None
        return {key.removeprefix("x-ms-meta-"): value for key, value in record["metadata"].items()}

    def written(self) -> int:
        """Bytes of the pages that were written."""
        return sum(last - first + 1 for first, last in self.blob.ranges(0, 1 << 40))


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Azure]:
    for variable in ("ARM_CLIENT_ID", "ARM_TENANT_ID", "ARM_USE_OIDC", "ARM_USE_MSI", "AZURE_CLIENT_ID"):
        monkeypatch.delenv(variable, raising=False)
    files = certificates(tmp_path / "certs")
    world = World(tmp_path / "world")
    group = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Storage/storageAccounts"
    account = f"{group}/{ACCOUNT}"
    container = f"{account}/blobServices/default/containers/{CONTAINER}"
    world.put(PACKAGE, "StorageAccount", account, {"name": ACCOUNT, "allowSharedKeyAccess": False})
    world.put(PACKAGE, "BlobContainer", container, {"name": CONTAINER, "etag": '"1"'})
    identity, blobs = IdentityServer(world), BlobServer(world)
    identity.start()
    blobs.start(0, files.server_context())
    for name, value in identity.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(files.bundle))
    yield Azure(world, f"{blobs.url}/{{account}}")
    blobs.stop()
    identity.stop()
    world.close()


def azure_props(azure: Azure, factory: Factory, **more: Any) -> Properties:
    where = {"account": ACCOUNT, "container": CONTAINER, "blob": BLOB, "endpoint": azure.endpoint}
    return {**source(factory, "azure-amd64.vhd.xz"), **where, **more}


def test_a_vhd_becomes_a_page_blob_with_its_zeros_left_out(azure: Azure, factory: Factory) -> None:
    result = AzurePageBlobProvider().create(azure_props(azure, factory))
    outs = result.outs or {}
    assert result.id == f"{ACCOUNT}/{CONTAINER}/{BLOB}"
    assert (outs["size"], outs["sha256"]) == (len(VHD), factory.sha256)
    assert azure.blob.read(0, len(VHD)) == VHD
    assert azure.blob.path.stat().st_size == len(VHD)
    assert azure.written() < 4 * MIB
    assert factory.registered == [SCHEMATIC]
    metadata = azure.metadata() or {}
    assert (metadata["state"], metadata["sha256"]) == ("complete", factory.sha256)


def test_a_raw_disk_becomes_the_same_blob(azure: Azure, factory: Factory) -> None:
    factory.image = DISK
    outs = AzurePageBlobProvider().create(azure_props(azure, factory, assets=["azure-amd64.raw"])).outs or {}
    assert outs["size"] == len(VHD)
    assert azure.blob.read(0, len(VHD)) == VHD


def test_a_disk_beyond_the_first_capacity_grows_the_blob(
    azure: Azure, factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_page_blob, "_FIRST_CAPACITY", MIB)
    AzurePageBlobProvider().create(azure_props(azure, factory))
    assert azure.blob.read(0, len(VHD)) == VHD


def test_a_blob_that_is_complete_is_adopted(azure: Azure, factory: Factory) -> None:
    props = azure_props(azure, factory)
    first = AzurePageBlobProvider().create(props).outs or {}
    again = AzurePageBlobProvider().create(props).outs or {}
    assert {**again, "claim": first["claim"]} == first
    assert factory.downloads == 1


def test_a_blob_is_deleted_by_the_last_that_claimed_it(azure: Azure, factory: Factory) -> None:
    provider, props = AzurePageBlobProvider(), azure_props(azure, factory)
    old, new = provider.create(props), provider.create(props)
    provider.delete(old.id, old.outs or {})
    assert provider.read(new.id, new.outs or {}).outs == new.outs
    provider.delete(new.id, new.outs or {})
    assert azure.blob.record() is None


def test_a_blob_of_a_run_that_was_killed_is_written_anew(azure: Azure, factory: Factory) -> None:
    props = azure_props(azure, factory)
    with azure_blob_client.blob_client(props, BLOB) as left:
        left.create_page_blob(2 * GIB, metadata={"state": "uploading"})
        left.upload_page(b"x" * 512, offset=40 * MIB, length=512)
    assert AzurePageBlobProvider().read("id", props).id == ""
    AzurePageBlobProvider().create(azure_props(azure, factory))
    assert azure.blob.read(0, len(VHD)) == VHD


def test_a_refresh_sees_the_blob_and_that_it_is_gone(azure: Azure, factory: Factory) -> None:
    provider = AzurePageBlobProvider()
    created = provider.create(azure_props(azure, factory))
    assert provider.read(created.id, created.outs or {}).outs == created.outs
    provider.delete(created.id, created.outs or {})
    assert azure.blob.record() is None
    assert provider.read(created.id, created.outs or {}).id == ""
    provider.delete(created.id, created.outs or {})


def test_a_pin_that_fits_is_taken(azure: Azure, factory: Factory) -> None:
    AzurePageBlobProvider().create(
        azure_props(azure, factory, compressed_sha256={"azure-amd64.vhd.xz": factory.sha256})
    )


BAD_IMAGES: dict[str, tuple[Callable[[Factory], None], str]] = {
    "page": (lambda f: setattr(f, "image", b"<html>no</html>"), "HTML"),
    "cut": (lambda f: setattr(f, "image", f.image[:-30]), "too early"),
    "footer": (lambda f: setattr(f, "image", lzma.compress(DISK, preset=0)), "no VHD footer"),
    "status": (lambda f: setattr(f, "status", 404), "status 404"),
    "id": (lambda f: setattr(f, "answered_id", "f" * 64), "planned as"),
    "zeros": (lambda f: setattr(f, "image", lzma.compress(bytes(21 * MIB), preset=0)), "no VHD footer"),
}


@pytest.mark.parametrize("case", BAD_IMAGES)
def test_an_image_that_is_none_leaves_nothing_behind(azure: Azure, factory: Factory, case: str) -> None:
    spoil, problem = BAD_IMAGES[case]
    spoil(factory)
    with pytest.raises(WorkError, match=problem):
        AzurePageBlobProvider().create(azure_props(azure, factory))
    assert azure.blob.record() is None


def test_a_download_that_is_not_the_pinned_one_leaves_nothing_behind(azure: Azure, factory: Factory) -> None:
    with pytest.raises(WorkError, match=factory.sha256):
        AzurePageBlobProvider().create(azure_props(azure, factory, compressed_sha256={"azure-amd64.vhd.xz": "0" * 64}))
    assert azure.blob.record() is None


def test_a_disk_larger_than_that_of_the_machines_leaves_nothing_behind(azure: Azure, factory: Factory) -> None:
    disk = b"x".ljust(2 * MIB, b"y") + bytes(1024 * MIB)
    factory.image = lzma.compress(disk + vhd_footer(len(disk)), preset=0)
    with pytest.raises(WorkError, match="more than 1 GiB, which is the smallest system disk"):
        AzurePageBlobProvider().create(azure_props(azure, factory, system_disk_gb=1.0))
    assert azure.blob.record() is None
    # It fits a larger one, and is not taken over for a smaller one, by a preview neither.
    outs = AzurePageBlobProvider().create(azure_props(azure, factory, system_disk_gb=2.0)).outs
    smaller = azure_props(azure, factory, system_disk_gb=1.0)
    with pytest.raises(WorkError, match="more than 1 GiB"):
        AzurePageBlobProvider().create(smaller)
    with pytest.raises(WorkError, match="more than 1 GiB"):
        azure_page_blob.diff(outs, {**outs, **smaller})
    assert not azure_page_blob.diff(outs, {**outs, "system_disk_gb": 3.0}).changes
    assert azure_page_blob.read(outs) is not None


def test_an_extension_that_is_misspelt_is_named_with_what_is_close(azure: Azure, factory: Factory) -> None:
    with pytest.raises(WorkError, match=r"siderolabs/drdb \(did you mean siderolabs/drbd"):
        AzurePageBlobProvider().create(azure_props(azure, factory, extensions=["siderolabs/drdb"]))


def test_no_identity_is_an_error_that_says_what_to_set(
    azure: Azure, factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoIdentity:
        def get_token(self, *_: str) -> None:
            raise CredentialUnavailableError(message="no identity\nEnvironmentCredential: long story")

    monkeypatch.setattr(azure_blob_client, "deployment_credential", lambda _: NoIdentity())
    with pytest.raises(WorkError, match=r"\(no identity\); set ARM_CLIENT_ID") as caught:
        AzurePageBlobProvider().create(azure_props(azure, factory))
    assert "long story" not in str(caught.value)


def test_a_container_that_is_not_there_counts_as_no_blob(azure: Azure, factory: Factory) -> None:
    props = azure_props(azure, factory, container="other")
    assert AzurePageBlobProvider().read("id", props).id == ""
    AzurePageBlobProvider().delete("id", {**props, "claim": "x"})


def test_an_endpoint_that_is_not_there_is_named(
    azure: Azure, factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_blob_client, "_RETRIES", 0)
    props = azure_props(azure, factory, endpoint="https://127.0.0.1:1/{account}")
    with pytest.raises(WorkError, match="azure.endpoints.blob"):
        AzurePageBlobProvider().read("id", props)
