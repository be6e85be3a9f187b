"""The settings' page says what the settings' types say."""

from pathlib import Path

from stacks.settings_page import page

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_the_one_that_the_types_give() -> None:
    assert (ROOT / "docs" / "settings.md").read_text() == page(), "run `make docs`"


def test_every_key_has_a_meaning() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) > 80
    assert [row for row in rows if not row.rsplit("|", 2)[1].strip()] == []
