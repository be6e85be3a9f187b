"""Azure Blob Storage as the custom resources use it: the real client, and its refusals in words."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from azure.core.credentials import TokenCredential
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceNotFoundError,
    ServiceRequestError,
)
from azure.core.pipeline.policies import RetryMode, RetryPolicy
from azure.storage.blob import BlobClient, ContainerClient

from .azure_cloud import ADDRESSES, AzureEnvironment
from .azure_credential import deployment_credential, no_identity
from .work_provider import WorkError

Properties = dict[str, Any]

_RETRIES = 5
# A role assignment may take ten minutes to work (learn.microsoft.com, RBAC troubleshooting).
_ROLE_PAUSE_SECONDS, _ROLE_PAUSES = 15, 40
_SCOPE = "https://storage.azure.com/.default"


def blob_client(props: Properties, name: str, **options: Any) -> BlobClient:
    """Return a client of one blob in the container that the inputs name."""
    return BlobClient(*_place(props), name, credential=_credential(props), **_options(options))


def container_client(props: Properties, **options: Any) -> ContainerClient:
    """Return a client of the container that the inputs name."""
    return ContainerClient(*_place(props), credential=_credential(props), **_options(options))


def _place(props: Properties) -> tuple[str, str]:
    return props["endpoint"].replace("{account}", props["account"]), props["container"]


def _credential(props: Properties) -> TokenCredential:
    environment = AzureEnvironment(props.get("environment") or AzureEnvironment.PUBLIC)
    credential = deployment_credential(props.get("authority") or ADDRESSES[environment].authority)
    # Asked here, once, so that an identity that is not there is no storage request that is tried again.
    credential.get_token(_SCOPE)
    return credential


def _options(given: dict[str, Any]) -> dict[str, Any]:
    return {"initial_backoff": 2, "retry_total": _RETRIES, **given}


def check_endpoint(news: Properties) -> dict[str, str]:
    """Return what is wrong with the address of the storage account among the inputs."""
    endpoint = news.get("endpoint")
    if isinstance(endpoint, str) and not endpoint.startswith("https://"):
        return {"endpoint": "must begin with https://, since a token goes there"}
    return {}


def wait_for_role(props: Properties) -> None:
    """Ask for the container until the role that was assigned a moment ago is known to the storage service."""
    if not props.get("role_is_new"):
        return
    patient = RetryPolicy(
        retry_total=_ROLE_PAUSES,
        retry_status=_ROLE_PAUSES,
        retry_mode=RetryMode.Fixed,
        retry_backoff_factor=_ROLE_PAUSE_SECONDS,
        retry_on_status_codes=[403],
    )
    with blob_client(props, "role-check", retry_policy=patient) as blob, suppress(ResourceNotFoundError):
        blob.get_blob_properties()


@contextmanager
def nothing_when_gone() -> Iterator[None]:
    """End the block quietly when blob, container or account are not there any more."""
    try:
        yield
    except ResourceNotFoundError:
        pass
    except ServiceRequestError as error:
        if not _no_such_host(error):
            raise


def _no_such_host(error: BaseException | None) -> bool:
    """Tell whether the name does not exist, as that of an account that was deleted; an unanswered question is no no."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, socket.gaierror):
            return error.errno == socket.EAI_NONAME
        reason = next((part for part in (getattr(error, "reason", None), *error.args) if _is_error(part)), None)
        error = error.__cause__ or error.__context__ or getattr(error, "inner_exception", None) or reason
    return False


def _is_error(value: object) -> bool:
    return isinstance(value, BaseException)


def code_of(error: HttpResponseError) -> str:
    """Return the service's word for what is wrong, such as `ServerBusy`."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or error.status_code)


@contextmanager
def blob_errors(props: Properties) -> Iterator[None]:
    """Turn what the client raises into WorkErrors that say what to do."""
    where = f"storage account {props['account']}"
    try:
        yield
    except ClientAuthenticationError as error:
        raise WorkError(f"{where}: {no_identity(error)}") from None
    except ServiceRequestError:
        raise WorkError(
            f"{where}: {props['endpoint']} cannot be reached; check the network and azure.endpoints.blob"
        ) from None
    except HttpResponseError as error:
        code = code_of(error)
        if error.status_code == 412:
            raise WorkError(
                f"{where}: another run took this upload over ({code}); wait for it, then run `pulumi up` again"
            ) from None
        if error.status_code == 403:
            raise WorkError(
                f"{where}: this identity may not write blobs ({code}); give it the role 'Storage Blob Data "
                "Contributor' on the account, or set azure.uploader_principal_id to its object id"
            ) from None
        raise WorkError(f"{where}: {error.reason} ({code})") from None
    except AzureError as error:
        raise WorkError(f"{where}: the connection broke ({type(error).__name__}); run `pulumi up` again") from None
