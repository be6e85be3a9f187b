"""``python -m stacks.backup``: snapshots of etcd, encrypted, in a folder or in a cloud's object storage.

    python -m stacks.backup take backups --stack prod --age age1...
    python -m stacks.backup take https://account.blob.core.windows.net/backups --age age1... --keep 30
    python -m stacks.backup list oss://backups/prod --oss-region cn-hangzhou
    python -m stacks.backup prune backups --cluster prod --keep 30

The snapshot goes from talosctl through age to its place, in the clear on no disk and in no argument. No private key is
needed.
"""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from hybrid_talos import snapshot_store
from hybrid_talos.snapshot_place import store_at
from hybrid_talos.snapshot_store import Store, name_of, of_cluster
from hybrid_talos.snapshot_stream import encrypted_snapshot, recipients_of
from hybrid_talos.talos_calls import Machine, TalosError
from hybrid_talos.talosctl_api import TalosctlApi
from hybrid_talos.talosctl_run import Talosctl
from hybrid_talos.work_provider import WorkError

from .cluster_access import Access, AccessError, access

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, help=__doc__)

Place = Annotated[
    str,
    typer.Argument(
        help="A folder, https://<account>.blob.core.windows.net/<container>[/<folder>] or oss://<bucket>[/<folder>]."
    ),
]
StackName = Annotated[str | None, typer.Option(help="The stack that built the cluster; the selected one if left out.")]
TalosConfig = Annotated[
    str | None, typer.Option(help="A talosconfig in place of a stack; `-` reads it from standard input.")
]
OssRegion = Annotated[str | None, typer.Option(help="Region of the bucket, such as cn-hangzhou.")]
OssEndpoint = Annotated[
    str | None, typer.Option(help="Address of OSS (https://...), where it is not the region's public one.")
]
Keep = Annotated[int, typer.Option(min=1, help="How many of the cluster's newest snapshots stay; the others go.")]


def take(found: Access, store: Store, keys: Sequence[str]) -> str:
    """Take a snapshot from a healthy control plane and keep it; return its name.

    Raises:
        WorkError: it could not be taken or kept; nothing half is left.
    """
    talosctl = Talosctl(found.credentials)
    machine = healthy(found, TalosctlApi(found.credentials, found.members))
    name = name_of(found.cluster)
    with closing(encrypted_snapshot(talosctl, machine, keys)) as content:
        store.put(name, content)
    return name


def healthy(found: Access, talos: TalosctlApi) -> Machine:
    """Return the first control plane by name whose etcd works; WorkError with what each lacks."""
    lacks = []
    for machine in sorted(found.members, key=lambda one: one.name):
        try:
            problem = talos.etcd_problem(machine)
        except TalosError as error:
            problem = str(error)
        if not problem:
            return machine
        lacks.append(f"{machine.name}: {problem}")
    raise WorkError(
        f"no control plane has a healthy etcd: {'; '.join(lacks)}. Next: repair one, or go back to an older snapshot "
        "(docs/backup-and-restore.md)"
    )


def recipients(age: Sequence[str], file: Path | None) -> list[str]:
    """Return the public keys that were given, by themselves or in a file as age takes it (`age -R`)."""
    keys = list(age)
    if file is not None:
        try:
            lines = [line.strip() for line in file.read_text().splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is no text"
            raise WorkError(f"{file} cannot be read: {reason}") from None
        keys += [line for line in lines if line and not line.startswith("#")]
    recipients_of(keys)
    return keys


@app.command("take")
def take_command(
    place: Place,
    age: Annotated[
        list[str] | None, typer.Option(help="Public key (age1...) of somebody who may read it. May be repeated.")
    ] = None,
    recipients_file: Annotated[Path | None, typer.Option(help="A file with public keys, one a line.")] = None,
    stack: StackName = None,
    talosconfig: TalosConfig = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Afterwards, delete all of the cluster's snapshots but so many.")
    ] = None,
    oss_region: OssRegion = None,
    oss_endpoint: OssEndpoint = None,
) -> None:
    """Take a snapshot of etcd now."""
    try:
        keys = recipients(age or (), recipients_file)
        store = store_at(place, oss_region, oss_endpoint)
        found = access(stack, talosconfig)
        name = take(found, store, keys)
        # On standard output the name alone, for programs.
        typer.echo(name)
        typer.echo(f"kept in {store.where}", err=True)
        if keep is not None:
            _prune(store, found.cluster, keep)
    except (WorkError, AccessError) as error:
        _fail(error)


@app.command("list")
def list_command(
    place: Place,
    cluster: Annotated[str | None, typer.Option(help="Only snapshots of this cluster.")] = None,
    oss_region: OssRegion = None,
    oss_endpoint: OssEndpoint = None,
) -> None:
    """List the snapshots that are kept, the newest of each cluster first."""
    try:
        kept = store_at(place, oss_region, oss_endpoint).names()
    except WorkError as error:
        _fail(error)
    for name in sorted({one.cluster for one in kept} if cluster is None else {cluster}):
        for one in of_cluster(kept, name):
            typer.echo(f"{one.name}\t{one.size}")


@app.command("prune")
def prune_command(
    place: Place,
    cluster: Annotated[str, typer.Option(help="The cluster whose snapshots are looked at.")],
    keep: Keep,
    oss_region: OssRegion = None,
    oss_endpoint: OssEndpoint = None,
) -> None:
    """Delete a cluster's old snapshots."""
    try:
        _prune(store_at(place, oss_region, oss_endpoint), cluster, keep)
    except WorkError as error:
        _fail(error)


def _prune(store: Store, cluster: str, keep: int) -> None:
    for name in snapshot_store.prune(store, cluster, keep):
        typer.echo(f"deleted {name}", err=True)


def _fail(error: Exception) -> NoReturn:
    typer.echo(f"backup: {error}", err=True)
    raise typer.Exit(1) from None


if __name__ == "__main__":
    app()
