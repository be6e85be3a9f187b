"""Certificates that end: said in time, and renewed with nothing replaced. Time is made to pass in the state."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cluster_alone import cluster_alone
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from hybrid_talos.certificate_ends import end_of
from lab_folder import Lab

from stacks.stack_state import SECRETS, StackState, read_state

KUBECONFIG = "talos:cluster/kubeconfig:Kubeconfig"


@pytest.fixture(scope="module")
def up(folder: Path) -> Lab:
    lab = cluster_alone(folder)
    lab.up()
    return lab


def state_of(lab: Lab) -> StackState:
    return read_state(lab.run("stack", "export", "--show-secrets").out)


def clients(state: StackState) -> list[tuple[str, str]]:
    """Return the certificates of both clients, each with the key of its authority."""
    (secrets,) = state.of_type(SECRETS)
    (kubeconfig,) = state.of_type(KUBECONFIG)
    certs = secrets["outputs"]["machineSecrets"]["certs"]
    return [
        (secrets["outputs"]["clientConfiguration"]["clientCertificate"], certs["os"]["key"]),
        (kubeconfig["outputs"]["kubernetesClientConfiguration"]["clientCertificate"], certs["k8s"]["key"]),
    ]


def with_end(certificate: str, authority: str, end: datetime) -> str:
    """Return a certificate that is the same but for its end."""
    old = x509.load_pem_x509_certificate(base64.b64decode(certificate))
    # Talos has a word of its own for these keys (siderolabs/crypto x509).
    pem = base64.b64decode(authority).replace(b"ED25519 PRIVATE KEY", b"PRIVATE KEY")
    key = serialization.load_pem_private_key(pem, None)
    assert isinstance(key, ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey)
    builder = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        .issuer_name(old.issuer)
        .public_key(old.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - timedelta(days=365))
        .not_valid_after(end)
    )
    for extension in old.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    made = builder.sign(key, None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256())
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def age(lab: Lab, days: int, tmp_path: Path) -> str:
    """Let both clients' certificates end in so many days, wherever they stand in the state; return the day."""
    text = lab.run("stack", "export", "--show-secrets").out
    end = datetime.now(UTC) + timedelta(days=days)
    for old, authority in clients(read_state(text)):
        new = with_end(old, authority, end)
        text = text.replace(old, new).replace(end_of(old), end_of(new))
    path = tmp_path / "state.json"
    path.write_text(text)
    lab.run("stack", "import", "--file", str(path))
    return end.strftime("%Y-%m-%d")


def ends(lab: Lab) -> dict[str, Any]:
    (watch,) = [one for one in lab.state() if one["type"].endswith(":CertificateWatch")]
    return dict(watch["outputs"]["ends"])


def test_the_ends_are_shown_in_clear_and_a_new_cluster_says_nothing(up: Lab) -> None:
    talos, kubernetes = (end_of(certificate) for certificate, _ in clients(state_of(up)))
    assert ends(up) == {"talosconfig": talos, "kubeconfig": kubernetes}
    assert "certificate of the" not in up.run("preview").text


def test_two_months_before_the_end_it_is_said_and_nothing_changes(up: Lab, tmp_path: Path) -> None:
    day = age(up, 45, tmp_path)
    said = " ".join(up.run("preview").text.split())
    for name in ("talosconfig", "kubeconfig"):
        assert f"the certificate of the {name} ends on {day}; the first `pulumi up` from" in said
    assert up.changes() == {}


def test_in_the_last_month_both_are_renewed_and_nothing_is_replaced(up: Lab, tmp_path: Path) -> None:
    age(up, 20, tmp_path)
    before = state_of(up)
    changes = up.changes()
    assert set(changes.values()) == {"update"}
    names = {urn.rpartition("::")[2] for urn in changes}
    assert {"control-plane-secrets", "control-plane-kubeconfig", "control-plane-certificates"} <= names

    up.up()
    after = state_of(up)
    year = (datetime.now(UTC) + timedelta(days=300)).strftime("%Y-%m-%d")
    assert min(ends(up).values()) > year
    assert [old != new for old, new in zip(clients(before), clients(after), strict=True)] == [True, True]
    secrets = [state.of_type(SECRETS)[0]["outputs"]["machineSecrets"] for state in (before, after)]
    assert secrets[0] == secrets[1]
    assert after.outputs["talosconfig"] != before.outputs["talosconfig"]
    assert after.outputs["kubeconfig"] != before.outputs["kubeconfig"]
    assert up.changes() == {}


def test_after_the_end_they_are_renewed_without_a_refresh(up: Lab, tmp_path: Path) -> None:
    age(up, -1, tmp_path)
    refused = up.run("preview", code=None)
    assert refused.code != 0
    assert "unreachable cluster" in refused.text
    assert set(up.changes("--refresh=false").values()) == {"update"}
    up.up("--refresh=false")
    assert min(ends(up).values()) > (datetime.now(UTC) + timedelta(days=300)).strftime("%Y-%m-%d")
    assert up.changes() == {}
