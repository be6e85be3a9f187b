"""``python -m stacks.discover 192.0.2.11 ...``: disks and links of machines that wait for their configuration.

Prints settings to paste below `cluster.controlPlanes` or `cluster.workers`, and changes nothing.
"""

import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import AddressValueError, IPv4Address
from typing import Annotated

import typer
from hybrid_talos.talos_calls import NotOfThisCluster, TalosError, Unreachable
from hybrid_talos.talosctl_run import Talosctl
from hybrid_talos.work_provider import WorkError
from rich.console import Console
from rich.table import Table

from .discovery import Machine, NotUnderstoodError, look, settings_of

SECONDS = 20.0
"""For each of the looks at a machine."""

_APID = 50000
"""Port of the Talos API."""

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


class DiscoverError(Exception):
    """A machine that cannot be looked at; the message says why and what to do."""


def discover(talosctl: Talosctl, endpoint: str, *, static: bool) -> Machine:
    """Return what the machine at an address, or address:port, is made of; its routes only for ``static`` addresses."""
    address = endpoint.partition(":")[0]
    configured = (
        f"{endpoint} is not in maintenance mode: it has a configuration already and asks for credentials. Next: look "
        f"at it with `talosctl --talosconfig talosconfig -n {address} get disks`, or reset it if it is to start anew"
    )
    try:
        return look(
            address,
            lambda kind: talosctl.insecure(["get", kind, "-o", "json"], endpoint=endpoint, seconds=SECONDS),
            static=static,
        )
    except NotOfThisCluster:
        raise DiscoverError(configured) from None
    except Unreachable:
        # A server that wants a certificate ends the connection, which the client may see before the reason.
        if _listens(endpoint):
            raise DiscoverError(configured) from None
        raise DiscoverError(
            f"{endpoint} does not answer. Next: see that it has booted a Talos image, that its console shows this "
            "address, and that TCP port 50000 is reached from here"
        ) from None
    except NotUnderstoodError:
        raise DiscoverError(f"{endpoint} answers in a form that is not known here: try a newer talosctl") from None
    except TalosError as error:
        raise DiscoverError(f"{endpoint}: {error}") from None


def _listens(endpoint: str) -> bool:
    address, _, port = endpoint.partition(":")
    try:
        with socket.create_connection((address, int(port or _APID)), timeout=5):
            return True
    except OSError:
        return False


def _checked(endpoints: list[str]) -> list[str]:
    for endpoint in endpoints:
        address, colon, port = endpoint.partition(":")
        try:
            IPv4Address(address)
            fine = not colon or 1 <= int(port) <= 65535
        except (AddressValueError, ValueError):
            fine = False
        if not fine:
            raise typer.BadParameter(f"{endpoint}: must be an IPv4 address, such as 192.0.2.11")
    return list(dict.fromkeys(endpoints))


@app.command()
def main(
    addresses: Annotated[list[str], typer.Argument(help="Addresses of machines in maintenance mode.")],
    prefix: Annotated[str, typer.Option(help="The machines are named PREFIX-1, PREFIX-2, ...")] = "node",
    static: Annotated[
        bool, typer.Option("--static", help="Write the addresses that they have now as static ones.")
    ] = False,
) -> None:
    """Print disks and links of machines in maintenance mode as settings to paste."""
    notes = Console(stderr=True, highlight=False)
    endpoints = _checked(addresses)
    try:
        talosctl = Talosctl({})
    except WorkError as error:
        notes.print(f"discover: {error}", style="bold red")
        raise typer.Exit(2) from None

    def attempt(endpoint: str) -> Machine | DiscoverError:
        try:
            return discover(talosctl, endpoint, static=static)
        except DiscoverError as error:
            return error

    with ThreadPoolExecutor(max_workers=8) as pool:
        found = list(pool.map(attempt, endpoints))
    machines = [machine for machine in found if isinstance(machine, Machine)]
    if machines:
        notes.print(_table(machines))
    for number, machine in enumerate(found, start=1):
        if isinstance(machine, Machine):
            typer.echo(settings_of(machine, f"{prefix}-{number}", static=static), nl=False)
        else:
            notes.print(f"discover: {machine}", style="red", markup=False)
    if len(machines) < len(found):
        raise typer.Exit(1)


def _table(machines: list[Machine]) -> Table:
    table = Table(box=None, header_style="bold")
    for column in ("machine", "disks", "links"):
        table.add_column(column)
    for machine in machines:
        disks = "\n".join(disk.words for disk in machine.disks)
        table.add_row(machine.address, disks, "\n".join(link.words for link in machine.links))
    return table


if __name__ == "__main__":
    app()
