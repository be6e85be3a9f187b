"""Exports with the real sops, age keys and talosctl: what is written, who reads it, and that nothing is in clear."""

import base64
import contextlib
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyrage
import pytest
import yaml

from lab import real_tools, tools
from lab.places import ROOT
from lab.talos import talosctl
from lab.talos.bundles import secrets_of_bundle
from stacks import sops, takeover_files
from stacks.secrets_bundle import secret_texts
from stacks.sops import SopsError

pytestmark = pytest.mark.real

MARKER = "kubeconfig-key-MARKER-0123456789"
_SIGNATURE = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}


def secret(value: Any) -> dict[str, Any]:
    return {**_SIGNATURE, "plaintext": json.dumps(value)}


@dataclass
class Home:
    """A user: a folder, an age key, and programs on PATH that write down how they are called."""

    folder: Path
    identity: Any
    called: Path
    env: dict[str, str]

    @property
    def recipient(self) -> str:
        return str(self.identity.to_public())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = real_tools.find_or_build((real_tools.SOPS,))[real_tools.SOPS.name]
    programs, temp, work = tmp_path / "bin", tmp_path / "temp", tmp_path / "work"
    for folder in (programs, temp, work):
        folder.mkdir()
    called = tmp_path / "called"
    wrapper = programs / "sops"
    wrapper.write_text(f'#!/bin/sh\n{{ echo "$@"; env; }} >> {called}\nexec {found} "$@"\n')
    wrapper.chmod(0o755)
    identity = pyrage.x25519.Identity.generate()
    key = tmp_path / "key.txt"
    key.write_text(f"{identity}\n")
    env = {
        "PATH": os.pathsep.join([str(programs), str(tools.provide().talosctl.path.parent), os.environ["PATH"]]),
        "HOME": str(work),
        "TMPDIR": str(temp),
        "PYTHONPATH": str(ROOT),
        "SOPS_AGE_KEY_FILE": str(key),
    }
    return Home(work, identity, called, env)


@pytest.fixture(scope="module")
def bundle() -> dict[str, Any]:
    os.environ.setdefault("HYBRID_TALOS_TALOSCTL", str(tools.provide().talosctl.path))
    return talosctl.gen_secrets("v1.13")


@pytest.fixture(scope="module")
def state(bundle: dict[str, Any]) -> str:
    """The state of a stack with a cluster, as pulumi prints it with its secrets."""
    client = talosctl.gen_client(bundle)
    talosconfig = yaml.safe_dump({"context": "demo", "contexts": {"demo": {"endpoints": ["192.0.2.11"], **client}}})
    kubeconfig = yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Config", "preferences": {}, "users": [{"name": "a", "user": {"token": MARKER}}]}
    )
    resources = [
        {
            "type": "pulumi:pulumi:Stack",
            "outputs": {"talosconfig": secret(talosconfig), "kubeconfig": secret(kubeconfig)},
        },
        {
            "type": "talos:machine/secrets:Secrets",
            "urn": "urn:pulumi:p::p::talos:machine/secrets:Secrets::s",
            "outputs": {"machineSecrets": secret(secrets_of_bundle(bundle))},
        },
    ]
    return json.dumps({"version": 3, "deployment": {"resources": resources}})


@dataclass
class Watch:
    """Looks at the arguments and environments of a process and all its children for as long as it runs."""

    process: subprocess.Popen[str]
    seen: set[bytes] = field(default_factory=set)
    looks: int = 0

    def run(self) -> None:
        while self.process.poll() is None:
            self.looks += 1
            for pid in self._family():
                for name in ("cmdline", "environ"):
                    try:
                        self.seen.add(Path(f"/proc/{pid}/{name}").read_bytes())
                    except OSError:
                        continue

    def _family(self) -> Iterator[int]:
        waiting = [self.process.pid]
        while waiting:
            pid = waiting.pop()
            yield pid
            # Processes end while they are looked at.
            with contextlib.suppress(OSError):
                for task in os.listdir(f"/proc/{pid}/task"):
                    waiting += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())


def run_export(home: Home, state: str, *words: str) -> tuple[subprocess.CompletedProcess[str], Watch]:
    command = [sys.executable, "-m", "stacks.export", "--state", "-", *words]
    with subprocess.Popen(
        command,
        cwd=home.folder,
        env=home.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        watch = Watch(process)
        thread = threading.Thread(target=watch.run)
        thread.start()
        out, err = process.communicate(state, timeout=120)
        thread.join()
    return subprocess.CompletedProcess(command, process.returncode, out, err), watch


def decrypted(home: Home, path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    for name in ("PATH", "SOPS_AGE_KEY_FILE"):
        monkeypatch.setenv(name, home.env[name])
    return sops.decrypt(path)


def test_what_is_exported_comes_back_the_same_and_talosctl_takes_it(
    home: Home, state: str, bundle: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    done, _ = run_export(home, state, "--age", home.recipient)
    assert done.returncode == 0, done.stderr
    folder = home.folder / "secrets"
    assert [folder.parent / line for line in done.stdout.splitlines()] == [
        folder / f"{name}.sops.yaml" for name in ("secrets", "talosconfig", "kubeconfig")
    ]
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    back = decrypted(home, folder / "secrets.sops.yaml", monkeypatch)
    assert back == bundle
    # To the letter, by the real tools alone.
    printed = subprocess.run(
        ["sops", "decrypt", str(folder / "secrets.sops.yaml")], env=home.env, capture_output=True, text=True, check=True
    ).stdout

    def config(secrets: str) -> str:
        return talosctl.run(
            *("gen", "config", "demo", "https://k8s.example.com:6443", "--with-secrets", talosctl.Piped(secrets)),
            *("--output-types", "controlplane", "--output", "-"),
        )

    assert config(printed) == config(yaml.safe_dump(bundle))
    talosconfig = decrypted(home, folder / "talosconfig.sops.yaml", monkeypatch)
    assert talosconfig["contexts"]["demo"]["endpoints"] == ["192.0.2.11"]
    kubeconfig = decrypted(home, folder / "kubeconfig.sops.yaml", monkeypatch)
    assert kubeconfig["users"][0]["user"]["token"] == MARKER
    assert kubeconfig["preferences"] == {}


def test_no_secret_is_in_any_file_argument_or_environment(home: Home, state: str, bundle: dict[str, Any]) -> None:
    secrets = [MARKER.encode(), *(text.encode() for text in secret_texts(bundle))]
    secrets += [base64.b64decode(text)[40:90] for text in secret_texts(bundle) if text.startswith("LS0t")]
    assert len(secrets) > 12
    done, watch = run_export(home, state, "--age", home.recipient)
    assert done.returncode == 0, done.stderr
    assert watch.looks > 1
    assert any(b"stacks.export" in text for text in watch.seen)
    calls = home.called.read_text()
    assert calls.count("encrypt --input-type json") == 3
    files = [path.read_bytes() for path in home.folder.parent.rglob("*") if path.is_file()]
    for text in (*watch.seen, *files, done.stdout.encode(), done.stderr.encode()):
        for value in secrets:
            assert value not in text
    assert list((home.folder.parent / "temp").iterdir()) == []
    # Nor did sops get to know of the private key: it is for reading alone.
    assert "SOPS_AGE_KEY_FILE" not in calls


def test_a_cluster_is_taken_over_from_what_was_exported(
    home: Home, state: str, bundle: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_export(home, state, "--age", home.recipient)
    for name in ("PATH", "SOPS_AGE_KEY_FILE"):
        monkeypatch.setenv(name, home.env[name])
    folder = home.folder / "secrets"
    found = takeover_files.read(folder / "secrets.sops.yaml", folder / "talosconfig.sops.yaml")
    assert found.bundle == bundle
    assert found.credentials["clientKey"].startswith("LS0t")


def test_every_recipient_reads_it_and_nobody_else(
    home: Home, state: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    second, stranger = (pyrage.x25519.Identity.generate() for _ in range(2))
    done, _ = run_export(home, state, "--age", home.recipient, "--age", str(second.to_public()))
    assert done.returncode == 0, done.stderr
    path = home.folder / "secrets" / "secrets.sops.yaml"
    first = decrypted(home, path, monkeypatch)
    key = tmp_path / "other.txt"
    home.env["SOPS_AGE_KEY_FILE"] = str(key)
    key.write_text(str(second))
    assert decrypted(home, path, monkeypatch) == first
    key.write_text(str(stranger))
    with pytest.raises(SopsError, match="none of the private keys at hand reads it. Next: SOPS_AGE_KEY_FILE"):
        decrypted(home, path, monkeypatch)


def test_a_changed_file_is_refused(home: Home, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run_export(home, state, "--age", home.recipient)
    path = home.folder / "secrets" / "secrets.sops.yaml"
    document = yaml.safe_load(path.read_text())
    pairs = document["certs"]
    pairs["os"], pairs["etcd"] = pairs["etcd"], pairs["os"]
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(SopsError, match=r"secrets\.sops\.yaml: (was changed after|sops could not decrypt)"):
        decrypted(home, path, monkeypatch)


def test_rules_of_the_users_own_do_not_leave_anything_readable(home: Home, state: str) -> None:
    stranger = str(pyrage.x25519.Identity.generate().to_public())
    rule = {"path_regex": ".*", "encrypted_regex": "^nothing$", "age": stranger}
    (home.folder / ".sops.yaml").write_text(yaml.safe_dump({"creation_rules": [rule]}))
    home.env["SOPS_AGE_RECIPIENTS"] = stranger
    done, _ = run_export(home, state, "--age", home.recipient)
    assert done.returncode == 0, done.stderr
    written = yaml.safe_load((home.folder / "secrets" / "secrets.sops.yaml").read_text())
    assert written["cluster"]["id"].startswith("ENC[")
    assert [each["recipient"] for each in written["sops"]["age"]] == [home.recipient]


def test_a_folder_that_cannot_be_written_is_named(home: Home, state: str) -> None:
    (home.folder / "secrets").write_text("a file")
    done, _ = run_export(home, state, "--age", home.recipient)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("export: secrets cannot be written to:")
