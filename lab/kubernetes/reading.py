"""What the door of a simulated cluster lets a client read: some lists and objects, and reviews of access.

kubernetes.io "Kubernetes API Concepts", "Field Selectors", "Authorization" and "Using RBAC Authorization".
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..world import World
from . import kilo_agent

_KINDS = {
    "v1/nodes": "v1/Node",
    "v1/pods": "v1/Pod",
    "v1/configmaps": "v1/ConfigMap",
    "apps/v1/deployments": "apps/v1/Deployment",
    "apps/v1/daemonsets": "apps/v1/DaemonSet",
    "certificates.k8s.io/v1/certificatesigningrequests": "certificates.k8s.io/v1/CertificateSigningRequest",
    "coordination.k8s.io/v1/leases": "coordination.k8s.io/v1/Lease",
}
_PATH = re.compile(
    r"/apis?/(?P<version>(?:[a-z0-9.]+/)?v1)(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?"
)
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_RBAC = "rbac.authorization.k8s.io/v1"

Doc = dict[str, Any]


def read(world: World, key: str, path: str, query: Mapping[str, str]) -> Doc | None:
    """Return what a GET finds in the cluster whose ids begin with ``key``; None when there is no such thing."""
    match = _PATH.fullmatch(path)
    kind = _KINDS.get(f"{match['version']}/{match['plural']}") if match else None
    if match is None or kind is None:
        return None
    items = kilo_agent.described(world, key) if kind == "v1/Node" else list(_objects(world, key, kind))
    if match["namespace"]:
        items = [item for item in items if item["metadata"].get("namespace") == match["namespace"]]
    if match["name"]:
        return next((item for item in items if item["metadata"]["name"] == match["name"]), None)
    phase = query.get("fieldSelector", "").partition("status.phase=")[2]
    items = [item for item in items if not phase or (item.get("status") or {}).get("phase") == phase]
    api_version, _, name = kind.rpartition("/")
    return {"kind": f"{name}List", "apiVersion": api_version, "metadata": {}, "items": items}


def review(world: World, key: str, body: Doc) -> Doc:
    """Return a SubjectAccessReview with its answer; nothing of it is kept."""
    spec = body["spec"]
    asked = spec["resourceAttributes"]
    user, groups = str(spec.get("user")), list(spec.get("groups") or ())
    allowed = any(_gives(rule, asked) for rule in _rules(world, key, user, groups, asked.get("namespace") or ""))
    return {**body, "status": {"allowed": allowed}}


def _objects(world: World, key: str, kind: str) -> Iterator[Doc]:
    for record in sorted(world.find("kubernetes", kind), key=lambda one: one.id):
        if record.id.startswith(f"{key}/"):
            yield record.doc


def _rules(world: World, key: str, user: str, groups: list[str], namespace: str) -> Iterator[Doc]:
    """Yield the rules of all roles that are bound to a user, in the whole cluster and in a namespace."""
    for kind in ("ClusterRoleBinding", "RoleBinding"):
        for binding in _objects(world, key, f"{_RBAC}/{kind}"):
            inside = binding["metadata"].get("namespace")
            if inside not in (None, namespace) or not any(_is(one, user, groups) for one in binding["subjects"]):
                continue
            role = binding["roleRef"]
            for found in _objects(world, key, f"{_RBAC}/{role['kind']}"):
                same_place = role["kind"] == "ClusterRole" or found["metadata"].get("namespace") == inside
                if found["metadata"]["name"] == role["name"] and same_place:
                    yield from found.get("rules") or ()


def _is(subject: Doc, user: str, groups: list[str]) -> bool:
    if subject["kind"] == "ServiceAccount":
        return user == f"system:serviceaccount:{subject.get('namespace')}:{subject['name']}"
    return subject["name"] == user if subject["kind"] == "User" else subject["name"] in groups


def _gives(rule: Doc, asked: Doc) -> bool:
    resource = "/".join(part for part in (asked.get("resource"), asked.get("subresource")) if part)
    names = rule.get("resourceNames") or ()
    return (
        _has(rule.get("verbs"), asked.get("verb"))
        and _has(rule.get("apiGroups"), asked.get("group") or "")
        and _has(rule.get("resources"), resource)
        and (not names or asked.get("name") in names)
    )


def _has(values: Any, wanted: Any) -> bool:
    return "*" in (values or ()) or wanted in (values or ())
