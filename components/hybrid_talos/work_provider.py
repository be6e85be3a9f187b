"""The shell of this library's custom resources: stable for ever, so that changed code is no changed resource.

Pulumi pickles the provider of a dynamic resource into the state, by module and class name; see
docs/adr/0001-custom-resources.md for what follows from that. The work itself stands in a module of its own
that the shell imports when it is called.
"""

import importlib
import sys
import threading
import traceback
from types import SimpleNamespace
from typing import Any, ClassVar

from pulumi.dynamic import (
    CheckFailure,
    CheckResult,
    CreateResult,
    DiffResult,
    ReadResult,
    ResourceProvider,
    UpdateResult,
)
from pulumi.output import Unknown

# The host calls several resources at once, and Python hands half-made modules to a thread when two threads import
# packages that need each other (python/cpython Lib/importlib/_bootstrap.py, _ModuleLock.acquire).
_IMPORTS = threading.Lock()


class WorkError(Exception):
    """Work that cannot be done. The message says what to do next, and holds no secret."""


class WorkProvider(ResourceProvider):
    """Calls ``check``, ``diff``, ``create``, ``read``, ``update`` and ``delete`` of a module of this package.

    A subclass names the module and does nothing else. All of its instances are alike: nothing of an instance
    goes into the state. The functions take and return plain dictionaries, except ``diff``.
    """

    # The pickle holds two names and nothing that was captured; as a secret it would only hide that.
    serialize_as_secret_always = False

    work: ClassVar[str]
    """Module of this package that does the work."""

    def check(self, _olds: dict[str, Any], news: dict[str, Any]) -> CheckResult:
        """Return what is wrong with the inputs; unknown ones are left alone.

        A module with ``planned`` sees the old inputs too: it may fill in an input that tells in a preview what will
        happen, and refuse a step from the old ones to the new ones.
        """
        problems: dict[str, str] = self._do("check", news)
        if not problems and hasattr(self._module(), "planned"):
            news, problems = self._do("planned", _olds, news)
        return CheckResult(news, [CheckFailure(key, reason) for key, reason in problems.items()])

    def diff(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> DiffResult:
        """Say whether the inputs change or replace the resource."""
        result: DiffResult = self._do("diff", _olds, _news)
        return result

    def create(self, props: dict[str, Any]) -> CreateResult:
        """Make the resource."""
        identity, outputs = self._do("create", props)
        return CreateResult(identity, outputs)

    def read(self, id_: str, props: dict[str, Any]) -> ReadResult:
        """Look at the resource; one that is gone has an empty id, which the engine takes for deleted."""
        outputs: dict[str, Any] | None = self._do("read", props)
        # None as outputs, or None as id, would make the provider host fail.
        return ReadResult("", {}) if outputs is None else ReadResult(id_, outputs)

    def update(self, _id: str, _olds: dict[str, Any], _news: dict[str, Any]) -> UpdateResult:
        """Change the resource in place."""
        return UpdateResult(self._do("update", _olds, _news))

    def delete(self, _id: str, _props: dict[str, Any]) -> None:
        """Remove the resource; one that is gone already is no error."""
        self._do("delete", _props)

    def _module(self) -> Any:
        with _IMPORTS:
            return importlib.import_module(f".{self.work}", __package__)

    def _do(self, operation: str, *arguments: dict[str, Any]) -> Any:
        module = self._module()
        try:
            return getattr(module, operation)(*arguments)
        except WorkError as error:
            _say_no_more_than_the_message()
            raise WorkError(str(error)) from None


def _say_no_more_than_the_message() -> None:
    """Let Pulumi's host of dynamic providers send the message of a WorkError without a traceback.

    The host (pulumi.dynamic.__main__, `_abort_with_traceback`) sends what its `traceback.format_exc` gives, whatever
    the error: its own frames first and the message last, so that the line that the engine shows while it runs says
    "Traceback" and nothing else. An error that is none of ours keeps its traceback.
    """
    host = sys.modules.get("__main__")
    if getattr(getattr(host, "__spec__", None), "name", "") != "pulumi.dynamic.__main__":
        return
    host.traceback = SimpleNamespace(format_exc=_said)  # type: ignore[union-attr]


def _said() -> str:
    error = sys.exc_info()[1]
    return str(error) if isinstance(error, WorkError) else traceback.format_exc()


def is_unknown(value: object) -> bool:
    """Tell whether a value of an input is not known yet, as in a preview."""
    return isinstance(value, Unknown)


def changed(key: str, olds: dict[str, Any], news: dict[str, Any]) -> bool:
    """Tell whether an input may differ from what the state holds; what is unknown may."""
    return is_unknown(news.get(key)) or news.get(key) != olds.get(key)
