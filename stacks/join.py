"""`join`: what a stack that adds workers must know of a cluster that another stack built.

It carries the worker's machine config, which holds tokens, so it is a secret; it carries no private key of any
certificate authority.
"""

import json
from collections.abc import Mapping
from typing import Any

import pulumi
from hybrid_talos.mesh_location import MeshLocation

from .secrets import Secrets
from .settings import Settings, SettingsError

SCHEMA = 1
"""Number of the form below; a reader refuses another one instead of guessing."""

_KEYS = {
    "schema", "clusterName", "clusterEndpoint", "talosVersion", "kubernetesVersion", "podCidr", "serviceCidr",
    "machineConfig", "locations",
}  # fmt: skip


def write_join(
    settings: Settings,
    cluster_endpoint: pulumi.Output[str],
    machine_config: pulumi.Output[str],
    locations: pulumi.Output[Mapping[str, MeshLocation]] | None,
) -> pulumi.Output[dict[str, Any]]:
    """Return the stack output for others to join the cluster."""
    own = settings.cluster.location
    return pulumi.Output.secret(
        {
            "schema": SCHEMA,
            "clusterName": settings.cluster.name,
            "clusterEndpoint": cluster_endpoint,
            "talosVersion": settings.cluster.talos_version,
            "kubernetesVersion": settings.cluster.kubernetes_version,
            "podCidr": str(settings.cluster.pod_cidr),
            "serviceCidr": str(settings.cluster.service_cidr),
            "machineConfig": machine_config,
            "locations": {
                own.name: {"cidrs": [str(cidr) for cidr in own.cidrs], "publicEndpoint": own.public_endpoint or ""}
            }
            if own is not None and locations is not None
            else {},
        }
    )


def read_join(settings: Settings, secrets: Secrets) -> tuple[pulumi.Output[str], pulumi.Output[str]]:
    """Return the worker machine config and the kubeconfig of the cluster to join.

    Both come from the stack that ``settings.cluster_stack`` names, or from secret configuration. They are secret, and
    checked against the settings when they are known.
    """
    if settings.cluster_stack is not None:
        source = f"the stack {settings.cluster_stack}"
        reference = pulumi.StackReference("cluster", stack_name=settings.cluster_stack)
        join, kubeconfig = reference.get_output("join"), reference.get_output("kubeconfig")
    else:
        assert secrets.join is not None
        assert secrets.kubeconfig is not None
        source = "the configuration"
        join, kubeconfig = secrets.join, secrets.kubeconfig
    machine_config = pulumi.Output.secret(join).apply(lambda value: _machine_config(value, settings, source))
    return machine_config, pulumi.Output.secret(kubeconfig).apply(lambda value: _kubeconfig(value, source))


def _machine_config(value: Any, settings: Settings, source: str) -> str:
    """Return the machine config of a `join` value, or refuse it with every reason. Never prints any of it."""
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except ValueError:
            raise SettingsError(
                [
                    f"hybrid-talos:join from {source}: not JSON; expected the whole output: "
                    "pulumi stack output join --show-secrets --json"
                ]
            ) from None
    if not value:
        raise SettingsError(
            [
                f"join: {source} hands out no `join`, or an empty one: it was not built by the `cluster` or `hybrid` "
                "stack of this version, or it was encrypted with another passphrase or key than this stack uses"
            ]
        )
    if not isinstance(value, Mapping) or not value.keys() >= _KEYS or value.get("schema") != SCHEMA:
        found = value.get("schema") if isinstance(value, Mapping) else None
        raise SettingsError(
            [
                f"join: {source} hands out schema {found if isinstance(found, int | float) else 'unknown'}, "
                f"expected {SCHEMA}: run `pulumi up` there with the same version of hybrid-talos"
            ]
        )
    cluster = settings.cluster
    expected = {
        "clusterName": ("cluster.name", cluster.name),
        "clusterEndpoint": ("cluster.endpoint", f"https://{cluster.endpoint.host}:{cluster.endpoint.port}"),
        "talosVersion": ("cluster.talosVersion", cluster.talos_version),
        "kubernetesVersion": ("cluster.kubernetesVersion", cluster.kubernetes_version),
        "podCidr": ("cluster.podCidr", str(cluster.pod_cidr)),
        "serviceCidr": ("cluster.serviceCidr", str(cluster.service_cidr)),
    }
    problems = [
        f"{key}: {ours} here, {value[name]} in {source}; expected the same in both"
        for name, (key, ours) in expected.items()
        if value[name] != ours
    ]
    if not value["machineConfig"]:
        problems.append(f"join: {source} hands out an empty machineConfig")
    if problems:
        raise SettingsError(problems)
    return str(value["machineConfig"])


def _kubeconfig(value: Any, source: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise SettingsError(
            [f"kubeconfig: {source} hands out no kubeconfig, or it was encrypted with another passphrase or key"]
        )
    return value
