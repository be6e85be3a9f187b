"""A talosctl that does nothing but give out a snapshot of etcd, as the real one does to a pipe."""

import hashlib
import os
from pathlib import Path

import pytest
from hybrid_talos.talos_calls import Machine
from hybrid_talos.talosctl_api import TalosctlApi

CP = Machine("cp-1", "192.0.2.11", "192.0.2.11")
_CREDENTIALS = {"caCertificate": "Y2E=", "clientCertificate": "Y3J0", "clientKey": "a2V5"}
_SCRIPT = """#!/bin/sh
case "$*" in
*snapshot*)
    for path in "$@"; do :; done
    cat %s > "$path.part"
    echo "error: failed to fsync: sync $path.part: invalid argument" >&2
    exit 1 ;;
*) echo "Client v1.13.0" ;;
esac
"""


def scripted_talosctl(folder: Path, patch: pytest.MonkeyPatch, content: bytes) -> tuple[TalosctlApi, bytes]:
    """Put it on PATH; return the API that runs it and the snapshot, ``content`` with etcd's digest at its end."""
    content = content.ljust(-(-len(content) // 512) * 512, b"\0")
    whole = content + hashlib.sha256(content).digest()
    (folder / "etcd.db").write_bytes(whole)
    program = folder / "bin" / "talosctl"
    program.parent.mkdir()
    program.write_text(_SCRIPT % (folder / "etcd.db"))
    program.chmod(0o755)
    patch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return TalosctlApi(_CREDENTIALS, [CP]), whole
