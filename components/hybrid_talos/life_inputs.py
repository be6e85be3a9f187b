"""How a cluster's machines are upgraded and its snapshots kept: inputs that control plane and workers share."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired, Self, TypedDict

from pydantic import AfterValidator, Field, model_validator

from ._contract import Shape


class UpgradeArgs(TypedDict):
    """How machines are upgraded, changed and removed."""

    parallelism: NotRequired[int]
    """How many workers are taken at once, 1 to 10; control planes always go one after the other. Default 1."""
    drain_minutes: NotRequired[int]
    """How long pods may take to leave a machine, 0 to 120 minutes; budgets are honoured. With 0 they are left alone.
    Default 10."""
    health_minutes: NotRequired[int]
    """How long a machine, or the cluster, may take to be healthy again: 1 to 120 minutes. Default 15."""
    snapshot: NotRequired[bool]
    """Whether a snapshot of etcd is taken before each upgrade of a control plane, of Kubernetes, and each removal of a
    control plane; needs `snapshots`. Default true."""


class SnapshotArgs(TypedDict):
    """Where snapshots of etcd go, encrypted."""

    directory: str
    """Folder on the machine where Pulumi runs, made when it is not there; or
    `https://<account>.blob.core.windows.net/<container>[/<folder>]`, or `oss://<bucket>[/<folder>]`. Whoever runs
    Pulumi must be allowed to write there, by azure-identity's chain or that of Alibaba Cloud."""
    recipients: Sequence[str]
    """Public keys (age) of those who may read the snapshots. A snapshot holds every Secret of the cluster."""
    oss_region: NotRequired[str]
    """Region of the bucket, such as `cn-hangzhou`; required with `oss://`."""
    oss_endpoint: NotRequired[str]
    """Address of OSS, `https://...`. Default the public one of the region."""


class UpgradeShape(Shape):
    """The checked form of UpgradeArgs."""

    parallelism: Annotated[int, Field(ge=1, le=10)] = 1
    drain_minutes: Annotated[int, Field(ge=0, le=120)] = 10
    health_minutes: Annotated[int, Field(ge=1, le=120)] = 15
    snapshot: bool = True


def recipient(value: str) -> str:
    """Return a public key of age; ValueError when it is none."""
    from .etcd_snapshot import recipient_problem  # noqa: PLC0415 - loads a library that few programs need

    problem = recipient_problem(value)
    if problem:
        raise ValueError(problem)
    return value


def snapshots_problem(directory: str, region: str | None, endpoint: str | None) -> str | None:
    """Return why snapshots cannot go to a place, or None; nothing is asked of it."""
    if "://" in directory:
        from .snapshot_place import place_problem  # noqa: PLC0415 - loads the clients of both clouds

        problem = place_problem(directory, region, endpoint)
        if problem or directory.startswith("oss://"):
            return problem
    if region is not None or endpoint is not None:
        return "ossRegion and ossEndpoint: only with oss://<bucket>"
    return None


class SnapshotShape(Shape):
    """The checked form of SnapshotArgs."""

    directory: Annotated[str, Field(min_length=1)]
    recipients: Annotated[tuple[Annotated[str, AfterValidator(recipient)], ...], Field(min_length=1)]
    oss_region: str | None = None
    oss_endpoint: str | None = None

    @model_validator(mode="after")
    def _place(self) -> Self:
        problem = snapshots_problem(self.directory, self.oss_region, self.oss_endpoint)
        if problem:
            raise ValueError(problem)
        return self


def shared_props(
    upgrade: UpgradeShape,
    *,
    members: Any,
    client_configuration: Any,
    kubernetes_server: str | None,
    snapshots: SnapshotShape | None = None,
    cluster_name: str = "",
) -> Mapping[str, Any]:
    """Return the properties that all custom resources of a cluster's life have."""
    target: dict[str, Any] | None = None
    if snapshots is not None and upgrade.snapshot:
        target = {
            "cluster": cluster_name,
            "directory": snapshots.directory,
            "recipients": list(snapshots.recipients),
        }
        # Left out where they mean nothing, so that a folder is recorded as it always was.
        if snapshots.oss_region is not None:
            target["oss_region"] = snapshots.oss_region
        if snapshots.oss_endpoint is not None:
            target["oss_endpoint"] = snapshots.oss_endpoint
    return {
        "members": members,
        "client_configuration": client_configuration,
        "kubernetes_server": kubernetes_server,
        "drain_minutes": upgrade.drain_minutes,
        "health_minutes": upgrade.health_minutes,
        "snapshots": target,
        "without_snapshot": not upgrade.snapshot,
    }
