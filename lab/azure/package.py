"""The package azure-native as the lab serves it."""

from collections.abc import Iterable

from ..provider import Call, Function, Package
from .arm import ArmKind
from .authorization import RoleAssignment, RoleDefinition
from .balancer import LoadBalancer
from .compute import VirtualMachineScaleSet
from .dns import RecordSet
from .egress import NatGateway, PublicIPAddress, PublicIPPrefix, Route, RouteTable
from .images import Disk, Gallery, GalleryImage, GalleryImageVersion, Image
from .managedidentity import FederatedIdentityCredential, UserAssignedIdentity
from .network import Subnet, VirtualNetwork
from .records import NO_SUBSCRIPTION, Doc, subscription
from .resources import ResourceGroup
from .security import NetworkSecurityGroup, SecurityRule
from .storage import BlobContainer, StorageAccount

_KINDS: tuple[type[ArmKind], ...] = (
    ResourceGroup,
    VirtualNetwork,
    Subnet,
    NetworkSecurityGroup,
    SecurityRule,
    PublicIPAddress,
    PublicIPPrefix,
    NatGateway,
    RouteTable,
    Route,
    LoadBalancer,
    RecordSet,
    VirtualMachineScaleSet,
    Disk,
    Image,
    Gallery,
    GalleryImage,
    GalleryImageVersion,
    StorageAccount,
    BlobContainer,
    RoleDefinition,
    RoleAssignment,
    UserAssignedIdentity,
    FederatedIdentityCredential,
)


def _client_config(call: Call, arguments: Doc) -> Doc:
    """Answer who the provider works as (pulumi/pulumi-azure-native provider/pkg/provider/auth_getclientconfig.go)."""
    return {
        "clientId": call.config.get("clientId") or NO_SUBSCRIPTION,
        "objectId": NO_SUBSCRIPTION,
        "subscriptionId": subscription(call),
        "tenantId": call.config.get("tenantId") or NO_SUBSCRIPTION,
    }


def _getters(kinds: Iterable[ArmKind]) -> dict[str, Function]:
    """Return the functions that read one resource: ``network:getSubnet`` for ``network:Subnet``."""
    found: dict[str, Function] = {}
    for kind in kinds:
        module, _, name = kind.token.rpartition(":")
        found[f"{module}:get{name}"] = kind.get
    return found


_KINDS_BY_TOKEN = {kind.token: kind() for kind in _KINDS}
_FUNCTIONS: dict[str, Function] = {
    "azure-native:authorization:getClientConfig": _client_config,
    **_getters(_KINDS_BY_TOKEN.values()),
}

PACKAGE = Package(name="azure-native", kinds=_KINDS_BY_TOKEN, functions=_FUNCTIONS)
"""What the lab simulates of azure-native. The provider itself never asks to be replaced when its settings change
(pulumi/pulumi-azure-native provider/pkg/provider/provider.go, DiffConfig), so no setting does here."""
