"""Which cluster a provider instance reaches, and whether it is let in."""

import os

from lab.provider import Call
from lab.talos import machines, pki
from lab.world import CloudError

from . import kubeconfig
from .objects import Cluster


class Unreachable(CloudError):
    """The cluster that a provider's kubeconfig names does not answer."""


def cluster_of(call: Call) -> Cluster:
    """Return the cluster that a provider instance reaches.

    Raises:
        Unreachable: nothing answers there, or what answers does not take the client.
    """

    def unreachable(why: str) -> Unreachable:
        return Unreachable("Unreachable", f"configured Kubernetes cluster is unreachable: {why}")

    try:
        access = kubeconfig.access(call.config)
    except kubeconfig.BadKubeconfig as error:
        raise unreachable(f"failed to parse kubeconfig: {error}") from None
    record = machines.cluster_at(call.world, access.server)
    if record is None:
        raise unreachable(f"Get {access.server}/openapi/v2: dial tcp: connect: connection refused")
    problem = machines.api_problem(call.world, record)
    if problem:
        raise unreachable(f"Get {access.server}/openapi/v2: {problem}")
    authority = record.doc["kubernetes_ca"]
    if pki.fingerprint(access.authority) != pki.fingerprint(authority):
        raise unreachable(f"Get {access.server}/openapi/v2: tls: x509: certificate signed by unknown authority")
    refused = pki.trusted(access.certificate, authority)
    if refused:
        raise unreachable(f"Get {access.server}/openapi/v2: Unauthorized: {refused}")
    return Cluster(call.world, record)


def reachable(call: Call) -> Cluster | None:
    """Return the cluster that a provider instance reaches, or None."""
    try:
        return cluster_of(call)
    except Unreachable:
        return None


def flag(call: Call, name: str, variable: str) -> bool:
    """Return a yes-or-no setting of the provider: its own, else what the environment says."""
    given = call.config.get(name)
    if given is None:
        return os.environ.get(variable) == "true"
    return str(given).lower() == "true"
