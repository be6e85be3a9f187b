"""``python -m stacks.roll azure/workers --stack prod``: replace a pool's machines of an older image or configuration.

Takes everything from the stack: its settings, its pools as the last `pulumi up` has made them, and its kubeconfig. The
state is read through a pipe; nothing secret is written anywhere.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from hybrid_talos.work_provider import WorkError
from hybrid_talos.worker_roll_work import Pool, pool_of

from .rolls import aliyun_props, azure_props
from .settings import Settings, SettingsError, load
from .settings_pools import Rolling

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_SECRET = "1b47061264138c4ac30d75fd1eb44270"
_SIGNATURE = "4dabf18193072939515e22adb298388d"
"""Marks of a secret in an exported state (pulumi sdk/go/common/resource/sig.go)."""
_TOKENS = {"azure": "hybrid-talos:index:AzureWorkerPool", "aliyun": "hybrid-talos:index:AliyunWorkerPool"}
_GROUPS = {"azure": "scaleSetId", "aliyun": "scalingGroupId"}


class RollError(Exception):
    """A roll that cannot begin; the message says why and what to do."""


def pulumi(*words: str) -> Any:
    """Return what a command of the Pulumi CLI prints as JSON."""
    command = shutil.which("pulumi")
    if command is None:
        raise RollError("there is no pulumi on PATH")
    run = subprocess.run([command, *words], capture_output=True, text=True, check=False)
    if run.returncode:
        raise RollError(f"`pulumi {words[0]} {words[1]}` ended with {run.returncode}: {run.stderr.strip()[-500:]}")
    try:
        return json.loads(run.stdout)
    except ValueError:
        raise RollError(f"`pulumi {words[0]} {words[1]}` printed no JSON") from None


def settings_of(config: Mapping[str, Any]) -> Settings:
    """Return the settings in what `pulumi config --json` prints."""
    kind = config.get("hybrid-talos:stack", {}).get("value", "")
    found = config.get("hybrid-talos:settings", {})
    document = found.get("objectValue")
    if document is None:
        document = json.loads(found.get("value") or "{}")
    return load(kind, document)


def props_of(
    settings: Settings, state: Mapping[str, Any], name: str, kubernetes_server: str | None = None
) -> dict[str, Any]:
    """Return the properties of the roll of one pool, such as `azure/workers`."""
    cloud, _, pool = name.partition("/")
    known = sorted(pools_of(settings))
    if name not in known:
        raise RollError(
            f"there is no pool {name}; expected one of {', '.join(known) or 'none: the stack has no pools'}"
        )
    made = next(
        (
            resource.get("outputs") or {}
            for resource in _resources(state)
            if resource["type"] == _TOKENS[cloud] and resource["urn"].rpartition("::")[2] == f"{cloud}-{pool}"
        ),
        {},
    )
    group, stamp = _plain(made.get(_GROUPS[cloud])), _plain(made.get("templateHash"))
    if not group or not stamp:
        raise RollError(f"the stack has no pool {name} yet, or one of an older version: run `pulumi up` first")
    kubeconfig = next(
        (
            _plain((resource.get("inputs") or {}).get("kubeconfig"))
            for resource in _resources(state)
            if resource["type"] == "pulumi:providers:kubernetes"
        ),
        None,
    )
    if not kubeconfig:
        raise RollError("the state of the stack holds no kubeconfig: run `pulumi up` first")
    return {
        **pools_of(settings)[name],
        "group": group,
        "stamp": stamp,
        "kubeconfig": kubeconfig,
        "kubernetes_server": kubernetes_server,
        "on_up": True,
    }


def pools_of(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return what the settings say of each pool's roll, by the pool's name."""
    found: dict[str, dict[str, Any]] = {}
    if settings.azure is not None:
        for pool in settings.azure.pools:
            found[f"azure/{pool.name}"] = azure_props(settings.azure, pool, pool.rolling or Rolling())
    if settings.aliyun is not None:
        for group in settings.aliyun.pools:
            found[f"aliyun/{group.name}"] = aliyun_props(settings.aliyun, group, group.rolling or Rolling())
    return found


def _resources(state: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    # What is to be deleted is no longer the stack's.
    found: Sequence[Mapping[str, Any]] = (state.get("deployment") or {}).get("resources") or ()
    return (resource for resource in found if not resource.get("delete"))


def _plain(value: Any) -> str | None:
    """Return a text of the state, which is marked where it is a secret."""
    if isinstance(value, Mapping) and value.get(_SIGNATURE) == _SECRET:
        plain = value.get("plaintext")
        value = json.loads(plain) if isinstance(plain, str) else None
    return value if isinstance(value, str) else None


def roll(pool: Pool, *, only_list: bool) -> None:
    """List or replace one pool's stale nodes, and say so."""
    found = pool.found()
    for name in found["stale"]:
        typer.echo(f"{pool.rule.pool}: {name} is of an older image or configuration")
    if only_list:
        if not found["stale"]:
            typer.echo(f"{pool.rule.pool}: no stale nodes")
        return
    for name in pool.update():
        typer.echo(f"{pool.rule.pool}: {name} has the pool's newest model")
    gone = pool.roll()
    typer.echo(f"{pool.rule.pool}: {len(gone)} machines replaced" if gone else f"{pool.rule.pool}: nothing to replace")


@app.command()
def main(
    names: Annotated[list[str], typer.Argument(help="Pools, such as azure/workers.")],
    stack: Annotated[str | None, typer.Option(help="Name of the stack. Default: the selected one.")] = None,
    only_list: Annotated[bool, typer.Option("--list", help="List stale nodes and change nothing.")] = False,
    max_surge: Annotated[int | None, typer.Option(min=0, help="Instead of the settings' own.")] = None,
    max_unavailable: Annotated[int | None, typer.Option(min=0, help="Instead of the settings' own.")] = None,
    kubernetes_server: Annotated[
        str | None, typer.Option(help="An https://host:port to connect to in place of the kubeconfig's server.")
    ] = None,
) -> None:
    """Replace machines of an older image or configuration, one by one; run it again after a failure to go on."""
    which = ["--stack", stack] if stack else []
    try:
        settings = settings_of(pulumi("config", "--json", "--show-secrets=false", *which))
        state = pulumi("stack", "export", "--show-secrets", *which)
        for name in names:
            props = props_of(settings, state, name, kubernetes_server)
            props |= {} if max_surge is None else {"max_surge": max_surge}
            props |= {} if max_unavailable is None else {"max_unavailable": max_unavailable}
            if props["max_surge"] + props["max_unavailable"] == 0:
                raise RollError("--max-surge and --max-unavailable are both 0: no machine could ever be replaced")
            with pool_of(props, lambda line: typer.echo(line, err=True)) as pool:
                roll(pool, only_list=only_list)
    except (RollError, SettingsError, WorkError) as error:
        typer.echo(f"roll: {error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    app()
