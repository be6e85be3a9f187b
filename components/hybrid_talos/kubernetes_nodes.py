"""What this program asks of a cluster's Nodes: cordon, drain, uncordon, delete, through the official Python client.

Pods leave through the eviction API, so that budgets are honoured (kubernetes.io, "API-initiated Eviction").
"""

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

import yaml
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from .secret_file import secret_file
from .talos_calls import NodeStatus, Say
from .work_provider import WorkError

CORDONED = "hybrid-talos/cordoned"
"""Annotation of a Node that this program cordoned, so that it uncordons only those, in a later run too."""

_PAUSE = 5.0
_TIMEOUT = (10, 30)
"""Seconds to connect and to wait for an answer."""


class KubernetesError(WorkError):
    """A call to the Kubernetes API that failed."""


class Nodes(Protocol):
    """The Nodes of one cluster."""

    def status(self, name: str) -> NodeStatus | None:
        """Return a Node, or None when there is none."""

    def cordon(self, name: str) -> None:
        """Let no new pods come to a Node; no error when there is no such Node."""

    def drain(self, name: str, seconds: float, *, bare: bool, say: Say) -> None:
        """Evict the pods of a Node within so many seconds; ``bare`` ones that nobody makes anew too, when asked for."""

    def uncordon(self, name: str) -> None:
        """Let pods come again, if it was this program that cordoned the Node."""

    def delete(self, name: str) -> None:
        """Delete a Node; one that is gone is no error."""

    def listed(self) -> list[dict[str, Any]]:
        """Return all Nodes, as the API writes them."""

    def forget_token(self, token_id: str) -> None:
        """Delete a bootstrap token, so that nobody joins with it any more; one that is gone is no error."""


@contextmanager
def nodes_of(kubeconfig: str, connect_to: str | None) -> Iterator["KubernetesNodes"]:
    """Yield the Nodes of the cluster of a kubeconfig, whose keys are held in memory alone.

    ``connect_to`` is an `https://host:port` to connect to in place of the kubeconfig's server; the certificate there
    must still be one for the host of that server.
    """
    try:
        parsed = yaml.safe_load(kubeconfig)
        cluster, user = parsed["clusters"][0]["cluster"], parsed["users"][0]["user"]
        server, authority = str(cluster["server"]), base64.b64decode(cluster["certificate-authority-data"]).decode()
        certificate = base64.b64decode(user["client-certificate-data"]).decode()
        key = base64.b64decode(user["client-key-data"]).decode()
    except (yaml.YAMLError, KeyError, TypeError, IndexError, ValueError):
        # Without the cause, which would quote the credentials.
        raise KubernetesError("the machines returned no usable kubeconfig") from None
    with secret_file(certificate) as certificate_file, secret_file(key) as key_file:
        settings: Any = client.Configuration(host=connect_to or server)
        settings.cert_file, settings.key_file = certificate_file.path, key_file.path
        settings.ca_cert_data = authority
        settings.tls_server_name = urlsplit(server).hostname if connect_to else None
        settings.retries = False
        with client.ApiClient(settings) as api:
            yield KubernetesNodes(api)


class KubernetesNodes:
    """The Nodes of one cluster; ``api`` is the client that they are asked by."""

    def __init__(
        self,
        api: client.ApiClient,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.api = api
        self._core: Any = client.CoreV1Api(api)
        self._clock = clock
        self._sleep = sleep

    def status(self, name: str) -> NodeStatus | None:
        """Return a Node, or None when there is none."""
        node = self._call(lambda: self._core.read_node(name, _request_timeout=_TIMEOUT), missing=True)
        if node is None:
            return None
        ready = any(c.type == "Ready" and c.status == "True" for c in (node.status.conditions or ()))
        return NodeStatus(name, ready, not node.spec.unschedulable)

    def listed(self) -> list[dict[str, Any]]:
        """Return all Nodes, as the API writes them."""
        # The client's own model of a Node refuses one that lacks a field which nobody asks for here.
        answer = self._call(lambda: self._core.list_node(_preload_content=False, _request_timeout=_TIMEOUT))
        if answer.status != 200:
            raise KubernetesError(f"the Kubernetes API answers {answer.status} to the question for its Nodes")
        return list(json.loads(answer.data)["items"])

    def cordon(self, name: str) -> None:
        """Let no new pods come to a Node; no error when there is no such Node."""
        status = self.status(name)
        if status is None or not status.schedulable:
            return
        patch = {"metadata": {"annotations": {CORDONED: "true"}}, "spec": {"unschedulable": True}}
        self._call(lambda: self._core.patch_node(name, patch, _request_timeout=_TIMEOUT), missing=True)

    def uncordon(self, name: str) -> None:
        """Let pods come again, if it was this program that cordoned the Node."""
        node = self._call(lambda: self._core.read_node(name, _request_timeout=_TIMEOUT), missing=True)
        if node is None or CORDONED not in (node.metadata.annotations or {}):
            return
        patch = {"metadata": {"annotations": {CORDONED: None}}, "spec": {"unschedulable": None}}
        self._call(lambda: self._core.patch_node(name, patch, _request_timeout=_TIMEOUT), missing=True)

    def delete(self, name: str) -> None:
        """Delete a Node; one that is gone is no error."""
        self._call(lambda: self._core.delete_node(name, _request_timeout=_TIMEOUT), missing=True)

    def forget_token(self, token_id: str) -> None:
        """Delete a bootstrap token, so that nobody joins with it any more; one that is gone is no error."""
        name = f"bootstrap-token-{token_id}"
        self._call(
            lambda: self._core.delete_namespaced_secret(name, "kube-system", _request_timeout=_TIMEOUT), missing=True
        )

    def drain(self, name: str, seconds: float, *, bare: bool, say: Say) -> None:
        """Evict the pods of a Node within so many seconds; ``bare`` ones that nobody makes anew too, when asked for."""
        end = self._clock() + seconds
        asked: set[str] = set()
        while True:
            pods = [pod for pod in self._pods(name) if _leaves(pod, bare)]
            if not pods:
                return
            held = self._evict([pod for pod in pods if pod.metadata.uid not in asked], asked)
            if self._clock() >= end:
                raise KubernetesError(self._overdue(name, seconds, pods, held))
            say(f"draining {name}: {len(pods)} pods left" + (f", held back: {', '.join(sorted(held))}" if held else ""))
            self._sleep(_PAUSE)

    def _pods(self, name: str) -> list[Any]:
        found = self._call(
            lambda: self._core.list_pod_for_all_namespaces(
                field_selector=f"spec.nodeName={name}", _request_timeout=_TIMEOUT
            )
        )
        return list(found.items)

    def _evict(self, pods: list[Any], asked: set[str]) -> dict[str, str]:
        """Ask for the eviction of pods; return those that a budget holds back, and why."""
        held: dict[str, str] = {}
        for pod in pods:
            if pod.metadata.deletion_timestamp is not None:
                continue
            name, namespace = pod.metadata.name, pod.metadata.namespace
            body = client.V1Eviction(
                metadata=client.V1ObjectMeta(name=name, namespace=namespace),
                # Only this very pod, not one that has its name by now.
                delete_options=client.V1DeleteOptions(preconditions=client.V1Preconditions(uid=pod.metadata.uid)),
            )
            try:
                self._core.create_namespaced_pod_eviction(name, namespace, body, _request_timeout=_TIMEOUT)
                asked.add(pod.metadata.uid)
            except ApiException as error:
                # 429: a budget. 404, 409: gone, or another one by now. 500: two budgets want the same pod.
                if error.status == 429 or error.status >= 500:
                    held[f"{namespace}/{name}"] = _reason(error)
                elif error.status not in (404, 409):
                    raise KubernetesError(f"{namespace}/{name} cannot be evicted: {_reason(error)}") from None
            except (HTTPError, OSError) as error:
                raise _unreachable(error) from None
        return held

    @staticmethod
    def _overdue(name: str, seconds: float, pods: list[Any], held: dict[str, str]) -> str:
        listed = [f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods]
        why = "; ".join(f"{pod}: {held.get(pod) or 'is evicted but does not end'}" for pod in sorted(listed)[:5])
        more = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
        return (
            f"{name} was not drained within {seconds / 60:.0f} minutes: {why}{more}. Next: add replicas or loosen the "
            "budgets, or give it more time (drain_minutes), then run `pulumi up` again"
        )

    def _call(self, call: Callable[[], Any], *, missing: bool = False) -> Any:
        try:
            return call()
        except ApiException as error:
            if missing and error.status == 404:
                return None
            raise KubernetesError(f"the Kubernetes API answers {_reason(error)}") from None
        except (HTTPError, OSError) as error:
            raise _unreachable(error) from None


def _unreachable(error: Exception) -> KubernetesError:
    return KubernetesError(
        f"the Kubernetes API is not reached ({type(error).__name__}). Next: see that it answers (`kubectl get nodes`), "
        "or set drain_minutes to 0 to go on without moving pods"
    )


def _leaves(pod: Any, bare: bool) -> bool:
    """Return whether a pod has to leave a Node that is drained."""
    if "kubernetes.io/config.mirror" in (pod.metadata.annotations or {}):
        return False
    if pod.status.phase in ("Succeeded", "Failed"):
        return False
    owner = next((ref for ref in pod.metadata.owner_references or () if ref.controller), None)
    return bare if owner is None else owner.kind != "DaemonSet"


def _reason(error: ApiException) -> str:
    """Return what the API says, with the causes, in one line."""
    try:
        body = yaml.safe_load(error.body or "")
        causes = [str(cause["message"]) for cause in (body.get("details") or {}).get("causes") or ()]
        return f"{error.status}: {'; '.join(causes) or body['message']}"[:300]
    except (yaml.YAMLError, KeyError, TypeError, AttributeError):
        return f"{error.status} {error.reason}"
