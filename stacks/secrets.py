"""The secrets of a stack: read from its own configuration keys, never part of the settings object.

A secret inside the settings object would stand readable in state: Pulumi marks whole configuration keys only.
"""

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


def _wanted(stack: str, document: Any) -> Iterator[tuple[str, str]]:
    """Yield key and meaning of each secret that settings call for; they need not be valid."""
    tree: Mapping[str, Any] = document if isinstance(document, Mapping) else {}
    autoscaler = tree.get("autoscaler")
    scaled = autoscaler if isinstance(autoscaler, Mapping) else {}
    if scaled.get("azure") and tree.get("azure"):
        yield "azureClientSecret", "the autoscaler's client secret on Azure"
    if scaled.get("aliyun") and tree.get("aliyun"):
        yield "aliyunAccessKeySecret", "the autoscaler's access key secret on Alibaba Cloud"
    if stack in ("azure-burst", "aliyun-burst") and not tree.get("clusterStack"):
        yield "join", "the `join` output of the stack that built the cluster, as JSON"
        yield "kubeconfig", "the `kubeconfig` output of the stack that built the cluster"


def secret_problems(config: pulumi.Config, stack: str, document: Any) -> list[str]:
    """Return a line for each secret that the settings call for and that is missing or empty.

    Args:
        config: the configuration of the stack, under `hybrid-talos`.
        stack: the value of `hybrid-talos:stack`.
        document: the value of `hybrid-talos:settings`, as plain data; it may be wrong.
    """
    # Pulumi hands a value that it could not decrypt over as an empty object.
    return [
        f"hybrid-talos:{key}: missing or empty; expected {meaning}: "
        f"pulumi config set --secret hybrid-talos:{key} (with another passphrase it also reads as empty)"
        for key, meaning in _wanted(stack, document)
        if (config.get(key) or "").strip() in ("", "{}")
    ]


def read_secrets(config: pulumi.Config, stack: str, document: Any) -> Secrets:
    """Return the secrets that the settings call for, once ``secret_problems`` has found nothing."""
    wanted = dict(_wanted(stack, document))

    def secret(key: str) -> pulumi.Output[str] | None:
        return config.require_secret(key) if key in wanted else None

    return Secrets(
        azure_client_secret=secret("azureClientSecret"),
        aliyun_access_key_secret=secret("aliyunAccessKeySecret"),
        join=config.require("join") if "join" in wanted else None,
        kubeconfig=config.require("kubeconfig") if "kubeconfig" in wanted else None,
    )
