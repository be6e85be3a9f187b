"""The work of KubernetesUpgrade: all of Kubernetes is brought to a version by talosctl, one minor at a time."""

from pulumi.dynamic import DiffResult

from . import life_plan, life_props
from .cluster_work import Cluster, Etcd, healthy_member, look_at_etcd, take_snapshot
from .life_props import Properties
from .talos_calls import KubernetesImages, TalosError
from .work_provider import WorkError, is_unknown


def check(news: Properties) -> dict[str, str]:
    """Return what is wrong with the inputs."""
    return life_props.check_machine(news)


def planned(olds: Properties, news: Properties) -> tuple[Properties, dict[str, str]]:
    """Return the inputs with the plan in words, and why a step is refused; both show in a preview."""
    news["plan"] = olds.get("plan", "")
    if not olds or is_unknown(news.get("version")) or olds["version"] == news["version"]:
        return news, {}
    old, new = str(olds["version"]), str(news["version"])
    news["plan"] = f"Kubernetes {old} -> {new}: control planes one after the other, then every kubelet"
    problem = life_plan.kubernetes_step_problem(old, new) or life_props.tool_problem(new)
    if problem:
        return news, {"version": problem}
    return news, life_props.snapshot_problem({**news, "role": "controlplane"})


def diff(olds: Properties, news: Properties) -> DiffResult:
    """Any change is recorded; only another version is work."""
    return life_props.recorded(olds, news, ignored=("plan",))


def create(props: Properties) -> tuple[str, Properties]:
    """Do nothing: a cluster is born with its version."""
    return "kubernetes-upgrade", props


def read(props: Properties) -> Properties:
    """Return the resource as it is: a refresh touches no machine."""
    return props


def update(olds: Properties, news: Properties) -> Properties:
    """Bring Kubernetes to its version."""
    if olds["version"] != news["version"]:
        with life_props.cluster_of(news) as cluster:
            images = KubernetesImages({str(k): str(v) for k, v in (news.get("images") or {}).items()})
            upgrade(cluster, str(news["version"]), images, news.get("kubernetes_server"))
    return news


def delete(_props: Properties) -> None:
    """Do nothing: what runs goes on running."""


def _settled(cluster: Cluster) -> Etcd:
    """Wait until etcd is whole, or it is plain that the cluster was never started; return etcd as it is then."""
    found: list[Etcd] = []
    unborn_since: float | None = None

    def ill() -> str | None:
        nonlocal unborn_since
        found.append(look_at_etcd(cluster))
        etcd = found[-1]
        if etcd.born:
            unborn_since = None
            return etcd.problem or life_plan.whole_problem(etcd.voters)
        unborn_since = cluster.clock() if unborn_since is None else unborn_since
        # Those that never answer in all of the time that a reboot takes are no members that only restart.
        return etcd.unborn_but("") if cluster.clock() < unborn_since + cluster.limits.lost else None

    cluster.wait("Kubernetes must not be upgraded now", cluster.limits.gate, ill)
    return found[-1]


def upgrade(cluster: Cluster, version: str, images: KubernetesImages, server: str | None) -> str:
    """Bring Kubernetes to a version; return what was done. Killed at any point, the next call goes on."""
    etcd = _settled(cluster)
    if not etcd.born:
        return "the cluster was not started yet"
    take_snapshot(cluster, etcd)
    cluster.say(f"upgrading Kubernetes to {version}")
    failure: TalosError | None = None
    try:
        cluster.talos.upgrade_kubernetes(
            healthy_member(cluster, etcd), version, images, server, cluster.limits.kubernetes, cluster.say
        )
    except TalosError as error:
        failure = error
    if failure is not None:
        raise WorkError(
            f"Kubernetes was not upgraded to {version}: {failure}. Next: run `pulumi up` again once the cause is gone: "
            "what is upgraded already is not touched again"
        )
    # talosctl itself has waited for each part, kubelets among them.
    return f"upgraded Kubernetes to {version}"
