"""The rolls that a stack declares, and the command that takes them from a stack's state."""

import base64
import json
import pickletools
import sys
from pathlib import Path
from types import SimpleNamespace

import pulumi
import pytest
import yaml
from hybrid_talos import worker_roll_work as work
from hybrid_talos.kubernetes_nodes import KubernetesError
from hybrid_talos.worker_roll import WorkerRollProvider
from pool_recorder import is_secret, run
from pulumi.dynamic.dynamic import serialize_provider
from typer.testing import CliRunner

from stacks import roll, rolls
from stacks.settings import load
from stacks.settings_pools import Rolling

GOOD = Path(__file__).parents[1] / "settings" / "good"
SECRET = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270"}
KUBECONFIG = "apiVersion: v1\nkind: Config\n"


def settings(name="azure-burst"):
    document = yaml.safe_load((GOOD / f"{name}.yaml").read_text())
    return load(document["stack"], document["settings"])


def first(name="azure"):
    return next(key for key in roll.pools_of(settings(f"{name}-burst")))


def state(pool, **outputs):
    cloud, _, short = pool.partition("/")
    kind, group = {"azure": ("AzureWorkerPool", "scaleSetId"), "aliyun": ("AliyunWorkerPool", "scalingGroupId")}[cloud]
    made = {group: "the-group", "templateHash": "1" * 16, **outputs}
    return {
        "deployment": {
            "resources": [
                {
                    "type": f"hybrid-talos:index:{kind}",
                    "urn": f"urn:pulumi:dev::hybrid-talos::hybrid-talos:index:{kind}::{cloud}-{short}",
                    "outputs": {key: value for key, value in made.items() if value is not None},
                },
                {
                    "type": "pulumi:providers:kubernetes",
                    "urn": "urn:pulumi:dev::hybrid-talos::pulumi:providers:kubernetes::kubernetes",
                    "inputs": {"kubeconfig": {**SECRET, "plaintext": json.dumps(KUBECONFIG)}},
                },
            ]
        }
    }


def test_a_roll_is_declared_with_its_steps_and_a_secret_kubeconfig():
    pool = settings().azure.pools[0]
    props = rolls.azure_props(settings().azure, pool, Rolling.model_validate({"onUp": True, "drainMinutes": 30}))

    def program():
        component = pulumi.CustomResource("test:index:Pool", "pool")
        target = rolls.Roll(component, {**props, "group": "the-group", "stamp": pulumi.Output.from_input("1" * 16)})
        return {"stale": rolls.declare_rolls({"azure/workers": target}, "kubeconfig")}

    found = run(program).one("azure-workers-roll")
    assert is_secret(found.raw["kubeconfig"])
    assert found.inputs["plan"][0].startswith(f"for each machine of azure-{pool.name} that is not made as 1111")
    assert found.inputs["plan"][1] == "1. cordon, and drain within 30 minutes, budgets honoured"
    assert any(urn.endswith("::pool") for urn in found.dependencies)


def test_without_the_setting_a_preview_says_that_nothing_is_replaced():
    props = rolls.azure_props(settings().azure, settings().azure.pools[0], Rolling())
    assert rolls.plan(props, "1" * 16)[0].endswith("`python -m stacks.roll` replaces them")


@pytest.mark.parametrize("cloud", ["azure", "aliyun"])
def test_the_command_takes_everything_from_the_stack(cloud):
    name = first(cloud)
    props = roll.props_of(settings(f"{cloud}-burst"), state(name), name)
    assert (props["group"], props["stamp"], props["kubeconfig"]) == ("the-group", "1" * 16, KUBECONFIG)
    assert props["cloud"] == cloud
    assert work.check(props) == {}


def test_the_settings_are_read_as_the_cli_prints_them():
    document = yaml.safe_load((GOOD / "azure-burst.yaml").read_text())
    config = {
        "hybrid-talos:stack": {"value": document["stack"], "secret": False},
        "hybrid-talos:settings": {"value": json.dumps(document["settings"]), "secret": False},
        "hybrid-talos:join": {"secret": True},
    }
    assert roll.settings_of(config) == settings()
    config["hybrid-talos:settings"]["objectValue"] = document["settings"]
    assert roll.settings_of(config) == settings()


@pytest.mark.parametrize(
    ("name", "outputs", "said"),
    [
        ("azure/none", {}, "there is no pool azure/none; expected one of azure/"),
        (None, {"templateHash": None}, "has no pool azure/.* yet, or one of an older version: run `pulumi up` first"),
        (None, {"scaleSetId": None}, "run `pulumi up` first"),
    ],
)
def test_a_pool_that_cannot_be_rolled_says_why(name, outputs, said):
    with pytest.raises(roll.RollError, match=said):
        roll.props_of(settings(), state(first(), **outputs), name or first())


def test_the_command_says_in_one_line_what_is_wrong(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    result = CliRunner().invoke(roll.app, ["azure/workers"])
    assert result.exit_code == 1
    assert result.stderr == "roll: there is no pulumi on PATH\n"


# The custom resource


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="a later pickle protocol writes other bytes")
def test_the_state_holds_names_and_no_code():
    pickled = base64.b64decode(serialize_provider(WorkerRollProvider()))
    words = [argument for _, argument, _ in pickletools.genops(pickled) if isinstance(argument, str)]
    assert words == ["hybrid_talos.worker_roll", "WorkerRollProvider"]


PROPS = {
    "cloud": "azure", "pool": "azure-workers", "group": "g", "stamp": "1" * 16, "most": 3, "max_surge": 1,
    "max_unavailable": 0, "drain_minutes": 15, "join_minutes": 20, "on_up": False, "kubeconfig": KUBECONFIG,
    "kubernetes_server": None, "environment": "public", "resource_manager": None,
}  # fmt: skip
FOUND = {"stale": [], "outdated": [], "held": []}


def test_nothing_to_do_is_no_change():
    assert work.diff({**PROPS, **FOUND}, PROPS).changes is False


@pytest.mark.parametrize(
    ("olds", "news", "changes"),
    [
        ({}, {"stamp": "2" * 16}, True),
        ({"stale": ["n"]}, {}, False),
        ({"stale": ["n"], "on_up": True}, {"on_up": True}, True),
        ({"outdated": ["n"]}, {}, True),
        ({"held": ["n"]}, {}, True),
        ({}, {"plan": ["other words"]}, False),
    ],
)
def test_a_change_is_what_there_is_to_do(olds, news, changes):
    assert work.diff({**PROPS, **FOUND, **olds}, {**PROPS, **news}).changes is changes


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"max_surge": 0}, "max_surge"),
        ({"cloud": "other"}, "cloud"),
        ({"resource_manager": "http://x"}, "resource_manager"),
        ({"kubernetes_server": "http://x"}, "kubernetes_server"),
    ],
)
def test_bad_inputs_are_refused_in_a_preview(change, key):
    assert list(work.check({**PROPS, **change})) == [key]


class FakePool:
    def __init__(self, stale):
        self.stale, self.did = list(stale), []
        self.rule = SimpleNamespace(pool="azure-workers")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def found(self):
        return {"stale": list(self.stale), "outdated": [], "held": []}

    def let_go(self):
        self.did.append("let go")

    def update(self):
        self.did.append("update")
        return []

    def roll(self):
        self.did.append("roll")
        gone, self.stale = self.stale, []
        return gone


@pytest.fixture
def notes(monkeypatch):
    found = []
    monkeypatch.setattr(work, "note", lambda line, warning: found.append(line))
    return found


def test_an_up_that_is_not_to_roll_lists_and_says_so(monkeypatch, notes):
    pool = FakePool(["node-1"])
    monkeypatch.setattr(work, "pool_of", lambda props, say: pool)
    _, outputs = work.create(PROPS)
    assert outputs["stale"] == ["node-1"]
    assert pool.did == ["let go", "update"]
    assert notes == ["azure-workers: made of an older image or configuration: node-1. Next: `python -m stacks.roll`"]


def test_an_up_that_is_to_roll_does(monkeypatch, notes):
    pool = FakePool(["node-1"])
    monkeypatch.setattr(work, "pool_of", lambda props, say: pool)
    assert work.update({**PROPS, **FOUND}, {**PROPS, "on_up": True})["stale"] == []
    assert pool.did == ["let go", "update", "roll"]
    assert notes == []


def test_a_cluster_that_is_down_fails_only_what_is_to_roll(monkeypatch, notes):
    def down(props, say):
        raise KubernetesError("the Kubernetes API is not reached")

    monkeypatch.setattr(work, "pool_of", down)
    assert work.create(PROPS)[1]["stale"] is None
    assert "are not known: the Kubernetes API is not reached" in notes[0]
    assert work.read({**PROPS, "stale": ["n"]})["stale"] == ["n"]
    with pytest.raises(work.WorkError, match="What was replaced stays; run `pulumi up` again to go on"):
        work.create({**PROPS, "on_up": True})


def test_the_command_lists_without_a_change(capsys):
    pool = FakePool(["node-1"])
    roll.roll(pool, only_list=True)
    assert capsys.readouterr().out == "azure-workers: node-1 is of an older image or configuration\n"
    assert pool.did == []
    roll.roll(pool, only_list=False)
    assert "1 machines replaced" in capsys.readouterr().out
