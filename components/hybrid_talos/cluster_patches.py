"""What machines of a cluster are told beyond what Talos generates: patches, as pure functions.

Every patch is a strategic-merge document; JSON patches are refused for configurations of several documents
(siderolabs/talos#12510). Only `v1alpha1` and documents that machinery 1.13 knows are used, because the Talos
provider (pulumiverse-talos 0.8.1) reads them with that.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from . import machine_config
from ._contract import BadInputs
from .install_disk import install_section
from .machine import MachineShape
from .machine_links import link_documents
from .registries import ComponentImagesShape, RegistryShape, login_documents, mirror_documents
from .site import SiteShape
from .talos_yaml import Document, dump

KUBEPRISM_PORT = 7445
"""Port on 127.0.0.1 of each node where the Kubernetes API is always reached; the mesh's agents use it."""


@dataclass(frozen=True)
class Common:
    """What every machine of the cluster is told, static or of a pool."""

    pod_cidr: str
    service_cidr: str
    kubernetes_version: str
    cloud_controller: bool = True
    mirrors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    mirror_fallback: bool = True
    registries: Mapping[str, RegistryShape] = field(default_factory=dict)
    trusted_roots: Sequence[str] = ()
    images: ComponentImagesShape | None = None


def every_machine(contract: str, common: Common) -> list[Document]:
    """Return the patch for every machine of the cluster, without secrets.

    Workers need the ranges as much as control planes do: the kubelet takes the address of the cluster's DNS from the
    services' range, and Talos never takes an address inside of either for the node's own (siderolabs/talos
    `internal/app/machined/pkg/controllers/k8s/`, kubelet_config.go and nodeip_config.go).

    With ``cloud_controller`` nodes start with the taint `uninitialized`, and kubelets ask for a serving certificate
    that somebody has to approve: Talos CCM does both (siderolabs/talos-cloud-controller-manager `docs/install.md`).
    """
    patch: Document = {
        "machine": {"features": {"kubePrism": {"enabled": True, "port": KUBEPRISM_PORT}}},
        "cluster": {"network": {"podSubnets": [common.pod_cidr], "serviceSubnets": [common.service_cidr]}},
    }
    if common.cloud_controller:
        patch["machine"]["kubelet"] = {"extraArgs": {"rotate-server-certificates": "true"}}
        patch["cluster"]["externalCloudProvider"] = {"enabled": True}
    documents = machine_config.has_documents(contract)
    return joined(
        [
            patch,
            common.images.every_machine(common.kubernetes_version) if common.images is not None else {},
            *mirror_documents(common.mirrors, documents=documents, fallback=common.mirror_fallback),
            *_trusted_roots(common.trusted_roots),
        ]
    )


def _trusted_roots(certificates: Sequence[str]) -> list[Document]:
    if not certificates:
        return []
    text = "".join(f"{certificate.strip()}\n" for certificate in certificates)
    return [{"apiVersion": "v1alpha1", "kind": "TrustedRootsConfig", "name": "hybrid-talos", "certificates": text}]


def logins(contract: str, common: Common, passwords: Mapping[str, str]) -> list[Document]:
    """Return the patch for every machine with the credentials of registries, a secret."""
    return joined(
        login_documents(common.registries, passwords, documents=machine_config.has_documents(contract)),
    )


def site(contract: str, shape: SiteShape, own: Sequence[str], password: str | None) -> list[Document]:
    """Return the patch for machines of a site; ``own`` are the cluster's names and addresses."""
    return shape.documents(
        documents=machine_config.has_documents(contract),
        environment_document=machine_config.has_environment_document(contract),
        own=own,
        password=password,
    )


def one_machine(
    machine: MachineShape,
    *,
    hostname_document: bool,
    installer_image: str,
    generated_disk: bool = True,
    control_plane: bool = False,
    node_subnets: Sequence[str] = (),
) -> list[Document]:
    """Return the patch for one machine that exists: name, disk, installer, links, labels, annotations, taints.

    ``hostname_document`` says whether its configuration carries the name in a document of its own, as those of a
    contract from 1.12 on do; a name in both places is refused by Talos. ``generated_disk`` says whether it names a
    disk already.
    """
    if not installer_image:
        raise BadInputs("installer_image: is empty; it names the image that the machine installs")
    if machine.links and not hostname_document:
        raise BadInputs(
            f"{machine.name}: links: need a config contract of 1.12 or later; with an older one write them as "
            "machine.network in config_patches"
        )
    install = install_section(machine.install_disk, machine.install_disk_selector)
    if not generated_disk and "diskSelector" in install:
        # Deleting what is not there is refused.
        del install["disk"]
    return joined(
        [
            machine_config.static_hostname(machine.name, "1.12" if hostname_document else "1.11"),
            {"machine": {"install": {**install, "image": installer_image}}},
            machine_config.node_labels(machine.labels),
            machine_config.node_annotations(machine.annotations),
            _taints(machine, control_plane),
            machine_config.node_ip(node_subnets),
            *link_documents(machine.links),
        ]
    )


def _taints(machine: MachineShape, control_plane: bool) -> Document:
    """Return the patch for a machine's taints: a control plane may set its own at any time, a worker only at first."""
    if not control_plane:
        return machine_config.register_with_taints(machine.checked_taints)
    taints = {taint.key: f"{taint.value}:{taint.effect}" for taint in machine.checked_taints}
    return {"machine": {"nodeTaints": taints}} if taints else {}


def worker_base(contract: str, common: Common, passwords: Mapping[str, str]) -> str:
    """Return the patch that makes of a generated worker the one that every worker starts from.

    It installs nothing: images of a cloud are installed already, and machines that exist name their own disk.
    """
    documents = joined([*every_machine(contract, common), *logins(contract, common, passwords)])
    documents[0]["machine"]["install"] = {"$patch": "delete"}
    return dump(documents)


def render(documents: Iterable[Document]) -> str:
    """Return a patch as the text that the Talos provider takes: the same bytes for the same content."""
    return dump(list(documents))


def joined(documents: Iterable[Document]) -> list[Document]:
    """Return the documents with all of one kind and name merged, which is what one patch may hold."""
    found: list[Document] = []
    for document in documents:
        if document:
            found = machine_config.merge_documents(found, [document])
    return found
