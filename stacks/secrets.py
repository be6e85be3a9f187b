"""The secrets of a stack: read from its own configuration keys, never part of the settings object.

A secret inside the settings object would stand readable in state: Pulumi marks whole configuration keys only.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pulumi


@dataclass(frozen=True)
class Secrets:
    """Secret configuration values; None where the stack does not need one."""

    azure_client_secret: pulumi.Output[str] | None = None
    aliyun_access_key_secret: pulumi.Output[str] | None = None
    join: str | None = field(default=None, repr=False)
    """In clear, so that it can be checked before anything is made."""
    kubeconfig: str | None = field(default=None, repr=False)
    """In clear, as `join` is."""
    registry_passwords: Mapping[str, pulumi.Output[str]] = field(default_factory=dict, repr=False)
    """By the host of the registry."""
    proxy_password: pulumi.Output[str] | None = None


def _wanted(stack: str, document: Any) -> Iterator[tuple[str, str]]:
    """Yield key and meaning of each secret that settings call for; they need not be valid."""
    tree: Mapping[str, Any] = document if isinstance(document, Mapping) else {}
    autoscaler = tree.get("autoscaler")
    scaled = autoscaler if isinstance(autoscaler, Mapping) else {}
    if scaled.get("azure") and tree.get("azure") and _kind(scaled, "azure") in (None, "servicePrincipal"):
        yield "azureClientSecret", "the autoscaler's client secret on Azure"
    if scaled.get("aliyun") and tree.get("aliyun") and _kind(scaled, "aliyun") in (None, "accessKey"):
        yield "aliyunAccessKeySecret", "the autoscaler's access key secret on Alibaba Cloud"
    if stack in ("cluster", "hybrid"):
        cluster = tree.get("cluster")
        if _with_user(_at(cluster, "registries")):
            yield "registryPasswords", 'the passwords of cluster.registries, as JSON: {"registry.example.com": "..."}'
        if _at(_at(_at(cluster, "site"), "proxy"), "username"):
            yield "proxyPassword", "the password of cluster.site.proxy.username"
    if stack in ("azure-burst", "aliyun-burst") and not tree.get("clusterStack"):
        yield "join", "the `join` output of the stack that built the cluster, as JSON"
        yield "kubeconfig", "the `kubeconfig` output of the stack that built the cluster"


def _kind(scaled: Mapping[str, Any], cloud: str) -> Any:
    """Return the kind of identity of an autoscaler, or None when none is named."""
    return _at(_at(scaled.get(cloud), "identity"), "kind")


def _at(node: Any, key: str) -> Any:
    return node.get(key) if isinstance(node, Mapping) else None


def _with_user(registries: Any) -> list[str]:
    """Return the hosts of registries that have a user name."""
    found = registries.items() if isinstance(registries, Mapping) else ()
    return sorted(str(host) for host, registry in found if _at(registry, "username"))


def _passwords(config: pulumi.Config) -> dict[str, str] | None:
    """Return the registries' passwords by host, or None when they are not of that form."""
    try:
        found = json.loads(config.get("registryPasswords") or "{}")
    except ValueError:
        return None
    if not isinstance(found, dict) or not all(isinstance(password, str) for password in found.values()):
        return None
    return found


def _registry_problems(config: pulumi.Config, stack: str, document: Any) -> list[str]:
    hosts = _with_user(_at(_at(document, "cluster"), "registries"))
    if stack not in ("cluster", "hybrid") or not hosts or (config.get("registryPasswords") or "").strip() in ("", "{}"):
        return []
    passwords = _passwords(config)
    if passwords is None:
        return [
            "hybrid-talos:registryPasswords: must be a JSON object with the password, as text, of each host of "
            "cluster.registries that has a username"
        ]
    return [
        f"hybrid-talos:registryPasswords: has no password for {host}, which has a username in cluster.registries: "
        f"pulumi config set --secret --path 'hybrid-talos:registryPasswords[\"{host}\"]'"
        for host in hosts
        if not passwords.get(host, "").strip()
    ]


def secret_problems(config: pulumi.Config, stack: str, document: Any) -> list[str]:
    """Return a line for each secret that the settings call for and that is missing or empty.

    Args:
        config: the configuration of the stack, under `hybrid-talos`.
        stack: the value of `hybrid-talos:stack`.
        document: the value of `hybrid-talos:settings`, as plain data; it may be wrong.
    """
    # Pulumi hands a value that it could not decrypt over as an empty object.
    missing = [
        f"hybrid-talos:{key}: missing or empty; expected {meaning}: "
        f"pulumi config set --secret hybrid-talos:{key} (with another passphrase it also reads as empty)"
        for key, meaning in _wanted(stack, document)
        if (config.get(key) or "").strip() in ("", "{}")
    ]
    return [*missing, *_registry_problems(config, stack, document)]


def read_secrets(config: pulumi.Config, stack: str, document: Any) -> Secrets:
    """Return the secrets that the settings call for, once ``secret_problems`` has found nothing."""
    wanted = dict(_wanted(stack, document))

    def secret(key: str) -> pulumi.Output[str] | None:
        return config.require_secret(key) if key in wanted else None

    def passwords() -> dict[str, pulumi.Output[str]]:
        found = _passwords(config) if "registryPasswords" in wanted else None
        return {host: pulumi.Output.secret(password) for host, password in sorted((found or {}).items())}

    return Secrets(
        azure_client_secret=secret("azureClientSecret"),
        aliyun_access_key_secret=secret("aliyunAccessKeySecret"),
        join=config.require("join") if "join" in wanted else None,
        kubeconfig=config.require("kubeconfig") if "kubeconfig" in wanted else None,
        registry_passwords=passwords(),
        proxy_password=secret("proxyPassword"),
    )
