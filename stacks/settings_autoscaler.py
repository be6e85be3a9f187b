"""The settings of the autoscalers that grow the pools."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from hybrid_talos.autoscaler_deployment import AutoscalerDeployment
from hybrid_talos.autoscaler_options import Expander
from pydantic import BeforeValidator, Field

from .settings_base import Section, Uuid, form


class AzureIdentityKind(StrEnum):
    """How the autoscaler signs in to Azure."""

    SERVICE_PRINCIPAL = "servicePrincipal"
    WORKLOAD_IDENTITY = "workloadIdentity"
    MANAGED_IDENTITY = "managedIdentity"


class AliyunIdentityKind(StrEnum):
    """How the autoscaler signs in to Alibaba Cloud."""

    ACCESS_KEY = "accessKey"
    OIDC = "oidc"


class AzureIdentity(Section):
    """As whom the autoscaler signs in: see [Identity and least privilege](identity.md)."""

    kind: AzureIdentityKind = AzureIdentityKind.SERVICE_PRINCIPAL
    """servicePrincipal, whose secret is `hybrid-talos:azureClientSecret`; workloadIdentity, which is made here and
    needs no secret but `autoscaler.serviceAccountIssuer`; managedIdentity of control planes that are machines on
    Azure."""
    client_id: Uuid | None = None
    """Client id of the application or managed identity. Not for workloadIdentity."""
    principal_id: Uuid | None = None
    """Object id of its service principal; without it the role is made, not assigned, and the command is printed."""


class AliyunIdentity(Section):
    """As whom the autoscaler signs in: see [Identity and least privilege](identity.md)."""

    kind: AliyunIdentityKind = AliyunIdentityKind.ACCESS_KEY
    """accessKey, whose secret is `hybrid-talos:aliyunAccessKeySecret`; or oidc, a role that is made here and needs no
    secret but `autoscaler.serviceAccountIssuer`."""
    access_key_id: (
        Annotated[str, form(r"[A-Za-z0-9.]{8,128}", "be the id of an access key, such as LTAIexample")] | None
    ) = None
    """Id of the access key, which is no secret. Not for oidc."""
    user_name: (
        Annotated[str, form(r"[A-Za-z0-9._-]{1,64}", "be the name of a RAM user, without @ and domain")] | None
    ) = None
    """Name of the RAM user; without it the policy is made, not attached, and the command is printed."""
    issuer_fingerprints: tuple[Annotated[str, form(r"[0-9A-Fa-f]{40}", "be a SHA-1 fingerprint, 40 digits")], ...] = ()
    """For oidc: fingerprints of the certificate authority of the issuer's address, 1 to 5."""


_IMAGE = form(
    r"[a-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)+(:[A-Za-z0-9_.-]+)?(@sha256:[0-9a-f]{64})?",
    "be an image with its registry, such as registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1",
    512,
)
_REPOSITORY = form(
    r"[a-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)+",
    "be a repository without a tag, such as mirror.example.com/autoscaling/cluster-autoscaler",
    512,
)
_KEY = form(r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?", "be the key of a label or taint", 253)
_VALUE = form(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", "be the value of a label", 63)
_QUANTITY = form(r"[1-9][0-9]{0,9}(m|Ki|Mi|Gi)?", "be a quantity as Kubernetes writes it, such as 500m or 2Gi")


class ScaleDown(Section):
    """When machines go, in detail. What is absent stays as the autoscaler has it."""

    delay_after_add_minutes: int | None = None
    """Minutes without scale-down after machines were added. The autoscaler's own: 10."""
    delay_after_delete_seconds: int | None = None
    """Seconds without scale-down after a machine was removed. The autoscaler's own: 0."""
    delay_after_failure_minutes: int | None = None
    """Minutes without scale-down after one failed. The autoscaler's own: 3."""
    unready_minutes: int | None = None
    """Minutes after which a node that is not ready may go, 10 or more. The autoscaler's own: 20."""
    gpu_utilization_threshold: float | None = None
    """The share below which a node with GPUs counts as little used, 0 to 1. The autoscaler's own: 0.5."""
    max_graceful_termination_seconds: int | None = None
    """Most seconds that pods of a node get to end. The autoscaler's own: 600."""
    max_parallel: int | None = None
    """Most machines that are removed at a time. The autoscaler's own: 10."""
    max_parallel_drains: int | None = None
    """Most machines with pods among them. The autoscaler's own: 1."""
    keep_nodes_with_system_pods: bool | None = None
    """Whether pods of kube-system without a budget keep their node for an hour. The autoscaler's own: true."""
    keep_nodes_with_local_storage: bool | None = None
    """Whether pods with emptyDir or hostPath keep their node; false loses that data. The autoscaler's own: true."""
    keep_nodes_with_custom_controller_pods: bool | None = None
    """Whether pods of controllers that it does not know keep their node. The autoscaler's own: true."""
    min_replica_count: int | None = None
    """Fewest replicas that a ReplicaSet must have for its pods to be moved. The autoscaler's own: 0."""
    evict_daemonsets_of_empty_nodes: bool | None = None
    """Whether DaemonSet pods of empty nodes are evicted first. The autoscaler's own: false."""
    evict_daemonsets_of_used_nodes: bool | None = None
    """Whether DaemonSet pods of other nodes are evicted first. The autoscaler's own: true."""
    ignore_daemonsets_utilization: bool | None = None
    """Whether DaemonSet pods count as no use of a node. The autoscaler's own: false."""


class Balancing(Section):
    """Which pools count as similar, with balanceSimilarNodeGroups."""

    labels: tuple[Annotated[str, _KEY], ...] = ()
    """Keys of labels: pools that agree in these are similar, whatever else differs."""
    ignored_labels: tuple[Annotated[str, _KEY], ...] = ()
    """Keys of labels in which similar pools may differ."""


class Limits(Section):
    """Bounds of the whole cluster, above those of each pool."""

    max_nodes_total: int | None = None
    """Most nodes of the cluster, control planes among them."""
    max_cores_total: int | None = None
    """Most CPU cores of the cluster."""
    max_memory_gib_total: int | None = None
    """Most GiB of memory of the cluster."""
    ok_unready_nodes: int | None = None
    """Nodes of the whole cluster that may be unready before maxUnreadyPercentage counts. The autoscaler's own: 3."""
    max_unready_percentage: int | None = None
    """Percent of the cluster's nodes, above which it stops acting. The autoscaler's own: 45."""


class AutoscalerPod(Section):
    """How the autoscaler's pod runs."""

    replicas: int = 1
    """Pods, of which one leads, 1 to 3, each on a control plane of its own."""
    priority_class: str = "system-cluster-critical"
    """Priority class."""
    cpu_request: Annotated[str, _QUANTITY] = "100m"
    """CPU that is kept free for it."""
    memory_request: Annotated[str, _QUANTITY] = "300Mi"
    """Memory that is kept free for it."""
    memory_limit: Annotated[str, _QUANTITY] = "1Gi"
    """Memory above which it is ended."""


class AutoscalerMonitoring(Section):
    """A monitor and alert rules for Prometheus. Its operator's definitions must be in the cluster."""

    labels: Mapping[Annotated[str, _KEY], Annotated[str, _VALUE]] = {}
    """Labels by which that Prometheus picks rules and monitors, such as release: kube-prometheus-stack."""


class SampleWorkload(Section):
    """A workload that needs new machines of a pool, to see them come and, once it is taken away, go."""

    pool: str
    """Name of the pool."""
    replicas: Annotated[int, Field(ge=1, le=10)] = 1
    """Machines that it needs, 1 to 10."""
    cpu: Annotated[str, _QUANTITY] = "500m"
    """CPU of each pod; it must fit on an empty machine."""
    memory: Annotated[str, _QUANTITY] = "256Mi"
    """Memory of each pod."""


def _no_package(value: Any) -> Any:
    if value == AutoscalerDeployment.COZYSTACK_PACKAGE.value:
        raise ValueError("must be manifests: Cozystack has no package for Alibaba Cloud")
    return value


def _no_discovery(value: Any) -> Any:
    if value is not False:
        raise ValueError("must be false: the autoscaler of Alibaba Cloud takes groups by their ids alone; remove it")
    return value


class AutoscalerOptions(Section):
    """What the autoscalers of both clouds have in common."""

    image: Annotated[str, _IMAGE] | None = None
    """Image, if it does not come from registry.k8s.io; its minor must be Kubernetes' own."""
    image_repository: Annotated[str, _REPOSITORY] | None = None
    """A mirror's repository without a tag, which follows the Kubernetes version."""
    expander: Expander | None = None
    """Which pool grows when several could. The autoscaler's own: least-waste."""
    priorities: Mapping[str, int] = {}
    """With the expander priority: a number for each pool of this cloud; the highest grows first."""
    max_node_provision_minutes: int | None = None
    """Minutes after which a machine that has not become a node is given up, 15 or more. Default 20."""
    scale_down_unneeded_minutes: int | None = None
    """Minutes for which a node must be little used before it goes. The autoscaler's own: 10."""
    scale_down_utilization_threshold: float | None = None
    """Share of a node's requests, 0 to 1, below which it counts as little used. The autoscaler's own: 0.5."""
    scale_down: ScaleDown = ScaleDown()
    """When machines go, in detail."""
    new_pod_scale_up_delay_seconds: int | None = None
    """Seconds for which a pod must wait before this cloud makes machines for it; makes it the second choice."""
    balance_similar_node_groups: bool = False
    """Whether pools with equal labels and sizes grow evenly."""
    balancing: Balancing = Balancing()
    """Which pools count as similar."""
    limits: Limits = Limits()
    """Bounds of the whole cluster."""
    startup_taints: tuple[Annotated[str, _KEY], ...] = ()
    """Keys of taints that a new node loses by itself."""
    status_taints: tuple[Annotated[str, _KEY], ...] = ()
    """Keys of taints that come and go with the state of a node."""
    scan_interval_seconds: int | None = None
    """Seconds between two looks at the cluster, 5 to 3600. The autoscaler's own: 10."""
    expendable_pods_priority_cutoff: int | None = None
    """Pods of a lower priority neither make machines nor keep them. The autoscaler's own: -10."""
    log_level: int | None = None
    """How much it writes to its log, 0 to 10. Default 4."""
    extra_args: Mapping[str, str] = {}
    """Further flags without their dashes, each value as text: see [Flags of the autoscaler](autoscaler-flags.md)."""
    pod: AutoscalerPod = AutoscalerPod()
    """How its pod runs."""
    monitoring: AutoscalerMonitoring | None = None
    """Have Prometheus watch it."""
    sample_workload: SampleWorkload | None = None
    """A workload to try it with."""


class AzureAutoscaler(AutoscalerOptions):
    """The autoscaler of the Azure pools."""

    identity: AzureIdentity
    """As whom it signs in."""
    deployment: AutoscalerDeployment = AutoscalerDeployment.MANIFESTS
    """manifests or cozystackPackage."""
    discovery: bool = False
    """Let it find its scale sets by tags instead of naming each, so that a new pool or another size needs no new
    pod. Only with manifests."""


class AliyunAutoscaler(AutoscalerOptions):
    """The autoscaler of the Alibaba Cloud pools."""

    identity: AliyunIdentity
    """As whom it signs in."""
    deployment: Annotated[AutoscalerDeployment, BeforeValidator(_no_package)] = AutoscalerDeployment.MANIFESTS
    """Always manifests: Cozystack has no package for Alibaba Cloud."""
    discovery: Annotated[bool, BeforeValidator(_no_discovery)] = False
    """Always false: the autoscaler of Alibaba Cloud takes groups by their ids alone."""


def discovery_tags(cluster: str) -> dict[str, str]:
    """Return the tags by which the autoscaler of a cluster finds its scale sets, named as in its upstream chart."""
    return {"cluster-autoscaler-enabled": "true", "cluster-autoscaler-name": cluster}


class AutoscalerSettings(Section):
    """The autoscalers, one for each cloud: see [Autoscaling](autoscaling.md)."""

    azure: AzureAutoscaler | None = None
    """The autoscaler of the Azure pools."""
    aliyun: AliyunAutoscaler | None = None
    """The autoscaler of the Alibaba Cloud pools."""
    service_account_issuer: str | None = None
    """The API servers' service-account-issuer, a public https address. Needed for identities without a secret."""
    require_selectors: bool = False
    """Refuse what is else a notice: autoscalers of two clouds that would both make machines for the same pods, since
    neither waits and the pools share no label that tells the clouds apart."""
