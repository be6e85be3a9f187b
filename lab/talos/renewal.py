"""How the provider renews client certificates: it plans that by itself, in their last month, and never replaces for it.

siderolabs/terraform-provider-talos v0.11.0 pkg/talos/talos_machine_secrets_resource.go and
talos_cluster_kubeconfig_resource.go: ModifyPlan makes the outputs unknown, which is a change; Update fills them anew.
"""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from lab.sdk_schema import UNKNOWN

from . import pki

_MONTH = timedelta(days=30)
"""``AddDate(0, 1, 0)``, to a day or so."""


def talos_client_ends(state: Mapping[str, Any]) -> bool:
    """Say whether the certificate of the Talos client in a state of ``machine.Secrets`` is in its last month."""
    client = state.get("clientConfiguration")
    return client is not None and pki.expires_within(client["clientCertificate"], _MONTH)


def kubernetes_client_ends(state: Mapping[str, Any], span: timedelta) -> bool:
    """Say whether the certificate in a state of ``cluster.Kubeconfig`` ends within a span."""
    client = state.get("kubernetesClientConfiguration")
    return client is not None and pki.expires_within(client["clientCertificate"], span)


def planned(inputs: Mapping[str, Any], outputs: Iterable[str]) -> dict[str, Any]:
    """Return the last inputs as the provider compares them when it plans new ``outputs``: they differ from any."""
    return dict(inputs) | {name: "ends soon" for name in outputs}


def unknown(outputs: Iterable[str]) -> dict[str, Any]:
    """Return what is known of new ``outputs`` before the update."""
    return {name: UNKNOWN for name in outputs}
