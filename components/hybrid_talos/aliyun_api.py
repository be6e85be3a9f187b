"""How Alibaba Cloud is asked: the default chain of credentials, and its services that answer to RPC.

By the generic client that Alibaba's own SDKs are made on: what is asked here is a handful of the thousand calls that an
SDK of one service has (help.aliyun.com "Request syntax and signature method V3").
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from alibabacloud_credentials.client import Client as CredentialClient
from alibabacloud_credentials.exceptions import CredentialException
from alibabacloud_tea_openapi.client import Client
from alibabacloud_tea_openapi.exceptions import AlibabaCloudException
from alibabacloud_tea_openapi.utils import Utils
from alibabacloud_tea_openapi.utils_models import Config, OpenApiRequest, Params
from darabonba.runtime import RuntimeOptions
from Tea.exceptions import TeaException
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from .work_provider import WorkError, is_unknown

Properties = dict[str, Any]
_CONNECT_MS, _READ_MS = 10_000, 60_000
_TRIES = 5
_FIRST_WAIT_SECONDS = 1.0


class Service(NamedTuple):
    """A service that answers to RPC."""

    name: str
    version: str
    key: str
    """Input that holds its address."""
    setting: str
    """What that input is called in the settings."""


ECS = Service("ecs", "2014-05-26", "ecs", "aliyun.endpoints.ecs")
ESS = Service("ess", "2022-02-22", "ess", "aliyun.endpoints.ess")

# Regions that Auto Scaling serves from one place (alibabacloud-ess20220222 client.py, _endpoint_map).
_CENTRAL_ESS = frozenset(
    ["cn-qingdao", "cn-beijing", "cn-hangzhou", "cn-shanghai", "cn-shenzhen", "cn-hongkong"]
    + ["ap-southeast-1", "us-east-1", "us-west-1"]
)
ENDPOINTS = ("oss", "ecs", "ess")
"""Inputs that hold addresses; None stands for the region's public one."""


class CloudRefusal(Exception):
    """A refusal by a service of Alibaba Cloud: its code, and its HTTP status."""

    def __init__(self, code: str, status: int) -> None:
        super().__init__(code)
        self.code = code
        self.status = status


class _Passing(Exception):
    """What may be gone at the next try."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


def address_problems(news: Properties) -> dict[str, str]:
    """Return what is wrong with the addresses among the inputs."""
    problems = {}
    for key in ENDPOINTS:
        value = news.get(key)
        if isinstance(value, str) and not is_unknown(value) and urlsplit(value).scheme not in ("https", "http"):
            problems[key] = "must begin with https:// or http://"
    return problems


def endpoint_of(props: Properties, key: str) -> str:
    """Return the address of a service in the region of the inputs."""
    region = props["region"]
    given = props.get(key)
    if given:
        return str(given).replace("{region}", region)
    if key == "oss":
        return f"https://oss-{region}.aliyuncs.com"
    if key == "ess" and region in _CENTRAL_ESS:
        return "https://ess.aliyuncs.com"
    return f"https://{key}.{region}.aliyuncs.com"


def credentials() -> Any:
    """Return the default chain: ALIBABA_CLOUD_* variables, OIDC, a profile, the role of the machine."""
    # The chain logs the traceback of each link that fails to stderr, where the engine shows all of it.
    logging.getLogger("credentials").setLevel(logging.CRITICAL)
    chain = CredentialClient()
    # Asked here, once, so that an identity that is not there is no request that is tried again.
    chain.get_credential()
    return chain


def call(props: Properties, service: Service, action: str, **parameters: Any) -> dict[str, Any]:
    """Ask a service in the region of the inputs; tried again when it is busy or out of reach.

    Raises CloudRefusal for what it refuses, and WorkError when it cannot be reached.
    """
    parts = urlsplit(endpoint_of(props, service.key))
    config = Config(
        credential=credentials(),
        region_id=props["region"],
        endpoint=parts.netloc,
        protocol=parts.scheme.upper(),
        connect_timeout=_CONNECT_MS,
        read_timeout=_READ_MS,
        user_agent="hybrid-talos",
    )
    params = Params(
        action=action,
        version=service.version,
        protocol=parts.scheme.upper(),
        pathname="/",
        method="POST",
        auth_type="AK",
        style="RPC",
        req_body_type="formData",
        body_type="json",
    )
    request = OpenApiRequest(query=Utils.query({"RegionId": props["region"], **parameters}))
    client = Client(config)
    retry = Retrying(
        stop=stop_after_attempt(_TRIES),
        wait=wait_exponential(_FIRST_WAIT_SECONDS, max=15),
        retry=retry_if_exception_type(_Passing),
        reraise=True,
    )
    try:
        body: dict[str, Any] = retry(_once, client, params, request)
    except _Passing as passing:
        if isinstance(passing.error, CloudRefusal):
            raise passing.error from None
        raise WorkError(
            f"{parts.scheme}://{parts.netloc} cannot be reached; check the network and {service.setting}"
        ) from None
    return body


def _once(client: Client, params: Params, request: OpenApiRequest) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = client.call_api(params, request, RuntimeOptions())["body"]
        return answer
    except AlibabaCloudException as error:
        status = int(error.status_code or 0)
        refusal = CloudRefusal(str(error.code or "").strip() or "Unknown", status)
        if status >= 500 or refusal.code.startswith("Throttling"):
            raise _Passing(refusal) from None
        raise refusal from None
    except (TeaException, OSError) as error:
        raise _Passing(error) from None


@contextmanager
def cloud_errors(props: Properties, rights: str) -> Iterator[None]:
    """Turn what the cloud refuses into errors that say what to do; ``rights`` are the actions that are needed."""
    where = f"Alibaba Cloud in {props['region']}"
    try:
        yield
    except CredentialException:
        raise WorkError(
            f"{where}: no Alibaba Cloud identity was found; set ALIBABA_CLOUD_ACCESS_KEY_ID and "
            "ALIBABA_CLOUD_ACCESS_KEY_SECRET, or ALIBABA_CLOUD_ROLE_ARN with an OIDC token"
        ) from None
    except CloudRefusal as error:
        if error.code.startswith("NoSetRoletoECSServiceAc"):
            raise WorkError(
                f"{where}: ECS may not read the bucket; make the service role AliyunECSImageImportDefaultRole with the "
                "policy AliyunECSImageImportRolePolicy in this account, then run `pulumi up` again"
            ) from None
        if error.code.startswith(("Forbidden", "NoPermission", "InvalidAccessKeyId", "SignatureDoesNotMatch")):
            raise WorkError(f"{where}: this identity may not do that ({error.code}); it needs {rights}") from None
        raise WorkError(f"{where}: {error.code} ({error.status})") from None
