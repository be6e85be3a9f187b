"""``python -m stacks.doctor --stack prod``: why each pool would or would not scale.

    python -m stacks.doctor --stack prod
    python -m stacks.doctor --stack prod --pool azure/workers --json

Reads the stack, its cluster and its clouds, and writes nothing anywhere. Ends with 1 when something stops scaling, with
2 when nothing does but something could not be looked at, else with 0.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import typer
from hybrid_talos.work_provider import WorkError
from rich.console import Console
from rich.markup import escape

from .diagnosis.examine import examine
from .diagnosis.facts import Cluster, Group, Pool
from .diagnosis.finding import CLUSTER, Finding, Level, ordered, status
from .diagnosis.kubernetes_facts import gather
from .diagnosis.stack import Subject, subject
from .roll import RollError, pulumi, settings_of
from .settings import SettingsError
from .stack_state import StateError, export_state, read_state

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_STYLES = {Level.STOPS: "bold red", Level.HINDERS: "yellow", Level.UNKNOWN: "magenta", Level.FINE: "green"}


def look(found: Subject, names: Sequence[str], kubernetes_server: str | None) -> list[Finding]:
    """Return all findings about the pools of ``names`` and about the cluster."""
    pools = [pool for pool in found.pools if pool.name in names]
    with ThreadPoolExecutor(max_workers=4) as workers:
        asked = {pool.name: workers.submit(_group, pool) for pool in pools}
        cluster, findings = _cluster(found.kubeconfig, kubernetes_server)
        groups: dict[str, Group] = {}
        for name, future in asked.items():
            answer = future.result()
            if isinstance(answer, Finding):
                findings.append(answer)
            else:
                groups[name] = answer
    findings += [one for one in found.findings if one.pool in (*names, CLUSTER)]
    return ordered([*findings, *examine(pools, groups, cluster)])


def _group(pool: Pool) -> Group | Finding:
    """Return what a pool's cloud says of it, or that it says nothing."""
    try:
        # Each cloud's client is loaded only where there is a pool of it.
        if pool.cloud == "azure":
            from .diagnosis.azure_group import azure_group  # noqa: PLC0415

            return azure_group(pool)
        from .diagnosis.aliyun_group import aliyun_group  # noqa: PLC0415

        return aliyun_group(pool)
    except WorkError as error:
        what = str(error)
    except Exception as error:  # noqa: BLE001 - whatever a client ends with, the rest is still worth looking at
        # Not its text, which may hold anything.
        what = f"the group cannot be read ({type(error).__name__})"
    gone = "is gone" in what
    level, why = (Level.STOPS, "there is no group that could grow") if gone else (Level.UNKNOWN, "it may stop the pool")
    return Finding(level, "cloud", what, why, "see that this identity reaches the cloud", pool.name)


def _cluster(kubeconfig: str | None, kubernetes_server: str | None) -> tuple[Cluster | None, list[Finding]]:
    if kubeconfig is None:
        what = "the state of the stack holds no kubeconfig"
        return None, [Finding(Level.UNKNOWN, "kubernetes", what, "its cluster could not be looked at", "`pulumi up`")]
    return gather(kubeconfig, kubernetes_server)


def _subject(stack: str | None, config_file: Path | None) -> tuple[Subject, str | None]:
    """Return what a stack says of its pools, and where its settings say that its API is reached."""
    which = [*(["--stack", stack] if stack else []), *(["--config-file", str(config_file)] if config_file else [])]
    try:
        settings = settings_of(pulumi("config", "--json", "--show-secrets=false", *which))
    except ValueError:
        raise RollError("hybrid-talos:settings is no JSON") from None
    connect_to = settings.cluster.endpoints.kubernetes
    return subject(settings, read_state(export_state(stack))), connect_to


def _shown(findings: Sequence[Finding], console: Console) -> None:
    last = None
    for one in findings:
        if one.pool != last:
            console.print(f"[bold]{escape(one.pool)}[/bold]")
            last = one.pool
        style = _STYLES[one.level]
        console.print(f"  [{style}]{one.level.value:<8}[/{style}] {one.topic}: {escape(one.line)}", soft_wrap=True)


def _summary(findings: Sequence[Finding], names: Sequence[str]) -> Mapping[str, Any]:
    # A pod that no pool would take keeps none of them from growing for others.
    stopped = {one.pool for one in findings if one.level is Level.STOPS and one.topic != "pending"}
    unknown = {one.pool for one in findings if one.level is Level.UNKNOWN}
    answers: Callable[[str], str] = lambda name: (  # noqa: E731
        "no" if {name, CLUSTER} & stopped else "unknown" if {name, CLUSTER} & unknown else "yes"
    )
    return {name: answers(name) for name in sorted(names)}


@app.command(help=__doc__)
def main(
    stack: Annotated[str | None, typer.Option(help="Name of the stack. Default: the selected one.")] = None,
    pool: Annotated[
        list[str] | None, typer.Option(help="Look at this pool only, such as azure/workers. Repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    config_file: Annotated[
        Path | None, typer.Option(help="The stack's configuration, where it lies elsewhere.")
    ] = None,
    kubernetes_server: Annotated[
        str | None, typer.Option(help="An https://host:port to connect to in place of the kubeconfig's server.")
    ] = None,
) -> None:
    """Say why each pool would or would not scale."""
    try:
        found, connect_to = _subject(stack, config_file)
    except (RollError, StateError, SettingsError) as error:
        typer.echo(f"doctor: {error}", err=True)
        raise typer.Exit(2) from None
    known = sorted({one.name for one in found.pools} | {one.pool for one in found.findings if one.pool != CLUSTER})
    names = sorted(set(pool or known))
    strange = sorted(set(names) - set(known))
    if strange:
        typer.echo(f"doctor: there is no pool {strange[0]}; expected one of {', '.join(known) or 'none'}", err=True)
        raise typer.Exit(2)
    notes = Console(stderr=True)
    with notes.status("asking the cluster and the clouds"):
        findings = look(found, names, kubernetes_server or connect_to)
    scales = _summary(findings, names)
    if as_json:
        typer.echo(json.dumps({"scales": scales, "findings": [one.as_dict() for one in findings]}, indent=2))
    else:
        console = Console(highlight=False)
        _shown(findings, console)
        for name, answer in scales.items():
            console.print(f"{escape(name)} would scale: [bold]{answer}[/bold]")
    raise typer.Exit(status(findings))


if __name__ == "__main__":
    app()
