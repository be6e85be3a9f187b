"""Our merging and the pools' finished configurations, held against the real talosctl."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from hybrid_talos import machine_config as mc
from hybrid_talos.node_template import Taint, node_template
from hybrid_talos.pool_config import pool_config
from hybrid_talos.registries import mirror_documents
from hybrid_talos.talos_yaml import Document, dump

from lab.tools import provide

pytestmark = pytest.mark.real


def registry_mirrors(mirrors: dict[str, list[str]], contract: str) -> list[Document]:
    return mirror_documents(mirrors, documents=mc.has_documents(contract), fallback=True)


Talosctl = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def talosctl() -> Talosctl:
    path = provide().talosctl.path

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([path, *words], capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.fixture(scope="module")
def generated(talosctl: Talosctl, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], str]:
    folder = tmp_path_factory.mktemp("generated")

    def config(contract: str, role: str = "worker") -> str:
        path = folder / f"{role}-{contract}.yaml"
        if not path.exists():
            done = talosctl(
                *("gen", "config", "demo", "https://k8s.demo.example.com:6443", "-t", role, "-o", path),
                *("--with-docs=false", "--with-examples=false", "--talos-version", contract),
                *("--kubernetes-version", "1.34.1"),
            )
            assert done.returncode == 0, done.stderr
        return path.read_text()

    return config


def patched(talosctl: Talosctl, folder: Path, base: str, *patches: str) -> list[object]:
    """Return what talosctl makes of ``base`` and ``patches``."""
    source = folder / "base.yaml"
    source.write_text(base)
    words: list[str | Path] = []
    for number, patch in enumerate(patches):
        path = folder / f"patch-{number}.yaml"
        path.write_text(patch)
        words += ["--patch", f"@{path}"]
    done = talosctl("machineconfig", "patch", source, *words)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


NOTHING = "machine: {}"
TEMPLATE = node_template(
    "azure", "azure-workers", {"example.com/tier": "batch"}, [Taint("dedicated", "batch", "NoSchedule")], "westeurope-1"
)

PATCHES: dict[str, list[mc.Patch]] = {
    "kubelet": [mc.kubelet_identity(), mc.node_ip(["10.2.0.0/24"]), mc.node_ip(["!10.2.0.9/32"])],
    "labels and annotations": [
        mc.node_labels({"a": "1", "b": "off"}),
        mc.node_labels({"b": "2", "c": ""}),
        mc.node_annotations({"kilo.squat.ai/persistent-keepalive": "20", "x": "0644"}),
    ],
    "taints": [
        mc.register_with_taints([("a", "", "NoSchedule")]),
        mc.register_with_taints([("b", "2", "NoExecute")]),
        {"machine": {"kubelet": {"extraConfig": {"maxPods": 200, "evictionHard": {"memory.available": "200Mi"}}}}},
        {"machine": {"kubelet": {"extraConfig": {"maxPods": 250, "serializeImagePulls": False}}}},
    ],
    "flags": [
        "machine: {kubelet: {extraArgs: {feature-gates: A=true, v: '2'}}}",
        # Texts only: talosctl 1.13.0 documents lists for a flag that is given several times, and cannot read them.
        "machine: {kubelet: {extraArgs: {feature-gates: D=true}}}",
    ],
    "ranges": [
        "cluster: {network: {podSubnets: [10.1.0.0/16], serviceSubnets: [10.97.0.0/16]}}",
        "cluster: {network: {podSubnets: [10.7.0.0/16]}}",
    ],
    "names and lists": ["machine: {certSANs: [a.example.com, b.example.com]}", "machine: {certSANs: [a.example.com]}"],
    "files": [
        "machine: {files: [{path: /var/a, op: create, permissions: 0o600, content: 'off'}]}",
        "machine: {files: [{path: /var/b, op: create, permissions: 0644, content: \"1:30\\n\"}], sysctls: {a.b: '1'}}",
    ],
    "nothing and false": [
        "machine: {sysctls: {a.b: '1'}, features: {kubePrism: {enabled: true}}}",
        "machine: {sysctls: {a.b: ''}, kubelet: {image: ''}, nodeLabels: null}",
        "machine: {features: {kubePrism: {enabled: false}}}",
    ],
    "interfaces": [
        "machine: {network: {interfaces: [{interface: eth0, dhcp: true, vlans: [{vlanId: 7, mtu: 1400}]}]}}",
        "machine: {network: {interfaces: [{interface: eth0, vlans: [{vlanId: 7, dhcp: true}, {vlanId: 8}]}]}}",
        "machine: {network: {interfaces: [{interface: eth1, addresses: [192.0.2.9/24]}]}}",
        "machine: {network: {interfaces: [{interface: eth1, addresses: [192.0.2.10/24]}]}}",
    ],
    "mirrors": [
        registry_mirrors({"docker.io": ["https://a.example.com"], "ghcr.io": ["https://g.example.com"]}, "1.13"),
        registry_mirrors({"docker.io": ["https://b.example.com"]}, "1.13"),
    ],
    "older mirrors": [
        registry_mirrors({"docker.io": ["https://a.example.com"]}, "1.11"),
        registry_mirrors({"docker.io": ["https://b.example.com"], "quay.io": ["https://q.example.com"]}, "1.11"),
    ],
    "host name off": [mc.hostname_from_platform("1.14.0")],
    "host name": [mc.static_hostname("cp-1", "1.13")],
    "documents with rules": [
        "{apiVersion: v1alpha1, kind: ExtensionServiceConfig, name: x, configFiles: [{content: a, mountPath: /a}]}",
        "{apiVersion: v1alpha1, kind: ExtensionServiceConfig, name: x, environment: [A=1],"
        " configFiles: [{content: b, mountPath: /a}, {content: c, mountPath: /c}]}",
        "{apiVersion: v1alpha1, kind: NetworkRuleConfig, name: r, portSelector: {ports: [80], protocol: tcp},"
        " ingress: [{subnet: 10.0.0.0/8}]}",
        "{apiVersion: v1alpha1, kind: NetworkRuleConfig, name: r, portSelector: {ports: [90-95], protocol: tcp},"
        " ingress: [{subnet: 192.0.2.0/24}]}",
        "{apiVersion: v1alpha1, kind: KubeSpanConfig, enabled: true}",
        "{apiVersion: v1alpha1, kind: KubeSpanConfig, mtu: 1320}",
    ],
}


@pytest.mark.parametrize("case", PATCHES)
def test_merging_gives_what_talosctl_gives(
    case: str, talosctl: Talosctl, generated: Callable[..., str], tmp_path: Path
) -> None:
    base = generated("v1.13")
    texts = [mc.render(patch) for patch in PATCHES[case]]
    ours = patched(talosctl, tmp_path, mc.merge(base, *PATCHES[case]), NOTHING)
    theirs = patched(talosctl, tmp_path, base, *texts)
    assert ours == theirs
    assert theirs != patched(talosctl, tmp_path, base, NOTHING), "the patches changed nothing"


def test_merging_control_planes_gives_what_talosctl_gives(
    talosctl: Talosctl, generated: Callable[..., str], tmp_path: Path
) -> None:
    base = generated("v1.13", "controlplane")
    patches = [
        "cluster: {apiServer: {certSANs: [k8s.demo.example.com], extraArgs: {v: '2'}, auditPolicy: {rules: []}}}",
        "cluster: {apiServer: {admissionControl: [{name: PodSecurity, configuration: {exemptions: {users: [x]}}}]}}",
        "cluster: {controllerManager: {extraArgs: {a: b}}, etcd: {extraArgs: {c: d}}, proxy: {extraArgs: {e: f}}}",
        mc.render(mc.kubelet_identity()),
    ]
    assert patched(talosctl, tmp_path, mc.merge(base, *patches), NOTHING) == patched(talosctl, tmp_path, base, *patches)


def finished(base: str, version: str, *patches: mc.Patch) -> str:
    mesh = "machine: {nodeAnnotations: {kilo.squat.ai/location: azure, kilo.squat.ai/persistent-keepalive: '20'}}"
    return dump(
        pool_config(
            "pool", base, TEMPLATE, subnets=["10.2.0.0/24"], talos_version=version, mesh_patch=mesh, patches=patches
        )
    )


def validated(talosctl: Talosctl, folder: Path, config: str) -> subprocess.CompletedProcess[str]:
    path = folder / "pool.yaml"
    path.write_text(config)
    return talosctl("validate", "--mode", "cloud", "--config", path)


@pytest.mark.parametrize(
    ("contract", "version"), [("v1.13", "1.13.0"), ("v1.12", "1.12.0"), ("v1.11", "1.11.5"), ("v1.11", "1.13.0")]
)
def test_a_pools_configuration_is_valid_in_the_cloud(
    contract: str, version: str, talosctl: Talosctl, generated: Callable[..., str], tmp_path: Path
) -> None:
    mirrors = registry_mirrors({"docker.io": ["https://mirror.example.com"]}, contract)
    done = validated(talosctl, tmp_path, finished(generated(contract), version, mirrors))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("contract", ["v1.13", "v1.11"])
def test_a_release_that_refuses_host_names_off_refuses_them_and_nothing_else(
    contract: str, talosctl: Talosctl, generated: Callable[..., str], tmp_path: Path
) -> None:
    """talosctl 1.13.0 has the fault that 1.13.3 mends, so a configuration for a later Talos must fail on that alone."""
    config = finished(generated(contract), "1.14.0")
    done = validated(talosctl, tmp_path, config)
    assert done.returncode != 0
    assert "either 'auto' or 'hostname' must be set" in done.stderr
    named = mc.merge(config, {"apiVersion": "v1alpha1", "kind": "HostnameConfig", "hostname": "node"})
    done = validated(talosctl, tmp_path, named)
    assert done.returncode == 0, done.stderr
