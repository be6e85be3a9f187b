"""Our manifests of the autoscaler against its own chart's for the same inputs: data/autoscaler_chart.yaml."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from real_lab import RealLab
from rights import Right, of_rules, parsed

CHART: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "data" / "autoscaler_chart.yaml").read_text())
AUTOSCALERS = {"demo-azure": ("azure", "0:10:demo-workers-vmss"), "demo-aliyun": ("alicloud", "0:5:asg-bp1example")}


def table(rows: Mapping[str, Any], stem: str) -> set[Right]:
    """Return the rights of a part of the table, which may carry reasons."""
    verbs = {key: row if isinstance(row, str) else row[0] for key, row in rows.items()}
    return parsed(f"{key}: {value}".replace("{stem}", stem) for key, value in verbs.items())


@pytest.fixture(scope="module")
def manifests(deployed: RealLab) -> dict[tuple[str, str], Any]:
    return {(one["kind"], one["metadata"]["name"]): one for one in deployed.manifests()}


@pytest.fixture(params=list(AUTOSCALERS))
def stem(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize(("kind", "part"), [("ClusterRole", "clusterRole"), ("Role", "role")])
def test_rights(manifests: dict[tuple[str, str], Any], stem: str, kind: str, part: str) -> None:
    ours = of_rules(manifests[kind, stem]["rules"])
    charts = table(CHART[part], stem)
    assert charts - ours == table(CHART["leftOut"][part], stem)
    assert ours - charts == table(CHART["added"][part], stem)


def container(manifests: dict[tuple[str, str], Any], stem: str) -> Any:
    (found,) = manifests["Deployment", stem]["spec"]["template"]["spec"]["containers"]
    return found


def test_flags(manifests: dict[tuple[str, str], Any], stem: str) -> None:
    provider, nodes = AUTOSCALERS[stem]
    ours = dict(flag.removeprefix("--").split("=", 1) for flag in container(manifests, stem)["args"])
    charts = {key: value.format(provider=provider, nodes=nodes) for key, value in CHART["flags"].items()}
    assert set(charts) - set(ours) == set(CHART["leftOut"]["flags"])
    assert set(ours) - set(charts) <= set(CHART["added"]["flags"])
    assert {key: ours[key] for key in charts if key in ours} == {key: charts[key] for key in charts if key in ours}


def test_environment(manifests: dict[tuple[str, str], Any], stem: str) -> None:
    ours = {one["name"]: one for one in container(manifests, stem)["env"]}
    charts = {*CHART["env"]["any"], *CHART["env"][AUTOSCALERS[stem][0]]}
    assert charts - set(ours) == charts & set(CHART["leftOut"]["env"])
    assert set(ours) - charts <= set(CHART["added"]["env"])
    secret = {name for name, one in ours.items() if "secretKeyRef" in one.get("valueFrom", {})}
    assert {"ARM_CLIENT_SECRET", "ACCESS_KEY_SECRET"} & set(ours) <= secret


def test_every_explanation_is_of_use(manifests: dict[tuple[str, str], Any]) -> None:
    """A difference that is no longer there must leave the table."""
    flags = {flag.removeprefix("--").split("=")[0] for s in AUTOSCALERS for flag in container(manifests, s)["args"]}
    names = {one["name"] for s in AUTOSCALERS for one in container(manifests, s)["env"]}
    assert set(CHART["added"]["flags"]) <= flags
    assert set(CHART["added"]["env"]) <= names
    assert not set(CHART["leftOut"]["env"]) & names


def test_health_check_is_the_charts(manifests: dict[tuple[str, str], Any], stem: str) -> None:
    probe = container(manifests, stem)["livenessProbe"]["httpGet"]
    assert (probe["path"], probe["port"]) == ("/health-check", 8085)
    assert manifests["Deployment", stem]["spec"]["template"]["spec"]["priorityClassName"] == "system-cluster-critical"
    budget = manifests["PodDisruptionBudget", stem]["spec"]
    assert budget["maxUnavailable"] == 1


def test_cozystack_gets_values_that_the_chart_has(manifests: dict[tuple[str, str], Any]) -> None:
    spec = manifests["Package", "cozystack.cluster-autoscaler-azure"]["spec"]
    values = spec["components"]["cluster-autoscaler-azure"]["values"]["cluster-autoscaler"]
    assert set(values) <= set(CHART["values"])
