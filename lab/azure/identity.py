"""The token endpoint of a managed identity, in the form that App Service gives it.

Source: learn.microsoft.com "How to use managed identities for App Service and Azure Functions", section REST endpoint
reference (app-service/overview-managed-identity), and msal's managed_identity.py, which azure-identity calls.
"""

import hashlib
import hmac
import json
import secrets
import time
import urllib.parse

from ..world import World
from .arm import PACKAGE
from .http_base import Handler, LoopbackServer

STORAGE = "https://storage.azure.com"
_API_VERSION = "2019-08-01"
_LIFETIME = 24 * 3600
_TOKEN = "token"


def issue(world: World, resource: str) -> tuple[str, int]:
    """Return a new access token for a resource and when it runs out (Unix time). The world keeps only its hash."""
    token, expires = secrets.token_urlsafe(48), int(time.time()) + _LIFETIME
    for old in world.find(PACKAGE, _TOKEN):
        if old.doc["expiresOn"] < time.time():
            world.remove(PACKAGE, _TOKEN, old.id)
    world.put(PACKAGE, _TOKEN, _hash(token), {"resource": resource.rstrip("/"), "expiresOn": expires})
    return token, expires


def accepts(world: World, token: str, resource: str) -> bool:
    """Say whether a token was issued here for a resource and still holds."""
    doc = world.get(PACKAGE, _TOKEN, _hash(token))
    return doc is not None and doc["resource"] == resource.rstrip("/") and doc["expiresOn"] > time.time()


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class IdentityServer(LoopbackServer):
    """Serves tokens to clients that know ``header``: their IDENTITY_ENDPOINT is ``endpoint``."""

    def __init__(self, world: World, header: str | None = None) -> None:
        self.header = header or secrets.token_hex(16)
        super().__init__(type("_TokenHandler", (_TokenHandler,), {"world": world, "secret": self.header}))

    @property
    def endpoint(self) -> str:
        """What clients get as IDENTITY_ENDPOINT."""
        return f"{self.url}/msi/token"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make azure-identity's ManagedIdentityCredential and DefaultAzureCredential come here."""
        return {"IDENTITY_ENDPOINT": self.endpoint, "IDENTITY_HEADER": self.header}


class _TokenHandler(Handler):
    world: World
    secret: str

    def do_GET(self) -> None:
        self.body()
        parts = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(parts.query))
        given = self.headers.get("X-IDENTITY-HEADER") or ""
        if parts.path != "/msi/token":
            self._json(404, {"statusCode": 404, "message": "no such path"})
        elif not hmac.compare_digest(given.encode(), self.secret.encode()):
            self._json(403, {"statusCode": 403, "message": "X-IDENTITY-HEADER is missing or wrong"})
        elif query.get("api-version") != _API_VERSION or not query.get("resource"):
            self._json(400, {"statusCode": 400, "message": f"api-version={_API_VERSION} and resource are needed"})
        else:
            token, expires = issue(self.world, query["resource"])
            self._json(
                200,
                {
                    "access_token": token,
                    "expires_on": str(expires),
                    "resource": query["resource"],
                    "token_type": "Bearer",
                    "client_id": query.get("client_id", ""),
                },
            )

    def _json(self, status: int, content: dict[str, object]) -> None:
        self.answer(status, {"Content-Type": "application/json"}, json.dumps(content).encode())
