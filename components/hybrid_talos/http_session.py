"""HTTP for downloads at deployment: what may pass is tried again, a proxy and an authority of one's own are used."""

import ssl
from collections.abc import Mapping, MutableMapping
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from .image_stream import ImageError

RETRIES = 5


def retries(backoff_seconds: float, times: int = RETRIES) -> Retry:
    """Return the rule: broken connections, 429, 502, 503 and 504 are tried again five times, with growing pauses."""
    return Retry(
        total=times,
        backoff_factor=backoff_seconds,
        status_forcelist=(429, 502, 503, 504),
        allowed_methods=None,
        raise_on_status=False,
    )


class _TrustingAdapter(HTTPAdapter):
    """Trusts one more certificate authority, given as PEM text."""

    def __init__(self, ca_pem: str, max_retries: Retry) -> None:
        self._context = ssl.create_default_context(cadata=ca_pem)
        super().__init__(max_retries=max_retries)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> Any:
        return super().init_poolmanager(*args, ssl_context=self._context, **kwargs)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        return super().proxy_manager_for(*args, ssl_context=self._context, **kwargs)


class _Session(requests.Session):
    """A session whose proxy, when it has one, goes before the environment's; requests has it the other way round."""

    def __init__(self, proxy: str | None) -> None:
        super().__init__()
        self._proxies = {"http": proxy, "https": proxy} if proxy else {}

    def merge_environment_settings(
        self,
        url: str | bytes | None,
        proxies: MutableMapping[str, str] | None,
        stream: bool | None,
        verify: bool | str | None,
        cert: str | tuple[str, str] | None,
    ) -> Any:
        """Return what holds for one request."""
        return super().merge_environment_settings(url, {**(proxies or {}), **self._proxies}, stream, verify, cert)

    def rebuild_proxies(self, prepared_request: Any, proxies: Mapping[str, str] | None) -> Any:
        """Return what holds for a request that follows a redirect."""
        return super().rebuild_proxies(  # type: ignore[no-untyped-call]
            prepared_request, {**(proxies or {}), **self._proxies}
        )


def http_session(
    ca_pem: str | None = None, *, proxy: str | None = None, backoff_seconds: float = 1.0, times: int = RETRIES
) -> requests.Session:
    """Return a session that tries again what may pass.

    A proxy with its credentials, and authorities, come from the usual variables (HTTPS_PROXY, NO_PROXY,
    REQUESTS_CA_BUNDLE), and so do credentials of servers (.netrc). ``proxy`` goes before those variables; ``ca_pem``
    adds one authority. Raises ImageError when that is not a certificate.
    """
    rule = retries(backoff_seconds, times)
    try:
        adapter = _TrustingAdapter(ca_pem, rule) if ca_pem else HTTPAdapter(max_retries=rule)
    except ssl.SSLError:
        raise ImageError("factory_ca is not a certificate in PEM form") from None
    session = _Session(proxy)
    session.mount("https://", adapter)
    session.mount("http://", HTTPAdapter(max_retries=rule))
    return session
