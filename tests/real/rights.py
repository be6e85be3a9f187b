"""What each program in the cluster asks of the API, and nothing more: written from its code, not from our manifests.

A line is `group/resource[:name]: verbs`; the core group has no name. Below `[namespace]` it holds in that one alone.
"""

from collections.abc import Iterable
from typing import Any

from kubernetes_cluster import Api

Right = tuple[str, str, str, str]
"""Verb, group, resource, name ("" for any)."""

AUTOSCALER = """
# Listed and watched by the autoscaler and by the scheduler that it simulates (kubernetes-sigs/cluster-autoscaler
# pkg/utils/kubernetes/listers.go; kubernetes/kubernetes pkg/scheduler/framework/plugins). `get` is the chart's.
/namespaces: get list watch
/nodes: get list watch update
/persistentvolumeclaims: get list watch
/persistentvolumes: get list watch
/pods: get list watch
/replicationcontrollers: get list watch
/services: get list watch
apps/daemonsets: get list watch
apps/replicasets: get list watch
apps/statefulsets: get list watch
batch/cronjobs: get list watch
batch/jobs: get list watch patch
policy/poddisruptionbudgets: get list watch
resource.k8s.io/deviceclasses: get list watch
resource.k8s.io/resourceclaims: get list watch
resource.k8s.io/resourceslices: get list watch
storage.k8s.io/csidrivers: get list watch
storage.k8s.io/csinodes: get list watch
storage.k8s.io/csistoragecapacities: get list watch
storage.k8s.io/storageclasses: get list watch
storage.k8s.io/volumeattachments: get list watch
# Said and done: pkg/core/scaledown/actuation/drain.go, pkg/utils/taints/taints.go (nodes: update).
/events: create patch
/pods/eviction: create
/pods/status: update
[kube-system]
/configmaps: create list watch
/configmaps:{stem}-status: get update delete
coordination.k8s.io/leases: create
coordination.k8s.io/leases:{stem}: get update
"""

TALOS_CCM = """
# siderolabs/talos-cloud-controller-manager docs/deploy/cloud-controller-manager.yml, for the controllers cloud-node and
# node-csr-approval running as one account.
/events: create patch update
/nodes: get list patch update watch
/nodes/status: patch
certificates.k8s.io/certificatesigningrequests: list watch
certificates.k8s.io/certificatesigningrequests/approval: update
certificates.k8s.io/signers:kubernetes.io/kubelet-serving: approve
[kube-system]
/configmaps:extension-apiserver-authentication: get list watch
coordination.k8s.io/leases: create
coordination.k8s.io/leases:cloud-controller-manager-talos: get update
"""

KILO = """
# squat/kilo manifests/kilo-kubeadm-flannel.yaml
/nodes: list patch watch
kilo.squat.ai/peers: list watch
apiextensions.k8s.io/customresourcedefinitions:peers.kilo.squat.ai: get
"""

COLLECTOR = """
/nodes: list delete
"""

_EVERYBODYS = {
    ("create", "authorization.k8s.io", "selfsubjectaccessreviews", ""),
    ("create", "authorization.k8s.io", "selfsubjectrulesreviews", ""),
    ("create", "authentication.k8s.io", "selfsubjectreviews", ""),
}
"""The role system:basic-user, which every account has."""


def parsed(lines: Iterable[str]) -> set[Right]:
    """Return the rights that lines of a table name."""
    found: set[Right] = set()
    for line in lines:
        subject, _, verbs = line.rpartition(": ")
        group, _, rest = subject.partition("/")
        resource, _, name = rest.partition(":")
        found |= {(verb, group, resource, name) for verb in verbs.split()}
    return found


def needed(table: str, namespace: str, stem: str = "") -> set[Right]:
    """Return the rights of a table that hold in a namespace."""
    lines: list[str] = []
    counts = True
    for line in table.replace("{stem}", stem).splitlines():
        if line.startswith("["):
            counts = line.strip("[]") == namespace
        elif counts and line and not line.startswith("#"):
            lines.append(line)
    return parsed(lines)


def of_rules(rules: Iterable[Any]) -> set[Right]:
    """Return the rights that rules of a role give."""
    return {
        (verb, group, resource, name)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames") or [""]
    }


def granted(api: Api, namespace: str) -> set[Right]:
    """Return all that the API server lets the caller do in a namespace, but for what everybody may."""
    review = {"spec": {"namespace": namespace}}
    status = api.create("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review)["status"]
    return of_rules(status["resourceRules"]) - _EVERYBODYS


def may(api: Api, verb: str, path: str, namespace: str = "", name: str = "") -> bool:
    """Ask the API server whether the caller may do something; ``path`` is `group/resource[/subresource]`."""
    group, _, rest = path.partition("/")
    resource, _, subresource = rest.partition("/")
    attributes: dict[str, Any] = {"verb": verb, "group": group, "resource": resource, "subresource": subresource}
    review = {"spec": {"resourceAttributes": {**attributes, "namespace": namespace, "name": name}}}
    answer = api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    return bool(answer["status"]["allowed"])
