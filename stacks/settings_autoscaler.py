"""The settings of the autoscalers that grow the pools."""

from typing import Annotated, Any

from hybrid_talos.autoscaler_deployment import AutoscalerDeployment
from pydantic import BeforeValidator

from .settings_base import Section, Uuid, form


class AzureIdentity(Section):
    """The application that the autoscaler signs in as. Its secret is `hybrid-talos:azureClientSecret`."""

    client_id: Uuid
    """Client id of the application."""
    principal_id: Uuid | None = None
    """Object id of its service principal; without it the role is made, not assigned, and the command is printed."""


class AliyunIdentity(Section):
    """The RAM user that the autoscaler signs in as. Its secret is `hybrid-talos:aliyunAccessKeySecret`."""

    access_key_id: Annotated[str, form(r"[A-Za-z0-9.]{8,128}", "be the id of an access key, such as LTAIexample")]
    """Id of the access key, which is no secret."""
    user_name: (
        Annotated[str, form(r"[A-Za-z0-9._-]{1,64}", "be the name of a RAM user, without @ and domain")] | None
    ) = None
    """Name of the RAM user; without it the policy is made, not attached, and the command is printed."""


_IMAGE = form(
    r"[a-z0-9][A-Za-z0-9.-]*(:[0-9]+)?(/[a-z0-9._-]+)+(:[A-Za-z0-9_.-]+)?(@sha256:[0-9a-f]{64})?",
    "be an image with its registry, such as registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1",
    512,
)


def _no_package(value: Any) -> Any:
    if value == AutoscalerDeployment.COZYSTACK_PACKAGE.value:
        raise ValueError("must be manifests: Cozystack has no package for Alibaba Cloud")
    return value


class AzureAutoscaler(Section):
    """The autoscaler of the Azure pools."""

    identity: AzureIdentity
    """Who it signs in as."""
    deployment: AutoscalerDeployment = AutoscalerDeployment.MANIFESTS
    """manifests or cozystackPackage."""
    image: Annotated[str, _IMAGE] | None = None
    """Image, if it does not come from registry.k8s.io; its minor must be Kubernetes' own."""


class AliyunAutoscaler(Section):
    """The autoscaler of the Alibaba Cloud pools."""

    identity: AliyunIdentity
    """Who it signs in as."""
    deployment: Annotated[AutoscalerDeployment, BeforeValidator(_no_package)] = AutoscalerDeployment.MANIFESTS
    """Always manifests: Cozystack has no package for Alibaba Cloud."""
    image: Annotated[str, _IMAGE] | None = None
    """Image, if it does not come from registry.k8s.io; its minor must be Kubernetes' own."""


class AutoscalerSettings(Section):
    """The autoscalers, one for each cloud."""

    azure: AzureAutoscaler | None = None
    """The autoscaler of the Azure pools."""
    aliyun: AliyunAutoscaler | None = None
    """The autoscaler of the Alibaba Cloud pools."""
