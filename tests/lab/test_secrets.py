"""No secret stands in clear anywhere: state, outputs, logs, events, temp files."""

import base64
import contextlib
import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
from lab_folder import ALIYUN_MARKER, AZURE_MARKER, Lab

pytestmark = pytest.mark.lab


def forms(secret: str) -> list[bytes]:
    """Return the spellings under which a secret could hide: as it is, and in base64 at each alignment."""
    raw = secret.encode()
    shifted = [base64.b64encode(b"\0" * shift + raw)[4 if shift else 0 : -4] for shift in range(3)]
    return [raw, *(form for form in shifted if len(form) > 8)]


@pytest.fixture(scope="module")
def up(hybrid: Lab) -> Lab:
    hybrid.up()
    return hybrid


@pytest.fixture(scope="module")
def planted(up: Lab) -> dict[str, list[bytes]]:
    """The secrets that this stack really has, under every spelling."""
    outputs = up.outputs(show_secrets=True)
    found = {"azureClientSecret": AZURE_MARKER, "aliyunAccessKeySecret": ALIYUN_MARKER}
    for line in outputs["kubeconfig"].splitlines():
        if "client-key-data:" in line:
            found["kubeconfig key"] = base64.b64decode(line.split(":", 1)[1]).decode()[40:120]
    for line in outputs["talosconfig"].splitlines():
        if line.strip().startswith("key:"):
            found["talosconfig key"] = base64.b64decode(line.split(":", 1)[1]).decode()[40:120]
    for line in outputs["join"]["machineConfig"].splitlines():
        if line.strip().startswith("token:"):
            found[f"token {len(found)}"] = line.split(":", 1)[1].strip()
    assert len(found) >= 6
    return {name: forms(secret) for name, secret in found.items()}


def leaks(data: bytes, planted: dict[str, list[bytes]]) -> list[str]:
    """Return the names of the secrets that stand in ``data``, also inside gzip members."""
    texts = [data]
    start = data.find(b"\x1f\x8b\x08")
    while start >= 0:
        with contextlib.suppress(OSError, EOFError):
            texts.append(gzip.decompress(data[start:]))
        start = data.find(b"\x1f\x8b\x08", start + 1)
    return [name for name, spellings in planted.items() if any(s in text for s in spellings for text in texts)]


def test_the_search_finds_what_it_looks_for(up: Lab, planted: dict[str, list[bytes]]) -> None:
    shown = up.run("stack", "export", "--show-secrets").out.encode()
    assert set(leaks(shown, planted)) == set(planted)


def test_exported_state_holds_no_secret(up: Lab, planted: dict[str, list[bytes]]) -> None:
    exported = up.run("stack", "export").out
    assert leaks(exported.encode(), planted) == []
    assert "PRIVATE KEY" not in exported
    assert base64.b64encode(b"-----BEGIN ")[:12].decode() not in exported.replace("certificate", "")


def test_state_files_hold_no_secret(up: Lab, planted: dict[str, list[bytes]]) -> None:
    # The simulated clouds themselves know what their machines were given, as real clouds do.
    for path in (up.folder / "state").rglob("*"):
        if path.is_file():
            assert leaks(path.read_bytes(), planted) == [], path.name


def test_outputs_show_no_secret(up: Lab, planted: dict[str, list[bytes]]) -> None:
    assert leaks(up.run("stack", "output", "--json").out.encode(), planted) == []


def test_logs_previews_and_events_hold_no_secret(up: Lab, planted: dict[str, list[bytes]], tmp_path: Path) -> None:
    events = tmp_path / "events.json"
    change = tmp_path / "Pulumi.dev.yaml"
    changed = up.with_settings(change, lambda s: s["azure"]["pools"][0]["labels"].update({"example.com/tier": "batch"}))
    words = ["preview", "--diff", "--logtostderr", "-v=9", "--event-log", str(events)]
    # The engine knows the event log only with its debugging commands.
    text = changed.run(*words, TMPDIR=str(tmp_path), PULUMI_DEBUG_COMMANDS="true").text
    text += changed.run("preview", "--json").text
    assert leaks(text.encode(), planted) == []
    assert leaks(events.read_bytes(), planted) == []
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert leaks(path.read_bytes(), planted) == [], path.name


def test_process_arguments_hold_no_secret(up: Lab, planted: dict[str, list[bytes]], tmp_path: Path) -> None:
    """A tool that the lab or the program starts gets its secrets by pipe, never as an argument."""
    if not Path("/proc/self/cmdline").exists():
        pytest.fail("this test reads process arguments from /proc")
    seen: set[bytes] = set()
    process = subprocess.Popen(
        [sys.executable, "-m", "lab", "preview", "--stack", up.stack, "--config-file", str(up.config_file)],
        env={**os.environ, "HYBRID_TALOS_LAB": str(up.folder)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                seen.add(path.read_bytes())
            except OSError:
                continue
    assert process.returncode == 0
    assert any(b"talosctl" in arguments for arguments in seen) or any(b"pulumi" in arguments for arguments in seen)
    assert leaks(b"\n".join(seen), planted) == []
