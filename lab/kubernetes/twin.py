"""Kilo's DaemonSet in the Kubernetes API of the machines that answer, where the program itself reads Nodes.

What the simulated Kubernetes provider makes is kept in the world. The machines of a lab's settings have an API of their
own (lab/talos/fleet.py), and the agents that they simulate run where that API has Kilo's DaemonSet: so it is put there
too, as it was sent. No other object is: nothing that answers there depends on one.
"""

import base64
import http.client
import json
import ssl
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from lab.talos import fleet, machines, pki
from lab.wire import plain
from lab.world import CloudError

from .objects import Cluster, Reference

_PATIENCE = 60.0
_PAUSE = 0.2
_SECONDS = 10
_GONE = (200, 202, 404)
_DONE = (200, 201)


def is_kilo(kind: str, doc: Mapping[str, Any]) -> bool:
    """Say whether an object is a DaemonSet that runs Kilo's agent."""
    if kind != "apps/v1/DaemonSet":
        return False
    pod = ((doc.get("spec") or {}).get("template") or {}).get("spec") or {}
    return any("/kilo:" in str(one.get("image")) or "/kilo@" in str(one.get("image")) for one in pod["containers"])


def put(cluster: Cluster, reference: Reference, sent: Mapping[str, Any]) -> None:
    """Give the machines' API an object that the world has got."""
    if not is_kilo(reference.type, plain(sent)):
        return
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": reference.namespace}}
    _ask(cluster, "PATCH", f"/api/v1/namespaces/{reference.namespace}", _DONE, namespace)
    _ask(cluster, "PATCH", _path(reference), _DONE, plain(sent))


def remove(cluster: Cluster, reference: Reference) -> None:
    """Take an object out of the machines' API, before the world forgets it."""
    doc = cluster.get(reference.type, reference.namespace, reference.name)
    if doc is not None and is_kilo(reference.type, doc):
        _ask(cluster, "DELETE", _path(reference), _GONE)


def _path(reference: Reference) -> str:
    return f"/apis/apps/v1/namespaces/{reference.namespace}/daemonsets/{reference.name}"


def _ask(cluster: Cluster, verb: str, path: str, expected: tuple[int, ...], body: Any = None) -> None:
    """Send a request to a control plane that answers; where no machine does, there is nobody to tell."""
    held = fleet.of(cluster.world)
    planes = [plane["address"] for plane in machines.members(cluster.world, cluster.record.id, "controlplane")]
    if held is None or all(held.node(address) is None for address in planes):
        return
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            status = _answer(cluster, held.kubernetes_of(planes), verb, path, body)
            problem = "" if status in expected else f"{verb} {path}: HTTP {status}"
        except (OSError, http.client.HTTPException) as error:
            problem = f"{verb} {path}: {error}"
        if not problem:
            return
        if time.monotonic() >= end:
            raise CloudError("Unreachable", f"the Kubernetes API of the lab's machines does not answer: {problem}")
        time.sleep(_PAUSE)


def _answer(cluster: Cluster, address: str | None, verb: str, path: str, body: Any) -> int:
    if address is None:
        raise ConnectionRefusedError("no control plane runs")
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPSConnection(host, int(port), timeout=_SECONDS, context=_admin(cluster))
    headers = {"Content-Type": "application/apply-patch+yaml"}
    try:
        connection.request(verb, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def _admin(cluster: Cluster) -> ssl.SSLContext:
    """Return what an administrator of the cluster connects with."""
    authority = machines.kubernetes_authority(cluster.world, cluster.record.id)
    config = yaml.safe_load(pki.admin_kubeconfig("lab", "https://lab", authority))
    user = config["users"][0]["user"]
    context = ssl.create_default_context(cadata=pki.pem(authority.crt))
    # The ssl module takes keys from files only; this one is gone, with its folder, before anything is asked.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "admin.pem"
        path.touch(mode=0o600)
        pair = (user["client-key-data"], user["client-certificate-data"])
        path.write_bytes(b"".join(base64.b64decode(part) for part in pair))
        context.load_cert_chain(path)
    return context
