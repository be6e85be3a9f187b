"""Worker pools on Azure for a cluster that another stack built."""

from .azure import build_azure
from .burst import BURST_STEPS, join_cluster
from .outputs import Outputs
from .secrets import Secrets
from .settings import Settings


def build(settings: Settings, secrets: Secrets) -> Outputs:
    """Build the stack ``azure-burst``."""
    burst = build_azure(settings, secrets, join_cluster(settings, secrets))
    return Outputs(
        image_ids=burst.image_ids,
        node_groups=burst.node_groups,
        next_steps=(*burst.next_steps, *BURST_STEPS),
    )
