"""The upload of an image to Azurite: ours, from its inputs to a whole blob, against the tools that do it by hand.

All are timed as whole processes, in turn, on the same disk. Python's start and imports count as ours.
"""

import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from azure.storage.blob import BlobClient, ContainerClient
from rich.console import Console
from rich.table import Table

from lab.azurite import ACCOUNT, KEY, Azurite, azurite
from lab.factory_disk import BLOCK, SECTOR, Disk
from lab.factory_packing import pack
from lab.node_tools import NodeTools, provide
from lab.tool_builds import ToolsMissing

from .hand_tools import HandTools

ROOT = Path(__file__).resolve().parents[1]
MIB = 1 << 20
KINDS = ("xz", "zst")
AIM_XZ_ALONE, AIM_XZ_CHAIN, AIM_ZST_CHAIN, AIM_SENT = 1.15, 0.60, 0.25, 1.05
AIM_MEMORY = 200 * 10**6


@dataclass
class Image:
    """One disk, packed in each way."""

    disk: Disk
    folder: Path
    used: int = 0
    """Bytes of its sectors that are not zero."""
    digests: dict[str, str] = field(default_factory=dict)

    def path(self, kind: str) -> Path:
        return self.folder / f"disk.raw.{kind}"


@dataclass
class Upload:
    """What one upload of ours took."""

    seconds: float
    size: int
    sent: int
    calls: int
    peak: int
    written: int
    """Bytes that Linux counted as written to disks; a page for an access time is among them."""
    files: list[str]
    """Names of files that were opened for writing."""


def run(console: Console, *, size: int, data: int, rounds: int, memory_size: int) -> None:
    """Measure, and print tables with the ratios in front."""
    try:
        node = provide(console.print)
    except ToolsMissing as missing:
        console.print(f"The benchmark of images is left out: {missing}", style="yellow")
        return
    tools = HandTools(node)
    for name in tools.missing:
        console.print(f"Missing, so that nothing is compared with it: {name}", style="yellow")
    with tempfile.TemporaryDirectory(prefix="bench-images-") as made:
        folder = Path(made)
        image = _image(console, folder, size, data)
        times = _times(console, node, tools, image, rounds)
        _print_times(console, image, times, rounds)
        console.print(f"Measured against: {tools.versions()}", style="dim")
        if memory_size:
            if memory_size != size:
                image = _image(console, folder, memory_size, data)
            _print_memory(console, image, {kind: _upload(node, image, kind, check=True) for kind in KINDS})


def _image(console: Console, folder: Path, gib: int, data: int) -> Image:
    disk = Disk("bench", gib << 30, data * MIB)
    image = Image(disk, folder)
    with console.status(f"making a disk of {gib} GiB with {data} MiB of data, packed by xz and by zstd"):
        for kind in KINDS:
            digest = hashlib.sha256()
            with image.path(kind).open("wb") as file:
                for part in pack(disk.blocks(), kind, disk.size):
                    digest.update(part)
                    file.write(part)
            image.digests[kind] = digest.hexdigest()
        for _, block in _filled(disk):
            image.used += SECTOR * sum(block[at : at + SECTOR] != bytes(SECTOR) for at in range(0, len(block), SECTOR))
    return image


def _filled(disk: Disk) -> Iterator[tuple[int, bytes]]:
    for index, block in enumerate(disk.blocks()):
        if block != bytes(BLOCK):
            yield index * BLOCK, block


def _times(console: Console, node: NodeTools, tools: HandTools, image: Image, rounds: int) -> dict[str, list[Any]]:
    """Take everything in turn, so that a slow spell of the machine meets all."""
    found: dict[str, list[Any]] = {"alone": [], "chain": [], **{kind: [] for kind in KINDS}}
    for number in range(rounds):
        with console.status(f"round {number + 1} of {rounds}"):
            if not any(name.startswith("xz ") for name in tools.missing):
                found["alone"].append(tools.unpack_only(image.path("xz")))
            for kind in KINDS:
                found[kind].append(_upload(node, image, kind, check=number == 0))
            if not tools.missing:
                with _container(node) as (server, _):
                    url = f"{server.url}/images/chain.vhd?{server.sas()}"
                    found["chain"].append(tools.chain(image.path("xz"), image.folder, url))
    return found


def _upload(node: NodeTools, image: Image, kind: str, *, check: bool) -> Upload:
    with _container(node) as (server, container):
        props = {
            "account": ACCOUNT,
            "container": "images",
            "blob": "ours.vhd",
            "endpoint": server.url,
            "talos_version": "1.14.0",
            "schematic": "customization: {}\n",
            "assets": [],
            "image_file": {"location": str(image.path(kind)), "sha256": image.digests[kind]},
        }
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "bench.upload"],
            cwd=ROOT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            input=json.dumps(props),
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - start
        if done.returncode != 0:
            raise SystemExit(f"bench: the upload failed:\n{done.stderr[-2000:]}")
        upload = Upload(seconds, **json.loads(done.stdout.splitlines()[-1]))
        if upload.files:
            raise SystemExit(f"bench: the upload wrote files: {', '.join(upload.files)}")
        if check:
            _compare(container.get_blob_client("ours.vhd"), image.disk, upload)
        return upload


def _compare(blob: BlobClient, disk: Disk, upload: Upload) -> None:
    """Fail unless the blob is the disk: where that has data, all of it is there, and little else was written."""
    same = all(blob.download_blob(at, BLOCK).readall() == block for at, block in _filled(disk))
    written = sum(part["end"] - part["start"] + 1 for part in blob.get_page_ranges()[0])
    if not same or upload.size != disk.size + SECTOR or written > upload.sent:
        raise SystemExit("bench: what was uploaded is not the disk")


@contextmanager
def _container(node: NodeTools) -> Iterator[tuple[Azurite, ContainerClient]]:
    """Run an Azurite that nothing was stored in yet."""
    with azurite(node) as server:
        credential = {"account_name": ACCOUNT, "account_key": KEY}
        with ContainerClient(server.url, "images", credential=credential) as container:
            container.create_container()
            yield server, container


def _print_times(console: Console, image: Image, times: dict[str, list[Any]], rounds: int) -> None:
    gib, data = image.disk.size >> 30, image.used // MIB
    table = Table(
        title=f"An image into a page blob: {gib} GiB with {data} MiB of data, Azurite on this machine ({rounds} rounds)"
    )
    for column in ("ours", "against", "time ratio", "aim", "ours took", "the other took"):
        table.add_column(column, justify="left" if column in ("ours", "against") else "right")
    ours = {kind: [upload.seconds for upload in times[kind]] for kind in KINDS}
    chain = [sum(steps) for steps in times["chain"]]
    compared = (
        ("xz", "xz -dc | wc -c alone", times["alone"], AIM_XZ_ALONE),
        ("xz", "xz, qemu-img, azcopy", chain, AIM_XZ_CHAIN),
        ("zst", "xz, qemu-img, azcopy", chain, AIM_ZST_CHAIN),
    )
    for kind, name, theirs, aim in compared:
        if theirs:
            # Neighbours in time are compared.
            ratio = statistics.median(a / b for a, b in zip(ours[kind], theirs, strict=True))
            took = [f"{statistics.median(ours[kind]):.1f} s", f"{statistics.median(theirs):.1f} s"]
            table.add_row(f"from .{kind}", name, _judged(ratio, aim), f"{aim:.2f}", *took)
        else:
            table.add_row(f"from .{kind}", name, "-", f"{aim:.2f}", f"{statistics.median(ours[kind]):.1f} s", "-")
    console.print(table)
    if chain:
        steps = [statistics.median(step) for step in zip(*times["chain"], strict=True)]
        names = ("xz", "qemu-img", "azcopy")
        console.print(
            "The steps by hand: " + ", ".join(f"{n} {s:.1f} s" for n, s in zip(names, steps, strict=True)), style="dim"
        )


def _print_memory(console: Console, image: Image, uploads: dict[str, Upload]) -> None:
    table = Table(title=f"The same of {image.disk.size >> 30} GiB: what it takes")
    for column in ("ours", "time", "peak memory", "aim", "written to disk", "aim", "sent / not zero", "aim", "calls"):
        table.add_column(column, justify="left" if column == "ours" else "right")
    for kind, upload in uploads.items():
        table.add_row(
            f"from .{kind}",
            f"{upload.seconds:.1f} s",
            _judged(upload.peak / 10**6, AIM_MEMORY / 10**6, "{:.0f} MB"),
            f"{AIM_MEMORY / 10**6:.0f} MB",
            _judged(upload.written / MIB, 0.1, "{:.1f} MB") + f", {len(upload.files)} files",
            "0",
            _judged(upload.sent / image.used, AIM_SENT, "{:.3f}"),
            f"{AIM_SENT:.2f}",
            str(upload.calls),
        )
    console.print(table)


def _judged(value: float, aim: float, form: str = "{:.2f}") -> str:
    return f"[{'green' if value <= aim else 'red'}]{form.format(value)}[/]"
