"""The kubernetes package: what pulumi-kubernetes 4.34.2 does, on the clusters of the simulated Talos machines.

The files named are those of pulumi/pulumi-kubernetes provider/pkg. Resources that end in Patch or List, and the
functions and components (Helm, Kustomize, YAML), are not simulated.
"""
# ruff: noqa: D102 - the methods of a kind are described at lab.provider.Kind.

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from lab.provider import Call, Kind, Package, within
from lab.sdk_schema import UNKNOWN
from lab.wire import Secret, has_unknown, plain
from lab.world import CloudError, World

from . import kubeconfig, rules, starting, twin
from .force_new import force_new
from .objects import (
    AUTONAMED,
    MANAGED,
    SERVED,
    TALOS_ACCOUNT,
    Cluster,
    Reference,
    annotation,
    applied,
    autoname,
    dashed,
    is_custom,
    metadata_of,
    namespaced,
    normal_secret,
    type_of,
)
from .reach import Unreachable, cluster_of, flag, reachable
from .status import status_of

PATIENCE = 5.0
"""Seconds for which a create waits for what it needs. The real provider tries again for half a minute, and waits ten
minutes for pods; here everything that is being made beside it comes within these."""

_READ_ONLY = ("uid", "resourceVersion", "generation", "creationTimestamp")


class Object(Kind):
    """Any Kubernetes object, told apart by its API version and kind."""

    def defaults(self, call: Call, inputs: dict[str, Any], old: Mapping[str, Any]) -> dict[str, Any]:
        filled: dict[str, Any] = {}
        metadata = autoname(call.name, inputs, old) or {}
        api_version, kind = type_of(_token(call), inputs)
        unplaced = inputs.get("metadata") is not UNKNOWN and metadata_of(inputs).get("namespace") is None
        if unplaced and namespaced(reachable(call), _token(call), api_version, kind):
            # The kubeconfig's context names one; the provider takes a kind that it does not know for namespaced.
            metadata["namespace"] = _default_namespace(call)
        if metadata:
            filled["metadata"] = metadata
        if (api_version, kind) == ("v1", "Secret"):
            filled |= normal_secret(inputs)
        return filled

    def comparable(self, call: Call, inputs: dict[str, Any]) -> dict[str, Any]:
        metadata = {key: value for key, value in metadata_of(inputs).items() if key not in _READ_ONLY}
        api_version, kind = type_of(_token(call), inputs)
        if not namespaced(reachable(call), _token(call), api_version, kind):
            metadata.pop("namespace", None)
        elif metadata.get("namespace") in (None, ""):
            metadata["namespace"] = "default"
        return inputs if inputs.get("metadata") is UNKNOWN else inputs | {"metadata": metadata}

    def replaces(self, call: Call, old: dict[str, Any], new: dict[str, Any], changed: Iterable[str]) -> list[str]:
        api_version, kind = type_of(_token(call), new)
        mutable = {
            "Secret": flag(call, "enableSecretMutable", "PULUMI_K8S_ENABLE_SECRET_MUTABLE"),
            "ConfigMap": flag(call, "enableConfigMapMutable", "PULUMI_K8S_ENABLE_CONFIGMAP_MUTABLE"),
        }
        roots = force_new(api_version, kind, mutable.get(kind, False) and new.get("immutable") is not True)
        return [path for path in changed if within(path, roots)]

    def goes_first(self, call: Call, old: dict[str, Any], new: dict[str, Any]) -> bool:
        # An object that names itself can exist once only; one with a made-up name gets another.
        before, after = metadata_of(old), metadata_of(new)
        named = after.get("name") is not None and annotation(new, AUTONAMED) != "true"
        return named and all(before.get(key) == after.get(key) for key in ("name", "namespace"))

    def marked(self, outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
        return _annotated(outputs, inputs)

    def preview(self, call: Call, inputs: dict[str, Any], outputs: frozenset[str]) -> dict[str, Any]:
        # What is not answered here, the status among it, is unknown to the program.
        if not has_unknown(inputs) and (cluster := reachable(call)):
            # The provider asks the server for a dry run as soon as there is one.
            _static(cluster, call, inputs)
        return inputs

    def preview_update(self, call: Call, state: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
        if has_unknown(inputs):
            return inputs
        self.preview(call, inputs, frozenset())
        return applied(state, {}, inputs)

    def create(self, call: Call, inputs: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        cluster = cluster_of(call)
        reference = _patiently(lambda: _placed(cluster, call, inputs))
        _static(cluster, call, inputs)
        _patiently(lambda: _startable(cluster, reference, inputs))
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        sent = _sent(inputs, reference)
        with call.world.transaction():
            upsert = flag(call, "upsertExistingObjects", "PULUMI_K8S_UPSERT_EXISTING_OBJECTS")
            there = cluster.get(reference.type, reference.namespace, reference.name)
            if (there or cluster.has(reference.type, reference.namespace, reference.name)) and not (upsert and there):
                raise CloudError(
                    "AlreadyExists",
                    f'{reference.kind} "{reference.name}" already exists. The resource already exists in the cluster: '
                    "use an alias after a renaming, or import it",
                )
            made = {"uid": str(uuid.uuid4()), "creationTimestamp": now, "generation": 1}
            live = applied(there or {"metadata": made}, {}, sent)
            live["metadata"]["resourceVersion"] = str(call.world.next("kubernetes:resourceVersion"))
            live |= status_of(cluster, reference, live)
            cluster.put(reference, {**live, MANAGED: sent})
        twin.put(cluster, reference, sent)
        return reference.id, live

    def read(self, call: Call, id: str, state: dict[str, Any]) -> dict[str, Any] | None:
        try:
            cluster = cluster_of(call)
        except Unreachable:
            if flag(call, "deleteUnreachable", "PULUMI_K8S_DELETE_UNREACHABLE"):
                return None
            if flag(call, "skipUpdateUnreachable", "PULUMI_K8S_SKIP_UPDATE_UNREACHABLE"):
                return state
            raise CloudError(
                "Unreachable",
                "failed to read resource state due to unreachable cluster. If the cluster was deleted, you can remove "
                "this resource from Pulumi state by rerunning the operation with the PULUMI_K8S_DELETE_UNREACHABLE "
                'environment variable set to "true"',
            ) from None
        reference = _of_id(call, id, state)
        doc = cluster.get(reference.type, reference.namespace, reference.name)
        if doc is None and cluster.has(reference.type, reference.namespace, reference.name):
            return _sent({}, reference)
        return None if doc is None else _shown(doc)

    def update(self, call: Call, id: str, state: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
        cluster = cluster_of(call)
        reference = _of_id(call, id, state)
        _static(cluster, call, inputs)
        _patiently(lambda: _startable(cluster, reference, inputs))
        sent = _sent(inputs, reference)
        with call.world.transaction():
            there = cluster.get(reference.type, reference.namespace, reference.name)
            if there is None:
                raise CloudError("NotFound", f'{reference.kind} "{reference.name}" not found')
            if there.get("immutable") is True and there.get("data") != sent.get("data"):
                raise CloudError(
                    "Invalid", f"{reference.id}: data: Forbidden: field is immutable when `immutable` is set"
                )
            live = applied(_shown(there), there.get(MANAGED) or {}, sent)
            if live.get("spec") != there.get("spec"):
                live["metadata"]["generation"] = int(live["metadata"].get("generation", 1)) + 1
            live["metadata"]["resourceVersion"] = str(call.world.next("kubernetes:resourceVersion"))
            live |= status_of(cluster, reference, live)
            cluster.put(reference, {**live, MANAGED: sent})
        twin.put(cluster, reference, sent)
        return live

    def delete(self, call: Call, id: str, state: dict[str, Any]) -> None:
        try:
            cluster = cluster_of(call)
        except Unreachable:
            if flag(call, "deleteUnreachable", "PULUMI_K8S_DELETE_UNREACHABLE"):
                return
            raise CloudError(
                "Unreachable",
                "configured Kubernetes cluster is unreachable. If the cluster was deleted, you can remove this "
                "resource from Pulumi state by rerunning the operation with the PULUMI_K8S_DELETE_UNREACHABLE "
                'environment variable set to "true"',
            ) from None
        reference = _of_id(call, id, state)
        twin.remove(cluster, reference)
        cluster.remove(reference)


def _token(call: Call) -> str:
    return call.urn.split("::")[2].rsplit("$", 1)[-1]


def _default_namespace(call: Call) -> str:
    try:
        return kubeconfig.access(call.config).namespace
    except kubeconfig.BadKubeconfig:
        return "default"


def _of_id(call: Call, id: str, state: Mapping[str, Any]) -> Reference:
    namespace, _, name = id.rpartition("/")
    return Reference(*type_of(_token(call), state), namespace, name)


def _sent(inputs: Mapping[str, Any], reference: Reference) -> dict[str, Any]:
    """Return the object that goes to the API server."""
    metadata = {**metadata_of(inputs), "name": reference.name}
    metadata.pop("namespace", None)
    if reference.namespace:
        metadata["namespace"] = reference.namespace
    sent = {key: value for key, value in inputs.items() if key != "status" and not key.startswith("__")}
    return sent | {"apiVersion": reference.api_version, "kind": reference.kind, "metadata": metadata}


def _shown(doc: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in doc.items() if key != MANAGED}


def _placed(cluster: Cluster, call: Call, inputs: Mapping[str, Any]) -> Reference:
    """Return what an object is and where it goes, or refuse: its kind and namespace must be there."""
    token = _token(call)
    api_version, kind = type_of(token, inputs)
    if kind.endswith("List") or token.endswith("Patch"):
        raise CloudError("NotSimulated", f"the lab does not simulate {token}")
    if api_version not in SERVED and (not is_custom(token) or cluster.definition(api_version, kind) is None):
        more = ""
        if f"{api_version}/{kind}" == TALOS_ACCOUNT:
            more = " (Talos brings it on control planes with machine.features.kubernetesTalosAPIAccess)"
        raise CloudError(
            "NotFound",
            f"creation of resource {call.name!r} with kind {api_version}/{kind} failed because the Kubernetes API "
            "server reported that the apiVersion for this resource does not exist. Verify that any required CRDs "
            f'have been created: no matches for kind "{kind}" in version "{api_version}"{more}',
        )
    metadata = metadata_of(inputs)
    namespace = ""
    if namespaced(cluster, token, api_version, kind):
        namespace = str(metadata.get("namespace") or "default")
        if not cluster.has("v1/Namespace", "", namespace):
            raise CloudError("NotFound", f'namespaces "{namespace}" not found')
    return Reference(api_version, kind, namespace, str(metadata.get("name") or ""))


def _static(cluster: Cluster, call: Call, inputs: Mapping[str, Any]) -> None:
    """Refuse an object that the API server finds invalid by itself, or whose pods PodSecurity keeps out."""
    api_version, kind = type_of(_token(call), inputs)
    type = f"{api_version}/{kind}"
    found = rules.problems(type, dashed(inputs))
    name = str(metadata_of(inputs).get("name"))
    if found:
        raise CloudError("Invalid", f'{kind} "{name}" is invalid: {"; ".join(found)}')
    namespace = str(metadata_of(inputs).get("namespace") or "default")
    if cluster.has("v1/Namespace", "", namespace):
        problem = starting.security_problem(cluster, type, namespace, inputs)
        if problem:
            raise CloudError("Forbidden", f'pods of {kind} "{name}" are forbidden: {problem}')


def _startable(cluster: Cluster, reference: Reference, inputs: Mapping[str, Any]) -> None:
    lacking = starting.missing(cluster, reference.type, reference.namespace, inputs)
    if lacking:
        raise CloudError(
            "Timeout",
            f"the Kubernetes API server reported that {reference.id!r} failed to fully initialize or become live: "
            f"its pods wait for: {'; '.join(lacking)}",
        )


def _patiently(step: Callable[[], Any]) -> Any:
    """Do a step once it can be done: what it needs may be being made at this moment."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return step()
        except CloudError as error:
            if error.code not in ("NotFound", "Timeout") or time.monotonic() >= deadline:
                raise
        time.sleep(0.05)


def _annotated(outputs: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs with marks on what was secret in the inputs, and on a Secret's data (``annotateSecrets``)."""
    result = dict(outputs)
    if outputs.get("kind") == "Secret":
        return result | {key: Secret(result[key]) for key in ("data", "stringData") if result.get(key) is not None}
    for key, given in inputs.items():
        there = result.get(key)
        if there is None:
            continue
        if isinstance(there, Mapping) and isinstance(given, Mapping):
            result[key] = _annotated(there, given)
        elif _holds_secret(given):
            result[key] = Secret(plain(there))
    return result


def _holds_secret(value: Any) -> bool:
    if isinstance(value, Secret):
        return True
    if isinstance(value, Mapping):
        return any(_holds_secret(item) for item in value.values())
    return isinstance(value, list) and any(_holds_secret(item) for item in value)


def _delete(world: World, words: list[str]) -> str:
    """Delete an object, named by kind and id as ``python -m lab cloud ls`` shows them: ``v1/Node demo/cp-1``."""
    if len(words) != 2 or not world.remove("kubernetes", *words):
        raise CloudError("BadAction", "name one object by its kind and id, such as v1/Node demo/cp-1")
    return f"deleted {' '.join(words)}"


ACTIONS: dict[str, Callable[[World, list[str]], str]] = {"delete-object": _delete}
"""What can be done to a cluster's objects behind Pulumi's back."""

PRIVATE_KINDS = frozenset({"v1/Secret"})
"""Kinds whose records nothing may print."""

PACKAGE = Package(
    name="kubernetes",
    kinds={},
    fallback=Object(),
    check_config=kubeconfig.check_config,
    diff_config=kubeconfig.diff_config,
    keeps_secrets=True,
)
