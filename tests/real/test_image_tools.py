"""Images as the Image Factory's own tools make them: qemu-img, xz, zstd and pigz with the options of Talos.

siderolabs/talos pkg/imager/post.go and pkg/imager/qemuimg; the tools are Debian's (qemu-utils, xz-utils, zstd, pigz).
"""

import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hybrid_talos.disk_image import FixedVhd, sparse_pages
from hybrid_talos.image_assets import DiskFormat
from hybrid_talos.image_download import open_file
from hybrid_talos.image_source import vhd_of
from hybrid_talos.image_stream import ImageError
from hybrid_talos.qcow2 import disk_of

MIB = 1 << 20
SIZE = 100 * MIB
PACK = {
    "xz": ["xz", "-0", "-f", "-k", "-T", "0"],
    "zst": ["zstd", "-T0", "-18", "--quiet", "--force"],
    "gz": ["pigz", "-6", "--no-time", "-f", "-k"],
}

pytestmark = pytest.mark.skipif(shutil.which("qemu-img") is None, reason="needs qemu-img (apt install qemu-utils)")


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A disk with long and short runs of data, some of them across the borders of tables and clusters."""
    path = tmp_path_factory.mktemp("disk") / "disk.raw"
    source = random.Random(5)
    with path.open("wb") as file:
        file.truncate(SIZE)
        for _ in range(40):
            file.seek(source.randrange(0, SIZE - 2 * MIB))
            file.write(source.randbytes(source.choice([1, 512, 5000, 70_000, 200_000])))
        file.seek(64 * MIB - 100)
        file.write(source.randbytes(3 * MIB))
    return path


def chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.read(MIB), b"")


def convert(raw: Path, target: Path, kind: str, *options: str) -> Path:
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", kind, *options, raw, target], check=True)
    return target


@pytest.mark.parametrize("cluster", ["512", "8k", "64k", "2M"])
def test_a_qcow2_of_qemu_img_is_read_as_a_stream(raw: Path, tmp_path: Path, cluster: str) -> None:
    path = convert(raw, tmp_path / "disk.qcow2", "qcow2", "-o", f"cluster_size={cluster}")
    assert list(sparse_pages(disk_of(chunks(path)))) == list(sparse_pages(chunks(raw)))


@pytest.mark.parametrize("options", [("-o", "compat=0.10"), ("-o", "lazy_refcounts=on"), ("-m", "16")])
def test_so_are_its_other_kinds(raw: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    path = convert(raw, tmp_path / "disk.qcow2", "qcow2", *options)
    assert list(sparse_pages(disk_of(chunks(path)))) == list(sparse_pages(chunks(raw)))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("-c",), "compressed clusters"),
        (("-o", "extended_l2=on"), "what a stream cannot be read with"),
    ],
)
def test_what_cannot_be_read_so_is_refused(raw: Path, tmp_path: Path, options: tuple[str, ...], problem: str) -> None:
    path = convert(raw, tmp_path / "disk.qcow2", "qcow2", *options)
    with pytest.raises(ImageError, match=problem):
        for _ in disk_of(chunks(path)):
            pass


def test_clusters_out_of_order_are_seen(raw: Path, tmp_path: Path) -> None:
    """A disk that was written to in another order, as a machine does, is no stream."""
    path = tmp_path / "disk.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, str(SIZE)], check=True)
    for offset in ("80M", "1M"):
        subprocess.run(
            ["qemu-io", "-f", "qcow2", "-c", f"write -P 7 {offset} 1M", path], check=True, capture_output=True
        )
    with pytest.raises(ImageError, match="order|stand behind"):
        for _ in disk_of(chunks(path)):
            pass


@pytest.mark.parametrize("packing", ["", "xz", "zst", "gz"])
@pytest.mark.parametrize("kind", ["vhd", "raw", "qcow2"])
def test_every_form_of_the_factory_gives_the_same_pages(raw: Path, tmp_path: Path, kind: str, packing: str) -> None:
    path = tmp_path / f"azure-amd64.{kind}"
    if kind == "vhd":
        convert(raw, path, "vpc", "-o", "subformat=fixed,force_size")
    elif kind == "qcow2":
        convert(raw, path, "qcow2", "-o", "cluster_size=8k")
    else:
        shutil.copyfile(raw, path)
    if packing:
        if shutil.which(PACK[packing][0]) is None:
            pytest.skip(f"needs {PACK[packing][0]}")
        subprocess.run([*PACK[packing], path], check=True)
        path = path.with_name(f"{path.name}.{packing}")
    with open_file(str(path)) as image:
        assert image.disk_format is DiskFormat(kind)
        vhd = vhd_of(image)
        pages = list(vhd.pages())
    expected = FixedVhd(chunks(raw), has_footer=False)
    assert pages == list(expected.pages())
    assert (vhd.disk_size, vhd.file_size) == (expected.disk_size, expected.file_size)


@pytest.mark.parametrize("name", ["vpc", "raw"])
def test_qemu_img_reads_the_vhd_that_we_make(raw: Path, tmp_path: Path, name: str) -> None:
    """What is uploaded, put together as a file, is a VHD to others too."""
    vhd = FixedVhd(chunks(raw), has_footer=False)
    path = tmp_path / "made.vhd"
    with path.open("wb") as file:
        for offset, data in vhd.pages():
            file.seek(offset)
            file.write(data)
        file.seek(vhd.disk_size)
        file.write(vhd.footer)
    if name == "raw":
        path.write_bytes(path.read_bytes()[:-512])
    subprocess.run(["qemu-img", "compare", "-q", "-f", "raw", "-F", name, raw, path], check=True)
