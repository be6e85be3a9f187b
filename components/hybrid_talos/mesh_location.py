"""What the mesh asks of the machines and firewalls of one location."""

from collections.abc import Mapping, Sequence
from typing import TypedDict


class MeshLocation(TypedDict):
    """What the mesh asks of the machines and firewalls of one location."""

    config_patch: str
    """Talos strategic-merge patch, as YAML, for every machine of the location."""
    annotations: Mapping[str, str]
    """Node annotations that the patch sets."""
    firewall_port: int
    """UDP port that the other locations must reach here."""
    firewall_sources: Sequence[str]
    """Ranges that may send to that port; `0.0.0.0/0` when a peer's address is not known beforehand."""
    internal_cidrs: Sequence[str]
    """Node ranges of the other locations, and the pod and mesh ranges: traffic that leaves the mesh here carries
    these as its source, and must reach apid (50000), the kubelet (10250) and the CNI."""
