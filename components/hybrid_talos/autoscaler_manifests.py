"""The Cluster Autoscaler's rights, flags, environment and pod, for either cloud.

Facts: kubernetes/autoscaler `cluster-autoscaler/`, tag 1.36.1: chart `templates/clusterrole.yaml` and `role.yaml`,
`config/flags/flags.go`, `cloudprovider/azure/README.md`, `cloudprovider/alicloud/README.md`.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pulumi
import pulumi_kubernetes as kubernetes

from ._contract import BadInputs
from .autoscaler_flags import rendered
from .manifests import (
    KUBE_SYSTEM,
    after,
    control_plane_affinity,
    control_plane_tolerations,
    labels,
    managed,
    restricted_container,
    restricted_pod,
)
from .node_group import NodeGroup

REPOSITORY = "registry.k8s.io/autoscaling/cluster-autoscaler"

PORT = 8085
"""Where the autoscaler serves health checks and metrics."""

CREDENTIALS_ANNOTATION = "hybrid-talos.dev/credentials"
"""Pod annotation that changes with the credentials, so that a new one makes a new pod."""

_NONROOT = 65532  # user of the image's base, gcr.io/distroless/static:nonroot


PRIORITY_MAP = "cluster-autoscaler-priority-expander"
"""Name of the ConfigMap with priorities: fixed in the autoscaler (`expander/priority/priority.go`)."""

TOKEN_FOLDER = "/var/run/secrets/hybrid-talos.dev/cloud"
"""Where the token for the cloud lies in the pod."""

TOKEN_FILE = f"{TOKEN_FOLDER}/token"


@dataclass(frozen=True)
class PodChoices:
    """How the pod runs, as far as a user may choose."""

    replicas: int = 1
    priority_class: str = "system-cluster-critical"
    cpu_request: str = "100m"
    memory_request: str = "300Mi"
    memory_limit: str = "1Gi"


@dataclass(frozen=True)
class Autoscaler:
    """One autoscaler: how it is named and what it runs with."""

    stem: str
    cloud_provider: str
    image: str
    flags: Mapping[str, str]
    """Flags without their dashes."""
    environment: Mapping[str, pulumi.Input[str]]
    """Plain environment."""
    credentials: Mapping[str, pulumi.Input[str]]
    """Environment that comes from the Secret, by the variable's name; none without a secret."""
    lists: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Flags that come once for each value."""
    priorities: Mapping[str, int] = field(default_factory=dict)
    """By the key of a group: the higher, the earlier it grows."""
    token_audience: str | None = None
    """For whom the token is that it signs in to the cloud with, without a secret."""
    pod: PodChoices = PodChoices()
    discovery: str | None = None
    """How it finds its groups; without, each is named."""

    @property
    def namespace(self) -> str:
        """Namespace that it runs in: with priorities its own, since their ConfigMap has one name for all."""
        return self.stem if self.priorities else KUBE_SYSTEM

    @property
    def status_map(self) -> str:
        """Name of the ConfigMap that it writes its status to."""
        return f"{self.stem}-status"


def cluster_rules() -> list[dict[str, Any]]:
    """Return what the autoscaler may do in the whole cluster.

    The upstream chart's rules less those on Endpoints, which served a lock that is no longer there, and on the
    `extensions` group, which no served version has; with `volumeattachments` and `resource.k8s.io`, without which
    1.35 and later wait for their caches for ever.
    """
    read = ["get", "list", "watch"]

    def rule(group: str, resources: list[str], verbs: list[str]) -> dict[str, Any]:
        return {"api_groups": [group], "resources": resources, "verbs": verbs}

    return [
        rule("", ["events"], ["create", "patch"]),
        rule("", ["pods/eviction"], ["create"]),
        rule("", ["pods/status"], ["update"]),
        rule("", ["nodes"], [*read, "update"]),
        rule(
            "",
            [
                "namespaces",
                "persistentvolumeclaims",
                "persistentvolumes",
                "pods",
                "replicationcontrollers",
                "services",
            ],
            read,
        ),
        rule("apps", ["daemonsets", "replicasets", "statefulsets"], read),
        rule("batch", ["cronjobs", "jobs"], read),
        rule("batch", ["jobs"], ["patch"]),
        rule("policy", ["poddisruptionbudgets"], read),
        rule("resource.k8s.io", ["deviceclasses", "resourceclaims", "resourceslices"], read),
        rule(
            "storage.k8s.io",
            ["csidrivers", "csinodes", "csistoragecapacities", "storageclasses", "volumeattachments"],
            read,
        ),
    ]


def namespaced_rules(autoscaler: Autoscaler) -> list[dict[str, Any]]:
    """Return what the autoscaler may do in its own namespace: its lease and its status."""
    priorities = {
        "api_groups": [""],
        "resources": ["configmaps"],
        "resource_names": [PRIORITY_MAP],
        # Listed and watched above; never written.
        "verbs": ["get"],
    }
    return [
        {"api_groups": [""], "resources": ["configmaps"], "verbs": ["create", "list", "watch"]},
        {
            "api_groups": [""],
            "resources": ["configmaps"],
            "resource_names": [autoscaler.status_map],
            "verbs": ["delete", "get", "update"],
        },
        *([priorities] if autoscaler.priorities else []),
        {"api_groups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {
            "api_groups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resource_names": [autoscaler.stem],
            "verbs": ["get", "update"],
        },
    ]


def read_group(owner: str, key: str, cloud: str, group: Mapping[str, Any]) -> NodeGroup:
    """Return a pool's node group, checked; BadInputs when it cannot be one of this autoscaler's.

    Accepts the camelCase keys and float numbers of a group that has come through the engine.
    """

    def of(snake: str, camel: str) -> Any:
        return group.get(snake, group.get(camel))

    least, most = of("min_size", "minSize"), of("max_size", "maxSize")
    name = group.get("name")
    where = f"{owner}: node_groups.{key}"
    if not isinstance(name, str) or not name or name != name.strip() or ":" in name:
        raise BadInputs(f"{where}: has no name that the cloud knows it by")
    if group.get("cloud") != cloud:
        raise BadInputs(f"{where}: is a group of {group.get('cloud')}, this autoscaler is for {cloud}")
    if least is None or most is None or not 0 <= int(least) <= int(most) or int(most) < 1:
        raise BadInputs(f"{where}: sizes must be 0 or more, the smallest at most the largest, the largest 1 or more")
    return NodeGroup(
        cloud=cloud,
        name=name,
        min_size=int(least),
        max_size=int(most),
        labels=dict(group.get("labels") or {}),
        taints=list(group.get("taints") or []),
    )


def nodes_flag(group: Mapping[str, Any]) -> str:
    """Return the flag that names a group with its bounds."""
    return f"--nodes={group['min_size']}:{group['max_size']}:{group['name']}"


def group_flags(autoscaler: Autoscaler, groups: Mapping[str, pulumi.Output[NodeGroup]]) -> list[pulumi.Output[str]]:
    """Return the flags that tell the autoscaler its groups."""
    if autoscaler.discovery is None:
        return [one.apply(nodes_flag) for one in groups.values()]
    flag = f"--node-group-auto-discovery={autoscaler.discovery}"
    # It says nothing of them, but comes from them: they are checked, and it goes before they do.
    return [pulumi.Output.all(*groups.values()).apply(lambda _: flag)]


def trimmed(owner: str, key: str, value: str) -> str:
    """Return a value that comes as an output; BadInputs, without the value, when it is empty or has white space around.

    A line break at the end of a credential reaches the cloud as `%0A` in a request (kubernetes/autoscaler#3137).
    """
    if not value or value != value.strip():
        raise BadInputs(
            f"{owner}: {key}: is empty or has white space around it; "
            "set it again without, as with `pulumi config set --secret`, which reads the value from the terminal"
        )
    return value


def fingerprint(stem: str, values: Sequence[str]) -> str:
    """Return a short text that changes with the credentials and gives no hold on them.

    Whoever may read pods sees it in the cluster. So it is slow to compute, salted with the autoscaler's name, and
    too short to confirm a guess. In previews and in the state it is a secret, since it is made from one.
    """
    joined = "\0".join(values).encode()
    return hashlib.pbkdf2_hmac("sha256", joined, f"hybrid-talos/{stem}".encode(), 50_000, dklen=6).hex()


def priorities_text(priorities: Mapping[str, int], names: Mapping[str, str]) -> str:
    """Return the ConfigMap's text: for each number, patterns that match the whole name of one group each."""
    by_number: dict[int, list[str]] = {}
    for key, number in priorities.items():
        by_number.setdefault(number, []).append(f"^{re.escape(names[key])}$")
    lines: list[str] = []
    for number in sorted(by_number, reverse=True):
        # A number as key: in quotes it would be text, which the autoscaler does not read.
        lines.append(f"{number}:")
        lines += [f"  - '{pattern}'" for pattern in sorted(by_number[number])]
    return "\n".join(lines) + "\n"


def _token_volume(audience: str) -> dict[str, Any]:
    token = {"audience": audience, "expiration_seconds": 3600, "path": TOKEN_FILE.rsplit("/", 1)[1]}
    return {
        "name": "cloud-token",
        "projected": {"default_mode": 0o440, "sources": [{"service_account_token": token}]},
    }


def _pod(autoscaler: Autoscaler, nodes: Sequence[pulumi.Input[str]], selector: dict[str, str]) -> dict[str, Any]:
    plain = [{"name": key, "value": value} for key, value in sorted(autoscaler.environment.items())]
    secret = [
        {"name": key, "value_from": {"secret_key_ref": {"name": autoscaler.stem, "key": key}}}
        for key in sorted(autoscaler.credentials)
    ]
    probe = {"http_get": {"path": "/health-check", "port": PORT}}
    chosen = autoscaler.pod
    container = {
        "name": "cluster-autoscaler",
        "image": autoscaler.image,
        "command": ["./cluster-autoscaler"],
        "args": [
            f"--cloud-provider={autoscaler.cloud_provider}",
            f"--namespace={autoscaler.namespace}",
            # Each autoscaler of a cluster has its own; with the default they would take turns.
            f"--leader-elect-resource-name={autoscaler.stem}",
            f"--status-config-map-name={autoscaler.status_map}",
            *rendered(autoscaler.flags, autoscaler.lists),
            *nodes,
        ],
        "env": [*plain, *secret],
        "ports": [{"name": "metrics", "container_port": PORT, "protocol": "TCP"}],
        # A first list of the cloud's groups may take a while; it is unhealthy only when its loop stands still.
        "liveness_probe": {**probe, "initial_delay_seconds": 60, "period_seconds": 30, "failure_threshold": 5},
        "readiness_probe": {**probe, "period_seconds": 10},
        "resources": {
            "requests": {"cpu": chosen.cpu_request, "memory": chosen.memory_request},
            "limits": {"memory": chosen.memory_limit},
        },
        "security_context": restricted_container(),
    }
    spec: dict[str, Any] = {
        "service_account_name": autoscaler.stem,
        "priority_class_name": chosen.priority_class,
        # Never on a machine that it might take away.
        "affinity": control_plane_affinity(),
        "tolerations": control_plane_tolerations(),
        "security_context": restricted_pod(_NONROOT),
        "containers": [container],
    }
    if autoscaler.token_audience is not None:
        container["volume_mounts"] = [{"name": "cloud-token", "mount_path": TOKEN_FOLDER, "read_only": True}]
        spec["volumes"] = [_token_volume(autoscaler.token_audience)]
        # The token's file is root's; the group lets the autoscaler's user read it.
        spec["security_context"] = {**spec["security_context"], "fs_group": _NONROOT}
    if chosen.replicas > 1:
        spec["topology_spread_constraints"] = [
            {
                "max_skew": 1,
                "topology_key": "kubernetes.io/hostname",
                # On one control plane that is left, a second one waits rather than keeping a drain from ending.
                "when_unsatisfiable": "DoNotSchedule",
                "label_selector": {"match_labels": selector},
            }
        ]
    return spec


def deploy_autoscaler(
    name: str,
    autoscaler: Autoscaler,
    groups: Mapping[str, pulumi.Output[NodeGroup]],
    child: pulumi.ResourceOptions,
    rights: Sequence[pulumi.Resource],
) -> kubernetes.apps.v1.Deployment:
    """Declare the autoscaler as children of the component ``name``; ``rights`` are its rights in the cloud."""
    stem = autoscaler.stem
    selector = labels("cluster-autoscaler", stem)
    cluster_wide = {"name": stem, "labels": managed(selector)}
    inside = {**cluster_wide, "namespace": autoscaler.namespace}
    subject = {"kind": "ServiceAccount", "name": stem, "namespace": autoscaler.namespace}
    group = "rbac.authorization.k8s.io"

    needed: list[pulumi.Resource] = []
    if autoscaler.priorities:
        space = kubernetes.core.v1.Namespace(
            f"{name}-namespace",
            metadata={
                **cluster_wide,
                "labels": {**managed(selector), "pod-security.kubernetes.io/enforce": "restricted"},
            },
            opts=child,
        )
        needed.append(_priorities(name, autoscaler, groups, inside, after(child, space)))
        # What lies in a namespace comes after it, and goes before it.
        child = after(child, space)
    account = kubernetes.core.v1.ServiceAccount(f"{name}-account", metadata=inside, opts=child)
    cluster_role = kubernetes.rbac.v1.ClusterRole(
        f"{name}-cluster-role", metadata=cluster_wide, rules=cluster_rules(), opts=child
    )
    cluster_binding = kubernetes.rbac.v1.ClusterRoleBinding(
        f"{name}-cluster-binding",
        metadata=cluster_wide,
        role_ref={"api_group": group, "kind": "ClusterRole", "name": stem},
        subjects=[subject],
        opts=after(child, cluster_role),  # a binding keeps the role's name, which must exist
    )
    role = kubernetes.rbac.v1.Role(f"{name}-role", metadata=inside, rules=namespaced_rules(autoscaler), opts=child)
    binding = kubernetes.rbac.v1.RoleBinding(
        f"{name}-binding",
        metadata=inside,
        role_ref={"api_group": group, "kind": "Role", "name": stem},
        subjects=[subject],
        opts=after(child, role),  # as above
    )
    annotations: dict[str, pulumi.Input[str]] = {}
    if autoscaler.credentials:
        needed.append(_secret(name, autoscaler, inside, child))
        values: pulumi.Output[list[str]] = pulumi.Output.all(*autoscaler.credentials.values())
        kept: pulumi.Output[list[str]] = pulumi.Output.secret(values)
        annotations[CREDENTIALS_ANNOTATION] = kept.apply(lambda known: fingerprint(stem, known))
    kubernetes.policy.v1.PodDisruptionBudget(
        f"{name}-budget",
        metadata=inside,
        # Of one pod, one may go: with none, a control plane that hosts it could never be drained.
        spec={"max_unavailable": 1, "selector": {"match_labels": selector}},
        opts=child,
    )
    return kubernetes.apps.v1.Deployment(
        f"{name}-deployment",
        metadata=inside,
        spec={
            "replicas": autoscaler.pod.replicas,
            "selector": {"match_labels": selector},
            "template": {
                "metadata": {"labels": managed(selector), **({"annotations": annotations} if annotations else {})},
                "spec": cast(Any, _pod(autoscaler, group_flags(autoscaler, groups), selector)),
            },
        },
        # Without its rights, here and in the cloud, it ends at once. It names its groups as outputs of the pools, so it
        # comes after them and goes before them. Never deleted_with anything, or it would go on making machines.
        opts=after(child, account, cluster_binding, binding, *needed, *rights),
    )


def _secret(
    name: str, autoscaler: Autoscaler, metadata: Mapping[str, Any], opts: pulumi.ResourceOptions
) -> kubernetes.core.v1.Secret:
    return kubernetes.core.v1.Secret(
        f"{name}-credentials",
        metadata=cast(Any, metadata),
        type="Opaque",
        # As text: the API server encodes it, once.
        string_data={key: pulumi.Output.secret(value) for key, value in autoscaler.credentials.items()},
        opts=opts,
    )


def _priorities(
    name: str,
    autoscaler: Autoscaler,
    groups: Mapping[str, pulumi.Output[NodeGroup]],
    metadata: Mapping[str, Any],
    opts: pulumi.ResourceOptions,
) -> kubernetes.core.v1.ConfigMap:
    names = pulumi.Output.all(**{key: group.apply(lambda one: str(one["name"])) for key, group in groups.items()})
    # It reads the map anew whenever it decides, so that a change needs no new pod.
    return kubernetes.core.v1.ConfigMap(
        f"{name}-priorities",
        metadata={**cast(Any, metadata), "name": PRIORITY_MAP},
        data={"priorities": names.apply(lambda known: priorities_text(autoscaler.priorities, known))},
        opts=opts,
    )
