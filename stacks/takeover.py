"""``python -m stacks.takeover --stack prod --secrets secrets.yaml --talosconfig talosconfig``.

Brings a cluster that was made by hand under management without touching it: puts its secrets into an empty stack, and
shows machine by machine what the first `pulumi up` would change. No machine is changed by this command.
"""

from pathlib import Path
from typing import Annotated

import typer
from hybrid_talos.talos_calls import Machine, TalosError
from hybrid_talos.work_provider import WorkError

from . import takeover_files
from .secrets_bundle import BundleError, secret_texts
from .settings import load
from .settings_cluster import ClusterSettings
from .settings_errors import SettingsError
from .sops import SopsError
from .stack_state import StateError
from .takeover_engine import Engine, EngineError, read_settings
from .takeover_files import Handmade
from .takeover_machines import Looker, Planned, Verdict, check_answers

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_LINES = 40


def look(handmade: Handmade, planned: list[Planned], talos_version: str) -> tuple[list[Verdict], list[str]]:
    """Return what each machine says to its configuration, and the etcd members that the settings do not have.

    Raises:
        WorkError: there is no talosctl, or the first control plane does not answer.
    """
    hidden = [*secret_texts(handmade.bundle), *handmade.credentials.values()]
    looker = Looker(handmade.credentials, planned, hidden)
    verdicts = [looker.look(each, talos_version) for each in planned]
    try:
        strangers = looker.strangers()
    except TalosError as error:
        raise WorkError(f"etcd's members cannot be listed, so it is not known whether all are there: {error}") from None
    return verdicts, strangers


def _control_planes(cluster: ClusterSettings) -> list[Machine]:
    found = []
    for machine in cluster.control_planes:
        address = str(machine.address)
        found.append(
            Machine(machine.name, address, cluster.endpoints.talos.get(address, str(machine.public_address or address)))
        )
    return found


def _say(verdict: Verdict) -> None:
    if verdict.fine:
        typer.echo(f"{verdict.name} ({verdict.address}): nothing would change")
        return
    if verdict.problem:
        typer.echo(f"{verdict.name} ({verdict.address}): cannot be looked at: {verdict.problem}")
        return
    reboot = ", and the machine would reboot" if verdict.reboots else ""
    typer.echo(f"{verdict.name} ({verdict.address}): {len(verdict.lines)} would change{reboot}")
    for line in verdict.lines[:_LINES]:
        typer.echo(f"  {line}")
    if len(verdict.lines) > _LINES:
        typer.echo(f"  and {len(verdict.lines) - _LINES} more")


@app.command()
def main(
    stack: Annotated[str, typer.Option(help="The stack: a new one, made with `pulumi stack init`.")],
    secrets: Annotated[Path, typer.Option(help="secrets.yaml of the cluster, plain or encrypted with sops.")],
    talosconfig: Annotated[Path, typer.Option(help="Its talosconfig, plain or encrypted with sops.")],
    context: Annotated[str | None, typer.Option(help="Context of the talosconfig; its own choice if left out.")] = None,
    config_file: Annotated[
        Path | None, typer.Option(help="Configuration of the stack; Pulumi.<stack>.yaml if left out.")
    ] = None,
) -> None:
    """Put the secrets of a cluster that exists into a stack, and show what the first `pulumi up` would change."""
    path = config_file or Path(f"Pulumi.{stack.rpartition('/')[2]}.yaml")
    try:
        handmade = takeover_files.read(secrets, talosconfig, context)
        # Whatever is wrong with the settings is said before anything is put anywhere.
        settings = load(*read_settings(path))
        check_answers(handmade.credentials, _control_planes(settings.cluster))
        engine = Engine(stack, path)
        if not engine.is_taken(engine.state(), handmade.bundle):
            engine.put_secrets(handmade.bundle)
            typer.echo(f"the cluster's secrets are in stack {stack}, encrypted")
        verdicts, strangers = look(
            handmade, engine.plan(settings.cluster.endpoints.talos), settings.cluster.talos_version
        )
    except (BundleError, SopsError, StateError, EngineError, SettingsError, WorkError) as error:
        typer.echo(f"takeover: {error}", err=True)
        raise typer.Exit(2) from None
    for verdict in verdicts:
        _say(verdict)
    for stranger in strangers:
        typer.echo(f"{stranger}: is a member of etcd, and no control plane of the settings")
    if strangers or not all(verdict.fine for verdict in verdicts):
        typer.echo(
            "Next: change the settings (cluster.configPatches takes what has no key) until nothing would change, and "
            "run this again; or accept what is shown. Nothing was changed on any machine.",
            err=True,
        )
        raise typer.Exit(1)
    typer.echo(f"Next: pulumi up --stack {stack}. It makes records and changes no machine.", err=True)


if __name__ == "__main__":
    app()
