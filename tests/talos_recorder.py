"""Runs a program on the Talos components under mocks, and keeps what the engine and the provider would be told."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pulumi
from pulumi.runtime import MockCallArgs, MockResourceArgs, Mocks

SECRET = "4dabf18193072939515e22adb298388d"
"""Key by which the wire format marks a wrapped value."""

WORKER = """\
version: v1alpha1
machine:
  type: worker
  token: machine.token
---
apiVersion: v1alpha1
kind: HostnameConfig
auto: stable
"""
OLD_WORKER = WORKER.split("---", maxsplit=1)[0]
CONTROL_PLANE = WORKER.replace("type: worker", "type: controlplane")
KUBECONFIG = """\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: Y2E=
    server: https://k8s.demo.example.com:6443
  name: demo
contexts: []
kind: Config
users: []
"""
PAIR = {"cert": "Y2VydA==", "key": "a2V5"}
SECRETS = {
    "machineSecrets": {
        "certs": {"etcd": PAIR, "k8s": PAIR, "k8sAggregator": PAIR, "k8sServiceaccount": {"key": "a2V5"}, "os": PAIR},
        "cluster": {"id": "cluster-id", "secret": "cluster-secret"},
        "secrets": {"bootstrapToken": "boot.strap", "secretboxEncryptionSecret": "box"},
        "trustdinfo": {"token": "trust.token"},
    },
    "clientConfiguration": {"caCertificate": "Y2E=", "clientCertificate": "Y2VydA==", "clientKey": "a2V5"},
}
TYPES = {
    "secrets": "talos:machine/secrets:Secrets",
    "apply": "talos:machine/configurationApply:ConfigurationApply",
    "birth": "pulumi-python:dynamic/cluster:BirthMember",
    "bootstrap": "pulumi-python:dynamic/cluster:EtcdBootstrap",
    "kubeconfig": "talos:cluster/kubeconfig:Kubeconfig",
    "ready": "pulumi-python:dynamic/cluster:KubernetesReady",
    "membership": "pulumi-python:dynamic/cluster:Membership",
    "talos": "pulumi-python:dynamic/cluster:TalosUpgrade",
    "kubernetes": "pulumi-python:dynamic/cluster:KubernetesUpgrade",
    "member": "pulumi-python:dynamic/cluster:Member",
    "health": "pulumi-python:dynamic/cluster:ClusterHealth",
}


def plain(value: Any) -> Any:
    """Return a value of the wire without the marks of secrets."""
    if isinstance(value, Mapping):
        if SECRET in value:
            return plain(value["value"])
        return {key: plain(nested) for key, nested in value.items()}
    if isinstance(value, list):
        return [plain(nested) for nested in value]
    return value


def is_secret(value: Any) -> bool:
    """Return whether a value of the wire is marked as secret as a whole."""
    return isinstance(value, Mapping) and SECRET in value


class Recorder(Mocks):
    """A Talos provider that answers with fixed values and remembers what it was asked."""

    def __init__(self, *, first_preview: bool = False, recorded_contract: str | None = None) -> None:
        self.first_preview = first_preview
        self.recorded_contract = recorded_contract
        self.resources: dict[str, MockResourceArgs] = {}
        self.calls: list[MockCallArgs] = []
        self.options: dict[str, pulumi.ResourceOptions] = {}
        self.order: list[str] = []

    def new_resource(self, args: MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        self.resources[args.name] = args
        self.order.append(args.name)
        if self.first_preview:
            return None, {}
        outputs = dict(plain(args.inputs))
        if args.typ == TYPES["secrets"]:
            outputs |= self.secrets()
            if self.recorded_contract:
                outputs["talosVersion"] = self.recorded_contract
        if args.typ == TYPES["kubeconfig"]:
            outputs["kubeconfigRaw"] = KUBECONFIG
        return f"{args.name}-id", outputs

    def call(self, args: MockCallArgs) -> dict[str, Any]:
        self.calls.append(args)
        if args.token == "talos:client/getConfiguration:getConfiguration":
            return {"talosConfig": "context: demo\n"}
        worker = plain(args.args)["machineType"] == "worker"
        return {"machineConfiguration": WORKER if worker else CONTROL_PLANE}

    def secrets(self) -> dict[str, Any]:
        return SECRETS

    def watch(self) -> pulumi.ResourceOptions:
        """Return options for a component that let this see the options of all its children."""

        def note(args: pulumi.ResourceTransformationArgs) -> None:
            self.options[args.name] = args.opts

        return pulumi.ResourceOptions(transformations=[note])

    def of_type(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return the inputs, with the marks of secrets, of all resources of a kind, by name."""
        return {name: args.inputs for name, args in self.resources.items() if args.typ == TYPES[kind]}

    def depends_on(self, name: str) -> list[str]:
        """Return the names of the resources that ``name`` explicitly waits for."""
        listed = self.options[name].depends_on or []
        return [resource._name for resource in listed]  # noqa: SLF001 - there is no public way to a resource's name


def run(recorder: Recorder, build: Callable[[], Mapping[str, Any] | None]) -> dict[str, tuple[Any, bool]]:
    """Run a program to its end and return each of the outputs that ``build`` returns, and whether it is secret.

    Nothing is still under way afterwards, so what is not recorded was not registered.
    """
    found: dict[str, tuple[Any, bool]] = {}

    async def wait(outputs: Mapping[str, pulumi.Output[Any]]) -> None:
        for key, output in outputs.items():
            found[key] = (await output.future(), await output.is_secret())

    @pulumi.runtime.test
    def program() -> pulumi.Output[Any]:
        outputs = build() or {}
        return pulumi.Output.from_input(asyncio.ensure_future(wait(outputs)))

    pulumi.runtime.set_mocks(recorder, preview=recorder.first_preview)
    program()
    return found
