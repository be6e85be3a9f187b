"""Fixtures of the tests against other people's real servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kilo_agents import describe_nodes
from kubelets import Kubelets
from kubernetes_cluster import Api, Cluster, wait_for
from prometheus import definitions
from real_lab import SIMULATED, RealLab

from lab import real_tools, tools
from lab.places import Places
from lab.session import Session

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.real)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A real control plane, which all tests of a run share: each uses names of its own."""
    talosctl = tools.provide().talosctl.path
    with Cluster(tmp_path_factory.mktemp("kubernetes"), real_tools.provide(), talosctl) as running:
        yield running


@pytest.fixture(scope="session")
def kubelets(cluster: Cluster) -> Iterator[Kubelets]:
    """Simulated kubelets, with one control plane and one worker."""
    simulated = Kubelets(cluster)
    simulated.start()
    try:
        simulated.add("cp-1", control_plane=True)
        simulated.add("worker-1")
        yield simulated
    finally:
        simulated.stop()


@pytest.fixture(scope="session")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """The lab with everything simulated but Kubernetes."""
    with Session(Places(tmp_path_factory.mktemp("lab")), tools.provide(), simulated=SIMULATED) as running:
        yield running


@pytest.fixture(scope="session")
def given(cluster: Cluster, kubelets: Kubelets) -> Cluster:
    """The cluster with machines, and with the definitions that Talos and Cozystack bring along."""
    api = cluster.api()
    for crd in yaml.safe_load_all((HERE / "data" / "crds.yaml").read_text()):
        api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    for crd in definitions():
        api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    wait_for("definitions of monitors", lambda: api.find("/apis/monitoring.coreos.com/v1"))
    describe_nodes(api)
    wait_for("definitions", lambda: api.find("/apis/talos.dev/v1alpha1") and api.find("/apis/cozystack.io/v1alpha1"))
    return cluster


@pytest.fixture(scope="session")
def lab(session: Session, given: Cluster, tmp_path_factory: pytest.TempPathFactory) -> RealLab:
    """The program with all that the library puts into a cluster; perhaps up, perhaps not."""
    program = RealLab(session, given, HERE / "programs" / "cluster", tmp_path_factory.mktemp("program"))
    program.set("credential", "first-credential-MARKER", secret=True)
    return program


@pytest.fixture(scope="module")
def deployed(lab: RealLab) -> RealLab:
    """The program, up."""
    lab.ensure_up()
    return lab


@pytest.fixture(scope="module")
def api(given: Cluster) -> Api:
    """The administrator's client."""
    return given.api()
