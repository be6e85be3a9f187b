"""Fixtures of the lab's tests."""

from pathlib import Path

import pytest
from lab_folder import ROOT, Lab


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def hybrid(folder: Path) -> Lab:
    """A lab with the example's settings, nothing built yet."""
    return Lab(folder, "dev", ROOT / "Pulumi.dev.yaml")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/lab" in str(item.path):
            item.add_marker(pytest.mark.lab)
