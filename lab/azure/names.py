"""Azure's rules for names, tags and regions.

Sources, unless a line says otherwise: learn.microsoft.com "Naming rules and restrictions for Azure resources"
(azure-resource-manager/management/resource-name-rules), "Use tags to organize your Azure resources"
(azure-resource-manager/management/tag-resources) and "List of Azure regions" (reliability/regions-list).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..world import CloudError


@dataclass(frozen=True)
class NameRule:
    """How long a name may be and what it may hold; ``code`` is what Azure answers otherwise."""

    shortest: int
    longest: int
    pattern: str
    says: str
    code: str = "InvalidParameter"

    def verify(self, what: str, name: str) -> None:
        """Raise CloudError when ``name`` is not a legal name of ``what``."""
        if not self.shortest <= len(name) <= self.longest or re.fullmatch(self.pattern, name) is None:
            raise CloudError(
                self.code,
                f"The name '{name}' of {what} is invalid: {self.shortest} to {self.longest} characters; {self.says}.",
            )


_WORD_ENDS = "alphanumerics, underscores, periods and hyphens; starts alphanumeric, ends alphanumeric or underscore"
_NETWORK_PATTERN = r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?"

NETWORK = NameRule(1, 80, _NETWORK_PATTERN, _WORD_ENDS, "InvalidResourceName")
VIRTUAL_NETWORK = NameRule(2, 64, _NETWORK_PATTERN, _WORD_ENDS, "InvalidResourceName")
RESOURCE_GROUP = NameRule(
    1,
    90,
    r"[\w.()-]*[\w()-]",
    "letters, digits, underscores, parentheses, hyphens and periods; does not end with a period",
    "InvalidResourceGroup",
)
# One rule serves Uniform and Flexible sets; the page's 15 characters are for Windows, 64 for Linux.
SCALE_SET = NameRule(
    1,
    64,
    r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?",
    "no blanks, control characters or ~!@#$%^&*()=+_[]{}\\|;:.'\",<>/?; does not start with an underscore or end with "
    "a period or hyphen",
)
DISK = NameRule(1, 80, r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9_])?", "alphanumerics, underscores and hyphens")
IMAGE = NameRule(1, 80, _NETWORK_PATTERN, _WORD_ENDS)
# hashicorp/terraform-provider-azurerm internal/services/compute/validate/compute.go: no hyphens in a gallery's name.
GALLERY = NameRule(
    1,
    80,
    r"[A-Za-z0-9](?:[A-Za-z0-9_.]*[A-Za-z0-9])?",
    "alphanumerics, underscores and periods, no hyphens; starts and ends alphanumeric",
)
GALLERY_IMAGE = NameRule(
    1,
    80,
    r"[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?",
    "alphanumerics, underscores, hyphens and periods; starts and ends alphanumeric",
)
# azure.mgmt.compute operations: "Format: <MajorVersion>.<MinorVersion>.<Patch>", each within a 32-bit integer.
GALLERY_IMAGE_VERSION = NameRule(
    5, 32, r"\d{1,10}\.\d{1,10}\.\d{1,10}", "Major.Minor.Patch, digits and periods only, each a 32-bit integer"
)
STORAGE_ACCOUNT = NameRule(3, 24, r"[a-z0-9]+", "numbers and lower-case letters only", "AccountNameInvalid")
CONTAINER = NameRule(
    3,
    63,
    r"[a-z0-9](?:-?[a-z0-9])*",
    "lower-case letters, numbers and single hyphens; starts and ends with a letter or number",
    "InvalidResourceName",
)
IDENTITY = NameRule(
    3, 128, r"[A-Za-z0-9][A-Za-z0-9_-]*", "alphanumerics, hyphens and underscores; starts alphanumeric", "BadRequest"
)
# Azure/azure-rest-api-specs msi 2023-01-31 ManagedIdentity.json, parameter federatedIdentityCredentialResourceName.
FEDERATED_CREDENTIAL = NameRule(
    3, 120, r"[A-Za-z0-9][A-Za-z0-9_-]*", "alphanumerics, hyphens and underscores; starts alphanumeric", "BadRequest"
)
GUID = NameRule(
    36, 36, r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", "a globally unique identifier (GUID)", "BadRequest"
)


def is_guid(text: Any) -> bool:
    """Say whether a value is written as a GUID."""
    return isinstance(text, str) and re.fullmatch(GUID.pattern, text) is not None


_TAG_RESERVED = re.compile(r"[<>%&\\?/\x00-\x1f\x7f]")
_MOST_TAGS = 50
_LONGEST_TAG_VALUE = 256


def verify_tags(tags: Mapping[str, Any] | None, longest_name: int = 512) -> None:
    """Raise CloudError when tags break Azure's limits; storage accounts allow names of 128 characters only."""
    tags = tags or {}
    if len(tags) > _MOST_TAGS:
        raise CloudError("InvalidTags", f"{len(tags)} tags were given; a resource can have at most {_MOST_TAGS}.")
    if len({name.lower() for name in tags}) < len(tags):
        raise CloudError("InvalidTags", "Tag names are case-insensitive; two of the given names differ by case only.")
    for name, value in tags.items():
        if _TAG_RESERVED.search(name):
            raise CloudError(
                "InvalidTagNameCharacters",
                f"The tag names '{name}' have reserved characters '<,>,%,&,\\,?,/' or control characters.",
            )
        if not 0 < len(name) <= longest_name:
            raise CloudError("InvalidTags", f"The tag name '{name}' must have 1 to {longest_name} characters.")
        if len(str(value)) > _LONGEST_TAG_VALUE:
            raise CloudError("InvalidTags", f"The value of tag '{name}' has more than {_LONGEST_TAG_VALUE} characters.")


_ZONED_REGIONS = (
    "australiaeast",
    "austriaeast",
    "belgiumcentral",
    "brazilsouth",
    "canadacentral",
    "centralindia",
    "centralus",
    "chilecentral",
    "eastasia",
    "eastus",
    "eastus2",
    "francecentral",
    "germanywestcentral",
    "indonesiacentral",
    "israelcentral",
    "italynorth",
    "japaneast",
    "japanwest",
    "koreacentral",
    "malaysiawest",
    "mexicocentral",
    "newzealandnorth",
    "northeurope",
    "norwayeast",
    "polandcentral",
    "qatarcentral",
    "southafricanorth",
    "southcentralus",
    "southeastasia",
    "spaincentral",
    "swedencentral",
    "switzerlandnorth",
    "uaenorth",
    "uksouth",
    "westeurope",
    "westus2",
    "westus3",
    "chinanorth3",
    "usgovvirginia",
)
_OTHER_REGIONS = (
    "australiacentral",
    "australiacentral2",
    "australiasoutheast",
    "brazilsoutheast",
    "canadaeast",
    "francesouth",
    "germanynorth",
    "jioindiacentral",
    "jioindiawest",
    "koreasouth",
    "northcentralus",
    "norwaywest",
    "southafricawest",
    "southindia",
    "switzerlandwest",
    "uaecentral",
    "ukwest",
    "westcentralus",
    "westindia",
    "westus",
    "chinaeast",
    "chinaeast2",
    "chinaeast3",
    "chinanorth",
    "chinanorth2",
    "usgovarizona",
    "usgovtexas",
)
REGIONS = frozenset((*_ZONED_REGIONS, *_OTHER_REGIONS))
"""Names of Azure's public, China and Government regions."""


def normalise_location(location: Any) -> str:
    """Return a region's short name: case and blanks do not count (``West Europe`` is ``westeurope``)."""
    return str(location).replace(" ", "").lower()


def verify_location(location: Any, arm_type: str) -> str:
    """Return a region's short name; raise CloudError when Azure has no such region."""
    name = normalise_location(location)
    if name not in REGIONS:
        raise CloudError(
            "LocationNotAvailableForResourceType",
            f"The provided location '{location}' is not available for resource type '{arm_type}'. "
            f"List of available regions for the resource type is '{', '.join(sorted(REGIONS))}'.",
        )
    return name


def verify_zones(zones: Any, location: str, what: str, most: int = 3) -> None:
    """Raise CloudError for zones that the region does not have; a zonal region has the zones 1, 2 and 3."""
    given = [str(zone) for zone in zones or ()]
    if not given:
        return
    if location not in _ZONED_REGIONS:
        raise CloudError(
            "AvailabilityZoneNotSupported",
            f"The zone(s) '{', '.join(given)}' for resource '{what}' is not supported. "
            f"The supported zones for location '{location}' are ''.",
        )
    if unknown := sorted(set(given) - {"1", "2", "3"}):
        raise CloudError(
            "AvailabilityZoneNotSupported",
            f"The zone(s) '{', '.join(unknown)}' for resource '{what}' is not supported. "
            f"The supported zones for location '{location}' are '1,2,3'.",
        )
    if len(set(given)) < len(given) or len(given) > most:
        raise CloudError("InvalidParameter", f"Resource '{what}' takes at most {most} different zone(s).")
