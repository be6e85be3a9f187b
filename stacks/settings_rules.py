"""The rules between the keys of the settings. Each finds its problems on its own."""

from collections.abc import Iterable, Iterator

from . import settings_rules_autoscaler as autoscaler
from . import settings_rules_cluster as cluster
from . import settings_rules_endpoint as endpoint
from . import settings_rules_image as image
from . import settings_rules_machines as machines
from . import settings_rules_mesh as mesh
from . import settings_rules_pools as pools
from . import settings_rules_ranges as ranges
from . import settings_rules_rolling as rolling
from .settings_base import UnparsedError
from .settings_errors import Problem
from .settings_rules_stack import sections
from .settings_tree import Tree


def _rules(stack: str | None, tree: Tree) -> Iterator[Iterable[Problem]]:
    if stack is not None:
        yield sections(stack, tree)
    yield from cluster.rules(tree)
    yield from endpoint.rules(tree)
    yield from machines.rules(tree)
    yield from image.rules(tree)
    yield from mesh.rules(tree)
    yield from ranges.rules(tree)
    yield from pools.rules(tree)
    yield from autoscaler.rules(tree)
    yield from rolling.rules(tree)


def problems_between(stack: str | None, tree: Tree, *, whole: bool) -> list[Problem]:
    """Return what is wrong between the keys.

    Args:
        stack: the composition; None when it is not known, and then what it needs is not asked.
        tree: the settings; ``whole`` is False when some of their fields did not parse.
        whole: whether every field is there. If not, a rule says what it finds until it needs a missing one.
    """
    problems: list[Problem] = []
    for rule in _rules(stack, tree):
        try:
            # One by one, so that what a rule found before it met a missing field is kept.
            for problem in rule:
                problems.append(problem)  # noqa: PERF402
        except UnparsedError:
            if whole:
                raise
    return problems
