"""Kilo's agent in the cluster: custom resource, rights, kubeconfig, DaemonSet.

Facts from squat/kilo 0.7.0: `manifests/kilo-kubeadm-flannel.yaml`, `manifests/kilo-kubeadm-cilium.yaml`,
`manifests/crds.yaml`, `docs/kg.md`. Those manifests mount an admin kubeconfig of the host, which a Talos machine
does not have; here the agent gets one with its own service account, in a ConfigMap.
"""

from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_kubernetes as kubernetes
import yaml

from .cni import Cni
from .manifests import after, labels, managed
from .mesh_plan import MeshPlan

IMAGE = "docker.io/squat/kilo:0.7.0"
"""First version with `--internal-cidr`, automatic MTU and the present Cilium mode (squat/kilo#403, #406, #409)."""

# Of base64 of 32 bytes the last character but the padding carries four bits.
_KEY = r"^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$"
_DNS_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"

_TOKEN_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True)
class KiloAgent:
    """How the agent is named and where it runs."""

    base: str
    namespace: str
    own_namespace: bool
    image: str
    api_endpoint: str


def peer_schema() -> dict[str, Any]:
    """Return the schema of a Peer: a machine outside the cluster that joins the mesh.

    It refuses what `manifests/crds.yaml` lets in and the agent then leaves out of the mesh with a line in its log
    (`pkg/k8s/apis/kilo/v1alpha1/types.go`, Validate; `pkg/k8s/backend.go`, translatePeer).
    """
    endpoint = {
        "type": "object",
        "description": "Where the peer is first sent to.",
        "required": ["dnsOrIP", "port"],
        "properties": {
            "dnsOrIP": {
                "type": "object",
                "description": "A name or an address; the address wins.",
                "anyOf": [{"required": ["ip"]}, {"required": ["dns"]}],
                "properties": {
                    "dns": {
                        "type": "string",
                        "description": "A name as RFC 1123 has it.",
                        "maxLength": 253,
                        "pattern": _DNS_NAME,
                    },
                    "ip": {
                        "type": "string",
                        "description": "An IP address.",
                        "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}],
                    },
                },
            },
            "port": {"type": "integer", "format": "int32", "description": "UDP port.", "minimum": 1, "maximum": 65535},
        },
    }
    spec = {
        "type": "object",
        "required": ["allowedIPs", "publicKey"],
        "properties": {
            "allowedIPs": {
                "type": "array",
                "description": "Ranges that are routed to the peer.",
                "minItems": 1,
                "items": {"type": "string", "format": "cidr"},
            },
            "endpoint": endpoint,
            "persistentKeepalive": {
                "type": "integer",
                "description": "Seconds between packets that keep the tunnel open; 0 sends none.",
                "minimum": 0,
            },
            "presharedKey": {
                "type": "string",
                "description": "Symmetric key on top of the key pair, base64 of 32 bytes.",
                "pattern": _KEY,
            },
            "publicKey": {
                "type": "string",
                "description": "WireGuard public key, base64 of 32 bytes.",
                "pattern": _KEY,
            },
        },
    }
    return {
        "type": "object",
        "description": "A WireGuard peer that is no node of the cluster.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
        },
    }


def arguments(plan: MeshPlan) -> list[str]:
    """Return the agent's flags."""
    flags = [
        "--kubeconfig=/etc/kubernetes/kubeconfig",
        "--hostname=$(NODE_NAME)",
        # The pod network stays with the CNI that the cluster has.
        "--cni=false",
        "--local=false",
        f"--compatibility={plan.cni}",
        f"--mesh-granularity={plan.granularity}",
        f"--subnet={plan.cidr}",
        f"--service-cidr={plan.service_cidr}",
        f"--port={plan.port}",
        f"--mtu={plan.mtu or 'auto'}",
        # Without it the agent may take an address of the pod network for the machine's own.
        "--internal-cidr=$(NODE_IP)/32",
        "--log-level=info",
    ]
    if plan.cni is Cni.CILIUM:
        # Within a subnet Cilium's own tunnel does the work.
        flags.append("--encapsulate=crosssubnet")
    return flags


def kubeconfig(api_endpoint: str) -> str:
    """Return a kubeconfig that reaches ``api_endpoint`` as the pod's own service account. It holds no secret."""
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "cluster",
                    "cluster": {"server": api_endpoint, "certificate-authority": f"{_TOKEN_FOLDER}/ca.crt"},
                }
            ],
            "users": [{"name": "kilo", "user": {"tokenFile": f"{_TOKEN_FOLDER}/token"}}],
            "contexts": [{"name": "kilo", "context": {"cluster": "cluster", "user": "kilo"}}],
            "current-context": "kilo",
        },
        sort_keys=True,
    )


def _pod(plan: MeshPlan, agent: KiloAgent) -> dict[str, Any]:
    def field(name: str, path: str) -> dict[str, Any]:
        return {"name": name, "value_from": {"field_ref": {"field_path": path}}}

    return {
        "service_account_name": "kilo",
        # WireGuard, routes and iptables rules are the machine's.
        "host_network": True,
        "priority_class_name": "system-node-critical",
        # A machine is not ready, and carries the cloud provider's taint, until the mesh works.
        "tolerations": [
            {"effect": "NoSchedule", "operator": "Exists"},
            {"effect": "NoExecute", "operator": "Exists"},
        ],
        "containers": [
            {
                "name": "kilo",
                "image": agent.image,
                "args": arguments(plan),
                "env": [field("NODE_NAME", "spec.nodeName"), field("NODE_IP", "status.hostIP")],
                "ports": [{"name": "metrics", "container_port": 1107}],
                "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}},
                "security_context": {"privileged": True},
                "volume_mounts": [
                    # Holds the machine's key, which must outlive the pod.
                    {"name": "kilo", "mount_path": "/var/lib/kilo"},
                    {"name": "kubeconfig", "mount_path": "/etc/kubernetes", "read_only": True},
                    {"name": "modules", "mount_path": "/lib/modules", "read_only": True},
                    {"name": "xtables", "mount_path": "/run/xtables.lock"},
                ],
            }
        ],
        "volumes": [
            {"name": "kilo", "host_path": {"path": "/var/lib/kilo", "type": "DirectoryOrCreate"}},
            {"name": "kubeconfig", "config_map": {"name": "kilo"}},
            {"name": "modules", "host_path": {"path": "/lib/modules"}},
            {"name": "xtables", "host_path": {"path": "/run/xtables.lock", "type": "FileOrCreate"}},
        ],
    }


def deploy_kilo(name: str, plan: MeshPlan, agent: KiloAgent, child: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """Declare Kilo's agent and what it needs, as children of the component ``name``.

    Returns what makes the agent's namespace: nothing where it is there already.
    """
    selector = labels("kilo", agent.base)
    meta = {"labels": managed(selector)}
    cluster_wide = {"name": f"{agent.base}-kilo", **meta}
    inside = {"name": "kilo", "namespace": agent.namespace, **meta}
    first: list[pulumi.Resource] = []

    if agent.own_namespace:
        first.append(
            kubernetes.core.v1.Namespace(
                f"{name}-namespace",
                metadata={
                    "name": agent.namespace,
                    # Talos enforces `baseline` outside kube-system, which refuses host network and privileges.
                    "labels": {
                        **meta["labels"],
                        **{f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")},
                    },
                },
                opts=child,
            )
        )
    crd = kubernetes.apiextensions.v1.CustomResourceDefinition(
        f"{name}-peers",
        metadata={"name": "peers.kilo.squat.ai", **meta},
        spec={
            "group": "kilo.squat.ai",
            "scope": "Cluster",
            "names": {"kind": "Peer", "list_kind": "PeerList", "plural": "peers", "singular": "peer"},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "storage": True,
                    "schema": {"open_apiv3_schema": peer_schema()},
                }
            ],
        },
        opts=child,
    )
    # Everything in the namespace needs it to be there.
    in_namespace = after(child, *first)
    account = kubernetes.core.v1.ServiceAccount(f"{name}-account", metadata=inside, opts=in_namespace)
    config = kubernetes.core.v1.ConfigMap(
        f"{name}-kubeconfig",
        metadata=inside,
        data={"kubeconfig": kubeconfig(agent.api_endpoint)},
        opts=in_namespace,
    )
    role = kubernetes.rbac.v1.ClusterRole(
        f"{name}-role",
        metadata=cluster_wide,
        rules=[
            {"api_groups": [""], "resources": ["nodes"], "verbs": ["list", "patch", "watch"]},
            {"api_groups": ["kilo.squat.ai"], "resources": ["peers"], "verbs": ["list", "watch"]},
            {
                "api_groups": ["apiextensions.k8s.io"],
                "resources": ["customresourcedefinitions"],
                "resource_names": ["peers.kilo.squat.ai"],
                "verbs": ["get"],
            },
        ],
        opts=child,
    )
    binding = kubernetes.rbac.v1.ClusterRoleBinding(
        f"{name}-binding",
        metadata=cluster_wide,
        role_ref={"api_group": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{agent.base}-kilo"},
        subjects=[{"kind": "ServiceAccount", "name": "kilo", "namespace": agent.namespace}],
        opts=after(child, role),  # a binding keeps the role's name, which must exist
    )
    kubernetes.apps.v1.DaemonSet(
        f"{name}-agent",
        metadata={
            **inside,
            # A machine that is coming or going counts as not ready, and machines come and go with the
            # autoscaler: an update must not wait for them, nor fail because a spot machine has vanished.
            "annotations": {"pulumi.com/skipAwait": "true"},
        },
        spec={
            "selector": {"match_labels": selector},
            "update_strategy": {"type": "RollingUpdate", "rolling_update": {"max_unavailable": 1}},
            "template": {"metadata": {"labels": managed(selector)}, "spec": _pod(plan, agent)},
        },
        # The agent exits when it may not watch peers or does not find their definition.
        opts=after(child, crd, account, config, binding),
    )
    return first
