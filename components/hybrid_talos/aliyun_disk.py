"""Disks of machines on Alibaba Cloud, and how a pool spreads over zones: names that the settings have too."""

from enum import StrEnum

SYSTEM_DISK_GB = (20, 500)
"""Fewest and most GiB of a system disk. Auto Scaling takes 20 to 2048 for each of these kinds, ESSD at its default PL1
(CreateScalingConfiguration, SystemDisk.Size), but the provider refuses more than 500, and so does this library
(aliyun/terraform-provider-alicloud `resource_alicloud_ess_scaling_configuration.go`, system_disk_size)."""


class AliyunDiskCategory(StrEnum):
    """Kind of a system disk."""

    CLOUD_ESSD = "cloud_essd"
    """Enterprise SSD, the newest kind; some instance families take no other."""
    CLOUD_SSD = "cloud_ssd"
    """Standard SSD."""
    CLOUD_EFFICIENCY = "cloud_efficiency"
    """Ultra disk, the slowest and cheapest."""


class AliyunZonePolicy(StrEnum):
    """How a pool spreads over its zones (alibabacloud.com, CreateScalingGroup, MultiAZPolicy)."""

    # PRIORITY is left out: the provider keeps vSwitches as a set, without the order that the policy goes by.

    BALANCE = "BALANCE"
    """Evenly, as far as stock allows."""
    COST_OPTIMIZED = "COST_OPTIMIZED"
    """By the price of a CPU, the cheapest first."""
