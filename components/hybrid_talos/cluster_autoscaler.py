"""The Cluster Autoscaler for the pools of one cloud."""

import re
from collections.abc import Mapping
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, NotRequired, TypedDict

import pulumi
from pydantic import BeforeValidator, Field, model_validator

from . import cozystack_package
from ._contract import Shape, check
from .autoscaler_deployment import AutoscalerDeployment
from .autoscaler_identity import Rights, aliyun_rights, azure_rights
from .autoscaler_manifests import REPOSITORY, Autoscaler, deploy_autoscaler, read_group, trimmed
from .manifests import object_base
from .node_group import NodeGroup
from .versions import autoscaler_tag, minor, text


class Expander(StrEnum):
    """Which group grows when several could."""

    RANDOM = "random"
    """Any of them."""
    MOST_PODS = "most-pods"
    """The one in which most waiting pods find room."""
    LEAST_WASTE = "least-waste"
    """The one that leaves least CPU idle, then least memory."""
    LEAST_NODES = "least-nodes"
    """The one that needs the fewest new machines."""


class AzureAutoscalerArgs(TypedDict):
    """Where the autoscaler finds its scale sets on Azure, and as whom."""

    subscription_id: str
    """Subscription of the scale sets."""
    tenant_id: str
    """Tenant of the application that the autoscaler signs in as."""
    resource_group_name: pulumi.Input[str]
    """Resource group of the scale sets; all of them lie in one."""
    resource_group_id: pulumi.Input[str]
    """Id of that resource group: `/subscriptions/.../resourceGroups/...`. The role is for it alone."""
    location: str
    """Region of the scale sets, such as `westeurope`."""
    client_id: str
    """Application (client) id that the autoscaler signs in as."""
    client_secret: pulumi.Input[str]
    """Secret of that application. Treated as a secret."""
    principal_id: NotRequired[str]
    """Object id of the application's service principal. With it the role is assigned; without it the role is made
    and `role_command` says how to assign it."""


class AliyunAutoscalerArgs(TypedDict):
    """Where the autoscaler finds its scaling groups on Alibaba Cloud, and as whom."""

    region: str
    """Region of the scaling groups, such as `cn-hangzhou`."""
    access_key_id: str
    """Id of the access key that the autoscaler signs in with."""
    access_key_secret: pulumi.Input[str]
    """Secret of that access key. Treated as a secret."""
    user_name: NotRequired[str]
    """RAM user of that access key. With it the policy is attached; without it the policy is made and `role_command`
    says how to attach it."""
    policy_name: NotRequired[str]
    """Name of the RAM policy, unique in the account: letters, digits and hyphens. Default: the component's name."""


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
    expander: NotRequired[Expander]
    """Which group grows when several could. Default: the autoscaler's own, `least-waste`."""
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
    log_level: NotRequired[int]
    """How much it writes to its log, 0 to 10. Default 4, which says for each pod why nothing was scaled."""


_PROVIDERS = {"azure": "azure", "aliyun": "alicloud"}


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or re.search(r"\s", value):
        raise ValueError("must be text without white space")
    return value


_Text = Annotated[str, BeforeValidator(_text)]


class _Azure(Shape):
    subscription_id: _Text
    tenant_id: _Text
    resource_group_name: Any
    resource_group_id: Any
    location: _Text
    client_id: _Text
    client_secret: Any
    principal_id: _Text | None = None


class _Aliyun(Shape):
    region: _Text
    access_key_id: _Text
    access_key_secret: Any
    user_name: _Text | None = None
    policy_name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]{1,128}$")


class _Shape(Shape):
    kubernetes_version: str
    node_groups: Mapping[_Text, Any] = Field(min_length=1)
    azure: _Azure | None = None
    aliyun: _Aliyun | None = None
    deployment: AutoscalerDeployment = AutoscalerDeployment.MANIFESTS
    image: _Text | None = None
    expander: Expander | None = None
    max_node_provision_minutes: int = Field(default=20, ge=15)
    scale_down_unneeded_minutes: int | None = Field(default=None, ge=1)
    scale_down_utilization_threshold: float | None = Field(default=None, ge=0, le=1)
    new_pod_scale_up_delay_seconds: int | None = Field(default=None, ge=0)
    balance_similar_node_groups: bool = False
    log_level: int = Field(default=4, ge=0, le=10)

    @model_validator(mode="after")
    def _one_cloud_and_matching_versions(self) -> "_Shape":
        found = []
        if (self.azure is None) == (self.aliyun is None):
            found.append("exactly one of azure and aliyun must be given")
        package = self.deployment is AutoscalerDeployment.COZYSTACK_PACKAGE
        if package and self.aliyun is not None:
            found.append("deployment: Cozystack has no package for Alibaba Cloud; use manifests")
        if package and self.image is not None and not re.fullmatch(r"[^@]+:[\w.-]+", self.image):
            found.append("image: Cozystack's chart needs an image with a tag and no digest")
        kubernetes = minor(self.kubernetes_version)
        tag = re.search(r":v?(\d+\.\d+)[^/]*$", self.image) if self.image else None
        if tag and tag[1] != text(kubernetes):
            found.append(
                f"image: its version {tag[1]} is not the minor version of Kubernetes, {text(kubernetes)}; "
                "other pairs are not tested upstream"
            )
        if self.image is None:
            autoscaler_tag(self.kubernetes_version)
        if found:
            raise ValueError("; ".join(found))
        return self

    @property
    def cloud(self) -> str:
        """The cloud, as node groups name it."""
        return "azure" if self.azure else "aliyun"

    def flags(self) -> dict[str, str]:
        """Return the autoscaler's flags that are the same wherever it runs."""
        chosen = {
            # Without it a raised minimum makes no machines.
            "enforce-node-group-min-size": "true",
            "max-node-provision-time": f"{self.max_node_provision_minutes}m",
            "v": str(self.log_level),
        }
        if self.expander is not None:
            chosen["expander"] = self.expander.value
        if self.scale_down_unneeded_minutes is not None:
            chosen["scale-down-unneeded-time"] = f"{self.scale_down_unneeded_minutes}m"
        if self.scale_down_utilization_threshold is not None:
            chosen["scale-down-utilization-threshold"] = f"{self.scale_down_utilization_threshold:g}"
        if self.new_pod_scale_up_delay_seconds is not None:
            chosen["new-pod-scale-up-delay"] = f"{self.new_pod_scale_up_delay_seconds}s"
        if self.balance_similar_node_groups:
            chosen["balance-similar-node-groups"] = "true"
        return chosen


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
    """Name of its Deployment: in `kube-system`, or with Cozystack in `cozy-cluster-autoscaler-azure`."""
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
        if shape.azure:
            environment, credentials = _azure_environment(owner, shape.azure)
            rights = azure_rights(
                name, shape.azure.resource_group_id, shape.azure.client_id, shape.azure.principal_id, child
            )
        else:
            assert shape.aliyun is not None
            aliyun = shape.aliyun
            environment, credentials = _aliyun_environment(owner, aliyun)
            rights = aliyun_rights(name, aliyun.policy_name or stem, aliyun.region, aliyun.user_name, known, child)
        autoscaler = Autoscaler(
            stem=stem,
            cloud_provider=_PROVIDERS[shape.cloud],
            image=shape.image or f"{REPOSITORY}:{autoscaler_tag(shape.kubernetes_version)}",
            flags=shape.flags(),
            environment=environment,
            credentials=credentials,
        )
        self.deployment_name = _deploy(name, shape.deployment, autoscaler, known, child, rights)
        self.node_groups = pulumi.Output.all(**groups)
        self.role_command = rights.command
        self.register_outputs(
            {
                "nodeGroups": self.node_groups,
                "deploymentName": self.deployment_name,
                "roleCommand": self.role_command,
            }
        )


Environment = Mapping[str, pulumi.Input[str]]


def _azure_environment(owner: str, azure: _Azure) -> tuple[Environment, Environment]:
    """Return the plain and the secret environment on Azure."""
    group = pulumi.Output.from_input(azure.resource_group_name)
    plain: Environment = {
        # Without it the autoscaler asks the metadata service of a machine that is not on Azure, and ends.
        "ARM_SUBSCRIPTION_ID": azure.subscription_id,
        "ARM_TENANT_ID": azure.tenant_id,
        "ARM_CLIENT_ID": azure.client_id,
        "ARM_RESOURCE_GROUP": group.apply(partial(trimmed, owner, "azure.resource_group_name")),
        "ARM_VM_TYPE": "vmss",
        "LOCATION": azure.location,
        # By default it expects labels that only AKS sets, and pods that ask for them would grow the pool in vain.
        "AZURE_ENABLE_LABEL_PREDICTIONS_ON_TEMPLATE": "false",
    }
    secret = pulumi.Output.secret(azure.client_secret).apply(partial(trimmed, owner, "azure.client_secret"))
    return plain, {"ARM_CLIENT_SECRET": secret}


def _aliyun_environment(owner: str, aliyun: _Aliyun) -> tuple[Environment, Environment]:
    """Return the plain and the secret environment on Alibaba Cloud."""
    secret = pulumi.Output.secret(aliyun.access_key_secret).apply(partial(trimmed, owner, "aliyun.access_key_secret"))
    return {"REGION_ID": aliyun.region}, {"ACCESS_KEY_ID": aliyun.access_key_id, "ACCESS_KEY_SECRET": secret}


def _deploy(
    name: str,
    deployment: AutoscalerDeployment,
    autoscaler: Autoscaler,
    groups: list[pulumi.Output[NodeGroup]],
    child: pulumi.ResourceOptions,
    rights: Rights,
) -> pulumi.Output[str]:
    """Declare the autoscaler in the chosen form; return the name of its Deployment."""
    if deployment is AutoscalerDeployment.COZYSTACK_PACKAGE:
        cozystack_package.deploy_package(name, autoscaler, groups, child, rights.resources)
        return pulumi.Output.from_input(cozystack_package.DEPLOYMENT)
    made = deploy_autoscaler(name, autoscaler, groups, child, rights.resources)
    deployed: pulumi.Output[str] = made.metadata.apply(lambda metadata: str(metadata.name))
    return deployed
