"""Taking over a cluster: files that are refused, differences without secrets, and what the stack may hold before."""

import base64
import datetime
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from test_secrets_on_disk import machine_secrets, secrets_resource, state_of

from stacks import pipes, takeover_files
from stacks.config_difference import differences
from stacks.secrets_bundle import BundleError, bundle_of
from stacks.stack_state import read_state
from stacks.takeover_engine import Engine, EngineError, without_look_up

MARKER = "cluster-secret"


def authority() -> tuple[ed25519.Ed25519PrivateKey, str]:
    key = ed25519.Ed25519PrivateKey.generate()
    return key, signed(key, key)


def signed(key: ed25519.Ed25519PrivateKey, by: ed25519.Ed25519PrivateKey) -> str:
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "talos")])
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(by, None)
    )
    return base64.b64encode(certificate.public_bytes(serialization.Encoding.PEM)).decode()


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    key, certificate = authority()
    bundle = bundle_of(machine_secrets())
    bundle["certs"]["os"]["crt"] = certificate
    client = signed(ed25519.Ed25519PrivateKey.generate(), key)
    context = {"endpoints": [], "ca": certificate, "crt": client, "key": "client-key-MARKER"}
    secrets, talosconfig = tmp_path / "secrets.yaml", tmp_path / "talosconfig"
    secrets.write_text(yaml.safe_dump(bundle))
    talosconfig.write_text(yaml.safe_dump({"context": "demo", "contexts": {"demo": context, "old": {}}}))
    return secrets, talosconfig


def test_files_of_one_cluster_are_read(files: tuple[Path, Path]) -> None:
    found = takeover_files.read(*files)
    assert found.credentials["clientKey"] == "client-key-MARKER"
    assert found.bundle["cluster"]["secret"] == MARKER
    assert MARKER not in repr(found)
    assert "client-key-MARKER" not in repr(found)


def test_a_talosconfig_of_another_cluster_is_refused(files: tuple[Path, Path]) -> None:
    secrets, talosconfig = files
    bundle = yaml.safe_load(secrets.read_text())
    bundle["certs"]["os"]["crt"] = authority()[1]
    secrets.write_text(yaml.safe_dump(bundle))
    with pytest.raises(BundleError, match="is not of the same cluster as .*signed by another authority"):
        takeover_files.read(secrets, talosconfig)


@pytest.mark.parametrize(
    ("context", "message"),
    [("nobody", "name one of its contexts with --context: demo, old"), ("old", "context old has no ca, crt, key")],
)
def test_a_context_that_is_not_there_or_empty_is_refused(files: tuple[Path, Path], context: str, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        takeover_files.read(*files, context)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must hold one YAML document"),
        ("cluster: {secret: cluster-secret", "is not valid YAML"),
        ("- cluster-secret\n", "is a list"),
        ("cluster: {id: a, secret: cluster-secret}\n", "not a complete set of secrets.*no secrets.bootstraptoken"),
        ("a: b\n---\nc: cluster-secret\n", "must hold one YAML document"),
        ("contexts: {demo: {key: cluster-secret}}\n", "not a complete set of secrets"),
    ],
)
def test_a_file_that_is_no_secrets_yaml_is_refused(files: tuple[Path, Path], text: str, message: str) -> None:
    files[0].write_text(text)
    with pytest.raises(BundleError, match=message) as caught:
        takeover_files.read(*files)
    assert MARKER not in str(caught.value)


def test_files_that_are_not_there_or_no_text_are_refused(files: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="nowhere: cannot be read: No such file"):
        takeover_files.read(tmp_path / "nowhere", files[1])
    files[0].write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BundleError, match="is no text"):
        takeover_files.read(*files)


def test_differences_are_named_by_document_and_path() -> None:
    runs = [
        {"machine": {"kubelet": {"extraArgs": {"v": "2"}}, "certSANs": ["a"], "sysctls": {}}},
        {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "hostname": "cp-1"},
        {"kind": "RegistryMirrorConfig", "name": "docker.io", "endpoints": [{"url": "https://user:pw@a.example.com"}]},
    ]
    generated = [
        {"machine": {"kubelet": {"extraArgs": {"v": "2"}}, "certSANs": ["a", "b"], "type": "worker"}},
        {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "hostname": "cp-2"},
    ]
    assert [str(each) for each in differences(runs, generated)] == [
        "HostnameConfig.hostname: runs cp-1, settings give cp-2",
        "RegistryMirrorConfig/docker.io.endpoints[0].url: runs https://[secret]@a.example.com, settings give (absent)",
        "RegistryMirrorConfig/docker.io.kind: runs RegistryMirrorConfig, settings give (absent)",
        "RegistryMirrorConfig/docker.io.name: runs docker.io, settings give (absent)",
        "machine.certSANs[1]: runs (absent), settings give b",
        "machine.type: runs (absent), settings give worker",
    ]


@given(
    st.sampled_from(["key", "token", "secret", "password", "content", "bootstraptoken", "anything"]),
    st.sampled_from(["machine", "cluster", "auth", "files"]),
)
def test_a_secret_that_differs_is_said_and_not_shown(key: str, section: str) -> None:
    first, second = "first-secret-MARKER", "second-secret-MARKER"
    (found,) = differences([{section: [{key: first}]}], [{section: [{key: second}]}], [first, second])
    assert str(found) == f"{section}[0].{key}: runs [secret], settings give [secret]"


@pytest.mark.parametrize(
    "value", ["abcdef.0123456789abcdef", "QUJD" * 20, "-----BEGIN OPENSSH PRIVATE KEY-----\nabc", "-----BEGIN X"]
)
def test_what_looks_like_a_secret_is_not_shown_wherever_it_stands(value: str) -> None:
    assert value not in str(differences([{"machine": {"env": {"A": value}}}], [{"machine": {}}])[0])


def test_a_stack_with_these_secrets_is_gone_on_with_and_others_are_refused() -> None:
    engine = Engine("prod", Path("Pulumi.prod.yaml"))
    bundle = bundle_of(machine_secrets())
    assert engine.is_taken(read_state(state_of(secrets_resource())), bundle)
    assert not engine.is_taken(read_state(state_of()), bundle)
    # As older releases of talosctl wrote it, and with keys that nobody knows here.
    more = {**bundle, "clock": {}, "secrets": {**bundle["secrets"], "aescbcencryptionsecret": ""}}
    assert engine.is_taken(read_state(state_of(secrets_resource())), more)
    other = {**bundle, "trustdinfo": {"token": "another"}}
    with pytest.raises(EngineError, match="has the secrets of another cluster. Next: take over into a new stack"):
        engine.is_taken(read_state(state_of(secrets_resource())), other)
    network = {"type": "azure-native:network:VirtualNetwork", "urn": "urn:pulumi:prod::p::x::azure-net"}
    with pytest.raises(EngineError, match="is not empty: azure-net and 0 more"):
        engine.is_taken(read_state(state_of(network)), bundle)


def test_the_look_up_is_left_out_and_all_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.prod.yaml"
    document: dict[str, Any] = {
        "encryptionsalt": "v1:abc",
        "config": {
            "hybrid-talos:stack": "cluster",
            "hybrid-talos:proxyPassword": {"secure": "v1:def"},
            "hybrid-talos:settings": {"cluster": {"talosVersion": "1.13.0", "endpoint": {"host": "a.example.com"}}},
        },
    }
    path.write_text(json.dumps(document))
    changed = yaml.safe_load(without_look_up(path))
    assert changed["config"]["hybrid-talos:settings"]["cluster"]["endpoint"].pop("checkDns") is False
    assert changed == document


@pytest.mark.parametrize("size", [0, 1, 1 << 16, 300_000])
def test_what_is_written_to_the_pipe_comes_back_and_nothing_stays(size: int, tmp_path: Path) -> None:
    content = os.urandom(size)

    def write(path: str) -> str:
        # As Go's os.Create opens it.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        return path

    path, received = pipes.received(write)
    assert received == content
    assert not Path(path).parent.exists()


def test_a_writer_that_fails_leaves_nothing_behind() -> None:
    seen: list[str] = []

    def fail(path: str) -> None:
        seen.append(path)
        raise ValueError("no")

    threads = threading.active_count()
    with pytest.raises(ValueError, match="no"):
        pipes.received(fail)
    assert not Path(seen[0]).parent.exists()
    assert threading.active_count() == threads
