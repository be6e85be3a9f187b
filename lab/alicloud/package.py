"""The package alicloud as the lab serves it."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..provider import Call, Package
from ..sdk_schema import UNKNOWN, Problem
from .bridge import ACCOUNT, BridgedKind, Doc, region_of
from .dns import AlidnsRecord
from .ecs import EcsPrefixList, SecurityGroup, SecurityGroupRule
from .eip import EipAddress, EipAssociation
from .ess import LifecycleHook, ScalingGroup
from .ess_configuration import ScalingConfiguration
from .images import ImageImport
from .ims import OidcProvider
from .nlb import Listener, LoadBalancer, ServerGroup, ServerGroupServerAttachment
from .oss import Bucket, BucketAcl
from .ram import AccessKey, Policy, Role, RolePolicyAttachment, User, UserPolicyAttachment
from .vpc import NatGateway, Network, SnatEntry, Switch

_KINDS: tuple[type[BridgedKind], ...] = (
    *(Network, Switch, NatGateway, SnatEntry),
    *(EipAddress, EipAssociation, SecurityGroup, SecurityGroupRule, EcsPrefixList, ImageImport),
    *(ScalingGroup, ScalingConfiguration, LifecycleHook),
    *(LoadBalancer, ServerGroup, ServerGroupServerAttachment, Listener, AlidnsRecord),
    *(Bucket, BucketAcl),
    *(Policy, User, UserPolicyAttachment, Role, RolePolicyAttachment, AccessKey, OidcProvider),
)


def _account(call: Call, arguments: Doc) -> Doc:
    """Answer whose account the provider works in (data_source_alicloud_account.go)."""
    return {"id": ACCOUNT}


def _regions(call: Call, arguments: Doc) -> Doc:
    """Answer with the provider's region (data_source_alicloud_regions.go, ``current``)."""
    region = region_of(call)
    return {
        "id": region,
        "ids": [region],
        "current": True,
        "regions": [{"id": region, "regionId": region, "localName": region}],
    }


def _check_config(config: Mapping[str, Any]) -> Iterable[Problem]:
    region = config.get("region")
    # provider.go: ``region`` is required; otherwise it comes from ALICLOUD_REGION, which the lab takes away.
    if region is not UNKNOWN and not region:
        yield Problem("region", "Missing required configuration: region, such as cn-hangzhou")


PACKAGE = Package(
    name="alicloud",
    kinds={kind.token: kind() for kind in _KINDS},
    functions={
        "alicloud:index/getAccount:getAccount": _account,
        "alicloud:index/getRegions:getRegions": _regions,
    },
    check_config=_check_config,
)
"""What the lab simulates of alicloud. No setting of the provider replaces what was made with it."""
