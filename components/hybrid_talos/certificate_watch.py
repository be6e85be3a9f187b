"""A custom resource that records when a cluster's credentials end, and says so in time.

The provider here is a shell whose module and name stand in every state that has one: it is never renamed or moved,
and holds no code (docs/adr/0001-custom-resources.md). The work is in certificate_ends. This module is imported by
Pulumi's dynamic provider and must stay light.
"""

from collections.abc import Mapping
from typing import Any, ClassVar

import pulumi
from pulumi import dynamic

from .work_provider import WorkProvider


class CertificateWatchProvider(WorkProvider):
    """Shell of CertificateWatch."""

    work: ClassVar[str] = "certificate_ends"


class CertificateWatch(dynamic.Resource, module="cluster", name="CertificateWatch"):
    """Shows when talosconfig and kubeconfig end, and in each preview and update of their last two months a notice."""

    ends: pulumi.Output[Mapping[str, str]]
    """When each ends (RFC 3339, UTC), by what it is called."""

    def __init__(
        self,
        name: str,
        *,
        client_configuration: pulumi.Input[Any],
        kubeconfig: pulumi.Input[Any],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """Watch the certificates of the Talos client and of a kubeconfig; no more of them is kept than the ends."""
        from .certificate_ends import end_of, end_of_kubeconfig  # noqa: PLC0415 - heavy, and of no use to the provider

        known = pulumi.Output.all(client=client_configuration, kubeconfig=kubeconfig).apply(
            lambda given: {
                "talosconfig": end_of(given["client"]["clientCertificate"]),
                "kubeconfig": end_of_kubeconfig(given["kubeconfig"]),
            }
        )
        # Two dates, of all that is secret here.
        super().__init__(CertificateWatchProvider(), name, {"ends": pulumi.Output.unsecret(known)}, opts)
