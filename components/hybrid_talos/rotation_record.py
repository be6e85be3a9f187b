"""The work of RotationRecord: seeing that all machines took a stage, and recording it as complete."""

from pulumi.dynamic import DiffResult

from . import life_props, rotation
from .cluster_work import Cluster
from .life_props import Properties
from .rotation import TALOS, TOKENS
from .talos_calls import Machine, Talos, TalosError
from .talosctl_api import TalosctlApi
from .work_provider import WorkError


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    return life_props.check_machine(news)


def planned(olds: Properties, news: Properties) -> tuple[Properties, dict[str, str]]:
    """Return why a stage cannot follow the one that is complete; a preview shows it."""
    old, new = rotation.steps_of(olds.get("steps")), rotation.steps_of(news["steps"])
    problems = [
        problem for part in sorted(new) if (problem := rotation.step_problem(part, old[part], new[part])) is not None
    ]
    return news, {"rotation": "; ".join(problems)} if problems else {}


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Any change is recorded."""
    return life_props.recorded(olds, news)


def create(props: Properties) -> tuple[str, Properties]:
    """See that all machines took the first stage."""
    _complete({}, props)
    return "rotation-record", props


def read(props: Properties) -> Properties:
    """Return the record: a refresh touches no machine."""
    return props


def update(olds: Properties, news: Properties) -> Properties:
    """See that all machines took the stage."""
    _complete(olds, news)
    return news


def delete(_props: Properties) -> None:
    """Do nothing."""


def _complete(olds: Properties, news: Properties) -> None:
    old, new = rotation.steps_of(olds.get("steps")), rotation.steps_of(news["steps"])
    if old == new:
        return
    with life_props.cluster_of(news) as cluster:
        if old[TALOS] != new[TALOS]:
            credentials = {key: str(news["check_configuration"][key]) for key in life_props.CREDENTIALS}
            taken(cluster, TalosctlApi(credentials, cluster.members), [Machine.of(m) for m in news["machines"]])
        if new[TOKENS].stage == "finish" and old[TOKENS] != new[TOKENS]:
            # The set that it stood in is dropped now; what was recorded in the stage before tells.
            forget_token(cluster, str(olds.get("old_token") or ""), str(news["token"]))


def taken(cluster: Cluster, talos: Talos, machines: list[Machine]) -> None:
    """Wait until all ``machines`` answer ``talos``, whose credentials are those of the new authority."""

    def problem() -> str | None:
        silent: list[str] = []
        for machine in machines:
            try:
                talos.version(machine)
            except TalosError as error:
                silent.append(f"{machine.name} does not answer the new credentials ({error})")
        return "; ".join(silent) or None

    try:
        cluster.wait("rotation of the Talos authority", cluster.limits.health, problem)
    except WorkError as error:
        raise WorkError(f"{error}. Next: see that the machines run, then run `pulumi up` again") from None


def forget_token(cluster: Cluster, old: str, new: str) -> None:
    """Delete the old bootstrap token from Kubernetes."""
    if not old or old == new:
        return

    def problem() -> str | None:
        try:
            with cluster.nodes() as nodes:
                nodes.forget_token(old)
        except WorkError as error:
            return str(error)
        return None

    cluster.wait("the old bootstrap token should be deleted", cluster.limits.lost, problem)
