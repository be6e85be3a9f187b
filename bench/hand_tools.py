"""The tools that people upload an image with by hand, each step a process of its own: xz, qemu-img, azcopy."""

import os
import shutil
import subprocess
import time
from pathlib import Path

from lab.node_tools import NodeTools

PACKAGES = {"xz": "xz-utils", "qemu-img": "qemu-utils"}
"""Debian's packages of the tools that are not from npm."""


class HandTools:
    """The steps of the chain, and whether they can be taken here."""

    def __init__(self, node: NodeTools) -> None:
        self._azcopy = node.azcopy
        self.missing = [
            f"{tool} (Debian and Ubuntu: apt install {package})"
            for tool, package in PACKAGES.items()
            if shutil.which(tool) is None
        ]
        if self._azcopy is None:
            self.missing.append("azcopy (npm has it for Linux on amd64 only)")
        elif subprocess.run([self._azcopy, "--version"], capture_output=True, check=False).returncode != 0:
            self.missing.append("libsecret, for azcopy (Debian and Ubuntu: apt install libsecret-1-0)")

    def versions(self) -> str:
        """Return what was measured against, in a line."""
        found = [_first_line([tool, "--version"]) for tool in PACKAGES if shutil.which(tool)]
        if self._azcopy is not None and not self.missing:
            found.append(_first_line([str(self._azcopy), "--version"]))
        return "; ".join(found)

    def unpack_only(self, packed: Path) -> float:
        """Return the seconds of `xz -dc | wc -c`."""
        return timed(["sh", "-c", 'xz -dc "$1" | wc -c', "sh", str(packed)])

    def chain(self, packed: Path, folder: Path, url: str) -> list[float]:
        """Upload as by hand, and return the seconds of each step."""
        raw, vhd = folder / "disk.raw", folder / "disk.vhd"
        try:
            return [
                timed(["sh", "-c", 'xz -dc "$1" > "$2"', "sh", str(packed), str(raw)]),
                timed(
                    ["qemu-img", "convert", "-f", "raw", "-O", "vpc", "-o", "subformat=fixed,force_size", str(raw)]
                    + [str(vhd)]
                ),
                timed(
                    [str(self._azcopy), "copy", str(vhd), url, "--blob-type=PageBlob", "--from-to=LocalBlob"]
                    + ["--log-level=NONE", "--output-level=essential", "--skip-version-check"],
                    AZCOPY_LOG_LOCATION=str(folder / "azcopy"),
                    AZCOPY_JOB_PLAN_LOCATION=str(folder / "azcopy"),
                    AZCOPY_DISABLE_SYSLOG="true",
                ),
            ]
        finally:
            raw.unlink(missing_ok=True)
            vhd.unlink(missing_ok=True)


def timed(command: list[str], **environment: str) -> float:
    """Run a command, and return the seconds it took."""
    start = time.perf_counter()
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        raise SystemExit(f"bench: {command[0]} failed:\n{(done.stderr or done.stdout)[-2000:]}")
    return seconds


def _first_line(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()[0]
