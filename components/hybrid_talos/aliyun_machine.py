"""What a machine of a worker pool on Alibaba Cloud is like: parts of its scaling configuration."""

from collections.abc import Sequence
from typing import Any

from pulumi_alicloud import ess

from .pool_inputs import SpotShape


def instance_types(names: Sequence[str]) -> dict[str, Any]:
    """Return the instance types: one alone where possible, since that is what the autoscaler's template is made of."""
    if len(names) == 1:
        return {"instance_type": names[0]}
    return {"instance_types": list(names)}


def spot_settings(spot: SpotShape | None, names: Sequence[str]) -> dict[str, Any]:
    """Return how the machines are paid for."""
    if spot is None:
        return {"spot_strategy": "NoSpot"}
    if spot.max_price is None:
        return {"spot_strategy": "SpotAsPriceGo"}
    return {
        "spot_strategy": "SpotWithPriceLimit",
        "spot_price_limits": [
            ess.ScalingConfigurationSpotPriceLimitArgs(instance_type=name, price_limit=spot.max_price) for name in names
        ],
    }


def public_address(wanted: bool) -> dict[str, Any]:
    """Return what gives each machine a public address; bandwidth is a limit in Mbit/s, traffic is what costs."""
    return {"internet_charge_type": "PayByTraffic", "internet_max_bandwidth_out": 100} if wanted else {}
