"""A session of the lab: all simulated servers in this process, and the environment that leads the engine to them."""

import fcntl
import importlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from . import factory
from .certs import Certificates, certificates
from .places import ROOT, Places
from .provider import Package, serve
from .tool_builds import ToolsMissing
from .tools import Tools
from .world import World

PACKAGES = ("azure", "alicloud", "talos", "kubernetes")
"""The modules of the simulated providers; each has a ``PACKAGE``."""

PASSPHRASE = "hybrid-talos-lab"  # noqa: S105 - documented, and protects nothing but fake secrets
"""What the secrets of Pulumi.dev.yaml are encrypted with."""

_REMOVED = ("ARM_", "AZURE_", "ALIBABA_CLOUD_", "ALICLOUD_", "OSS_", "AWS_", "PULUMI_K8S_")
"""Prefixes of variables that could lead a client to a real cloud or cluster."""

_REMOVED_NAMES = ("KUBECONFIG", "TALOSCONFIG", "PULUMI_ACCESS_TOKEN", "IDENTITY_ENDPOINT", "IDENTITY_HEADER")

# Below the range that Linux takes ports of outgoing connections from (net.ipv4.ip_local_port_range).
_PORTS = range(20000, 32000)
_TRIES = 50


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def environment(places: Places, tools: Tools, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of child processes: the tools and the lab's state, and no way to a real cloud."""
    given = os.environ if environ is None else environ
    env = {name: value for name, value in given.items() if not name.startswith(_REMOVED) and name not in _REMOVED_NAMES}
    python = Path(sys.executable).parent
    places.state.mkdir(parents=True, exist_ok=True)
    env |= {
        # The language host that can be built from source runs the first python3 on PATH, whatever Pulumi.yaml says.
        "PATH": os.pathsep.join([str(python), *map(str, tools.folders), env.get("PATH", os.defpath)]),
        "PULUMI_HOME": str(places.home),
        "PULUMI_BACKEND_URL": f"file://{places.state}",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        # All providers are attached or on PATH: a look for others on the network can only hang.
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        # Of nothing there: an ambient kubeconfig must never be used.
        "KUBECONFIG": str(places.lab / "no-kubeconfig"),
        "TALOSCONFIG": str(places.lab / "no-talosconfig"),
        "HYBRID_TALOS_TALOSCTL": str(tools.talosctl.path),
    }
    if "PULUMI_CONFIG_PASSPHRASE" not in env and "PULUMI_CONFIG_PASSPHRASE_FILE" not in env:
        env["PULUMI_CONFIG_PASSPHRASE"] = PASSPHRASE
    if sys.prefix != sys.base_prefix:
        env["VIRTUAL_ENV"] = sys.prefix
    return env


@contextmanager
def exclusive(places: Places, what: str, say: Callable[[str], None] = _say) -> Iterator[None]:
    """Hold the lab for one command that works on the clouds; wait for another that holds it, and say so."""
    places.lab.mkdir(parents=True, exist_ok=True)
    with places.lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            say(f"lab: waiting for another command on {places.lab} ({file.read().strip() or 'just starting'})")
            fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(0)
        file.write(f"{what}, process {os.getpid()}")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


class Ports:
    """Remembers the ports of servers whose addresses stand in state, so that they are the same in every run."""

    def __init__(self, path: Path, say: Callable[[str], None] = _say) -> None:
        self._path = path
        self._say = say
        try:
            known = json.loads(path.read_text())
            self._known = {str(k): int(v) for k, v in known.items()} if isinstance(known, dict) else {}
        except (OSError, ValueError, TypeError):
            self._known = {}

    def bind(self, name: str, start: Callable[[int], object]) -> int:
        """Start a server on its remembered port, or on a new one when that is taken; return the port."""
        remembered = self._known.get(name)
        others = {port for other, port in self._known.items() if other != name}
        fresh = (port for port in random.sample(_PORTS, _TRIES) if port not in others)
        for port in [] if remembered is None else [remembered]:
            if self._try(start, port):
                return port
            self._say(f"lab: port {port} of {name} is taken by another program; its addresses in plans will change")
        for port in fresh:
            if self._try(start, port):
                self._known[name] = port
                draft = self._path.with_name(f".{self._path.name}")
                draft.write_text(json.dumps(self._known, indent=1, sort_keys=True))
                draft.replace(self._path)
                return port
        raise OSError(f"no free port for {name} on 127.0.0.1")

    @staticmethod
    def _try(start: Callable[[int], object], port: int) -> bool:
        try:
            start(port)
        except OSError:
            return False
        return True


def packages(names: Sequence[str] = PACKAGES) -> list[Package]:
    """Return what the simulated providers serve."""
    found: list[Package] = []
    for name in names:
        package = importlib.import_module(f"lab.{name}").PACKAGE
        if not isinstance(package, Package):
            raise TypeError(f"lab.{name}.PACKAGE is no Package")
        found.append(package)
    return found


class Session:
    """All simulated servers, from ``with`` to its end.

    ``simulated`` are the providers to attach: one that is left out is looked for on PATH, as outside the lab.
    ``environment`` is for child processes. ``factory_url``, ``arm_url``, ``blob_url`` (with ``{account}`` in it),
    ``oss_url``, ``rpc_url`` (ECS and Auto Scaling), ``kubernetes_url`` and ``nameserver`` are what a configuration must
    name in the place of the real services.
    """

    def __init__(
        self,
        places: Places,
        tools: Tools,
        say: Callable[[str], None] = _say,
        simulated: Sequence[str] = PACKAGES,
    ) -> None:
        self.places = places
        self.simulated = tuple(simulated)
        self.tools = tools
        self.factory_url = self.arm_url = self.blob_url = self.oss_url = self.rpc_url = ""
        self.kubernetes_url = self.nameserver = ""
        self.environment: dict[str, str] = {}
        self._say = say
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _start(self) -> None:
        from .alicloud import OssServer, RpcServer  # noqa: PLC0415 - heavy, and of no use to the other commands
        from .azure import ArmServer, BlobServer, IdentityServer  # noqa: PLC0415
        from .dns_server import NameServer  # noqa: PLC0415
        from .kubernetes.api_server import ApiServer  # noqa: PLC0415
        from .talos import fleet  # noqa: PLC0415

        self.places.lab.mkdir(parents=True, exist_ok=True)
        # The simulated Talos provider runs in this process and asks here for talosctl.
        os.environ["HYBRID_TALOS_TALOSCTL"] = str(self.tools.talosctl.path)
        self.world = World(self.places.lab)
        self._stack.callback(self.world.close)
        trust = certificates(self.places.certificates)
        ports = Ports(self.places.ports, self._say)

        def start_factory(port: int) -> None:
            # Behind a redirect, as the public one, so that a download can be gone on with.
            real_size = os.environ.get("HYBRID_TALOS_LAB_IMAGES") == "real"
            self.factory_url, stop = factory.serve(self.places.factory, port, redirect=True, real_size=real_size)
            self._stack.callback(stop)

        ports.bind("factory", start_factory)
        self._open_azurite()
        blobs = BlobServer(self.world)
        ports.bind("blob", lambda port: blobs.start(port, trust.server_context()))
        self._stack.callback(blobs.stop)
        self.blob_url = blobs.account_url("{account}")
        arm = ArmServer(self.world, blobs)
        ports.bind("arm", lambda port: arm.start(port, trust.server_context()))
        self._stack.callback(arm.stop)
        self.arm_url = arm.url
        identity = IdentityServer(self.world)
        identity.start()
        self._stack.callback(identity.stop)
        oss = OssServer(self.world)
        ports.bind("oss", oss.start)
        self._stack.callback(oss.stop)
        self.oss_url = oss.url
        rpc = RpcServer(self.world)
        ports.bind("rpc", rpc.start)
        self._stack.callback(rpc.stop)
        self.rpc_url = rpc.url
        apis = ApiServer(self.world)
        ports.bind("kubernetes", apis.open)
        self._stack.callback(apis.stop)
        self.kubernetes_url = apis.url
        names = NameServer(self.world)
        ports.bind("names", names.start)
        self._stack.callback(names.stop)
        self.nameserver = names.address

        self._fleet = fleet.attach(self.world, self.places.lab / "fleet")
        self._stack.callback(fleet.detach, self.world)

        grpc_ports, stop = serve(packages(self.simulated), self.world)
        self._stack.callback(stop)
        debug = ",".join(f"{name}:{port}" for name, port in sorted(grpc_ports.items()))
        self.environment = {
            **environment(self.places, self.tools),
            "PULUMI_DEBUG_PROVIDERS": debug,
            **identity.environment,
            **self._credentials(trust),
        }

    def _open_azurite(self) -> None:
        """Let Azurite keep the page blobs, in a lab whose blobs it keeps."""
        if not self.places.azurite.is_dir():
            return
        from .azure import blob_store  # noqa: PLC0415
        from .azure.azurite_store import AzuriteStore  # noqa: PLC0415
        from .azurite import azurite  # noqa: PLC0415
        from .node_tools import provide  # noqa: PLC0415

        try:
            tools = provide(self._say)
        except ToolsMissing as missing:
            raise ToolsMissing(f"the page blobs of {self.places.lab} are in Azurite: {missing}") from None
        server = self._stack.enter_context(azurite(tools, folder=self.places.azurite))
        blob_store.keep_in(self.world, AzuriteStore(server))
        self._stack.callback(blob_store.keep_in, self.world, None)

    def answer_for(self, machines: Mapping[str, Mapping[str, object] | None]) -> dict[str, str]:
        """Let machines at these addresses, with these disks, answer to talosctl; return where, by address."""
        return self._fleet.hold(machines)

    def kubernetes_of(self, answering: Mapping[str, str]) -> str:
        """Return where the Kubernetes API of a stack is reached: that of its machines, if it has any."""
        return self._fleet.kubernetes if answering else self.kubernetes_url

    def _credentials(self, trust: Certificates) -> dict[str, str]:
        """Return credentials that only the lab's servers take, and what lets real clients trust those servers."""
        bundle = str(trust.bundle)
        nobody = "00000000-0000-0000-0000-000000000000"
        direct = "127.0.0.1,localhost"
        return {
            "ARM_USE_MSI": "true",
            "ARM_SUBSCRIPTION_ID": nobody,
            "ARM_TENANT_ID": nobody,
            "ALIBABA_CLOUD_ACCESS_KEY_ID": "LTAIlab",
            "ALIBABA_CLOUD_ACCESS_KEY_SECRET": "lab",
            "REQUESTS_CA_BUNDLE": bundle,
            "SSL_CERT_FILE": bundle,
            "NO_PROXY": direct,
            "no_proxy": direct,
        }


__all__ = ["PASSPHRASE", "ROOT", "Ports", "Session", "environment", "exclusive", "packages"]
