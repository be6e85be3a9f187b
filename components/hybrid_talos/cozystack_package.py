"""The Azure autoscaler as a package of Cozystack, which then deploys it with its own chart.

Names and values: cozystack/cozystack `packages/core/platform/sources/cluster-autoscaler-azure.yaml`,
`packages/system/cluster-autoscaler/` (chart of kubernetes/autoscaler), `api/v1alpha1/package_types.go`.
"""

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes

from .autoscaler_flags import rendered
from .autoscaler_manifests import CREDENTIALS_ANNOTATION, Autoscaler, fingerprint
from .manifests import (
    after,
    control_plane_affinity,
    control_plane_tolerations,
    restricted_container,
    restricted_pod,
)
from .node_group import NodeGroup

SOURCE = "cozystack.cluster-autoscaler-azure"
"""Name of the PackageSource, which the Package must carry too."""

COMPONENT = "cluster-autoscaler-azure"

DEPLOYMENT = f"{COMPONENT}-azure-cluster-autoscaler"
"""What the chart calls the Deployment: release, provider, chart."""

_USER = 65532


def camel(value: Any) -> Any:
    """Return a manifest with its snake_case keys as Kubernetes writes them; values stay as they are."""
    if isinstance(value, dict):
        return {_camel_key(key): camel(item) for key, item in value.items()}
    return [camel(item) for item in value] if isinstance(value, list) else value


def _camel_key(key: str) -> str:
    first, *others = key.split("_")
    return first + "".join(map(str.capitalize, others))


def split_image(image: str) -> tuple[str, str]:
    """Return repository and tag of an image, as the chart wants them."""
    repository, _, tag = image.rpartition(":")
    return repository, tag


def values(autoscaler: Autoscaler, known: dict[str, str], groups: Sequence[NodeGroup]) -> dict[str, Any]:
    """Return the chart's values. ``known`` are environment and credentials by the variable's name."""
    repository, tag = split_image(autoscaler.image)
    credential: dict[str, Any]
    if "ARM_CLIENT_SECRET" in known:
        credential = {
            "azureTenantID": known["ARM_TENANT_ID"],
            "azureClientID": known["ARM_CLIENT_ID"],
            "azureClientSecret": known["ARM_CLIENT_SECRET"],
        }
    else:
        credential = {
            "azureUseManagedIdentityExtension": True,
            "azureUserAssignedIdentityID": known["ARM_USER_ASSIGNED_IDENTITY_ID"],
        }
    own = {
        "ARM_USE_MANAGED_IDENTITY_EXTENSION",
        "ARM_USER_ASSIGNED_IDENTITY_ID",
        "ARM_SUBSCRIPTION_ID",
        "ARM_RESOURCE_GROUP",
        "ARM_TENANT_ID",
        "ARM_CLIENT_ID",
        "ARM_CLIENT_SECRET",
        "ARM_VM_TYPE",
    }
    return {
        "image": {"repository": repository, "tag": tag},
        "azureSubscriptionID": known["ARM_SUBSCRIPTION_ID"],
        "azureResourceGroup": known["ARM_RESOURCE_GROUP"],
        **credential,
        "azureVMType": known["ARM_VM_TYPE"],
        "extraEnv": {key: value for key, value in sorted(known.items()) if key not in own},
        "extraArgs": dict(sorted(autoscaler.flags.items())),
        # Flags that come several times: the chart's extraArgs take each once.
        **({"customArgs": rendered({}, autoscaler.lists)} if autoscaler.lists else {}),
        "priorityClassName": autoscaler.pod.priority_class,
        "resources": {
            "requests": {"cpu": autoscaler.pod.cpu_request, "memory": autoscaler.pod.memory_request},
            "limits": {"memory": autoscaler.pod.memory_limit},
        },
        "autoscalingGroups": [
            {"name": group["name"], "minSize": group["min_size"], "maxSize": group["max_size"]} for group in groups
        ],
        # The chart sets none of these by itself, and may then run on a machine that it takes away.
        "affinity": camel(control_plane_affinity()),
        "tolerations": camel(control_plane_tolerations()),
        "securityContext": camel(restricted_pod(_USER)),
        "containerSecurityContext": camel(restricted_container()),
        # The chart's own checksum is not there: without this a new credential would wait for a new pod.
        "podAnnotations": {
            CREDENTIALS_ANNOTATION: fingerprint(autoscaler.stem, [known[key] for key in sorted(autoscaler.credentials)])
        },
    }


def deploy_package(
    name: str,
    autoscaler: Autoscaler,
    groups: Sequence[pulumi.Output[NodeGroup]],
    child: pulumi.ResourceOptions,
    rights: Sequence[pulumi.Resource],
) -> None:
    """Declare the Package as a child of the component ``name``; ``rights`` are its rights in the cloud."""
    plain: pulumi.Output[dict[str, str]] = pulumi.Output.all(**autoscaler.environment, **autoscaler.credentials)
    known: pulumi.Output[dict[str, str]] = pulumi.Output.secret(plain)
    spec = pulumi.Output.all(known, pulumi.Output.all(*groups)).apply(
        lambda both: {
            "variant": "default",
            "components": {COMPONENT: {"values": {"cluster-autoscaler": values(autoscaler, both[0], both[1])}}},
        }
    )
    kubernetes.apiextensions.CustomResource(
        f"{name}-package",
        api_version="cozystack.io/v1alpha1",
        kind="Package",
        metadata={"name": SOURCE},
        spec=spec,
        opts=pulumi.ResourceOptions.merge(
            # Without its rights in the cloud the autoscaler ends at once.
            after(child, *rights),
            # The credential stands in the middle of the values, so what the provider gives back is a secret as a whole.
            pulumi.ResourceOptions(additional_secret_outputs=["spec"]),
        ),
    )
