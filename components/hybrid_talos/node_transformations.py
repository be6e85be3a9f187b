"""Rules by which Talos' cloud controller changes what it writes to nodes, and their form in its configuration. Pure.

Source: siderolabs/talos-cloud-controller-manager `docs/config.md`, `pkg/transformer/transformer.go`,
`pkg/nodeselector/selector.go`.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NotRequired, TypedDict

import yaml
from pydantic import Field, field_validator, model_validator

from ._contract import Shape
from .node_template import label_key_problem


class SelectorOperator(StrEnum):
    """How a requirement compares a fact of a machine with its values."""

    IN = "In"
    """It is one of the values."""
    NOT_IN = "NotIn"
    """It is none of the values."""
    EXISTS = "Exists"
    """It is known; there are no values."""
    DOES_NOT_EXIST = "DoesNotExist"
    """It is not known; there are no values."""
    GT = "Gt"
    """It is a number above the one value."""
    LT = "Lt"
    """It is a number below the one value."""
    REGEXP = "Regexp"
    """It matches one of the values, which are regular expressions of Go."""


class MachineRequirementArgs(TypedDict):
    """What must hold of a machine."""

    key: str
    """A fact of the machine: `platform`, `hostname`, `region`, `zone`, `instanceType`, `instanceId`, `providerId`,
    `spot`, `internalDNS` or `externalDNS`, as `talosctl get platformmetadata -o yaml` shows it."""
    operator: SelectorOperator
    """How it is compared."""
    values: NotRequired[Sequence[str]]
    """What it is compared with."""


class TransformationArgs(TypedDict):
    """A change to the nodes of some machines. Values may hold Go templates such as `{{ .InstanceID }}`."""

    name: str
    """Its name, unique in the list."""
    selector: Sequence[Sequence[MachineRequirementArgs]]
    """Which machines: one of the lists must hold, in it every requirement."""
    labels: NotRequired[Mapping[str, str]]
    """Labels of their nodes."""
    annotations: NotRequired[Mapping[str, str]]
    """Annotations of their nodes."""
    platform_metadata: NotRequired[Mapping[str, str]]
    """Facts that are written in place of the machine's own, by name: `Region`, `Zone`, `InstanceType`, `InstanceID`,
    `ProviderID`, `Spot`, `InternalDNS`, `ExternalDNS`. The provider id is what the autoscalers find a machine by."""
    public_ip_discovery: NotRequired[bool]
    """Whether to look for the machine's public address. Default false."""


_FACTS = ("platform", "hostname", "region", "zone", "instanceType", "instanceId", "providerId", "spot", "internalDNS")
_KEYS = {fact.lower(): fact for fact in (*_FACTS, "externalDNS")}
_REPLACED = ("Region", "Zone", "InstanceType", "InstanceID", "ProviderID", "Spot", "InternalDNS", "ExternalDNS")


class _Requirement(Shape):
    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _fits(self) -> "_Requirement":
        if self.key.lower() not in _KEYS:
            raise ValueError(f"key: must be one of {', '.join(_KEYS.values())}")
        bare = self.operator in (SelectorOperator.EXISTS, SelectorOperator.DOES_NOT_EXIST)
        number = self.operator in (SelectorOperator.GT, SelectorOperator.LT)
        if bare and self.values:
            raise ValueError(f"values: {self.operator} takes none")
        if not bare and not self.values:
            raise ValueError(f"values: {self.operator} needs at least one")
        if number and (len(self.values) != 1 or not re.fullmatch(r"-?\d+", self.values[0])):
            raise ValueError(f"values: {self.operator} takes one whole number")
        return self


class Transformation(Shape):
    """A checked transformation."""

    name: str = Field(min_length=1, max_length=63, pattern=r"^\S+$")
    selector: tuple[tuple[_Requirement, ...], ...] = Field(min_length=1)
    labels: Mapping[str, str] = Field(default_factory=dict)
    annotations: Mapping[str, str] = Field(default_factory=dict)
    platform_metadata: Mapping[str, str] = Field(default_factory=dict)
    public_ip_discovery: bool = False

    @field_validator("selector")
    @classmethod
    def _no_empty_list(cls, lists: tuple[tuple[_Requirement, ...], ...]) -> tuple[tuple[_Requirement, ...], ...]:
        if not all(lists):
            raise ValueError("an empty list of requirements matches nothing: write what must hold")
        return lists

    @model_validator(mode="after")
    def _can_be_written(self) -> "Transformation":
        found = [
            f"{which}.{key}: {problem}"
            for which, many in (("labels", self.labels), ("annotations", self.annotations))
            for key in sorted(many)
            if (problem := label_key_problem(key))
        ]
        found += [
            f"platform_metadata.{key}: must be one of {', '.join(_REPLACED)}; platform and hostname cannot be replaced"
            for key in sorted(self.platform_metadata)
            if key not in _REPLACED
        ]
        if "ProviderID" in self.platform_metadata:
            problem = provider_id_problem(self.platform_metadata["ProviderID"])
            if problem:
                found.append(f"platform_metadata.ProviderID: {problem}")
        if not (self.labels or self.annotations or self.platform_metadata or self.public_ip_discovery):
            found.append("changes nothing: give labels, annotations, platform_metadata or public_ip_discovery")
        for which, many in (("labels", self.labels), ("annotations", self.annotations)):
            found += [f"{which}.{key}: {words}" for key in sorted(many) if (words := _template_problem(many[key]))]
        if found:
            raise ValueError("; ".join(found))
        return self

    def document(self) -> dict[str, Any]:
        """Return it as the controller reads it."""
        terms = [
            {
                "matchExpressions": [
                    {
                        "key": requirement.key,
                        "operator": requirement.operator.value,
                        **({"values": list(requirement.values)} if requirement.values else {}),
                    }
                    for requirement in requirements
                ]
            }
            for requirements in self.selector
        ]
        made: dict[str, Any] = {"name": self.name, "nodeSelector": terms}
        for key, many in (
            ("annotations", self.annotations),
            ("labels", self.labels),
            ("platformMetadata", self.platform_metadata),
        ):
            if many:
                made[key] = dict(sorted(many.items()))
        if self.public_ip_discovery:
            made["features"] = {"publicIPDiscovery": True}
        return made


def _template_problem(value: str) -> str | None:
    opened, closed = value.count("{{"), value.count("}}")
    return None if opened == closed else "has a template that is not closed: each {{ needs its }}"


def provider_id_problem(value: str) -> str | None:
    """Return why a provider id, which may hold templates, would stop an autoscaler, or None.

    Alibaba Cloud's looks at the id of every node of the cluster: one without a dot ends its scale-ups from 1.35 on
    (kubernetes/autoscaler `alicloud_auto_scaling_groups.go`, `core/resourcequotas/usage.go`), and a machine of its own
    whose id has a scheme before it is never matched, and removed.
    """
    if not value or value != value.strip():
        return "is empty or has white space around it"
    if "{{" not in value and not value.startswith(("azure:///", "talos://")):
        return (
            "is the same for every machine that is selected, and an autoscaler would take them for one: "
            "use {{ .InstanceID }} in it"
        )
    problem = _template_problem(value)
    if problem:
        return problem
    if value.startswith("alicloud://"):
        return "Alibaba Cloud's autoscaler knows its machines as <region>.<instance id>, with nothing before it"
    plain = re.sub(r"\{\{.*?\}\}", "x", value)
    if "." not in plain and not re.fullmatch(r"\s*\{\{[^}]*ProviderID[^}]*\}\}\s*", value):
        return (
            "has no dot, which ends all scale-ups of Alibaba Cloud's autoscaler: "
            "write <region>.<instance id>, or another form with a dot in it"
        )
    return None


def controller_config(transformations: Sequence[Transformation]) -> str:
    """Return the controller's configuration."""
    document: dict[str, Any] = {"global": {}}
    if transformations:
        document["transformations"] = [one.document() for one in transformations]
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
