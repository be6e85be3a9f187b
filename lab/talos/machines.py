"""The simulated machines and the clusters they form.

A machine is known by the address at which its Talos API answers; an address that nobody used yet is a machine that
booted the Talos image and waits in maintenance mode. What is on a machine's disk, an authority's key among it, is kept
in records of the kinds in PRIVATE_KINDS, which nothing may print.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from lab.world import CloudError, Record, World

from . import configs, pki
from .configs import MachineConfig

PACKAGE = "talos"
PRIVATE_KINDS = frozenset({"machine-disk"})
NODE_KIND = "v1/Node"

MAINTENANCE, CONFIGURED, BOOTSTRAPPED, OFF = "maintenance", "configured", "bootstrapped", "off"


def machine(world: World, address: str) -> dict[str, Any]:
    """Return a machine's record; one that nobody used yet is in maintenance mode."""
    found = world.get(PACKAGE, "machine", address)
    return found or {"address": address, "role": "", "hostname": "", "stage": MAINTENANCE, "cluster_id": ""}


def members(world: World, cluster_id: str, role: str | None = None) -> list[dict[str, Any]]:
    """Return the machines that have a config of a cluster, those of one role or all, oldest first."""
    found = [record.doc for record in world.find(PACKAGE, "machine", cluster_id=cluster_id)]
    return [doc for doc in found if role in (None, doc["role"])]


def cluster_at(world: World, server: str) -> Record | None:
    """Return the cluster whose API server answers at an URL, or None when nothing listens there."""
    where = urlsplit(server)
    for record in world.find(PACKAGE, "cluster"):
        for doc in members(world, record.id, "controlplane"):
            endpoint = urlsplit(doc["endpoint"])
            if (where.hostname, where.port) in ((endpoint.hostname, endpoint.port), (doc["address"], 6443)):
                return record
    return None


def api_problem(world: World, cluster: Record) -> str | None:
    """Say why a cluster's Kubernetes API does not answer, or None when it does."""
    if not cluster.doc["bootstrapped"]:
        return f"connect: connection refused (the cluster {cluster.doc['name']} has not been bootstrapped)"
    if not _quorum(world, cluster.doc):
        return f"etcdserver: no leader (the cluster {cluster.doc['name']} lost the majority of its control planes)"
    return None


def running(world: World, cluster_id: str) -> bool:
    """Say whether any control plane of a cluster runs."""
    return any(plane["stage"] == BOOTSTRAPPED for plane in members(world, cluster_id, "controlplane"))


def kubernetes_authority(world: World, cluster_id: str) -> pki.Authority:
    """Return the Kubernetes authority of a cluster, key included, off the disk of one of its control planes."""
    for plane in members(world, cluster_id, "controlplane"):
        disk = world.get(PACKAGE, "machine-disk", plane["address"])
        if disk is not None:
            return pki.Authority(**disk["kubernetes_ca"])
    raise LookupError("no control plane of the cluster has a disk")


def _alive(world: World, voters: list[str]) -> list[str]:
    return [address for address in voters if machine(world, address)["stage"] == BOOTSTRAPPED]


def _quorum(world: World, cluster: Mapping[str, Any]) -> bool:
    voters = cluster["voters"]
    return 2 * len(_alive(world, voters)) > len(voters)


def check_reach(world: World, node: str, endpoint: str, client: Mapping[str, Any]) -> dict[str, Any]:
    """Return the machine that a Talos client reaches, or refuse as its connection would fail.

    A machine in maintenance mode takes anyone, but only on its own address: no other machine hands calls on to it.
    Any other machine takes only clients of its own authority (siderolabs/terraform-provider-talos pkg/talos/util.go,
    ``talosClientOp``).
    """
    found = machine(world, node)
    for address in (endpoint, node):
        if machine(world, address)["stage"] == OFF:
            raise CloudError("Unavailable", f"connection error: dial tcp {address}:50000: connect: no route to host")
    if found["stage"] == MAINTENANCE:
        if endpoint != node and world.get(PACKAGE, "machine", endpoint) is not None:
            raise CloudError(
                "Unavailable",
                f"machine {node} is in maintenance mode: it must be its own endpoint, {endpoint} cannot reach it",
            )
        return found
    disk = world.get(PACKAGE, "machine-disk", node) or {}
    accepted = [disk.get("os_ca", ""), *disk.get("os_accepted", ())]
    refusals = [pki.trusted(str(client.get("clientCertificate", "")), authority) for authority in accepted]
    problem = None if None in refusals else refusals[0]
    if problem is None and pki.fingerprint(disk["os_ca"]) not in pki.fingerprints(str(client.get("caCertificate", ""))):
        problem = "x509: certificate signed by unknown authority"
    if problem:
        raise CloudError("Unavailable", f"connection error: {node}: authentication handshake failed: {problem}")
    return found


def apply(world: World, address: str, text: str, mode: str) -> dict[str, Any]:
    """Give a machine its config, as the machine API's ApplyConfiguration does; return its record."""
    config = configs.read(text)
    with world.transaction():
        before = machine(world, address)
        _check_config(world, before, config)
        cluster = _cluster_record(world, config)
        joins = config.role == "controlplane" and cluster["bootstrapped"]
        if joins and address not in cluster["voters"] and not _quorum(world, cluster):
            raise CloudError("Unavailable", f"machine {address} cannot join etcd: etcdserver: no leader")
        doc = {
            "address": address,
            "role": config.role,
            "hostname": config.hostname,
            "config_sha256": pki.digest(text),
            "stage": BOOTSTRAPPED if joins else CONFIGURED,
            "cluster_id": config.cluster_id,
            "endpoint": config.endpoint,
            "kubernetes_version": config.kubernetes_version,
            "apply_mode": mode,
            "talos_api": config.talos_api,
            "anonymous": config.anonymous,
        }
        world.put(PACKAGE, "machine", address, doc)
        node = _node(doc, config)
        disk = {
            "os_ca": config.os_ca,
            "os_accepted": list(config.os_accepted),
            "kubernetes_ca": asdict(config.kubernetes_ca),
            "node": node,
        }
        world.put(PACKAGE, "machine-disk", address, disk)
        if joins and address not in cluster["voters"]:
            world.put(PACKAGE, "cluster", config.cluster_id, cluster | {"voters": [*cluster["voters"], address]})
        if cluster["bootstrapped"]:
            _register(world, cluster, node)
        return doc


def _register(world: World, cluster: Mapping[str, Any], node: dict[str, Any]) -> None:
    """Let a kubelet register its Node, or bring one that is there up to date without losing what others wrote on it."""
    id = f"{cluster['key']}/{node['metadata']['name']}"
    there = world.get("kubernetes", NODE_KIND, id)
    if there is not None:
        metadata = there.get("metadata", {})
        own = node["metadata"]
        merged = {name: {**metadata.get(name, {}), **own[name]} for name in ("labels", "annotations")}
        node = {**there, "metadata": {**metadata, **merged}, "status": node["status"]}
    world.put("kubernetes", NODE_KIND, id, node)


def _check_config(world: World, before: Mapping[str, Any], config: MachineConfig) -> None:
    address = before["address"]
    problems = config.problems
    if before["role"] and before["role"] != config.role:
        problems.append(f"machine {address} is a {before['role']} and cannot become a {config.role}: reset it first")
    if before["cluster_id"] and before["cluster_id"] != config.cluster_id:
        problems.append(f"machine {address} belongs to another cluster: reset it first")
    for other in members(world, config.cluster_id):
        if config.hostname and other["address"] != address and other["hostname"] == config.hostname:
            problems.append(f"the host name {config.hostname} is that of the machine {other['address']} already")
    if problems:
        raise CloudError("InvalidArgument", "; ".join(problems))


def _cluster_record(world: World, config: MachineConfig) -> dict[str, Any]:
    found = world.get(PACKAGE, "cluster", config.cluster_id)
    if found is None:
        keys = {record.doc["key"] for record in world.find(PACKAGE, "cluster")}
        key = config.cluster_name
        if key in keys:
            key = f"{key}-{config.cluster_id[:6]}"
        found = {
            "name": config.cluster_name,
            "key": key,
            "bootstrapped": False,
            "voters": [],
            "kubernetes_ca": config.kubernetes_ca.crt,
        }
        world.put(PACKAGE, "cluster", config.cluster_id, found)
    return found


def _node(doc: Mapping[str, Any], config: MachineConfig) -> dict[str, Any]:
    name = config.hostname or f"talos-{pki.digest(doc['address'])[:3]}-{pki.digest(doc['address'])[3:6]}"
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        **config.labels,
    }
    taints = [_taint(key, value) for key, value in config.taints.items()]
    if config.role == "controlplane":
        labels["node-role.kubernetes.io/control-plane"] = ""
    if not config.schedulable:
        taints.append(_taint("node-role.kubernetes.io/control-plane", ":NoSchedule"))
    if config.external_cloud:
        taints.append(_taint("node.cloudprovider.kubernetes.io/uninitialized", "true:NoSchedule"))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": dict(config.annotations)},
        "spec": {"taints": taints},
        "status": {
            "addresses": [{"type": "InternalIP", "address": doc["address"]}, {"type": "Hostname", "address": name}],
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": f"v{config.kubernetes_version}"},
        },
    }


def _taint(key: str, value: str) -> dict[str, str]:
    text, _, effect = value.rpartition(":")
    return {"key": key, "value": text, "effect": effect}


def bootstrap(world: World, address: str) -> None:
    """Start etcd on a control plane, once in a cluster's life (siderolabs/talos v1alpha1_server.go, ``Bootstrap``)."""
    with world.transaction():
        doc = machine(world, address)
        if doc["stage"] == MAINTENANCE:
            raise CloudError(
                "FailedPrecondition",
                f"bootstrap is not available yet: machine {address} has no configuration",
            )
        if doc["role"] != "controlplane":
            raise CloudError("Unimplemented", f"bootstrap is only available on control plane nodes; {address} is none")
        cluster = world.get(PACKAGE, "cluster", doc["cluster_id"]) or {}
        if cluster["bootstrapped"]:
            raise CloudError("AlreadyExists", "etcd data directory is not empty")
        planes = members(world, doc["cluster_id"], "controlplane")
        for plane in planes:
            world.put(PACKAGE, "machine", plane["address"], plane | {"stage": BOOTSTRAPPED})
        voters = [plane["address"] for plane in planes]
        world.put(PACKAGE, "cluster", doc["cluster_id"], cluster | {"bootstrapped": True, "voters": voters})
        for member in members(world, doc["cluster_id"]):
            disk = world.get(PACKAGE, "machine-disk", member["address"])
            if disk is not None:
                _register(world, cluster, disk["node"])


def kubeconfig(world: World, address: str) -> tuple[str, str]:
    """Return the name of a machine's cluster and a new admin kubeconfig of it."""
    doc = machine(world, address)
    if doc["stage"] == MAINTENANCE:
        raise CloudError("Unimplemented", f"kubeconfig is not available: machine {address} is in maintenance mode")
    if doc["role"] != "controlplane":
        raise CloudError("Unimplemented", f"kubeconfig is only available on control plane nodes; {address} is none")
    cluster = world.get(PACKAGE, "cluster", doc["cluster_id"]) or {}
    if not cluster["bootstrapped"]:
        raise CloudError("Unavailable", f"the cluster {cluster['name']} has not been bootstrapped")
    disk = world.get(PACKAGE, "machine-disk", address) or {}
    authority = pki.Authority(**disk["kubernetes_ca"])
    return cluster["name"], pki.admin_kubeconfig(cluster["name"], doc["endpoint"], authority)


def health_problem(world: World, control_planes: list[str], workers: list[str]) -> str | None:
    """Say which part of a cluster is not healthy, or None."""
    for address in control_planes:
        if machine(world, address)["stage"] != BOOTSTRAPPED:
            return f"etcd to be healthy: {address} is not a member"
        if machine(world, address)["role"] != "controlplane":
            return f"{address} is not a control plane"
    for address in workers:
        if machine(world, address)["stage"] not in (CONFIGURED, BOOTSTRAPPED):
            return f"all nodes to finish boot sequence: {address} has not"
    return None


def reset(world: World, address: str, *, graceful: bool, reboot: bool) -> None:
    """Wipe a machine. A graceful reset leaves etcd first; without a reboot the machine is off afterwards."""
    with world.transaction():
        doc = machine(world, address)
        if doc["stage"] == MAINTENANCE:
            return
        cluster = world.get(PACKAGE, "cluster", doc["cluster_id"])
        if cluster is not None and address in cluster["voters"]:
            if graceful:
                cluster["voters"] = _leave(world, cluster, address)
            world.put(PACKAGE, "cluster", doc["cluster_id"], cluster)
        for kind in ("machine", "machine-disk"):
            world.remove(PACKAGE, kind, address)
        if not reboot:
            world.put(PACKAGE, "machine", address, {**machine(world, address), "stage": OFF})
        if cluster is not None and not members(world, doc["cluster_id"], "controlplane"):
            _forget(world, doc["cluster_id"], cluster["key"])


def _leave(world: World, cluster: Mapping[str, Any], address: str) -> list[str]:
    """Return etcd's voters without a member that leaves in order, which needs the majority and another member."""
    if cluster["voters"] == [address]:
        raise CloudError(
            "DeadlineExceeded",
            f"{address} is the last etcd member of {cluster['name']} and cannot leave: a graceful reset never ends",
        )
    if not _quorum(world, cluster):
        raise CloudError("DeadlineExceeded", f"{address} cannot leave etcd: etcdserver: no leader")
    return [voter for voter in cluster["voters"] if voter != address]


def _forget(world: World, cluster_id: str, key: str) -> None:
    """Drop a cluster whose last control plane is gone: its objects were in that machine's etcd."""
    world.remove(PACKAGE, "cluster", cluster_id)
    for record in world.find("kubernetes"):
        if record.id.startswith(f"{key}/"):
            world.remove("kubernetes", record.kind, record.id)


def power(world: World, address: str, *, on: bool) -> None:
    """Switch a machine off, or on again; what is on its disk stays."""
    with world.transaction():
        doc = machine(world, address)
        if on and doc["stage"] == OFF:
            stage = doc.pop("stage_before", MAINTENANCE)
            world.put(PACKAGE, "machine", address, {**doc, "stage": stage})
        if not on and doc["stage"] != OFF:
            world.put(PACKAGE, "machine", address, {**doc, "stage": OFF, "stage_before": doc["stage"]})
