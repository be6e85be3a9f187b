"""The kinds of disk that machines on Alibaba Cloud boot from."""

from enum import StrEnum


class AliyunDiskCategory(StrEnum):
    """Kind of a system disk."""

    CLOUD_ESSD = "cloud_essd"
    """Enterprise SSD, the newest kind; some instance families take no other."""
    CLOUD_SSD = "cloud_ssd"
    """Standard SSD."""
    CLOUD_EFFICIENCY = "cloud_efficiency"
    """Ultra disk, the slowest and cheapest."""
