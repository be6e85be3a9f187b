"""The work of BirthMember: remember which control plane starts the cluster, whatever becomes of the list.

It is recorded before anything is asked of a machine. So a run that was killed around the bootstrap, and then a list in
which another machine comes first, still lead to the same machine.
"""

from typing import Any

from pulumi.dynamic import DiffResult

Properties = dict[str, Any]


def check(_news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs: nothing, they are made by the program."""
    return {}


def diff(_olds: Properties, _news: Properties) -> DiffResult:
    """What was recorded stays."""
    return DiffResult(changes=False, replaces=[])


def create(props: Properties) -> tuple[str, Properties]:
    """Record the machine."""
    return str(props["member"]["name"]), props


def read(props: Properties) -> Properties:
    """Return the record."""
    return props


def update(olds: Properties, _news: Properties) -> Properties:
    """Keep the record."""
    return olds


def delete(_props: Properties) -> None:
    """Do nothing: nothing was made."""
