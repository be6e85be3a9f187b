"""What the autoscalers of both clouds take from the settings in the same way."""

from collections.abc import Sequence

import pulumi
from hybrid_talos.cluster_autoscaler import ClusterAutoscalerArgs

from .settings_autoscaler import AutoscalerOptions
from .settings_rules_autoscaler import option_args, rivalry
from .settings_tree import Settings


def autoscaler_args(choice: AutoscalerOptions, pools: Sequence[str]) -> ClusterAutoscalerArgs:
    """Return the inputs that do not depend on the cloud, for an autoscaler of ``pools``."""
    wanted: ClusterAutoscalerArgs = option_args(choice)  # type: ignore[assignment]
    if choice.priorities:
        wanted["priorities"] = {name: number for name, number in choice.priorities.items() if name in pools}
    if choice.image is not None:
        wanted["image"] = choice.image
    if choice.image_repository is not None:
        wanted["image_repository"] = choice.image_repository
    pod = choice.pod.model_dump(exclude_defaults=True)
    if pod:
        wanted["pod"] = pod  # type: ignore[typeddict-item]
    if choice.monitoring is not None:
        wanted["monitoring"] = {"labels": dict(sorted(choice.monitoring.labels.items()))}
    sample = choice.sample_workload
    if sample is not None and sample.pool in pools:
        wanted["sample_workload"] = {
            "node_group": sample.pool,
            "replicas": sample.replicas,
            "cpu": sample.cpu,
            "memory": sample.memory,
        }
    return wanted


def choice_pool(choice: AutoscalerOptions) -> str | None:
    """Return the pool of the sample workload."""
    return choice.sample_workload.pool if choice.sample_workload is not None else None


def watch_steps(choice: AutoscalerOptions, name: str) -> tuple[str, ...]:
    """Return the commands that show the sample workload make machines; none without one."""
    if choice.sample_workload is None:
        return ()
    return (
        f"kubectl -n default get pods -o wide -l app.kubernetes.io/instance={name}",
        "kubectl get events -A --field-selector reason=TriggeredScaleUp",
        "kubectl get nodes -L hybrid-talos.dev/pool --watch",
    )


def warn_of_rivals(settings: Settings) -> None:
    """Say in the preview when both clouds would make machines for the same pods."""
    words = rivalry(settings)
    if words:
        pulumi.log.warn(f"autoscaler: {words}")
