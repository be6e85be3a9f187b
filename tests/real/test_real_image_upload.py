"""Images through the real clients into servers of the clouds' own protocols, from disks that qemu-img and zstd made.

Azure: azure-storage-blob, with tokens, to Azurite; the lab says which accounts there are and checks the tokens.
Alibaba Cloud: alibabacloud-oss-v2 to the lab's own server of the OSS protocol, which checks each signature.
"""

import functools
import hashlib
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import ContainerClient
from hybrid_talos import aliyun_custom_image, aliyun_oss_object, azure_page_blob, page_writer
from hybrid_talos.disk_image import FixedVhd
from hybrid_talos.work_provider import WorkError

from lab import node_tools
from lab.alicloud.oss_store import Store
from lab.azure import blob_store
from lab.azure.azurite_store import AzuriteStore
from lab.azurite import ACCOUNT as AZURITES
from lab.azurite import KEY, Azurite, azurite
from lab.factory_disk import BLOCK, Disk
from lab.factory_packing import pack
from tests.lab.alicloud_image_servers import Aliyun, aliyun_servers
from tests.lab.azure_image_servers import ACCOUNT, CONTAINER, MIB, Azure, azure_servers
from tests.lab.lab_folder import Lab

GIB = 1 << 30
DISK = Disk("real", 2 * GIB, 40 * MIB)
BLOB = "one.vhd"
PROGRAM = Path(__file__).parents[1] / "lab" / "programs" / "azure-image"


class Killed(BaseException):
    """Ends a run where it stands: the test lets nothing that cleans up run after it."""


def inside(server: Azurite, container: str) -> ContainerClient:
    key = {"account_name": AZURITES, "account_key": KEY}
    return ContainerClient(server.url, container, credential=key)


def used(disk: Disk) -> list[tuple[int, bytes]]:
    return [(at * BLOCK, block) for at, block in enumerate(disk.blocks()) if block != bytes(BLOCK)]


class Writes:
    """Counts the pages that are written, and kills the run at one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = self.calls = 0
        self.kill_at: int | None = None
        self._lock = threading.Lock()
        upload = azure_page_blob.BlobClient.upload_page

        def counted(client: Any, page: bytes, offset: int, length: int, **options: Any) -> Any:
            with self._lock:
                self.calls += 1
                if self.calls == self.kill_at:
                    raise Killed
                self.bytes += length
            return upload(client, page, offset=offset, length=length, **options)

        monkeypatch.setattr(azure_page_blob.BlobClient, "upload_page", counted)

    def reset(self) -> None:
        self.bytes = self.calls = 0
        self.kill_at = None


@pytest.fixture(scope="module")
def server() -> Iterator[Azurite]:
    with azurite(node_tools.provide()) as running:
        yield running


@pytest.fixture(scope="module")
def container(server: Azurite) -> Iterator[ContainerClient]:
    """What Azurite has, seen past the lab."""
    with inside(server, f"{ACCOUNT}-{CONTAINER}") as client:
        yield client


@pytest.fixture
def azure(server: Azurite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Azure]:
    often = functools.partial(page_writer.write_pages, checkpoint_every=8 * MIB)
    monkeypatch.setattr(azure_page_blob, "write_pages", often)
    with azure_servers(tmp_path, monkeypatch) as made:
        blob_store.keep_in(made.world, AzuriteStore(server))
        yield made
        blob_store.keep_in(made.world, None)


@pytest.fixture
def writes(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> Writes:
    return Writes(monkeypatch)


def packed(folder: Path, form: str) -> Path:
    """Return the disk as the factory would serve it."""
    kind, _, packing = form.partition(".")
    path = folder / f"real-azure-amd64.{form}"
    if kind == "qcow2":
        assert shutil.which("qemu-img"), "needs qemu-img (Debian and Ubuntu: apt install qemu-utils)"
        raw = folder / "disk.raw"
        with raw.open("wb") as file:
            file.truncate(DISK.size)
            for at, block in used(DISK):
                file.seek(at)
                file.write(block)
        subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, path], check=True)
        return path
    footer = FixedVhd(DISK.blocks(), has_footer=False)
    for _ in footer.pages():
        pass
    blocks = iter([*DISK.blocks(), footer.footer]) if kind == "vhd" else DISK.blocks()
    with path.open("wb") as file:
        file.writelines(pack(blocks, packing, DISK.size + 512 * (kind == "vhd")))
    return path


def props(azure: Azure, path: Path) -> dict[str, Any]:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {**azure.upload(), "content": digest, "image_file": {"location": str(path), "sha256": digest}}


def verify(container: ContainerClient) -> None:
    """Fail unless Azurite has the disk, its footer, and nothing else."""
    with container.get_blob_client(BLOB) as blob:
        assert blob.get_blob_properties().size == DISK.size + 512
        for at, block in used(DISK):
            assert blob.download_blob(at, BLOCK).readall() == block
        written = sum(part["end"] - part["start"] + 1 for part in blob.list_page_ranges())
    assert written <= sum(len(block) for _, block in used(DISK)) + 512


@pytest.mark.parametrize("form", ["vhd.xz", "vhd.zst", "raw.zst", "raw.gz", "qcow2"])
def test_what_azurite_has_is_the_disk(
    azure: Azure, container: ContainerClient, writes: Writes, tmp_path: Path, form: str
) -> None:
    wanted = props(azure, packed(tmp_path, form))
    _, outs = azure_page_blob.create(wanted)
    verify(container)
    assert outs["sha256"] == wanted["content"]
    assert outs["size"] == DISK.size + 512
    assert azure_page_blob.read(outs) == outs

    # The same content again is taken over, and nothing sent.
    writes.reset()
    _, again = azure_page_blob.create(wanted)
    assert writes.calls == 0
    azure_page_blob.delete(outs)
    assert azure_page_blob.read(again) is not None, "another run claimed it"
    azure_page_blob.delete(again)
    assert azure_page_blob.read(again) is None
    assert list(container.list_blobs()) == []


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0], ids=["first-page", "middle", "footer"])
def test_a_run_that_was_killed_is_gone_on_from(
    azure: Azure, container: ContainerClient, writes: Writes, tmp_path: Path, share: float
) -> None:
    wanted = props(azure, packed(tmp_path, "vhd.zst"))
    _, outs = azure_page_blob.create(wanted)
    whole, calls = writes.bytes, writes.calls
    azure_page_blob.delete(outs)
    writes.reset()
    writes.kill_at = max(1, round(calls * share))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("azure.storage.blob.BlobLeaseClient.release", lambda *_: None)
        with pytest.raises(Killed):
            azure_page_blob.create(wanted)
    first = writes.bytes
    assert azure_page_blob.read(outs) is None
    writes.reset()
    _, outs = azure_page_blob.create(wanted)
    verify(container)
    # What is lost is what came after the last checkpoint, and the pages under way.
    assert first + writes.bytes <= whole + 8 * MIB + 40 * MIB // 2
    if share == 1.0:
        assert writes.bytes < whole / 2
    azure_page_blob.delete(outs)


def test_a_damaged_image_leaves_nothing_in_azurite(
    azure: Azure, container: ContainerClient, writes: Writes, tmp_path: Path
) -> None:
    path = packed(tmp_path, "vhd.xz")
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(WorkError, match="too early|damaged"):
        azure_page_blob.create(props(azure, path))
    assert writes.calls > 0
    assert list(container.list_blobs()) == []


def test_an_image_goes_through_its_life_on_the_engine(tmp_path: Path) -> None:
    """The lab with Azurite behind it: made, unchanged, lost behind our back and made anew, destroyed."""
    lab = Lab(tmp_path / "lab", "image", PROGRAM / "Pulumi.image.yaml", program=PROGRAM)
    (lab.folder / "azurite").mkdir(parents=True)
    lab.up()
    world = lab.world()
    (blob,) = world.find("azure-native", "blob")
    assert blob.doc == {"keptBy": "Azurite"}
    (version,) = world.find("azure-native", "GalleryImageVersion")
    assert version.doc["_sizeGB"] >= 1
    assert lab.changes() == {}
    with azurite(node_tools.provide(), folder=lab.folder / "azurite") as server:
        account, name, found = blob.id.split("/", 2)
        with inside(server, f"{account}-{name}") as container:
            assert [item.name for item in container.list_blobs()] == [found]
            container.delete_blob(found)
    lab.run("refresh", "--yes", "--skip-preview")
    lab.up()
    assert lab.changes() == {}
    lab.destroy()
    assert [record.id for record in world.find() if not record.doc.get("builtin")] == []


# -- Alibaba Cloud ------------------------------------------------------------------------------------------


@pytest.fixture
def aliyun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Aliyun]:
    with aliyun_servers(tmp_path, monkeypatch) as made:
        yield made


def test_a_qcow2_of_qemu_img_is_imported_and_a_killed_upload_gone_on_with(
    aliyun: Aliyun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = packed(tmp_path, "qcow2")
    wanted = aliyun.image(data=path.read_bytes())
    sent: list[int] = []
    add = Store.add_part

    def counted(store: Store, identity: str, number: int, source: Path) -> Any:
        sent.append(number)
        return add(store, identity, number, source)

    monkeypatch.setattr(Store, "add_part", counted)
    put = aliyun_oss_object._put

    def killing(client: Any, target: Any, upload: str, number: int, *rest: Any) -> Any:
        if number > 3:
            raise Killed
        return put(client, target, upload, number, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aliyun_oss_object, "_put", killing)
        with pytest.raises(Killed):
            aliyun_custom_image.create(wanted)
    assert aliyun.left() == [f"upload of {wanted['key']}"], "parts, and no object yet"
    parts = -(-path.stat().st_size // aliyun_oss_object.PART)
    assert (sorted(sent), parts > 4) == ([1, 2, 3], True)

    found = aliyun_oss_object.store(wanted)
    assert sorted(sent) == list(range(1, parts + 1)), "no part is sent twice"
    stored = aliyun.store.read("images", wanted["key"], 0, path.stat().st_size)
    assert hashlib.sha256(stored).hexdigest() == wanted["content"]
    assert found["disk_gib"] == 2
    aliyun_custom_image.create(wanted)
    (image,) = aliyun.images()
    assert image.doc["diskDeviceMappings"][0]["diskImageSize"] == 2
    assert (aliyun.left(), len(sent)) == ([], parts)
