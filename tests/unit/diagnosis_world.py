"""A cluster with one pool in each cloud, in which nothing is in the way: what tests of findings break."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

import yaml

from stacks.diagnosis.examine import examine
from stacks.diagnosis.facts import Cluster, Group, Machine, Pool, Quota
from stacks.diagnosis.finding import Finding, Level

NOW = 1_800_000_000.0
RENEWED = "2027-01-15T08:00:00.000000Z"
"""That very moment."""
SET = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/virtualMachineScaleSets/workers"
AZURE, ALIYUN = "azure/workers", "aliyun/workers"
AZURE_ID, ALIYUN_ID = f"azure://{SET}/virtualMachines/0", "cn-hangzhou.i-abc"
STAMP = "1" * 16


def node(name: str, provider_id: str, pool: str, **labels: str) -> dict[str, Any]:
    own = {"hybrid-talos.dev/pool": pool, "hybrid-talos.dev/template": STAMP, "example.com/a": pool}
    return {
        "metadata": {
            "name": name,
            "labels": {**own, **labels} if pool else {},
            "annotations": {
                "kilo.squat.ai/endpoint": "192.0.2.1:51820",
                "kilo.squat.ai/internal-ip": "10.0.0.1/32",
                "kilo.squat.ai/key": "key",
                "kilo.squat.ai/wireguard-ip": "10.4.0.1/16",
                "kilo.squat.ai/last-seen": str(int(NOW) - 20),
                "kilo.squat.ai/location": pool or "rack",
            },
        },
        "spec": {"providerID": provider_id},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"osImage": "Talos (v1.14.0)"},
        },
    }


def deployment(cloud: str, nodes: str) -> dict[str, Any]:
    name = f"autoscaler-{cloud}"
    provider = {"azure": "azure", "aliyun": "alicloud"}[cloud]
    args = [
        *(f"--cloud-provider={provider}", f"--nodes={nodes}", f"--leader-elect-resource-name={name}"),
        f"--status-config-map-name={name}-status",
    ]
    container = {"image": "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1", "args": args}
    return {
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"replicas": 1, "template": {"spec": {"serviceAccountName": name, "containers": [container]}}},
        "status": {"readyReplicas": 1},
    }


def status_map(cloud: str, group: str, **group_changes: Any) -> dict[str, Any]:
    document = {
        "time": "2027-01-15 08:00:00.123 +0000 UTC",
        "autoscalerStatus": "Running",
        "clusterWide": {"health": {"status": "Healthy"}, "scaleUp": {"status": "NoActivity"}},
        "nodeGroups": [
            {
                "name": group,
                "health": {"status": "Healthy"},
                "scaleUp": {"status": "NoActivity", "backoffInfo": {}},
                **group_changes,
            }
        ],
    }
    return {
        "metadata": {"name": f"autoscaler-{cloud}-status", "namespace": "kube-system"},
        "data": {"status": yaml.safe_dump(document)},
    }


def lease(cloud: str) -> dict[str, Any]:
    return {
        "metadata": {"name": f"autoscaler-{cloud}", "namespace": "kube-system"},
        "spec": {"holderIdentity": f"autoscaler-{cloud}-abc", "renewTime": RENEWED},
    }


def pod(name: str = "waits", **spec: Any) -> dict[str, Any]:
    """Return a pod that the scheduler has found no node for."""
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [{"name": "one"}], **spec},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        },
    }


def pool(cloud: str, **changes: Any) -> Pool:
    is_azure = cloud == "azure"
    value = "azure-workers" if is_azure else "alibaba.workers"
    made = Pool(
        name=f"{cloud}/workers",
        cloud=cloud,
        group=SET if is_azure else "asg-1",
        group_name="workers" if is_azure else "asg-1",
        least=0,
        most=3,
        labels={"hybrid-talos.dev/pool": value, "example.com/a": value},
        taints=("example.com/t=v:NoSchedule",) if is_azure else (),
        label=value,
        stamp=STAMP,
        sizes=("Standard_D2s_v3",) if is_azure else ("ecs.g7.large",),
        where={} if is_azure else {"region": "cn-hangzhou"},
    )
    return replace(made, **changes)


def group(of: Pool, **changes: Any) -> Group:
    is_azure = of.cloud == "azure"
    made = Group(
        size=1,
        machines=(Machine(AZURE_ID if is_azure else ALIYUN_ID),),
        labels=dict(of.labels),
        taints=of.taints if is_azure else None,
        least=of.least,
        most=of.most,
        quotas=(Quota("cores of standardDSv3Family", 10, 100, 2),) if is_azure else (),
        stock={} if is_azure else {"ecs.g7.large in cn-hangzhou-h": "in stock"},
    )
    return replace(made, **changes)


class Scene:
    """The world, to be broken."""

    def __init__(self) -> None:
        self.pools = {name: pool(name.partition("/")[0]) for name in (AZURE, ALIYUN)}
        self.groups = {name: group(one) for name, one in self.pools.items()}
        self.cluster = Cluster(
            version="v1.36.3",
            now=NOW,
            nodes=[
                node("cp-1", "talos://metal/192.0.2.11", ""),
                node("azure-0", AZURE_ID, "azure-workers"),
                node("alibaba-0", ALIYUN_ID, "alibaba.workers"),
            ],
            deployments=[deployment("azure", "0:3:workers"), deployment("aliyun", "0:3:asg-1")],
            daemon_sets=[{"spec": {"template": {"spec": {"containers": [{"image": "docker.io/squat/kilo:0.7.0"}]}}}}],
            leases=[lease("azure"), lease("aliyun")],
            maps=[status_map("azure", "workers"), status_map("aliyun", "asg-1")],
            denied={"kube-system/autoscaler-azure": (), "kube-system/autoscaler-aliyun": ()},
        )
        self.cluster = deepcopy(self.cluster)

    def change_pool(self, name: str, **changes: Any) -> None:
        self.pools[name] = replace(self.pools[name], **changes)

    def change_group(self, name: str, **changes: Any) -> None:
        self.groups[name] = replace(self.groups[name], **changes)

    def change_cluster(self, **changes: Any) -> None:
        self.cluster = replace(self.cluster, **changes)

    def nodes(self) -> Mapping[str, dict[str, Any]]:
        return {one["metadata"]["name"]: one for one in self.cluster.nodes}  # type: ignore[misc]

    def findings(self) -> list[Finding]:
        return examine(list(self.pools.values()), self.groups, self.cluster)

    def bad(self) -> list[Finding]:
        return [one for one in self.findings() if one.level is not Level.FINE]
