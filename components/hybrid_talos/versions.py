"""Which versions of Talos, Kubernetes and the Cluster Autoscaler fit together.

Pure functions and tables. Versions are always text: YAML reads an unquoted `1.30` as the number 1.3.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

Minor = tuple[int, int]
"""The first two parts of a version, such as `(1, 36)`."""

KUBERNETES_OF_TALOS: Mapping[Minor, tuple[Minor, Minor]] = {
    (1, 10): ((1, 28), (1, 33)),
    (1, 11): ((1, 29), (1, 34)),
    (1, 12): ((1, 30), (1, 35)),
    (1, 13): ((1, 31), (1, 36)),
    (1, 14): ((1, 32), (1, 37)),
}
"""Oldest and newest Kubernetes minor of each Talos minor.

Source: siderolabs/talos `pkg/machinery/compatibility/talos*/`.
"""

AUTOSCALER_TAGS: Mapping[Minor, str] = {
    (1, 28): "v1.28.7",
    (1, 29): "v1.29.5",
    (1, 30): "v1.30.7",
    (1, 31): "v1.31.5",
    (1, 32): "v1.32.7",
    (1, 33): "v1.33.4",
    (1, 34): "v1.34.5",
    (1, 35): "v1.35.2",
    (1, 36): "v1.36.1",
}
"""Newest known image tag of the Cluster Autoscaler for each Kubernetes minor.

Other pairs than equal minors are not tested upstream (kubernetes/autoscaler `cluster-autoscaler/README.md`).
There is no 1.37 yet.
"""

NEWEST_CONTRACT: Minor = (1, 13)
"""Newest config contract that the Talos provider can generate: pulumiverse-talos 0.8.1 embeds machinery 1.13."""

FIRST_TALOS_WITH_ALIBABA = "1.14.0-beta.2"
"""First Talos with the platform `alibabacloud` (siderolabs/talos `pkg/machinery/platforms/platforms.go`)."""

_FORM = re.compile(
    r"v?(?P<major>0|[1-9]\d{0,3})\.(?P<minor>0|[1-9]\d{0,3})"
    r"(?:\.(?P<patch>0|[1-9]\d{0,3})(?:-(?P<stage>alpha|beta|rc)\.(?P<step>0|[1-9]\d{0,3}))?)?",
    re.ASCII,
)
_STAGES = {"alpha": 0, "beta": 1, "rc": 2, "": 3}


class Version(NamedTuple):
    """A version in an order: `1.14.0-beta.2` comes before `1.14.0-rc.0`, and that before `1.14.0`."""

    major: int
    minor: int
    patch: int
    stage: int
    step: int


def _match(version: str) -> re.Match[str]:
    found = _FORM.fullmatch(version)
    if found is None:
        raise ValueError('must be a version in quotes, such as "1.36.3": two or three numbers, a leading v is allowed')
    return found


def parse(version: str) -> Version:
    """Return ``version`` in comparable form; ValueError when it is none. A missing patch number counts as 0."""
    found = _match(version)
    stage = found["stage"] or ""
    return Version(
        int(found["major"]), int(found["minor"]), int(found["patch"] or 0), _STAGES[stage], int(found["step"] or 0)
    )


def normalise_version(version: str) -> str:
    """Return the one form of a version: three numbers, no leading `v`; ValueError when it is none.

    `1.30`, `v1.30` and `1.30.0` all become `1.30.0`. Stages before a release (`-rc.1`) are kept.
    """
    found = _match(version)
    stage = f"-{found['stage']}.{found['step']}" if found["stage"] else ""
    return f"{found['major']}.{found['minor']}.{found['patch'] or 0}{stage}"


def minor(version: str) -> Minor:
    """Return the first two numbers of a version: `1.30.4` gives `(1, 30)`."""
    parsed = parse(version)
    return parsed.major, parsed.minor


def text(version: Minor) -> str:
    """Return a minor version as text: `(1, 30)` gives `1.30`."""
    return f"{version[0]}.{version[1]}"


def known_talos() -> tuple[Minor, Minor]:
    """Return the oldest and the newest Talos minor that this release knows."""
    return min(KUBERNETES_OF_TALOS), max(KUBERNETES_OF_TALOS)


def check_talos(talos: str) -> str | None:
    """Return what is wrong with a Talos version, or None when this release knows its minor."""
    oldest, newest = known_talos()
    if minor(talos) in KUBERNETES_OF_TALOS:
        return None
    return (
        f"Talos {text(minor(talos))} is not known to this release, which knows {text(oldest)} to {text(newest)}: "
        "choose one of these, or update hybrid-talos"
    )


def kubernetes_range(talos: str) -> tuple[Minor, Minor]:
    """Return the oldest and newest Kubernetes minor for a Talos version; ValueError when it is not known."""
    problem = check_talos(talos)
    if problem:
        raise ValueError(problem)
    return KUBERNETES_OF_TALOS[minor(talos)]


def check_pair(talos: str, kubernetes: str) -> str | None:
    """Return why this Talos does not run this Kubernetes, with the range that it does run, or None.

    ``talos`` is the version that is installed on the machines, not the config contract.
    """
    problem = check_talos(talos)
    if problem:
        return problem
    oldest, newest = kubernetes_range(talos)
    if oldest <= minor(kubernetes) <= newest:
        return None
    return (
        f"Talos {normalise_version(talos)} runs Kubernetes {text(oldest)} to {text(newest)}, "
        f"not {normalise_version(kubernetes)}"
    )


def newest_contract(talos: str) -> Minor:
    """Return the newest config contract for a Talos version: never above the machines nor above the provider."""
    return min(minor(talos), NEWEST_CONTRACT)


def check_contract(contract: str, talos: str, kubernetes: str) -> str | None:
    """Return why a config contract cannot be used with these versions, or None.

    The provider itself compares Kubernetes with the contract (siderolabs/terraform-provider-talos
    `talos_machine_configuration_data_source.go`), so a contract that is too old for the Kubernetes
    version fails there although the machines would run it.
    """
    chosen, newest = minor(contract), newest_contract(talos)
    if chosen > newest:
        return (
            f"a contract of {text(chosen)} is newer than {text(newest)}, the newest that both "
            f"Talos {normalise_version(talos)} and the Talos provider know"
        )
    if chosen not in KUBERNETES_OF_TALOS:
        return f"a contract of {text(chosen)} is not known: choose {text(known_talos()[0])} to {text(newest)}"
    oldest, last = KUBERNETES_OF_TALOS[chosen]
    if oldest <= minor(kubernetes) <= last:
        return None
    advice = f"choose Kubernetes {text(oldest)} to {text(last)}"
    if chosen < newest:
        advice += f", or raise the contract (up to {text(newest)})"
    return (
        f"the Talos provider generates Kubernetes {text(oldest)} to {text(last)} with a contract of {text(chosen)}, "
        f"not {normalise_version(kubernetes)}: {advice}"
    )


def autoscaler_tag(kubernetes: str) -> str:
    """Return the Cluster Autoscaler's image tag for a Kubernetes version; ValueError when none matches."""
    tag = AUTOSCALER_TAGS.get(minor(kubernetes))
    if tag is None:
        oldest, newest = min(AUTOSCALER_TAGS), max(AUTOSCALER_TAGS)
        raise ValueError(
            f"no Cluster Autoscaler matches Kubernetes {normalise_version(kubernetes)}: "
            f"choose Kubernetes {text(oldest)} to {text(newest)}"
        )
    return tag


def supports_alibaba(talos: str) -> bool:
    """Return whether this Talos has the platform `alibabacloud`, which boots on ECS and names its instance."""
    return parse(talos) >= parse(FIRST_TALOS_WITH_ALIBABA)
