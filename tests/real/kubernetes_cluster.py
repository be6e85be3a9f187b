"""A Kubernetes cluster of real servers on loopback: etcd, API server, controller manager and scheduler.

They are told what Talos tells them (siderolabs/talos
`internal/app/machined/pkg/controllers/k8s/control_plane_final.go`), and admit pods as Talos does: its own `talosctl`
writes that configuration. What is simulated is the machines: see `kubelets.py`. No image is pulled and no container
runs.
"""

import base64
import contextlib
import json
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import requests
import trustme
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from lab.real_tools import RealTools

POD_CIDR, SERVICE_CIDR = "10.244.0.0/16", "10.96.0.0/16"

NODE_GRACE_SECONDS = 15
"""How long a silent node counts as ready. Kubernetes' own is 50 seconds, for which no test has to wait here."""

_PATIENCE = 90.0

T = TypeVar("T")


def free_port() -> int:
    """Return a port on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(what: str, look: Callable[[], T | None], patience: float = _PATIENCE) -> T:
    """Return what ``look`` finds, asking until it finds something true; fail when it takes too long."""
    end = time.monotonic() + patience
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < end, f"still no {what} after {patience:.0f} s"
        time.sleep(0.2)


class Server:
    """A process of ours, with its log in a file."""

    def __init__(self, name: str, command: Sequence[str | Path], folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Nothing of the caller's: no proxy, no kubeconfig.
                env={"PATH": "/usr/bin:/bin", "HOME": str(folder)},
                start_new_session=True,
            )

    @property
    def ended(self) -> bool:
        """Whether it is no longer there."""
        return self.process.poll() is not None

    def tail(self) -> str:
        """Return the end of its log."""
        return self.log.read_text(errors="replace")[-4000:]

    def stop(self) -> None:
        """End it, gently first."""
        if self.ended:
            return
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Refused(AssertionError):
    """The API server has answered with something else than success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """The API as it is: paths in, objects out."""

    def __init__(self, url: str, session: requests.Session) -> None:
        self.url = url
        self.session = session

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json", **query: str) -> Any:
        """Return the answer; Refused when it is no success."""
        answer = self.session.request(
            method,
            self.url + path,
            params=query,
            data=None if body is None else json.dumps(body),
            headers={"Content-Type": kind, "Accept": "application/json"},
            timeout=30,
        )
        if not answer.ok:
            try:
                message = str(answer.json().get("message"))
            except ValueError:
                message = answer.text
            raise Refused(answer.status_code, message)
        return answer.json()

    def get(self, path: str, **query: str) -> Any:
        """Read an object or a list."""
        return self.call("GET", path, **query)

    def items(self, path: str, **query: str) -> list[Any]:
        """Return what a list holds."""
        return list(self.get(path, **query)["items"])

    def names(self, path: str, **query: str) -> list[str]:
        """Return the names of what a list holds, sorted."""
        return sorted(item["metadata"]["name"] for item in self.items(path, **query))

    def find(self, path: str) -> Any | None:
        """Read an object, or return None when it is not there."""
        try:
            return self.get(path)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def create(self, path: str, body: Any, **query: str) -> Any:
        """Create an object; fields that the server does not know are refused."""
        return self.call("POST", path, body, fieldValidation="Strict", **query)

    def merge(self, path: str, body: Any) -> Any:
        """Change parts of an object."""
        return self.call("PATCH", path, body, "application/merge-patch+json", fieldValidation="Strict")

    def apply(self, path: str, body: Any, *, dry_run: bool = False) -> Any:
        """Apply an object on the server's side, as a whole of its own."""
        query = {"fieldManager": "tests", "force": "true", "fieldValidation": "Strict"}
        query |= {"dryRun": "All"} if dry_run else {}
        return self.call("PATCH", path, body, "application/apply-patch+yaml", **query)

    def delete(self, path: str, body: Any = None) -> Any:
        """Delete an object, or all of a list."""
        return self.call("DELETE", path, body)

    def clear(self, path: str) -> None:
        """Delete whatever a list holds; what goes by itself in the meantime is gone as well."""
        for name in self.names(path):
            try:
                self.delete(f"{path}/{name}", {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
            except Refused as error:
                if error.status != 404:
                    raise


@dataclass
class Cluster:
    """The running cluster and access to it."""

    folder: Path
    tools: RealTools
    talosctl: Path
    servers: list[Server] = field(default_factory=list)
    port: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.authority = trustme.CA(organization_name="kubernetes")
        self.ca = self.folder / "ca.pem"

    @property
    def url(self) -> str:
        """Address of the API server."""
        return f"https://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End all servers, the last one first."""
        for server in reversed(self.servers):
            server.stop()
        self.servers.clear()

    def _start(self) -> None:
        self._write_files()
        for attempt in range(5):
            etcd, self.port = free_port(), free_port()
            self.servers += [self._etcd(etcd, free_port()), self._api_server(etcd)]
            if self._ready(last=attempt == 4):
                break
            self.stop()  # another program has taken one of the ports in the meantime
        self.servers += [self._controller_manager(), self._scheduler()]
        # It comes from a controller: its being there says that these run.
        api = self.api()
        wait_for("default service account", lambda: api.find("/api/v1/namespaces/default/serviceaccounts/default"))

    def _ready(self, *, last: bool) -> bool:
        api = self.api()
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if ended := next((server for server in self.servers if server.ended), None):
                assert not last, f"{ended.name} ended:\n{ended.tail()}"
                return False
            with contextlib.suppress(requests.RequestException):
                api.session.get(f"{self.url}/readyz", timeout=5).raise_for_status()
                return True
            time.sleep(0.2)
        raise AssertionError(f"the API server is not ready after {_PATIENCE:.0f} s:\n{self.servers[-1].tail()}")

    def _write_files(self) -> None:
        self.authority.cert_pem.write_to_path(self.ca)
        self._write("ca.key", self.authority.private_key_pem.bytes())
        issued = self.authority.issue_cert(
            "127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"
        )
        self._write("server.pem", b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        self._write("server.key", issued.private_key_pem.bytes())
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._write(
            "service-account.key",
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )
        self._write("admission.yaml", yaml.safe_dump(self._admission()).encode())

    def _write(self, name: str, data: bytes) -> Path:
        path = self.folder / name
        path.touch(mode=0o600)
        path.write_bytes(data)
        return path

    def _admission(self) -> dict[str, Any]:
        """Return the admission control that Talos configures, as its own tool writes it."""
        done = subprocess.run(
            [self.talosctl, "gen", "config", "x", "https://127.0.0.1:6443", "--output-types=controlplane", "-o", "-"],
            capture_output=True,
            text=True,
            check=True,
            env={"HOME": str(self.folder), "PATH": "/usr/bin:/bin"},
        )
        machine: dict[str, Any] = next(yaml.safe_load_all(done.stdout))
        plugins = machine["cluster"]["apiServer"]["admissionControl"]
        assert [plugin["name"] for plugin in plugins] == ["PodSecurity"]
        return {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}

    def _etcd(self, port: int, peers: int) -> Server:
        client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
        flags = {
            "name": "lab",
            "data-dir": self.folder / "etcd",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"lab={peer}",
            "unsafe-no-fsync": "true",
        }
        return Server("etcd", [self.tools.etcd, *_flags(flags)], self.folder)

    def _api_server(self, etcd: int) -> Server:
        flags = {
            "etcd-servers": f"http://127.0.0.1:{etcd}",
            "bind-address": "127.0.0.1",
            "secure-port": self.port,
            # Loopback is refused here; nobody reads this address.
            "advertise-address": "192.0.2.1",
            "endpoint-reconciler-type": "none",
            "client-ca-file": self.ca,
            "tls-cert-file": self.folder / "server.pem",
            "tls-private-key-file": self.folder / "server.key",
            "tls-min-version": "VersionTLS13",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": self.folder / "service-account.key",
            "service-account-signing-key-file": self.folder / "service-account.key",
            "service-cluster-ip-range": SERVICE_CIDR,
            "anonymous-auth": "false",
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "admission-control-config-file": self.folder / "admission.yaml",
            "allow-privileged": "true",
            "profiling": "false",
        }
        return Server("kube-apiserver", [self.tools.kube_apiserver, *_flags(flags)], self.folder)

    def _controller_manager(self) -> Server:
        kubeconfig = self._component_kubeconfig("system:kube-controller-manager")
        flags = {
            "kubeconfig": kubeconfig,
            "secure-port": 0,
            "leader-elect": "false",
            "use-service-account-credentials": "true",
            "root-ca-file": self.ca,
            "service-account-private-key-file": self.folder / "service-account.key",
            "cluster-signing-cert-file": self.ca,
            "cluster-signing-key-file": self.folder / "ca.key",
            "allocate-node-cidrs": "true",
            "cluster-cidr": POD_CIDR,
            "service-cluster-ip-range": SERVICE_CIDR,
            "configure-cloud-routes": "false",
            "node-monitor-period": "1s",
            "node-monitor-grace-period": f"{NODE_GRACE_SECONDS}s",
        }
        command = [self.tools.kube_controller_manager, *_flags(flags)]
        return Server("kube-controller-manager", command, self.folder)

    def _scheduler(self) -> Server:
        kubeconfig = self._component_kubeconfig("system:kube-scheduler")
        flags = {"kubeconfig": kubeconfig, "secure-port": 0, "leader-elect": "false"}
        return Server("kube-scheduler", [self.tools.kube_scheduler, *_flags(flags)], self.folder)

    def _component_kubeconfig(self, user: str) -> Path:
        return self._write(f"{user.replace(':', '-')}.kubeconfig", self.kubeconfig_of(user, "nobody").encode())

    def _credentials(self, user: str, group: str) -> tuple[Path, Path]:
        """Return certificate and key of a user, who is in one group."""
        stem = user.replace(":", "-")
        certificate, key = self.folder / f"{stem}.pem", self.folder / f"{stem}.key"
        if not certificate.exists():
            issued = self.authority.issue_cert("client.invalid", common_name=user, organization_name=group)
            self._write(key.name, issued.private_key_pem.bytes())
            self._write(certificate.name, b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        return certificate, key

    def _kubeconfig(self, user: Mapping[str, str], url: str = "") -> str:
        server = {"server": url or self.url, "certificate-authority-data": _data(self.ca)}
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "real", "cluster": server}],
                "users": [{"name": "caller", "user": dict(user)}],
                "contexts": [{"name": "real", "context": {"cluster": "real", "user": "caller"}}],
                "current-context": "real",
            }
        )

    def admin_kubeconfig(self, user: str = "admin", host: str = "127.0.0.1", port: int = 0) -> str:
        """Return a kubeconfig of an administrator that needs no other file."""
        return self.kubeconfig_of(user, "system:masters", f"https://{host}:{port or self.port}")

    def kubeconfig_of(self, user: str, group: str, url: str = "") -> str:
        """Return a kubeconfig of a user, who is in one group."""
        certificate, key = self._credentials(user, group)
        return self._kubeconfig({"client-certificate-data": _data(certificate), "client-key-data": _data(key)}, url)

    def account_kubeconfig(self, namespace: str, name: str) -> Path:
        """Return a file with a kubeconfig of a service account."""
        text = self._kubeconfig({"token": self.token(namespace, name)})
        return self._write(f"{namespace}-{name}.kubeconfig", text.encode())

    def _session(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False
        session.verify = str(self.ca)
        return session

    def tls(self) -> ssl.SSLContext:
        """Return what a client needs to trust the API server."""
        return ssl.create_default_context(cafile=str(self.ca))

    def user(self, name: str, group: str) -> Api:
        """Return a client of a user with a certificate."""
        session = self._session()
        certificate, key = self._credentials(name, group)
        session.cert = (str(certificate), str(key))
        return Api(self.url, session)

    def api(self) -> Api:
        """Return a client of the administrator."""
        return self.user("admin", "system:masters")

    def token(self, namespace: str, name: str) -> str:
        """Return a token of a service account, as its pods get one."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        return str(self.api().create(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"])

    def account(self, namespace: str, name: str) -> Api:
        """Return a client of a service account."""
        session = self._session()
        session.headers["Authorization"] = f"Bearer {self.token(namespace, name)}"
        return Api(self.url, session)


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def _flags(flags: Mapping[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in flags.items()]
