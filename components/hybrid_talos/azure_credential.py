"""The Azure identity that runs a deployment, found the way Pulumi's Azure provider finds it."""

import os
from collections.abc import Callable

import requests
from azure.core.credentials import TokenCredential
from azure.core.exceptions import ClientAuthenticationError
from azure.identity import (
    ClientAssertionCredential,
    ClientSecretCredential,
    DefaultAzureCredential,
    ManagedIdentityCredential,
)

_AUDIENCE = "api://AzureADTokenExchange"


def deployment_credential(authority: str | None = None) -> TokenCredential:
    """Return the credential of whoever runs `pulumi up`.

    The ARM_* variables of Pulumi's Azure provider come first (client secret, OIDC token, managed identity);
    without them azure-identity's own chain decides (AZURE_*, workload and managed identity, az login).
    ``authority`` is the login host of a national cloud, such as `login.chinacloudapi.cn`.
    """
    extra = {"authority": authority} if authority else {}
    tenant, client = os.environ.get("ARM_TENANT_ID"), os.environ.get("ARM_CLIENT_ID")
    if tenant and client:
        if secret := os.environ.get("ARM_CLIENT_SECRET"):
            return ClientSecretCredential(tenant, client, secret, **extra)
        if assertion := _oidc_assertion():
            return ClientAssertionCredential(tenant, client, assertion, **extra)
    if _is_on("ARM_USE_MSI"):
        return ManagedIdentityCredential(client_id=client) if client else ManagedIdentityCredential()
    return DefaultAzureCredential(exclude_interactive_browser_credential=True, **extra)


def no_identity(error: ClientAuthenticationError) -> str:
    """Return what to do about an identity that is not there or not accepted."""
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    return (
        f"no Azure identity was found or accepted ({reason}); set ARM_CLIENT_ID, ARM_TENANT_ID and "
        "a secret or OIDC token, or run `az login`"
    )


def _oidc_assertion() -> Callable[[], str] | None:
    """Return what gives a fresh OIDC token, in the three ways that the ARM_OIDC_* variables allow."""
    if not _is_on("ARM_USE_OIDC"):
        return None
    if token := os.environ.get("ARM_OIDC_TOKEN"):
        return lambda: token
    if path := os.environ.get("ARM_OIDC_TOKEN_FILE_PATH"):
        return lambda: _read(path)
    url = os.environ.get("ARM_OIDC_REQUEST_URL") or os.environ.get("ACTIONS_ID_TOKEN_REQUEST_URL")
    bearer = os.environ.get("ARM_OIDC_REQUEST_TOKEN") or os.environ.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN")
    return (lambda: _request(url, bearer)) if url and bearer else None


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def _request(url: str, bearer: str) -> str:
    response = requests.get(
        url, params={"audience": _AUDIENCE}, headers={"Authorization": f"Bearer {bearer}"}, timeout=30
    )
    response.raise_for_status()
    return str(response.json()["value"])


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "").lower() in ("1", "true")
