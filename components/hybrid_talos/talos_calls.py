"""What this program asks of Talos machines, as an interface: the real one runs talosctl, tests have one in memory."""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from .work_provider import WorkError


class TalosError(WorkError):
    """A call that failed. The message holds no secret."""


class Unreachable(TalosError):
    """Nothing answered, or nothing in time."""


class NotOfThisCluster(TalosError):
    """Something answered with certificates that are not this cluster's: a machine in maintenance mode, mostly."""


@dataclass(frozen=True)
class Machine:
    """A machine: its name, its own address, and where this program reaches its Talos API."""

    name: str
    address: str
    endpoint: str

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> "Machine":
        """Return the machine that properties of a resource describe."""
        address = str(given["address"])
        return cls(str(given["name"]), address, str(given.get("endpoint") or address))


@dataclass(frozen=True)
class EtcdMember:
    """An entry of etcd's list of members."""

    id: str
    name: str
    address: str
    learner: bool


@dataclass(frozen=True)
class MachineStatus:
    """What Talos says of a machine as a whole."""

    stage: str
    """`running`, `booting`, `upgrading`, ..."""
    ready: bool
    unmet: Sequence[tuple[str, str]] = ()
    """What is missing for ready: the name of a condition and the reason."""


@dataclass(frozen=True)
class NodeStatus:
    """What a kubelet's Node says, as the machine itself sees it."""

    name: str
    ready: bool
    schedulable: bool = True


@dataclass(frozen=True)
class Service:
    """A service of Talos."""

    id: str
    state: str
    """`Running`, `Preparing`, `Waiting`, `Failed`, ..."""
    health: str
    """`OK`, `Fail`, `?`; empty for one without a check."""


@dataclass(frozen=True)
class KubernetesImages:
    """Images of the parts of Kubernetes, without tags, where they are not Talos's own."""

    flags: Mapping[str, str] = field(default_factory=dict)
    """Flag of `talosctl upgrade-k8s` to image."""


Say = Callable[[str], None]


class Talos(Protocol):
    """The Talos API of one cluster. ``machine`` is the one that is meant; it is reached directly or through others."""

    def version(self, machine: Machine) -> str:
        """Return the version of Talos that runs, without `v`."""

    def in_maintenance(self, machine: Machine) -> bool:
        """Return whether the machine waits for its first configuration."""

    def configuration(self, machine: Machine) -> str:
        """Return the configuration that the machine runs with. Secret."""

    def schematic(self, machine: Machine) -> str:
        """Return the Image Factory's schematic that the machine runs; empty when there is none."""

    def status(self, machine: Machine) -> MachineStatus:
        """Return the machine's own view of itself."""

    def services(self, machine: Machine) -> Sequence[Service]:
        """Return the services."""

    def node(self, machine: Machine) -> NodeStatus | None:
        """Return the machine's Node, or None while it has none."""

    def bootstrap(self, machine: Machine) -> None:
        """Start the cluster's etcd on a control plane; an error when it has data already."""

    def etcd_members(self, machine: Machine) -> Sequence[EtcdMember]:
        """Return etcd's list of members as this member sees it; an error without quorum."""

    def etcd_problem(self, machine: Machine) -> str:
        """Return what this machine's own member complains of, or an empty text when it works with a leader."""

    def snapshot(self, machine: Machine, recipients: Sequence[str]) -> Generator[bytes, None, None]:
        """Take etcd's snapshot and yield it, encrypted for public keys of age; raises at its end if it is not whole."""

    def upgrade(self, machine: Machine, image: str, seconds: float, say: Say) -> None:
        """Install another Talos and reboot into it; return when the machine runs again."""

    def upgrade_kubernetes(
        self, machine: Machine, version: str, images: KubernetesImages, server: str | None, seconds: float, say: Say
    ) -> None:
        """Bring all of Kubernetes to a version."""

    def leave_etcd(self, machine: Machine) -> None:
        """Let a machine leave etcd."""

    def remove_etcd_member(self, via: Machine, member_id: str) -> None:
        """Take a dead member out of etcd."""

    def reset(self, machine: Machine, *, graceful: bool) -> None:
        """Wipe the machine and reboot it into maintenance mode; return when the reset has begun.

        A ``graceful`` one leaves etcd first if etcd has started there, and ends with the machine running on when
        that cannot be.
        """

    def kubeconfig(self, machine: Machine) -> str:
        """Return credentials of a Kubernetes administrator."""
