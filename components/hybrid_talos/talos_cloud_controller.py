"""The cloud controller that gives each node its provider id, and the collector of nodes whose machine is gone."""

import hashlib
from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
import pulumi_kubernetes as kubernetes
from pydantic import Field, model_validator

from . import node_collector
from ._contract import Shape, check
from .manifests import (
    KUBE_SYSTEM,
    after,
    control_plane_affinity,
    control_plane_tolerations,
    labels,
    managed,
    object_base,
    restricted_container,
    restricted_pod,
)
from .mesh_plan import KUBEPRISM_PORT
from .node_collector import Collector, deploy_collector
from .node_transformations import Transformation, TransformationArgs, controller_config
from .versions import check_pair, minor, normalise_version

IMAGE = "ghcr.io/siderolabs/talos-cloud-controller-manager:v1.12.0"

# The published manifests of v1.12.0 still say 50258, which lies in Linux's ephemeral range and so may be taken by any
# connection of the host; the chart moved to this one (siderolabs/talos-cloud-controller-manager, commit eb3ad9e).
_PORT = 10458
_USER = 10258

CONFIG_ANNOTATION = "hybrid-talos.dev/config"
"""Pod annotation that changes with the controller's configuration."""
_LEASE = "cloud-controller-manager-talos"


class NodeCollectorArgs(TypedDict):
    """How Node objects are removed whose machine is gone."""

    enabled: NotRequired[bool]
    """Whether the collector is deployed. Default true."""
    gone_after_minutes: NotRequired[int]
    """Minutes for which a pool's node must not have reported, while another node of its pool is ready, 10 or more.
    Default 30, so that the autoscaler, which waits for 20, has removed the machine of a node that is only silent."""
    silent_pool_after_minutes: NotRequired[int]
    """The same for a pool of which no node is ready, since it may be cut off rather than gone; at least
    `gone_after_minutes`. Default 1440, a day."""
    dry_run: NotRequired[bool]
    """True to write to the log only which nodes would be deleted. Default false."""
    image: NotRequired[str]
    """Image with `python3`, 3.11 or later. Default: Python's official one."""


class TalosCloudControllerArgs(TypedDict):
    """Inputs of TalosCloudController."""

    kubernetes_version: str
    """Kubernetes version of the cluster, such as `1.36.3`; 1.30 or later."""
    talos_version: NotRequired[str]
    """Talos version of the machines, such as `1.14.0`; when given, it must run that Kubernetes."""
    image: NotRequired[str]
    """Image of the controller. Default: Talos CCM v1.12.0 from ghcr.io."""
    replicas: NotRequired[int]
    """Controllers, of which one leads, 1 to 9. Default 1. Each needs a control plane of its own."""
    transformations: NotRequired[Sequence[TransformationArgs]]
    """Changes to what the controller writes to nodes, such as labels or another provider id, in the order in which they
    are applied."""
    collector: NotRequired[NodeCollectorArgs]
    """The collector of nodes whose machine is gone."""


class _Collector(Shape):
    enabled: bool = True
    gone_after_minutes: int = Field(default=30, ge=10)
    silent_pool_after_minutes: int = Field(default=1440, ge=10)
    dry_run: bool = False
    image: str = Field(default=node_collector.IMAGE, pattern=r"^\S+$")

    @model_validator(mode="after")
    def _in_order(self) -> "_Collector":
        if self.silent_pool_after_minutes < self.gone_after_minutes:
            raise ValueError("silent_pool_after_minutes is below gone_after_minutes")
        return self


class _Shape(Shape):
    kubernetes_version: str
    talos_version: str | None = None
    image: str = Field(default=IMAGE, pattern=r"^\S+$")
    replicas: int = Field(default=1, ge=1, le=9)
    transformations: tuple[Transformation, ...] = ()
    collector: _Collector = _Collector()

    @model_validator(mode="after")
    def _versions_fit(self) -> "_Shape":
        normalise_version(self.kubernetes_version)
        # Admission policies, which keep the collector within the pools, are stable from 1.30 on.
        if minor(self.kubernetes_version) < (1, 30):
            raise ValueError("kubernetes_version is below 1.30")
        if self.talos_version is not None and (problem := check_pair(self.talos_version, self.kubernetes_version)):
            raise ValueError(problem)
        names = [one.name for one in self.transformations]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"transformations: the name {', '.join(twice)} stands twice")
        return self


def rules() -> list[dict[str, Any]]:
    """Return what the controller may do in the whole cluster.

    `docs/deploy/cloud-controller-manager.yml` of its repository, less what it grants for
    `--use-service-account-credentials`: to make tokens of any service account is to be the cluster's administrator.
    """
    certificates = "certificates.k8s.io"
    return [
        _rule("", ["events"], ["create", "patch", "update"]),
        _rule("", ["nodes"], ["get", "list", "patch", "update", "watch"]),
        _rule("", ["nodes/status"], ["patch"]),
        _rule(certificates, ["certificatesigningrequests"], ["list", "watch"]),
        _rule(certificates, ["certificatesigningrequests/approval"], ["update"]),
        _rule(certificates, ["signers"], ["approve"], resource_names=["kubernetes.io/kubelet-serving"]),
    ]


def namespaced_rules() -> list[dict[str, Any]]:
    """Return what the controller may do in its own namespace: to take and keep its lease."""
    leases = "coordination.k8s.io", ["leases"]
    return [_rule(*leases, ["create"]), _rule(*leases, ["get", "update"], resource_names=[_LEASE])]


def _rule(group: str, resources: list[str], verbs: list[str], **names: list[str]) -> dict[str, Any]:
    return {"api_groups": [group], "resources": resources, "verbs": verbs, **names}


def _pod(stem: str, talos_secret: str, image: str) -> dict[str, Any]:
    def field(name: str, path: str) -> dict[str, Any]:
        return {"name": name, "value_from": {"field_ref": {"field_path": path}}}

    return {
        "service_account_name": stem,
        "priority_class_name": "system-cluster-critical",
        # On the host's network it needs no pod network, which may itself wait for the nodes that this initialises.
        "host_network": True,
        "dns_policy": "ClusterFirstWithHostNet",
        "affinity": control_plane_affinity(),
        "tolerations": [
            *control_plane_tolerations(),
            # It is what removes the first of these, and may be what the second waits for.
            {"key": "node.cloudprovider.kubernetes.io/uninitialized", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"},
        ],
        "security_context": {**restricted_pod(_USER), "fs_group": _USER, "fs_group_change_policy": "OnRootMismatch"},
        "containers": [
            {
                "name": "talos-cloud-controller-manager",
                "image": image,
                "command": ["/talos-cloud-controller-manager"],
                "args": [
                    "--v=2",
                    "--cloud-provider=talos",
                    "--cloud-config=/etc/talos/ccm-config.yaml",
                    # Not cloud-node-lifecycle: it takes every instance for existing, and would only cost requests.
                    "--controllers=cloud-node,node-csr-approval",
                    # One name for all instances: two of them would approve and label against each other.
                    f"--leader-elect-resource-name={_LEASE}",
                    f"--secure-port={_PORT}",
                    "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics",
                ],
                "env": [
                    field("SERVICE_ACCOUNT", "spec.serviceAccountName"),
                    # The machine's own Talos API, which passes requests on to the others.
                    field("TALOS_ENDPOINTS", "status.hostIP"),
                    # KubePrism, which knows all API servers and needs no service network.
                    {"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"},
                    {"name": "KUBERNETES_SERVICE_PORT", "value": str(KUBEPRISM_PORT)},
                ],
                "ports": [{"name": "metrics", "container_port": _PORT, "host_port": _PORT, "protocol": "TCP"}],
                "liveness_probe": {
                    "http_get": {"path": "/healthz", "port": _PORT, "scheme": "HTTPS"},
                    "initial_delay_seconds": 20,
                    "period_seconds": 30,
                    "timeout_seconds": 5,
                },
                "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
                "security_context": restricted_container(),
                "volume_mounts": [
                    {"name": "cloud-config", "mount_path": "/etc/talos", "read_only": True},
                    {"name": "talos-secrets", "mount_path": "/var/run/secrets/talos.dev", "read_only": True},
                ],
            }
        ],
        "volumes": [
            {"name": "cloud-config", "config_map": {"name": stem, "default_mode": 0o440}},
            # Talos itself writes this Secret, for the ServiceAccount of its API.
            {"name": "talos-secrets", "secret": {"secret_name": talos_secret, "default_mode": 0o440}},
        ],
    }


def _mark(transformations: Sequence[Transformation], config: str) -> dict[str, Any]:
    """Return the annotation that makes a new pod when the configuration changes: it is read at start-up alone."""
    if not transformations:
        return {}
    return {"annotations": {CONFIG_ANNOTATION: hashlib.sha256(config.encode()).hexdigest()[:16]}}


class TalosCloudController(pulumi.ComponentResource):
    """Talos' cloud controller manager, and a collector of Node objects whose machine is gone.

    The controller copies provider id, zone and addresses of each machine to its Node, removes the taint of machines
    that are new, and approves the kubelets' serving certificates. The autoscalers need those provider ids. It needs
    of the machines: `cloud-provider: external` and `rotate-server-certificates` for every kubelet, and on control
    planes `kubernetesTalosAPIAccess` for the role `os:reader` and the namespace `kube-system`.

    Deploy no second controller that removes the taint, such as local-ccm: the provider id would never be written.
    """

    deployment_name: pulumi.Output[str]
    """Name of the controller's Deployment in `kube-system`."""

    def __init__(
        self,
        name: str,
        args: TalosCloudControllerArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        owner = f"TalosCloudController '{name}'"
        shape = check(owner, args, TalosCloudControllerArgs, _Shape)
        base = object_base(owner, name)
        super().__init__("hybrid-talos:index:TalosCloudController", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)

        stem, talos_secret = f"{base}-talos-ccm", f"{base}-talos-ccm-api"
        selector = labels("talos-cloud-controller-manager", base)
        inside = {"name": stem, "namespace": KUBE_SYSTEM, "labels": managed(selector)}
        cluster_wide = {"name": f"system:{stem}", "labels": managed(selector)}
        subject = {"kind": "ServiceAccount", "name": stem, "namespace": KUBE_SYSTEM}

        account = kubernetes.core.v1.ServiceAccount(f"{name}-account", metadata=inside, opts=child)
        talos_account = kubernetes.apiextensions.CustomResource(
            f"{name}-talos-account",
            api_version="talos.dev/v1alpha1",
            kind="ServiceAccount",
            metadata={**inside, "name": talos_secret},
            spec={"roles": ["os:reader"]},
            opts=child,
        )
        config_text = controller_config(shape.transformations)
        config = kubernetes.core.v1.ConfigMap(
            f"{name}-config", metadata=inside, data={"ccm-config.yaml": config_text}, opts=child
        )
        role = kubernetes.rbac.v1.ClusterRole(f"{name}-role", metadata=cluster_wide, rules=rules(), opts=child)
        binding = kubernetes.rbac.v1.ClusterRoleBinding(
            f"{name}-binding",
            metadata=cluster_wide,
            role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"system:{stem}"},
            subjects=[subject],
            opts=after(child, role),  # a binding keeps the role's name, which must exist
        )
        lease_role = kubernetes.rbac.v1.Role(
            f"{name}-lease-role", metadata=inside, rules=namespaced_rules(), opts=child
        )
        lease_binding = kubernetes.rbac.v1.RoleBinding(
            f"{name}-lease-binding",
            metadata=inside,
            role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "Role", "name": stem},
            subjects=[subject],
            opts=after(child, lease_role),  # as above
        )
        reader = kubernetes.rbac.v1.RoleBinding(
            f"{name}-authentication-reader",
            metadata={**inside, "name": f"{stem}-authentication-reader"},
            role_ref={
                "api_group": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": "extension-apiserver-authentication-reader",
            },
            subjects=[subject],
            opts=child,
        )
        deployment = kubernetes.apps.v1.Deployment(
            f"{name}-deployment",
            metadata=inside,
            spec={
                "replicas": shape.replicas,
                # Its port is the host's: on a single control plane a new pod fits only when the old one is gone.
                "strategy": {"type": "RollingUpdate", "rolling_update": {"max_surge": 0, "max_unavailable": 1}},
                "selector": {"match_labels": selector},
                "template": {
                    "metadata": {"labels": managed(selector), **_mark(shape.transformations, config_text)},
                    "spec": _pod(stem, talos_secret, shape.image),
                },
            },
            # It starts only with its Secret, and stops where it may not read or write.
            opts=after(child, account, talos_account, config, binding, lease_binding, reader),
        )
        if shape.collector.enabled:
            collector = Collector(
                base=f"{base}-node-collector",
                image=shape.collector.image,
                gone_minutes=shape.collector.gone_after_minutes,
                silent_pool_minutes=shape.collector.silent_pool_after_minutes,
                dry_run=shape.collector.dry_run,
            )
            deploy_collector(name, collector, child)

        self.deployment_name = deployment.metadata.apply(lambda metadata: str(metadata.name))
        self.register_outputs({"deploymentName": self.deployment_name})
