"""Certificates of the simulated clusters, signed with the authorities that talosctl made."""

import base64
import binascii
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ADMIN_LIFETIME = timedelta(hours=8760)
"""Of the admin's certificate: ``cluster.adminKubeconfig.certLifetime``'s default (siderolabs/talos
pkg/machinery/constants/constants.go)."""

_SKEW = timedelta(seconds=10)
"""``allowedTimeSkew`` of siderolabs/talos pkg/kubeconfig/generate.go."""


@dataclass(frozen=True)
class Authority:
    """A certificate authority: PEM texts in base64, as Talos configs hold them."""

    crt: str
    key: str

    def __repr__(self) -> str:
        return "Authority(...)"


def fingerprint(certificate: str) -> str:
    """Return the SHA-256 of a certificate (PEM in base64), or an empty text when it is none."""
    loaded = _load(certificate)
    return "" if loaded is None else loaded.fingerprint(hashes.SHA256()).hex()


def fingerprints(certificates: str) -> list[str]:
    """Return the SHA-256 of each of some certificates (PEM in base64); none of what cannot be read."""
    try:
        loaded = x509.load_pem_x509_certificates(base64.b64decode(certificates, validate=True))
    except (binascii.Error, ValueError):
        return []
    return [each.fingerprint(hashes.SHA256()).hex() for each in loaded]


def _load(certificate: str) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(base64.b64decode(certificate, validate=True))
    except (binascii.Error, ValueError):
        return None


def trusted(certificate: str, authority: str) -> str | None:
    """Say why a server that trusts ``authority`` refuses a client certificate, or None. Both are PEM in base64."""
    leaf, issuer = _load(certificate), _load(authority)
    if leaf is None or issuer is None:
        return "tls: failed to find certificate PEM data in certificate input"
    try:
        leaf.verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        return "x509: certificate signed by unknown authority"
    if not leaf.not_valid_before_utc - _SKEW <= datetime.now(UTC) <= leaf.not_valid_after_utc:
        return "x509: certificate has expired or is not yet valid"
    return None


def expires_within(certificate: str, span: timedelta) -> bool:
    """Say whether a certificate (PEM in base64) ends within ``span`` from now; one that cannot be read does."""
    loaded = _load(certificate)
    return loaded is None or loaded.not_valid_after_utc < datetime.now(UTC) + span


def pem(certificate: str) -> str:
    """Return the PEM text of a certificate that is in base64."""
    return base64.b64decode(certificate).decode()


def server_certificate(host: str, authority: Authority) -> bytes:
    """Return key and certificate (PEM) of a server, for a host name or IPv4 address, signed by ``authority``."""
    try:
        name: x509.GeneralName = x509.IPAddress(ip_address(host))
    except ValueError:
        name = x509.DNSName(host)
    crt, key = _issue(
        authority,
        [x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")],
        ExtendedKeyUsageOID.SERVER_AUTH,
        x509.SubjectAlternativeName([name]),
    )
    return key + crt


def _issue(
    authority: Authority,
    subject: list[x509.NameAttribute[str]],
    usage: x509.ObjectIdentifier,
    *extensions: x509.ExtensionType,
) -> tuple[bytes, bytes]:
    """Return a new certificate and its key, in PEM."""
    issuer_key = serialization.load_pem_private_key(base64.b64decode(authority.key), None)
    issuer = x509.load_pem_x509_certificate(base64.b64decode(authority.crt))
    if not isinstance(issuer_key, ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey):
        raise TypeError("a cluster's authority has an elliptic or RSA key")
    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name(subject))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + ADMIN_LIFETIME)
        .add_extension(x509.KeyUsage(True, False, True, False, False, False, False, False, False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    certificate = builder.sign(
        issuer_key, None if isinstance(issuer_key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    )
    return (
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        ),
    )


def admin_kubeconfig(cluster: str, endpoint: str, authority: Authority) -> str:
    """Return a kubeconfig with a new admin certificate, in the form of siderolabs/talos pkg/kubeconfig/generate.go."""
    crt_pem, key_pem = _issue(
        authority,
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters"),
            x509.NameAttribute(NameOID.COMMON_NAME, "admin"),
        ],
        ExtendedKeyUsageOID.CLIENT_AUTH,
    )
    user = f"admin@{cluster}"
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": cluster, "cluster": {"certificate-authority-data": authority.crt, "server": endpoint}}
            ],
            "contexts": [{"name": user, "context": {"cluster": cluster, "namespace": "default", "user": user}}],
            "current-context": user,
            "users": [
                {
                    "name": user,
                    "user": {"client-certificate-data": _base64(crt_pem), "client-key-data": _base64(key_pem)},
                }
            ],
        }
    )


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def digest(text: str) -> str:
    """Return the SHA-256 of a text, as the provider gives it of a machine config."""
    return hashlib.sha256(text.encode()).hexdigest()
