"""Programs with one ClusterAutoscaler, and what they register."""

import pulumi
import pytest
from hybrid_talos._contract import BadInputs
from hybrid_talos.cluster_autoscaler import ClusterAutoscaler
from pool_recorder import is_secret, run

GROUP_ID = "/subscriptions/11111111-1111-1111-1111-111111111111/resourceGroups/demo-workers"
SECRET = "Marker8Q~client-secret"


def group(name, cloud="azure", least=0, most=10):
    return {"cloud": cloud, "name": name, "min_size": least, "max_size": most, "labels": {"a": "b"}, "taints": []}


def azure(**changes):
    return {
        "subscription_id": "11111111-1111-1111-1111-111111111111",
        "tenant_id": "22222222-2222-2222-2222-222222222222",
        "resource_group_name": pulumi.Output.from_input("demo-workers"),
        "resource_group_id": pulumi.Output.from_input(GROUP_ID),
        "location": "westeurope",
        "client_id": "33333333-3333-3333-3333-333333333333",
        "client_secret": pulumi.Output.secret(SECRET),
        **changes,
    }


def aliyun(**changes):
    return {
        "region": "cn-hangzhou",
        "access_key_id": "LTAIexample",
        "access_key_secret": pulumi.Output.secret(SECRET),
        **changes,
    }


def on_azure(name="autoscaler", groups=None, cloud=None, **changes):
    def program():
        made = ClusterAutoscaler(
            name,
            {
                "kubernetes_version": "1.36.3",
                "node_groups": groups or {"workers": pulumi.Output.from_input(group("workers-vmss"))},
                "azure": cloud or azure(),
                **changes,
            },
        )
        return {"name": made.deployment_name, "groups": made.node_groups, "command": made.role_command}

    return run(program)


def on_aliyun(name="autoscaler", groups=None, cloud=None, **changes):
    def program():
        made = ClusterAutoscaler(
            name,
            {
                "kubernetes_version": "1.36.3",
                "node_groups": groups or {"workers": pulumi.Output.from_input(group("asg-1", "aliyun", 0, 5))},
                "aliyun": cloud or aliyun(),
                **changes,
            },
        )
        return {"name": made.deployment_name, "groups": made.node_groups, "command": made.role_command}

    return run(program)


def opened(value):
    """Return a value without the mark of a secret."""
    return value["value"] if is_secret(value) else value


def template(recorder):
    return opened(recorder.one("-deployment").inputs["spec"])["template"]


def pod(recorder):
    return template(recorder)["spec"]


def container(recorder):
    return pod(recorder)["containers"][0]


def environment(made):
    found = {}
    for one in container(made)["env"]:
        source = one.get("valueFrom", {}).get("secretKeyRef")
        found[one["name"]] = (source["name"], source["key"]) if source else one["value"]
    return found


def refusal(**changes):
    args = {"kubernetes_version": "1.36.3", "node_groups": {"w": group("vmss")}, "azure": azure(), **changes}
    with pytest.raises(BadInputs) as caught:
        run(lambda: ClusterAutoscaler("scaler", {key: one for key, one in args.items() if one is not None}) and None)
    return str(caught.value)
