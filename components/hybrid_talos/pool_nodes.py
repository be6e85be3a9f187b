"""The Nodes of a pool while it is rolled: what holds the autoscaler back, and a Lease as the roll's lock and notes."""

import functools
import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from .kubernetes_nodes import KubernetesError, KubernetesNodes
from .node_template import POOL_LABEL, TEMPLATE_LABEL
from .pool_roll import Pending, PoolNode, Progress
from .talos_calls import Say

SCALE_DOWN_DISABLED = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
"""Annotation that keeps the autoscaler from taking a Node away (kubernetes/autoscaler FAQ, "How can I prevent Cluster
Autoscaler from scaling down a particular node?")."""
HELD = "hybrid-talos.dev/rolling"
"""Annotation of a Node whose annotation for the autoscaler is ours: the name of the pool that is rolled."""

_NAMESPACE = "kube-system"
_NOTES = "hybrid-talos.dev/roll"
_TIMEOUT = (10, 30)
_LEASE_SECONDS = 60
_PAGE = 500


class KubernetesPoolNodes:
    """The Nodes of the cluster, for the roll of one pool; its drains tell nobody but the roll."""

    def __init__(self, nodes: KubernetesNodes, pool: str) -> None:
        self._nodes = nodes
        self._core: Any = client.CoreV1Api(nodes.api)
        self._pool = pool
        self._annotations: dict[str, dict[str, str]] = {}

    def nodes(self) -> Sequence[PoolNode]:
        """Return all Nodes."""
        found = [_pool_node(node) for node in self._listed()]
        return sorted(found, key=lambda node: node.name)

    def hold(self, name: str) -> None:
        """Keep the autoscaler from taking a Node away, if nobody else does so already."""
        if SCALE_DOWN_DISABLED not in self._annotations.get(name, {}):
            self._annotate(name, {SCALE_DOWN_DISABLED: "true", HELD: self._pool})

    def let_go(self) -> Sequence[str]:
        """Undo every `hold` and cordon of a roll of this pool; return the names of those Nodes."""
        held = [node.metadata.name for node in self._listed() if _held_by(node, self._pool)]
        for name in held:
            self._nodes.uncordon(name)
            self._annotate(name, {SCALE_DOWN_DISABLED: None, HELD: None})
        return held

    def held(self) -> list[str]:
        """Return the names of the Nodes that a roll of this pool holds, or has left held."""
        return sorted(node.metadata.name for node in self._listed() if _held_by(node, self._pool))

    def cordon(self, name: str) -> None:
        """Let no new pods come to a Node."""
        self._nodes.cordon(name)

    def drain(self, name: str, seconds: float, *, bare: bool, say: Say) -> None:
        """Evict its pods, budgets honoured, within so many seconds."""
        self._nodes.drain(name, seconds, bare=bare, say=say)

    def delete(self, name: str) -> None:
        """Delete a Node; one that is gone is no error."""
        self._nodes.delete(name)

    def _listed(self) -> list[Any]:
        found: list[Any] = []
        more: dict[str, str] = {}
        while True:
            page = call(functools.partial(self._core.list_node, limit=_PAGE, _request_timeout=_TIMEOUT, **more))
            found += page.items
            if not page.metadata._continue:
                break
            more = {"_continue": page.metadata._continue}
        self._annotations = {node.metadata.name: dict(node.metadata.annotations or {}) for node in found}
        return found

    def _annotate(self, name: str, annotations: dict[str, str | None]) -> None:
        patch = {"metadata": {"annotations": annotations}}
        call(lambda: self._core.patch_node(name, patch, _request_timeout=_TIMEOUT), missing=True)


def _held_by(node: Any, pool: str) -> bool:
    return (node.metadata.annotations or {}).get(HELD) == pool


def _pool_node(node: Any) -> PoolNode:
    labels = node.metadata.labels or {}
    return PoolNode(
        name=node.metadata.name,
        provider_id=node.spec.provider_id or "",
        pool=labels.get(POOL_LABEL, ""),
        stamp=labels.get(TEMPLATE_LABEL, ""),
        ready=any(c.type == "Ready" and c.status == "True" for c in (node.status.conditions or ())),
        schedulable=not node.spec.unschedulable,
    )


class LeaseJournal:
    """The lock of a pool's roll and its notes, in one Lease (coordination.k8s.io/v1) beside the autoscaler's own."""

    def __init__(
        self,
        api: client.ApiClient,
        pool: str,
        say: Say,
        *,
        sleep: Callable[[float], None],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        patience: float = 600,
    ) -> None:
        self._leases: Any = client.CoordinationV1Api(api)
        self._name = f"hybrid-talos-roll-{pool.lower().replace('_', '-')}"
        self._pool = pool
        self._say = say
        self._sleep = sleep
        self._now = now
        self._patience = patience
        self._me = uuid.uuid4().hex
        self._lease: Any = None

    @contextmanager
    def held(self) -> Iterator[Progress]:
        """Hold the lock; yield what an earlier roll left. Waits for one that runs, or was killed a moment ago."""
        self._take()
        try:
            yield _read(self._lease)
        finally:
            self._release()

    def write(self, progress: Progress) -> None:
        """Write down how it stands; also tells that the holder lives."""
        self._lease.metadata.annotations = {**(self._lease.metadata.annotations or {}), _NOTES: _text(progress)}
        self._renew()

    def alive(self) -> None:
        """Tell that the holder lives; KubernetesError when another has taken the lock."""
        if self._now() - self._lease.spec.renew_time > timedelta(seconds=_LEASE_SECONDS / 4):
            self._renew()

    def _take(self) -> None:
        waited = 0.0
        while True:
            lease = call(
                lambda: self._leases.read_namespaced_lease(self._name, _NAMESPACE, _request_timeout=_TIMEOUT),
                missing=True,
            )
            if lease is None or not self._taken(lease):
                try:
                    self._lease = self._create() if lease is None else self._replace(lease)
                    return
                except _Raced:
                    continue
            if waited >= self._patience:
                raise KubernetesError(
                    f"another roll of {self._pool} is under way ({lease.spec.holder_identity}). Next: wait for it, or "
                    f"see why it does not end; its lock is the Lease {self._name} in {_NAMESPACE}"
                )
            if waited == 0:
                self._say(f"{self._pool}: waiting for another roll to end, or for the lock of a killed one to expire")
            self._sleep(5)
            waited += 5

    def _taken(self, lease: Any) -> bool:
        if not lease.spec.holder_identity or lease.spec.renew_time is None:
            return False
        limit = timedelta(seconds=lease.spec.lease_duration_seconds or _LEASE_SECONDS)
        return bool(self._now() - lease.spec.renew_time <= limit)

    def _spec(self) -> Any:
        return client.V1LeaseSpec(
            holder_identity=self._me,
            lease_duration_seconds=_LEASE_SECONDS,
            acquire_time=self._now(),
            renew_time=self._now(),
        )

    def _create(self) -> Any:
        body = client.V1Lease(metadata=client.V1ObjectMeta(name=self._name), spec=self._spec())
        return self._write_lease(
            lambda: self._leases.create_namespaced_lease(_NAMESPACE, body, _request_timeout=_TIMEOUT)
        )

    def _replace(self, lease: Any) -> Any:
        lease.spec = self._spec()
        return self._write_lease(
            # With the version that was read: of two that take it at once, one is refused.
            lambda: self._leases.replace_namespaced_lease(self._name, _NAMESPACE, lease, _request_timeout=_TIMEOUT)
        )

    def _renew(self) -> None:
        self._lease.spec.renew_time = self._now()
        try:
            self._lease = self._write_lease(
                lambda: self._leases.replace_namespaced_lease(
                    self._name, _NAMESPACE, self._lease, _request_timeout=_TIMEOUT
                )
            )
        except _Raced:
            raise KubernetesError(f"another roll of {self._pool} has taken over; this one ends here") from None

    def _release(self) -> None:
        self._lease.spec.holder_identity = None
        try:
            self._write_lease(
                lambda: self._leases.replace_namespaced_lease(
                    self._name, _NAMESPACE, self._lease, _request_timeout=_TIMEOUT
                )
            )
        except (_Raced, KubernetesError):
            self._say(f"{self._pool}: the lock stays until it expires")

    @staticmethod
    def _write_lease(write: Callable[[], Any]) -> Any:
        try:
            return call(write, raced=True)
        except ApiException:
            raise _Raced from None


class _Raced(Exception):
    """Somebody else has written in between."""


def _text(progress: Progress) -> str:
    pending = progress.pending
    return json.dumps({"extra": progress.extra, "pending": None if pending is None else vars(pending)})


def _read(lease: Any) -> Progress:
    try:
        found = json.loads((lease.metadata.annotations or {}).get(_NOTES) or "{}")
        pending = found.get("pending")
        return Progress(int(found.get("extra", 0)), None if pending is None else Pending(**pending))
    except (ValueError, TypeError, AttributeError):
        raise KubernetesError(
            f"the Lease {lease.metadata.name} in {_NAMESPACE} holds notes that this version cannot read; delete it "
            "when no roll is under way"
        ) from None


def call(work: Callable[[], Any], *, missing: bool = False, raced: bool = False) -> Any:
    """Return what the API answers; None for what is ``missing`` when that is expected."""
    try:
        return work()
    except ApiException as error:
        if missing and error.status == 404:
            return None
        if raced and error.status == 409:
            raise
        raise KubernetesError(f"the Kubernetes API answers {error.status} {error.reason}") from None
    except (HTTPError, OSError) as error:
        raise KubernetesError(
            f"the Kubernetes API is not reached ({type(error).__name__}). Next: see that it answers (`kubectl get "
            "nodes`), and roll again"
        ) from None
