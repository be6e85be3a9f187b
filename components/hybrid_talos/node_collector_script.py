"""Delete the Node objects of pool machines that are gone. Runs in the cluster, with Python's own library alone.

TalosCloudController puts this file into a ConfigMap and runs it as a CronJob; `node_collector.py` says why.
"""

import json
import os
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Node = dict[str, Any]

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
SCALED_AWAY = "ToBeDeletedByClusterAutoscaler"
TOKEN_FOLDER = os.environ.get("TOKEN_FOLDER", "/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class Limits:
    """Whose nodes are looked at, and for how many seconds they must have been silent."""

    pool_label: str
    scaled_away: float
    gone: float
    silent_pool: float


def _ready(node: Node) -> dict[str, Any]:
    conditions = node.get("status", {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == "Ready"), {})


def silent_for(node: Node, now: datetime) -> float | None:
    """Return for how many seconds the kubelet of ``node`` has not reported, or None when it reports or never did.

    `Unknown` is what the node controller writes when reports stop. `False` comes from a kubelet that lives.
    """
    ready = _ready(node)
    if ready.get("status") != "Unknown":
        return None
    return (now - datetime.fromisoformat(ready["lastTransitionTime"])).total_seconds()


def gone(nodes: Iterable[Node], now: datetime, limits: Limits) -> list[tuple[Node, str]]:
    """Return each node whose machine is taken to be gone, with the reason.

    - Only nodes of pools, never control planes: a pool's machine can be made again.
    - Tainted for deletion by the autoscaler, which then takes the machine away: silent for ``scaled_away``.
    - Otherwise silent for ``gone``, while another node of the pool is ready. A pool that is silent as a whole may be
      cut off rather than gone, so its nodes stay until ``silent_pool``.
    """
    ours = [
        (node, labels[limits.pool_label])
        for node in nodes
        if limits.pool_label in (labels := node["metadata"].get("labels") or {}) and CONTROL_PLANE not in labels
    ]
    alive = {pool for node, pool in ours if _ready(node).get("status") == "True"}
    found = []
    for node, pool in ours:
        silent = silent_for(node, now)
        if silent is None:
            continue
        tainted = any(taint["key"] == SCALED_AWAY for taint in node.get("spec", {}).get("taints") or [])
        if tainted and silent >= limits.scaled_away:
            found.append((node, "silent since the autoscaler took its machine away"))
        elif pool in alive and silent >= limits.gone:
            found.append((node, "silent while other nodes of its pool are ready"))
        elif silent >= limits.silent_pool:
            found.append((node, "silent together with its whole pool"))
    return found


class Api:
    """The two calls to the Kubernetes API that this needs."""

    def __init__(self, base: str, token: str, context: ssl.SSLContext | None = None) -> None:
        self.base, self.token, self.context = base, token, context

    def _call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        request = urllib.request.Request(
            self.base + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30, context=self.context) as answer:
            parsed: dict[str, Any] = json.load(answer)
        return parsed

    def nodes(self) -> list[Node]:
        """Return all nodes, read page by page."""
        found: list[Node] = []
        more = ""
        while True:
            page = self._call("GET", f"/api/v1/nodes?limit=500{more}")
            found += page["items"]
            following = page.get("metadata", {}).get("continue")
            if not following:
                return found
            more = f"&continue={urllib.parse.quote(following)}"

    def delete(self, node: Node) -> bool:
        """Delete a node as it was read; return False when it has changed or gone since."""
        meta = node["metadata"]
        same = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        try:
            self._call("DELETE", f"/api/v1/nodes/{urllib.parse.quote(meta['name'])}", {"preconditions": same})
        except urllib.error.HTTPError as error:
            if error.code in (404, 409):
                return False
            raise
        return True


def sweep(api: Api, now: datetime, limits: Limits, *, dry_run: bool, say: Callable[[str], object]) -> None:
    """Delete each node whose machine is gone, or only name it with ``dry_run``."""
    for node, reason in gone(api.nodes(), now, limits):
        name = node["metadata"]["name"]
        if dry_run:
            say(f"would delete node {name}: {reason}")
        elif api.delete(node):
            say(f"deleted node {name}: {reason}")
        else:
            say(f"left node {name}: it changed just now")


def main() -> None:
    """Sweep once, as the pod's own service account."""
    with open(f"{TOKEN_FOLDER}/token", encoding="utf-8") as file:
        token = file.read()
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    api = Api(f"https://{host}:{port}", token, ssl.create_default_context(cafile=f"{TOKEN_FOLDER}/ca.crt"))
    limits = Limits(
        pool_label=os.environ["POOL_LABEL"],
        scaled_away=float(os.environ["SCALED_AWAY_SECONDS"]),
        gone=float(os.environ["GONE_SECONDS"]),
        silent_pool=float(os.environ["SILENT_POOL_SECONDS"]),
    )
    dry_run = os.environ["DRY_RUN"] == "true"
    sweep(api, datetime.now(UTC), limits, dry_run=dry_run, say=lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
