"""The program of the benchmark of components still runs in each of its ways; nothing is timed here."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.components import growth, once


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Return the file of what the hybrid stack declares with one pool in each cloud, and how much that is."""
    file = tmp_path_factory.mktemp("bench") / "resources.json"
    _, _, printed = once("record", "1", str(file))
    return file, int(printed["resources"])


@pytest.mark.parametrize("mode", ["components", "raw"])
def test_both_ways_declare_the_same_number_of_resources(mode: str, recorded: tuple[Path, int]) -> None:
    file, resources = recorded
    assert resources > 50
    _, memory, printed = once(mode, "1", str(file))
    assert int(printed["resources"]) == resources
    assert memory > 0


def test_another_label_of_one_pool_among_several_changes_only_that_pool(tmp_path: Path) -> None:
    before, after = declared(tmp_path, 3), declared(tmp_path, 3, "w001")
    assert before.keys() == after.keys()
    assert {name for name in before if before[name] != after[name]} == {"azure-w001-scale-set"}


def declared(folder: Path, pools: int, changed: str = "") -> dict[str, Any]:
    """Return the class and the arguments of every resource of the hybrid stack, by name."""
    file = folder / f"{changed}.json"
    once("record", str(pools), str(file), changed)
    return {name: [module, cls, arguments] for module, cls, name, arguments in json.loads(file.read_text())}


def test_growth_is_that_of_one_more_pool() -> None:
    found = growth({200: 30.0, 2: 10.0, 20: 11.8})
    assert found.few == pytest.approx(0.1)
    assert found.many == pytest.approx(18.2 / 180)
    assert found.ratio == pytest.approx(1.0111, abs=1e-4)
