"""Rules about the autoscalers: their flags, identities and groups, and how two clouds share the work."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml
from hybrid_talos._contract import problems_of
from hybrid_talos.autoscaler_flags import flag_problems, missing_problems
from hybrid_talos.autoscaler_options import INSTEAD, Options, image_problem
from hybrid_talos.oidc_issuer import WAY_OUT, issuer_problem
from hybrid_talos.versions import AUTOSCALER_TAGS, minor
from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from .settings_aliyun import AliyunSettings
from .settings_autoscaler import (
    AliyunAutoscaler,
    AliyunIdentityKind,
    AutoscalerOptions,
    AutoscalerSettings,
    AzureAutoscaler,
    AzureIdentityKind,
    discovery_tags,
)
from .settings_azure import AzureSettings
from .settings_base import part
from .settings_errors import Problem
from .settings_tree import Settings, Tree


def rules(tree: Tree) -> Iterator[Iterable[Problem]]:
    """Return the rules, each to be asked on its own."""
    scaler = tree.autoscaler
    if scaler is None:
        return
    azure, aliyun = part(scaler, lambda a: a.azure), part(scaler, lambda a: a.aliyun)
    if azure is not None:
        yield _options("autoscaler.azure", azure, tree, lambda: tree.azure)
        yield _azure_identity(azure)
        yield _discovery(azure, tree)
    if aliyun is not None:
        yield _options("autoscaler.aliyun", aliyun, tree, lambda: tree.aliyun)
        yield _aliyun_identity(aliyun)
    yield _issuer(tree, scaler)
    yield _rivals(tree, scaler)


def _rivals(tree: Tree, scaler: AutoscalerSettings) -> Iterator[Problem]:
    if scaler.require_selectors and (words := rivalry(tree)):
        yield Problem("autoscaler.requireSelectors", words)


def option_args(section: AutoscalerOptions) -> dict[str, Any]:
    """Return the inputs of ClusterAutoscaler that stand in the settings under the same name; none that is absent."""
    given = section.model_dump(exclude_none=True, exclude_defaults=True, include=set(Options.model_fields))
    return {key: list(value) if isinstance(value, tuple) else value for key, value in given.items()}


def _options(
    path: str,
    section: AutoscalerOptions,
    tree: Tree,
    cloud: Callable[[], AzureSettings | AliyunSettings | None],
) -> Iterator[Problem]:
    of = cloud()
    pools = [pool.name for pool in of.pools] if of is not None else []
    version = tree.cluster.kubernetes_version
    if section.image is not None and section.image_repository is not None:
        yield Problem(f"{path}.imageRepository", "is of no use with image, which names its own: remove one of them")
    if section.image is not None and (words := image_problem(section.image, version)):
        yield Problem(f"{path}.image", words)
    if section.sample_workload is not None and section.sample_workload.pool not in pools:
        yield Problem(f"{path}.sampleWorkload.pool", f"must be one of the pools of this cloud: {', '.join(pools)}")
    if not 1 <= section.pod.replicas <= 3:
        yield Problem(f"{path}.pod.replicas", "must be 1 to 3")
    try:
        options = Options.model_validate(option_args(section))
    except ValidationError as error:
        yield from (_problem(path, line) for line in problems_of(error))
        return
    found = options.option_problems(dict.fromkeys(pools))
    if minor(version) in AUTOSCALER_TAGS:
        found += missing_problems([*options.flags(), *options.lists(())], minor(version))
        found += flag_problems(options.extra_args, minor(version), INSTEAD)
    yield from (_problem(path, line) for line in found)


_SNAKE = re.compile(r"\b[a-z]+(_[a-z]+)+\b")


def _problem(path: str, line: str) -> Problem:
    """Return a component's problem as one of the settings, whose keys are in camelCase."""
    where, _, words = line.partition(": ")
    words = _SNAKE.sub(lambda found: to_camel(found[0]), words).replace("nodeGroups", "the pools")
    if where.startswith("--"):
        return Problem(path, f"{where}: {words}")
    first, dot, rest = where.partition(".")
    rest = rest if first == "extra_args" else _SNAKE.sub(lambda found: to_camel(found[0]), rest)
    return Problem(f"{path}.{to_camel(first)}{dot}{rest}", words)


def _azure_identity(azure: AzureAutoscaler) -> Iterator[Problem]:
    identity, path = azure.identity, "autoscaler.azure.identity"
    if identity.kind is not AzureIdentityKind.WORKLOAD_IDENTITY:
        if identity.client_id is None:
            yield Problem(f"{path}.clientId", f"is required with {identity.kind}")
        return
    for key, value in (("clientId", identity.client_id), ("principalId", identity.principal_id)):
        if value is not None:
            yield Problem(f"{path}.{key}", "is of no use with workloadIdentity, which is made here: remove it")
    if azure.deployment != "manifests":
        yield Problem("autoscaler.azure.deployment", "must be manifests: Cozystack's chart gives its pod no token")


def _discovery(azure: AzureAutoscaler, tree: Tree) -> Iterator[Problem]:
    if not azure.discovery or tree.azure is None:
        return
    if azure.deployment != "manifests":
        yield Problem("autoscaler.azure.discovery", "is for manifests alone: remove it, and each pool is named")
    for name in sorted(discovery_tags(tree.cluster.name).keys() & tree.azure.tags.keys()):
        yield Problem(f"azure.tags.{name}", "is what the autoscaler finds its pools by, gateways too: remove it")


def _aliyun_identity(aliyun: AliyunAutoscaler) -> Iterator[Problem]:
    identity, path = aliyun.identity, "autoscaler.aliyun.identity"
    if identity.kind is AliyunIdentityKind.ACCESS_KEY:
        if identity.access_key_id is None:
            yield Problem(f"{path}.accessKeyId", "is required with accessKey")
        if identity.issuer_fingerprints:
            yield Problem(f"{path}.issuerFingerprints", "are for oidc: remove them, or set kind: oidc")
        return
    for key, value in (("accessKeyId", identity.access_key_id), ("userName", identity.user_name)):
        if value is not None:
            yield Problem(f"{path}.{key}", "is of no use with oidc, for which a role is made: remove it")
    if not 1 <= len(identity.issuer_fingerprints) <= 5:
        yield Problem(
            f"{path}.issuerFingerprints",
            "must hold 1 to 5 with oidc: `openssl s_client -showcerts -connect HOST:443` shows the certificates, the "
            "last is the authority's, and `openssl x509 -fingerprint -sha1 -noout` prints its fingerprint (no colons)",
        )


def keyless(autoscaler: AutoscalerSettings) -> bool:
    """Return whether an autoscaler signs in by a token of the cluster."""
    azure, aliyun = autoscaler.azure, autoscaler.aliyun
    return (azure is not None and azure.identity.kind is AzureIdentityKind.WORKLOAD_IDENTITY) or (
        aliyun is not None and aliyun.identity.kind is AliyunIdentityKind.OIDC
    )


def _issuer(tree: Tree, autoscaler: AutoscalerSettings) -> Iterator[Problem]:
    path, issuer = "autoscaler.serviceAccountIssuer", autoscaler.service_account_issuer
    if not keyless(autoscaler):
        if issuer is not None:
            yield Problem(path, "is of no use: each autoscaler has a secret or a managed identity; remove it")
        return
    if issuer is None:
        yield Problem(path, f"is required for an identity without a secret. {WAY_OUT}")
        return
    problem = issuer_problem(issuer)
    if problem:
        yield Problem(path, problem)
        return
    if tree.cluster.control_planes and issuer not in _signed_as(tree):
        yield Problem(
            path,
            "is not what the API servers sign with: add to cluster.configPatches "
            f"{{cluster: {{apiServer: {{extraArgs: {{service-account-issuer: {issuer!r}}}}}}}}}",
        )


def _signed_as(tree: Tree) -> list[str]:
    """Return the issuers that the control planes are told to sign as, as far as patches for all machines say."""
    found: list[str] = []
    for patch in tree.cluster.config_patches:
        for document in yaml.safe_load_all(patch):
            value: Any = document
            for key in ("cluster", "apiServer", "extraArgs", "service-account-issuer"):
                value = value.get(key) if isinstance(value, Mapping) else None
            found += [value] if isinstance(value, str) else [one for one in value or () if isinstance(one, str)]
    return found


def rivalry(tree: Tree | Settings) -> str | None:
    """Return why both clouds would make machines for the same pods, with the ways out, or None."""
    scaler = tree.autoscaler
    if scaler is None or scaler.azure is None or scaler.aliyun is None or tree.azure is None or tree.aliyun is None:
        return None
    if scaler.azure.new_pod_scale_up_delay_seconds or scaler.aliyun.new_pod_scale_up_delay_seconds:
        return None
    ours, theirs = ([pool.labels for pool in cloud.pools] for cloud in (tree.azure, tree.aliyun))
    if any(_tells_apart(key, ours, theirs) for key in ours[0]):
        return None
    return (
        "the pools of Azure and Alibaba Cloud share no label of yours that tells the clouds apart, and neither "
        "autoscaler waits: both make machines for a pod that fits either. Give every pool a label such as "
        "example.com/cloud and the workloads a node selector, or set newPodScaleUpDelaySeconds for the second choice"
    )


def _tells_apart(key: str, ours: Sequence[Mapping[str, str]], theirs: Sequence[Mapping[str, str]]) -> bool:
    if not all(key in labels for labels in (*ours, *theirs)):
        return False
    return not {labels[key] for labels in ours} & {labels[key] for labels in theirs}
