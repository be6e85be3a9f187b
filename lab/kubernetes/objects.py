"""Kubernetes objects in the world: how they are named, where they live, what a cluster has of its own."""

import base64
import binascii
import copy
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lab import sdk_schema
from lab.sdk_schema import UNKNOWN
from lab.talos import machines
from lab.wire import Secret, has_unknown
from lab.world import Record, World

AUTONAMED = "pulumi.com/autonamed"
SKIP_AWAIT = "pulumi.com/skipAwait"
MANAGED = "__managed"
"""Where a stored object keeps the inputs that were applied last, so that an update leaves what others wrote alone."""

SERVED = frozenset(
    {
        "v1",
        "admissionregistration.k8s.io/v1",
        "apiextensions.k8s.io/v1",
        "apiregistration.k8s.io/v1",
        "apps/v1",
        "authentication.k8s.io/v1",
        "authorization.k8s.io/v1",
        "autoscaling/v1",
        "autoscaling/v2",
        "batch/v1",
        "certificates.k8s.io/v1",
        "coordination.k8s.io/v1",
        "discovery.k8s.io/v1",
        "events.k8s.io/v1",
        "flowcontrol.apiserver.k8s.io/v1",
        "networking.k8s.io/v1",
        "node.k8s.io/v1",
        "policy/v1",
        "rbac.authorization.k8s.io/v1",
        "resource.k8s.io/v1",
        "scheduling.k8s.io/v1",
        "storage.k8s.io/v1",
    }
)
"""What an API server of 1.34 to 1.36 serves unless told more (kubernetes.io "Deprecated API Migration Guide")."""

_CLUSTER_SCOPED = frozenset(
    {
        *("v1/Namespace", "v1/Node", "v1/PersistentVolume", "v1/ComponentStatus"),
        *("admissionregistration.k8s.io/v1/MutatingWebhookConfiguration",),
        *("admissionregistration.k8s.io/v1/ValidatingWebhookConfiguration",),
        *("admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy",),
        *("admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding",),
        *("apiextensions.k8s.io/v1/CustomResourceDefinition", "apiregistration.k8s.io/v1/APIService"),
        *("certificates.k8s.io/v1/CertificateSigningRequest",),
        *("flowcontrol.apiserver.k8s.io/v1/FlowSchema",),
        *("flowcontrol.apiserver.k8s.io/v1/PriorityLevelConfiguration",),
        *("networking.k8s.io/v1/IngressClass", "networking.k8s.io/v1/IPAddress", "networking.k8s.io/v1/ServiceCIDR"),
        *("node.k8s.io/v1/RuntimeClass", "resource.k8s.io/v1/DeviceClass", "resource.k8s.io/v1/ResourceSlice"),
        *("rbac.authorization.k8s.io/v1/ClusterRole", "rbac.authorization.k8s.io/v1/ClusterRoleBinding"),
        *("scheduling.k8s.io/v1/PriorityClass",),
        *("storage.k8s.io/v1/CSIDriver", "storage.k8s.io/v1/CSINode", "storage.k8s.io/v1/StorageClass"),
        *("storage.k8s.io/v1/VolumeAttachment", "storage.k8s.io/v1/VolumeAttributesClass"),
    }
)
"""Kinds without a namespace (``kubectl api-resources --namespaced=false``)."""

NAMESPACES = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""Made by the API server at its first start."""
_PRIORITY_CLASSES = frozenset({"system-cluster-critical", "system-node-critical"})
TALOS_ACCOUNT = "talos.dev/v1alpha1/ServiceAccount"
"""Talos itself brings this definition where pods may use the Talos API, and answers it with a Secret of that name
(siderolabs/talos pkg/controllers/k8s/internal/k8stemplates talos-service-account-crd)."""


@dataclass(frozen=True)
class Reference:
    """What an object is: its API version, kind, namespace (empty where it has none) and name."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def type(self) -> str:
        """The kind with its API version, under which the world keeps it."""
        return f"{self.api_version}/{self.kind}"

    @property
    def id(self) -> str:
        """The id that Pulumi sees."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def type_of(token: str, inputs: Mapping[str, Any]) -> tuple[str, str]:
    """Return API version and kind: what the inputs say, else what the type token says."""
    _, module, kind = token.split(":")
    group, _, version = module.partition("/")
    named = version if group == "core" else module
    api_version = inputs.get("apiVersion")
    return (api_version if isinstance(api_version, str) else named), str(inputs.get("kind") or kind)


def is_custom(token: str) -> bool:
    """Say whether a type token is of a custom resource: one that the SDK has no class for."""
    return sdk_schema.resource(token) is None


@dataclass(frozen=True)
class Cluster:
    """One cluster's objects."""

    world: World
    record: Record

    @property
    def key(self) -> str:
        """What the ids of its objects begin with."""
        return str(self.record.doc["key"])

    def get(self, type: str, namespace: str, name: str) -> dict[str, Any] | None:
        """Return a stored object."""
        return self.world.get("kubernetes", type, self._id(namespace, name))

    def put(self, reference: Reference, doc: dict[str, Any]) -> None:
        """Store an object."""
        self.world.put("kubernetes", reference.type, self._id(reference.namespace, reference.name), doc)

    def remove(self, reference: Reference) -> bool:
        """Remove an object, and everything in it when it is a namespace or a definition; say whether it was there."""
        doc = self.get(reference.type, reference.namespace, reference.name)
        if doc is None:
            return False
        if reference.type == "v1/Namespace":
            for record in self.world.find("kubernetes"):
                if record.id.startswith(f"{self.key}/{reference.name}/"):
                    self.world.remove("kubernetes", record.kind, record.id)
        if reference.type == "apiextensions.k8s.io/v1/CustomResourceDefinition":
            spec = doc.get("spec") or {}
            for version in spec.get("versions") or []:
                type = f"{spec.get('group')}/{version.get('name')}/{(spec.get('names') or {}).get('kind')}"
                for record in self.world.find("kubernetes", type):
                    if record.id.startswith(f"{self.key}/"):
                        self.world.remove("kubernetes", record.kind, record.id)
        return self.world.remove("kubernetes", reference.type, self._id(reference.namespace, reference.name))

    def all(self, type: str) -> list[dict[str, Any]]:
        """Return all objects of a kind."""
        return [r.doc for r in self.world.find("kubernetes", type) if r.id.startswith(f"{self.key}/")]

    def _id(self, namespace: str, name: str) -> str:
        return f"{self.key}/{namespace}/{name}" if namespace else f"{self.key}/{name}"

    def has(self, type: str, namespace: str, name: str) -> bool:
        """Say whether an object is there: stored, or one that every cluster has of its own."""
        if self.get(type, namespace, name) is not None:
            return True
        own = {
            "v1/Namespace": name in NAMESPACES,
            "v1/ServiceAccount": name == "default",
            "v1/ConfigMap": name == "kube-root-ca.crt",
            "scheduling.k8s.io/v1/PriorityClass": name in _PRIORITY_CLASSES,
            "v1/Secret": self.talos_account_problem(namespace, name) is None,
        }
        return own.get(type, False)

    def talos_account_problem(self, namespace: str, name: str) -> str | None:
        """Say why Talos writes no Secret for a ServiceAccount of its API, or None when it does."""
        account = self.get(TALOS_ACCOUNT, namespace, name)
        access = self.talos_api()
        if account is None or access is None:
            return "there is no such ServiceAccount of talos.dev"
        roles = (account.get("spec") or {}).get("roles") or []
        if namespace not in access["namespaces"]:
            return f"the namespace {namespace} is not among allowedKubernetesNamespaces"
        refused = [role for role in roles if role not in access["roles"]]
        return f"the role {refused[0]} is not among allowedRoles" if refused else None

    def talos_api(self) -> dict[str, list[str]] | None:
        """Return whom the control planes let into the Talos API, or None when nobody."""
        planes = machines.members(self.world, self.record.id, "controlplane")
        return next((plane["talos_api"] for plane in planes if plane.get("talos_api")), None)

    def definition(self, api_version: str, kind: str) -> str | None:
        """Return the scope that a custom resource's definition gives it, or None when there is no definition."""
        if f"{api_version}/{kind}" == TALOS_ACCOUNT and self.talos_api() is not None:
            return "Namespaced"
        group, _, version = api_version.partition("/")
        for doc in self.all("apiextensions.k8s.io/v1/CustomResourceDefinition"):
            spec = doc.get("spec") or {}
            served = [v.get("name") for v in spec.get("versions") or [] if v.get("served") is not False]
            if spec.get("group") == group and (spec.get("names") or {}).get("kind") == kind and version in served:
                return str(spec.get("scope"))
        return None


def namespaced(cluster: Cluster | None, token: str, api_version: str, kind: str) -> bool:
    """Say whether a kind lives in namespaces; a custom one whose definition is not there yet is taken to."""
    if not is_custom(token):
        return f"{api_version}/{kind}" not in _CLUSTER_SCOPED
    scope = cluster.definition(api_version, kind) if cluster else None
    return scope != "Cluster"


def metadata_of(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object's metadata, as far as it is known."""
    found = inputs.get("metadata")
    return dict(found) if isinstance(found, Mapping) else {}


def annotation(inputs: Mapping[str, Any], name: str) -> str | None:
    """Return an annotation of an object."""
    found = metadata_of(inputs).get("annotations")
    value = found.get(name) if isinstance(found, Mapping) else None
    return None if value is None else str(value)


def autoname(resource_name: str, inputs: Mapping[str, Any], old: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return metadata with a name for an object that has none (pulumi-kubernetes pkg/metadata/naming.go)."""
    if inputs.get("metadata") is UNKNOWN:
        return None
    metadata = metadata_of(inputs)
    if metadata.get("name") is not None or metadata.get("generateName") is not None:
        return None
    before = metadata_of(old)
    kept = annotation(old, AUTONAMED) == "true" and isinstance(before.get("name"), str)
    name = before["name"] if kept else f"{resource_name}-{secrets.token_hex(4)}"
    return {"name": name, "annotations": {AUTONAMED: "true"}}


def normal_secret(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``data`` that a Secret's inputs come to, as the provider sends it (pkg/clients/unstructured.go)."""
    if has_unknown([inputs.get("data"), inputs.get("stringData")]):
        return {}
    data = dict(inputs.get("data") or {})
    texts = inputs.get("stringData") or {}
    for key, text in texts.items():
        data[key] = base64.b64encode(str(text).encode()).decode()
    if not texts:
        data = {key: _encoded_again(value) for key, value in data.items()}
    return {"data": Secret(data), "stringData": None} if data else {}


def _encoded_again(value: Any) -> Any:
    try:
        return base64.b64encode(base64.b64decode(value, validate=True)).decode()
    except (binascii.Error, ValueError, TypeError):
        return value


_DASHED = re.compile(r"^x_kubernetes_[a-z_]+$")


def dashed(value: Any) -> Any:
    """Return a value with the keys that only Pulumi spells with underscores spelled as Kubernetes spells them."""
    if isinstance(value, Mapping):
        return {(key.replace("_", "-") if _DASHED.match(key) else key): dashed(item) for key, item in value.items()}
    return [dashed(item) for item in value] if isinstance(value, list) else value


def applied(live: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return a live object after inputs that were ``before`` became ``now``: what others wrote on it stays."""
    result = copy.deepcopy(dict(live))
    for key in before.keys() - now.keys():
        result.pop(key, None)
    for key, value in now.items():
        there, earlier = result.get(key), before.get(key)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            result[key] = applied(there, earlier if isinstance(earlier, Mapping) else {}, value)
        else:
            result[key] = copy.deepcopy(value)
    return result
