"""The processor architectures that Talos images and machines come in."""

from enum import StrEnum


class Arch(StrEnum):
    """Processor architecture of machines and their images."""

    AMD64 = "amd64"
    """64-bit x86."""
    ARM64 = "arm64"
    """64-bit Arm; not on Alibaba Cloud, whose import takes x86 only."""
