"""The settings of a cluster's life: how its machines are upgraded, changed and removed, and where snapshots go."""

from typing import Annotated, Self

from hybrid_talos.life_inputs import recipient, snapshots_problem
from hybrid_talos.rotation import AuthorityStage, TokenStage
from pydantic import AfterValidator, Field, model_validator

from .settings_base import Section


class Upgrade(Section):
    """How machines that exist are upgraded, changed and removed."""

    parallelism: int = Field(default=1, ge=1, le=10)
    """How many workers at once; control planes always go one after the other."""
    drain_minutes: int = Field(default=10, ge=0, le=120)
    """Minutes that pods may take to leave a machine; budgets are honoured. With 0 they are left alone."""
    health_minutes: int = Field(default=15, ge=1, le=120)
    """Minutes that a machine, or the cluster, may take to be healthy again."""
    snapshot: bool = True
    """Take a snapshot of etcd before each upgrade and each removal of a control plane; needs snapshots."""


class Snapshots(Section):
    """Where snapshots of etcd go, encrypted."""

    directory: str = Field(min_length=1)
    """Folder where Pulumi runs, `https://<account>.blob.core.windows.net/<container>` or `oss://<bucket>`."""
    recipients: Annotated[tuple[Annotated[str, AfterValidator(recipient)], ...], Field(min_length=1)]
    """Public keys (age) of those who may read the snapshots, which hold every Secret of the cluster."""
    oss_region: str | None = None
    """Region of the bucket, such as cn-hangzhou; required with `oss://`."""
    oss_endpoint: str | None = None
    """Address of OSS (`https://...`), where it is not the region's public one."""

    @model_validator(mode="after")
    def _place(self) -> Self:
        problem = snapshots_problem(self.directory, self.oss_region, self.oss_endpoint)
        if problem:
            raise ValueError(problem)
        return self


class AuthorityRotation(Section):
    """How far the rotation of the authority of the Talos API is."""

    generation: int = Field(ge=1, le=1000)
    """Number of the authority: 1 for the first after the one of the birth, and one more each time."""
    stage: AuthorityStage
    """accept, issue, finish: one after the other, with a complete pulumi up in between."""


class TokenRotation(Section):
    """How far the rotation of the join tokens is."""

    generation: int = Field(ge=1, le=1000)
    """Number of the tokens: 1 for the first after those of the birth, and one more each time."""
    stage: TokenStage
    """issue, finish: one after the other, with a complete pulumi up in between. Machines reboot for issue."""


class Rotation(Section):
    """How far the rotations of authority and tokens are; what is finished stays here."""

    talos_authority: AuthorityRotation | None = None
    """The authority of the Talos API, which signs every talosconfig."""
    join_tokens: TokenRotation | None = None
    """The tokens that let machines join, which stand in the user data of pools."""
