"""What the Kubernetes API says, as far as checks need it. Reads, and access reviews, which store nothing."""

import json
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode

from hybrid_talos.kubernetes_nodes import KubernetesError, nodes_of
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from .facts import Cluster, Running, autoscalers
from .finding import Finding, Level
from .rights import Right, needed

_TIMEOUT = (10, 30)
_PAGE = "500"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_LISTS = {
    "nodes": ("/api/v1/nodes", {}),
    "pods": ("/api/v1/pods", {"fieldSelector": "status.phase=Pending"}),
    "deployments": ("/apis/apps/v1/deployments", {}),
    "daemon_sets": ("/apis/apps/v1/daemonsets", {}),
    "requests": ("/apis/certificates.k8s.io/v1/certificatesigningrequests", {}),
}
_WHAT = {"daemon_sets": "daemonsets", "requests": "certificatesigningrequests"}


def gather(kubeconfig: str, connect_to: str | None) -> tuple[Cluster | None, list[Finding]]:
    """Return what the API says, and what it would not say; None when it is not reached at all.

    ``connect_to`` is an `https://host:port` to connect to in place of the kubeconfig's server.
    """
    try:
        with nodes_of(kubeconfig, connect_to) as nodes:
            return Reader(nodes.api).read()
    except KubernetesError as error:
        return None, [_unreached(str(error))]
    except ApiException as error:
        return None, [_unreached(f"the Kubernetes API answers {error.status} to the question for its version")]


def _unreached(what: str) -> Finding:
    return Finding(
        Level.UNKNOWN,
        "kubernetes",
        what.partition(". Next:")[0],
        "neither nodes nor autoscalers could be looked at",
        "see that `kubectl get nodes` works from here, or use --kubernetes-server",
    )


class Reader:
    """Reads a cluster through a client."""

    def __init__(self, api: client.ApiClient) -> None:
        self._api: Any = api
        self._now = time.time()
        self._findings: list[Finding] = []
        self._unread: set[str] = set()

    def read(self) -> tuple[Cluster | None, list[Finding]]:
        """Return what the API says, and what it would not say; None without Nodes or Deployments, which all is about.

        Raises KubernetesError when it is not reached.
        """
        version = str((self._call("GET", "/version") or {}).get("gitVersion") or "")
        lists = {key: self._listed(_WHAT.get(key, key), *where) for key, where in _LISTS.items()}
        if {"nodes", "deployments"} & self._unread:
            return None, self._findings
        running = autoscalers(lists["deployments"])
        leases, maps = [], []
        for one in running:
            space = f"namespaces/{one.namespace}"
            leases += self._one("leases", f"/apis/coordination.k8s.io/v1/{space}/leases/{one.lease}")
            maps += self._one("configmaps", f"/api/v1/{space}/configmaps/{one.status_map}")
        denied = {
            f"{one.namespace}/{one.account}": found for one in running if (found := self._denied(one)) is not None
        }
        made: Mapping[str, Any] = lists
        unread = frozenset(self._unread)
        cluster = Cluster(
            version=version, now=self._now, leases=leases, maps=maps, denied=denied, unread=unread, **made
        )
        return cluster, self._findings

    def _listed(self, what: str, path: str, query: Mapping[str, str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        more: dict[str, str] = {}
        while True:
            try:
                answer = self._call("GET", path, query={**query, "limit": _PAGE, **more}) or {}
            except ApiException as error:
                self._refused(what, f"{what} cannot be listed: the API answers {error.status}")
                return found
            found += answer.get("items") or []
            token = (answer.get("metadata") or {}).get("continue")
            if not token:
                return found
            more = {"continue": str(token)}

    def _one(self, what: str, path: str) -> list[dict[str, Any]]:
        try:
            return [self._call("GET", path) or {}]
        except ApiException as error:
            if error.status != 404:
                self._refused(what, f"{what} cannot be read: the API answers {error.status}")
            return []

    def _denied(self, one: Running) -> Sequence[str] | None:
        """Return the rights that an autoscaler has not; None when the API does not say."""
        try:
            return [str(right) for right in needed(one) if not self._may(one, right)]
        except ApiException as error:
            asked = f"the rights of {one.namespace}/{one.account}"
            self._refused("rights", f"{asked} cannot be asked for: the API answers {error.status}")
            return None

    def _may(self, one: Running, right: Right) -> bool:
        resource, _, subresource = right.resource.partition("/")
        attributes = {
            "verb": right.verb,
            "group": right.group,
            "resource": resource,
            "subresource": subresource,
            "name": right.name,
            "namespace": right.namespace,
        }
        spec = {
            "user": f"system:serviceaccount:{one.namespace}:{one.account}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{one.namespace}", "system:authenticated"],
            "resourceAttributes": attributes,
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        return bool(((self._call("POST", _REVIEWS, body) or {}).get("status") or {}).get("allowed"))

    def _refused(self, kind: str, what: str) -> None:
        self._unread.add(kind)
        why, do = "it may stop the pools", "use credentials that may read it"
        self._findings.append(Finding(Level.UNKNOWN, "kubernetes", what, why, do))

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, str] | None = None
    ) -> dict[str, Any] | None:
        try:
            # The client's own models refuse objects that lack a field which nobody asks for here.
            answer = self._api.call_api(
                method,
                self._api.configuration.host + path + _words(query),
                {"Accept": "application/json", "Content-Type": "application/json"},
                body,
                _request_timeout=_TIMEOUT,
            )
            data = answer.read()
        except (HTTPError, OSError, ApiException) as error:
            # Of the client itself comes one alone: for a certificate that is not the cluster's.
            name = "TLS" if isinstance(error, ApiException) else type(error).__name__
            raise KubernetesError(f"the Kubernetes API is not reached ({name})") from None
        if not 200 <= answer.status < 300:
            raise ApiException(status=answer.status, reason=answer.reason)
        date = answer.getheader("date")
        if date:
            # Ages are told by the clock that wrote them, as far as that is known.
            self._now = parsedate_to_datetime(date).timestamp()
        try:
            loaded = json.loads(data)
        except ValueError:
            raise KubernetesError("what answers in the place of the Kubernetes API is something else") from None
        return loaded if isinstance(loaded, dict) else None


def _words(query: Mapping[str, str] | None) -> str:
    return f"?{urlencode(query)}" if query else ""
