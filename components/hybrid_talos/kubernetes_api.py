"""The work of KubernetesReady: ask a Kubernetes API without credentials until it serves.

Talos starts kube-apiserver with `--anonymous-auth=false` (siderolabs/talos control_plane_static_pod.go), so a ready
API answers 401 to whoever shows no credentials, `/readyz` included. Such answers tell that the API listens with a
certificate of the cluster and authenticates, which is what a client with credentials needs; a few of them in a row
count as ready, because kube-apiserver listens a moment before its start is complete. Where anonymous requests are
let in (by a patch for `cluster.apiServer`), `/readyz` itself decides; `system:public-info-viewer` allows it to
everybody.
"""

import re
import socket
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import urllib3
from pulumi.dynamic import DiffResult
from requests.utils import get_environ_proxies, select_proxy
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, wait_fixed
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NameResolutionError, NewConnectionError, ProxyError
from urllib3.exceptions import SSLError as TlsError

from .engine_log import engine_sender
from .work_provider import WorkError, changed, is_unknown

Properties = dict[str, Any]

_PAUSE = 2.0
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 10.0
_SETTLED = 3
"""Answers in a row, without any other between them, after which an API that asks for credentials counts as ready."""
_SAY_EVERY = 15
"""Tries after which an answer that stays the same is shown once more."""

_FAILED_CHECK = re.compile(r"^\[-\](\S+)", re.MULTILINE)
# OpenSSL's X509_V_ERR_* (openssl.org, X509_STORE_CTX_get_error).
_WRONG_HOST = {62, 64}
_WRONG_TIME = {9, 10}


class NotReady(Exception):
    """An answer, or none, of an API that is not ready.

    ``step`` is what a person does about it when it stays so.
    """

    def __init__(self, reason: str, step: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.step = step


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    problems: dict[str, str] = {}
    for key in ("server", "connect_to"):
        value = news.get(key)
        if not is_unknown(value) and value is not None and not str(value).startswith("https://"):
            problems[key] = "must begin with https://"
    authority = news.get("authority")
    if not is_unknown(authority):
        try:
            _context(str(authority))
        except (ssl.SSLError, ValueError):
            problems["authority"] = "must be a certificate in PEM form"
    return problems


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Another address or another authority is waited for; nothing else is a change."""
    return DiffResult(changes=any(changed(key, olds, news) for key in ("server", "authority")), replaces=[])


def create(props: Properties) -> tuple[str, Properties]:
    """Wait until the API is ready."""
    wait_until_ready(props)
    return "kubernetes-api", props


def read(props: Properties) -> Properties:
    """Return the resource as it is: an API that is down now was ready once, and nothing is lost."""
    return props


def update(_olds: Properties, news: Properties) -> Properties:
    """Wait until the API is ready at its new address."""
    wait_until_ready(news)
    return news


def delete(_props: Properties) -> None:
    """Do nothing: the API goes with its machines."""


def wait_until_ready(
    props: Properties,
    *,
    seconds: float | None = None,
    pause: float = _PAUSE,
    send: Callable[[str], None] | None = None,
) -> None:
    """Ask the API until it is ready, for ``seconds`` (default: the inputs' minutes) with a ``pause`` between.

    Raises WorkError with the last answer and the next step when it never was.
    """
    server = str(props["server"])
    minutes = int(props["minutes"])
    api = _Api(props)
    progress = _Progress(server, send or engine_sender())
    retrying = Retrying(
        stop=stop_after_delay(minutes * 60 if seconds is None else seconds),
        wait=wait_fixed(pause),
        retry=retry_if_exception_type(NotReady),
        before_sleep=progress.show,
        reraise=True,
    )
    try:
        retrying(api.ask)
    except NotReady as last:
        where = f" (asked at {props['connect_to']})" if props.get("connect_to") else ""
        raise WorkError(
            f"the Kubernetes API at {server}{where} was not ready within {minutes} minutes; its last answer: "
            f"{last.reason}. Next: {last.step}. Then run `pulumi up` again: what was made stays, and it only waits anew"
        ) from None


class _Progress:
    """Shows each new answer, and one that stays the same now and then."""

    def __init__(self, server: str, send: Callable[[str], None]) -> None:
        self._server = server
        self._send = send
        self._shown = ""

    def show(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        reason = error.reason if isinstance(error, NotReady) else ""
        if reason != self._shown or state.attempt_number % _SAY_EVERY == 0:
            self._shown = reason
            self._send(f"waiting for {self._server}, {state.seconds_since_start or 0:.0f} s: {reason}")


class _Api:
    """One API, asked as often as it takes."""

    def __init__(self, props: Properties) -> None:
        self._host = urlsplit(str(props["server"])).hostname or ""
        self._url = str(props.get("connect_to") or props["server"]).rstrip("/")
        self._address = urlsplit(self._url).netloc
        self._context = _context(str(props["authority"]))
        self._in_a_row = 0

    def ask(self) -> None:
        """Return when the API is ready; raise NotReady otherwise."""
        status, text = self._get("/readyz?verbose")
        if status in (401, 403):
            self._in_a_row += 1
            if self._in_a_row < _SETTLED:
                raise NotReady(
                    f"HTTP {status}, it takes requests with credentials ({self._in_a_row} of {_SETTLED} such answers "
                    "in a row)",
                    f"look whether what answers at {self._address} is the same at each time",
                )
            return
        self._in_a_row = 0
        if status != 200:
            failed = ", ".join(_FAILED_CHECK.findall(text))
            raise NotReady(
                f"HTTP {status}" + (f", checks that fail: {failed}" if failed else ", without the names of checks"),
                "look at the control planes with `talosctl service` and `talosctl logs -k "
                "kube-system/kube-apiserver-<node>`; without a majority of etcd's members the API is never ready",
            )

    def _get(self, path: str) -> tuple[int, str]:
        try:
            # A new pool for each try: a new look at the name, and no connection that is half dead.
            with self._pool() as pool:
                answer = pool.request("GET", self._url + path, retries=False, redirect=False)
                return answer.status, answer.data.decode(errors="replace")
        except (HTTPError, OSError) as error:
            self._in_a_row = 0
            raise self._not_ready(error) from None

    def _pool(self) -> urllib3.PoolManager:
        options: dict[str, Any] = {
            "ssl_context": self._context,
            "cert_reqs": ssl.CERT_REQUIRED,
            "server_hostname": self._host,
            "timeout": urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS),
        }
        # The same proxies, or none, that the Kubernetes provider goes through.
        proxy = select_proxy(self._url, get_environ_proxies(self._url))
        return urllib3.ProxyManager(proxy, **options) if proxy else urllib3.PoolManager(**options)

    def _not_ready(self, error: Exception) -> NotReady:
        host = urlsplit(self._url).hostname
        reachable = (
            "see that the control planes run and have started (`talosctl dmesg`), and that firewalls and the load "
            f"balancer let this machine reach {self._address}; over another route set endpoints.kubernetes"
        )
        cause = _cause(error)
        if isinstance(error, ProxyError):
            return NotReady(
                "the proxy cannot be reached or refuses", f"put {host} into NO_PROXY, or look at HTTPS_PROXY"
            )
        if isinstance(error, NameResolutionError) or isinstance(cause, socket.gaierror):
            return NotReady(
                f"the name {host} is not resolved",
                f"make a record for {host} that leads to the control planes, or set endpoints.kubernetes",
            )
        if isinstance(cause, ssl.SSLCertVerificationError):
            return self._bad_certificate(cause)
        if isinstance(cause, ConnectionRefusedError):
            return NotReady(f"{self._address} refuses the connection: nothing listens there", reachable)
        if isinstance(error, NewConnectionError) and isinstance(cause, OSError):
            return NotReady(f"{self._address} is not reached: {cause.strerror or type(cause).__name__}", reachable)
        if isinstance(error, ConnectTimeoutError | TimeoutError):
            return NotReady(f"{self._address} does not answer the connection", reachable)
        if isinstance(error, TlsError | ssl.SSLError) and not isinstance(cause, ssl.SSLEOFError):
            return NotReady(f"{self._address} does not complete the TLS handshake", reachable)
        return NotReady(f"{self._address} closes the connection or does not answer the request", reachable)

    def _bad_certificate(self, error: ssl.SSLCertVerificationError) -> NotReady:
        if error.verify_code in _WRONG_HOST:
            return NotReady(
                f"the certificate is not valid for the host {self._host}",
                f"see that {self._address} leads to the control planes of this cluster and that the certificate has "
                f"{self._host} among its names (cert_sans)",
            )
        if error.verify_code in _WRONG_TIME:
            return NotReady(
                f"the certificate is not valid now: {error.verify_message}",
                "set the clocks of the control planes and of this machine (`talosctl time`)",
            )
        return NotReady(
            f"the certificate is not of this cluster's authority: {error.verify_message}",
            f"see what answers at {self._address}: another cluster, or a proxy or load balancer that ends TLS itself",
        )


def _context(authority: str) -> ssl.SSLContext:
    # A client's context checks certificate and host name by default, and trusts nobody yet.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=authority)
    return context


def _cause(error: BaseException) -> BaseException:
    """Return the innermost of an error's causes: urllib3 keeps them as cause or first argument."""
    seen: set[int] = set()
    while id(error) not in seen:
        seen.add(id(error))
        first = error.args[0] if error.args and isinstance(error.args[0], BaseException) else None
        error = error.__cause__ or first or error.__context__ or error
    return error
