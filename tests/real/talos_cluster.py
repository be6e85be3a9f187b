"""A cluster of fake Talos nodes and the real talosctl to work on it."""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kubernetes

from lab.talos.nodes import Machine, TalosNodes, Timings

QUICK: Timings = {"install": 100, "stop": 100, "boot": 200, "services": 100, "join": 50, "promote": 50, "leave": 1000}
"""For tests in which talosctl does not wait for a reboot."""

CONTROL_PLANES = ("cp-1", "cp-2", "cp-3")
WORKERS = ("worker-1", "worker-2")
KUBERNETES = "1.35.4"


@dataclass(frozen=True)
class Ran:
    """What a talosctl command gave."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


class Cluster:
    """A fleet, a folder with the cluster's configs, and talosctl."""

    secrets = ""
    """Made once for all clusters: it takes seconds."""

    def __init__(
        self,
        folder: Path,
        talosctl: Path,
        names: Sequence[str] = (*CONTROL_PLANES, *WORKERS),
        timings: Timings | None = None,
    ) -> None:
        self.folder = folder
        self.talosctl = talosctl
        self.names = tuple(names)
        self.nodes = TalosNodes(folder / "fleet", [Machine(name) for name in names], timings=timings)
        self.env = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(folder),
            "TALOSCONFIG": str(folder / "talosconfig"),
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
        }

    def run(self, *words: str, nodes: Sequence[str] = (), timeout: float = 120) -> Ran:
        """Run talosctl on nodes that are named as the fleet names them."""
        targets = ["-n", ",".join(self.nodes.address(name) for name in nodes)] if nodes else []
        done = subprocess.run(
            [str(self.talosctl), *words, *targets],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    def do(self, *words: str, nodes: Sequence[str] = (), timeout: float = 120) -> str:
        """Run talosctl and return what it prints; it must succeed."""
        ran = self.run(*words, nodes=nodes, timeout=timeout)
        assert ran.code == 0, f"talosctl {' '.join(words)}: {ran.text}"
        return ran.out

    def config(self, name: str) -> str:
        """Return the file with the config of a node."""
        return "worker.yaml" if name.startswith("worker") else "controlplane.yaml"

    def generate(self, *, stranger: bool = False) -> None:
        """Make the cluster's secrets and configs, and a talosconfig with the control planes as endpoints.

        All clusters of the tests have the same secrets, but for strangers.
        """
        endpoint = self.nodes.kubernetes_endpoint
        bundle = self.folder / "secrets.yaml"
        if Cluster.secrets and not stranger:
            bundle.write_text(Cluster.secrets)
        else:
            self.do("gen", "secrets", "--output-file", str(bundle))
        if not stranger:
            Cluster.secrets = bundle.read_text()
        words = ("--with-docs=false", "--with-examples=false", "--kubernetes-version", KUBERNETES)
        self.do(
            "gen", "config", "demo", endpoint, "--with-secrets", str(bundle), "--output-dir", str(self.folder), *words
        )
        planes = [name for name in self.names if not name.startswith("worker")]
        self.do("config", "endpoint", *(self.nodes.endpoint(name) for name in planes))

    def apply_first(self, *names: str) -> None:
        """Give machines in maintenance mode their configs."""
        for name in names:
            hostname = {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "off", "hostname": name}
            words = ("--insecure", "-f", self.config(name), "-p", json.dumps(hostname))
            self.do("apply-config", *words, nodes=[name])

    def wait(self, phase: str, *names: str) -> None:
        """Wait until nodes are in a phase and their network answers."""
        wanted = names or self.names
        self.nodes.wait(phase, lambda n: all(n[name].phase == phase and n[name].online for name in wanted))

    def wait_ready(self, *names: str) -> None:
        """Wait until nodes are ready and all etcd members are voters."""
        wanted = names or self.names
        self.nodes.wait("ready", lambda n: all(n[name].ready for name in wanted))
        self.nodes.wait("voting", lambda _: all(len(e.voters) == len(e.members) for e in self.nodes.etcds()))

    def up(self) -> None:
        """Bring all nodes up as one cluster."""
        self.wait("maintenance")
        self.generate()
        self.apply_first(*self.names)
        self.wait("running")
        self.do("bootstrap", nodes=[self.names[0]])
        self.wait_ready()

    def configs(self) -> dict[str, str]:
        """Return the digests of the active configs."""
        return {name: node.config for name, node in self.nodes.nodes().items()}

    def members(self, asked: str) -> list[str]:
        """Return the hostnames of the etcd members, as a node knows them."""
        lines = self.do("etcd", "members", nodes=[asked]).splitlines()[1:]
        return sorted(line.split()[2] for line in lines)

    def kubernetes(self) -> Any:
        """Return a client of the cluster's Kubernetes, with the kubeconfig that talosctl fetches."""
        self.do("kubeconfig", "--force", str(self.folder / "kubeconfig"), nodes=[self.names[0]])
        client = kubernetes.config.new_client_from_config(str(self.folder / "kubeconfig"))
        client.configuration.retries = False
        return kubernetes.client.CoreV1Api(client)

    def workload(self, name: str, replicas: int) -> None:
        """Run a Deployment, and wait until its pods are ready."""
        labels = {"app": name}
        template = {
            "metadata": {"labels": labels},
            "spec": {"containers": [{"name": name, "image": "example.com/web"}]},
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        apps = kubernetes.client.AppsV1Api(self.kubernetes().api_client)
        apps.create_namespaced_deployment("default", {"metadata": {"name": name}, "spec": spec})
        self.nodes.wait("pods", lambda _: len(self.pods(name)) == replicas)

    def budget(self, name: str, min_available: int) -> None:
        """Forbid evictions that leave fewer pods ready."""
        policy = kubernetes.client.PolicyV1Api(self.kubernetes().api_client)
        spec = {"minAvailable": min_available, "selector": {"matchLabels": {"app": name}}}
        policy.create_namespaced_pod_disruption_budget("default", {"metadata": {"name": name}, "spec": spec})

    def pods(self, name: str) -> list[Any]:
        """Return the ready pods of a Deployment."""
        found = self.kubernetes().list_namespaced_pod("default", label_selector=f"app={name}").items
        return [
            pod for pod in found if any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions or ())
        ]
