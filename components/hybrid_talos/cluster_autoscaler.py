"""The Cluster Autoscaler for the pools of one cloud."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NotRequired, TypedDict

import pulumi
from pydantic import Field, model_validator

from . import cozystack_package
from ._contract import Shape, check
from .autoscaler_access import (
    Access,
    Aliyun,
    AliyunAutoscalerArgs,
    Azure,
    AzureAutoscalerArgs,
    Text,
    aliyun_access,
    azure_access,
)
from .autoscaler_deployment import AutoscalerDeployment
from .autoscaler_flags import flag_problems, missing_problems, split
from .autoscaler_identity import Rights
from .autoscaler_manifests import REPOSITORY, Autoscaler, PodChoices, deploy_autoscaler, read_group
from .autoscaler_options import INSTEAD, BalancingArgs, Expander, LimitsArgs, Options, ScaleDownArgs, image_problem
from .autoscaler_tags import discovery_flag
from .autoscaler_watch import watch_autoscaler
from .manifests import KUBE_SYSTEM, object_base
from .node_group import NodeGroup
from .node_template import POOL_LABEL, TEMPLATE_LABEL
from .sample_workload import PAUSE, sample_workload
from .versions import autoscaler_tag, minor


class AutoscalerPodArgs(TypedDict):
    """How the autoscaler's pod runs. What is absent keeps its default."""

    replicas: NotRequired[int]
    """Pods, of which one leads, 1 to 3, each on a control plane of its own. Default 1."""
    priority_class: NotRequired[str]
    """Priority class. Default `system-cluster-critical`."""
    cpu_request: NotRequired[str]
    """CPU that is kept free for it, as a Kubernetes quantity. Default `100m`."""
    memory_request: NotRequired[str]
    """Memory that is kept free for it, as a Kubernetes quantity. Default `300Mi`."""
    memory_limit: NotRequired[str]
    """Memory above which it is ended, as a Kubernetes quantity. Default `1Gi`, enough for about a thousand nodes."""


class AutoscalerMonitoringArgs(TypedDict):
    """What Prometheus' operator is told of the autoscaler."""

    labels: NotRequired[Mapping[str, str]]
    """Labels of the ServiceMonitor and the PrometheusRule, by which a Prometheus picks its own."""


class SampleWorkloadArgs(TypedDict):
    """A workload that needs new machines of one group, to see them come and, once it is taken away, go."""

    node_group: str
    """Key of that group in `node_groups`."""
    replicas: NotRequired[int]
    """Machines that it needs: one for each pod, 1 to 10. Default 1."""
    cpu: NotRequired[str]
    """CPU of each pod, as a Kubernetes quantity; must fit on an empty machine. Default `500m`."""
    memory: NotRequired[str]
    """Memory of each pod, as a Kubernetes quantity. Default `256Mi`."""
    image: NotRequired[str]
    """Image that does nothing. Default: Kubernetes' own pause image."""


class ClusterAutoscalerArgs(TypedDict):
    """Inputs of ClusterAutoscaler. Exactly one of `azure` and `aliyun` is given."""

    kubernetes_version: str
    """Kubernetes version of the cluster, such as `1.36.3`; the autoscaler's minor version is the same."""
    node_groups: Mapping[str, pulumi.Input[NodeGroup]]
    """The pools' `node_group` outputs by name, all of one cloud, at least one."""
    azure: NotRequired[AzureAutoscalerArgs]
    """Azure, whose scale sets it grows and shrinks."""
    aliyun: NotRequired[AliyunAutoscalerArgs]
    """Alibaba Cloud, whose scaling groups it grows and shrinks."""
    deployment: NotRequired[AutoscalerDeployment]
    """As manifests of this component, or as a package of Cozystack, which has one for Azure. Default manifests."""
    image: NotRequired[str]
    """Image of the autoscaler. Default: the newest known one for the Kubernetes version, from registry.k8s.io."""
    image_repository: NotRequired[str]
    """Where the image lies, without a tag, such as a mirror's `mirror.example.com/autoscaling/cluster-autoscaler`; the
    tag still follows the Kubernetes version. Not together with `image`."""
    expander: NotRequired[Expander]
    """Which group grows when several could. Default: the autoscaler's own, `least-waste`, and `random` before 1.33."""
    priorities: NotRequired[Mapping[str, int]]
    """With the expander `priority`: a number, 0 or more, for each key of `node_groups`; the highest grows first. The
    autoscaler then gets a namespace of its own, since it reads them from a ConfigMap with a fixed name."""
    max_node_provision_minutes: NotRequired[int]
    """Minutes after which a machine that has not become a node is given up, 15 or more: it has to boot, join the mesh
    and get its provider id. Default 20."""
    scale_down_unneeded_minutes: NotRequired[int]
    """Minutes for which a node must be little used before it goes, 1 or more. Default: the autoscaler's own, 10."""
    scale_down_utilization_threshold: NotRequired[float]
    """Share of a node's requests, 0 to 1, below which it counts as little used. Default: the autoscaler's own, 0.5."""
    new_pod_scale_up_delay_seconds: NotRequired[int]
    """Seconds for which a pod must wait before machines are made for it, 0 or more. Default 0. With two autoscalers in
    one cluster, a delay makes this one the second choice."""
    balance_similar_node_groups: NotRequired[bool]
    """Whether groups with equal labels and sizes grow evenly. Default false."""
    scale_down: NotRequired[ScaleDownArgs]
    """When machines go, in detail."""
    balancing: NotRequired[BalancingArgs]
    """Which groups count as equal, with `balance_similar_node_groups`."""
    limits: NotRequired[LimitsArgs]
    """Bounds of the whole cluster."""
    startup_taints: NotRequired[Sequence[str]]
    """Keys of taints that a new node loses by itself, so that it is neither ready nor unsuitable while it has them."""
    status_taints: NotRequired[Sequence[str]]
    """Keys of taints that come and go with the state of a node, and are no part of what its pool is like."""
    scan_interval_seconds: NotRequired[int]
    """Seconds between two looks at the cluster, 5 to 3600. The autoscaler's own: 10."""
    expendable_pods_priority_cutoff: NotRequired[int]
    """Pods of a lower priority neither make machines nor keep them. The autoscaler's own: -10."""
    extra_args: NotRequired[Mapping[str, str]]
    """Further flags without their dashes, such as `max-pod-eviction-time: 5m`. Each is checked against the flags of
    this version and the form of its value; several values of one flag have commas between them."""
    pod: NotRequired[AutoscalerPodArgs]
    """How its pod runs."""
    monitoring: NotRequired[AutoscalerMonitoringArgs]
    """Have Prometheus watch it. The definitions of its operator (ServiceMonitor, PrometheusRule) must be in the
    cluster: the preview fails where they are not."""
    sample_workload: NotRequired[SampleWorkloadArgs]
    """A workload to try it with."""
    log_level: NotRequired[int]
    """How much it writes to its log, 0 to 10. Default 4, which says for each pod why nothing was scaled."""


_PROVIDERS = {"azure": "azure", "aliyun": "alicloud"}

_Quantity = Annotated[str, Field(pattern=r"^[1-9]\d{0,9}(m|Ki|Mi|Gi)?$")]


class _Pod(Shape):
    replicas: int = Field(default=1, ge=1, le=3)
    priority_class: Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")] = "system-cluster-critical"
    cpu_request: _Quantity = "100m"
    memory_request: _Quantity = "300Mi"
    memory_limit: _Quantity = "1Gi"


class _Monitoring(Shape):
    labels: Mapping[str, str] = Field(default_factory=dict)


class _Sample(Shape):
    node_group: str
    replicas: int = Field(default=1, ge=1, le=10)
    cpu: _Quantity = "500m"
    memory: _Quantity = "256Mi"
    image: Text = PAUSE


class _Shape(Options):
    kubernetes_version: str
    node_groups: Mapping[Text, Any] = Field(min_length=1)
    azure: Azure | None = None
    aliyun: Aliyun | None = None
    deployment: AutoscalerDeployment = AutoscalerDeployment.MANIFESTS
    image: Text | None = None
    image_repository: Annotated[str, Field(pattern=r"^[^\s:@]+(:\d+)?(/[^\s:@]+)+$")] | None = None
    pod: _Pod = _Pod()
    monitoring: _Monitoring | None = None
    sample_workload: _Sample | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> "_Shape":
        found = []
        if (self.azure is None) == (self.aliyun is None):
            found.append("exactly one of azure and aliyun must be given")
        found += self.option_problems(self.node_groups)
        found += self._image_problems()
        if self.deployment is AutoscalerDeployment.COZYSTACK_PACKAGE:
            found += self._package_problems()
        if self.sample_workload is not None and self.sample_workload.node_group not in self.node_groups:
            found.append("sample_workload: node_group is none of node_groups")
        version = minor(self.kubernetes_version)
        found += missing_problems([*self.flags(), *self.lists(())], version)
        found += flag_problems(self.extra_args, version, INSTEAD)
        if found:
            raise ValueError("; ".join(found))
        return self

    def _image_problems(self) -> list[str]:
        if self.image is None:
            # Raises what a user should read when there is none.
            autoscaler_tag(self.kubernetes_version)
            return []
        if self.image_repository is not None:
            return ["image_repository: is of no use with image, which names its own: remove one of them"]
        problem = image_problem(self.image, self.kubernetes_version)
        return [f"image: {problem}"] if problem else []

    def _package_problems(self) -> list[str]:
        found = []
        if self.aliyun is not None:
            found.append("deployment: Cozystack has no package for Alibaba Cloud; use manifests")
        if self.image is not None and not re.fullmatch(r"[^@]+:[\w.-]+", self.image):
            found.append("image: Cozystack's chart needs an image with a tag and no digest")
        if self.azure is not None and self.azure.workload_identity is not None:
            found.append("azure.workload_identity: Cozystack's chart gives its pod no token; use manifests")
        if self.azure is not None and self.azure.discovery_tags is not None:
            found.append("azure.discovery_tags: are for manifests alone; remove them, and each pool is named")
        if self.priorities or self.monitoring is not None or self.pod.replicas > 1:
            found.append("priorities, monitoring and pod.replicas: are for manifests alone; remove them")
        return found

    @property
    def cloud(self) -> str:
        """The cloud, as node groups name it."""
        return "azure" if self.azure else "aliyun"

    def autoscaler(self, stem: str, access: Access) -> Autoscaler:
        """Return the autoscaler that these inputs describe."""
        extra, extra_lists = split(self.extra_args)
        repository = self.image_repository or REPOSITORY
        tags = self.azure.discovery_tags if self.azure is not None else None
        return Autoscaler(
            stem=stem,
            cloud_provider=_PROVIDERS[self.cloud],
            image=self.image or f"{repository}:{autoscaler_tag(self.kubernetes_version)}",
            flags={**self.flags(), **extra},
            lists={**self.lists([POOL_LABEL, TEMPLATE_LABEL]), **extra_lists},
            environment=access.environment,
            credentials=access.credentials,
            priorities=self.priorities,
            token_audience=access.token_audience,
            pod=PodChoices(**self.pod.model_dump()),
            discovery=discovery_flag(tags) if tags is not None else None,
        )


class ClusterAutoscaler(pulumi.ComponentResource):
    """One cloud's Cluster Autoscaler: its rights there and in the cluster, its credentials, its Deployment.

    Several run side by side in one cluster, each with names of its own that come from the component's name. Pin
    workloads to a pool by its labels, or give one autoscaler a scale-up delay: all of them see the same waiting pods.
    It needs a controller that writes provider ids, such as TalosCloudController: without, each machine that it makes
    is taken for lost and deleted.
    """

    node_groups: pulumi.Output[Mapping[str, NodeGroup]]
    """The groups that it grows and shrinks, by name."""
    deployment_name: pulumi.Output[str]
    """Name of its Deployment: in `kube-system`; with priorities in a namespace of that name; with Cozystack in
    `cozy-cluster-autoscaler-azure`."""
    role_command: pulumi.Output[str]
    """Command that gives the autoscaler's identity its rights, when nobody was named to give them to; else empty."""

    def __init__(
        self,
        name: str,
        args: ClusterAutoscalerArgs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        owner = f"ClusterAutoscaler '{name}'"
        shape = check(owner, args, ClusterAutoscalerArgs, _Shape)
        base = object_base(owner, name)
        super().__init__("hybrid-talos:index:ClusterAutoscaler", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)

        # By name, not in the order given: the flags of equal pools must be equal, or the pod restarts for nothing.
        groups = {
            key: pulumi.Output.from_input(group).apply(partial(read_group, owner, key, shape.cloud))
            for key, group in sorted(args["node_groups"].items())
        }
        known = list(groups.values())
        stem = base if shape.cloud in base.split("-") else f"{base}-{shape.cloud}"
        # The service account, as tokens name it.
        subject = f"system:serviceaccount:{stem if shape.priorities else KUBE_SYSTEM}:{stem}"
        if shape.azure:
            access = azure_access(owner, name, shape.azure, subject, child)
        else:
            assert shape.aliyun is not None
            access = aliyun_access(owner, name, shape.aliyun, stem, subject, known, child)
        rights = access.rights
        autoscaler = shape.autoscaler(stem, access)
        self.deployment_name = _deploy(name, shape.deployment, autoscaler, groups, child, rights)
        if shape.monitoring is not None:
            watch_autoscaler(name, autoscaler, shape.monitoring.labels, child)
        if shape.sample_workload is not None:
            chosen = shape.sample_workload
            sample_workload(
                name, stem, groups[chosen.node_group], chosen.image, chosen.replicas, chosen.cpu, chosen.memory, child
            )
        self.node_groups = pulumi.Output.all(**groups)
        self.role_command = rights.command
        self.register_outputs(
            {
                "nodeGroups": self.node_groups,
                "deploymentName": self.deployment_name,
                "roleCommand": self.role_command,
            }
        )


def _deploy(
    name: str,
    deployment: AutoscalerDeployment,
    autoscaler: Autoscaler,
    groups: Mapping[str, pulumi.Output[NodeGroup]],
    child: pulumi.ResourceOptions,
    rights: Rights,
) -> pulumi.Output[str]:
    """Declare the autoscaler in the chosen form; return the name of its Deployment."""
    if deployment is AutoscalerDeployment.COZYSTACK_PACKAGE:
        cozystack_package.deploy_package(name, autoscaler, list(groups.values()), child, rights.resources)
        return pulumi.Output.from_input(cozystack_package.DEPLOYMENT)
    made = deploy_autoscaler(name, autoscaler, groups, child, rights.resources)
    deployed: pulumi.Output[str] = made.metadata.apply(lambda metadata: str(metadata.name))
    return deployed
