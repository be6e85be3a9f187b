"""The secrets of a stack: read from its own configuration keys, never part of the settings object.

A secret inside the settings object would stand readable in state: Pulumi marks whole configuration keys only.
"""

from dataclasses import dataclass

import pulumi

from .settings import Settings, SettingsError


@dataclass(frozen=True)
class Secrets:
    """Secret configuration values; None where the stack does not need one."""

    azure_client_secret: pulumi.Output[str] | None = None
    aliyun_access_key_secret: pulumi.Output[str] | None = None
    join: pulumi.Output[str] | None = None
    kubeconfig: pulumi.Output[str] | None = None


def read_secrets(config: pulumi.Config, settings: Settings) -> Secrets:
    """Return the secrets that the settings call for.

    Raises:
        SettingsError: naming every secret that is missing or empty and the command that sets it.
    """
    wanted: dict[str, str] = {}
    if settings.autoscaler and settings.autoscaler.azure and settings.azure:
        wanted["azureClientSecret"] = "the autoscaler's client secret on Azure"
    if settings.autoscaler and settings.autoscaler.aliyun and settings.aliyun:
        wanted["aliyunAccessKeySecret"] = "the autoscaler's access key secret on Alibaba Cloud"
    if settings.stack.endswith("-burst") and settings.cluster_stack is None:
        wanted["join"] = "the `join` output of the stack that built the cluster"
        wanted["kubeconfig"] = "the `kubeconfig` output of the stack that built the cluster"
    problems = []
    for key, meaning in wanted.items():
        # Pulumi hands a value that it could not decrypt over as an empty object.
        if (config.get(key) or "").strip() in ("", "{}"):
            problems.append(
                f"hybrid-talos:{key}: missing or empty; expected {meaning}: "
                f"pulumi config set --secret hybrid-talos:{key} (with another passphrase it also reads as empty)"
            )
    if problems:
        raise SettingsError(problems)

    def value(key: str) -> pulumi.Output[str] | None:
        return config.require_secret(key) if key in wanted else None

    return Secrets(
        azure_client_secret=value("azureClientSecret"),
        aliyun_access_key_secret=value("aliyunAccessKeySecret"),
        join=value("join"),
        kubeconfig=value("kubeconfig"),
    )
