"""When the certificates of a cluster's credentials end: read from them, recorded, and said in time.

Talos and Kubernetes renew their servers' certificates by themselves; those of talosconfig and kubeconfig are the
user's (docs.siderolabs.com "How to manage PKI and certificate lifetimes"). The Talos provider makes new ones in the
first update of their last month (siderolabs/terraform-provider-talos talos_machine_secrets_resource.go and
talos_cluster_kubeconfig_resource.go, ModifyPlan), so what is left to do is to run one then.
"""

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml
from cryptography import x509
from pulumi.dynamic import DiffResult

from .engine_log import note
from .work_provider import changed, is_unknown

Properties = dict[str, Any]

RENEWED = timedelta(days=30)
"""How long before its end the provider renews a certificate: a month, and 720 hours."""
TOLD = timedelta(days=60)
"""How long before its end a certificate is spoken of."""

_FORM = "%Y-%m-%dT%H:%M:%SZ"


def end_of(certificate: str) -> str:
    """Return when a certificate (PEM in base64) ends; an empty text for one that cannot be read."""
    try:
        loaded = x509.load_pem_x509_certificate(base64.b64decode(certificate, validate=True))
    except (binascii.Error, ValueError):
        return ""
    return loaded.not_valid_after_utc.strftime(_FORM)


def end_of_kubeconfig(text: str | None) -> str:
    """Return when the certificate of a kubeconfig's first user ends; an empty text when it has none."""
    try:
        return end_of(yaml.safe_load(text or "")["users"][0]["user"]["client-certificate-data"])
    except (yaml.YAMLError, KeyError, TypeError, IndexError):
        return ""


def told(name: str, end: str, now: datetime) -> str | None:
    """Return what a person should know of a certificate's end by now, or None."""
    when = datetime.strptime(end, _FORM).replace(tzinfo=UTC)
    day, renewal = when.strftime("%Y-%m-%d"), (when - RENEWED).strftime("%Y-%m-%d")
    if when <= now:
        return (
            f"the certificate of the {name} has ended on {day}: nobody gets in with it. Next: run `pulumi up "
            "--refresh=false`, which renews it without a look at the cluster before"
        )
    if when - RENEWED <= now:
        return f"the certificate of the {name} ends on {day}. Next: run `pulumi up`, which renews it"
    if when - TOLD <= now:
        return f"the certificate of the {name} ends on {day}; the first `pulumi up` from {renewal} on renews it"
    return None


def check(news: Properties) -> dict[str, str]:
    """Say which certificates end soon; none that is just about to be renewed, whose end is not known yet."""
    ends = news.get("ends")
    if not is_unknown(ends) and isinstance(ends, Mapping):
        for name, end in sorted(ends.items()):
            line = told(name, end, datetime.now(UTC)) if isinstance(end, str) and end else None
            if line is not None:
                note(line, warning=True)
    return {}


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Show a renewal as a change of the end."""
    return DiffResult(changes=changed("ends", olds, news), replaces=[])


def create(props: Properties) -> tuple[str, Properties]:
    """Record the ends."""
    return "certificates", props


def read(props: Properties) -> Properties:
    """Return the record."""
    return props


def update(_olds: Properties, news: Properties) -> Properties:
    """Record the new ends."""
    return news


def delete(_props: Properties) -> None:
    """Do nothing."""
