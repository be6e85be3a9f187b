"""Microsoft's clouds: where each is reached, and who gives tokens for it."""

from enum import StrEnum
from typing import NamedTuple


class AzureEnvironment(StrEnum):
    """Which of Microsoft's clouds."""

    PUBLIC = "public"
    """The one for everybody."""
    CHINA = "china"
    """Azure operated by 21Vianet."""
    US_GOVERNMENT = "usgovernment"
    """Azure Government."""


class AzureAddresses(NamedTuple):
    """Where one of the clouds is reached."""

    resource_manager: str
    """Address of Azure Resource Manager."""
    scope: str
    """What a token for it is asked for."""
    authority: str
    """Host that gives tokens."""


# azure.mgmt.core.tools.get_arm_endpoints and azure.identity.AzureAuthorityHosts; learn.microsoft.com "Compare Azure
# Government and global Azure" and "Azure China developer guide".
ADDRESSES = {
    AzureEnvironment.PUBLIC: AzureAddresses(
        "https://management.azure.com", "https://management.azure.com/.default", "login.microsoftonline.com"
    ),
    AzureEnvironment.CHINA: AzureAddresses(
        "https://management.chinacloudapi.cn", "https://management.chinacloudapi.cn/.default", "login.chinacloudapi.cn"
    ),
    AzureEnvironment.US_GOVERNMENT: AzureAddresses(
        "https://management.usgovcloudapi.net",
        "https://management.core.usgovcloudapi.net/.default",
        "login.microsoftonline.us",
    ),
}

AUTOSCALER_CLOUDS = {
    AzureEnvironment.CHINA: "AzureChinaCloud",
    AzureEnvironment.US_GOVERNMENT: "AzureUSGovernmentCloud",
}
"""What the Cluster Autoscaler calls the clouds (`ARM_CLOUD`); it takes the public one by itself.

Both of the libraries that its versions read the name with know these: Azure/go-autorest `azure/environments.go` and
kubernetes-sigs/cloud-provider-azure `pkg/azclient/cloud.go`.
"""
