"""What HAControlPlane and StaticWorkerPool tell the Talos provider, carried out by the real talosctl.

The provider does the same with the same library: it generates, patches and hands over; here talosctl then judges the
outcome as a machine would.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

import pulumi
import pytest
import trustme
import yaml
from hybrid_talos.ha_control_plane import HAControlPlane
from hybrid_talos.static_worker_pool import StaticWorkerPool
from talos_recorder import Recorder, plain, run

from lab.talos import talosctl

pytestmark = pytest.mark.real

IMAGE = "factory.talos.dev/metal-installer/376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba:v1.14.0"
MIRRORS = {"docker.io": ["https://mirror.gcr.io"], "registry.k8s.io": ["http://10.0.0.9:5000"]}
LOCATION = {"config_patch": "machine:\n  nodeAnnotations:\n    kilo.squat.ai/location: rack\n"}
CA = trustme.CA().cert_pem.bytes().decode()
LINKS = [
    {"name": "left", "mac_address": "02:00:5e:10:00:01"},
    {"name": "bond0", "mtu": 9000, "bond": {"links": ["left", "eno2"], "mode": "802.3ad", "hash_policy": "layer3+4"}},
    {
        "name": "bond0.20",
        "vlan": {"parent": "bond0", "id": 20},
        "addresses": ["192.0.2.13/24"],
        "routes": [{"gateway": "192.0.2.1"}, {"destination": "198.51.100.0/24", "gateway": "192.0.2.9", "metric": 5}],
    },
    {"name": "eno9", "dhcp": True},
]
VERSIONS = {"1.13": ("1.14.0", "1.36.3"), "1.12": ("1.12.9", "1.35.4"), "1.11": ("1.11.5", "1.34.1")}


class RealTalos(Recorder):
    """A Talos provider whose secrets and configurations the real talosctl makes."""

    def __init__(self, contract: str) -> None:
        super().__init__()
        self.bundle = talosctl.gen_secrets(f"v{contract}")

    def secrets(self) -> dict[str, Any]:
        certs = self.bundle["certs"]
        made = {
            "etcd": _pair(certs["etcd"]),
            "k8s": _pair(certs["k8s"]),
            "k8sAggregator": _pair(certs["k8saggregator"]),
            "k8sServiceaccount": {"key": certs["k8sserviceaccount"]["key"]},
            "os": _pair(certs["os"]),
        }
        box = self.bundle["secrets"]
        return {
            "machineSecrets": {
                "certs": made,
                "cluster": self.bundle["cluster"],
                "secrets": {
                    "bootstrapToken": box["bootstraptoken"],
                    "secretboxEncryptionSecret": box["secretboxencryptionsecret"],
                },
                "trustdinfo": self.bundle["trustdinfo"],
            },
            "clientConfiguration": {"caCertificate": "Y2E=", "clientCertificate": "Y2VydA==", "clientKey": "a2V5"},
        }

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        self.calls.append(args)
        given = plain(args.args)
        if args.token == "talos:client/getConfiguration:getConfiguration":
            return {"talosConfig": "context: demo\n"}
        machine_secrets = given["machineSecrets"]
        certs = machine_secrets["certs"]
        bundle = {
            "cluster": machine_secrets["cluster"],
            "secrets": {
                "bootstraptoken": machine_secrets["secrets"]["bootstrapToken"],
                "secretboxencryptionsecret": machine_secrets["secrets"]["secretboxEncryptionSecret"],
            },
            "trustdinfo": machine_secrets["trustdinfo"],
            "certs": {
                "etcd": _crt(certs["etcd"]),
                "k8s": _crt(certs["k8s"]),
                "k8saggregator": _crt(certs["k8sAggregator"]),
                "k8sserviceaccount": {"key": certs["k8sServiceaccount"]["key"]},
                "os": _crt(certs["os"]),
            },
        }
        text = talosctl.gen_config(
            cluster=given["clusterName"],
            endpoint=given["clusterEndpoint"],
            secrets=bundle,
            role=given["machineType"],
            contract=given["talosVersion"],
            kubernetes=given["kubernetesVersion"],
            patches=given.get("configPatches") or [],
        )
        return {"machineConfiguration": text}

    def machine(self, name: str) -> str:
        """Return the configuration that a machine would get."""
        given = plain(self.resources[name].inputs)
        return talosctl.patch_config(given["machineConfigurationInput"], given["configPatches"])

    def host(self) -> str:
        """Return the host of the cluster's endpoint."""
        urls = {plain(call.args).get("clusterEndpoint") for call in self.calls} - {None}
        (url,) = urls
        return str(url).removeprefix("https://").removesuffix(":6443")


def _pair(certificate: Mapping[str, str]) -> dict[str, str]:
    return {"cert": certificate["crt"], "key": certificate["key"]}


def _crt(certificate: Mapping[str, str]) -> dict[str, str]:
    return {"crt": certificate["cert"], "key": certificate["key"]}


def _texts(value: Any) -> Iterator[str]:
    """Yield every text of a value, and what it says when it is base64."""
    if isinstance(value, dict):
        for nested in value.values():
            yield from _texts(nested)
    elif isinstance(value, list):
        for nested in value:
            yield from _texts(nested)
    elif isinstance(value, str):
        yield value
        try:
            yield base64.b64decode(value, validate=True).decode()
        except ValueError:
            return


def _documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


@pytest.fixture(scope="module", params=list(VERSIONS))
def contract(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["dns", "vip", "vip on a named link"])
def cluster(request: pytest.FixtureRequest, contract: str) -> tuple[RealTalos, str]:
    """Build a cluster of three and two, with everything that can be asked for, and return its worker base as well."""
    talos_version, kubernetes_version = VERSIONS[contract]
    endpoint: dict[str, Any] = {"host": "k8s.demo.example.com", "kind": "dns"}
    if request.param != "dns":
        endpoint = {"host": "192.0.2.100", "kind": "vip"}
    if request.param == "vip on a named link":
        endpoint["interface"] = "enp1s0"
    recorder = RealTalos(contract)
    rich = contract != "1.11"
    site: Any = {
        "nameservers": ["192.0.2.53"],
        "search_domains": ["demo.example.com"],
        "ntp_servers": ["ntp.example.com"],
        "proxy": {"url": "http://proxy.example.com:3128", "username": "me", "password": "a:b"},
    }
    planes: list[dict[str, Any]] = [
        {"name": f"cp-{n}", "address": f"192.0.2.1{n}", "annotations": {"example.com/no": str(n)}} for n in (1, 2, 3)
    ]
    # Each in another way, so that all of them are looked at.
    planes[1] |= {
        "install_disk_selector": {"size": ">= 100GB", "type": "nvme", "model": "WDC*"},
        "taints": [{"key": "example.com/only", "value": "x", "effect": "NoSchedule"}],
    }
    planes[2] |= {"links": LINKS} if rich else {}
    args: Any = {
        "cluster_name": "demo",
        "talos_version": talos_version,
        "config_contract": contract,
        "kubernetes_version": kubernetes_version,
        "endpoint": endpoint,
        "control_planes": planes,
        "installer_image": IMAGE,
        "site": site,
        "registries": {"10.0.0.9:5000": {"username": "robot", "password": "p: 'x'", "ca": CA}},
        "mirror_fallback": False,
        "trusted_roots": [CA],
        "component_images": {"registry": "10.0.0.9:5000/k8s", "coredns": "10.0.0.9:5000/k8s/coredns:v1.12.1"},
        "node_subnets": ["192.0.2.0/24"],
        "service_cidr": "10.96.0.0/16",
        "location": LOCATION,
        "cni": "cilium",
        "cert_sans": ["api.example.com"],
        "registry_mirrors": MIRRORS,
        "config_patches": ["machine: {sysctls: {net.core.somaxconn: '65535'}}"],
    }

    def program() -> dict[str, Any]:
        control_plane = HAControlPlane("cp", args)
        workers: Any = [
            {"name": f"worker-{n}", "address": f"192.0.2.2{n}", "labels": {"example.com/row": "1e3"}} for n in (1, 2)
        ]
        workers[1] |= {
            "install_disk_selector": {"serial": "S*", "bus_path": "/pci0000:00/*", "wwid": "naa.*"},
            "taints": [{"key": "example.com/only", "effect": "NoExecute"}],
            **({"links": [{"name": "eno1", "mac_address": "02:00:5e:10:00:01", "dhcp": True}]} if rich else {}),
        }
        StaticWorkerPool(
            "pool",
            {
                "workers": workers,
                "machine_config": control_plane.worker_machine_config,
                "client_configuration": control_plane.client_configuration,
                "installer_image": IMAGE,
                "node_subnets": ["192.0.2.0/24"],
                "location": LOCATION,
                "site": site,
                "config_contract": contract,
            },
        )
        return {"worker": control_plane.worker_machine_config}

    outputs = run(recorder, program)
    return recorder, outputs["worker"][0]


MACHINES = [
    *(f"cp-cp-{n}-config" for n in (1, 2, 3)),
    *(f"pool-worker-{n}-config" for n in (1, 2)),
]


@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_accepts_its_configuration(cluster: tuple[RealTalos, str], machine: str) -> None:
    talosctl.run("validate", "--config", talosctl.Piped(cluster[0].machine(machine)), "--mode", "metal", "--strict")


def test_worker_base_is_accepted_as_it_is_by_an_image_of_a_cloud(cluster: tuple[RealTalos, str]) -> None:
    talosctl.run("validate", "--config", talosctl.Piped(cluster[1]), "--mode", "cloud", "--strict")


def test_worker_base_has_no_private_key_of_any_authority(cluster: tuple[RealTalos, str]) -> None:
    recorder, worker = cluster
    found = list(_texts(_documents(worker)))
    assert not any("PRIVATE KEY" in text for text in found)
    for name, certificate in recorder.bundle["certs"].items():
        assert certificate["key"] not in worker, name
    assert recorder.bundle["secrets"]["secretboxencryptionsecret"] not in worker
    # The same look at a control plane finds them, so it can.
    found = list(_texts(_documents(recorder.machine("cp-cp-1-config"))))
    assert any("PRIVATE KEY" in text for text in found)


def test_worker_base_lets_a_machine_join(cluster: tuple[RealTalos, str]) -> None:
    recorder, worker = cluster
    config = _documents(worker)[0]
    assert config["machine"]["token"] == recorder.bundle["trustdinfo"]["token"]
    assert config["cluster"]["token"] == recorder.bundle["secrets"]["bootstraptoken"]
    assert config["machine"]["ca"]["crt"] == recorder.bundle["certs"]["os"]["crt"]
    assert config["cluster"]["ca"]["crt"] == recorder.bundle["certs"]["k8s"]["crt"]


def test_worker_base_leaves_disk_name_address_and_place_to_the_machine(cluster: tuple[RealTalos, str]) -> None:
    _, worker = cluster
    config = _documents(worker)[0]
    assert config["machine"]["kubelet"]["image"].startswith("10.0.0.9:5000/k8s/kubelet:v")
    assert "proxy.example.com" not in worker
    assert "install" not in config["machine"]
    assert "nodeIP" not in config["machine"]["kubelet"]
    assert "nodeAnnotations" not in config["machine"]
    assert "nodeLabels" not in config["machine"]
    assert "hostname" not in config["machine"].get("network", {})
    assert not any("hostname" in document for document in _documents(worker))
    assert config["machine"]["kubelet"]["extraArgs"]["rotate-server-certificates"] == "true"
    assert config["cluster"]["externalCloudProvider"]["enabled"] is True


def test_each_machine_has_one_name_in_one_place(cluster: tuple[RealTalos, str], contract: str) -> None:
    recorder, _ = cluster
    for machine in MACHINES:
        documents = _documents(recorder.machine(machine))
        names = [d["hostname"] for d in documents if d.get("kind") == "HostnameConfig"]
        old = documents[0]["machine"].get("network", {}).get("hostname")
        found = [*names, *([old] if old else [])]
        assert found == [machine.removesuffix("-config").split("-", 1)[1]]
        assert bool(names) is (contract != "1.11")


def test_control_planes_have_what_was_asked_for(cluster: tuple[RealTalos, str]) -> None:
    recorder, _ = cluster
    host = recorder.host()
    config = _documents(recorder.machine("cp-cp-2-config"))[0]
    assert config["cluster"]["controlPlane"]["endpoint"] == f"https://{host}:6443"
    assert {host, "192.0.2.11", "192.0.2.12", "192.0.2.13", "api.example.com"} <= set(config["machine"]["certSANs"])
    assert set(config["machine"]["certSANs"]) <= set(config["cluster"]["apiServer"]["certSANs"])
    assert config["cluster"]["network"]["cni"] == {"name": "none"}
    assert config["cluster"]["apiServer"]["image"].startswith("10.0.0.9:5000/k8s/kube-apiserver:v")
    assert config["cluster"]["coreDNS"]["image"] == "10.0.0.9:5000/k8s/coredns:v1.12.1"
    assert config["machine"]["install"]["diskSelector"] == {"size": ">= 100GB", "type": "nvme", "model": "WDC*"}
    assert "disk" not in config["machine"]["install"]
    assert config["cluster"]["network"]["serviceSubnets"] == ["10.96.0.0/16"]
    assert config["cluster"]["network"]["podSubnets"] == ["10.244.0.0/16"]
    assert config["machine"]["install"]["image"] == IMAGE
    assert config["machine"]["nodeAnnotations"] == {"example.com/no": "2", "kilo.squat.ai/location": "rack"}
    assert config["machine"]["sysctls"] == {"net.core.somaxconn": "65535"}
    subnets = config["machine"]["kubelet"]["nodeIP"]["validSubnets"]
    assert subnets == (["192.0.2.0/24", "!192.0.2.100/32"] if host == "192.0.2.100" else ["192.0.2.0/24"])


def test_the_shared_address_stands_on_control_planes_alone(cluster: tuple[RealTalos, str]) -> None:
    recorder, worker = cluster
    host = recorder.host()
    for machine in MACHINES:
        documents = _documents(recorder.machine(machine))
        shared = [d["name"] for d in documents if d.get("kind") == "Layer2VIPConfig"]
        for link in documents[0]["machine"].get("network", {}).get("interfaces", []):
            shared.append(link["vip"]["ip"])
        expected = [host] if host == "192.0.2.100" and machine.startswith("cp-") else []
        assert shared == expected, machine
    assert "Layer2VIPConfig" not in worker


def test_mirrors_reach_every_machine(cluster: tuple[RealTalos, str], contract: str) -> None:
    recorder, _ = cluster
    for machine in MACHINES:
        documents = _documents(recorder.machine(machine))
        if contract == "1.11":
            mirrors = {
                name: entry["endpoints"] for name, entry in documents[0]["machine"]["registries"]["mirrors"].items()
            }
        else:
            mirrors = {
                d["name"]: [entry["url"] for entry in d["endpoints"]]
                for d in documents
                if d.get("kind") == "RegistryMirrorConfig"
            }
        assert mirrors == MIRRORS


def test_no_document_is_of_a_release_that_the_contract_does_not_know(
    cluster: tuple[RealTalos, str], contract: str
) -> None:
    """The real talosctl is 1.13 and reads them all, so this looks at the kinds that older machines lack."""
    recorder, _ = cluster
    kinds = {d["kind"] for machine in MACHINES for d in _documents(recorder.machine(machine)) if "kind" in d}
    if contract == "1.11":
        assert kinds == {"TrustedRootsConfig"}
    assert ("EnvironmentConfig" in kinds) is (contract == "1.13")
    assert ("BondConfig" in kinds) is (contract != "1.11")
    env = [d["machine"].get("env") for m in MACHINES for d in _documents(recorder.machine(m)) if "kind" not in d]
    assert all(env) if contract != "1.13" else not any(env)
