"""As whom the autoscaler signs in to its cloud: the inputs, their checks, and the environment that follows.

Variables: kubernetes/autoscaler `cloudprovider/azure/azure_config.go` and
`cloudprovider/alicloud/alicloud_cloud_config.go`, tag 1.36.1; the older names for Alibaba Cloud are those of
1.28.7, which later versions read too.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, NotRequired, TypedDict

import pulumi
from pydantic import BeforeValidator, Field, field_validator, model_validator

from ._contract import Shape
from .autoscaler_identity import (
    Rights,
    aliyun_oidc_rights,
    aliyun_rights,
    azure_identity,
    azure_rights,
)
from .autoscaler_manifests import TOKEN_FILE, trimmed
from .autoscaler_tags import discovery_problems
from .azure_cloud import AUTOSCALER_CLOUDS, AzureEnvironment
from .node_group import NodeGroup
from .oidc_issuer import issuer_problem

AZURE_AUDIENCES = {
    AzureEnvironment.PUBLIC: "api://AzureADTokenExchange",
    AzureEnvironment.CHINA: "api://AzureADTokenExchangeChina",
    AzureEnvironment.US_GOVERNMENT: "api://AzureADTokenExchangeUSGov",
}
"""For whom tokens of the cluster are, by cloud (learn.microsoft.com, "Configure an app to trust an external identity
provider")."""
ALIYUN_AUDIENCE = "sts.aliyuncs.com"

Environment = Mapping[str, pulumi.Input[str]]


class AzureWorkloadIdentityArgs(TypedDict):
    """Sign in without a secret, by tokens of the cluster that Azure trusts."""

    issuer: str
    """The API servers' `service-account-issuer`: a public https address under which Azure finds the cluster's discovery
    document and keys."""


class AzureManagedIdentityArgs(TypedDict):
    """Sign in as an identity that the control planes' own Azure machines have."""

    client_id: str
    """Client id of the managed identity."""


class AzureAutoscalerArgs(TypedDict):
    """Where the autoscaler finds its scale sets on Azure, and as whom: by `client_id` with `client_secret`, by
    `workload_identity`, or by `managed_identity`."""

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
    environment: NotRequired[AzureEnvironment]
    """Which of Microsoft's clouds. Default: `public`."""
    discovery_tags: NotRequired[Mapping[str, str]]
    """Find the scale sets of the resource group by these tags, all of which they carry, instead of naming each: then a
    new pool or another size needs no new pod. Every pool has the same `discovery_tags`, and no other cluster's pool
    has them. Default: each is named."""
    client_id: NotRequired[str]
    """Application (client) id that the autoscaler signs in as."""
    client_secret: NotRequired[pulumi.Input[str]]
    """Secret of that application. Treated as a secret."""
    workload_identity: NotRequired[AzureWorkloadIdentityArgs]
    """No secret: a managed identity is made that trusts this autoscaler's service account."""
    managed_identity: NotRequired[AzureManagedIdentityArgs]
    """No secret, where all control planes are Azure machines with that identity."""
    principal_id: NotRequired[str]
    """Object id of the application's or managed identity's service principal. With it the role is assigned; without it
    the role is made and `role_command` says how to assign it. Not for `workload_identity`, whose own is known."""


class AliyunOidcArgs(TypedDict):
    """Sign in without a secret, by tokens of the cluster that Alibaba Cloud trusts (RRSA)."""

    issuer: str
    """The API servers' `service-account-issuer`: a public https address under which Alibaba Cloud finds the cluster's
    discovery document and keys."""
    fingerprints: NotRequired[Sequence[str]]
    """SHA-1 fingerprints of the certificate authority of that address, 40 hexadecimal digits each, 1 to 5. Needed
    unless `provider_arn` is given."""
    provider_arn: NotRequired[pulumi.Input[str]]
    """ARN of the account's OIDC provider for the issuer, of which there can be one. Default: it is made."""


class AliyunAutoscalerArgs(TypedDict):
    """Where the autoscaler finds its scaling groups on Alibaba Cloud, and as whom: by `access_key_id` with
    `access_key_secret`, or by `oidc`."""

    region: str
    """Region of the scaling groups, such as `cn-hangzhou`."""
    access_key_id: NotRequired[str]
    """Id of the access key that the autoscaler signs in with."""
    access_key_secret: NotRequired[pulumi.Input[str]]
    """Secret of that access key. Treated as a secret."""
    oidc: NotRequired[AliyunOidcArgs]
    """No secret: a RAM role is made that trusts this autoscaler's service account."""
    user_name: NotRequired[str]
    """RAM user of that access key. With it the policy is attached; without it the policy is made and `role_command`
    says how to attach it."""
    policy_name: NotRequired[str]
    """Name of the RAM policy, and of the role of `oidc`, unique in the account: letters, digits and hyphens, for a role
    at most 64. Default: the component's name."""


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value or re.search(r"\s", value):
        raise ValueError("must be text without white space")
    return value


Text = Annotated[str, BeforeValidator(_text)]


class _Issuer(Shape):
    issuer: str

    @model_validator(mode="after")
    def _is_public(self) -> "_Issuer":
        problem = issuer_problem(self.issuer)
        if problem:
            raise ValueError(f"issuer: {problem}")
        return self


class _ManagedIdentity(Shape):
    client_id: Text


class Azure(Shape):
    """The checked inputs for Azure."""

    subscription_id: Text
    tenant_id: Text
    resource_group_name: Any
    resource_group_id: Any
    location: Text
    environment: AzureEnvironment = AzureEnvironment.PUBLIC
    discovery_tags: Mapping[str, str] | None = None
    client_id: Text | None = None
    client_secret: Any = None
    workload_identity: _Issuer | None = None
    managed_identity: _ManagedIdentity | None = None
    principal_id: Text | None = None

    @field_validator("discovery_tags")
    @classmethod
    def _tags_to_find_by(cls, tags: Mapping[str, str] | None) -> Mapping[str, str] | None:
        problems = discovery_problems(tags) if tags is not None else []
        if problems:
            raise ValueError("; ".join(problems))
        return tags

    @model_validator(mode="after")
    def _one_way_in(self) -> "Azure":
        ways = [self.client_id is not None, self.workload_identity is not None, self.managed_identity is not None]
        if sum(ways) != 1:
            raise ValueError(
                "exactly one of client_id (with client_secret), workload_identity and managed_identity must be given"
            )
        if (self.client_id is None) != (self.client_secret is None):
            raise ValueError("client_secret: required with client_id, and of no use without")
        if self.workload_identity is not None and self.principal_id is not None:
            raise ValueError("principal_id: the identity is made here, and its principal known: remove it")
        return self


class _Oidc(_Issuer):
    fingerprints: tuple[Annotated[str, Field(pattern=r"^[0-9A-Fa-f]{40}$")], ...] = Field(default=(), max_length=5)
    provider_arn: Any = None

    @model_validator(mode="after")
    def _provider(self) -> "_Oidc":
        if bool(self.fingerprints) == (self.provider_arn is not None):
            raise ValueError("exactly one of fingerprints and provider_arn must be given")
        return self


class Aliyun(Shape):
    """The checked inputs for Alibaba Cloud."""

    region: Text
    access_key_id: Text | None = None
    access_key_secret: Any = None
    oidc: _Oidc | None = None
    user_name: Text | None = None
    policy_name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]{1,128}$")

    @model_validator(mode="after")
    def _one_way_in(self) -> "Aliyun":
        if (self.access_key_id is None) == (self.oidc is None):
            raise ValueError("exactly one of access_key_id (with access_key_secret) and oidc must be given")
        if (self.access_key_id is None) != (self.access_key_secret is None):
            raise ValueError("access_key_secret: required with access_key_id, and of no use without")
        if self.oidc is not None and self.user_name is not None:
            raise ValueError("user_name: a role is made for oidc, and no user is needed: remove it")
        if self.oidc is not None and len(self.policy_name or "") > 64:
            raise ValueError("policy_name: names the role too, which takes at most 64 characters")
        return self


@dataclass(frozen=True)
class Access:
    """As whom an autoscaler signs in, and what that takes."""

    rights: Rights
    environment: Environment
    credentials: Environment = field(default_factory=dict)
    token_audience: str | None = None


def azure_access(owner: str, name: str, azure: Azure, subject: str, child: pulumi.ResourceOptions) -> Access:
    """Declare the rights on Azure; ``subject`` is the service account as tokens name it."""
    group = pulumi.Output.from_input(azure.resource_group_name).apply(
        partial(trimmed, owner, "azure.resource_group_name")
    )
    plain: dict[str, pulumi.Input[str]] = {
        # Without it the autoscaler asks the metadata service of a machine that is not on Azure, and ends.
        "ARM_SUBSCRIPTION_ID": azure.subscription_id,
        "ARM_TENANT_ID": azure.tenant_id,
        "ARM_RESOURCE_GROUP": group,
        "ARM_VM_TYPE": "vmss",
        "LOCATION": azure.location,
        # By default it expects labels that only AKS sets, and pods that ask for them would grow the pool in vain.
        "AZURE_ENABLE_LABEL_PREDICTIONS_ON_TEMPLATE": "false",
    }
    if azure.environment in AUTOSCALER_CLOUDS:
        # Without it, it asks the public cloud, where neither the tenant nor the scale sets are.
        plain["ARM_CLOUD"] = AUTOSCALER_CLOUDS[azure.environment]
    if azure.workload_identity is not None:
        audience = AZURE_AUDIENCES[azure.environment]
        identity, credential = azure_identity(
            name, group, azure.location, azure.workload_identity.issuer, subject, audience, child
        )
        rights = azure_rights(name, azure.resource_group_id, identity.client_id, identity.principal_id, child)
        plain |= {
            "ARM_CLIENT_ID": identity.client_id,
            "ARM_USE_WORKLOAD_IDENTITY_EXTENSION": "true",
            "AZURE_FEDERATED_TOKEN_FILE": TOKEN_FILE,
        }
        return Access(Rights(rights.command, (credential, *rights.resources)), plain, {}, audience)
    client_id = azure.managed_identity.client_id if azure.managed_identity is not None else azure.client_id
    assert client_id is not None
    rights = azure_rights(name, azure.resource_group_id, client_id, azure.principal_id, child)
    if azure.managed_identity is not None:
        plain |= {"ARM_USE_MANAGED_IDENTITY_EXTENSION": "true", "ARM_USER_ASSIGNED_IDENTITY_ID": client_id}
        return Access(rights, plain)
    secret = pulumi.Output.secret(azure.client_secret).apply(partial(trimmed, owner, "azure.client_secret"))
    return Access(rights, {**plain, "ARM_CLIENT_ID": client_id}, {"ARM_CLIENT_SECRET": secret})


def aliyun_access(
    owner: str,
    name: str,
    aliyun: Aliyun,
    stem: str,
    subject: str,
    groups: Sequence[pulumi.Output[NodeGroup]],
    child: pulumi.ResourceOptions,
) -> Access:
    """Declare the rights on Alibaba Cloud; ``subject`` is the service account as tokens name it."""
    policy_name = aliyun.policy_name or stem
    plain: dict[str, pulumi.Input[str]] = {"REGION_ID": aliyun.region}
    if aliyun.oidc is not None:
        oidc = aliyun.oidc
        role = aliyun_oidc_rights(
            name,
            policy_name,
            aliyun.region,
            groups,
            (oidc.issuer, subject, ALIYUN_AUDIENCE),
            oidc.provider_arn,
            oidc.fingerprints,
            child,
        )
        # It reads these in order: with keys of an access key, even empty ones in part, it would not use the token.
        for prefix, file in (("ALIBABA_CLOUD", "OIDC_TOKEN_FILE"), ("ALICLOUD", "OIDC_TOKEN_FILE_PATH")):
            plain |= {
                f"{prefix}_OIDC_PROVIDER_ARN": role.provider_arn,
                f"{prefix}_{file}": TOKEN_FILE,
                f"{prefix}_ROLE_ARN": role.role_arn,
                f"{prefix}_SESSION_NAME": stem,
            }
        return Access(role.rights, plain, {}, ALIYUN_AUDIENCE)
    rights = aliyun_rights(name, policy_name, aliyun.region, aliyun.user_name, groups, child)
    secret = pulumi.Output.secret(aliyun.access_key_secret).apply(partial(trimmed, owner, "aliyun.access_key_secret"))
    assert aliyun.access_key_id is not None
    return Access(rights, plain, {"ACCESS_KEY_ID": aliyun.access_key_id, "ACCESS_KEY_SECRET": secret})
