"""The secrets of a cluster in the two forms that they have: `secrets.yaml` of talosctl, and the Talos provider's.

They are matched as siderolabs/terraform-provider-talos `pkg/talos/util.go` matches them
(`secretsBundleTomachineSecrets`).
"""

from collections.abc import Iterator, Mapping
from typing import Any

_PAIRS = {"etcd": "etcd", "k8s": "k8s", "k8saggregator": "k8sAggregator", "os": "os"}
"""Authorities: talosctl's name, and the provider's."""

_TEXTS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("cluster", "id"): ("cluster", "id"),
    ("cluster", "secret"): ("cluster", "secret"),
    ("secrets", "bootstraptoken"): ("secrets", "bootstrapToken"),
    ("secrets", "secretboxencryptionsecret"): ("secrets", "secretboxEncryptionSecret"),
    # Of clusters that were born before Talos 1.3.
    ("secrets", "aescbcencryptionsecret"): ("secrets", "aescbcEncryptionSecret"),
    ("trustdinfo", "token"): ("trustdinfo", "token"),
    **{("certs", theirs, "crt"): ("certs", ours, "cert") for theirs, ours in _PAIRS.items()},
    **{("certs", theirs, "key"): ("certs", ours, "key") for theirs, ours in _PAIRS.items()},
    ("certs", "k8sserviceaccount", "key"): ("certs", "k8sServiceaccount", "key"),
}
"""Where each secret stands in `secrets.yaml`, and where in the provider's form."""

_ONE_OF = (("secrets", "secretboxencryptionsecret"), ("secrets", "aescbcencryptionsecret"))


class BundleError(Exception):
    """Something is no complete set of secrets; the message names what is missing, and shows nothing of it."""


def bundle_of(machine_secrets: Mapping[str, Any]) -> dict[str, Any]:
    """Return `secrets.yaml` of secrets in the provider's form.

    Raises:
        BundleError: naming what is missing.
    """
    bundle: dict[str, Any] = {}
    for theirs, ours in _TEXTS.items():
        value = _at(machine_secrets, ours)
        if isinstance(value, str) and value:
            _put(bundle, theirs, value)
    check_bundle(bundle, "the stack's machine secrets")
    return bundle


def check_bundle(bundle: Mapping[str, Any], owner: str) -> None:
    """Raise BundleError, naming ``owner`` and what is missing, unless this is a complete `secrets.yaml`."""
    missing = [
        ".".join(path)
        for path in _TEXTS
        if path not in _ONE_OF and not (isinstance(_at(bundle, path), str) and _at(bundle, path))
    ]
    if not any(_at(bundle, path) for path in _ONE_OF):
        missing.append(".".join(_ONE_OF[0]))
    if missing:
        raise BundleError(
            f"{owner}: not a complete set of secrets, as `talosctl gen secrets` writes it: no {', '.join(missing)}"
        )


def same_secrets(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two `secrets.yaml` hold the same secrets, whatever else stands in them."""
    return all((_at(one, path) or None) == (_at(other, path) or None) for path in _TEXTS)


def secret_texts(bundle: Mapping[str, Any]) -> Iterator[str]:
    """Yield each value of a `secrets.yaml` that nobody else may see: all but certificates and the cluster's id."""
    for path in _TEXTS:
        value = _at(bundle, path)
        if isinstance(value, str) and value and path[-1] not in ("id", "crt"):
            yield value


def _at(node: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def _put(node: dict[str, Any], path: tuple[str, ...], value: str) -> None:
    for key in path[:-1]:
        node = node.setdefault(key, {})
    node[path[-1]] = value
