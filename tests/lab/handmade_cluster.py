"""A cluster as people make it by hand, with talosctl and patches of their own, on the machines of a lab."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import yaml

from lab.talos.nodes import Machine, TalosNodes

CONTROL_PLANES = {"cp-1": "192.0.2.11", "cp-2": "192.0.2.12", "cp-3": "192.0.2.13"}
WORKERS = {"worker-1": "192.0.2.21"}
ENDPOINT = "k8s.demo.example.com"
KUBERNETES = "1.35.4"
TALOS = "1.13.0"
INSTALLER = "registry.example.com/talos/installer:v1.13.0"

SHARED: dict[str, Any] = {
    "machine": {
        "kubelet": {
            "extraArgs": {"rotate-server-certificates": "true"},
            "nodeIP": {"validSubnets": ["192.0.2.0/24"]},
        },
        "install": {"disk": "/dev/sda", "image": INSTALLER},
        "features": {"kubePrism": {"enabled": True, "port": 7445}},
    },
    "cluster": {"externalCloudProvider": {"enabled": True}},
}
_NAMES = [ENDPOINT, *CONTROL_PLANES.values()]
PLANES: dict[str, Any] = {
    "machine": {
        "certSANs": _NAMES,
        "features": {
            "kubernetesTalosAPIAccess": {
                "enabled": True,
                "allowedRoles": ["os:reader"],
                "allowedKubernetesNamespaces": ["kube-system"],
            }
        },
    },
    "cluster": {"apiServer": {"certSANs": _NAMES}, "etcd": {"advertisedSubnets": ["192.0.2.0/24"]}},
}


def settings() -> dict[str, Any]:
    """Return the settings that describe the cluster."""

    def machines(found: dict[str, str]) -> list[dict[str, Any]]:
        return [{"name": name, "address": address, "installDisk": "/dev/sda"} for name, address in found.items()]

    return {
        "image": {"installerImage": INSTALLER},
        "cluster": {
            "name": "demo",
            "talosVersion": TALOS,
            "configContract": "1.13",
            "kubernetesVersion": KUBERNETES,
            "endpoint": {"host": ENDPOINT, "kind": "dns"},
            "location": {"name": "rack", "cidrs": ["192.0.2.0/24"]},
            "controlPlanes": machines(CONTROL_PLANES),
            "workers": machines(WORKERS),
        },
    }


class HandmadeCluster:
    """The cluster, its files, and talosctl as its administrator uses it."""

    def __init__(self, folder: Path, fleet: Path, talosctl: Path) -> None:
        self.folder = folder
        self.talosctl = talosctl
        folder.mkdir()
        everyone = {**CONTROL_PLANES, **WORKERS}
        # Named as the lab names them.
        self.nodes = TalosNodes(fleet, [Machine(address, address=address) for address in everyone.values()])

    @property
    def secrets(self) -> Path:
        """The file that `talosctl gen secrets` wrote."""
        return self.folder / "secrets.yaml"

    @property
    def talosconfig(self) -> Path:
        """The administrator's credentials."""
        return self.folder / "talosconfig"

    def do(self, *words: str) -> str:
        """Run talosctl, which must succeed; return what it prints."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "TALOSCONFIG": str(self.talosconfig)}
        done = subprocess.run(
            [str(self.talosctl), *words], cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"talosctl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def make(self) -> None:
        """Make the cluster, step by step."""
        everyone = {**CONTROL_PLANES, **WORKERS}
        self.nodes.wait("booted", lambda nodes: all(node.phase == "maintenance" for node in nodes.values()))
        self.do("gen", "secrets", "--output-file", str(self.secrets))
        (self.folder / "shared.yaml").write_text(yaml.safe_dump(SHARED))
        (self.folder / "planes.yaml").write_text(yaml.safe_dump(PLANES))
        self.do(
            *("gen", "config", "demo", f"https://{ENDPOINT}:6443", "--with-secrets", str(self.secrets)),
            *("--output-dir", str(self.folder), "--kubernetes-version", KUBERNETES, "--talos-version", f"v{TALOS}"),
            *("--config-patch", "@shared.yaml", "--config-patch-control-plane", "@planes.yaml"),
        )
        for name, address in everyone.items():
            role = "controlplane" if name in CONTROL_PLANES else "worker"
            hostname = {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "auto": "off", "hostname": name}
            where = self.nodes.endpoint(address)
            words = ("--insecure", "-n", where, "-f", f"{role}.yaml", "-p", json.dumps(hostname))
            self.do("apply-config", *words)
        self.nodes.wait("running", lambda nodes: all(n.phase == "running" and n.online for n in nodes.values()))
        first = next(iter(CONTROL_PLANES.values()))
        self.do("config", "endpoint", *(self.nodes.endpoint(address) for address in CONTROL_PLANES.values()))
        self.do("bootstrap", "-n", first)
        self.nodes.wait("ready", lambda nodes: all(node.ready for node in nodes.values()))
