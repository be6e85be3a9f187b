"""What is said of certificates that end, and when."""

import base64
import pickletools
from datetime import UTC, datetime, timedelta

import pytest
import trustme
import yaml
from hybrid_talos import certificate_ends
from hybrid_talos.certificate_ends import check, diff, end_of, end_of_kubeconfig, told
from hybrid_talos.certificate_watch import CertificateWatchProvider
from pulumi.dynamic.dynamic import serialize_provider
from pulumi.output import Unknown

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def in_days(days: float) -> str:
    return (NOW + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (300, None),
        (60.1, None),
        (
            59,
            "the certificate of the kubeconfig ends on 2026-03-31; the first `pulumi up` from 2026-03-01 on renews it",
        ),
        (30.1, "the first `pulumi up` from 2026-01-31 on renews it"),
        (29, "ends on 2026-03-01. Next: run `pulumi up`, which renews it"),
        (0.1, "ends on 2026-01-31. Next: run `pulumi up`"),
        (0, "has ended on 2026-01-31: nobody gets in with it. Next: run `pulumi up --refresh=false`"),
        (-9, "has ended on 2026-01-22"),
    ],
)
def test_what_is_said(days: float, said: str | None) -> None:
    line = told("kubeconfig", in_days(days), NOW)
    assert line is None if said is None else said in str(line)


def test_ends_are_read_from_certificates() -> None:
    end = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
    pem = trustme.CA().issue_cert("example.com", not_after=end).cert_chain_pems[0].bytes()
    certificate = base64.b64encode(pem).decode()
    assert end_of(certificate) == "2030-01-02T03:04:05Z"
    kubeconfig = yaml.safe_dump({"users": [{"user": {"client-certificate-data": certificate}}]})
    assert end_of_kubeconfig(kubeconfig) == "2030-01-02T03:04:05Z"


@pytest.mark.parametrize("text", [None, "", "users: []", "a: [", "users: [{user: {client-certificate-data: eHg=}}]"])
def test_what_is_no_certificate_has_no_end(text: str | None) -> None:
    assert end_of_kubeconfig(text) == ""
    assert end_of("not base64") == ""


def test_only_known_ends_that_are_near_are_spoken_of(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(certificate_ends, "note", lambda line, warning: said.append(line))
    near = (datetime.now(UTC) + timedelta(days=40)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert check({"ends": {"talosconfig": "", "kubeconfig": near}}) == {}
    assert check({"ends": Unknown()}) == check({"ends": {"talosconfig": Unknown()}}) == check({}) == {}
    assert len(said) == 1
    assert said[0].startswith("the certificate of the kubeconfig ends on")


def test_a_renewal_is_a_change_and_no_replacement() -> None:
    old, new = {"ends": {"kubeconfig": in_days(20)}}, {"ends": {"kubeconfig": in_days(365)}}
    assert (diff(old, new).changes, diff(old, new).replaces) == (True, [])
    assert diff(old, old).changes is False
    assert diff(old, {"ends": Unknown()}).changes is True


def test_the_state_holds_names_and_no_code() -> None:
    pickled = base64.b64decode(serialize_provider(CertificateWatchProvider()))
    words = [arg for _, arg, _ in pickletools.genops(pickled) if isinstance(arg, str)]
    assert words == ["hybrid_talos.certificate_watch", "CertificateWatchProvider"]
