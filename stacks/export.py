"""``python -m stacks.export --age age1... --stack prod``: the credentials of a cluster as encrypted files.

Takes talosconfig, kubeconfig and the machine secrets out of a stack's state and writes each as a file of sops that the
named recipients can read. Nothing of them is written in clear, and no private key is needed.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from hybrid_talos._contract import BadInputs
from hybrid_talos.talos_yaml import load

from . import private_file, sops, stack_state
from .secrets_bundle import BundleError, bundle_of
from .sops import SopsError
from .stack_state import CONTROL_PLANE, SECRETS, StackState, StateError

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

FILES = ("secrets.sops.yaml", "talosconfig.sops.yaml", "kubeconfig.sops.yaml")


def documents(state: StackState) -> dict[str, dict[str, Any]]:
    """Return what is exported of a stack, by the name of the file.

    Raises:
        StateError: the stack has no cluster of its own, or it is not up yet.
        BundleError: the secrets in the state are not complete.
    """
    secrets = state.of_type(SECRETS)
    if not secrets:
        raise StateError(
            "the stack has no machine secrets: only stacks that build a cluster do (hybrid-talos:stack: cluster or "
            "hybrid). Next: name that one with --stack"
        )
    clusters = {str(resource.get("parent") or resource.get("urn")) for resource in secrets}
    if len(clusters) > 1:
        names = ", ".join(sorted(str(resource.get("urn", "")).rpartition("::")[2] for resource in secrets))
        raise StateError(f"the stack has the machine secrets of several clusters ({names}); this takes one")
    return {
        "secrets.sops.yaml": bundle_of(_in_use(state, secrets)),
        "talosconfig.sops.yaml": _document(state, "talosconfig"),
        "kubeconfig.sops.yaml": _document(state, "kubeconfig"),
    }


def _in_use(state: StackState, secrets: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the secrets of the one cluster: its only set, or those that its control plane puts together of several."""
    if len(secrets) == 1:
        found = (secrets[0].get("outputs") or {}).get("machineSecrets")
    else:
        # A rotation has sets of its own (docs/rotation.md), and not all of each is in use.
        planes = [each for each in state.of_type(CONTROL_PLANE) if each.get("urn") == secrets[0].get("parent")]
        found = (planes[0].get("outputs") or {}).get("machineSecrets") if planes else None
    if not isinstance(found, Mapping):
        raise StateError("the stack has no complete machine secrets yet. Next: run `pulumi up` to its end")
    return found


def _document(state: StackState, output: str) -> dict[str, Any]:
    text = state.outputs.get(output)
    if not isinstance(text, str) or not text:
        raise StateError(f"the stack has no output {output} yet. Next: run `pulumi up` to its end")
    try:
        (found,) = load(text, f"output {output}")
    except (BadInputs, ValueError):
        raise StateError(f"the stack's output {output} is not readable") from None
    return found


def export(state: StackState, recipients: Sequence[str], folder: Path) -> list[Path]:
    """Write the encrypted files of a stack to a folder; return their paths.

    Raises:
        StateError, BundleError, SopsError: naming what is wrong and what to do; nothing was written.
        OSError: the folder cannot be written to.
    """
    # All are encrypted before the first is written, so that files of different times do not stand side by side.
    encrypted = {name: sops.encrypt(document, recipients) for name, document in documents(state).items()}
    for name, content in encrypted.items():
        private_file.write(folder / name, content)
    return [folder / name for name in encrypted]


@app.command()
def main(
    age: Annotated[
        list[str], typer.Option(help="Public key (age1...) of somebody who may read the files. May be repeated.")
    ],
    stack: Annotated[str | None, typer.Option(help="The stack; the selected one if left out.")] = None,
    state: Annotated[
        str | None, typer.Option(help=f"`-` to read what `{stack_state.HOW}` prints from standard input.")
    ] = None,
    folder: Annotated[Path, typer.Option(help="Where the files are written.")] = Path("secrets"),
) -> None:
    """Write talosconfig, kubeconfig and machine secrets of a stack as files encrypted with sops and age."""
    if state not in (None, "-"):
        # A file with the secrets in clear is what this command is there to avoid.
        raise typer.BadParameter("must be `-`: the state is read from standard input, never from a file")
    if state is not None and stack is not None:
        raise typer.BadParameter("--stack and --state exclude each other")
    try:
        # What is wrong here is said before any secret is asked for.
        sops.check_recipients(age)
        sops.find_sops()
        text = sys.stdin.read() if state == "-" else stack_state.export_state(stack)
        written = export(stack_state.read_state(text), age, folder)
    except (SopsError, StateError, BundleError) as error:
        typer.echo(f"export: {error}", err=True)
        raise typer.Exit(1) from None
    except OSError as error:
        typer.echo(f"export: {folder} cannot be written to: {error.strerror}", err=True)
        raise typer.Exit(1) from None
    for path in written:
        typer.echo(path)
    typer.echo("read one with: SOPS_AGE_KEY_FILE=<private key> sops decrypt <file>", err=True)


if __name__ == "__main__":
    app()
