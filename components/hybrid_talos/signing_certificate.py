"""The certificate that Secure Boot images are signed with, which the firmware of Azure's machines does not know.

The factory serves its own at /secureboot/signing-cert.pem (siderolabs/image-factory docs/api.md).
"""

import base64
import ssl
from typing import Any

import requests

from .http_session import http_session
from .work_provider import WorkError

_TIMEOUT_SECONDS = (30, 60)
_INPUT = "azure.signing_certificate"


def signing_certificate(props: dict[str, Any]) -> str:
    """Return the certificate of the inputs, or else of the factory, as base64 of its DER form."""
    given = props.get("signing_certificate")
    pem, where = (given, _INPUT) if given else _served(props)
    try:
        return base64.b64encode(ssl.PEM_cert_to_DER_cert(pem.strip())).decode()
    except ValueError:
        raise WorkError(f"{where}: this is no certificate in PEM form") from None


def _served(props: dict[str, Any]) -> tuple[str, str]:
    url = f"{props['factory_url'].rstrip('/')}/secureboot/signing-cert.pem"
    try:
        with http_session(props.get("factory_ca"), proxy=props.get("proxy")) as session:
            response = session.get(url, timeout=_TIMEOUT_SECONDS)
    except requests.RequestException as error:
        raise WorkError(f"{url}: cannot be reached ({type(error).__name__}); or set {_INPUT}") from None
    if response.status_code != requests.codes.ok:
        raise WorkError(f"{url}: status {response.status_code}; set {_INPUT} instead")
    return response.text, url
