"""One upload of an image in a process of its own: the custom resource's own code, from its inputs to a whole blob.

The inputs come as JSON on standard input. One thing is other than in a deployment: the client gets the key that every
Azurite has in place of a token, which wants https.
"""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from azure.storage.blob import BlobClient
from hybrid_talos import azure_blob_client, azure_page_blob

from lab.azurite import ACCOUNT, KEY


class Counted:
    """Counts what goes out in page writes, on the way to the real client."""

    def __init__(self) -> None:
        self.bytes = self.calls = 0
        self._lock = threading.Lock()
        self._upload = BlobClient.upload_page

    def install(self) -> None:
        """Stand in front of the client's own method from now on."""

        def upload_page(blob: BlobClient, page: bytes, **options: Any) -> Any:
            with self._lock:
                self.bytes += len(page)
                self.calls += 1
            return self._upload(blob, page, **options)

        BlobClient.upload_page = upload_page


def of_process(file: str, key: str) -> int:
    """Return a number that Linux knows of this process."""
    for line in Path("/proc/self", file).read_text().splitlines():
        name, _, value = line.partition(":")
        if name == key:
            return int(value.split()[0])
    return 0


def files_written() -> list[str]:
    """Return a list that gets the name of every file that Python opens for writing from now on."""
    found: list[str] = []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR) and arguments[0] != os.devnull:
            found.append(str(arguments[0]))

    sys.addaudithook(hook)
    return found


def main() -> None:
    """Upload, and print what it took."""
    props = json.load(sys.stdin)
    azure_blob_client._credential = lambda _: {"account_name": ACCOUNT, "account_key": KEY}
    counted = Counted()
    counted.install()
    files = files_written()
    before = of_process("io", "write_bytes")
    _, found = azure_page_blob.create(props)
    print(
        json.dumps(
            {
                "size": found["size"],
                "sent": counted.bytes,
                "calls": counted.calls,
                # Of this program alone: unlike getrusage, it begins anew with it.
                "peak": of_process("status", "VmHWM") * 1024,
                "written": of_process("io", "write_bytes") - before,
                "files": list(files),
            }
        )
    )


if __name__ == "__main__":
    main()
