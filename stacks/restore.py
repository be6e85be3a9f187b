"""``python -m stacks.restore``: the way back of a cluster whose etcd is lost, from a snapshot that stacks.backup took.

    python -m stacks.restore backups --stack prod --identity key.txt
    python -m stacks.restore oss://backups/prod --oss-region cn-hangzhou --snapshot prod-20260102T030405Z.db.age

The snapshot is decrypted into memory alone. Nothing is asked of a machine before all of it is there and whole, and a
cluster that still lives is never touched unless that is asked for.
"""

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from hybrid_talos.cluster_lock import cluster_lock
from hybrid_talos.cluster_work import Cluster
from hybrid_talos.etcd_recovery import Order, Recovery
from hybrid_talos.kubernetes_nodes import nodes_of
from hybrid_talos.recovery_record import RecoveryRecord
from hybrid_talos.snapshot_key import VARIABLE, PlainSnapshot, identities_of, plain_snapshot
from hybrid_talos.snapshot_place import store_at
from hybrid_talos.snapshot_store import Store, is_snapshot, of_cluster
from hybrid_talos.talosctl_api import TalosctlApi
from hybrid_talos.talosctl_run import Talosctl
from hybrid_talos.work_provider import WorkError

from .backup import OssEndpoint, OssRegion, Place, StackName, TalosConfig
from .cluster_access import Access, AccessError, access

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, help=__doc__)


def chosen(store: Store, cluster: str, name: str | None) -> str:
    """Return the name of the snapshot to take: the cluster's newest if none is given; WorkError without any."""
    if name is not None:
        if not is_snapshot(name):
            raise WorkError(f"{name}: is no name of a snapshot, as `python -m stacks.backup list` shows them")
        return name
    found = of_cluster(store.names(), cluster)
    if not found:
        raise WorkError(
            f"{store.where} has no snapshot of the cluster {cluster}. Next: see what is there with `python -m "
            f"stacks.backup list {store.where}`, and name one with --snapshot"
        )
    return found[0].name


def key_file(given: Path | None) -> Path:
    """Return the file with the private key; WorkError when none is named."""
    if given is not None:
        return given
    named = os.environ.get(VARIABLE)
    if not named:
        raise WorkError(f"the private key of a recipient is needed: --identity FILE, or {VARIABLE}")
    return Path(named)


def restore(found: Access, snapshot: PlainSnapshot, order: Order) -> list[str]:
    """Recover a cluster from a snapshot; return the members of etcd."""
    with cluster_lock(found.credentials["caCertificate"], _say) as lock:
        talos = TalosctlApi(found.credentials, [m for m in found.members if m.name not in order.gone], lock=lock)
        cluster = Cluster(
            talos,
            found.members,
            # Nothing here asks the Kubernetes API.
            nodes=lambda: nodes_of(talos.kubeconfig(found.members[0]), None),
            snapshot=None,
            say=_say,
            warn=_say,
        )
        talosctl = Talosctl(found.credentials, lock=lock)
        record = RecoveryRecord(found.credentials["caCertificate"])
        return list(Recovery(cluster, talosctl, record, order).run())


@app.command()
def main(
    place: Place,
    snapshot: Annotated[
        str | None, typer.Option(help="Name of the snapshot; the cluster's newest if left out.")
    ] = None,
    identity: Annotated[
        Path | None, typer.Option(help=f"File with the private key of age; {VARIABLE} if left out.")
    ] = None,
    stack: StackName = None,
    talosconfig: TalosConfig = None,
    onto: Annotated[str, typer.Option(help="The control plane that begins; the first by name if left out.")] = "",
    gone: Annotated[
        list[str] | None,
        typer.Option(help="A control plane that does not answer and is switched off for good. May be repeated."),
    ] = None,
    discard: Annotated[
        bool, typer.Option("--discard", help="Wipe what control planes still have of etcd (their EPHEMERAL partition).")
    ] = False,
    oss_region: OssRegion = None,
    oss_endpoint: OssEndpoint = None,
) -> None:
    """Start a cluster's etcd anew from a snapshot."""
    try:
        identities = identities_of(key_file(identity))
        store = store_at(place, oss_region, oss_endpoint)
        found = access(stack, talosconfig)
        name = chosen(store, found.cluster, snapshot)
        _say(f"taking {name} of {store.where}")
        with closing(store.get(name)) as pieces, plain_snapshot(name, pieces, identities) as plain:
            order = Order(plain, onto, frozenset(gone or ()), discard, found.configurations)
            members = restore(found, plain, order)
    except (WorkError, AccessError) as error:
        _fail(error)
    _say(f"etcd runs again, with {', '.join(sorted(members))}")
    _say("next: `talosctl health`, then `pulumi up`")


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _fail(error: Exception) -> NoReturn:
    typer.echo(f"restore: {error}", err=True)
    raise typer.Exit(1) from None


if __name__ == "__main__":
    app()
