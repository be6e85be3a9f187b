"""The client of OSS, and what its refusals mean."""

import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import alibabacloud_oss_v2 as oss
from alibabacloud_credentials.exceptions import CredentialException
from alibabacloud_oss_v2.credentials import Credentials
from alibabacloud_oss_v2.exceptions import BaseError, OperationError, ServiceError
from alibabacloud_oss_v2.types import CredentialsProvider

from .aliyun_api import Properties, credentials, endpoint_of
from .work_provider import WorkError

_GONE = ("NoSuchKey", "NoSuchBucket", "NoSuchUpload")


class _DefaultChain(CredentialsProvider):  # type: ignore[misc]
    """Hands the default chain of alibabacloud-credentials to OSS."""

    def __init__(self) -> None:
        self._chain = credentials()

    def get_credentials(self) -> Credentials:
        found = self._chain.get_credential()
        return Credentials(found.access_key_id, found.access_key_secret, found.security_token or None)


def oss_client(props: Properties) -> Any:
    """Return a client of OSS in the region of the inputs."""
    config = oss.config.load_default()
    config.region = props["region"]
    config.endpoint = endpoint_of(props, "oss")
    config.credentials_provider = _DefaultChain()
    # An address has no subdomains to put the bucket's name into.
    config.use_path_style = _is_address(config.endpoint)
    config.readwrite_timeout = 120
    return oss.Client(config)


def _is_address(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    with suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return host == "localhost"


def _service_error(error: OperationError) -> ServiceError | None:
    inner = error.unwrap()
    return inner if isinstance(inner, ServiceError) else None


@contextmanager
def unless_gone() -> Iterator[None]:
    """Take it for done when the bucket, the object or the upload is not there."""
    try:
        yield
    except OperationError as error:
        service = _service_error(error)
        # The answer to HEAD has no body to read the code from, and says it in a header that proxies may drop.
        if service is None or (service.code not in _GONE and service.status_code != 404):
            raise


@contextmanager
def oss_errors(props: Properties) -> Iterator[None]:
    """Turn what OSS refuses into errors that say what to do."""
    where = f"OSS bucket {props['bucket']} in {props['region']}"
    try:
        yield
    except CredentialException:
        raise WorkError(
            f"{where}: no Alibaba Cloud identity was found; set ALIBABA_CLOUD_ACCESS_KEY_ID and "
            "ALIBABA_CLOUD_ACCESS_KEY_SECRET, or ALIBABA_CLOUD_ROLE_ARN with an OIDC token"
        ) from None
    except OperationError as error:
        service = _service_error(error)
        if service is None:
            raise WorkError(
                f"{where}: {endpoint_of(props, 'oss')} cannot be reached; check the network and aliyun.endpoints.oss"
            ) from None
        if service.status_code == 403:
            raise WorkError(
                f"{where}: this identity may not do that ({service.code}); it needs oss:PutObject, oss:GetObject, "
                "oss:DeleteObject, oss:ListObjects, oss:ListMultipartUploads, oss:ListParts and "
                "oss:AbortMultipartUpload on it"
            ) from None
        raise WorkError(f"{where}: {service.code} ({service.status_code})") from None
    except BaseError as error:
        raise WorkError(f"{where}: {type(error).__name__}") from None
