"""The files of a cluster that was made by hand, plain or encrypted with sops, read to memory and checked."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from hybrid_talos._contract import BadInputs
from hybrid_talos.talos_yaml import load

from . import sops
from .secrets_bundle import BundleError, check_bundle


@dataclass(frozen=True)
class Handmade:
    """What is known of the cluster: all its secrets, and credentials for the Talos API."""

    bundle: Mapping[str, Any] = field(repr=False)
    credentials: Mapping[str, str] = field(repr=False)


def document_of(path: Path) -> dict[str, Any]:
    """Return the document of a file, decrypted if it is one of sops.

    Raises:
        BundleError, SopsError: it cannot be read; the message shows nothing of it.
    """
    try:
        found = load(path.read_text(), str(path))
    except OSError as error:
        raise BundleError(f"{path}: cannot be read: {error.strerror}") from None
    except (BadInputs, UnicodeDecodeError) as error:
        reason = str(error) if isinstance(error, BadInputs) else f"{path}: is no text"
        raise BundleError(reason) from None
    if len(found) != 1:
        raise BundleError(f"{path}: must hold one YAML document")
    return sops.decrypt(path) if sops.is_encrypted(found[0]) else found[0]


def read(secrets: Path, talosconfig: Path, context: str | None = None) -> Handmade:
    """Return the cluster's secrets and credentials.

    Raises:
        BundleError, SopsError: a file cannot be read, is not complete, or the two are not of the same cluster.
    """
    bundle = document_of(secrets)
    check_bundle(bundle, str(secrets))
    credentials = _credentials(document_of(talosconfig), talosconfig, context)
    authority, certificate = (
        _certificate(text, path)
        for text, path in ((bundle["certs"]["os"]["crt"], secrets), (credentials["clientCertificate"], talosconfig))
    )
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        raise BundleError(
            f"{talosconfig}: is not of the same cluster as {secrets}: its certificate is signed by another authority"
        ) from None
    return Handmade(bundle, credentials)


def _credentials(document: Mapping[str, Any], path: Path, named: str | None) -> dict[str, str]:
    contexts = document.get("contexts")
    if not isinstance(contexts, Mapping) or not contexts:
        raise BundleError(f"{path}: is no talosconfig: it has no contexts")
    name = named or document.get("context") or (next(iter(contexts)) if len(contexts) == 1 else None)
    context = contexts.get(name)
    known = ", ".join(sorted(map(str, contexts)))
    if not isinstance(context, Mapping):
        raise BundleError(f"{path}: name one of its contexts with --context: {known}")
    parts = {"caCertificate": "ca", "clientCertificate": "crt", "clientKey": "key"}
    found = {ours: context.get(theirs) for ours, theirs in parts.items()}
    missing = [parts[key] for key, value in found.items() if not isinstance(value, str) or not value]
    if missing:
        raise BundleError(f"{path}: context {name} has no {', '.join(missing)}")
    return {key: str(value) for key, value in found.items()}


def _certificate(text: str, path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(base64.b64decode(text, validate=True))
    except ValueError:
        raise BundleError(f"{path}: a certificate in it cannot be read") from None
