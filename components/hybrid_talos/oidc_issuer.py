"""The cluster's issuer of service-account tokens, as a cloud must be able to read it. Pure."""

import ipaddress
from urllib.parse import urlsplit

_PRIVATE_ENDINGS = (".local", ".localhost", ".internal", ".svc", ".lan", ".home.arpa", ".test", ".invalid")


def issuer_problem(issuer: str) -> str | None:
    """Return why a cloud cannot trust tokens of an issuer, or None.

    The cloud fetches `<issuer>/.well-known/openid-configuration` and the keys named there from the internet, so the
    address must be public; only its form can be checked here.
    """
    if not issuer or issuer != issuer.strip():
        return f"is empty or has white space around it. {WAY_OUT}"
    try:
        address = urlsplit(issuer)
        host, _ = address.hostname or "", address.port
    except ValueError:
        return f"must be an address. {WAY_OUT}"
    if address.scheme != "https" or address.query or address.fragment or address.username is not None:
        return f"must begin with https:// and have no user, query or fragment. {WAY_OUT}"
    if not _public(host):
        return f"must be a public address, since the cloud reads the keys from there. {WAY_OUT}"
    return None


WAY_OUT = (
    "Serve the cluster's discovery document and keys (`kubectl get --raw /.well-known/openid-configuration` and "
    "`/openid/v1/jwks`) at a public https address and make that the API servers' service-account-issuer, or give the "
    "autoscaler a secret instead"
)
"""What to do without a public issuer."""


def _public(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        labels = host.rstrip(".").split(".")
        named = len(labels) > 1 and all(0 < len(label) < 64 for label in labels)
        return named and not f".{host.rstrip('.').lower()}".endswith(_PRIVATE_ENDINGS)
