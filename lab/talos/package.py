"""The talos package: what pulumiverse-talos 0.8.1 does, on simulated machines.

It wraps terraform-provider-talos v0.11.0 (pulumiverse/pulumi-talos provider/go.mod); the sources named below are that
provider's. Like any provider bridged from Terraform it leaves secret marks to the engine and the SDK.
"""
# ruff: noqa: D102 - the methods of a kind are described at lab.provider.Kind.

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import yaml

from lab.provider import Call, Kind, Package
from lab.sdk_schema import UNKNOWN, Problem
from lab.wire import has_unknown
from lab.world import CloudError, World

from . import fleet, machines, pki, renewal, talosctl
from .bundles import bundle_of_secrets, secrets_of_bundle
from .invokes import (
    client_of,
    contract_problem,
    fetch_kubeconfig,
    get_client_configuration,
    get_health,
    get_kubeconfig,
    get_machine_configuration,
    refused,
    with_endpoint,
)

_DURATION = re.compile(r"(\d+(\.\d+)?(ns|us|µs|ms|s|m|h))+")
_APPLY_MODES = ("auto", "reboot", "no_reboot", "staged", "staged_if_needing_reboot")
_RENEWAL = "720h"
_RESET_DEFAULTS = {"reset": False, "graceful": True, "reboot": False}


def _one_of(inputs: Mapping[str, Any], name: str, what: str) -> Iterable[Problem]:
    given = [key for key in (name, f"{name}Wo") if inputs.get(key) is not None]
    if len(given) != 1:
        yield Problem(name, f"{what}: exactly one of {name} or {name}Wo must be set")


class _Lasting(Kind):
    """A resource whose Read and Delete are empty in the provider: no drift is seen, removal does nothing."""

    def read(self, call: Call, id: str, state: dict[str, Any]) -> dict[str, Any] | None:
        return state

    def delete(self, call: Call, id: str, state: dict[str, Any]) -> None:
        return


class Secrets(_Lasting):
    """``machine.Secrets`` (talos_machine_secrets_resource.go)."""

    token = "talos:machine/secrets:Secrets"

    def check(self, call: Call, inputs: dict[str, Any]) -> Iterable[Problem]:
        return contract_problem(inputs.get("talosVersion"), "talosVersion")

    def replaces(self, call: Call, old: dict[str, Any], new: dict[str, Any], changed: Iterable[str]) -> list[str]:
        # Going back behind the release that the secrets were made for makes new ones; going forward keeps them.
        before, after = _release(old.get("talosVersion")), _release(new.get("talosVersion"))
        return ["talosVersion"] if after < before and "talosVersion" in changed else []

    def preview(self, call: Call, inputs: dict[str, Any], outputs: frozenset[str]) -> dict[str, Any]:
        return {name: UNKNOWN for name in outputs} | {"talosVersion": _version(inputs)}

    def create(self, call: Call, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        version = _version(inputs)
        try:
            bundle = talosctl.gen_secrets(version)
            client = talosctl.gen_client(bundle)
        except talosctl.TalosctlError as error:
            raise refused("failed to generate secrets bundle", error) from None
        return _SECRETS_ID, _secrets(version, secrets_of_bundle(bundle), client)

    def imported(self, call: Call, id: str) -> tuple[str, dict[str, Any] | None]:
        # By the path of a secrets.yaml; it says nothing of a release, so the provider takes one for granted
        # (ImportState).
        try:
            bundle = yaml.safe_load(Path(id).read_text())
            secrets = secrets_of_bundle(bundle)
            client = talosctl.gen_client(bundle)
        except OSError as error:
            raise CloudError("InvalidArgument", f"failed to import state: {error.strerror}") from None
        except (yaml.YAMLError, KeyError, TypeError):
            raise CloudError("InvalidArgument", "failed to unmarshal machine secrets") from None
        except talosctl.TalosctlError as error:
            raise refused("failed to convert secrets bundle to machine secrets", error) from None
        old = bool(secrets["secrets"].get("aescbcEncryptionSecret"))
        return _SECRETS_ID, _secrets("v1.2" if old else "v1.3", secrets, client)

    def prior(self, call: Call, inputs: dict[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
        return renewal.planned(inputs, _CLIENT if renewal.talos_client_ends(state) else ())

    def preview_update(self, call: Call, state: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
        renewed = renewal.unknown(_CLIENT if renewal.talos_client_ends(state) else ())
        return state | {"talosVersion": _version(inputs)} | renewed

    def update(self, call: Call, id: str, state: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
        if not renewal.talos_client_ends(state):
            return state | {"talosVersion": _version(inputs)}
        client = talosctl.gen_client(bundle_of_secrets(state["machineSecrets"]))
        return state | {
            "talosVersion": _version(inputs),
            "clientConfiguration": {
                "caCertificate": client["ca"],
                "clientCertificate": client["crt"],
                "clientKey": client["key"],
            },
        }


_CLIENT = ("clientConfiguration",)


_SECRETS_ID = "machine_secrets"


def _secrets(version: str, secrets: Mapping[str, Any], client: Mapping[str, str]) -> dict[str, Any]:
    return {
        "talosVersion": version,
        "machineSecrets": dict(secrets),
        "clientConfiguration": {
            "caCertificate": client["ca"],
            "clientCertificate": client["crt"],
            "clientKey": client["key"],
        },
    }


def _version(inputs: Mapping[str, Any]) -> Any:
    return inputs.get("talosVersion", talosctl.DEFAULT_TALOS_CONTRACT)


def _release(version: Any) -> tuple[int, ...]:
    text = version if isinstance(version, str) else talosctl.DEFAULT_TALOS_CONTRACT
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


class ConfigurationApply(_Lasting):
    """``machine.ConfigurationApply`` (talos_machine_configuration_apply_resource.go)."""

    token = "talos:machine/configurationApply:ConfigurationApply"

    def check(self, call: Call, inputs: dict[str, Any]) -> Iterable[Problem]:
        yield from _one_of(inputs, "machineConfigurationInput", "Missing or conflicting machine configuration input")
        yield from _one_of(inputs, "clientConfiguration", "Missing or conflicting client configuration")
        mode = inputs.get("applyMode")
        if isinstance(mode, str) and mode not in _APPLY_MODES:
            yield Problem("applyMode", f"value must be one of {', '.join(_APPLY_MODES)}")

    def preview(self, call: Call, inputs: dict[str, Any], outputs: frozenset[str]) -> dict[str, Any]:
        known = {name: UNKNOWN for name in outputs} | inputs | _settled(inputs)
        if UNKNOWN in (inputs["node"], inputs.get("endpoint")):
            return known
        known["endpoint"] = inputs.get("endpoint", inputs["node"])
        if has_unknown(_rendering(inputs)):
            return known
        return known | _rendered(inputs)

    def preview_update(self, call: Call, state: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in state.items() if key not in _OPTIONAL_APPLY_INPUTS} | self.preview(
            call, inputs, frozenset()
        )

    def create(self, call: Call, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        outputs = with_endpoint(inputs) | _settled(inputs) | _rendered(inputs)
        text = outputs.get("machineConfiguration") or _render(inputs)
        try:
            talosctl.validate(text)
        except talosctl.TalosctlError as error:
            raise refused("Error applying configuration", error) from None
        if (nodes := fleet.of(call.world)) is not None:
            nodes.follow()
        machines.check_reach(call.world, inputs["node"], outputs["endpoint"], client_of(inputs))
        with nodes.configuring(inputs["node"]) if nodes is not None else nullcontext():
            machines.apply(call.world, inputs["node"], text, outputs["resolvedApplyMode"])
            if nodes is not None:
                nodes.apply(inputs["node"], text, client_of(inputs))
        for write_only in ("clientConfigurationWo", "machineConfigurationInputWo"):
            outputs.pop(write_only, None)
        return "machine_configuration_apply", outputs

    def update(self, call: Call, id: str, state: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
        # Also with another node: the provider then configures that one and leaves the former as it is.
        return self.create(call, inputs)[1]

    def delete(self, call: Call, id: str, state: dict[str, Any]) -> None:
        on_destroy = _RESET_DEFAULTS | (state.get("onDestroy") or {})
        if on_destroy["reset"] is not True:
            return
        if not state.get("clientConfiguration"):
            raise CloudError(
                "InvalidArgument",
                "Client configuration issue during destroy: clientConfigurationWo is not available during destroy; "
                "use clientConfiguration if you need onDestroy.reset",
            )
        machines.check_reach(call.world, state["node"], state["endpoint"], state["clientConfiguration"])
        machines.reset(call.world, state["node"], graceful=on_destroy["graceful"], reboot=on_destroy["reboot"])
        if (nodes := fleet.of(call.world)) is not None:
            nodes.reset(state["node"], state["clientConfiguration"], graceful=on_destroy["graceful"])


_OPTIONAL_APPLY_INPUTS = frozenset({"configPatches", "onDestroy", "timeouts"})


def _settled(inputs: Mapping[str, Any]) -> dict[str, Any]:
    mode = inputs.get("applyMode", "auto")
    # A dry run tells whether a reboot is needed; a simulated machine never needs one.
    resolved = "auto" if mode == "staged_if_needing_reboot" else mode
    settled = {"applyMode": mode, "resolvedApplyMode": resolved}
    if inputs.get("onDestroy") not in (None, UNKNOWN):
        settled["onDestroy"] = _RESET_DEFAULTS | inputs["onDestroy"]
    return settled


def _rendering(inputs: Mapping[str, Any]) -> list[Any]:
    given = inputs.get("machineConfigurationInputWo", inputs.get("machineConfigurationInput"))
    return [given, inputs.get("configPatches") or []]


def _render(inputs: Mapping[str, Any]) -> str:
    config, patches = _rendering(inputs)
    try:
        return talosctl.patch_config(config, [patch for patch in patches if patch is not None])
    except talosctl.TalosctlError as error:
        raise refused("Error applying config patches", error) from None


def _rendered(inputs: Mapping[str, Any]) -> dict[str, Any]:
    text = _render(inputs)
    rendered = {"machineConfigurationHash": pki.digest(text)}
    if inputs.get("machineConfigurationInputWo") is None:
        rendered["machineConfiguration"] = text
    return rendered


class Bootstrap(_Lasting):
    """``machine.Bootstrap`` (talos_machine_bootstrap_resource.go)."""

    token = "talos:machine/bootstrap:Bootstrap"

    def check(self, call: Call, inputs: dict[str, Any]) -> Iterable[Problem]:
        return _one_of(inputs, "clientConfiguration", "Missing or conflicting client configuration")

    def preview(self, call: Call, inputs: dict[str, Any], outputs: frozenset[str]) -> dict[str, Any]:
        return {name: UNKNOWN for name in outputs} | with_endpoint(inputs)

    def create(self, call: Call, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        outputs = with_endpoint(inputs)
        machines.check_reach(call.world, outputs["node"], outputs["endpoint"], client_of(inputs))
        machines.bootstrap(call.world, outputs["node"])
        outputs.pop("clientConfigurationWo", None)
        return "machine_bootstrap", outputs

    def update(self, call: Call, id: str, state: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
        outputs = with_endpoint(inputs)
        outputs.pop("clientConfigurationWo", None)
        return outputs


class Kubeconfig(_Lasting):
    """``cluster.Kubeconfig`` (talos_cluster_kubeconfig_resource.go)."""

    token = "talos:cluster/kubeconfig:Kubeconfig"

    def check(self, call: Call, inputs: dict[str, Any]) -> Iterable[Problem]:
        renewal = inputs.get("certificateRenewalDuration")
        if isinstance(renewal, str) and not _DURATION.fullmatch(renewal):
            yield Problem("certificateRenewalDuration", "must be a valid duration string, such as 720h")

    def preview(self, call: Call, inputs: dict[str, Any], outputs: frozenset[str]) -> dict[str, Any]:
        unknown = {name: UNKNOWN for name in outputs}
        return unknown | {"certificateRenewalDuration": _RENEWAL} | with_endpoint(inputs)

    def prior(self, call: Call, inputs: dict[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
        span = _span(str(state.get("certificateRenewalDuration") or _RENEWAL))
        return renewal.planned(inputs, _FETCHED if renewal.kubernetes_client_ends(state, span) else ())

    def preview_update(self, call: Call, state: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
        known = state | {"certificateRenewalDuration": _RENEWAL} | with_endpoint(inputs)
        ends = renewal.kubernetes_client_ends(state, _span(str(known["certificateRenewalDuration"])))
        return known | renewal.unknown(_FETCHED if ends else ())

    def create(self, call: Call, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        outputs = {"certificateRenewalDuration": _RENEWAL} | with_endpoint(inputs)
        _follow_fleet(call.world, outputs["node"])
        cluster, fetched = fetch_kubeconfig(call, outputs)
        return cluster, outputs | fetched

    def update(self, call: Call, id: str, state: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
        outputs = {"certificateRenewalDuration": _RENEWAL} | with_endpoint(inputs)
        kept = {name: state[name] for name in _FETCHED}
        if renewal.kubernetes_client_ends(state, _span(outputs["certificateRenewalDuration"])):
            kept = fetch_kubeconfig(call, outputs)[1]
        return outputs | kept


_FETCHED = ("kubeconfigRaw", "kubernetesClientConfiguration")


def _follow_fleet(world: World, address: str) -> None:
    """Let the world know that a cluster was started on its nodes, not through this provider."""
    nodes = fleet.of(world)
    if nodes is None:
        return
    planes = machines.members(world, machines.machine(world, address)["cluster_id"], "controlplane")
    started = nodes.started_on([plane["address"] for plane in planes])
    if started is not None and all(plane["stage"] != machines.BOOTSTRAPPED for plane in planes):
        machines.bootstrap(world, started)


def _span(duration: str) -> timedelta:
    seconds = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
    parts = re.findall(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)", duration)
    return timedelta(seconds=sum(float(number) * seconds[unit] for number, unit in parts))


def _power_off(world: World, words: list[str]) -> str:
    return _power(world, words, on=False)


def _power_on(world: World, words: list[str]) -> str:
    return _power(world, words, on=True)


def _power(world: World, words: list[str], *, on: bool) -> str:
    known = {record.id for record in world.find(machines.PACKAGE, "machine")}
    if len(words) != 1 or words[0] not in known:
        raise CloudError("BadAction", f"name one machine by its address: {', '.join(sorted(known)) or 'there is none'}")
    machines.power(world, words[0], on=on)
    return f"{words[0]} is {'on' if on else 'off'}"


ACTIONS: dict[str, Callable[[World, list[str]], str]] = {"power-off": _power_off, "power-on": _power_on}
"""What can be done to a machine, by its address, behind Pulumi's back."""

_KINDS: tuple[Kind, ...] = (Secrets(), ConfigurationApply(), Bootstrap(), Kubeconfig())

PACKAGE = Package(
    name="talos",
    kinds={kind.token: kind for kind in _KINDS},
    functions={
        "talos:machine/getConfiguration:getConfiguration": get_machine_configuration,
        "talos:client/getConfiguration:getConfiguration": get_client_configuration,
        "talos:cluster/getHealth:getHealth": get_health,
        "talos:cluster/getKubeconfig:getKubeconfig": get_kubeconfig,
    },
)
