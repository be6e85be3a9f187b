"""The settings on the page about a cluster's birth are good ones."""

import re
from typing import Any

import pytest
import yaml
from documents import HERE

from stacks.settings import load

PAGE = (HERE.parents[1] / "docs" / "birth.md").read_text()
BLOCKS: list[dict[str, Any]] = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]
WHOLE, CLOSED, OTHER = BLOCKS


@pytest.mark.parametrize("more", [{}, CLOSED, OTHER], ids=["whole", "closed", "other"])
def test_what_the_page_shows_loads(more: dict[str, Any]) -> None:
    settings = {**more, "cluster": {**WHOLE["cluster"], **more.get("cluster", {})}}
    loaded = load("cluster", settings)
    assert [machine.name for machine in loaded.cluster.control_planes] == ["cp-1", "cp-2", "cp-3"]
    for key in more.get("cluster", {}):
        assert re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key) in loaded.cluster.model_fields_set
