"""One evaluation of a program under Pulumi's mocks, in a process of its own.

``components`` evaluates the hybrid stack as `__main__` does, and can write down every resource that it declares.
``raw`` declares just those resources through the same SDK classes, with their inputs as literals: the least that any
program could do for the same plan.
"""

import functools
import json
import re
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, get_origin

import pulumi
import yaml
from pulumi import _types as sdk_types
from pulumi import dynamic
from pulumi.runtime import mocks, rpc

ROOT = Path(__file__).resolve().parents[1]

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: demo, cluster: {server: "https://k8s.demo.example.com:6443", certificate-authority-data: QQ==}}]
contexts: [{name: admin@demo, context: {cluster: demo, user: admin}}]
current-context: admin@demo
users: [{name: admin, user: {client-certificate-data: QQ==, client-key-data: QQ==}}]
"""
WORKER = "version: v1alpha1\nmachine:\n  type: worker\n  token: aaaaaa.bbbbbbbbbbbbbbbb\ncluster: {}\n"


@functools.cache
def own_outputs() -> dict[str, dict[str, Any]]:
    """Return the outputs of each type of the library's own custom resources, with their types, as the classes say."""
    return {
        f"pulumi-python:{cls._resource_type_name}": sdk_types.resource_types(cls)
        for cls in dynamic.Resource.__subclasses__()
    }


def answer(name: str, output: str, type_: Any) -> Any:
    """Return a value of the type that an output of a resource is declared with."""
    kind = sdk_types.unwrap_optional_type(type_)
    kind = get_origin(kind) or kind
    if kind in (bool, int, float):
        return kind(1)
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return {}
    if isinstance(kind, type) and issubclass(kind, Sequence) and not issubclass(kind, str):
        return []
    return f"{name}-{output}"


class Recorder(mocks.Mocks):
    """Answers as the providers would, just enough for the program to go on, and remembers what was declared."""

    def __init__(self) -> None:
        self.declared: list[tuple[str, str, dict[str, Any]]] = []

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        self.declared.append((args.typ, args.name, args.inputs))
        outputs = {"name": args.name, **args.inputs}
        kind = args.typ.rsplit(":", 1)[-1]
        if kind == "Secrets":
            outputs["machineSecrets"] = {"cluster": {"id": "id"}, "certs": {"k8s": {"cert": "Y2VydA==", "key": "a2V5"}}}
            outputs["clientConfiguration"] = {"caCertificate": "a", "clientCertificate": "b", "clientKey": "c"}
        elif kind == "Kubeconfig":
            outputs["kubeconfigRaw"] = KUBECONFIG
        elif kind == "StorageAccount":
            outputs["primaryEndpoints"] = {"blob": "https://account.blob.core.windows.net/"}
        # The uploads report what they found in the image.
        outputs |= {"sha256": "0" * 64, "disk_gib": 5}
        for output, type_ in own_outputs().get(args.typ, {}).items():
            outputs.setdefault(output, answer(args.name, output, type_))
        return f"{args.name}-id", outputs

    def call(self, args: mocks.MockCallArgs) -> dict[str, Any]:
        if args.token == "talos:machine/getConfiguration:getConfiguration":
            return {"machineConfiguration": WORKER}
        return {"talosConfig": "context: demo\n"}


def settings_with_pools(pools: int, changed: str = "") -> dict[str, Any]:
    """Return the example's configuration with that many pools in each cloud; ``changed`` of Azure has another label."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())["config"]
    settings = config["hybrid-talos:settings"]
    settings["cluster"]["podCidr"] = "10.128.0.0/9"
    azure, aliyun = settings["azure"], settings["aliyun"]
    first, second = azure["pools"][0], aliyun["pools"][0]
    azure["pools"] = [{**first, "name": f"w{n:03}", "subnetCidr": f"10.2.{n}.0/24", "maxSize": 5} for n in range(pools)]
    aliyun["pools"] = [
        {**second, "name": f"w{n:03}", "zones": {"cn-hangzhou-h": f"10.3.{n}.0/24"}} for n in range(pools)
    ]
    for pool in azure["pools"]:
        if pool["name"] == changed:
            pool["labels"] = {**pool.get("labels", {}), "example.com/changed": "yes"}
    return config


def components(pools: int, changed: str = "") -> None:
    """Declare the hybrid stack."""
    from stacks import COMPOSITIONS
    from stacks.secrets import Secrets
    from stacks.settings import load

    config = settings_with_pools(pools, changed)
    settings = load("hybrid", config["hybrid-talos:settings"])
    secret = pulumi.Output.secret("secret")
    outputs = COMPOSITIONS["hybrid"](settings, Secrets(secret, secret))
    for name, value in outputs.exports().items():
        pulumi.export(name, value)


def raw(recorded: Path) -> None:
    """Declare recorded resources through the SDK's classes."""
    for module, cls, name, arguments in json.loads(recorded.read_text()):
        getattr(import_module(module), cls)(
            *([name] if module != "pulumi" else arguments.pop("_", [name])), **arguments
        )


def as_call(token: str, name: str, inputs: dict[str, Any]) -> tuple[str, str, str, dict[str, Any]]:
    """Return how a program declares a resource through its SDK class: module, class, name, keyword arguments."""
    from lab import sdk_schema

    if token.startswith("pulumi:providers:"):
        return "pulumi", "ProviderResource", name, {"_": [token.rsplit(":", 1)[-1], name, inputs]}
    schema = sdk_schema.resource(token) if token.split(":", maxsplit=1)[0] in sdk_schema.MODULES else None
    if schema is None:
        return "pulumi", "CustomResource", name, {"_": [token, name, inputs]}
    python = {camel: snake for snake, camel in sdk_types.input_type_py_to_pulumi_names(schema.args).items()}
    arguments = {python[key]: value for key, value in inputs.items() if key in python}
    return schema.cls.__module__, schema.cls.__name__, name, arguments


def plain(value: Any) -> Any:
    """Return recorded inputs as JSON values, without secret marks."""
    if isinstance(value, dict):
        if rpc._special_sig_key in value and "value" in value:
            return plain(value["value"])
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def main(mode: str, pools: str, recorded: str = "", changed: str = "") -> None:
    """Evaluate once; print the seconds that the declarations took as the last line."""
    recorder = Recorder()
    mocks.set_mocks(recorder, project="hybrid-talos", stack="bench", preview=False)
    start = time.perf_counter()

    @pulumi.runtime.test
    def evaluate() -> None:
        raw(Path(recorded)) if mode == "raw" else components(int(pools), changed)

    evaluate()
    seconds = time.perf_counter() - start
    custom = [
        (typ, name, plain(inputs))
        for typ, name, inputs in recorder.declared
        if not re.match(r"hybrid-talos:|pulumi:pulumi:", typ)
    ]
    if mode == "record":
        Path(recorded).write_text(json.dumps([as_call(*declared) for declared in custom]))
    print(json.dumps({"seconds": seconds, "resources": len(custom)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
