"""The token endpoint of a managed identity, in the form that App Service gives it.

Source: learn.microsoft.com "How to use managed identities for App Service and Azure Functions", section REST endpoint
reference (app-service/overview-managed-identity), and msal's managed_identity.py, which azure-identity calls.
"""

import base64
import hmac
import json
import os
import secrets
import time
import urllib.parse
from contextlib import suppress
from pathlib import Path

from ..http_base import Handler, LoopbackServer
from ..world import World

STORAGE = "https://storage.azure.com"
_API_VERSION = "2019-08-01"
_LIFETIME = 24 * 3600


def issue(world: World, resource: str) -> tuple[str, int]:
    """Return a new access token for a resource and when it runs out (Unix time)."""
    expires = int(time.time()) + _LIFETIME
    content = json.dumps({"aud": resource.rstrip("/"), "exp": expires, "jti": secrets.token_hex(8)}).encode()
    return ".".join(map(_text, (content, _signature(world, content)))), expires


def accepts(world: World, token: str, resource: str) -> bool:
    """Say whether a token was issued here for a resource and still holds."""
    try:
        content, signature = (base64.urlsafe_b64decode(part) for part in token.split("."))
        claims = json.loads(content) if hmac.compare_digest(signature, _signature(world, content)) else {}
    except ValueError:
        return False
    return claims.get("aud") == resource.rstrip("/") and claims.get("exp", 0) > time.time()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()


def _signature(world: World, content: bytes) -> bytes:
    return hmac.digest(_key(world.folder / "identity.key"), content, "sha256")


def _key(path: Path) -> bytes:
    """Return the key that signs tokens; all processes of one lab share it, and nobody else can read it."""
    if not path.exists():
        # Whole or not at all: a second process must not read a key that is still empty.
        draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))
        with suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    return path.read_bytes()


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
