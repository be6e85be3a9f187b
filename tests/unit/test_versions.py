import pytest
from hybrid_talos.versions import (
    AUTOSCALER_TAGS,
    KUBERNETES_OF_TALOS,
    autoscaler_tag,
    check_contract,
    check_pair,
    check_talos,
    kubernetes_range,
    minor,
    newest_contract,
    normalise_version,
    parse,
    supports_alibaba,
)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1.30", "1.30.0"),
        ("v1.30", "1.30.0"),
        ("1.30.4", "1.30.4"),
        ("v1.30.4", "1.30.4"),
        ("v1.14.0-rc.1", "1.14.0-rc.1"),
        ("1.10.0", "1.10.0"),
    ],
)
def test_a_version_has_one_form(written: str, meant: str) -> None:
    assert normalise_version(written) == meant
    assert normalise_version(meant) == meant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "vv1.30.4",
        "1.30.4.1",
        "1.030.4",
        " 1.30.4",
        "1.30.4\n",
        "latest",
        "1.30.x",
        "1.30-rc.1",
        "1.30.4+a",
        "٣.1",
    ],
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a version in quotes"):
        normalise_version(text)


def test_versions_are_in_the_order_of_their_release() -> None:
    texts = ["1.9.9", "1.13.9", "1.14.0-alpha.2", "1.14.0-beta.0", "1.14.0-rc.0", "1.14.0-rc.1", "1.14.0", "1.14.1"]
    assert sorted(reversed(texts), key=parse) == texts


def test_a_minor_is_two_numbers() -> None:
    assert minor("v1.30.4") == (1, 30)


# siderolabs/talos pkg/machinery/compatibility
@pytest.mark.parametrize(
    ("talos", "oldest", "newest"),
    [("1.10", 28, 33), ("1.11", 29, 34), ("1.12", 30, 35), ("1.13", 31, 36), ("1.14", 32, 37)],
)
def test_each_talos_runs_six_minors_of_kubernetes(talos: str, oldest: int, newest: int) -> None:
    assert kubernetes_range(talos) == ((1, oldest), (1, newest))
    assert check_pair(talos, f"1.{oldest}.0") is None
    assert check_pair(talos, f"1.{newest}.9") is None
    for outside in (oldest - 1, newest + 1):
        problem = check_pair(talos, f"1.{outside}.3")
        assert problem == f"Talos {talos}.0 runs Kubernetes 1.{oldest} to 1.{newest}, not 1.{outside}.3"


@pytest.mark.parametrize("talos", ["1.9.5", "1.15.0", "2.0.0"])
def test_a_talos_that_is_not_known_is_said_to_be_so(talos: str) -> None:
    problem = check_talos(talos)
    assert problem is not None
    assert "is not known to this release, which knows 1.10 to 1.14" in problem
    assert check_pair(talos, "1.34.0") == problem
    with pytest.raises(ValueError, match="not known"):
        kubernetes_range(talos)


def test_a_contract_is_never_newer_than_the_machines_or_the_provider() -> None:
    assert newest_contract("1.12.3") == (1, 12)
    assert newest_contract("1.14.0") == (1, 13)
    assert check_contract("1.13", "1.14.0", "1.36.3") is None
    assert "newer than 1.13" in (check_contract("1.14", "1.14.0", "1.36.3") or "")
    assert "newer than 1.12" in (check_contract("1.13", "1.12.9", "1.35.0") or "")
    assert "is not known" in (check_contract("1.9", "1.12.9", "1.31.0") or "")


def test_a_contract_that_the_provider_would_refuse_with_this_kubernetes_is_named() -> None:
    old = check_contract("1.11", "1.13.9", "1.36.4") or ""
    assert "generates Kubernetes 1.29 to 1.34 with a contract of 1.11, not 1.36.4" in old
    assert "raise the contract (up to 1.13)" in old
    newest = check_contract("1.13", "1.14.0", "1.37.0") or ""
    assert newest.endswith("choose Kubernetes 1.31 to 1.36"), "a contract that is the newest cannot be raised"


def test_the_autoscaler_has_the_minor_of_kubernetes() -> None:
    assert autoscaler_tag("v1.36.3") == "v1.36.1"
    for (major, number), tag in AUTOSCALER_TAGS.items():
        assert minor(tag) == (major, number)
    with pytest.raises(ValueError, match=r"no Cluster Autoscaler matches Kubernetes 1\.37\.0: choose Kubernetes 1\.28"):
        autoscaler_tag("1.37.0")


def test_every_kubernetes_but_the_newest_has_an_autoscaler() -> None:
    for oldest, newest in KUBERNETES_OF_TALOS.values():
        for number in range(oldest[1], newest[1] + 1):
            assert ((1, number) in AUTOSCALER_TAGS) == (number < 37)


@pytest.mark.parametrize(
    ("talos", "able"),
    [("1.13.9", False), ("1.14.0-beta.1", False), ("1.14.0-beta.2", True), ("1.14.0-rc.0", True), ("1.14.0", True)],
)
def test_talos_boots_on_alibaba_from_a_beta_of_1_14(talos: str, able: bool) -> None:
    assert supports_alibaba(talos) is able
