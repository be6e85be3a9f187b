"""Azurite as a server of its own on loopback: the real page-blob protocol, without an account."""

import contextlib
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

from .node_tools import PINS, NodeTools

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Not a secret: the account and key that every Azurite has (learn.microsoft.com, Use the Azurite emulator)."""
_START_SECONDS = 60


@dataclass(frozen=True)
class Azurite:
    """A running Azurite."""

    url: str
    """Its blob endpoint, account included."""
    folder: Path
    """Where it keeps what is stored."""

    def sas(self) -> str:
        """Return a token for everything in it, for an hour."""
        return generate_account_sas(
            ACCOUNT,
            KEY,
            resource_types=ResourceTypes(service=True, container=True, object=True),
            permission=AccountSasPermissions(
                read=True, write=True, delete=True, list=True, add=True, create=True, update=True
            ),
            expiry=datetime.now(UTC) + timedelta(hours=1),
        )


@contextmanager
def azurite(
    tools: NodeTools, options: Sequence[str] = (), scheme: str = "http", folder: Path | None = None
) -> Iterator[Azurite]:
    """Run an Azurite on a free port of 127.0.0.1; ``options`` are further ones of its command line.

    It keeps what is stored in ``folder``, and begins with what is there; left out, it is empty and forgets everything.
    It ends with this process, however that ends.
    """
    with tempfile.TemporaryDirectory(prefix="azurite-") as made, (Path(made) / "log").open("w+") as log:
        place, port = folder or Path(made), _free_port()
        command = [
            *(str(tools.node), "--require", str(PINS / "with-parent.cjs"), str(tools.azurite)),
            *("--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(place)),
            # The clients' versions of the API are newer than it knows; it reports home unless told not to.
            *("--silent", "--skipApiVersionCheck", "--disableTelemetry"),
            *options,
        ]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.PIPE)
        try:
            _wait(process, port, log.name)
            yield Azurite(f"{scheme}://127.0.0.1:{port}/{ACCOUNT}", place)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: subprocess.Popen[bytes], port: int, log: str) -> None:
    end = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"Azurite did not start:\n{Path(log).read_text()[-2000:]}")
