"""The finished machine configuration of a worker pool: one text for machines that do not exist yet.

Pure functions, the same for both clouds.
"""

from collections.abc import Sequence

from ._contract import BadInputs
from .machine_config import (
    V1ALPHA1,
    Patch,
    accepts_hostname_off,
    documents_of,
    has_hostname_document,
    hostname_from_platform,
    identity,
    kubelet_identity,
    merge_documents,
    node_annotations,
    node_ip,
    value_at,
    without,
)
from .mesh_plan import ANNOTATION
from .node_template import NodeTemplate, config_patches
from .talos_yaml import Document, load


def pool_config(
    owner: str,
    base: str,
    template: NodeTemplate,
    *,
    subnets: Sequence[str],
    talos_version: str,
    mesh_patch: str = "",
    gateway: bool = False,
    patches: Sequence[Patch] = (),
) -> list[Document]:
    """Return the configuration of a pool's machines, in documents.

    ``base`` is a generated worker configuration; on top come what the autoscaler and the cloud controller need, then
    the mesh's patch and the mark of a ``gateway``, which leads its location, then the user's ``patches``. ``subnets``
    are the only ranges that the kubelet takes its address from. Raises BadInputs, without any of the text, when the
    outcome could not serve a pool.
    """
    documents = load(base, f"{owner}: machine_config")
    if not documents:
        raise BadInputs(f"{owner}: machine_config is empty")
    if not any(identity(document) == V1ALPHA1 for document in documents):
        raise BadInputs(f"{owner}: machine_config: holds no machine section")
    documents = _for_cloud_image(documents, talos_version)
    ours: list[Patch] = [
        kubelet_identity(),
        node_ip(subnets),
        *config_patches(template),
        hostname_from_platform(talos_version),
    ]
    for patch in ours:
        documents = merge_documents(documents, documents_of(patch), owner)
    given: list[tuple[str, Patch]] = [("mesh_location.config_patch", mesh_patch)] if mesh_patch.strip() else []
    if gateway:
        # Its presence counts, whatever it says (squat/kilo `pkg/k8s/backend.go`, translateNode).
        given.append(("gateway", node_annotations({f"{ANNOTATION}/leader": "true"})))
    given += [(f"config_patches[{number}]", patch) for number, patch in enumerate(patches)]
    for name, patch in given:
        documents = merge_documents(documents, documents_of(patch, f"{owner}: {name}"), f"{owner}: {name}")
    problems = _problems(documents, template)
    if problems:
        raise BadInputs(f"{owner}: " + "; ".join(problems))
    return documents


def _for_cloud_image(documents: Sequence[Document], talos_version: str) -> list[Document]:
    """Return the base without what a cloud image does not want.

    The image is installed already; the kubelet's ranges are the pool's alone (lists append when they merge); and
    the older switch for stable host names clashes with the document that follows it.
    """
    kept: list[Document] = []
    for document in documents:
        if identity(document) == V1ALPHA1:
            bare = without(document, "machine", "install")
            bare = without(bare, "machine", "kubelet", "nodeIP", "validSubnets")
            if accepts_hostname_off(talos_version):
                bare = without(bare, "machine", "features", "stableHostname")
            kept.append(bare)
        # Talos below 1.12 does not know the kind and would refuse the whole configuration.
        elif document.get("kind") != "HostnameConfig" or has_hostname_document(talos_version):
            kept.append(document)
    return kept


def _problems(documents: Sequence[Document], template: NodeTemplate) -> list[str]:
    """Return why these documents cannot be the configuration of every machine of a pool."""
    main = next(document for document in documents if identity(document) == V1ALPHA1)
    problems: list[str] = []
    if value_at(main, "machine", "type") != "worker":
        problems.append("machine_config: must be a worker's; a control plane's never goes into user data")
    problems += [
        f"machine_config: {'.'.join(path)} is a control plane's secret, which never goes into user data"
        for path in _CONTROL_PLANE_SECRETS
        if value_at(main, *path)
    ]
    names = [value_at(main, "machine", "network", "hostname")]
    names += [document.get("hostname") for document in documents if document.get("kind") == "HostnameConfig"]
    if any(names):
        problems.append("a host name is set, and all machines of a pool would have the same: the platform names them")
    kubelet = value_at(main, "machine", "kubelet") or {}
    if "provider-id" in (kubelet.get("extraArgs") or {}) or value_at(kubelet, "extraConfig", "providerID"):
        problems.append(
            "a provider ID is set, and all machines of a pool would have the same: the cloud controller sets it"
        )
    if value_at(main, "machine", "nodeTaints"):
        problems.append("machine.nodeTaints is set, which a worker may not set on itself: use the input taints")
    return problems + _template_problems(main, template)


_CONTROL_PLANE_SECRETS: tuple[tuple[str, ...], ...] = (
    ("machine", "ca", "key"),
    ("cluster", "ca", "key"),
    ("cluster", "aggregatorCA", "key"),
    ("cluster", "serviceAccount", "key"),
    ("cluster", "etcd", "ca", "key"),
    ("cluster", "secretboxEncryptionSecret"),
    ("cluster", "aescbcEncryptionSecret"),
)


def _template_problems(main: Document, template: NodeTemplate) -> list[str]:
    """Return where the nodes would register with something else than the autoscaler is told."""
    problems: list[str] = []
    labels = value_at(main, "machine", "nodeLabels") or {}
    stray = sorted(key for key in labels if labels[key] != template.labels.get(key))
    if stray:
        problems.append(
            f"machine.nodeLabels: {', '.join(stray)} would be unknown to the autoscaler: use the input labels instead"
        )
    registered = value_at(main, "machine", "kubelet", "extraConfig", "registerWithTaints") or []
    if len(registered) != len(template.taints):
        problems.append(
            "machine.kubelet.extraConfig.registerWithTaints: its taints would be unknown to the autoscaler: use the "
            "input taints instead"
        )
    return problems
