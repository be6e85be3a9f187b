"""The doctor's command: what it takes from a stack, what it prints, and how it ends."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from diagnosis_world import ALIYUN, AZURE, NOW, Scene, pool
from diagnosis_world import pod as pending_pod
from hybrid_talos.work_provider import WorkError
from typer.testing import CliRunner, Result

from stacks import doctor
from stacks.diagnosis.finding import Finding, Level
from stacks.diagnosis.stack import Subject, subject
from stacks.roll import RollError
from stacks.settings import Settings, load
from stacks.stack_state import StackState, read_state

GOOD = Path(__file__).parents[1] / "settings" / "good"
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}
KUBECONFIG = "apiVersion: v1\nkind: Config\n"


def settings(name: str = "hybrid") -> Settings:
    document = yaml.safe_load((GOOD / f"{name}.yaml").read_text())
    return load(document["stack"], document["settings"])


def state(wanted: Settings) -> StackState:
    """Return the state of a stack that has all pools of its settings."""
    resources: list[dict[str, Any]] = [
        {
            "type": "pulumi:providers:kubernetes",
            "urn": "urn:pulumi:dev::hybrid-talos::pulumi:providers:kubernetes::kubernetes",
            "inputs": {"kubeconfig": {**SECRET, "plaintext": json.dumps(KUBECONFIG)}},
        }
    ]
    kinds = (("azure", "AzureWorkerPool", "scaleSetId"), ("aliyun", "AliyunWorkerPool", "scalingGroupId"))
    for cloud, kind, id_key in kinds:
        section = getattr(wanted, cloud)
        for one in section.pools if section is not None else ():
            group = {"name": "real", "cloud": cloud, "minSize": 1.0, "maxSize": 4.0, "labels": {"a": "b"}, "taints": []}
            resources.append(
                {
                    "type": f"hybrid-talos:index:{kind}",
                    "urn": f"urn:pulumi:dev::hybrid-talos::hybrid-talos:index:{kind}::{cloud}-{one.name}",
                    "outputs": {id_key: "the-id", "templateHash": "1" * 16, "nodeGroup": group},
                }
            )
    return read_state(json.dumps({"deployment": {"resources": resources}}))


class TestStack:
    def test_pools_are_what_the_state_has_and_where_the_settings_say(self) -> None:
        wanted = settings()
        found = subject(wanted, state(wanted))
        assert found.findings == ()
        assert found.kubeconfig == KUBECONFIG
        assert {one.cloud for one in found.pools} == {"azure", "aliyun"}
        assert {(one.group, one.group_name, one.least, one.most) for one in found.pools} == {("the-id", "real", 1, 4)}
        assert {key for one in found.pools for key in one.where} == {
            *("environment", "resource_manager", "location"),
            *("region", "ecs", "ess"),
        }

    def test_a_pool_that_is_not_there_yet_is_a_finding(self) -> None:
        wanted = settings()
        there = state(wanted)
        gone = tuple(one for one in there.resources if "AzureWorkerPool" not in one["type"])
        found = subject(wanted, replace(there, resources=gone))
        assert {one.level for one in found.findings} == {Level.STOPS}
        assert {one.pool.partition("/")[0] for one in found.findings} == {"azure"}
        assert {one.cloud for one in found.pools} == {"aliyun"}

    def test_a_stack_without_pools(self) -> None:
        wanted = settings("cluster-mesh")
        (finding,) = subject(wanted, state(wanted)).findings
        assert (finding.level, finding.what) == (Level.UNKNOWN, "the stack has no pools")


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A world that the command looks at in the place of a stack, a cluster and clouds."""
    found = Scene()
    monkeypatch.setattr(
        doctor, "_subject", lambda stack, file: (Subject(tuple(found.pools.values()), KUBECONFIG), None)
    )
    monkeypatch.setattr(doctor, "_group", lambda one: found.groups[one.name])
    monkeypatch.setattr(doctor, "gather", lambda kubeconfig, where: (found.cluster, []))
    return found


def run(*words: str) -> Result:
    return CliRunner().invoke(doctor.app, list(words), env={"COLUMNS": "300"})


class TestCommand:
    def test_all_is_well(self, scene: Scene) -> None:
        done = run()
        assert done.exit_code == 0
        assert f"{AZURE} would scale: yes" in done.stdout

    def test_each_finding_is_one_line(self, scene: Scene) -> None:
        scene.change_group(AZURE, size=3)
        done = run()
        assert done.exit_code == 1
        (line,) = [one for one in done.stdout.splitlines() if "maxSize is 3" in one]
        assert line.strip() == (
            "stops    size: 3 machines, and maxSize is 3. The autoscaler makes no more. "
            "Next: raise maxSize, if pods wait for the pool"
        )
        assert f"{AZURE} would scale: no" in done.stdout
        assert f"{ALIYUN} would scale: yes" in done.stdout

    def test_a_location_that_is_cut_off_stops_its_pool_alone(self, scene: Scene) -> None:
        scene.nodes()["alibaba-0"]["metadata"]["annotations"]["kilo.squat.ai/last-seen"] = str(int(NOW) - 900)
        assert json.loads(run("--json").stdout)["scales"] == {ALIYUN: "no", AZURE: "yes"}
        assert json.loads(run("--json", "--pool", AZURE).stdout)["scales"] == {AZURE: "yes"}

    def test_a_pod_that_fits_nowhere_stops_no_pool_and_is_not_well(self, scene: Scene) -> None:
        scene.change_cluster(pods=[pending_pod(nodeSelector={"disk": "ssd"})])
        done = run("--json")
        assert (done.exit_code, json.loads(done.stdout)["scales"]) == (1, {ALIYUN: "yes", AZURE: "yes"})

    def test_what_stops_the_cluster_stops_every_pool(self, scene: Scene) -> None:
        scene.nodes()["cp-1"]["metadata"]["annotations"]["kilo.squat.ai/last-seen"] = str(int(NOW) - 900)
        assert json.loads(run("--json").stdout)["scales"] == {ALIYUN: "no", AZURE: "no"}

    def test_json_has_what_why_and_what_to_do(self, scene: Scene) -> None:
        scene.change_group(ALIYUN, notes=("the stock is not known",))
        done = run("--json", "--pool", ALIYUN)
        assert done.exit_code == 2
        found = json.loads(done.stdout)
        assert found["scales"] == {ALIYUN: "unknown"}
        (note,) = [one for one in found["findings"] if one["level"] == "unknown"]
        assert set(note) == {"level", "topic", "what", "why", "do", "pool"}
        assert AZURE not in {one["pool"] for one in found["findings"]}

    def test_a_pool_that_is_none(self, scene: Scene) -> None:
        done = run("--pool", "azure/other")
        assert done.exit_code == 2
        assert "there is no pool azure/other; expected one of aliyun/workers, azure/workers" in done.stderr

    def test_markup_in_a_name_is_a_name(self, scene: Scene) -> None:
        scene.change_group(AZURE, trouble="the set [red]x[/red] is locked")
        assert "the set [red]x[/red] is locked" in run().stdout

    def test_a_stack_that_cannot_be_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refused(*_words: str) -> Any:
            raise RollError("there is no pulumi on PATH")

        monkeypatch.setattr(doctor, "pulumi", refused)
        done = run()
        assert (done.exit_code, done.stderr.strip()) == (2, "doctor: there is no pulumi on PATH")

    def test_no_kubeconfig(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(doctor, "_subject", lambda stack, file: (Subject(tuple(scene.pools.values()), None), None))
        done = run()
        assert done.exit_code == 2
        assert "the state of the stack holds no kubeconfig" in done.stdout


@pytest.mark.parametrize(
    ("error", "level", "words"),
    [
        (WorkError("the scale set workers is gone; run `pulumi up --refresh`"), Level.STOPS, "workers is gone"),
        (WorkError("Azure Resource Manager cannot be reached"), Level.UNKNOWN, "cannot be reached"),
        (KeyError("secret-MARKER"), Level.UNKNOWN, "cannot be read (KeyError)"),
    ],
)
def test_a_cloud_that_fails_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, error: Exception, level: Level, words: str
) -> None:
    def fails(_pool: Any) -> Any:
        raise error

    monkeypatch.setattr("stacks.diagnosis.azure_group.azure_group", fails)
    found = doctor._group(pool("azure"))
    assert isinstance(found, Finding)
    assert found.level is level
    assert words in found.line
    assert "MARKER" not in found.line
