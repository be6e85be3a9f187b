"""The functions of the talos package, and what they share with its resources.

The files named are those of siderolabs/terraform-provider-talos v0.11.0 pkg/talos.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import yaml

from lab.provider import Call
from lab.sdk_schema import Problem
from lab.world import CloudError

from . import machines, talosctl
from .bundles import bundle_of_secrets

_CONTRACT = re.compile(r"v?\d+\.\d+(\.\d+([-+][0-9A-Za-z.+-]+)?)?")


def contract_problem(version: Any, path: str) -> Iterable[Problem]:
    """Return what is wrong with a version contract."""
    if isinstance(version, str) and not _CONTRACT.fullmatch(version):
        yield Problem(path, f"Invalid version: error parsing version {version!r}")


def refused(what: str, error: talosctl.TalosctlError) -> CloudError:
    """Return the refusal of a config that talosctl does not take."""
    return CloudError("InvalidArgument", f"{what}: {error}")


def client_of(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client's certificate and key, in whichever of the two ways they were given.

    Raises:
        CloudError: a part is missing, as happens when a program hands the parts over under other names.
    """
    given = inputs.get("clientConfigurationWo") or inputs.get("clientConfiguration") or {}
    missing = [key for key in ("caCertificate", "clientCertificate", "clientKey") if not given.get(key)]
    if missing:
        names = ", ".join(f"clientConfiguration.{key}" for key in missing)
        raise CloudError("InvalidArgument", f"missing required property: {names}")
    return dict(given)


def with_endpoint(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return inputs with the endpoint that the provider plans: the node itself, where none is given."""
    return {**inputs, "endpoint": inputs.get("endpoint", inputs["node"])}


def fetch_kubeconfig(call: Call, inputs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the cluster's name and the outputs that a new kubeconfig fills."""
    machines.check_reach(call.world, inputs["node"], inputs["endpoint"], client_of(inputs))
    cluster, raw = machines.kubeconfig(call.world, inputs["node"])
    loaded = yaml.safe_load(raw)
    server, user = loaded["clusters"][0]["cluster"], loaded["users"][0]["user"]
    return cluster, {
        "kubeconfigRaw": raw,
        "kubernetesClientConfiguration": {
            "host": server["server"],
            "caCertificate": server["certificate-authority-data"],
            "clientCertificate": user["client-certificate-data"],
            "clientKey": user["client-key-data"],
        },
    }


def get_machine_configuration(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """``machine.getConfiguration`` (talos_machine_configuration_data_source.go)."""
    role, name = arguments.get("machineType"), arguments.get("clusterName")
    if role not in ("controlplane", "worker"):
        raise CloudError("InvalidArgument", "machineType: value must be one of controlplane, worker")
    if not name:
        raise CloudError("InvalidArgument", "clusterName: string length must be at least 1")
    contract = arguments.get("talosVersion") or talosctl.DEFAULT_TALOS_CONTRACT
    kubernetes = arguments.get("kubernetesVersion") or talosctl.DEFAULT_KUBERNETES
    for problem in contract_problem(contract, "talosVersion"):
        raise CloudError("InvalidArgument", f"{problem.path}: {problem.reason}")
    endpoint = str(arguments.get("clusterEndpoint") or "")
    # talosctl takes an endpoint without a port; the provider's check does not (util.go, validateClusterEndpoint).
    if urlsplit(endpoint).scheme != "https":
        raise CloudError("InvalidArgument", "cluster_endpoint is invalid: it must be a URL with the scheme https://")
    try:
        text = talosctl.gen_config(
            cluster=name,
            endpoint=endpoint,
            secrets=bundle_of_secrets(arguments.get("machineSecrets") or {}),
            role=role,
            contract=contract,
            kubernetes=kubernetes,
            patches=arguments.get("configPatches") or [],
            docs=arguments.get("docs") is True,
            examples=arguments.get("examples") is True,
        )
    except talosctl.TalosctlError as error:
        raise refused("failed to generate machine configuration", error) from None
    return {
        **arguments,
        "id": name,
        "kubernetesVersion": kubernetes,
        "talosVersion": contract,
        "machineConfiguration": text,
    }


def get_client_configuration(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """``client.getConfiguration`` (talos_client_configuration_data_source.go)."""
    name, client = arguments.get("clusterName"), client_of(arguments)
    if not name:
        raise CloudError("InvalidArgument", "clusterName: string length must be at least 1")
    context: dict[str, Any] = {"endpoints": list(arguments.get("endpoints") or [])}
    if arguments.get("nodes"):
        context["nodes"] = list(arguments["nodes"])
    context |= {"ca": client["caCertificate"], "crt": client["clientCertificate"], "key": client["clientKey"]}
    config = {"context": name, "contexts": {name: context}}
    return {**arguments, "id": name, "talosConfig": yaml.safe_dump(config, sort_keys=False)}


def get_health(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """``cluster.getHealth`` (talos_cluster_health_data_source.go); it does not wait for a cluster that is not well."""
    planes = list(arguments.get("controlPlaneNodes") or [])
    for endpoint in arguments.get("endpoints") or []:
        machines.check_reach(call.world, endpoint, endpoint, client_of(arguments))
    problem = machines.health_problem(call.world, planes, list(arguments.get("workerNodes") or []))
    if problem:
        raise CloudError("DeadlineExceeded", f"cluster health check failed: waiting for {problem}")
    return {**arguments, "id": "cluster_health"}


def get_kubeconfig(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """``cluster.getKubeconfig`` (talos_cluster_kubeconfig_data_source.go); a new certificate with every call."""
    outputs = with_endpoint(arguments)
    cluster, fetched = fetch_kubeconfig(call, outputs)
    return {**outputs, **fetched, "id": cluster}
