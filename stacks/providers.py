"""The providers of a stack, all explicit: no resource falls back to a default of the workstation.

Ids come from the settings. Credentials come from the environment or OIDC alone (`ARM_*`, `ALIBABA_CLOUD_*`).
"""

from collections.abc import Sequence

import pulumi
import pulumi_alicloud as alicloud
import pulumi_azure_native as azure_native
import pulumi_kubernetes as kubernetes
import pulumiverse_talos as talos

from .settings import AzureSettings

After = Sequence[pulumi.Input[pulumi.Resource]]
"""What must be there first."""


def azure_provider(azure: AzureSettings, after: After = ()) -> azure_native.Provider:
    """Return the provider for the settings' subscription and Azure environment; it and all it makes come ``after``."""
    return azure_native.Provider(
        "azure",
        subscription_id=azure.subscription_id,
        tenant_id=azure.tenant_id,
        environment=azure.environment,
        opts=pulumi.ResourceOptions(depends_on=list(after)),
    )


def aliyun_provider(region: str, after: After = ()) -> alicloud.Provider:
    """Return the provider for one Alibaba Cloud region; it and all it makes come ``after``."""
    return alicloud.Provider(f"aliyun-{region}", region=region, opts=pulumi.ResourceOptions(depends_on=list(after)))


def kubernetes_provider(
    cluster_name: str, kubeconfig: pulumi.Input[str], name: str = "kubernetes"
) -> kubernetes.Provider:
    """Return the provider for the cluster's Kubernetes API, under a ``name`` of its own in the stack.

    The cluster identifier keeps a renewed kubeconfig or a moved endpoint from looking like another cluster, which
    would replace every object.
    """
    return kubernetes.Provider(name, kubeconfig=kubeconfig, cluster_identifier=cluster_name)


def talos_provider() -> talos.Provider:
    """Return the provider for the Talos API."""
    return talos.Provider("talos")
