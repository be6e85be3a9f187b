"""Two instances of every component in one program that is not this repository's own: tests/lab/programs/two."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hybrid_talos.component_host import COMPONENTS
from lab_folder import Lab

pytestmark = pytest.mark.lab

PROGRAM = Path(__file__).parent / "programs" / "two"
PACKAGES = ("alicloud", "azure-native", "kubernetes", "talos")
PLACES = ("east", "west")


@pytest.fixture(scope="module")
def two(folder: Path) -> Lab:
    return Lab(folder, "two", PROGRAM / "Pulumi.two.yaml", program=PROGRAM)


@pytest.fixture(scope="module")
def resources(two: Lab) -> list[dict[str, Any]]:
    """Return what stands in the state once everything is up."""
    return two.state()


def package_of(resource: dict[str, Any]) -> str:
    return str(resource["type"]).partition(":")[0]


def name_of(urn: str) -> str:
    return urn.rsplit("::", 1)[-1]


def children(resources: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the resources that a component made."""
    return [resource for resource in resources if "hybrid-talos:index:" in resource.get("parent", "")]


class TestTwo:
    """In order: each test goes on from the one before."""

    def test_preview_plans_two_of_each_component(self, two: Lab) -> None:
        steps = two.preview()
        assert {step["op"] for step in steps} == {"create"}
        planned = Counter(step["newState"]["type"] for step in steps)
        for component in COMPONENTS:
            assert planned[f"hybrid-talos:index:{component}"] >= 2, component

    def test_up_makes_both(self, two: Lab) -> None:
        assert "Traceback" not in two.up().text
        clusters = two.world().find("talos", "cluster")
        assert sorted(cluster.doc["name"] for cluster in clusters) == ["east", "west"]
        assert all(cluster.doc["bootstrapped"] for cluster in clusters)

    def test_second_preview_changes_nothing(self, two: Lab) -> None:
        assert two.changes("--refresh") == {}

    def test_every_resource_has_its_component_as_parent(self, resources: list[dict[str, Any]]) -> None:
        own = {
            "azure-native:resources:ResourceGroup",
            "azure-native:network:VirtualNetwork",
            "alicloud:vpc/network:Network",
        }
        left = [
            resource["urn"]
            for resource in resources
            if package_of(resource) not in ("pulumi", "hybrid-talos")
            and resource not in children(resources)
            and resource["type"] not in own
        ]
        assert left == []
        for resource in children(resources):
            parent = resource["parent"]
            token = parent.split("::")[2].rsplit("$", 1)[-1]
            assert resource["urn"].split("::")[2] == f"{token}${resource['type']}"
            assert name_of(resource["urn"]).startswith(f"{name_of(parent)}-"), "named after its own component"

    def test_every_component_made_something(self, resources: list[dict[str, Any]]) -> None:
        parents = {resource["parent"] for resource in children(resources)}
        childless = {
            name_of(resource["urn"])
            for resource in resources
            if package_of(resource) == "hybrid-talos" and resource["urn"] not in parents
        }
        assert childless == set()

    def test_no_resource_uses_a_default_provider(self, resources: list[dict[str, Any]]) -> None:
        used = [resource for resource in resources if package_of(resource) in PACKAGES]
        assert {package_of(resource) for resource in used} == set(PACKAGES)
        for resource in used:
            urn = resource["provider"].rsplit("::", 1)[0]
            assert not name_of(urn).startswith("default"), resource["urn"]
        made = [name_of(r["urn"]) for r in resources if r["type"].startswith("pulumi:providers:")]
        assert sorted(made) == ["aliyun", "azure", "default", "east-api", "talos", "west-api"]
        defaults = [r["type"] for r in resources if name_of(r["urn"]) == "default"]
        assert defaults == ["pulumi:providers:pulumi-python"], "the one of dynamic resources, which has no settings"

    def test_the_objects_of_a_cluster_go_to_that_cluster(self, two: Lab, resources: list[dict[str, Any]]) -> None:
        objects = [resource for resource in resources if package_of(resource) == "kubernetes"]
        for resource in objects:
            place = name_of(resource["urn"]).partition("-")[0]
            assert name_of(resource["provider"].rsplit("::", 1)[0]) == f"{place}-api"
        for kind in ("apps/v1/DaemonSet", "batch/v1/CronJob"):
            found = two.world().find("kubernetes", kind)
            assert sorted(record.id.partition("/")[0] for record in found) == list(PLACES), kind
        deployments = Counter(r.id.partition("/")[0] for r in two.world().find("kubernetes", "apps/v1/Deployment"))
        assert deployments == {"east": 3, "west": 3}, "cloud controller and two autoscalers"

    def test_the_mesh_of_a_cluster_has_that_clusters_ranges(self, two: Lab) -> None:
        for record in two.world().find("kubernetes", "apps/v1/DaemonSet"):
            arguments = json.dumps(record.doc["spec"]["template"]["spec"])
            own, other = ("10.102.", "10.112.") if record.id.startswith("east/") else ("10.112.", "10.102.")
            assert own in arguments
            assert other not in arguments

    def test_no_secret_of_either_stands_in_the_state(self, two: Lab) -> None:
        text = two.run("stack", "export").out
        assert "west-azure-autoscaler" in text
        assert "MARKER" not in text

    def test_destroy_leaves_nothing(self, two: Lab) -> None:
        two.destroy()
        assert two.state() == []
        left = [(r.package, r.kind, r.id) for r in two.world().find() if not r.doc.get("builtin")]
        assert left == []
