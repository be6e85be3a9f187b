"""A lab with the cluster alone, whose settings tests change; and a look at its machines between two commands."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyrage
import yaml
from lab_folder import ROOT, Lab

from lab.talos.nodes import Node, TalosNodes

IDENTITY = pyrage.x25519.Identity.generate()

OLD = {"talosVersion": "1.12.7", "configContract": "1.12", "kubernetesVersion": "1.34.1"}
"""Versions of which the lab's talosctl can do the next step."""
NEW = {**OLD, "talosVersion": "1.13.0", "kubernetesVersion": "1.35.4"}


def control_plane(number: int) -> dict[str, str]:
    return {"name": f"cp-{number}", "address": f"192.0.2.{10 + number}", "installDisk": "/dev/sda"}


def worker(number: int) -> dict[str, str]:
    return {"name": f"worker-{number}", "address": f"192.0.2.{20 + number}", "installDisk": "/dev/sda"}


class ClusterLab:
    """The lab, and the settings of its one cluster."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.snapshots = folder / "snapshots"
        document = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text())
        settings = document["config"]["hybrid-talos:settings"]
        for other in ("azure", "aliyun", "autoscaler", "mesh"):
            settings.pop(other)
        settings["cluster"].pop("location")
        document["config"] = {"hybrid-talos:stack": "cluster", "hybrid-talos:settings": settings}
        settings["cluster"] |= {
            **OLD,
            "upgrade": {"drainMinutes": 1, "healthMinutes": 3},
            "snapshots": {"directory": str(self.snapshots), "recipients": [str(IDENTITY.to_public())]},
        }
        self.document = document
        self._number = 0

    def of(self, **changes: Any) -> Lab:
        """Return the lab with these settings of the cluster changed, now and from now on; None takes one away."""
        cluster = self.document["config"]["hybrid-talos:settings"]["cluster"]
        cluster |= changes
        return self.seen(cluster)

    def trying(self, **changes: Any) -> Lab:
        """Return the lab with these settings of the cluster changed for once."""
        return self.seen({**self.document["config"]["hybrid-talos:settings"]["cluster"], **changes})

    def seen(self, cluster: Mapping[str, Any]) -> Lab:
        self._number += 1
        settings = {
            **self.document["config"]["hybrid-talos:settings"],
            "cluster": {key: value for key, value in cluster.items() if value is not None},
        }
        config = {**self.document["config"], "hybrid-talos:settings": settings}
        path = self.folder / f"Pulumi.{self._number}.yaml"
        path.write_text(yaml.safe_dump({**self.document, "config": config}, sort_keys=False))
        return Lab(self.folder / "lab", "life", path)

    @contextmanager
    def machines(self) -> Iterator[TalosNodes]:
        """Yield the machines, running as the last command left them."""
        with TalosNodes(self.folder / "lab" / "fleet") as nodes:
            yield nodes

    def nodes(self) -> dict[str, Node]:
        """Return the machines as they are once all of them are up again, by address."""
        with self.machines() as nodes:
            nodes.wait("settled", lambda n: all(node.ready or node.phase == "maintenance" for node in n.values()))
            return nodes.nodes()

    def etcd(self) -> list[str]:
        """Return the host names of etcd's voters."""
        with self.machines() as nodes:
            nodes.wait("voting", lambda _: bool(nodes.etcds()) and all(e.quorum for e in nodes.etcds()))
            (etcd,) = nodes.etcds()
            return sorted(member.name for member in etcd.voters)


def plans(lab: Lab) -> dict[str, Any]:
    """Return what a preview says will happen, by the resource's name."""
    found = {}
    for step in lab.preview():
        new = (step.get("newState") or {}).get("inputs", {})
        old = (step.get("oldState") or {}).get("inputs", {})
        if new.get("plan") and new["plan"] != old.get("plan"):
            found[step["urn"].rpartition("::")[2]] = new["plan"]
    return found


def refusal(lab: Lab) -> str:
    """Return what a preview that must fail says, in one line."""
    run = lab.run("preview", code=None)
    assert run.code != 0, run.text[-3000:]
    assert "Traceback" not in run.text
    # What stands before it is the tree of resources.
    return " ".join(run.text.partition("Diagnostics:")[2].split())
