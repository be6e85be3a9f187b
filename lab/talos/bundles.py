"""The cluster secrets in the two forms that they have: talosctl's bundle and the provider's ``machineSecrets``.

The two are matched as siderolabs/terraform-provider-talos pkg/talos/util.go matches them.
"""

from collections.abc import Mapping
from typing import Any

from lab.world import CloudError


def secrets_of_bundle(bundle: Mapping[str, Any]) -> dict[str, Any]:
    """Return a bundle of ``talosctl gen secrets`` as the provider gives it out (``secretsBundleTomachineSecrets``)."""
    certs = bundle["certs"]

    def pair(name: str) -> dict[str, str]:
        return {"cert": certs[name]["crt"], "key": certs[name]["key"]}

    kept = {
        "bootstrapToken": bundle["secrets"]["bootstraptoken"],
        "secretboxEncryptionSecret": bundle["secrets"].get("secretboxencryptionsecret", ""),
    }
    if bundle["secrets"].get("aescbcencryptionsecret"):
        kept["aescbcEncryptionSecret"] = bundle["secrets"]["aescbcencryptionsecret"]
    return {
        "cluster": {"id": bundle["cluster"]["id"], "secret": bundle["cluster"]["secret"]},
        "secrets": kept,
        "trustdinfo": {"token": bundle["trustdinfo"]["token"]},
        "certs": {
            "etcd": pair("etcd"),
            "k8s": pair("k8s"),
            "k8sAggregator": pair("k8saggregator"),
            "k8sServiceaccount": {"key": certs["k8sserviceaccount"]["key"]},
            "os": pair("os"),
        },
    }


def bundle_of_secrets(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bundle that talosctl reads, from the provider's form of it.

    Raises:
        CloudError: a part is missing, as happens when a program hands the parts over under other names.
    """
    required = {
        "cluster": ("id", "secret"),
        "secrets": ("bootstrapToken", "secretboxEncryptionSecret"),
        "trustdinfo": ("token",),
        "certs": ("etcd", "k8s", "k8sAggregator", "k8sServiceaccount", "os"),
    }
    missing = [
        f"machineSecrets.{part}.{name}"
        for part, names in required.items()
        for name in names
        if not (given.get(part) or {}).get(name)
    ]
    certs = given.get("certs") or {}
    for name in required["certs"]:
        wanted = ("key",) if name == "k8sServiceaccount" else ("cert", "key")
        missing += [f"machineSecrets.certs.{name}.{item}" for item in wanted if not (certs.get(name) or {}).get(item)]
    if missing:
        raise CloudError("InvalidArgument", f"missing required property: {', '.join(missing)}")

    def pair(name: str) -> dict[str, str]:
        return {"crt": certs[name]["cert"], "key": certs[name]["key"]}

    secrets = {
        "bootstraptoken": given["secrets"]["bootstrapToken"],
        "secretboxencryptionsecret": given["secrets"]["secretboxEncryptionSecret"],
    }
    if given["secrets"].get("aescbcEncryptionSecret"):
        secrets["aescbcencryptionsecret"] = given["secrets"]["aescbcEncryptionSecret"]
    return {
        "cluster": {"id": given["cluster"]["id"], "secret": given["cluster"]["secret"]},
        "secrets": secrets,
        "trustdinfo": {"token": given["trustdinfo"]["token"]},
        "certs": {
            "etcd": pair("etcd"),
            "k8s": pair("k8s"),
            "k8saggregator": pair("k8sAggregator"),
            "k8sserviceaccount": {"key": certs["k8sServiceaccount"]["key"]},
            "os": pair("os"),
        },
    }
