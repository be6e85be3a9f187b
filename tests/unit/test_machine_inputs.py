"""What can be said of a machine, its site and the registries, and what is refused."""

from typing import Any

import pulumi
import pytest
import trustme
import yaml
from hybrid_talos._contract import BadInputs
from hybrid_talos.ha_control_plane import HAControlPlane
from hybrid_talos.static_worker_pool import StaticWorkerPool
from talos_recorder import SECRETS, WORKER, Recorder, is_secret, plain, run

CA = trustme.CA().cert_pem.bytes().decode()
PASSWORD = "registry-password-MARKER"
RICH_WORKER = WORKER.replace(
    "  token: machine.token\n",
    "  token: machine.token\ncluster:\n  controlPlane: {endpoint: 'https://k8s.demo.example.com:6443'}\n"
    "  network: {podSubnets: [10.244.0.0/16], serviceSubnets: [10.96.0.0/12]}\n",
)


def members(**first: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": f"cp-{n}", "address": f"192.0.2.1{n}"} for n in (1, 2, 3)]
    found[0] |= first
    return found


def planes(**changes: Any) -> tuple[Recorder, str]:
    """Build a control plane, and return what was recorded and the patch of the worker base."""
    recorder = Recorder()
    args: Any = {
        "cluster_name": "demo",
        "talos_version": "1.14.0",
        "kubernetes_version": "1.36.3",
        "endpoint": {"host": "k8s.demo.example.com", "kind": "dns"},
        "control_planes": members(),
        "installer_image": "factory.talos.dev/metal-installer/abc:v1.14.0",
        **changes,
    }

    def program() -> None:
        HAControlPlane("cp", args)

    run(recorder, program)
    (worker,) = (call for call in recorder.calls if plain(call.args).get("machineType") == "worker")
    return recorder, str(plain(worker.args)["configPatches"][0])


def workers(**changes: Any) -> Recorder:
    recorder = Recorder()
    args: Any = {
        "workers": [{"name": "worker-1", "address": "192.0.2.21"}],
        "machine_config": pulumi.Output.secret(RICH_WORKER),
        "client_configuration": SECRETS["clientConfiguration"],
        "installer_image": "factory.talos.dev/metal-installer/abc:v1.14.0",
        **changes,
    }

    def program() -> None:
        StaticWorkerPool("pool", args)

    run(recorder, program)
    return recorder


def documents(recorder: Recorder, machine: str) -> list[Any]:
    texts = plain(recorder.of_type("apply")[f"{machine}-config"]["configPatches"])
    return [document for text in texts for document in yaml.safe_load_all(text)]


def kinds(found: list[Any], kind: str) -> list[Any]:
    return [document for document in found if document.get("kind") == kind]


def machine_of(found: list[Any], key: str) -> list[Any]:
    return [d["machine"][key] for d in found if "kind" not in d and key in d.get("machine", {})]


def test_a_disk_is_named_by_what_it_is() -> None:
    recorder, _ = planes(control_planes=members(install_disk_selector={"size": ">= 100GB", "type": "nvme"}))
    (install,) = machine_of(documents(recorder, "cp-cp-1"), "install")
    assert install["diskSelector"] == {"size": ">= 100GB", "type": "nvme"}
    # The path that Talos's generator writes would stand beside it.
    assert install["disk"] == {"$patch": "delete"}
    (other,) = machine_of(documents(recorder, "cp-cp-2"), "install")
    assert other["disk"] == "/dev/sda"
    # A worker's base has no install section that something could be deleted from.
    found = workers(workers=[{"name": "w", "address": "192.0.2.21", "install_disk_selector": {"bus_path": "/pci*"}}])
    (install,) = machine_of(documents(found, "pool-w"), "install")
    assert install["diskSelector"] == {"busPath": "/pci*"}
    assert "disk" not in install


def test_static_addresses_bonds_and_vlans() -> None:
    links = [
        {"name": "bond0.20", "vlan": {"parent": "bond0", "id": 20}, "addresses": ["192.0.2.11/24"],
         "routes": [{"gateway": "192.0.2.1"}, {"destination": "198.51.100.0/24", "gateway": "192.0.2.9", "metric": 5}]},
        {"name": "bond0", "bond": {"links": ["left", "eno2"], "mode": "802.3ad", "lacp_fast": True}, "mtu": 9000},
        {"name": "left", "mac_address": "02-00-5E-10-00-01"},
        {"name": "eno9", "dhcp": True},
    ]  # fmt: skip
    recorder, _ = planes(control_planes=members(links=links))
    found = documents(recorder, "cp-cp-1")
    (bond,) = kinds(found, "BondConfig")
    assert (bond["name"], bond["links"], bond["bondMode"]) == ("bond0", ["left", "eno2"], "802.3ad")
    assert (bond["lacpRate"], bond["mtu"]) == ("fast", 9000)
    (vlan,) = kinds(found, "VLANConfig")
    assert (vlan["parent"], vlan["vlanID"], vlan["addresses"]) == ("bond0", 20, [{"address": "192.0.2.11/24"}])
    assert vlan["routes"] == [
        {"gateway": "192.0.2.1"},
        {"destination": "198.51.100.0/24", "gateway": "192.0.2.9", "metric": 5},
    ]
    (alias,) = kinds(found, "LinkAliasConfig")
    assert alias["selector"] == {"match": 'mac(link.permanent_addr) == "02:00:5e:10:00:01"'}
    assert [d["name"] for d in kinds(found, "DHCPv4Config")] == ["eno9"]
    assert [d["name"] for d in kinds(found, "LinkConfig")] == ["eno9", "left"]
    assert not kinds(documents(recorder, "cp-cp-2"), "LinkConfig")


def test_another_order_of_links_is_the_same_configuration() -> None:
    links = [{"name": "eno1", "dhcp": True}, {"name": "eno2", "addresses": ["198.51.100.1/24"]}]
    first, _ = planes(control_planes=members(links=links))
    second, _ = planes(control_planes=members(links=links[::-1]))
    assert first.of_type("apply") == second.of_type("apply")


@pytest.mark.parametrize(
    ("links", "interface", "expected"),
    [
        ([{"name": "bond0", "bond": {"links": ["a", "b"], "mode": "active-backup"}, "dhcp": True}], None, "bond0"),
        ([{"name": "eno1", "dhcp": True}, {"name": "eno2", "addresses": ["192.0.2.11/24"]}], None, "eno2"),
        ([{"name": "eno1", "dhcp": True}, {"name": "eno2", "dhcp": True}], "eno2", "eno2"),
    ],
)
def test_the_vip_is_on_the_link_that_has_the_machines_address(links: Any, interface: Any, expected: str) -> None:
    endpoint = {"host": "192.0.2.100", "kind": "vip", **({"interface": interface} if interface else {})}
    recorder, _ = planes(control_planes=members(links=links), endpoint=endpoint)
    (vip,) = kinds(documents(recorder, "cp-cp-1"), "Layer2VIPConfig")
    assert vip["link"] == expected
    (other,) = kinds(documents(recorder, "cp-cp-2"), "Layer2VIPConfig")
    assert other["link"] == (interface or "hybrid-talos-vip")


def test_taints_take_the_way_that_each_role_may_go() -> None:
    taints = [{"key": "example.com/only", "value": "db", "effect": "NoSchedule"}]
    recorder, _ = planes(control_planes=members(taints=taints))
    assert machine_of(documents(recorder, "cp-cp-1"), "nodeTaints") == [{"example.com/only": "db:NoSchedule"}]
    found = workers(workers=[{"name": "w", "address": "192.0.2.21", "taints": taints}])
    assert not machine_of(documents(found, "pool-w"), "nodeTaints")
    (kubelet,) = machine_of(documents(found, "pool-w"), "kubelet")
    assert kubelet["extraConfig"]["registerWithTaints"] == taints


def test_registries_reach_every_machine_and_their_passwords_are_secret() -> None:
    registries = {"mirror.example.com:5000": {"username": "robot", "password": PASSWORD, "ca": CA}}
    mirrors = {"docker.io": ["https://mirror.example.com:5000/v2/hub"], "ghcr.io": ["https://mirror.example.com:5000"]}
    recorder, worker = planes(registries=registries, registry_mirrors=mirrors, mirror_fallback=False)
    for found in (documents(recorder, "cp-cp-1"), list(yaml.safe_load_all(worker))):
        (login,) = kinds(found, "RegistryAuthConfig")
        assert login["name"] == "mirror.example.com:5000"
        assert (login["username"], login["password"]) == ("robot", PASSWORD)
        (tls,) = kinds(found, "RegistryTLSConfig")
        assert tls["ca"] == CA
        hub, other = kinds(found, "RegistryMirrorConfig")
        assert hub["endpoints"] == [{"url": "https://mirror.example.com:5000/v2/hub", "overridePath": True}]
        assert other["endpoints"] == [{"url": "https://mirror.example.com:5000"}]
        assert hub["skipFallback"] is other["skipFallback"] is True
    assert is_secret(recorder.of_type("apply")["cp-cp-1-config"]["configPatches"])
    assert PASSWORD not in str(recorder.of_type("secrets"))


def test_an_older_contract_has_the_same_in_its_own_form() -> None:
    registries = {"mirror.example.com": {"username": "robot", "password": PASSWORD, "ca": CA}}
    mirrors = {"docker.io": ["https://mirror.example.com/v2/hub"]}
    site = {"nameservers": ["192.0.2.53"], "ntp_servers": ["ntp.example.com"], "proxy": {"url": "http://p:3128"}}
    recorder, _ = planes(
        config_contract="1.11",
        kubernetes_version="1.34.1",
        registries=registries,
        registry_mirrors=mirrors,
        mirror_fallback=False,
        site=site,
    )
    found = documents(recorder, "cp-cp-1")
    assert [d for d in found if "kind" in d] == []
    logins = [r["config"] for r in machine_of(found, "registries") if "config" in r]
    assert logins[0]["mirror.example.com"]["auth"] == {"username": "robot", "password": PASSWORD}
    mirror = [r["mirrors"] for r in machine_of(found, "registries") if "mirrors" in r]
    assert mirror == [{"docker.io": {"endpoints": mirrors["docker.io"], "overridePath": True, "skipFallback": True}}]
    assert machine_of(found, "time") == [{"servers": ["ntp.example.com"]}]
    assert {"nameservers": ["192.0.2.53"]} in machine_of(found, "network")
    assert machine_of(found, "env")[0]["https_proxy"] == "http://p:3128"


def test_the_site_is_told_to_its_machines_and_never_to_pools() -> None:
    site = {
        "nameservers": ["192.0.2.53"],
        "search_domains": ["demo.example.com"],
        "ntp_servers": ["ntp.example.com"],
        "proxy": {"url": "http://proxy.example.com:3128", "no_proxy": [".example.com"]},
    }
    recorder, base = planes(site=site, node_subnets=["192.0.2.0/24"])
    pool = workers(site=site, config_contract="1.13", node_subnets=["192.0.2.0/24"])
    for found, own in (
        (documents(recorder, "cp-cp-1"), "192.0.2.11"),
        (documents(pool, "pool-worker-1"), "192.0.2.21"),
    ):
        (resolver,) = kinds(found, "ResolverConfig")
        assert resolver["nameservers"] == [{"address": "192.0.2.53"}]
        assert resolver["searchDomains"] == {"domains": ["demo.example.com"]}
        (clock,) = kinds(found, "TimeSyncConfig")
        assert clock["ntp"] == {"servers": ["ntp.example.com"]}
        (environment,) = kinds(found, "EnvironmentConfig")
        variables = environment["variables"]
        assert variables["http_proxy"] == variables["https_proxy"] == "http://proxy.example.com:3128"
        direct = variables["no_proxy"].split(",")
        assert {own, "k8s.demo.example.com", "10.244.0.0/16", "10.96.0.0/12", "192.0.2.0/24"} <= set(direct)
        assert direct[-1] == ".example.com"
    for word in ("ResolverConfig", "TimeSyncConfig", "proxy"):
        assert word not in base


def test_a_proxys_password_is_escaped_and_makes_the_patch_a_secret() -> None:
    proxy = {"url": "http://p.example.com:3128", "username": "me", "password": pulumi.Output.secret("a@b:c/d")}
    recorder, _ = planes(site={"proxy": proxy})
    (environment,) = kinds(documents(recorder, "cp-cp-1"), "EnvironmentConfig")
    assert environment["variables"]["http_proxy"] == "http://me:a%40b%3Ac%2Fd@p.example.com:3128"
    assert is_secret(recorder.of_type("apply")["cp-cp-1-config"]["configPatches"])


def test_another_distributions_images_reach_every_machine() -> None:
    images = {"registry": "registry.example.com/k8s/", "etcd": "registry.example.com/k8s/etcd:v3.6.5"}
    recorder, worker = planes(component_images=images)
    found = documents(recorder, "cp-cp-1")
    (cluster,) = [d["cluster"] for d in found if "kind" not in d and "apiServer" in d.get("cluster", {})]
    for part, image in (
        ("apiServer", "kube-apiserver"),
        ("controllerManager", "kube-controller-manager"),
        ("scheduler", "kube-scheduler"),
        ("proxy", "kube-proxy"),
    ):
        assert cluster[part]["image"] == f"registry.example.com/k8s/{image}:v1.36.3"
    assert cluster["etcd"]["image"] == "registry.example.com/k8s/etcd:v3.6.5"
    assert "coreDNS" not in cluster
    for documents_of in (found, list(yaml.safe_load_all(worker))):
        kubelets = [kubelet["image"] for kubelet in machine_of(documents_of, "kubelet") if "image" in kubelet]
        assert kubelets == ["registry.example.com/k8s/kubelet:v1.36.3"]


def test_trusted_authorities_reach_every_machine() -> None:
    recorder, worker = planes(trusted_roots=[CA])
    for found in (documents(recorder, "cp-cp-2"), list(yaml.safe_load_all(worker))):
        (roots,) = kinds(found, "TrustedRootsConfig")
        assert roots["certificates"].strip() == CA.strip()


DHCP = {"name": "eno1", "dhcp": True}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"install_disk": "/dev/sda", "install_disk_selector": {"type": "ssd"}}, "exclude each other: give one"),
    ({"install_disk_selector": {}}, "says nothing"),
    ({"install_disk_selector": {"size": "big"}}, "must be a size"),
    ({"install_disk_selector": {"size": ">= 1 XB"}}, "must be a size"),
    ({"install_disk_selector": {"type": "tape"}}, "install_disk_selector.type"),
    ({"links": [{"name": "eno1"}]}, "none has the address 192.0.2.11 or takes one by DHCP"),
    ({"links": [{"name": "eno1", "addresses": ["192.0.2.12/24"]}]}, "none has the address 192.0.2.11"),
    ({"links": [{"name": "eno1", "addresses": ["192.0.2.11"]}]}, "with its prefix length"),
    ({"links": [{"name": "averyveryverylongname", "dhcp": True}]}, "must be the name of a link"),
    ({"links": [DHCP, DHCP]}, "links: eno1 stands twice"),
    ({"links": [{**DHCP, "mac_address": "02:00"}]}, "must be a hardware address"),
    ({"links": [{**DHCP, "routes": [{}]}]}, "needs a gateway, a destination or both"),
    ({"links": [{**DHCP, "routes": [{"destination": "192.0.2.9/24"}]}]}, "without host bits"),
    ({"links": [{**DHCP, "vlan": {"parent": "eno1", "id": 7}}]}, "the VLAN eno1 is its own parent"),
    ({"links": [{**DHCP, "vlan": {"parent": "eno2", "id": 4095}}]}, "vlan.id"),
    ({"links": [{**DHCP, "bond": {"links": [], "mode": "802.3ad"}}]}, "bond.links"),
    ({"links": [{**DHCP, "bond": {"links": ["a"], "mode": "lacp"}}]}, "bond.mode"),
    ({"links": [{**DHCP, "bond": {"links": ["a"], "mode": "active-backup", "lacp_fast": True}}]}, "only for mode"),
    ({"links": [{**DHCP, "bond": {"links": ["a"], "mode": "802.3ad", "up_delay": 150}}]}, "whole multiples of miimon"),
    ({"links": [{**DHCP, "bond": {"links": ["a"], "mode": "802.3ad"}, "vlan": {"parent": "a", "id": 1}}]}, "exclude"),
    (
        {"links": [{"name": "b", "bond": {"links": ["eno1"], "mode": "802.3ad"}}, DHCP]},
        "eno1 has an address and is in the bond b",
    ),
    (
        {"links": [{"name": f"b{n}", "dhcp": True, "bond": {"links": ["x"], "mode": "802.3ad"}} for n in (1, 2)]},
        "x is in the bonds b1 and b2",
    ),
    (
        {"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]},
        "a stands twice, and a control plane has one for each key",
    ),
    ({"taints": [{"key": "a", "effect": "Never"}]}, "taints.0.effect"),
]


@pytest.mark.parametrize(("machine", "message"), REFUSED)
def test_a_machine_that_cannot_be_is_refused(machine: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputs) as refusal:
        planes(control_planes=members(**machine))
    assert message in str(refusal.value)


REFUSED_CLUSTERS: list[tuple[dict[str, Any], str]] = [
    ({"registries": {"https://r.example.com": {"ca": CA}}}, "must be the host of a registry"),
    ({"registries": {"r.example.com": {}}}, "says nothing"),
    ({"registries": {"r.example.com": {"username": "me"}}}, "username and password go together"),
    ({"registries": {"r.example.com": {"password": PASSWORD}}}, "username and password go together"),
    ({"registries": {"r.example.com": {"username": "me", "password": ""}}}, "password: is empty"),
    ({"registries": {"r.example.com": {"ca": "-----BEGIN PRIVATE KEY-----"}}}, "holds a private key"),
    ({"registries": {"r.example.com": {"ca": "no"}}}, "must be a certificate in PEM form"),
    ({"registry_mirrors": {"docker.io": ["https://me:secret@r.example.com"]}}, "must not hold credentials"),
    ({"trusted_roots": ["no"]}, "must be a certificate in PEM form"),
    ({"component_images": {"registry": "https://r.example.com"}}, "must be a registry and the folder"),
    ({"component_images": {"registry": "r.example.com", "etcd": "r.example.com/etcd"}}, "a tag or digest"),
    ({"site": {"nameservers": ["ns.example.com"]}}, "must be an IPv4 address"),
    ({"site": {"ntp_servers": ["https://ntp.example.com"]}}, "must be a host name"),
    ({"site": {"proxy": {"url": "proxy.example.com:3128"}}}, "must have the form http://host:port"),
    ({"site": {"proxy": {"url": "http://me:x@p.example.com"}}}, "must not hold credentials"),
    ({"site": {"proxy": {"url": "http://p:1", "username": "me"}}}, "username and password go together"),
    ({"site": {"proxy": {"url": "http://p:1", "no_proxy": ["a b"]}}}, "must be a name, a domain"),
    (
        {"config_contract": "1.11", "kubernetes_version": "1.34.1", "control_planes": members(links=[DHCP])},
        "links need a config contract of 1.12 or later",
    ),
    (
        {
            "endpoint": {"host": "192.0.2.100", "kind": "vip"},
            "control_planes": members(links=[DHCP, {"name": "eno2", "dhcp": True}]),
        },
        "interface: required, since cp-1 has several links",
    ),
    (
        {
            "config_contract": "1.11",
            "kubernetes_version": "1.34.1",
            "registry_mirrors": {"docker.io": ["https://a/v2/hub", "https://b"]},
        },
        "either all mirrors of a registry go on after /v2/ or none does",
    ),
]


@pytest.mark.parametrize(("changes", "message"), REFUSED_CLUSTERS)
def test_a_cluster_that_cannot_be_is_refused_without_any_secret(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputs) as refusal:
        planes(**changes)
    assert message in str(refusal.value)
    assert PASSWORD not in str(refusal.value)
    assert "secret@" not in str(refusal.value)


def test_a_workers_proxy_needs_the_contract_of_its_configuration() -> None:
    with pytest.raises(BadInputs, match="config_contract: required with site.proxy"):
        workers(site={"proxy": {"url": "http://p:3128"}})
