"""Inputs that worker pools of both clouds have in common, and their checks."""

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network, collapse_addresses
from typing import Annotated, NotRequired, TypedDict

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from ._contract import BadInputs, Shape
from .node_template import Taint, TaintShape, checked_labels, checked_taints
from .versions import check_talos, normalise_version


class SpotArgs(TypedDict):
    """Machines at a reduced price that the cloud may take back at any time."""

    max_price: NotRequired[float]
    """Most to pay for one machine and hour, above 0, in the account's currency. Default: up to the regular price."""


class SpotShape(BaseModel):
    """Spot settings, checked."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    max_price: float | None = Field(default=None, gt=0, allow_inf_nan=False)


def _network(text: object) -> IPv4Network:
    if not isinstance(text, str | IPv4Network):
        raise ValueError("must be an IPv4 range such as 10.2.0.0/24")
    try:
        return IPv4Network(text)
    except ValueError:
        raise ValueError("must be an IPv4 range such as 10.2.0.0/24, without host bits") from None


Cidr = Annotated[IPv4Network, BeforeValidator(_network)]
"""An IPv4 range without host bits."""


def collapsed(owner: str, ranges: Iterable[str]) -> list[str]:
    """Return IPv4 ranges without those that lie in others, in order; BadInputs when one is none.

    Azure refuses a rule whose ranges overlap (kubernetes-sigs/cloud-provider-azure#6775), and a prefix list of Alibaba
    Cloud one that stands twice.
    """
    networks: list[IPv4Network] = []
    for text in ranges:
        try:
            networks.append(IPv4Network(text))
        except ValueError:
            raise BadInputs(f"{owner}: {str(text)[:40]} is not an IPv4 range") from None
    return [str(network) for network in collapse_addresses(networks)]


WIDEST_DIAGNOSIS = 8
"""Shortest prefix of a range outside that may reach the Talos API of a pool."""


def checked_diagnosis(ranges: tuple[IPv4Network, ...]) -> tuple[IPv4Network, ...]:
    """Return the ranges that may reach the Talos API from outside; ValueError when one is too wide."""
    if wide := [str(found) for found in ranges if found.prefixlen < WIDEST_DIAGNOSIS]:
        raise ValueError(
            f"{', '.join(wide)}: the Talos API is never open to the whole Internet; expected a prefix of "
            f"/{WIDEST_DIAGNOSIS} or longer"
        )
    return ranges


def _talos(version: str) -> str:
    problem = check_talos(version)
    if problem:
        raise ValueError(problem)
    return normalise_version(version)


TalosVersion = Annotated[str, AfterValidator(_talos)]
"""A Talos version that this release knows, in its one form."""


class PoolShape(Shape):
    """The plain inputs that both pools have."""

    min_size: int = Field(ge=0)
    max_size: int = Field(ge=1)
    talos_version: TalosVersion
    public_ips: bool = False
    gateway: bool = False
    labels: Mapping[str, str] = Field(default_factory=dict)
    taints: tuple[TaintShape, ...] = ()
    spot: SpotShape | None = None
    tags: Mapping[str, str] = Field(default_factory=dict)

    @field_validator("labels")
    @classmethod
    def _labels_that_a_node_may_set(cls, labels: Mapping[str, str]) -> Mapping[str, str]:
        return checked_labels(labels)

    @field_validator("taints")
    @classmethod
    def _taints_that_a_node_can_have(cls, taints: tuple[TaintShape, ...]) -> tuple[TaintShape, ...]:
        checked_taints(taints)
        return taints

    @model_validator(mode="after")
    def _sizes_in_order(self) -> "PoolShape":
        if self.min_size > self.max_size:
            raise ValueError("min_size is above max_size")
        if self.gateway and self.min_size != self.max_size:
            raise ValueError("min_size must be max_size with gateway: leaders neither come nor go with the load")
        return self

    @property
    def checked_taints(self) -> tuple[Taint, ...]:
        """The taints in their one order."""
        return checked_taints(self.taints)
