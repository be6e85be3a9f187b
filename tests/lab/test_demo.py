"""Who keeps the page blobs of a demonstration."""

from pathlib import Path

import pytest

from lab import demo
from lab.places import Places
from lab.tool_builds import ToolsMissing


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo.node_tools, "provide", lambda: None)


@pytest.fixture
def no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise ToolsMissing("Node.js 18 or newer with npm is needed (https://nodejs.org/)\nmore")

    monkeypatch.setattr(demo.node_tools, "provide", missing)


@pytest.mark.usefixtures("node")
def test_a_new_lab_has_azurite_and_keeps_it(tmp_path: Path) -> None:
    where = Places(tmp_path / "lab")
    assert demo.page_blobs(where) == "Azurite"
    assert where.azurite.is_dir()
    where.state.mkdir()
    assert demo.page_blobs(where) == "Azurite"


@pytest.mark.usefixtures("no_node")
def test_without_node_the_lab_keeps_them_and_says_so(tmp_path: Path) -> None:
    where = Places(tmp_path / "lab")
    said = demo.page_blobs(where)
    assert said == (
        "the lab's own server of the protocol, in the place of Azurite: Node.js 18 or newer with npm is needed "
        "(https://nodejs.org/)"
    )
    assert not where.azurite.exists()


@pytest.mark.usefixtures("node")
def test_a_lab_that_has_blobs_of_its_own_keeps_them(tmp_path: Path) -> None:
    where = Places(tmp_path / "lab")
    where.state.mkdir(parents=True)
    assert demo.page_blobs(where).startswith("the lab's own server")
    assert not where.azurite.exists()
