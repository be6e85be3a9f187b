"""The work of KiloNodes: ask a cluster for its Nodes until Kilo has described them."""

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from pulumi.dynamic import DiffResult

from .engine_log import engine_sender
from .kilo_topology import kilo_node, remotes
from .kubernetes_nodes import KubernetesError, nodes_of
from .mesh_plan import Granularity
from .work_provider import WorkError, changed

Properties = dict[str, Any]

_PAUSE = 5.0
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


def check(_news: Properties) -> dict[str, str]:
    """Return nothing: the component has checked its inputs."""
    return {}


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Other credentials, another way there or other tunnels are read anew; nothing is replaced."""
    keys = ("kubeconfig", "connect_to", "granularity")
    return DiffResult(changes=any(changed(key, olds, news) for key in keys), replaces=[])


def create(props: Properties) -> tuple[str, Properties]:
    """Wait for Kilo, and read the machines."""
    return "kilo-nodes", {**props, "remotes": wait(props)}


def read(props: Properties) -> Properties:
    """Read the machines again; those that the state knows stay where the API cannot be asked, or has none."""
    try:
        found = _remotes(props)[0]
    except KubernetesError:
        return props
    return {**props, "remotes": found} if found else props


def update(_olds: Properties, news: Properties) -> Properties:
    """Read the machines anew."""
    return {**news, "remotes": wait(news)}


def delete(_props: Properties) -> None:
    """Do nothing: the machines are others' business."""


def wait(
    props: Properties,
    *,
    send: Callable[[str], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[Properties]:
    """Return the tunnels once Kilo has described every control plane.

    Raises WorkError with what is missing and the next step when it has not within the inputs' minutes.
    """
    minutes = int(props["minutes"])
    end = clock() + minutes * 60
    tell = send or engine_sender()
    shown = ""
    while True:
        try:
            found, missing = _remotes(props)
        except KubernetesError as error:
            found, missing = [], str(error)
        if found and not missing:
            return found
        if clock() >= end:
            raise WorkError(
                f"the mesh's clients cannot be told of its machines: {missing} after {minutes} minutes. Next: look at "
                "Kilo's agent (`kubectl get pods -A -l app.kubernetes.io/name=kilo -o wide` and its logs), then run "
                "`pulumi up` again"
            )
        if missing != shown:
            shown = missing
            tell(f"waiting for Kilo: {missing}")
        sleep(_PAUSE)


def _remotes(props: Properties) -> tuple[list[Properties], str]:
    """Return the tunnels, and what is still missing in words."""
    with nodes_of(str(props["kubeconfig"]), props.get("connect_to")) as api:
        nodes = api.listed()
    # Workers of pools come and go; the control planes are what a client can count on.
    silent = sorted(
        str(node["metadata"]["name"])
        for node in nodes
        if _CONTROL_PLANE in (node["metadata"].get("labels") or {}) and kilo_node(node) is None
    )
    found = [{**asdict(remote), "allowed_ips": list(remote.allowed_ips)} for remote in _tunnels(nodes, props)]
    if silent:
        return found, f"Kilo's agent has not described {', '.join(silent)}"
    return found, "" if found else "Kilo's agent has not described any machine"


def _tunnels(nodes: list[Properties], props: Properties) -> list[Any]:
    return list(remotes(nodes, Granularity(props["granularity"])))
