"""Azurite behind the lab's own door: the page blobs of the storage accounts, kept by another program than the lab.

Azurite has no Resource Manager, and knows the accounts that it was started with. So the lab goes on to say which
accounts and containers there are, and who may enter (Azurite cannot check the lab's tokens); what is asked of a blob
then goes to Azurite as it came, and its answer back as it is. A container of an account is a container
``<account>-<container>`` of Azurite's one account, which is entered with its key (learn.microsoft.com "Authorize with
Shared Key"): a signed address, as azcopy gets one, may not change the size of a blob there.
"""

import base64
import hmac
import threading
import urllib.parse
from collections.abc import Mapping
from email.utils import formatdate
from typing import Any, NamedTuple

import urllib3

from ..azurite import ACCOUNT, KEY, Azurite
from ..world import CloudError

_CONNECTIONS = 16
_TIMEOUT = urllib3.Timeout(connect=10, read=300)
_VERSION = {"x-ms-version": "2021-12-02"}
# The way in is the lab's: how the caller was let in, and what belongs to one connection, stops there.
_NOT_SENT = frozenset({"authorization", "host", "connection", "content-length", "expect", "transfer-encoding"})
_NOT_RETURNED = frozenset({"connection", "keep-alive", "transfer-encoding", "date", "server"})


Names = tuple[str, str, str]
"""Account, container and blob."""


class Answer(NamedTuple):
    """What Azurite answered; the body is still to be read."""

    status: int
    headers: dict[str, str]
    response: Any


class AzuriteStore:
    """The blobs that one Azurite keeps for the lab."""

    def __init__(self, server: Azurite) -> None:
        self._url = server.url
        self._pool = urllib3.PoolManager(maxsize=_CONNECTIONS, block=True, retries=False, timeout=_TIMEOUT)
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def ask(self, method: str, where: Names, query: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Hand a request on; the caller reads the answer's body, and releases its connection."""
        account, container, name = where
        place = self._container(account, container)
        sent = {key: value for key, value in headers.items() if key.lower() not in _NOT_SENT}
        response = self._send(method, _path(place, name), query, sent, body)
        kept = {key.lower(): value for key, value in response.headers.items() if key.lower() not in _NOT_RETURNED}
        return Answer(response.status, kept, response)

    def size(self, where: Names) -> int:
        """Return the bytes of a blob."""
        return int(self._done("HEAD", where)[0]["content-length"])

    def read(self, where: Names, offset: int, length: int) -> bytes:
        """Return a part of a blob."""
        return self._done("GET", where, headers={"x-ms-range": f"bytes={offset}-{offset + length - 1}"})[1]

    def remove(self, where: Names) -> None:
        """Delete a blob, whoever holds its lease; one that is gone already is no error."""
        self._done("PUT", where, "comp=lease", {"x-ms-lease-action": "break", "x-ms-lease-break-period": "0"})
        self._done("DELETE", where)

    def _done(
        self, method: str, where: Names, query: str = "", headers: Mapping[str, str] | None = None
    ) -> tuple[dict[str, str], bytes]:
        answer = self.ask(method, where, query, {**_VERSION, **(headers or {})}, b"")
        data: bytes = answer.response.read()
        answer.response.release_conn()
        if method in ("GET", "HEAD") and answer.status >= 300:
            raise CloudError("InternalError", f"Azurite answers {answer.status} for the blob {'/'.join(where)}")
        return answer.headers, data

    def _container(self, account: str, container: str) -> str:
        place = f"{account}-{container}"
        with self._lock:
            if place not in self._known:
                made = self._send("PUT", _path(place), "restype=container", _VERSION, b"")
                made.drain_conn()
                made.release_conn()
                if made.status not in (201, 409):
                    raise CloudError("InternalError", f"Azurite answers {made.status} to a new container")
                self._known.add(place)
        return place

    def _send(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Any:
        dated = {**headers, "x-ms-date": formatdate(usegmt=True)}
        signature = _signature(method, path, query, dated, len(body))
        return self._pool.request(
            method,
            f"{self._url.removesuffix(f'/{ACCOUNT}')}{path}{'?' if query else ''}{query}",
            headers={**dated, "Authorization": f"SharedKey {ACCOUNT}:{signature}"},
            # Also of none the length is told.
            body=body if method == "PUT" else None,
            preload_content=False,
            decode_content=False,
        )


def _path(place: str, name: str = "") -> str:
    return "/".join(["", ACCOUNT, place, *([urllib.parse.quote(name, safe="/")] if name else [])])


_SIGNED = (
    *("content-encoding", "content-language", "content-length", "content-md5", "content-type", "date"),
    *("if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"),
)


def _signature(method: str, path: str, query: str, headers: Mapping[str, str], length: int) -> str:
    given = {key.lower(): value.strip() for key, value in headers.items()} | {"content-length": str(length or "")}
    lines = [method, *(given.get(name, "") for name in _SIGNED)]
    lines += [f"{name}:{given[name]}" for name in sorted(given) if name.startswith("x-ms-")]
    lines.append(f"/{ACCOUNT}{path}")
    asked = urllib.parse.parse_qsl(query, keep_blank_values=True)
    lines += [f"{name}:{value}" for name, value in sorted((name.lower(), value) for name, value in asked)]
    text = "\n".join(lines).encode()
    return base64.b64encode(hmac.digest(base64.b64decode(KEY), text, "sha256")).decode()
