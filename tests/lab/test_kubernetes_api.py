"""The door of the simulated Kubernetes APIs, as the program and a client with the kubeconfig meet it."""

import base64
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml
from hybrid_talos import kubernetes_api
from hybrid_talos.control_plane_config import kubernetes_authority
from hybrid_talos.work_provider import WorkError

from lab.kubernetes.api_server import STARTING, ApiServer
from lab.provider import Call
from lab.talos import invokes, machines, package
from lab.world import World

pytestmark = pytest.mark.lab

NAME, ADDRESS = "k8s.demo.example.com", "192.0.2.100"
ANONYMOUS = "cluster: {apiServer: {extraArgs: {anonymous-auth: 'true'}}}"


class Cluster:
    """A cluster of one machine in a world."""

    def __init__(self, world: World, host: str = NAME, node: str = "192.0.2.11", patches: tuple[str, ...] = ()) -> None:
        self.world = world
        self.host = host
        self.node = node
        self.call = Call(world, {})
        self.secrets = package.Secrets().create(self.call, {"talosVersion": "v1.13"})[1]
        text = invokes.get_machine_configuration(
            self.call,
            {
                "clusterName": "demo",
                "clusterEndpoint": f"https://{host}:6443",
                "machineType": "controlplane",
                "machineSecrets": self.secrets["machineSecrets"],
                "kubernetesVersion": "1.36.3",
                "talosVersion": "v1.13",
            },
        )["machineConfiguration"]
        self.client = {"node": node, "clientConfiguration": self.secrets["clientConfiguration"]}
        package.ConfigurationApply().create(
            self.call, {**self.client, "machineConfigurationInput": text, "configPatches": list(patches)}
        )

    def bootstrap(self) -> "Cluster":
        package.Bootstrap().create(self.call, self.client)
        return self

    def inputs(self, server: ApiServer) -> dict[str, Any]:
        """Return what the program's gate has as inputs."""
        return {
            "server": f"https://{self.host}:6443",
            "authority": kubernetes_authority(self.secrets["machineSecrets"]),
            "connect_to": server.url,
            "minutes": 15.0,
        }

    def wait(self, server: ApiServer) -> list[str]:
        """Wait as the program does, without a pause; return the answers before it was ready."""
        shown: list[str] = []
        kubernetes_api.wait_until_ready(self.inputs(server), pause=0, send=shown.append)
        return [line.split(" s: ", 1)[1] for line in shown]

    def problem(self, server: ApiServer) -> str:
        with pytest.raises(WorkError) as error:
            kubernetes_api.wait_until_ready(self.inputs(server), seconds=0, pause=0, send=lambda _: None)
        return str(error.value)

    def get(self, server: ApiServer, path: str, folder: Path) -> tuple[int, str]:
        """Ask with the credentials of the cluster's administrator."""
        config = yaml.safe_load(package.Kubeconfig().create(self.call, self.client)[1]["kubeconfigRaw"])
        user = config["users"][0]["user"]
        pair = folder / "admin.pem"
        pair.write_bytes(b"".join(base64.b64decode(user[f"client-{part}-data"]) for part in ("certificate", "key")))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=kubernetes_authority(self.secrets["machineSecrets"]))
        context.load_cert_chain(pair)
        with urllib3.PoolManager(ssl_context=context, server_hostname=self.host) as pool:
            answer = pool.request("GET", server.url + path, retries=False)
            return answer.status, answer.data.decode()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "lab")
    yield world
    world.close()


@contextmanager
def serving(world: World, starting: int = STARTING) -> Iterator[ApiServer]:
    server = ApiServer(world, starting)
    server.open()
    try:
        yield server
    finally:
        server.stop()


@pytest.mark.parametrize("host", [NAME, ADDRESS])
def test_the_program_waits_for_an_api_as_talos_starts_it(world: World, host: str) -> None:
    cluster = Cluster(world, host).bootstrap()
    with serving(world) as server:
        answers = cluster.wait(server)
    assert len(answers) == 3
    assert "closes the connection" in answers[0]
    assert [answer.split(",")[0] for answer in answers[1:]] == ["HTTP 401", "HTTP 401"]
    notes = [event.note for event in world.events() if event.kind == "ApiServer"]
    assert notes == ["refuses"] * STARTING + ["answers"] * 3


def test_where_anonymous_requests_are_let_in_the_checks_are_seen(world: World) -> None:
    cluster = Cluster(world, patches=(ANONYMOUS,)).bootstrap()
    with serving(world) as server:
        answers = cluster.wait(server)
    assert answers[1:] == ["HTTP 500, checks that fail: poststarthook/rbac/bootstrap-roles"]


def test_nothing_answers_before_the_bootstrap_and_when_machines_are_off(world: World) -> None:
    cluster = Cluster(world)
    with serving(world, starting=0) as server:
        assert "closes the connection" in cluster.problem(server)
        cluster.bootstrap()
        cluster.wait(server)
        machines.power(world, cluster.node, on=False)
        assert "closes the connection" in cluster.problem(server)
        machines.power(world, cluster.node, on=True)
        cluster.wait(server)


def test_a_host_that_no_cluster_has_is_not_answered(world: World) -> None:
    cluster = Cluster(world).bootstrap()
    cluster.host = "other.example.com"
    with serving(world, starting=0) as server:
        assert "closes the connection" in cluster.problem(server)


def test_each_cluster_has_its_own_certificate(world: World) -> None:
    first = Cluster(world).bootstrap()
    second = Cluster(world, "k8s.other.example.com", "192.0.2.21").bootstrap()
    with serving(world, starting=0) as server:
        first.wait(server)
        second.wait(server)
        first.secrets = second.secrets
        assert "not of this cluster's authority" in first.problem(server)


def test_the_administrator_sees_checks_and_version(world: World, tmp_path: Path) -> None:
    cluster = Cluster(world).bootstrap()
    with serving(world, starting=0) as server:
        status, text = cluster.get(server, "/readyz?verbose", tmp_path)
        assert (status, text.splitlines()[-1]) == (200, "readyz check passed")
        assert cluster.get(server, "/livez", tmp_path) == (200, "ok")
        assert '"gitVersion": "v1.36.3"' in cluster.get(server, "/version", tmp_path)[1]
        assert cluster.get(server, "/api/v1/secrets", tmp_path)[0] == 404


def test_the_nodes_are_listed_with_what_kilo_wrote_on_them(world: World, tmp_path: Path) -> None:
    cluster = Cluster(world).bootstrap()

    def annotations(server: ApiServer) -> dict[str, str]:
        (node,) = json.loads(cluster.get(server, "/api/v1/nodes", tmp_path)[1])["items"]
        return dict(node["metadata"]["annotations"])

    with serving(world, starting=0) as server:
        assert not any(name.startswith("kilo.squat.ai/key") for name in annotations(server))
        key = world.find("talos", "cluster")[0].doc["key"]
        kilo = {"spec": {"template": {"spec": {"containers": [{"image": "docker.io/squat/kilo:0.7.0"}]}}}}
        world.put("kubernetes", "apps/v1/DaemonSet", f"{key}/mesh-kilo/kilo", kilo)
        described = annotations(server)
        assert described["kilo.squat.ai/endpoint"].endswith(":51820")
        assert annotations(server) == described


def test_credentials_of_another_cluster_are_refused(world: World, tmp_path: Path) -> None:
    cluster = Cluster(world).bootstrap()
    cluster.client = Cluster(world, "k8s.other.example.com", "192.0.2.21").bootstrap().client
    with serving(world, starting=0) as server, pytest.raises(urllib3.exceptions.HTTPError):
        cluster.get(server, "/livez", tmp_path)
