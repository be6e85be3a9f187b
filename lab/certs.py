"""A certificate authority of the lab's own, so that its HTTPS servers on loopback are trusted by real clients.

Its private keys never leave the lab's folder, and nothing but the lab's own child processes is told to trust it.
"""

import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import certifi
import trustme
from cryptography import x509

_RENEW_BEFORE = timedelta(days=7)


@dataclass(frozen=True)
class Certificates:
    """Files of the lab's certificates."""

    ca: Path
    """The authority's certificate alone."""
    bundle: Path
    """The authority's certificate and the public ones: what clients are told to trust."""
    server: Path
    """Key and certificate of the servers on 127.0.0.1 and localhost."""

    def server_context(self) -> ssl.SSLContext:
        """Return how a server on loopback speaks TLS."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.server)
        return context


def certificates(folder: Path) -> Certificates:
    """Return the lab's certificates in ``folder``, making them when they are not there or about to run out."""
    files = Certificates(folder / "ca.pem", folder / "bundle.pem", folder / "server.pem")
    folder.mkdir(parents=True, exist_ok=True)
    if not _good(files.server) or not _good(files.ca):
        authority = trustme.CA(organization_name="Hybrid Talos lab")
        issued = authority.issue_cert("127.0.0.1", "localhost")
        _write(files.ca, authority.cert_pem.bytes())
        _write(files.server, issued.private_key_and_cert_chain_pem.bytes())
    # Always anew: the public certificates change with the installed certifi.
    _write(files.bundle, files.ca.read_bytes() + b"\n" + Path(certifi.where()).read_bytes())
    return files


def _good(path: Path) -> bool:
    try:
        data = path.read_bytes()
        certificate = x509.load_pem_x509_certificate(data[data.index(b"-----BEGIN CERTIFICATE-----") :])
    except (OSError, ValueError):
        return False
    return certificate.not_valid_after_utc - datetime.now(UTC) > _RENEW_BEFORE


def _write(path: Path, data: bytes) -> None:
    """Write a file in one step, readable by its owner only."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.touch(mode=0o600)
    draft.write_bytes(data)
    draft.replace(path)
