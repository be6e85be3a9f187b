"""The door of the simulated clusters: HTTPS on loopback, where a client asks whether a Kubernetes API is ready.

One server stands for all clusters. The name that a client asks for in its handshake (SNI) says which cluster it wants;
a client that wants an address sends none, and gets the newest cluster whose endpoint is one. The certificate is of
that cluster's own authority. What may be read of the objects that the simulated provider keeps is in reading.py.

Like the kube-apiserver that Talos starts (siderolabs/talos control_plane_static_pod.go, `anonymous-auth: false`), it
answers 401 to whoever shows no client certificate of the cluster, unless the machine configs allow anonymous requests.
A failing check is answered with 500 and the list of checks (kubernetes/apiserver pkg/server/healthz/healthz.go).
"""

import json
import socket
import ssl
import tempfile
import threading
from ipaddress import AddressValueError, IPv4Address
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from ..http_base import Handler, LoopbackServer
from ..talos import machines, pki
from ..world import Record, World
from . import reading

STARTING = 2
"""Connections that an API closes while it starts; so many more find it listening and not ready yet."""

_CHECKS = ("ping", "log", "etcd", "etcd-readiness", "poststarthook/rbac/bootstrap-roles", "shutdown")
_LATE = ("poststarthook/rbac/bootstrap-roles",)
_PATHS = ("/readyz", "/livez", "/healthz")


class ApiServer(LoopbackServer):
    """Serves the Kubernetes APIs of the clusters in a world; each starts anew with this server."""

    def __init__(self, world: World, starting: int = STARTING) -> None:
        self._world = world
        self._starting = starting
        self._lock = threading.Lock()
        self._met: dict[str, int] = {}
        self._contexts: dict[tuple[str, str, str], ssl.SSLContext] = {}
        self._clusters: dict[ssl.SSLContext, str] = {}
        super().__init__(type("_Handler", (_Api,), {"apis": self}))

    def open(self, port: int = 0) -> int:
        """Listen on a port, or on any free one; return it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Whether a client is asked for a certificate is taken from this context, whom to trust from the chosen one.
        context.verify_mode = ssl.CERT_OPTIONAL
        context.sni_callback = self._choose
        return self.start(port, context)

    def _choose(self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, _context: object) -> int | None:
        """Give a connection its cluster's certificate, or close it: nothing listens there."""
        found = _cluster_of(self._world, name)
        if found is None or not self._listens(found[0]):
            if isinstance(connection, ssl.SSLSocket):
                # The socket's own: a client must not get so much as an alert from where nothing is.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            return int(ssl.ALERT_DESCRIPTION_INTERNAL_ERROR)
        connection.context = self._context(*found)
        return None

    def _listens(self, cluster: Record) -> bool:
        if not cluster.doc["bootstrapped"] or not machines.running(self._world, cluster.id):
            return False
        with self._lock:
            self._met[cluster.id] = self._met.get(cluster.id, 0) + 1
            listens = self._met[cluster.id] > self._starting
        self._world.event("kubernetes", "read", "ApiServer", cluster.doc["key"], "answers" if listens else "refuses")
        return listens

    def _context(self, cluster: Record, host: str) -> ssl.SSLContext:
        authority = machines.kubernetes_authority(self._world, cluster.id)
        key = (cluster.id, host, pki.fingerprint(authority.crt))
        with self._lock:
            context = self._contexts.get(key)
            if context is None:
                context = self._contexts[key] = _server_context(host, authority)
                self._clusters[context] = cluster.id
        return context

    def failing(self, context: ssl.SSLContext) -> tuple[str, ...]:
        """Return the names of the checks that fail for the cluster of a connection."""
        id = self._clusters[context]
        cluster = self._world.get(machines.PACKAGE, "cluster", id)
        record = None if cluster is None else Record(machines.PACKAGE, "cluster", id, cluster)
        if record is None or machines.api_problem(self._world, record):
            return ("etcd", "etcd-readiness")
        return _LATE if self._met[id] <= 2 * self._starting else ()

    def anonymous(self, context: ssl.SSLContext) -> bool:
        """Say whether the cluster of a connection lets requests without credentials in."""
        planes = machines.members(self._world, self._clusters[context], "controlplane")
        return any(plane.get("anonymous") for plane in planes)

    def read(self, context: ssl.SSLContext, path: str, query: dict[str, str]) -> dict[str, Any] | None:
        """Return an object or a list of the cluster of a connection."""
        return reading.read(self._world, self._key(context), path, query)

    def review(self, context: ssl.SSLContext, body: dict[str, Any]) -> dict[str, Any]:
        """Return whether somebody may do something in the cluster of a connection."""
        return reading.review(self._world, self._key(context), body)

    def _key(self, context: ssl.SSLContext) -> str:
        cluster = self._world.get(machines.PACKAGE, "cluster", self._clusters[context]) or {}
        return str(cluster.get("key"))

    def version(self, context: ssl.SSLContext) -> str:
        """Return the version of the cluster of a connection."""
        planes = machines.members(self._world, self._clusters[context], "controlplane")
        return str(planes[0]["kubernetes_version"]) if planes else ""


class _Api(Handler):
    apis: ClassVar[ApiServer]

    def do_GET(self) -> None:
        where = urlsplit(self.path)
        assert isinstance(self.connection, ssl.SSLSocket)
        context = self.connection.context
        known = bool(self.connection.getpeercert())
        if not known and not self.apis.anonymous(context):
            self._status(401, "Unauthorized", "Unauthorized")
        elif where.path in _PATHS:
            self._health(where.path, self.apis.failing(context), "verbose" in where.query)
        elif where.path == "/version":
            version = self.apis.version(context)
            major, minor, *_ = [*version.split("."), "", ""]
            self._json(200, {"major": major, "minor": minor, "gitVersion": f"v{version}", "platform": "linux/amd64"})
        elif known and (found := self.apis.read(context, where.path, dict(parse_qsl(where.query)))) is not None:
            self._json(200, found)
        else:
            self._status(404, "NotFound", "the server could not find the requested resource")

    def do_POST(self) -> None:
        body = self.body()
        assert isinstance(self.connection, ssl.SSLSocket)
        if not self.connection.getpeercert():
            self._status(401, "Unauthorized", "Unauthorized")
        elif self.path == reading.REVIEWS:
            self._json(201, self.apis.review(self.connection.context, json.loads(body)))
        else:
            self._status(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    def _health(self, path: str, failing: tuple[str, ...], verbose: bool) -> None:
        lines = [f"[-]{name} failed: reason withheld" if name in failing else f"[+]{name} ok" for name in _CHECKS]
        name = path.removeprefix("/")
        if failing:
            self._text(500, "\n".join([*lines, f"{name} check failed", ""]))
        else:
            self._text(200, "\n".join([*lines, f"{name} check passed", ""]) if verbose else "ok")

    def _text(self, status: int, text: str) -> None:
        self.answer(status, {"Content-Type": "text/plain; charset=utf-8", "Connection": "close"}, text.encode())

    def _status(self, code: int, reason: str, message: str) -> None:
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        self._json(code, {**status, "message": message, "reason": reason, "code": code})

    def _json(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.answer(status, {"Content-Type": "application/json", "Connection": "close"}, body)


def _cluster_of(world: World, name: str | None) -> tuple[Record, str] | None:
    """Return the newest cluster whose endpoint has a name, or without a name an address; and that host."""
    for record in reversed(world.find(machines.PACKAGE, "cluster")):
        for plane in machines.members(world, record.id, "controlplane"):
            host = urlsplit(plane["endpoint"]).hostname or ""
            if host == name or (name is None and _is_address(host)):
                return record, host
    return None


def _is_address(host: str) -> bool:
    try:
        IPv4Address(host)
    except AddressValueError:
        return False
    return True


def _server_context(host: str, authority: pki.Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Without it here too, the ssl module shows no certificate of a client.
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=pki.pem(authority.crt))
    # The ssl module takes keys from files only; this one is gone, with its folder, before anyone is served.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.pem"
        path.touch(mode=0o600)
        path.write_bytes(pki.server_certificate(host, authority))
        context.load_cert_chain(path)
    return context
