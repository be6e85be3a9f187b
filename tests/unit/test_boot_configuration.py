"""Which changes of a configuration take a reboot, held against the list in Talos's own source."""

import pytest
import yaml
from hybrid_talos.boot_configuration import digests

BASE = yaml.safe_dump(
    {
        "version": "v1alpha1",
        "machine": {
            "type": "controlplane",
            "token": "t",
            "install": {"disk": "/dev/sda", "image": "a"},
            "kubelet": {"image": "k"},
            "features": {"rbac": True, "kubePrism": {"enabled": True, "port": 7445}},
        },
        "cluster": {"clusterName": "demo"},
    }
)


def changed(patch: str) -> tuple[bool, bool]:
    before, after = digests(BASE, []), digests(BASE, [patch])
    return before.all != after.all, before.boot != after.boot


@pytest.mark.parametrize(
    "patch",
    [
        "machine: {install: {image: b}}",
        "machine: {kubelet: {image: l}}",
        "machine: {nodeLabels: {a: b}}",
        "machine: {features: {kubePrism: {port: 7446}}}",
        "machine: {sysctls: {net.core.somaxconn: '1'}}",
        "cluster: {apiServer: {image: c}}",
        "apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: cp-1",
    ],
)
def test_no_reboot(patch: str) -> None:
    assert changed(patch) == (True, False)


@pytest.mark.parametrize(
    "patch",
    [
        "machine: {files: [{path: /var/a, op: create, content: x, permissions: 0o600}]}",
        "machine: {features: {diskQuotaSupport: true}}",
        "machine: {udev: {rules: [a]}}",
        "machine: {token: u}",
    ],
)
def test_a_reboot(patch: str) -> None:
    assert changed(patch) == (True, True)


def test_a_patch_that_only_talos_merges_may_need_one() -> None:
    assert changed("machine: {install: {$patch: delete}}") == (True, True)


def test_the_same_is_the_same_and_nothing_of_it_is_shown() -> None:
    assert digests(BASE, ["machine: {token: u}"]) == digests(BASE, ["machine: {token: u}"])
    assert all(len(digest) == 16 for digest in digests(BASE, []))
