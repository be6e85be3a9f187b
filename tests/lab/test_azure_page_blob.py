"""An upload to a page blob that does not end as it should, and the next one."""

import functools
import hashlib
import lzma
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hybrid_talos import azure_page_blob, page_writer
from hybrid_talos.disk_image import vhd_footer
from hybrid_talos.image_stream import Interrupted
from hybrid_talos.work_provider import WorkError

from lab.azure import blob_leases
from lab.azure.blob_store import Blob
from tests.lab.azure_image_servers import MIB, Azure, azure_servers

_RANDOM = random.Random(5)
_RUN = 256 * 1024
DISK = b"".join(_RANDOM.randbytes(_RUN) + bytes(4 * MIB - _RUN) for _ in range(12))
WHOLE = DISK + vhd_footer(len(DISK))
PACKED = lzma.compress(WHOLE, preset=0)


class Killed(BaseException):
    """Ends a run where it stands, as SIGKILL does: the test lets nothing that cleans up run after it."""


@pytest.fixture
def azure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Azure]:
    often = functools.partial(page_writer.write_pages, checkpoint_every=2 * _RUN, workers=1)
    monkeypatch.setattr(azure_page_blob, "write_pages", often)
    monkeypatch.setattr(azure_page_blob, "_FIRST_CAPACITY", 4 * MIB)
    with azure_servers(tmp_path, monkeypatch) as made:
        yield made


def props(azure: Azure, data: bytes = WHOLE, **more: Any) -> dict[str, Any]:
    packed = PACKED if data is WHOLE else lzma.compress(data, preset=0)
    return {**azure.upload(), **azure.file("disk.vhd.xz", packed), **more}


class Watch:
    """Remembers the offsets that were written, and kills the run at one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offsets: list[int] = []
        self.kill_at: int | None = None
        write = Blob.write

        def record(blob: Blob, offset: int, data: bytes | None, length: int) -> None:
            self.offsets.append(offset)
            write(blob, offset, data, length)

        monkeypatch.setattr(Blob, "write", record)
        upload = azure_page_blob.BlobClient.upload_page

        def guarded(client: Any, page: bytes, offset: int, length: int, **options: Any) -> Any:
            if offset == self.kill_at:
                raise Killed
            return upload(client, page, offset=offset, length=length, **options)

        monkeypatch.setattr(azure_page_blob.BlobClient, "upload_page", guarded)


@pytest.fixture
def watch(azure: Azure, monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def killed(azure: Azure, watch: Watch, at: int, **more: Any) -> None:
    watch.kill_at = at
    with pytest.MonkeyPatch.context() as patch:
        # A killed process releases nothing.
        patch.setattr("azure.storage.blob.BlobLeaseClient.release", lambda *_: None)
        with pytest.raises(Killed):
            azure_page_blob.create(props(azure, **more))
    watch.kill_at = None
    watch.offsets.clear()


def metadata(azure: Azure) -> dict[str, str]:
    return {key.removeprefix("x-ms-meta-"): value for key, value in (azure.blob().record() or {})["metadata"].items()}


def content(azure: Azure) -> bytes:
    return azure.blob().read(0, 1 << 30)


def test_the_next_run_goes_on_from_the_checkpoint(azure: Azure, watch: Watch) -> None:
    killed(azure, watch, 36 * MIB)
    end = int(metadata(azure)["checkpoint_end"])
    assert 8 * MIB < end <= 36 * MIB
    assert blob_leases.state(azure.blob().record() or {}) == "leased"
    _, outs = azure_page_blob.create(props(azure))
    assert content(azure) == WHOLE
    assert min(watch.offsets) >= end
    assert outs["sha256"] == props(azure)["content"]
    assert metadata(azure).keys() == {"state", "sha256", "asset", "claim", "talos_version", "schematic"}
    assert blob_leases.state(azure.blob().record() or {}) == "available"


@pytest.mark.parametrize("at", [0, 4 * MIB], ids=["first-page", "no-checkpoint"])
def test_a_run_that_came_not_far_is_begun_anew(azure: Azure, watch: Watch, at: int) -> None:
    killed(azure, watch, at)
    azure_page_blob.create(props(azure))
    assert content(azure) == WHOLE
    assert min(watch.offsets) == 0


def test_a_run_that_was_killed_before_the_footer_or_after_it(azure: Azure, watch: Watch) -> None:
    killed(azure, watch, len(DISK))
    _, outs = azure_page_blob.create(props(azure))
    assert content(azure) == WHOLE
    assert min(watch.offsets) > 30 * MIB
    # Everything is there but the mark: as if the kill came right before it.
    record = azure.blob().record() or {}
    azure.world.put("azure-native", "blob", azure.blob().id, {**record, "metadata": {"x-ms-meta-state": "uploading"}})
    assert azure_page_blob.read(outs) is None
    azure_page_blob.create(props(azure))
    assert azure_page_blob.read(outs) is not None


def test_another_image_is_written_anew_and_nothing_of_the_first_is_left(azure: Azure, watch: Watch) -> None:
    killed(azure, watch, 36 * MIB)
    # It differs before the checkpoint, and is zero where the first one was not.
    other = bytearray(DISK)
    other[100] ^= 1
    other[8 * MIB : 10 * MIB] = bytes(2 * MIB)
    whole = bytes(other) + vhd_footer(len(other))
    azure_page_blob.create(props(azure, whole))
    assert content(azure) == whole
    assert min(watch.offsets) == 0


def test_what_an_image_no_longer_has_above_the_checkpoint_is_cleared(azure: Azure, watch: Watch) -> None:
    killed(azure, watch, 44 * MIB)
    end = int(metadata(azure)["checkpoint_end"])
    assert end <= 40 * MIB
    other = bytearray(DISK)
    other[end:] = bytes(len(other) - end)
    whole = bytes(other) + vhd_footer(len(other))
    azure_page_blob.create(props(azure, whole))
    assert content(azure) == whole
    assert watch.offsets == [len(other)]


def test_a_run_that_was_taken_for_dead_cannot_write_any_more(azure: Azure, watch: Watch) -> None:
    # Made once: they write the image's file, which would then be cut short while the first run reads it.
    given = props(azure)
    upload = azure_page_blob.BlobClient.upload_page
    taken: list[str] = []

    def interfere(client: Any, page: bytes, offset: int, length: int, **options: Any) -> Any:
        if offset == 20 * MIB and not taken:
            taken.append("over")
            azure_page_blob.create(given)
        return upload(client, page, offset=offset, length=length, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(azure_page_blob.BlobClient, "upload_page", interfere)
        with pytest.raises(WorkError, match="another run took this upload over"):
            azure_page_blob.create(given)
    assert content(azure) == WHOLE
    assert metadata(azure)["state"] == "complete"


def test_a_download_that_breaks_off_leaves_what_came_for_the_next_run(azure: Azure, watch: Watch) -> None:
    chunks = azure_page_blob.vhd_of

    def breaking(image: Any) -> Any:
        vhd = chunks(image)
        pages = vhd.pages

        def some() -> Iterator[tuple[int, bytes]]:
            for offset, data in pages():
                if offset == 40 * MIB:
                    raise Interrupted("the connection broke")
                yield offset, data

        vhd.pages = some  # type: ignore[method-assign]
        return vhd

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(azure_page_blob, "vhd_of", breaking)
        with pytest.raises(WorkError, match="the connection broke"):
            azure_page_blob.create(props(azure))
    assert metadata(azure)["state"] == "uploading"
    watch.offsets.clear()
    azure_page_blob.create(props(azure))
    assert content(azure) == WHOLE
    assert min(watch.offsets) > 0


def test_a_damaged_image_leaves_nothing_of_an_earlier_run_either(azure: Azure, watch: Watch) -> None:
    killed(azure, watch, 36 * MIB)
    broken = props(azure)
    path = Path(broken["image_file"]["location"])
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(WorkError, match="too early|damaged"):
        azure_page_blob.create(broken)
    assert azure.blob().record() is None


def test_a_leased_blob_of_a_killed_run_can_be_deleted(azure: Azure, watch: Watch) -> None:
    _, outs = azure_page_blob.create(props(azure))
    record = azure.blob().record() or {}
    lease = {"id": "x", "seconds": -1, "ends": None, "breaks": None}
    azure.world.put("azure-native", "blob", azure.blob().id, {**record, "lease": lease})
    azure_page_blob.delete(outs)
    assert azure.blob().record() is None


def test_the_digest_is_that_of_the_file(azure: Azure) -> None:
    source = props(azure)
    _, outs = azure_page_blob.create(source)
    assert outs["sha256"] == hashlib.sha256(Path(source["image_file"]["location"]).read_bytes()).hexdigest()
