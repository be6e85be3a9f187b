"""Runs a small program under Pulumi's mocks and keeps what it registers, options and secret marks included."""

import asyncio
import logging
import string
from collections.abc import Callable
from typing import Any

import pulumi
from google.protobuf.json_format import MessageToDict
from pulumi.runtime import mocks
from pulumi.runtime.sync_await import _ensure_event_loop

SECRET = "1b47061264138c4ac30d75fd1eb44270"
SIGNATURE = "4dabf18193072939515e22adb298388d"


def generated_worker(contract: str = "1.13") -> str:
    """Return a worker configuration of the form that Talos generates, with made-up secrets."""
    hostname = "---\napiVersion: v1alpha1\nkind: HostnameConfig\nauto: stable\n" if contract >= "1.12" else ""
    features = "" if contract >= "1.12" else "    stableHostname: true\n"
    return f"""version: v1alpha1
debug: false
persist: true
machine:
  type: worker
  token: marker.machinetoken00
  ca: {{crt: bWFya2VyLWNh, key: ""}}
  certSANs: []
  kubelet:
    image: ghcr.io/siderolabs/kubelet:v1.36.3
    defaultRuntimeSeccompProfileEnabled: true
  install: {{disk: /dev/sda, image: "ghcr.io/siderolabs/installer:v1.13.0", wipe: false}}
  features:
    diskQuotaSupport: true
{features}cluster:
  id: bWFya2VyLWlk
  secret: bWFya2VyLXNlY3JldA==
  controlPlane: {{endpoint: "https://k8s.demo.example.com:6443"}}
  network: {{dnsDomain: cluster.local, podSubnets: [10.244.0.0/16], serviceSubnets: [10.96.0.0/16]}}
  token: marker.clustertoken00
  ca: {{crt: bWFya2VyLWNh, key: ""}}
{hostname}"""


MESH = {
    "config_patch": "machine:\n  nodeAnnotations:\n    kilo.squat.ai/location: azure-westeurope\n",
    "annotations": {"kilo.squat.ai/location": "azure-westeurope"},
    "firewall_port": 51820,
    "firewall_sources": ["203.0.113.7/32", "198.51.100.0/24"],
    "internal_cidrs": ["192.0.2.0/24", "10.244.0.0/16", "10.4.0.0/16"],
}


class Registered:
    """One registered resource."""

    def __init__(self, request: Any, inputs: dict[str, Any]) -> None:
        self.type: str = request.type
        self.name: str = request.name
        self.parent: str = request.parent
        self.provider: str = request.provider
        self.inputs = inputs
        self.raw: dict[str, Any] = MessageToDict(request.object)
        self.ignored = list(request.ignoreChanges)
        self.secret_outputs = list(request.additionalSecretOutputs)
        self.dependencies = list(request.dependencies)
        self.retained = bool(request.retainOnDelete)


class _Monitor(mocks.MockMonitor):
    def __init__(self, recorder: "Recorder") -> None:
        super().__init__(recorder)
        self.recorder = recorder

    def RegisterResource(self, request: Any) -> Any:
        answer = super().RegisterResource(request)
        if request.type != "pulumi:pulumi:Stack":
            self.recorder.found.append(Registered(request, self.recorder.last.pop(request.name)))
        return answer

    def RegisterResourceOutputs(self, request: Any) -> Any:
        self.recorder.outputs[request.urn] = set(MessageToDict(request.outputs))
        return super().RegisterResourceOutputs(request)


class Recorder(mocks.Mocks):
    """Answers as a cloud would, with names and ids made from the logical names."""

    def __init__(self) -> None:
        self.found: list[Registered] = []
        self.last: dict[str, dict[str, Any]] = {}
        self.outputs: dict[str, set[str]] = {}
        self.values: dict[str, Any] = {}

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        self.last[args.name] = plain(args.inputs)
        extra = {"ipAddress": "203.0.113.99", "snatTableIds": "stb-1"} if args.custom else {}
        if args.typ == "azure-native:managedidentity:UserAssignedIdentity":
            extra |= {"principalId": f"{args.name}-principal", "clientId": f"{args.name}-client"}
        if args.typ in ("alicloud:ims/oidcProvider:OidcProvider", "alicloud:ram/role:Role"):
            extra |= {"arn": f"{args.name}-arn"}
        return f"{args.name}-id", {**args.inputs, "name": f"{args.name}a1b2c3d4", **extra}

    def call(self, args: mocks.MockCallArgs) -> tuple[dict[str, Any], None]:
        raise AssertionError(f"a pool looks nothing up, but called {args.token}")

    def one(self, suffix: str) -> Registered:
        """Return the only resource whose name ends in ``suffix``."""
        matching = [resource for resource in self.found if resource.name.endswith(suffix)]
        assert len(matching) == 1, f"{suffix}: {[resource.name for resource in self.found]}"
        return matching[0]

    def types(self) -> list[str]:
        """Return the types of everything that was registered, sorted."""
        return sorted(resource.type for resource in self.found)


def run(program: Callable[[], dict[str, pulumi.Output[Any]] | None], preview: bool = False) -> Recorder:
    """Run ``program`` to its end; what it returns is in `values` afterwards."""
    recorder = Recorder()
    # Errors in applies are raised again at the end; the copy in the log would only be noise.
    quiet = logging.getLogger("pulumi.quiet")
    mocks.set_mocks(recorder, preview=preview, monitor=_Monitor(recorder), logger=quiet)

    @pulumi.runtime.test
    def inside() -> Any:
        outputs = program() or {}
        return pulumi.Output.all(**outputs).apply(recorder.values.update)

    # Children of a failed apply keep its error too, and asyncio would print each of them when it is collected.
    _ensure_event_loop().set_exception_handler(lambda _loop, _context: None)
    inside()
    return recorder


def plain(value: Any) -> Any:
    """Return a value without the marks of secrets, which the mocks leave in place."""
    if isinstance(value, dict):
        return plain(value["value"]) if SIGNATURE in value else {key: plain(nested) for key, nested in value.items()}
    return [plain(nested) for nested in value] if isinstance(value, list) else value


def is_secret(raw: Any) -> bool:
    """Return whether a value went out with the engine's mark of a secret."""
    return isinstance(raw, dict) and raw.get(SIGNATURE) == SECRET


def unknown() -> pulumi.Output[Any]:
    """Return a value that is not known yet, as in a preview."""
    return pulumi.Output(set(), _resolved(None), _resolved(False))


def _resolved(value: Any) -> "asyncio.Future[Any]":
    future = asyncio.get_event_loop().create_future()
    future.set_result(value)
    return future


def noise(length: int) -> str:
    """Return text that hardly gets smaller when it is compressed; the same every time."""
    state, text = 1, []
    letters = string.ascii_letters + string.digits
    for _ in range(length):
        state = state * 6364136223846793005 + 1442695040888963407 & (2**64 - 1)
        text.append(letters[(state >> 33) % len(letters)])
    return "".join(text)
