"""``python -m lab cloud``: shows the simulated clouds, changes them behind Pulumi's back, plans faults."""

import dataclasses
import importlib
import json
import shutil
import sys
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .cloud_actions import Action
from .places import Places, places
from .session import PACKAGES, exclusive
from .world import ACTIONS as FAULTS
from .world import CloudError, Event, Fault, Record, World

app = typer.Typer(
    help="The simulated clouds of the lab.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_OPERATIONS = ("create", "update", "delete", "read", "invoke")
_SHOWN = ("name", "address", "capacity", "size", "status", "state", "provisioningState")
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _fail(message: str) -> typer.Exit:
    print(f"lab: {message}", file=sys.stderr)
    return typer.Exit(2)


def _modules() -> dict[str, ModuleType]:
    return {name: importlib.import_module(f"lab.{name}") for name in PACKAGES}


def actions() -> dict[str, Action]:
    """Return what can be done to the clouds behind Pulumi's back, by ``<cloud>:<action>``."""
    return {
        f"{name}:{action}": work
        for name, module in _modules().items()
        for action, work in getattr(module, "ACTIONS", {}).items()
    }


def find_action(name: str) -> Action:
    """Return an action by its whole name, or by the part after the colon where only one cloud has it.

    Raises:
        KeyError: there is none, or there are several; the message says so.
    """
    known = actions()
    fitting = [key for key in known if name in (key, key.partition(":")[2])]
    if not fitting:
        raise KeyError(f"there is no action {name}; known: {', '.join(sorted(known))}")
    if len(fitting) > 1:
        raise KeyError(f"which {name}: {' or '.join(sorted(fitting))}?")
    return known[fitting[0]]


def summary(doc: dict[str, Any]) -> str:
    """Return a record in a few words; only fields that never hold a secret."""
    shown = [f"{key}={doc[key]}" for key in _SHOWN if isinstance(doc.get(key), (str, int)) and doc[key] != ""]
    sku = doc.get("sku")
    if isinstance(sku, dict) and "capacity" in sku:
        shown.append(f"capacity={sku['capacity']}")
    return " ".join(shown)


def _print(value: Any) -> None:
    print(json.dumps(value, indent=2, sort_keys=True))


def _table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    if not sys.stdout.isatty():  # for other programs: a line each, nothing cut or padded
        for row in rows:
            print("\t".join(row))
        return
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _short(id: str) -> str:
    """Return an id as a person reads it: of a long path in Azure the last two parts."""
    return f"…/{'/'.join(id.split('/')[-2:])}" if id.startswith("/subscriptions/") and sys.stdout.isatty() else id


@app.command("ls")
def ls(
    package: Annotated[str | None, typer.Option(help="Only of this provider, such as azure-native.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only of this kind, such as VirtualMachineScaleSet.")] = None,
    events: Annotated[bool, typer.Option("--events", help="What was done, in order, instead.")] = False,
    faults: Annotated[bool, typer.Option("--faults", help="Planned faults instead.")] = False,
    docs: Annotated[
        bool, typer.Option("--docs", help="With --json: whole records, but for Secrets of Kubernetes.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """List what the clouds hold, oldest first. Works while another command is at work on them."""
    world = World(places().lab)
    try:
        if events:
            _ls_events([e for e in world.events() if package in (None, e.package)], as_json)
        elif faults:
            _ls_faults(world.faults(), as_json)
        else:
            records = [r for r in world.find(package) if kind is None or r.kind.rsplit(":", 1)[-1] == kind]
            _ls_records(records, as_json=as_json, docs=docs)
    finally:
        world.close()


def _ls_records(records: list[Record], *, as_json: bool, docs: bool) -> None:
    if as_json:
        private = frozenset().union(*(getattr(m, "PRIVATE_KINDS", ()) for m in _modules().values())) if docs else ()
        shown = []
        for record in records:
            fields = dataclasses.asdict(record)
            if not docs or record.kind in private:
                del fields["doc"]
            shown.append(fields)
        _print(shown)
        return
    rows = [[r.package, r.kind, _short(r.id), summary(r.doc)] for r in records]
    _table(f"{len(rows)} things", ["provider", "kind", "id", ""], rows)


def _ls_events(events: list[Event], as_json: bool) -> None:
    if as_json:
        _print([dataclasses.asdict(event) for event in events])
        return
    rows = [[str(e.n), e.op, e.kind, _short(e.id), e.note] for e in events]
    _table(f"{len(rows)} events", ["n", "did", "kind", "id", "name"], rows)


def _ls_faults(faults: list[Fault], as_json: bool) -> None:
    if as_json:
        _print([dataclasses.asdict(fault) for fault in faults])
        return
    rows = [
        [f"{f.op} {f.kind}", str(f.nth), f.action, f"{f.seconds:g} s", str(f.seen), "yes" if f.done else "no"]
        for f in faults
    ]
    _table(f"{len(rows)} planned faults", ["call", "nth", "does", "delay", "seen", "struck"], rows)


@app.command("set", context_settings={"ignore_unknown_options": True})
def set_(
    action: Annotated[str | None, typer.Argument(help="What to do; without it, the actions are listed.")] = None,
    words: Annotated[list[str] | None, typer.Argument(help="What the action needs, such as a name.")] = None,
) -> None:
    """Change a cloud behind Pulumi's back, as an autoscaler, a person or a failure would."""
    if action is None:
        print("\n".join(sorted(actions())))
        return
    try:
        work = find_action(action)
    except KeyError as error:
        raise _fail(str(error.args[0])) from None
    world = World(places().lab)
    try:
        print(work(world, list(words or [])))
    except CloudError as error:
        raise _fail(f"{action}: {error}") from error
    finally:
        world.close()


@app.command("fail")
def fail(
    operation: Annotated[str, typer.Argument(help="create, update, delete, read or invoke.")],
    kind: Annotated[str, typer.Argument(help="A type token or its last part, such as VirtualMachineScaleSet.")],
    nth: Annotated[int, typer.Option(help="Which call from now on, counted from 1.")] = 1,
    action: Annotated[str, typer.Option(help=f"One of {', '.join(FAULTS)}.")] = "fail",
    seconds: Annotated[float, typer.Option(help="How long the call takes before that, at most 600.")] = 0.0,
    message: Annotated[str, typer.Option(help="What the cloud says.")] = "",
) -> None:
    """Plan a fault: the nth such call from now fails, is slow, loses its answer or finds no stock."""
    if operation not in _OPERATIONS:
        raise _fail(f"there is no operation {operation}; known: {', '.join(_OPERATIONS)}")
    world = World(places().lab)
    try:
        world.plan_fault(operation, kind, action, nth=nth, seconds=seconds, message=message)
    except ValueError as error:
        raise _fail(str(error)) from error
    finally:
        world.close()
    print(f"planned: {action} at call {nth} of {operation} {kind}")


@app.command("reset")
def reset(
    everything: Annotated[
        bool, typer.Option("--all", help="Forget the stacks too; else they find their things gone.")
    ] = False,
) -> None:
    """Empty the simulated clouds, with planned faults and the event log."""
    where = places()
    with exclusive(where, "cloud reset"):
        _reset(where, everything)
    print("the clouds are empty" + (", the stacks are forgotten" if everything else ""))


def _reset(where: Places, everything: bool) -> None:
    world = World(where.lab)
    try:
        world.reset()
    finally:
        world.close()
    for folder in (where.lab / "blobs", where.lab / "oss"):
        shutil.rmtree(folder, ignore_errors=True)
    if where.azurite.is_dir():
        shutil.rmtree(where.azurite)
        where.azurite.mkdir()
    if everything:
        for folder in (where.state, where.run, where.home):
            shutil.rmtree(folder, ignore_errors=True)
