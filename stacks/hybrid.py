"""All of it in one stack: the cluster and the pools of every cloud that the settings name, ordered by the engine."""

from .autoscaler import warn_of_rivals
from .burst import Burst
from .cluster import CLUSTER_STEPS, build_cluster, cluster_outputs
from .outputs import Outputs
from .rolls import declare_rolls
from .secrets import Secrets
from .settings import Settings


def build(settings: Settings, secrets: Secrets) -> Outputs:
    """Build the stack ``hybrid``."""
    warn_of_rivals(settings)
    built = build_cluster(settings, secrets)
    bursts: list[Burst] = []
    # Each cloud's SDK is imported only where its pools are asked for.
    if settings.azure is not None:
        from .azure import build_azure  # noqa: PLC0415

        bursts.append(build_azure(settings, secrets, built.joined))
    if settings.aliyun is not None:
        from .aliyun import build_aliyun  # noqa: PLC0415

        bursts.append(build_aliyun(settings, secrets, built.joined))
    rolls = {name: roll for burst in bursts for name, roll in burst.rolls.items()}
    return Outputs(
        stale_nodes=declare_rolls(rolls, built.control_plane.kubeconfig),
        image_ids={key: value for burst in bursts for key, value in burst.image_ids.items()},
        node_groups={key: value for burst in bursts for key, value in burst.node_groups.items()},
        next_steps=(*(step for burst in bursts for step in burst.next_steps), *CLUSTER_STEPS),
        **cluster_outputs(settings, built),
    )
