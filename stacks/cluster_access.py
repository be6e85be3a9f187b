"""How a command gets at a cluster: by the outputs and the state of a stack, or by a talosconfig."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from hybrid_talos.talos_calls import Machine

from .stack_state import StackState, StateError, export_state, read_state

_BOOTSTRAP = ":EtcdBootstrap"
_CONFIGURATION = "talos:machine/configurationApply:ConfigurationApply"
_KEYS = {"ca": "caCertificate", "crt": "clientCertificate", "key": "clientKey"}


class AccessError(Exception):
    """There is no way to the cluster; the message says why and what to do, and holds no secret."""


@dataclass(frozen=True)
class Access:
    """A cluster, with the credentials for its Talos API."""

    cluster: str
    """Its name."""
    credentials: Mapping[str, str] = field(repr=False)
    members: tuple[Machine, ...]
    """The control planes."""
    configurations: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The machine configurations that a stack gave its control planes, by address."""


def access(stack: str | None, talosconfig: str | None) -> Access:
    """Return the way to the cluster of a stack (the selected one if none is named), or of a talosconfig.

    ``talosconfig`` is a path, or `-` for standard input.

    Raises:
        AccessError: there is none.
    """
    if talosconfig is not None and stack is not None:
        raise AccessError("--stack and --talosconfig exclude each other")
    if talosconfig is None:
        try:
            return of_state(read_state(export_state(stack)))
        except StateError as error:
            raise AccessError(str(error)) from None
    try:
        text = sys.stdin.read() if talosconfig == "-" else Path(talosconfig).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no text"
        raise AccessError(f"{talosconfig} cannot be read: {reason}") from None
    return of_talosconfig(text)


def of_talosconfig(text: str) -> Access:
    """Return the way that a talosconfig shows: its current context."""
    try:
        document = yaml.safe_load(text)
        name = str(document["context"])
        context = document["contexts"][name]
        credentials = {ours: str(context[theirs]) for theirs, ours in _KEYS.items()}
        endpoints = [str(endpoint) for endpoint in context.get("endpoints") or ()]
        nodes = [str(node) for node in context.get("nodes") or ()]
    except (yaml.YAMLError, KeyError, TypeError, AttributeError):
        # Never anything of the text: there is a key in it.
        raise AccessError("this is no talosconfig with a current context, its ca, crt and key") from None
    if not endpoints:
        raise AccessError(
            "the talosconfig has no endpoints. Next: `talosctl config endpoint <address of each control plane>`"
        )
    # As many nodes as endpoints are the control planes' own addresses; fewer are what somebody works on just now.
    addresses = nodes if len(nodes) == len(endpoints) else [endpoint.partition(":")[0] for endpoint in endpoints]
    members = tuple(Machine(address, address, end) for address, end in zip(addresses, endpoints, strict=True))
    return Access(name, credentials, members)


def of_state(state: StackState) -> Access:
    """Return the way that a stack's state shows."""
    text = state.outputs.get("talosconfig")
    if not isinstance(text, str) or not text:
        raise AccessError(
            "the stack has no output talosconfig: only stacks that build a cluster do (hybrid-talos:stack: cluster or "
            "hybrid), once they are up. Next: name that one with --stack"
        )
    found = of_talosconfig(text)
    members = tuple(
        Machine.of(member)
        for resource in state.resources
        if str(resource.get("type", "")).endswith(_BOOTSTRAP) and not resource.get("delete")
        for member in (resource.get("inputs") or {}).get("members") or ()
    )
    outputs: list[Mapping[str, Any]] = [one.get("outputs") or {} for one in state.of_type(_CONFIGURATION)]
    configurations = {
        str(one["node"]): str(one["machineConfiguration"])
        for one in outputs
        if one.get("node") and one.get("machineConfiguration")
    }
    return Access(found.cluster, found.credentials, members or found.members, configurations)
