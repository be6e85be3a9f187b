"""Worker pools on Alibaba Cloud for a cluster that another stack built."""

from .aliyun import build_aliyun
from .burst import BURST_STEPS, join_cluster
from .outputs import Outputs
from .rolls import declare_rolls
from .secrets import Secrets
from .settings import Settings


def build(settings: Settings, secrets: Secrets) -> Outputs:
    """Build the stack ``aliyun-burst``."""
    joined, kubeconfig = join_cluster(settings, secrets)
    burst = build_aliyun(settings, secrets, joined)
    return Outputs(
        image_ids=burst.image_ids,
        node_groups=burst.node_groups,
        stale_nodes=declare_rolls(burst.rolls, kubeconfig),
        next_steps=(*burst.next_steps, *BURST_STEPS),
    )
