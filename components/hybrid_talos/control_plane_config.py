"""What control planes alone are told, and the forms of the cluster's secrets and credentials, as pure functions."""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from . import machine_config
from ._contract import BadInputs
from .cluster_endpoint import API_PORT, host_problem
from .cluster_patches import joined
from .cni import Cni
from .registries import ComponentImagesShape
from .talos_yaml import Document

VIP_LINK_ALIAS = "hybrid-talos-vip"
"""Name given to the link that carries the VIP where none is named."""


def control_planes(
    *,
    sans: Sequence[str],
    cni: Cni,
    node_subnets: Sequence[str] = (),
    vip: str | None = None,
    local_port: int = API_PORT,
    images: ComponentImagesShape | None = None,
    kubernetes_version: str = "",
) -> list[Document]:
    """Return the patch for every control plane.

    ``sans`` are the names and addresses that the certificates of both APIs hold. The VIP is kept out of the
    addresses that kubelet and etcd choose from: it moves from machine to machine.
    """
    subnets = without_vip(node_subnets, vip)
    patch: Document = {
        "machine": {
            "certSANs": list(sans),
            "features": {
                # Lets Talos CCM in kube-system read the metadata of all machines, and nothing more.
                "kubernetesTalosAPIAccess": {
                    "enabled": True,
                    "allowedRoles": ["os:reader"],
                    "allowedKubernetesNamespaces": ["kube-system"],
                }
            },
        },
        "cluster": {
            "apiServer": {"certSANs": list(sans)},
        },
    }
    if cni is not Cni.FLANNEL:
        # Cilium is installed by its own chart; Talos must then install nothing. Flannel is what it does by itself.
        patch["cluster"]["network"] = {"cni": {"name": "none"}}
    if local_port != API_PORT:
        patch["cluster"]["controlPlane"] = {"localAPIServerPort": local_port}
    if subnets:
        patch["machine"]["kubelet"] = {"nodeIP": {"validSubnets": subnets}}
        patch["cluster"]["etcd"] = {"advertisedSubnets": subnets}
    return joined([patch, images.control_planes(kubernetes_version) if images is not None else {}])


def without_vip(node_subnets: Sequence[str], vip: str | None) -> list[str]:
    """Return the ranges that a node takes its address from: ``node_subnets``, or any, but never the VIP."""
    if vip is None:
        return list(node_subnets)
    return [*(node_subnets or ["0.0.0.0/0"]), f"!{vip}/32"]


def virtual_address(contract: str, vip: str | None, interface: str | None) -> list[Document]:
    """Return the patch for a control plane that carries the VIP on the link ``interface``, or on its only one."""
    if vip is None:
        return []
    if not machine_config.has_documents(contract):
        # Before 1.12 the VIP is a part of an interface, and naming an interface switches its DHCP off.
        link = {"interface": interface} if interface else {"deviceSelector": {"physical": True}}
        return [{"machine": {"network": {"interfaces": [{**link, "dhcp": True, "vip": {"ip": vip}}]}}}]
    documents: list[Document] = []
    if interface is None:
        documents.append(
            {
                "apiVersion": "v1alpha1",
                "kind": "LinkAliasConfig",
                "name": VIP_LINK_ALIAS,
                # 1 is Ethernet; links of a kind (bond, vlan, bridge, wireguard) are not physical.
                "selector": {"match": 'link.type == 1 && link.kind == ""'},
            }
        )
    return [
        *documents,
        {"apiVersion": "v1alpha1", "kind": "Layer2VIPConfig", "name": vip, "link": interface or VIP_LINK_ALIAS},
    ]


def certificate_names(values: Iterable[Any]) -> list[str]:
    """Return names and addresses for a certificate, each once, in order; BadInputs when one is neither."""
    names: list[str] = []
    for value in values:
        problem = host_problem(value) if isinstance(value, str) else "must be text"
        if problem:
            raise BadInputs(f"cert_sans: {problem}")
        if value not in names:
            names.append(value)
    return names


def location_patch(location: Mapping[str, Any]) -> str:
    """Return the patch that the mesh asks for in a location.

    From a program in another language the keys arrive in camelCase.
    """
    patch = location.get("config_patch", location.get("configPatch"))
    if not isinstance(patch, str) or not patch.strip():
        raise BadInputs("location: has no config_patch; NetworkMesh.locations gives one for each location")
    return patch


def provider_form(value: Any) -> Any:
    """Return secrets or credentials with the keys that the Talos provider itself uses: `bootstrap_token` becomes
    `bootstrapToken`.

    The Python SDK turns keys of nested outputs into snake_case and does not turn them back for function calls,
    where they are then lost (pulumiverse/pulumi-talos#93, #103). Values that are not there are left out.
    """
    if not isinstance(value, Mapping):
        return value
    return {
        re.sub(r"_([a-z])", lambda found: found[1].upper(), key): provider_form(nested)
        for key, nested in value.items()
        if nested is not None
    }


def kubernetes_authority(machine_secrets: Mapping[str, Any]) -> str:
    """Return the certificate (PEM) of the Kubernetes authority out of a cluster's secrets, in the provider's form."""
    try:
        return base64.b64decode(machine_secrets["certs"]["k8s"]["cert"]).decode()
    except (KeyError, TypeError, ValueError):
        # Without the cause, which would quote the secrets.
        raise BadInputs("the Talos provider made secrets without a Kubernetes authority") from None


def kubeconfig_for(raw: str | None, endpoint: str) -> str:
    """Return a kubeconfig whose server is ``endpoint``; unchanged, to the byte, when it is that already.

    The provider asks a machine for it only once, so after a change of the endpoint it still has the old one.
    Raises BadInputs when ``raw`` is no kubeconfig.
    """
    try:
        config = yaml.safe_load(raw or "")
        clusters = [entry["cluster"] for entry in config["clusters"]]
        servers = [cluster["server"] for cluster in clusters]
    except (yaml.YAMLError, KeyError, TypeError):
        raise BadInputs("the machines returned no usable kubeconfig") from None
    if not servers:
        raise BadInputs("the machines returned a kubeconfig without a cluster")
    if raw is not None and all(server == endpoint for server in servers):
        return raw
    for cluster in clusters:
        cluster["server"] = endpoint
    return str(yaml.safe_dump(config, sort_keys=True, default_flow_style=False, width=2**31))


def quorum_problem(members: int, allow_single_member: bool) -> str | None:
    """Return why this many control planes do not make a good etcd cluster, with the sum, or None.

    A cluster of n members works while more than half of them do (etcd.io FAQ, "Why an odd number of cluster
    members?").
    """
    if members == 0:
        return "none given: use 3, which keep working without any one of them"
    quorum, spare = members // 2 + 1, members - (members // 2 + 1)
    if members == 1:
        if allow_single_member:
            return None
        return "1 member is its own quorum and nothing works without it: use 3, or set allow_single_member"
    if members % 2:
        return None
    fewer = members - 1
    return (
        f"{members} members need {quorum} for a quorum and keep working without {spare}, as {fewer} would without "
        f"{fewer - (fewer // 2 + 1)}, but with one more that can fail: use {fewer} or {members + 1}"
    )
