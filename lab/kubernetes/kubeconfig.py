"""Kubeconfigs: what a provider instance reads from the one it was given."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from lab.sdk_schema import UNKNOWN, Problem


class BadKubeconfig(Exception):
    """A text that is no kubeconfig. The message quotes nothing of it."""


@dataclass(frozen=True)
class Access:
    """Where a cluster is, and how a client shows who it is. Certificates are PEM in base64."""

    server: str
    authority: str
    certificate: str
    namespace: str

    def __repr__(self) -> str:
        return f"Access({self.server})"


def parse(given: Any) -> dict[str, Any]:
    """Return a kubeconfig's content. It may be YAML, JSON or an object; a path is refused.

    The real provider also takes a path. The lab does not: it would let a file of the workstation in.
    """
    try:
        loaded = yaml.safe_load(given) if isinstance(given, str) else given
    except yaml.YAMLError:
        raise BadKubeconfig("it is no YAML") from None
    if not isinstance(loaded, Mapping):
        raise BadKubeconfig("it is no kubeconfig but a plain text; give its content, not its path")
    if not loaded.get("clusters"):
        raise BadKubeconfig("it names no cluster")
    return dict(loaded)


def access(config: Mapping[str, Any]) -> Access:
    """Return the access that a provider's settings give, with its ``context`` and ``cluster`` settings applied.

    Raises:
        BadKubeconfig: there is no kubeconfig, or it cannot be followed to a server.
    """
    if not config.get("kubeconfig"):
        raise BadKubeconfig("the provider has none")
    loaded = parse(config["kubeconfig"])
    context = _named(loaded, "contexts", "context", config.get("context") or loaded.get("current-context"))
    if context is None:
        raise BadKubeconfig("its current context is not among its contexts")
    cluster = _named(loaded, "clusters", "cluster", config.get("cluster") or context.get("cluster"))
    if cluster is None or not cluster.get("server"):
        raise BadKubeconfig("its context names a cluster that it does not describe")
    user = _named(loaded, "users", "user", context.get("user")) or {}
    return Access(
        server=str(cluster["server"]),
        authority=str(cluster.get("certificate-authority-data") or ""),
        certificate=str(user.get("client-certificate-data") or ""),
        namespace=str(config.get("namespace") or context.get("namespace") or "default"),
    )


def _named(loaded: Mapping[str, Any], listing: str, field: str, name: Any) -> dict[str, Any] | None:
    for entry in loaded.get(listing) or []:
        if isinstance(entry, Mapping) and entry.get("name") == name:
            return dict(entry.get(field) or {})
    return None


def check_config(config: dict[str, Any]) -> list[Problem]:
    """Return what is wrong with a provider's settings.

    A provider without a kubeconfig would use the workstation's; the lab never does.
    """
    given = config.get("kubeconfig")
    if given is UNKNOWN:
        return []
    if not given:
        return [Problem("kubeconfig", "required here: without it the provider would use the workstation's kubeconfig")]
    try:
        access(config)
    except BadKubeconfig as problem:
        return [Problem("kubeconfig", f"failed to parse kubeconfig: {problem}")]
    return []


def diff_config(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the settings whose change replaces everything (pulumi-kubernetes provider.go, ``DiffConfig``)."""
    before, after = old.get("clusterIdentifier"), new.get("clusterIdentifier")
    if after is not None and after is not UNKNOWN and before == after:
        return []
    replaces = ["clusterIdentifier"] if None not in (before, after) and before != after else []
    for key in ("kubeconfig", "context", "cluster"):
        if new.get(key) is UNKNOWN:
            return [*replaces, key]
    if _active(old) != _active(new):
        changed = [key for key in ("kubeconfig", "context", "cluster") if _text(old.get(key)) != _text(new.get(key))]
        if None not in (_active(old), _active(new)):
            replaces += changed
    return replaces


def _active(config: Mapping[str, Any]) -> tuple[str, str] | None:
    try:
        found = access(config)
    except BadKubeconfig:
        return None
    return found.server, found.authority


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
