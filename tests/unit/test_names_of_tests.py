"""Two test files of one name cannot be collected together, and one tier alone does not show it."""

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_every_test_file_has_a_name_of_its_own() -> None:
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []
