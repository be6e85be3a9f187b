"""What the autoscalers may do in their clouds: the least that their code calls.

Azure: the requests of kubernetes/autoscaler `cluster-autoscaler/cloudprovider/azure/`, tag 1.36.1.
Alibaba Cloud: `cloudprovider/alicloud/alicloud_auto_scaling.go`, `alicloud_manager.go`, `alicloud_instance_types.go`,
same tag; its README lists six actions that the code no longer calls, and lacks `ess:ScaleWithAdjustment`.
"""

import json
import shlex
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_alicloud as alicloud
import pulumi_azure_native as azure

from .node_group import NodeGroup

AZURE_ACTIONS = (
    "Microsoft.Compute/virtualMachineScaleSets/read",
    "Microsoft.Compute/virtualMachineScaleSets/write",
    # Removes instances of a set; the right to delete the set itself is not given.
    "Microsoft.Compute/virtualMachineScaleSets/delete/action",
    "Microsoft.Compute/virtualMachineScaleSets/virtualMachines/read",
    # It lists single machines too, even when there are none, and stops when refused.
    "Microsoft.Compute/virtualMachines/read",
    "Microsoft.Compute/locations/operations/read",
)

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://hybrid-talos.dev/azure-role")


@dataclass(frozen=True)
class Rights:
    """The rights that were made, and the command that assigns them where nobody was named."""

    command: pulumi.Output[str]
    resources: Sequence[pulumi.Resource] = field(default_factory=tuple)


def stable_guid(*parts: str) -> str:
    """Return a GUID that is always the same for the same parts: Azure names roles and assignments by one."""
    return str(uuid.uuid5(_NAMESPACE, "\0".join(parts)))


def azure_command(client_id: str, role: str, scope: str) -> str:
    """Return the command that assigns ``role`` to the application ``client_id``."""
    return shlex.join(["az", "role", "assignment", "create", "--assignee", client_id, "--role", role, "--scope", scope])


def azure_rights(
    name: str,
    scope: pulumi.Input[str],
    client_id: pulumi.Input[str],
    principal_id: pulumi.Input[str] | None,
    child: pulumi.ResourceOptions,
) -> Rights:
    """Declare a role for one resource group and, when ``principal_id`` is given, its assignment."""
    group = pulumi.Output.from_input(scope)
    # Azure writes the group's path in either case; one group must give one GUID.
    guid = group.apply(lambda path: stable_guid("role", path.lower(), name))
    role = azure.authorization.RoleDefinition(
        f"{name}-cloud-role",
        role_definition_id=guid,
        # Unique in the whole tenant, so it carries a piece of the GUID.
        role_name=guid.apply(lambda value: f"hybrid-talos {name} {value[:8]}"),
        role_type="CustomRole",
        description="What the Cluster Autoscaler of a Talos cluster does with its scale sets.",
        permissions=[{"actions": list(AZURE_ACTIONS), "not_actions": []}],
        assignable_scopes=[group],
        scope=group,
        opts=child,
    )
    if principal_id is None:
        return Rights(pulumi.Output.all(client_id, role.id, group).apply(lambda all_: azure_command(*all_)), (role,))
    assignment = azure.authorization.RoleAssignment(
        f"{name}-cloud-role-assignment",
        role_assignment_name=pulumi.Output.all(group, principal_id).apply(
            lambda both: stable_guid("assignment", both[0].lower(), name, both[1])
        ),
        principal_id=principal_id,
        # Said outright, or Azure looks the principal up and fails while a new one is not yet known everywhere.
        principal_type="ServicePrincipal",
        role_definition_id=role.id,
        scope=group,
        opts=child,
    )
    return Rights(pulumi.Output.from_input(""), (role, assignment))


def azure_identity(
    name: str,
    resource_group_name: pulumi.Input[str],
    location: str,
    issuer: str,
    subject: str,
    audience: str,
    child: pulumi.ResourceOptions,
) -> tuple[azure.managedidentity.UserAssignedIdentity, azure.managedidentity.FederatedIdentityCredential]:
    """Declare a managed identity that trusts the tokens of one service account of the cluster."""
    identity = azure.managedidentity.UserAssignedIdentity(
        f"{name}-cloud-identity",
        # Named, so that two previews agree; unique within the resource group.
        resource_name_=f"{name}-autoscaler",
        resource_group_name=resource_group_name,
        location=location,
        opts=child,
    )
    credential = azure.managedidentity.FederatedIdentityCredential(
        f"{name}-cloud-identity-trust",
        federated_identity_credential_resource_name=f"{name}-autoscaler",
        resource_name_=identity.name,
        resource_group_name=resource_group_name,
        issuer=issuer,
        subject=subject,
        audiences=[audience],
        opts=child,
    )
    return identity, credential


def aliyun_policy(region: str, groups: Sequence[NodeGroup]) -> str:
    """Return the RAM policy for an autoscaler of ``groups``: reads anything, changes these groups alone."""
    statements: list[dict[str, Any]] = [
        {
            "Effect": "Allow",
            "Action": [
                "ess:DescribeScalingConfigurations",
                "ess:DescribeScalingGroups",
                "ess:DescribeScalingInstances",
                "ecs:DescribeInstanceTypes",
            ],
            "Resource": ["*"],
        },
        {
            "Effect": "Allow",
            "Action": ["ess:RemoveInstances", "ess:ScaleWithAdjustment"],
            # A policy counts in its own account only, so the account's number may be left open.
            "Resource": sorted(f"acs:ess:{region}:*:scalinggroup/{group['name']}" for group in groups),
        },
    ]
    return json.dumps({"Version": "1", "Statement": statements}, sort_keys=True)


def aliyun_command(policy: str) -> str:
    """Return the command that attaches ``policy``; the user's name is to be filled in."""
    return f"aliyun ram AttachPolicyToUser --PolicyType Custom --PolicyName {shlex.quote(policy)} --UserName USER"


def aliyun_trust(provider_arn: str, issuer: str, subject: str, audience: str) -> str:
    """Return the trust policy of a role for the tokens of one service account (RAM: SSO by OIDC, RRSA)."""
    statement = {
        "Effect": "Allow",
        "Action": "sts:AssumeRole",
        "Principal": {"Federated": [provider_arn]},
        "Condition": {
            "StringEquals": {"oidc:aud": [audience], "oidc:iss": [issuer], "oidc:sub": [subject]},
        },
    }
    return json.dumps({"Version": "1", "Statement": [statement]}, sort_keys=True)


@dataclass(frozen=True)
class AliyunRole:
    """A role that was made for tokens of the cluster."""

    provider_arn: pulumi.Input[str]
    role_arn: pulumi.Output[str]
    rights: Rights


def aliyun_oidc_rights(
    name: str,
    policy_name: str,
    region: str,
    groups: Sequence[pulumi.Output[NodeGroup]],
    token: tuple[str, str, str],
    provider_arn: pulumi.Input[str] | None,
    fingerprints: Sequence[str],
    child: pulumi.ResourceOptions,
) -> AliyunRole:
    """Declare a role with a policy for the groups; ``token`` is what its tokens say: issuer, subject, audience."""
    issuer, subject, audience = token
    made: list[pulumi.Resource] = []
    if provider_arn is None:
        provider = alicloud.ims.OidcProvider(
            f"{name}-cloud-issuer",
            oidc_provider_name=policy_name,
            issuer_url=issuer,
            client_ids=[audience],
            fingerprints=list(fingerprints),
            description="The cluster whose service accounts sign in by token.",
            opts=child,
        )
        made.append(provider)
        provider_arn = provider.arn
    policy = _aliyun_policy(name, policy_name, region, groups, child)
    role = alicloud.ram.Role(
        f"{name}-cloud-role",
        role_name=policy_name,
        description="The Cluster Autoscaler of a Talos cluster.",
        assume_role_policy_document=pulumi.Output.from_input(provider_arn).apply(
            lambda arn: aliyun_trust(arn, issuer, subject, audience)
        ),
        opts=child,
    )
    attachment = alicloud.ram.RolePolicyAttachment(
        f"{name}-cloud-policy-attachment",
        policy_name=policy.policy_name,
        policy_type="Custom",
        role_name=role.role_name,
        opts=child,
    )
    return AliyunRole(provider_arn, role.arn, Rights(pulumi.Output.from_input(""), (*made, role, policy, attachment)))


def _aliyun_policy(
    name: str,
    policy_name: str,
    region: str,
    groups: Sequence[pulumi.Output[NodeGroup]],
    child: pulumi.ResourceOptions,
) -> alicloud.ram.Policy:
    return alicloud.ram.Policy(
        f"{name}-cloud-policy",
        policy_name=policy_name,
        description="What the Cluster Autoscaler of a Talos cluster does with its scaling groups.",
        policy_document=pulumi.Output.all(*groups).apply(lambda known: aliyun_policy(region, known)),
        # Every change is a version, of which a policy holds five; without this the sixth change fails.
        rotate_strategy="DeleteOldestNonDefaultVersionWhenLimitExceeded",
        opts=child,
    )


def aliyun_rights(
    name: str,
    policy_name: str,
    region: str,
    user_name: str | None,
    groups: Sequence[pulumi.Output[NodeGroup]],
    child: pulumi.ResourceOptions,
) -> Rights:
    """Declare a RAM policy for the groups and, when ``user_name`` is given, its attachment."""
    policy = _aliyun_policy(name, policy_name, region, groups, child)
    if user_name is None:
        return Rights(policy.policy_name.apply(lambda known: aliyun_command(str(known))), (policy,))
    attachment = alicloud.ram.UserPolicyAttachment(
        f"{name}-cloud-policy-attachment",
        policy_name=policy.policy_name,
        policy_type="Custom",
        user_name=user_name,
        opts=child,
    )
    return Rights(pulumi.Output.from_input(""), (policy, attachment))
