"""What Alibaba Cloud says of names, descriptions, tags, ranges and zones."""

import re
from collections.abc import Mapping
from ipaddress import IPv4Network, ip_network
from typing import Any

from ..world import CloudError

MOST_TAGS = 20


def verify_name(code: str, text: Any, shortest: int = 2, longest: int = 128, extra: str = ":_-.") -> None:
    """Refuse a name that does not begin with a letter, is too long or holds other signs; None is no name.

    Source: alibabacloud.com API pages CreateSecurityGroup, CreatePrefixList, AllocateEipAddress, CreateNatGateway
    ("must be 2 to 128 characters in length, start with a letter, ...").
    """
    if text is None or text == "":
        return
    good = re.fullmatch(rf"[^\W\d_][\w{re.escape(extra)}]*", text) is not None
    if not good or not shortest <= len(text) <= longest or text.lower().startswith(("http://", "https://")):
        raise CloudError(
            code,
            f"The specified name '{text}' is not valid: {shortest} to {longest} characters, beginning with a "
            "letter, then "
            f"letters, digits and {' '.join(extra)}.",
        )


def verify_description(code: str, text: Any, shortest: int = 2, longest: int = 256) -> None:
    """Refuse a description of the wrong length or one that is an address; None is no description."""
    if text is None or text == "":
        return
    if not shortest <= len(text) <= longest or text.lower().startswith(("http://", "https://")):
        raise CloudError(
            code, f"The specified description must have {shortest} to {longest} characters and not begin with http://."
        )


def verify_tags(tags: Any) -> None:
    """Refuse tags that are too many, too long or begin as Alibaba Cloud's own do.

    Source: aliyun/terraform-provider-alicloud website/docs/r/ess_scaling_configuration.html.markdown (tags);
    alibabacloud.com API page CreateScalingConfiguration (Tags).
    """
    if not isinstance(tags, Mapping):
        return
    if len(tags) > MOST_TAGS:
        raise CloudError("InvalidTagCount", f"The specified tags are beyond the permitted range: {MOST_TAGS}.")
    for key, value in tags.items():
        low = str(key).lower()
        if not 1 <= len(key) <= 64 or low.startswith(("aliyun", "acs:", "http://", "https://")):
            raise CloudError(
                "InvalidTagKey.Malformed",
                f"The tag key '{key}' is not valid: 1 to 64 characters, not beginning with aliyun, acs:, http:// or "
                "https://.",
            )
        low = str(value).lower()
        if len(str(value)) > 128 or low.startswith(("aliyun", "acs:", "http://", "https://")):
            raise CloudError(
                "InvalidTagValue.Malformed",
                f"The value of tag '{key}' is not valid: at most 128 characters, not beginning with aliyun, "
                "acs:, http:// "
                "or https://.",
            )


def in_region(zone: Any, region: str) -> bool:
    """Say whether a zone is one of a region: ``cn-hangzhou-h``, or ``ap-southeast-1a`` after a number.

    Source: alibabacloud.com "Regions and zones".
    """
    joint = "" if region[-1:].isdigit() else "-"
    return isinstance(zone, str) and re.fullmatch(rf"{re.escape(region)}{joint}[a-z]", zone) is not None


def parse_cidr(code: str, text: Any) -> IPv4Network:
    """Return an IPv4 range; raise CloudError when it is none or has bits set beside the prefix."""
    try:
        network = ip_network(str(text))
    except ValueError:
        network = None
    if not isinstance(network, IPv4Network) or "/" not in str(text):
        raise CloudError(code, f"The specified CIDR block is not valid: {text}.")
    return network
