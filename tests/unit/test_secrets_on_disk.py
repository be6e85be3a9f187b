"""Exports of a stack's credentials: what is taken out of the state, what is refused, and how files are written."""

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from stacks import export, private_file, sops
from stacks.secrets_bundle import BundleError, bundle_of, check_bundle, secret_texts
from stacks.sops import SopsError
from stacks.stack_state import SECRETS, StateError, read_state

RECIPIENT = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"


def secret(value: Any) -> dict[str, Any]:
    return {
        "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
        "plaintext": json.dumps(value),
    }


def machine_secrets() -> dict[str, Any]:
    pair = {"cert": "Y2VydA==", "key": "a2V5"}
    return {
        "cluster": {"id": "an-id", "secret": "cluster-secret"},
        "secrets": {"bootstrapToken": "1234e5.1234567890123456", "secretboxEncryptionSecret": "box"},
        "trustdinfo": {"token": "trustd-token"},
        "certs": {
            "etcd": pair,
            "k8s": pair,
            "k8sAggregator": pair,
            "k8sServiceaccount": {"key": "sa-key"},
            "os": {"cert": "b3M=", "key": "os-key"},
        },
    }


def state_of(*resources: dict[str, Any], **outputs: Any) -> str:
    stack = {"type": "pulumi:pulumi:Stack", "urn": "urn:pulumi:prod::p::pulumi:pulumi:Stack::s", "outputs": outputs}
    return json.dumps({"version": 3, "deployment": {"resources": [stack, *resources]}})


def secrets_resource(name: str = "control-plane-secrets") -> dict[str, Any]:
    return {
        "type": SECRETS,
        "urn": f"urn:pulumi:prod::p::{SECRETS}::{name}",
        "outputs": {"machineSecrets": secret(machine_secrets())},
    }


def test_the_three_documents_come_out_of_the_state() -> None:
    config = secret("context: demo\ncontexts:\n  demo: {ca: Y2E=, key: a2V5}\n")
    found = export.documents(read_state(state_of(secrets_resource(), kubeconfig=config, talosconfig=config)))
    assert tuple(found) == export.FILES
    bundle = found["secrets.sops.yaml"]
    assert bundle["secrets"] == {"bootstraptoken": "1234e5.1234567890123456", "secretboxencryptionsecret": "box"}
    assert bundle["certs"]["os"] == {"crt": "b3M=", "key": "os-key"}
    assert found["talosconfig.sops.yaml"]["contexts"]["demo"]["key"] == "a2V5"


def test_values_that_are_no_secret_are_not_among_the_secret_texts() -> None:
    found = set(secret_texts(bundle_of(machine_secrets())))
    assert {"cluster-secret", "1234e5.1234567890123456", "box", "trustd-token", "sa-key", "os-key", "a2V5"} == found


@pytest.mark.parametrize("part", ["cluster", "trustdinfo", "secrets", "certs"])
def test_incomplete_secrets_are_named_and_not_shown(part: str) -> None:
    broken = {**machine_secrets(), part: {}}
    with pytest.raises(BundleError, match=f"no {part}") as caught:
        bundle_of(broken)
    assert "cluster-secret" not in str(caught.value)
    assert "1234e5" not in str(caught.value)


@given(st.recursive(st.none() | st.text() | st.integers(), lambda kid: st.lists(kid) | st.dictionaries(st.text(), kid)))
def test_whatever_a_secrets_file_holds_it_is_refused_in_one_message(value: Any) -> None:
    with pytest.raises(BundleError, match=r"secrets\.yaml: not a complete set"):
        check_bundle(value if isinstance(value, dict) else {"certs": value}, "secrets.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not the state of a stack"),
        ("[]", "is not the state of a stack"),
        ('{"deployment": {"resources": [1]}}', "is not the state of a stack"),
        ('{"kubeconfig": "apiVersion: v1"}', "is not the state of a stack"),
    ],
)
def test_something_else_than_a_state_is_refused(text: str, message: str) -> None:
    with pytest.raises(StateError, match=message):
        read_state(text)


def test_a_state_with_encrypted_secrets_is_refused() -> None:
    resource = secrets_resource()
    resource["outputs"]["machineSecrets"] = {
        "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
        "ciphertext": "v1:abc",
    }
    with pytest.raises(StateError, match="secrets are encrypted.*--show-secrets"):
        read_state(state_of(resource))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (state_of(), "only stacks that build a cluster do"),
        (state_of(secrets_resource("a"), secrets_resource("b")), r"several clusters \(a, b\)"),
        (state_of(secrets_resource()), "no output talosconfig yet"),
        (state_of(secrets_resource(), talosconfig=secret("- MARKER")), "talosconfig is not readable"),
    ],
)
def test_a_stack_without_what_is_exported_is_refused(text: str, message: str) -> None:
    with pytest.raises(StateError, match=message) as caught:
        export.documents(read_state(text))
    assert "MARKER" not in str(caught.value)


def run(*words: str, given: str = "", path: Path | None = None, monkeypatch: pytest.MonkeyPatch) -> Any:
    if path is not None:
        monkeypatch.setenv("PATH", str(path))
    return CliRunner().invoke(export.app, list(words), input=given)


def test_a_missing_sops_gives_one_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run("--age", RECIPIENT, "--state", "-", given=state_of(), path=tmp_path, monkeypatch=monkeypatch)
    assert found.exit_code == 1
    (line,) = found.stderr.splitlines()
    assert "sops is needed and not on PATH. Next: install sops" in line


def test_a_sops_that_is_too_old_is_refused(tmp_path: Path) -> None:
    old = tmp_path / "sops"
    old.write_text("#!/bin/sh\necho sops 3.7.3\n")
    old.chmod(0o755)
    with pytest.raises(SopsError, match=r"sops 3\.7\.3 .* is too old: 3\.9\.0"):
        sops.find_sops({"PATH": f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin"})


def test_a_private_key_in_the_place_of_a_public_one_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    private = "AGE-SECRET-KEY-1MARKER"
    found = run("--age", RECIPIENT, "--age", private, "--state", "-", monkeypatch=monkeypatch)
    assert found.exit_code == 1
    assert "--age, number 2: must be a public key of age" in found.stderr
    assert private not in found.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--state", "state.json"), "never from a file"),
        (("--state", "-", "--stack", "prod"), "exclude each other"),
    ],
)
def test_wrong_words_are_refused(words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run("--age", RECIPIENT, *words, monkeypatch=monkeypatch)
    assert found.exit_code == 2
    assert message in " ".join(found.stderr.replace("│", " ").split())


def test_files_are_private_and_replace_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    private_file.write(path, b"one")
    path.chmod(0o644)
    private_file.write(path, b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [found.name for found in path.parent.iterdir()] == ["file"]


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        private_file.write(tmp_path / "file", b"one")
    assert [found.name for found in tmp_path.iterdir()] == ["file"]
