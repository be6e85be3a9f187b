"""Reads from a Talos machine config what the simulated machines act on."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import yaml

from .pki import Authority

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_OWN_DOMAIN = re.compile(r"(^|\.)(kubernetes\.io|k8s\.io)$")
_KUBELET_MAY_SET = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "failure-domain.beta.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/zone",
    }
)
"""What NodeRestriction lets a kubelet set of the domains that Kubernetes keeps for itself, beside the two prefixes
below (kubernetes.io "Using Admission Controllers", NodeRestriction; kubernetes pkg/kubelet well_known_labels.go)."""
_KUBELET_PREFIXES = ("kubelet.kubernetes.io", "node.kubernetes.io")


@dataclass(frozen=True)
class MachineConfig:
    """What a machine config says of its machine and cluster."""

    role: str
    """``controlplane`` or ``worker``."""
    hostname: str
    """The static host name, or an empty text."""
    cluster_id: str
    cluster_name: str
    endpoint: str
    """URL of the cluster's Kubernetes API."""
    os_ca: str
    """Certificate of the Talos API's authority, PEM in base64."""
    kubernetes_ca: Authority
    """The key is an empty text on workers."""
    kubernetes_version: str
    os_accepted: Sequence[str] = ()
    """Certificates of further authorities that the Talos API accepts, PEM in base64."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: Mapping[str, str] = field(default_factory=dict)
    external_cloud: bool = False
    schedulable: bool = True
    """Whether ordinary pods may run on it."""
    talos_api: Mapping[str, Sequence[str]] | None = None
    """On control planes that let pods into the Talos API: the allowed ``roles`` and ``namespaces``."""
    anonymous: bool = False
    """Whether the Kubernetes API takes requests without credentials; Talos starts it so that it does not."""

    @property
    def endpoint_host(self) -> str:
        """The host of the endpoint, without its port."""
        return urlsplit(self.endpoint).hostname or ""

    @property
    def problems(self) -> list[str]:
        """What a machine takes without a word although it can never work."""
        found = []
        for label in sorted(self.labels):
            if self.role == "worker" and forbidden_label(label):
                found.append(
                    f"machine.nodeLabels: {label}: NodeRestriction forbids a worker to set this label on itself, "
                    "and then none of its labels is set"
                )
        if self.role == "worker" and self.taints:
            found.append(
                "machine.nodeTaints: NodeRestriction forbids a worker to set taints on itself after it registered; "
                "use registerWithTaints in machine.kubelet.extraConfig"
            )
        return found


def forbidden_label(label: str) -> bool:
    """Say whether NodeRestriction forbids a kubelet to put this label on its Node."""
    domain = label.rpartition("/")[0]
    if not _OWN_DOMAIN.search(domain) or label in _KUBELET_MAY_SET:
        return False
    return not any(domain == prefix or domain.endswith(f".{prefix}") for prefix in _KUBELET_PREFIXES)


def documents(text: str) -> list[dict[str, Any]]:
    """Return the documents of a machine config."""
    return [document for document in yaml.load_all(text, Loader=_LOADER) if isinstance(document, dict)]  # noqa: S506


def read(text: str) -> MachineConfig:
    """Return what a machine config says; it must have passed ``talosctl validate``."""
    found = documents(text)
    base = next((document for document in found if "kind" not in document), {})
    machine: dict[str, Any] = base.get("machine") or {}
    cluster: dict[str, Any] = base.get("cluster") or {}
    hostname = next((str(d["hostname"]) for d in found if d.get("kind") == "HostnameConfig" and d.get("hostname")), "")
    kubelet = machine.get("kubelet") or {}
    authority = cluster.get("ca") or {}
    endpoint = (cluster.get("controlPlane") or {}).get("endpoint") or ""
    arguments = (cluster.get("apiServer") or {}).get("extraArgs") or {}
    external = (cluster.get("externalCloudProvider") or {}).get("enabled") is True
    return MachineConfig(
        role="worker" if machine.get("type") == "worker" else "controlplane",
        hostname=hostname or str((machine.get("network") or {}).get("hostname") or ""),
        cluster_id=str(cluster.get("id") or ""),
        cluster_name=str(cluster.get("clusterName") or ""),
        endpoint=str(endpoint),
        os_ca=str((machine.get("ca") or {}).get("crt") or ""),
        kubernetes_ca=Authority(str(authority.get("crt") or ""), str(authority.get("key") or "")),
        kubernetes_version=str(kubelet.get("image") or "").rpartition(":v")[2],
        os_accepted=[str(entry.get("crt") or "") for entry in machine.get("acceptedCAs") or ()],
        labels=_texts(machine.get("nodeLabels")),
        annotations=_texts(machine.get("nodeAnnotations")),
        taints=_texts(machine.get("nodeTaints")),
        schedulable=machine.get("type") == "worker" or cluster.get("allowSchedulingOnControlPlanes") is True,
        talos_api=_talos_api(machine),
        anonymous=str(arguments.get("anonymous-auth")).lower() == "true",
        external_cloud=external or (kubelet.get("extraArgs") or {}).get("cloud-provider") == "external",
    )


def _texts(value: Any) -> dict[str, str]:
    return {str(key): str(item) for key, item in (value or {}).items()}


def _talos_api(machine: Mapping[str, Any]) -> dict[str, list[str]] | None:
    access = (machine.get("features") or {}).get("kubernetesTalosAPIAccess") or {}
    if access.get("enabled") is not True or machine.get("type") == "worker":
        return None
    return {
        "roles": list(access.get("allowedRoles") or []),
        "namespaces": list(access.get("allowedKubernetesNamespaces") or []),
    }
