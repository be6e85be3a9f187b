"""Azure Resource Manager as the custom resources use it: the real client, its answers, and its refusals in words.

Resources that Pulumi's Azure provider cannot make so that a killed run can be gone on from are made here: it
refuses to create what exists already (pulumi-azure-native provider.go, Create), and a PUT of Resource Manager does
not. API versions are those that provider uses, since national clouds learn of new ones later.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceNotFoundError,
    ServiceRequestError,
)
from azure.mgmt.compute import ComputeManagementClient

from .azure_cloud import ADDRESSES, AzureEnvironment
from .azure_credential import deployment_credential, no_identity
from .work_provider import WorkError

Properties = dict[str, Any]

DISKS = {"params": {"api-version": "2024-03-02"}}
GALLERIES = {"params": {"api-version": "2024-03-03"}}
MACHINES = {"params": {"api-version": "2024-11-01"}}

OWNER_TAG = "hybrid-talos-image"
"""Tag whose value names the component that an image, or what is left of one, was made for."""
MADE_TAG = "hybrid-talos-made"
"""Tag that says when it was made."""

_POLL_SECONDS = 5
_SAY_EVERY = 10.0
_BUSY = frozenset({"Creating", "Updating", "Migrating", "Deleting"})


class ArmId(NamedTuple):
    """What an id of Resource Manager names."""

    subscription: str
    resource_group: str
    names: tuple[str, ...]
    """Names of the resource and of those around it, outermost first."""


def parse_id(text: str) -> ArmId:
    """Return the parts of an id such as `/subscriptions/S/resourceGroups/G/providers/Microsoft.X/types/N`."""
    parts = text.strip("/").split("/")
    return ArmId(parts[1], parts[3], tuple(parts[7::2]))


@contextmanager
def compute_client(props: Properties, subscription: str) -> Iterator[ComputeManagementClient]:
    """Open a client for Microsoft.Compute in the cloud that the inputs name."""
    addresses = ADDRESSES[AzureEnvironment(props.get("environment") or AzureEnvironment.PUBLIC)]
    credential = deployment_credential(props.get("authority") or addresses.authority)
    # Asked here, once, so that an identity that is not there is no request that is tried again.
    credential.get_token(addresses.scope)
    with ComputeManagementClient(
        credential,
        subscription,
        (props.get("resource_manager") or addresses.resource_manager).rstrip("/"),
        credential_scopes=[addresses.scope],
        polling_interval=_POLL_SECONDS,
    ) as client:
        yield client


def found(call: Any, *arguments: Any, **options: Any) -> Properties | None:
    """Return what a GET answers, or None when there is no such thing."""
    try:
        return dict(call(*arguments, **options).as_dict())
    except ResourceNotFoundError:
        return None


def listed(call: Any, *arguments: Any, **options: Any) -> list[Properties]:
    """Return all that a list answers; nothing when what holds it is gone."""
    try:
        return [dict(item.as_dict()) for item in call(*arguments, **options)]
    except ResourceNotFoundError:
        return []


def state_of(item: Properties) -> str:
    """Return the provisioning state, such as `Succeeded`."""
    return str((item.get("properties") or {}).get("provisioningState", ""))


def not_ours(where: str, tags: Mapping[str, str]) -> str:
    """Return what to say of an image that is there and was not made for the component of this content."""
    pairs = ", ".join(f"{key}={value}" for key, value in tags.items())
    return (
        f"{where} exists, but was not made of this content by Hybrid Talos; delete it, give the component another "
        f"name, or tag it {pairs} if it is to be taken over"
    )


def has_tags(item: Properties, tags: Properties) -> bool:
    """Tell whether a resource has all of those tags."""
    there = item.get("tags") or {}
    return all(there.get(key) == value for key, value in tags.items())


def settled(look: Callable[[], Properties | None], where: str, limit: float = 1800) -> Properties | None:
    """Return a resource once nothing is under way with it, such as what a killed run began; None when it is gone."""
    started = time.monotonic()
    while (item := look()) is not None and state_of(item) in _BUSY:
        if time.monotonic() - started > limit:
            raise WorkError(f"{where} is still in state {state_of(item)}; run `pulumi up` again later")
        time.sleep(_POLL_SECONDS)
    return item


def wait(poller: Any, say: Callable[[float], None], limit: float, where: str) -> None:
    """Wait for what Azure has under way; raises what it ended with, and WorkError when it takes too long."""
    started = time.monotonic()
    while not poller.done():
        poller.wait(_SAY_EVERY)
        seconds = time.monotonic() - started
        if seconds > limit:
            raise WorkError(
                f"{where}: Azure is still at work on it after {seconds / 60:.0f} minutes; run `pulumi up` again"
            )
        if not poller.done():
            say(seconds)
    poller.result()


def check_address(news: Properties) -> dict[str, str]:
    """Return what is wrong with the address of Resource Manager among the inputs."""
    address = news.get("resource_manager")
    if isinstance(address, str) and not address.startswith("https://"):
        return {"resource_manager": "must begin with https://, since a token goes there"}
    return {}


@contextmanager
def arm_errors(where: str, page: str = "docs/images.md") -> Iterator[None]:
    """Turn what the client raises into WorkErrors that say what to do; ``page`` lists the rights that are needed."""
    try:
        yield
    except ClientAuthenticationError as error:
        raise WorkError(f"{where}: {no_identity(error)}") from None
    except ServiceRequestError:
        raise WorkError(
            f"{where}: Azure Resource Manager cannot be reached; check the network and azure.endpoints.resource_manager"
        ) from None
    except HttpResponseError as error:
        code, message = _reason(error)
        if error.status_code == 403:
            raise WorkError(
                f"{where}: this identity lacks a right ({code}: {message}); {page} lists what is needed"
            ) from None
        raise WorkError(f"{where}: {code}: {message}") from None
    except AzureError as error:
        raise WorkError(f"{where}: the connection broke ({type(error).__name__}); run `pulumi up` again") from None


def _reason(error: HttpResponseError) -> tuple[str, str]:
    inner = getattr(error, "error", None)
    code = getattr(inner, "code", None) or error.status_code or type(error).__name__
    message = getattr(inner, "message", None) or error.reason or error.message
    return str(code), str(message).strip().splitlines()[0][:500]
