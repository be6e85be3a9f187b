"""Simulated kubelets for a real control plane: they report for their nodes and say of every pod that it runs.

What they do is what a kubelet's API calls do: a lease and a status for each node, a status for each pod that the
scheduler has put there, and the last step of a deletion. No container runs.
"""

import contextlib
import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import requests
from kubernetes_cluster import Cluster, Refused, wait_for

CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_EVERY_SECONDS = 1.0


def now() -> str:
    """Return the time as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def conditions(node: Any) -> dict[str, str]:
    """Return the status of each condition of a node."""
    return {one["type"]: one["status"] for one in node["status"].get("conditions", [])}


class Kubelets:
    """All simulated kubelets, in one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self.api = cluster.api()
        self._own_api = cluster.api()  # the thread's: a session is no thing to share
        self.nodes: set[str] = set()
        """The nodes that report; a name taken out is a machine that has vanished."""
        self.waiting: set[str] = set()
        """Those of them whose network is not there yet, so that they are not ready."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin to report."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join(30)

    def add(
        self,
        name: str,
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        *,
        control_plane: bool = False,
        network: bool = True,
    ) -> None:
        """Register a node and wait until it counts as ready, or without a network as not ready."""
        own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **(labels or {})}
        tainted = list(taints)
        if control_plane:
            own[CONTROL_PLANE] = ""
            tainted.append({"key": CONTROL_PLANE, "effect": "NoSchedule"})
        body = {"metadata": {"name": name, "labels": own}, "spec": {"taints": tainted}}
        self.api.create("/api/v1/nodes", body)
        if not network:
            self.waiting.add(name)
        self.nodes.add(name)
        wait_for(f"status of node {name}", lambda: self._settled(name))

    def _settled(self, name: str) -> bool:
        """Whether the node has reported, and the controllers' taint says the same."""
        node = self.api.get(f"/api/v1/nodes/{name}")
        tainted = any(taint["key"].startswith("node.kubernetes.io/") for taint in node["spec"].get("taints", []))
        return "Ready" in conditions(node) and tainted == (name in self.waiting)

    def remove(self, *names: str) -> None:
        """Take nodes away, as if somebody had deleted them."""
        for name in names:
            self.nodes.discard(name)
            self.waiting.discard(name)
            with contextlib.suppress(Refused):
                self.api.delete(f"/api/v1/nodes/{name}")

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_SECONDS):
            # A node or pod may go away between two calls; the next round sees it.
            with contextlib.suppress(Refused, requests.RequestException):
                for name in sorted(self.nodes):
                    self._report(name)
                for pod in self._own_api.items("/api/v1/pods"):
                    if pod["spec"].get("nodeName") in self.nodes:
                        self._run_pod(pod)

    def _report(self, name: str) -> None:
        api, time = self._own_api, now()
        lease = {
            "metadata": {"name": name, "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": time},
        }
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        try:
            api.merge(f"{leases}/{name}", lease)
        except Refused as error:
            if error.status != 404:
                raise
            api.create(leases, lease)
        ready = "False" if name in self.waiting else "True"
        if conditions(api.get(f"/api/v1/nodes/{name}")).get("Ready") == ready:
            return
        capacity = {"cpu": "4", "memory": "8Gi", "pods": "110", "ephemeral-storage": "50Gi"}
        status = {
            "capacity": capacity,
            "allocatable": capacity,
            "addresses": [{"type": "Hostname", "address": name}],
            "conditions": [
                {
                    "type": "Ready",
                    "status": ready,
                    "reason": "KubeletReady" if ready == "True" else "KubeletNotReady",
                    "message": "simulated",
                    "lastHeartbeatTime": time,
                    "lastTransitionTime": time,
                }
            ],
        }
        api.merge(f"/api/v1/nodes/{name}/status", {"status": status})

    def _run_pod(self, pod: Any) -> None:
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if "deletionTimestamp" in meta:
            self._own_api.delete(path, {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}})
            return
        if pod["status"]["phase"] != "Pending":
            return
        time = now()
        containers = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": True,
                "started": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": time}},
            }
            for container in pod["spec"]["containers"]
        ]
        steps = [
            {"type": kind, "status": "True", "lastTransitionTime": time}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ]
        status = {"phase": "Running", "startTime": time, "conditions": steps, "containerStatuses": containers}
        self._own_api.merge(f"{path}/status", {"status": status})
