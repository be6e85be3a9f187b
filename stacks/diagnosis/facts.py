"""What is known of pools, their groups in the clouds and their cluster: plain data, as checks read it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

Object = Mapping[str, Any]
"""An object of the Kubernetes API as it writes it."""


@dataclass(frozen=True)
class Pool:
    """A pool as the stack has it."""

    name: str
    """As `python -m stacks.roll` names it: `azure/workers`."""
    cloud: str
    group: str
    """Id of the scale set or the scaling group."""
    group_name: str
    """What the autoscaler calls it."""
    least: int
    most: int
    labels: Mapping[str, str]
    """Labels that its nodes register with, as far as they are known."""
    taints: tuple[str, ...]
    """Taints that its nodes register with, as `key=value:Effect`."""
    label: str
    """Value of the label that tells the pool from others."""
    stamp: str
    """Hash of what its machines are made of now."""
    sizes: tuple[str, ...]
    """Names of its size or instance types."""
    zones: tuple[str, ...] = ()
    spot: bool = False
    fixed: bool = False
    """Whether its number of machines is fixed and no autoscaler hears of it: gateways."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """How its cloud is reached: region, and addresses other than the public ones."""


@dataclass(frozen=True)
class Machine:
    """A machine of a group."""

    provider_id: str
    """What the autoscaler expects on its Node, letter by letter."""
    leaving: bool = False
    failed: bool = False
    made: float | None = None
    """When it was made, in seconds since 1970, where its cloud says so."""


@dataclass(frozen=True)
class Quota:
    """What may be had of something, and how much of it is used."""

    what: str
    used: int
    limit: int
    each: int
    """How much of it one more machine takes."""


@dataclass(frozen=True)
class Group:
    """A group as its cloud has it."""

    size: int
    """How many machines it is to have."""
    machines: tuple[Machine, ...]
    labels: Mapping[str, str]
    """Labels of the template that the autoscaler builds from the group's tags."""
    taints: tuple[str, ...] | None
    """Taints of that template; None where the cloud cannot say any."""
    least: int | None = None
    most: int | None = None
    """Bounds that the group itself has, or its tags."""
    trouble: str = ""
    """Why the cloud would change nothing of it now."""
    quotas: tuple[Quota, ...] = ()
    stock: Mapping[str, str] = field(default_factory=dict)
    """By `type in zone`: `in stock`, `low` or `sold out`."""
    notes: tuple[str, ...] = ()
    """What of it could not be looked at, and why."""


@dataclass(frozen=True)
class Cluster:
    """What the Kubernetes API says."""

    version: str
    now: float
    """Seconds since 1970, as the API server's clock or ours has them."""
    nodes: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    deployments: Sequence[Object] = ()
    daemon_sets: Sequence[Object] = ()
    requests: Sequence[Object] = ()
    """Certificate signing requests."""
    leases: Sequence[Object] = ()
    maps: Sequence[Object] = ()
    """ConfigMaps that autoscalers write their status to."""
    denied: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By `namespace/service account`: rights of an autoscaler that it has not, such as `list nodes`."""
    unread: frozenset[str] = frozenset()
    """Kinds that could not be read, such as `leases`: that there is none of them says nothing."""


@dataclass(frozen=True)
class Running:
    """An autoscaler as its Deployment has it."""

    namespace: str
    name: str
    account: str
    cloud: str
    version: str
    groups: Mapping[str, tuple[int, int]]
    """Bounds by the name of a group."""
    discovers: bool
    """Whether it finds groups by their tags."""
    flags: Mapping[str, str]
    wanted: int
    ready: int
    priorities: bool = False

    @property
    def lease(self) -> str:
        """Name of its lease."""
        return self.flags.get("leader-elect-resource-name", "cluster-autoscaler")

    @property
    def status_map(self) -> str:
        """Name of the ConfigMap with its status."""
        return self.flags.get("status-config-map-name", "cluster-autoscaler-status")


_CLOUDS = {"azure": "azure", "alicloud": "aliyun"}
_NODES = re.compile(r"(\d+):(\d+):(.+)")


def autoscalers(deployments: Sequence[Object]) -> list[Running]:
    """Return the autoscalers of Azure and Alibaba Cloud among Deployments, whoever has made them."""
    found = [one for deployment in deployments if (one := _autoscaler(deployment)) is not None]
    return sorted(found, key=lambda one: (one.namespace, one.name))


def _autoscaler(deployment: Object) -> Running | None:
    spec = deployment["spec"]["template"]["spec"]
    for container in spec.get("containers") or ():
        words = [str(word) for word in [*(container.get("command") or ()), *(container.get("args") or ())]]
        pairs = [word.lstrip("-").partition("=") for word in words if word.startswith("-")]
        flags = {key: value for key, _, value in pairs}
        cloud = _CLOUDS.get(flags.get("cloud-provider", ""))
        if cloud is None:
            continue
        matches = [_NODES.fullmatch(value) for key, _, value in pairs if key == "nodes"]
        tag = str(container.get("image", "")).partition("@")[0].rpartition(":")[2]
        return Running(
            namespace=deployment["metadata"]["namespace"],
            name=deployment["metadata"]["name"],
            account=str(spec.get("serviceAccountName") or "default"),
            cloud=cloud,
            version=tag if re.match(r"v?\d+\.\d+", tag) else "",
            groups={match[3]: (int(match[1]), int(match[2])) for match in matches if match},
            discovers="node-group-auto-discovery" in flags,
            flags=flags,
            wanted=int(deployment["spec"].get("replicas", 1)),
            ready=int((deployment.get("status") or {}).get("readyReplicas") or 0),
            priorities="priority" in flags.get("expander", "").split(","),
        )
    return None


def provider_id(node: Object) -> str:
    """Return the provider id of a Node; empty when it has none."""
    return str((node.get("spec") or {}).get("providerID") or "")


def seconds(stamp: Any) -> float | None:
    """Return a moment of RFC 3339, or one without seconds as Alibaba Cloud writes it, in seconds since 1970."""
    try:
        moment = datetime.fromisoformat(str(stamp).replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo is not None else None


def name_of(item: Object) -> str:
    """Return the name of an object."""
    return str(item["metadata"]["name"])


def labels_of(node: Object) -> Mapping[str, str]:
    """Return the labels of an object."""
    return node["metadata"].get("labels") or {}


def condition(item: Object, kind: str) -> str:
    """Return the status of a condition, such as `True`; empty when there is none."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    return next((str(one.get("status")) for one in conditions if one.get("type") == kind), "")
