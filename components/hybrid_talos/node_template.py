"""What the nodes of a pool register with, and how each autoscaler is told so.

One function, :func:`node_template`, decides labels and taints. The machine configuration, the tags that the Cluster
Autoscaler reads for a pool without machines, and the pool's `node_group` output are all made from its answer.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, NotRequired, TypedDict

from pydantic import BaseModel, ConfigDict, field_validator

from .machine_config import node_labels, register_with_taints
from .talos_yaml import Document

POOL_LABEL = "hybrid-talos.dev/pool"
"""Label that tells the nodes of one pool from all others: `azure-workers`, `alibaba-workers`."""

TEMPLATE_LABEL = "hybrid-talos.dev/template"
"""Label with the hash of what a machine was made of (machine_stamp.py); another one than the pool's now is stale."""

ZONE_LABEL = "topology.kubernetes.io/zone"


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    """No new ones come."""
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    """New ones come only where there is no other node."""
    NO_EXECUTE = "NoExecute"
    """No new ones come, and those that run are evicted."""


class TaintArgs(TypedDict):
    """A taint of every node of a pool."""

    key: str
    """Key of the taint: a name with an optional DNS prefix, such as `example.com/dedicated`."""
    value: NotRequired[str]
    """Value of the taint, at most 63 characters. Default: empty."""
    effect: TaintEffect
    """What happens to pods that do not tolerate it."""


class Taint(NamedTuple):
    """A checked taint."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        """Return the taint as kubectl and the kubelet write it."""
        return f"{self.key}={self.value}:{self.effect}"


@dataclass(frozen=True)
class NodeTemplate:
    """What a node of a pool looks like to the scheduler."""

    labels: Mapping[str, str]
    """Labels that the machine configuration sets."""
    taints: tuple[Taint, ...]
    """Taints that the kubelet registers with."""
    placement: Mapping[str, str]
    """Labels that the cloud controller adds after registration, as far as they are known beforehand."""

    @property
    def all_labels(self) -> dict[str, str]:
        """Every label that is known beforehand, sorted by key."""
        return dict(sorted({**self.placement, **self.labels}.items()))

    def stamped(self, stamp: str) -> "NodeTemplate":
        """Return the template of machines with this hash."""
        return replace(self, labels=dict(sorted({**self.labels, TEMPLATE_LABEL: stamp}.items())))

    @property
    def taint_texts(self) -> list[str]:
        """The taints as `key=value:Effect`."""
        return [str(taint) for taint in self.taints]


def node_template(
    cloud: str, pool: str, labels: Mapping[str, str], taints: Sequence[Taint], zone: str | None = None
) -> NodeTemplate:
    """Return what the nodes of a pool register with.

    ``zone`` is the zone label that the cloud controller will write, given when all machines of the pool are in one.
    The hash of what machines are made of comes later, by :meth:`NodeTemplate.stamped`, once that is known.
    ValueError when ``pool`` gives no label value, or ``labels`` claims another pool or a hash.
    """
    own = pool_label_value(cloud, pool)
    problem = _value_problem(own)
    if not _NAME.fullmatch(pool):
        problem = "it must have letters, digits, -, _ or ., and begin and end with a letter or digit"
    if problem:
        raise ValueError(f"the pool's name becomes the value of the label {POOL_LABEL}: {problem}")
    if labels.get(POOL_LABEL, own) != own:
        raise ValueError(f"labels.{POOL_LABEL}: is set by the pool itself, to {own}")
    if TEMPLATE_LABEL in labels:
        raise ValueError(
            f"labels.{TEMPLATE_LABEL}: is set by the pool itself, to a hash of what its machines are made of"
        )
    placement = {ZONE_LABEL: zone} if zone is not None and ZONE_LABEL not in labels else {}
    return NodeTemplate(dict(sorted({**labels, POOL_LABEL: own}.items())), tuple(sorted(taints)), placement)


def pool_label_value(cloud: str, pool: str) -> str:
    """Return the value of the label that tells a pool from all others; no two pools have the same.

    A name that begins with its cloud is not prefixed twice; the dot keeps the others apart from those. Alibaba Cloud
    is spelt out, because the value becomes a tag there, and those may not begin with `aliyun`.
    """
    word = {"aliyun": "alibaba"}.get(cloud, cloud)
    rest = pool.removeprefix(f"{cloud}-")
    return f"{word}.{pool}" if rest == pool else f"{word}-{rest}"


def config_patches(template: NodeTemplate) -> list[Document]:
    """Return the machine-configuration patches that make a node register so."""
    return [node_labels(template.labels), register_with_taints(template.taints)]


# Checks

_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_DNS = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)

_ALLOWED_BY_NODE_RESTRICTION = frozenset({"topology.kubernetes.io/region", "topology.kubernetes.io/zone"})
_ALLOWED_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_SET_BY_KUBELET = frozenset(
    {"kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/instance-type"}
)


def label_problem(key: str, value: str) -> str | None:
    """Return why a node cannot register with a label, or None.

    Besides the form of labels, the NodeRestriction admission plugin counts: one label that a kubelet may not set
    makes the API server refuse all of them (kubernetes.io "Admission control"; siderolabs/talos#10122).
    """
    problem = label_key_problem(key) or _value_problem(value)
    if problem:
        return problem
    prefix = key.rpartition("/")[0]
    if key in _SET_BY_KUBELET:
        return "is set by the kubelet or the cloud controller itself"
    if not _is_reserved(prefix) or key in _ALLOWED_BY_NODE_RESTRICTION:
        return None
    if any(prefix == allowed or prefix.endswith(f".{allowed}") for allowed in _ALLOWED_PREFIXES):
        return None
    return (
        "a node may not give itself labels of kubernetes.io or k8s.io (NodeRestriction), and one of them makes all "
        "labels fail: use a domain of your own, or set it from a control plane with kubectl label"
    )


def _is_reserved(prefix: str) -> bool:
    return any(prefix == domain or prefix.endswith(f".{domain}") for domain in ("kubernetes.io", "k8s.io"))


def label_key_problem(key: str) -> str | None:
    """Return why a text cannot be the key of a label or taint, or None."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not _DNS.fullmatch(prefix) or len(prefix) > 253):
        return "the part before the slash must be a DNS name of at most 253 lower-case characters"
    if not _NAME.fullmatch(name):
        return "the name must have 1 to 63 letters, digits, -, _ or ., and begin and end with a letter or digit"
    return None


def _value_problem(value: str) -> str | None:
    if value and not _NAME.fullmatch(value):
        return "the value must have at most 63 letters, digits, -, _ or ., and begin and end with a letter or digit"
    return None


class TaintShape(BaseModel):
    """A taint as the user wrote it, checked."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    key: str
    value: str = ""
    effect: TaintEffect

    @field_validator("key")
    @classmethod
    def _key(cls, key: str) -> str:
        problem = label_key_problem(key)
        if problem:
            raise ValueError(problem)
        return key

    @field_validator("value")
    @classmethod
    def _value(cls, value: str) -> str:
        problem = _value_problem(value)
        if problem:
            raise ValueError(problem)
        return value


def checked_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    """Return ``labels``, or raise ValueError naming every one that a node cannot register with."""
    problems = [f"{key}: {problem}" for key in sorted(labels) if (problem := label_problem(key, labels[key]))]
    if problems:
        raise ValueError("; ".join(problems))
    return labels


def checked_taints(taints: Sequence[TaintShape]) -> tuple[Taint, ...]:
    """Return the taints sorted; ValueError when two have the same key and effect, which a node cannot have."""
    found = sorted(Taint(taint.key, taint.value, taint.effect.value) for taint in taints)
    pairs = [(taint.key, taint.effect) for taint in found]
    twice = sorted({f"{key}:{effect}" for key, effect in pairs if pairs.count((key, effect)) > 1})
    if twice:
        raise ValueError(f"the same key and effect twice: {', '.join(twice)}")
    return tuple(found)
