"""The program of the benchmark of components still runs in each of its ways; nothing is timed here."""

from pathlib import Path

import pytest

from bench.components import once


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
